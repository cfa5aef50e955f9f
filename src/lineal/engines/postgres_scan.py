"""A scan of the PostgreSQL engine: a cursor of the server in one snapshot, read in batches of bounded size.

What must be found is asked in the same snapshot: the session's head and how many rows stand. A scan that reaches the head must
end with the head's row, one of a log without holes must find each seq, one of the whole log as many rows as stand (E4).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.numeric import Int8

from lineal.engines import Row
from lineal.engines.postgres_schema import blob, row_of
from lineal.engines.postgres_server import Connection, Connections, translated
from lineal.errors import Corrupt

FIRST_ROWS = 64
MOST_ROWS = 1000
BATCH_BYTES = 4 << 20  # what one batch aims at; a scan that is no longer than this has given its connection back when it begins


class Scan:
    """An iterator over rows. Its connection goes back when the last batch was fetched; closed or forgotten, it is cut at once."""

    def __init__(
        self,
        connections: Connections,
        db: Connection,
        statements: Mapping[str, sql.Composed],
        asked: str,
        session: str,
        bounds: tuple[int, int],
        kinds: Sequence[str] | None,
    ):
        self._connections, self._db = connections, db
        self._asked, self._session, self._bounds, self._whole = asked, session, bounds, kinds is None
        self._batch: deque[tuple[Any, ...]] = deque()
        self._fetched = self._bytes = 0
        self._last = bounds[0]
        self._open = True
        arguments = {
            "name": blob(session), "after": Int8(bounds[0]), "until": Int8(bounds[1]),
            "every": kinds is None, "kinds": [blob(kind) for kind in kinds or ()],
        }  # fmt: skip
        with db.pipeline():
            db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            standing = db.execute(statements["head"], arguments, binary=True)
            db.execute(statements["scan"], arguments)
            first = db.execute(_fetch(FIRST_ROWS), binary=True)
        self._head, self._standing = standing.fetchone() or (0, 0)
        self._take(first.fetchall(), FIRST_ROWS)
        while self._open and self._bytes < BATCH_BYTES and self._fetched < 2 * MOST_ROWS:
            self._fetch_more()

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        if not self._batch and self._open:
            try:
                self._fetch_more()
            except psycopg.Error as e:
                self.close()
                raise translated(e, self._connections.address, self._asked, self._session, self._last + 1) from e
        if not self._batch:
            self._end()
            raise StopIteration
        row = row_of(self._session, self._batch.popleft())
        self._last = row.seq
        return row

    def close(self) -> None:
        """Yield nothing more. The connection is cut, because that needs no answer and no lock: this may run whenever memory is freed."""
        self._batch.clear()
        self._whole = False
        self._bounds = (0, 0)
        if self._open:
            self._open = False
            self._connections.cut(self._db)

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self.close()

    def _fetch_more(self) -> None:
        average = self._bytes // max(self._fetched, 1) + 200
        count = max(1, min(MOST_ROWS, BATCH_BYTES // average))
        self._take(self._db.execute(_fetch(count), binary=True).fetchall(), count)

    def _take(self, records: list[tuple[Any, ...]], asked: int) -> None:
        self._batch.extend(records)
        self._fetched += len(records)
        self._bytes += sum(len(record[5]) for record in records)
        if len(records) < asked:
            self._db.execute("COMMIT")
            self._open = False
            self._connections.give_back(self._db)

    def _end(self) -> None:
        after, until = self._bounds
        last = min(until, self._head)
        if not self._whole or last <= after:
            return
        if until >= self._head and self._last != self._head:
            raise self._short(f"rows up to seq {self._head}", f"none behind seq {self._last}")
        if self._standing == self._head:
            expected = last - after
        elif after == 0 and until >= self._head:
            expected = self._standing
        else:
            return
        if self._fetched != expected:
            raise self._short(f"{expected} rows in ({after}, {last}]", f"{self._fetched}")

    def _short(self, expected: str, found: str) -> Corrupt:
        return Corrupt(self._session, self._last + 1, expected, found, "rows are missing in the table")


def _fetch(count: int) -> sql.Composed:
    return sql.SQL("FETCH FORWARD {} FROM scan").format(count)
