"""Where a story's store lies: in memory or in a SQLite file. It can be opened by several processes, copied, and damaged.

`Aimed` is the engine of each process: one of its next writes or reads fails, however many other calls come between.
"""

from __future__ import annotations

import copy
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol

import apsw

from lineal.engines import Engine, Row
from lineal.engines.memory import MemoryEngine
from lineal.engines.sqlite import SqliteEngine
from lineal.engines.sqlite_rows import SEQ_BITS, record_of
from lineal.testing.faults import CHANGES, FaultyEngine, When
from lineal.testing.lasting import Lasting

_EDIT = 'INSERT INTO entries(id, kind, generation, size, salt, body, inner, digest, "unique", key1, key2) VALUES (?,?,?,?,?,?,?,?,?,?,?)'


class Place(Protocol):
    """What a story needs of the ground below the engine. Own engines bring their own."""

    name: str

    def open(self) -> Engine:
        """The store, as one more process would open it."""

    def copy(self) -> Place:
        """The same store a second time. Nobody writes meanwhile."""

    def edit(self, session: str, seq: int, row: Row | None) -> None:
        """Put this row at `seq`, or (None) take the row there away, behind lineal's back; indexes follow. Nobody has it open.

        Where another row has its `unique` key, it goes in without one.
        """


class InMemory:
    name = "memory"

    def __init__(self, engine: MemoryEngine | None = None):
        self._engine = engine or Lasting()

    def open(self) -> Engine:
        return self._engine

    def copy(self) -> InMemory:
        other = Lasting()
        other._logs = copy.deepcopy(self._engine._logs)
        return InMemory(other)

    def edit(self, session: str, seq: int, row: Row | None) -> None:
        log = self._engine._logs[session]
        rows = {**log.rows, seq: row and replace(row, seq=seq)}
        if row and row.unique and any(at != seq and other and other.unique == row.unique for at, other in rows.items()):
            rows[seq] = replace(row, seq=seq, unique=None)
        log.rows, log.carriers = {}, {}
        for _, left in sorted(rows.items()):
            if left is not None:
                log.add(left)


class InFile:
    name = "sqlite"

    def __init__(self, path: Path):
        self.path = path
        self._copies = 0

    def open(self) -> Engine:
        return SqliteEngine.open(str(self.path))

    def copy(self) -> InFile:
        self._copies += 1
        other = self.path.with_name(f"{self.path.stem}-{self._copies}.db")
        with closing(apsw.Connection(str(self.path))) as here, closing(apsw.Connection(str(other))) as there:
            with there.backup("main", here, "main") as backup:
                backup.step()
            there.pragma("journal_mode", "wal")
        return InFile(other)

    def edit(self, session: str, seq: int, row: Row | None) -> None:
        with closing(apsw.Connection(str(self.path))) as db:
            number = next(iter(db.execute("SELECT id FROM sessions WHERE name = ?", (session.encode(),))))[0]
            at = int(str(number)) << SEQ_BITS | seq
            db.execute("DELETE FROM entries WHERE id = ?", (at,)).fetchall()
            if row is None:
                return
            try:
                db.execute(_EDIT, (at, *record_of(b"", row)[2:])).fetchall()
            except apsw.ConstraintError:
                db.execute(_EDIT, (at, *record_of(b"", replace(row, unique=None))[2:])).fetchall()


Aim = Literal["write", "read"]


class Aimed(FaultyEngine):
    """An engine that fails at its n-th write or read from now. A story that says `write 2` means it, whatever is read before.

    `struck` is False until it has failed; `writes` counts since the last `aim` or `heal`.
    """

    def __init__(self, engine: Engine):
        super().__init__(engine)
        self._aim: tuple[Aim, int, BaseException | None, When] | None = None
        self._seen = {"write": 0, "read": 0}
        self.struck = False

    @property
    def writes(self) -> int:
        return self._seen["write"]

    def aim(self, at: Aim, n: int, error: BaseException | None = None, when: When = "before") -> None:
        """Raise `error` (an `Unavailable` if none is given) at the n-th call from now that changes something, or does not."""
        self.heal()
        self._aim = (at, n, error, when)

    def heal(self) -> None:
        super().heal()
        self._aim, self._seen, self.struck = None, {"write": 0, "read": 0}, False

    def _enter(self, method: str) -> int:
        kind: Aim = "write" if method in CHANGES else "read"
        self._seen[kind] += 1
        if self._aim and self._aim[:2] == (kind, self._seen[kind]):
            self.struck = True
            self.fail_at(len(self.calls) + 1, self._aim[2], self._aim[3])
        return super()._enter(method)
