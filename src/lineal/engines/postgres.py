"""A PostgreSQL database: one schema, one log a session, each append one statement and one commit.

The statement moves the session's row from the expected head to the new one, and the rows go in behind it. An append whose
answer was lost is resolved, not guessed, by whichever server of the list takes writes: it is asked again.

| asked again | so the first time | answer |
|---|---|---|
| the head has not moved | nothing was written | it is written now |
| the head has moved, and exactly these digests stand | it was written | a lock of the session's row is committed behind it; done |
| the head has moved, and others stand there | nothing was written | `Conflict` |

Everything else that is asked may be asked twice. A scan is the exception: its snapshot dies with its connection, so that one
which has begun to yield and loses it is `Unavailable`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import psycopg
from psycopg.types.numeric import Int8

from lineal.engines import Duplicate, Row, refuse_unless_following
from lineal.engines import postgres_schema as schema
from lineal.engines.postgres_migrations import open_schema
from lineal.engines.postgres_scan import Scan
from lineal.engines.postgres_schema import LAST_SEQ, blob, row_of, text
from lineal.engines.postgres_server import NAP_SECONDS, Connection, Connections, address_of
from lineal.engines.postgres_status import facts, found_wrong
from lineal.errors import Conflict, Corrupt, Unavailable

CHUNK_ROWS = 500  # one transaction of `delete` ends after so many seqs (R37)
T = TypeVar("T")
_ERASED = "complete in the tables; the write-ahead log, standbys and backups keep what they hold until they are recycled"


class PostgresEngine:
    """A handle on one schema of one database. Threads may share it; a forked child opens its own."""

    name = "postgresql"

    def __init__(self, connections: Connections):
        self._connections = connections
        self._address = connections.address
        self._sql = schema.statements(self._address.schema)
        self._erasure = _ERASED

    @classmethod
    def open(cls, url: str, create: bool = True) -> PostgresEngine:
        """The schema that `url` names, migrated to the newest version under a lock; one that is not there is made, with `create`.

        `postgresql://user:password@host1:port,host2:port/database?options`. Options of lineal's own: `schema=lineal`,
        `wait=10` (seconds for a lost server, and for a lock), `durable=any` (serve though what is acknowledged may be lost); all
        others are libpq's. Several hosts mean the one that takes writes. Raises `Unavailable`, `Corrupt`.
        """
        connections = Connections(address_of(url))
        try:
            open_schema(connections, create)
        except BaseException:
            connections.close()
            raise
        return cls(connections)

    @staticmethod
    def grants(role: str, schema_name: str = "lineal", write: bool = True) -> str:
        """The SQL that lets `role` append, delete and read (without `write`: only read); the owner of the schema runs it."""
        return schema.grants(role, schema_name, write)

    def __repr__(self) -> str:
        return f"<PostgresEngine {self._address.shown}>"

    # --- the port ----------------------------------------------------------------------------------------------------

    def append(self, session: str, expected_seq: int, rows: Sequence[Row]) -> None:
        refuse_unless_following(expected_seq, rows)
        if not rows:
            head = self._head(session)
            if head != expected_seq:
                raise Conflict(session, expected_seq, head)
            return
        given = schema.batch(session, expected_seq, rows)
        self._carried_out("append", session, lambda db, again: self._written(db, again, session, expected_seq, rows, given))

    def _written(self, db: Connection, again: bool, session: str, expected_seq: int, rows: Sequence[Row], given: dict[str, Any]) -> None:
        """The table at the top. `again`: an earlier try may have been carried out."""
        while True:
            db.warned = False
            try:
                done = db.execute(self._sql["append" if expected_seq else "begin"], given).fetchone()
            except psycopg.errors.UniqueViolation as e:
                if e.diag.constraint_name == "entries_pkey":
                    raise Corrupt(session, expected_seq + 1, "no row behind the head", "one", "rows beyond the head") from e
                self._refuse_duplicate(db, session, expected_seq, rows)
                continue  # whoever held the key is gone by now
            if done == (len(rows),) and not db.warned:
                return
            if done == (len(rows),) or again:
                while self._stand(db, session, expected_seq, rows):
                    if not db.warned:
                        return
                    time.sleep(NAP_SECONDS)
            head = self._value(db, "head", session) or 0
            if head != expected_seq:
                raise Conflict(session, expected_seq, head)

    def _stand(self, db: Connection, session: str, expected_seq: int, rows: Sequence[Row]) -> bool:
        """Whether exactly these rows stand, for good: whoever still writes them is waited for, and the lock is a commit of its own
        behind theirs, which a standby must confirm as it must theirs."""
        db.warned = False
        self._value(db, "lock", session)
        bounds = {"name": blob(session), "after": Int8(expected_seq), "until": Int8(expected_seq + len(rows))}
        return [digest for (digest,) in db.execute(self._sql["digests"], bounds, binary=True)] == [row.digest for row in rows]

    def _refuse_duplicate(self, db: Connection, session: str, expected_seq: int, rows: Sequence[Row]) -> None:
        batch: dict[str, int] = {}
        for row in rows:
            if row.unique is not None:
                found = batch.get(row.unique) or self._value(db, "holder", session, key=blob(row.unique))
                if found:
                    if (head := self._value(db, "head", session) or 0) != expected_seq:
                        raise Conflict(session, expected_seq, head)
                    raise Duplicate(session, expected_seq, found, row.unique)
                batch[row.unique] = row.seq

    def scan(self, session: str, after: int = 0, until: int | None = None, kinds: Sequence[str] | None = None) -> Iterator[Row]:
        """One snapshot, taken now. What is short is read at once, what is longer keeps a connection until it ends."""
        asked = self._asked("scan", session)
        bounds = (max(after, 0), LAST_SEQ if until is None else min(max(until, 0), LAST_SEQ))
        return self._carried_out(
            "scan", session, lambda db, again: Scan(self._connections, db, self._sql, asked, session, bounds, kinds), keeps=True
        )

    def find(self, session: str, key: str, limit: int | None = None) -> list[Row]:
        most = None if limit is None else Int8(limit)
        return [row_of(session, record) for record in self._ask("find", session, "find", key=blob(key), limit=most)]

    def delete(self, session: str, seqs: Iterable[int], content_only: bool = False) -> None:
        if content_only:
            self._in_chunks("erase", session, seqs, self._erased)
            self._vacuum(session)
        else:
            self._in_chunks("delete", session, seqs, self._dropped)
            self._forget(session)

    def put_state(self, session: str, seq: int, data: bytes) -> None:
        self._ask("put_state", session, "put_state", seq=Int8(seq), data=data)

    def state(self, session: str, at: int | None = None) -> tuple[int, bytes] | None:
        found = self._ask("state", session, "state", until=Int8(LAST_SEQ if at is None else min(at, LAST_SEQ)))
        return (found[0][0], found[0][1]) if found else None

    def states(self, session: str) -> list[int]:
        return [seq for (seq,) in self._ask("states", session, "states")]

    def delete_states(self, session: str, seqs: Iterable[int]) -> None:
        self._in_chunks("delete_states", session, seqs, self._dropped_states)
        self._forget(session)

    def latch(self, session: str, reason: str | None) -> None:
        if reason is None:
            self._ask("latch", session, "unlatch")
            self._forget(session)
        else:
            self._ask("latch", session, "latch", reason=blob(reason))

    def latched(self, session: str) -> str | None:
        found = self._ask("latched", session, "latched")
        return text(found[0][0], session) if found and found[0][0] is not None else None

    def sessions(self) -> list[str]:
        return sorted(text(name) for (name,) in self._ask("sessions", "", "sessions"))

    def status(self) -> dict[str, Any]:
        found = self._carried_out("status", "", lambda db, again: facts(db, self._address))
        return {"engine": self.name, "path": self._address.shown, **found, "erasure": self._erasure}

    def check(self) -> list[str]:
        """What the server can tell: missing and invalid indexes, heads and counts that are not the rows', and amcheck where installed."""
        try:
            return self._carried_out("check", "", lambda db, again: found_wrong(db, self._address.schema, self._sql))
        except Corrupt as e:
            return [str(e)]

    def close(self) -> None:
        """Let go of every connection that no scan holds. Idempotent. A forked child leaves its parent's connections alone."""
        self._connections.close()

    # --- asking ------------------------------------------------------------------------------------------------------

    def _asked(self, what: str, session: str) -> str:
        return f"{what} in session {session!r} of {self._address.shown}" if session else f"{what} of {self._address.shown}"

    def _carried_out(self, what: str, session: str, work: Callable[[Connection, bool], T], keeps: bool = False) -> T:
        return self._connections.carried_out(self._asked(what, session), work, session, keeps)

    def _ask(self, what: str, session: str, statement: str, **arguments: Any) -> list[tuple[Any, ...]]:
        """The answer to one statement that may be asked twice."""

        def work(db: Connection, again: bool) -> list[tuple[Any, ...]]:
            done = db.execute(self._sql[statement], {"name": blob(session), **arguments}, binary=True)
            return done.fetchall() if done.description else []

        return self._carried_out(what, session, work)

    def _value(self, db: Connection, statement: str, session: str, **arguments: Any) -> Any:
        found = db.execute(self._sql[statement], {"name": blob(session), **arguments}, binary=True).fetchone()
        return found[0] if found else None

    def _head(self, session: str) -> int:
        found = self._ask("append", session, "head")
        return int(found[0][0]) if found else 0

    # --- dropping and erasing ----------------------------------------------------------------------------------------

    def _in_chunks(self, what: str, session: str, seqs: Iterable[int], step: Callable[[Connection, str, list[Int8]], None]) -> None:
        """`step` for some seqs at a time, each a transaction, so that others write in between (R37)."""
        going = (Int8(seq) for seq in seqs if 0 <= seq <= LAST_SEQ)
        while chunk := list(islice(going, CHUNK_ROWS)):

            def work(db: Connection, again: bool, chunk: list[Int8] = chunk) -> None:
                with db.transaction():
                    step(db, session, chunk)

            self._carried_out(what, session, work)

    def _dropped(self, db: Connection, session: str, seqs: list[Int8]) -> None:
        self._value(db, "lock", session)
        gone = db.execute(self._sql["drop"], {"name": blob(session), "seqs": seqs}).rowcount
        if gone:
            db.execute(self._sql["dropped"], {"name": blob(session), "count": Int8(gone)})

    def _erased(self, db: Connection, session: str, seqs: list[Int8]) -> None:
        self._value(db, "lock", session)
        db.execute(self._sql["erase"], {"name": blob(session), "seqs": seqs})

    def _dropped_states(self, db: Connection, session: str, seqs: list[Int8]) -> None:
        db.execute(self._sql["drop_states"], {"name": blob(session), "seqs": seqs})

    def _forget(self, session: str) -> None:
        """A name with nothing under it goes. Locked first: what is asked next sees all that others have done under the lock."""

        def work(db: Connection, again: bool) -> None:
            with db.transaction():
                self._value(db, "lock", session)
                db.execute(self._sql["forget"], {"name": blob(session)})

        self._carried_out("forget", session, work)

    def _vacuum(self, session: str) -> None:
        """The old versions of erased rows go, if no snapshot needs them; that a role may not do it is told by `status`."""

        def work(db: Connection, again: bool) -> bool:
            db.warned = False
            db.execute(self._sql["vacuum"])
            return db.warned

        try:
            skipped = self._carried_out("vacuum after an erase", session, work)
        except Unavailable as e:
            self._erasure = f"overwritten; old versions stay in the table until VACUUM, which did not run: {e.cause}"
        else:
            self._erasure = "overwritten; old versions stay in the table until its owner runs VACUUM" if skipped else _ERASED
