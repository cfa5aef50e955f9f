"""The PostgreSQL engine: many agents on many machines, one log a session.

| what may happen | what the engine does |
|---|---|
| two writers append to one session | the statement that inserts moves the head; the second one finds another head: `Conflict` (E2) |
| the answer to an append is lost | it is looked whether exactly these rows stand: then it is done; else it is tried again (E1) |
| the server restarts, or another takes over | the connection is made anew until the deadline `wait`; then `Unavailable`, with the cause |
| a server that acknowledges before it is durable | refused: `fsync` and `full_page_writes` must be on; `synchronous_commit` is set |
| a scan that is left half read | short scans are read at once; a longer one holds a connection of its own, closed when it ends |
| rows are lost at the end of a table | the head of the session says how many there are: `Corrupt`, never a shorter history (E4) |
| two processes find no tables, or old ones | migrations run under an advisory lock, each once, in one transaction |
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg import sql as names
from psycopg_pool import ConnectionPool, PoolTimeout

from lineal.engines import Duplicate, Row, refuse_unless_following
from lineal.engines import postgres_rows as sql
from lineal.engines.postgres_place import Place, located
from lineal.engines.postgres_rows import blob, columns_of, row_of, text
from lineal.errors import Conflict, Corrupt, LinealError, Unavailable

CHUNK_ROWS = 500  # rows that one transaction of `delete` takes (R37)
BATCH_BYTES = 1 << 20  # a scan asks for about so much at a time
SHORT_ROWS, MOST_ROWS = 64, 2_000
LAST_SEQ = (1 << 63) - 1
POOL_SECONDS = 0.25
NAP = 0.05  # seconds between two tries while no server answers
_DAMAGE = (pg.DataCorrupted, pg.IndexCorrupted, pg.UndefinedFile)
_GONE = (pg.AdminShutdown, pg.CrashShutdown, pg.CannotConnectNow, pg.ReadOnlySqlTransaction, pg.IdleSessionTimeout)
Connection = psycopg.Connection[Any]
T = TypeVar("T")


logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())  # what it says of a lost server stands in the error that we raise


class PostgresEngine:
    """A handle on one schema of a database. Threads may share it; so may any number of processes and machines, each with its own."""

    name = "postgresql"

    def __init__(self, place: Place):
        self._place = place
        self._process = os.getpid()
        self._closed = False
        self._erased = False
        # The deadline is kept here: a pool that waits on its own looks for a server that came back once a second at most.
        self._pool = ConnectionPool(
            place.conninfo,
            kwargs=place.options,
            configure=self._configure,
            min_size=0,
            max_size=place.pool,
            timeout=min(place.wait, POOL_SECONDS),
            reconnect_timeout=0.0,
            open=True,
        )

    @classmethod
    def open(cls, url: str, create: bool = True) -> PostgresEngine:
        """The store that `url` names: see `located` for its options. Makes and migrates the schema where `create` says so.

        Raises `Unavailable` for a server that cannot be reached, is not durable, or has no store while `create` is False.
        """
        engine = cls(located(url))
        try:
            engine._refuse_unless_durable()
            engine._migrate(create)
        except BaseException:
            engine.close()
            raise
        return engine

    @property
    def path(self) -> str:
        """The URL without its password."""
        return self._place.shown

    @staticmethod
    def grants(schema: str, role: str) -> list[str]:
        """The statements that let `role` append, read and delete in a store that another role has made; no more than that (R37)."""
        said = {"s": names.Identifier(schema), "role": names.Identifier(role)}
        return [names.SQL(line).format(**said).as_string() for line in sql.GRANTS]

    # --- the port ----------------------------------------------------------------------------------------------------

    def append(self, session: str, expected_seq: int, rows: Sequence[Row]) -> None:
        refuse_unless_following(expected_seq, rows)
        told = {"name": blob(session), "expected": expected_seq, "head": expected_seq + len(rows), **columns_of(list(rows))}
        statement = sql.APPEND if expected_seq else sql.APPEND_FIRST
        in_doubt = False

        def write(db: Connection) -> None:
            nonlocal in_doubt
            if not rows:
                return self._refuse_head(db, session, expected_seq)
            doubted, in_doubt = in_doubt, True
            try:
                written = db.execute(self._sql(statement), told).rowcount
            except pg.UniqueViolation as taken:
                self._refuse_duplicate(db, session, expected_seq, rows)
                raise Unavailable(
                    self._asked("append", session), taken, "run `lineal verify`; an index says what the table does not"
                ) from taken
            if written != len(rows) and not (doubted and self._stand(db, session, rows)):
                self._refuse_head(db, session, expected_seq)
                raise Unavailable(self._asked("append", session), "the head moved there and back", "try again")
            return None

        self._do("append", session, write)

    def _refuse_head(self, db: Connection, session: str, expected_seq: int) -> None:
        head = self._one(db, sql.HEAD, name=blob(session)) or 0
        if head != expected_seq:
            raise Conflict(session, expected_seq, head)

    def _refuse_duplicate(self, db: Connection, session: str, expected_seq: int, rows: Sequence[Row]) -> None:
        """Which key is taken, and by whom; a key that stands twice in the batch is taken by its first row."""
        taken = [row for row in rows if row.unique is not None]
        asked = {"name": blob(session), "keys": [blob(row.unique or "") for row in taken]}
        held = {text(key): seq for seq, key in db.execute(self._sql(sql.HOLDERS), asked)}
        for row in taken:
            found = held.setdefault(str(row.unique), row.seq)
            if found != row.seq:
                raise Duplicate(session, expected_seq, found, str(row.unique))

    def _stand(self, db: Connection, session: str, rows: Sequence[Row]) -> bool:
        """Whether exactly these rows are there: an append whose answer was lost was carried out."""
        found = dict(db.execute(self._sql(sql.DIGESTS), {"name": blob(session), "seqs": [row.seq for row in rows]}).fetchall())
        return found == {row.seq: row.digest for row in rows}

    def scan(self, session: str, after: int = 0, until: int | None = None, kinds: Sequence[str] | None = None) -> Iterator[Row]:
        """One statement, or one transaction, is one snapshot, taken now. A short scan is read at once and holds nothing."""
        bounds = {"after": max(after, 0), "until": LAST_SEQ if until is None else min(until, LAST_SEQ)}
        asked = {"name": blob(session), "kinds": None if kinds is None else [*map(blob, kinds)], **bounds}
        found = self._all("scan", session, sql.SCAN_SHORT, {**asked, "most": SHORT_ROWS + 1})
        batches: Iterator[list[tuple[Any, ...]]] = iter([[record[1:] for record in found if record[1] is not None]])
        head = int(found[0][0]) if found else 0
        if len(found) > SHORT_ROWS:
            reading = self._retried("scan", session, lambda: _Reading(self, session, asked))
            batches, head = reading.batches(), reading.head
        whole = kinds is None and bounds["after"] < head <= bounds["until"]
        return self._walk(session, batches, head if whole else None)

    def _walk(self, session: str, batches: Iterator[list[tuple[Any, ...]]], last: int | None) -> Iterator[Row]:
        """The rows; then the last of them is held against the head of the same snapshot, where all up to it were asked for."""
        seen = 0
        with self._errors("scan", session):
            for batch in batches:
                for record in batch:
                    row = row_of(session, record)
                    seen = row.seq
                    yield row
        if last is not None and seen != last:
            raise Corrupt(session, seen + 1, f"rows up to the head at seq {last}", f"none behind seq {seen}", "cut tail")

    def find(self, session: str, key: str, limit: int | None = None) -> list[Row]:
        asked = {"name": blob(session), "key": blob(key), "limit": limit}
        return [row_of(session, record) for record in self._all("find", session, sql.FIND, asked)]

    def delete(self, session: str, seqs: Iterable[int], content_only: bool = False) -> None:
        """In transactions short enough that others write in between. Only the last may be the one that ends the session."""
        going = iter([seq for seq in seqs if 0 <= seq <= LAST_SEQ])
        while chunk := list(islice(going, CHUNK_ROWS)):
            self._do("erase" if content_only else "delete", session, lambda db: self._drop(db, session, chunk, content_only))  # noqa: B023
        if content_only:
            self._vacuum("entries")

    def _drop(self, db: Connection, session: str, seqs: list[int], content_only: bool) -> None:
        with db.transaction():
            id = self._one(db, sql.HOLD, name=blob(session))
            if id is None:
                return
            db.execute(self._sql(sql.ERASE if content_only else sql.DROP), {"id": id, "seqs": seqs})
            if not content_only:
                db.execute(self._sql(sql.SET_HEAD), {"id": id})
                db.execute(self._sql(sql.FORGET), {"name": blob(session)})

    def put_state(self, session: str, seq: int, data: bytes) -> None:
        def put(db: Connection) -> None:
            with db.transaction():
                db.execute(self._sql(sql.ADD_SESSION), {"name": blob(session)})
                id = self._one(db, sql.HOLD, name=blob(session))
                db.execute(self._sql(sql.PUT_STATE), {"id": id, "seq": seq, "data": data})

        self._do("put_state", session, put)

    def state(self, session: str, at: int | None = None) -> tuple[int, bytes] | None:
        found = self._all("state", session, sql.STATE, {"name": blob(session), "at": LAST_SEQ if at is None else min(at, LAST_SEQ)})
        return (found[0][0], bytes(found[0][1])) if found else None

    def states(self, session: str) -> list[int]:
        return [seq for (seq,) in self._all("states", session, sql.STATES, {"name": blob(session)})]

    def delete_states(self, session: str, seqs: Iterable[int]) -> None:
        going = list(seqs)

        def drop(db: Connection) -> None:
            with db.transaction():
                db.execute(self._sql(sql.DROP_STATES), {"name": blob(session), "seqs": going})
                db.execute(self._sql(sql.FORGET), {"name": blob(session)})

        self._do("delete_states", session, drop)
        self._vacuum("states")

    def latch(self, session: str, reason: str | None) -> None:
        def mark(db: Connection) -> None:
            with db.transaction():
                if reason is not None:
                    db.execute(self._sql(sql.ADD_SESSION), {"name": blob(session)})
                db.execute(self._sql(sql.LATCH), {"name": blob(session), "reason": None if reason is None else blob(reason)})
                db.execute(self._sql(sql.FORGET), {"name": blob(session)})

        self._do("latch", session, mark)

    def latched(self, session: str) -> str | None:
        found = self._all("latched", session, sql.LATCHED, {"name": blob(session)})
        return text(found[0][0], session) if found and found[0][0] is not None else None

    def sessions(self) -> list[str]:
        return sorted(text(name) for (name,) in self._all("sessions", "", sql.SESSIONS, {}))

    def status(self) -> dict[str, Any]:
        """Facts for people. `erasure` tells where bytes that were erased may still stand."""

        def look(db: Connection) -> dict[str, Any]:
            return dict(db.execute(sql.SETTINGS).fetchall()) | {"bytes": int(self._one(db, sql.BYTES, self._place.quoted) or 0)}

        facts: dict[str, Any] = self._do("status", "", look)
        erasure = "erased bytes may stand in free space of the tables until VACUUM FULL, in the WAL and in backups" if self._erased else ""
        return {"engine": self.name, "path": self.path, "schema": self._place.schema, "durable": True, **facts, "erasure": erasure}

    def check(self) -> list[str]:
        """The tables against each other, the indexes that there must be, and all of them by `amcheck` where it is installed."""
        try:
            found: list[str] = self._do("check", "", self._check)
        except Corrupt as damage:
            return [str(damage)]
        return found

    def _check(self, db: Connection) -> list[str]:
        schema = self._place.quoted
        wrong = [
            f"session {text(name)!r}: its head is seq {head}, its newest entry is seq {last}"
            for name, head, last in db.execute(self._sql(sql.MISPLACED))
        ]
        wrong += [f"entries or states of session number {id}, which is not there" for (id,) in db.execute(self._sql(sql.ORPHANS))]
        wrong += [f"index {name} is not valid" for (name,) in db.execute(sql.INVALID, [schema])]
        there = {name for (name,) in db.execute(sql.NAMED_INDEXES, [schema])}
        wrong += [f"index {name} is not there" for name in sql.INDEXES if name not in there]
        found = db.execute(sql.AMCHECK).fetchone()
        for index in sorted(there & set(sql.INDEXES)) if found else ():
            try:
                db.execute(f"SELECT {found[0]}.bt_index_check(%s::regclass, true)", [f"{schema}.{index}"])  # type: ignore[index]
            except (pg.IndexCorrupted, pg.DataCorrupted) as damage:
                wrong.append(f"index {index}: {damage}")
            except pg.InsufficientPrivilege:
                break  # amcheck is for superusers, unless they said otherwise
        return wrong

    def close(self) -> None:
        """Let go of all connections. Idempotent. A forked child leaves its parent's alone."""
        closed, self._closed = self._closed, True
        if not closed and os.getpid() == self._process:
            self._pool.close()

    # --- opening -----------------------------------------------------------------------------------------------------

    def _refuse_unless_durable(self) -> None:
        facts = dict(self._do("open", "", lambda db: db.execute(sql.SETTINGS).fetchall()))
        off = [name for name in ("fsync", "full_page_writes") if facts.get(name) == "off"]
        if off and self._place.durable:
            cause = f"{' and '.join(off)} off: it would acknowledge what a power cut takes (E1)"
            raise Unavailable(f"store {self.path}", cause, "set it on, or say durable=any where nothing needs to last")

    def _migrate(self, create: bool) -> None:
        """Bring the schema to `FORMAT`, each migration once, whoever is first. Nothing is written where all is there already."""
        there: bool = self._do("open", "", lambda db: self._one(db, sql.THERE, f"{self._place.quoted}.migrations"))
        version = int(self._do("open", "", lambda db: self._one(db, sql.VERSION) if there else 0))
        if version == sql.FORMAT:
            return
        if version > sql.FORMAT:
            raise Unavailable(f"store {self.path}", f"its format is {version}, this lineal knows {sql.FORMAT}", "upgrade lineal")
        if not create and not version:
            raise Unavailable(
                f"store {self.path}", f"there is no store in schema {self._place.schema!r}", "check the URL, or open it with create"
            )
        self._do("migrate", "", self._make)

    def _make(self, db: Connection) -> None:
        with db.transaction():
            db.execute(sql.LOCK, [f"lineal {self._place.schema}"])
            db.execute(self._sql(sql.MARK))
            version = int(self._one(db, sql.VERSION) or 0)
            for number in range(version, sql.FORMAT):
                db.execute(self._sql(sql.MIGRATIONS[number]))
                db.execute(self._sql(sql.MIGRATED), [number + 1])

    # --- connections -------------------------------------------------------------------------------------------------

    def _configure(self, db: Connection) -> None:
        """Every new connection: a commit waits for the disk (and a synchronous standby), a lock for no longer than the deadline."""
        db.autocommit = True
        db.execute("SELECT set_config('lock_timeout', %s, false)", [f"{int(self._place.wait * 1000)}ms"])
        if self._place.durable:
            db.execute("SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'")

    def connect(self) -> Connection:
        """A connection of its own, beside the pool."""
        db = psycopg.connect(self._place.conninfo, connect_timeout=max(2, int(self._place.wait)), **self._place.options)
        self._configure(db)
        return db

    def _sql(self, statement: str) -> str:
        return statement.replace("{s}", self._place.quoted)

    def _one(self, db: Connection, statement: str, *given: Any, **named: Any) -> Any:
        found = db.execute(self._sql(statement), named or given or None).fetchone()
        return found[0] if found else None

    def _all(self, what: str, session: str, statement: str, given: dict[str, Any]) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._do(what, session, lambda db: db.execute(self._sql(statement), given, binary=True).fetchall())
        return found

    def _do(self, what: str, session: str, act: Callable[[Connection], T]) -> T:
        """`act` on a connection of the pool; on another one, if that is lost, until the deadline. `act` may be carried out twice."""

        def once() -> T:
            with self._pool.connection() as db:
                return act(db)

        return self._retried(what, session, once)

    def _retried(self, what: str, session: str, act: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._place.wait
        while True:
            self._refuse_unless_usable(what, session)
            try:
                return act()
            except (psycopg.OperationalError, pg.ReadOnlySqlTransaction) as lost:
                if not _lost(lost) or time.monotonic() >= deadline:
                    raise self._translated(lost, what, session) from lost
            except psycopg.Error as error:
                raise self._translated(error, what, session) from error
            time.sleep(NAP)
            self._pool.check()  # connections to a server that is gone, or that was promoted or demoted, are replaced

    def _refuse_unless_usable(self, what: str, session: str) -> None:
        asked = self._asked(what, session)
        if self._closed:
            raise Unavailable(asked, "the store was closed", "open it again")
        if os.getpid() != self._process:
            cause = f"it was opened by process {self._process}, this is its child {os.getpid()}"
            raise Unavailable(asked, cause, "open it again in the child")

    def _asked(self, what: str, session: str) -> str:
        return f"{what} in session {session!r} of {self.path}" if session else f"{what} of {self.path}"

    @contextmanager
    def _errors(self, what: str, session: str) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._translated(error, what, session) from error

    def _translated(self, error: Exception, what: str, session: str) -> LinealError:
        """What an error of PostgreSQL means (E9). No text of it holds the password."""
        asked = self._asked(what, session)
        said = self._place.without_password(str(error))
        if isinstance(error, _DAMAGE) or (error_code(error) == "58030"):
            return Corrupt(session, 0, "pages as they were written", f"{said} ({asked})", "damaged table")
        if isinstance(error, pg.UndefinedTable | pg.UndefinedColumn):
            return Corrupt(session, 0, "tables and columns as they were made", f"{said} ({asked})", "damaged store")
        if isinstance(error, pg.InsufficientPrivilege):
            return Unavailable(asked, said, "grant what `PostgresEngine.grants` prints, or open it once as the owner")
        if isinstance(error, pg.LockNotAvailable):
            return Unavailable(asked, f"{said}, waited {self._place.wait:.1f} s", "try again, or end the session that holds the lock")
        if isinstance(error, PoolTimeout):
            said = self._why_unreachable() or said
        return Unavailable(asked, f"{said}, waited up to {self._place.wait:.1f} s", "check that the server runs and lets this role in")

    def _why_unreachable(self) -> str:
        """The pool says only that it waited: the cause is what a connection made now says."""
        try:
            self.connect().close()
        except psycopg.Error as cause:
            return self._place.without_password(str(cause))
        return ""

    def _vacuum(self, table: str) -> None:
        """What was erased becomes free space now, not when autovacuum comes. The owner may; for others it stays as it is."""
        self._erased = True
        target = f"{self._place.quoted}.{table}"

        def clean(db: Connection) -> None:
            if self._one(db, sql.OWNS, target):
                db.execute(f"VACUUM {target}")

        self._do("vacuum", "", clean)


class _Reading:
    """A long scan: a snapshot on a connection of its own, which is closed when the scan ends or is forgotten."""

    def __init__(self, engine: PostgresEngine, session: str, asked: dict[str, Any]):
        self._db = engine.connect()
        try:
            self._db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            self.head = int(engine._one(self._db, sql.HEAD, name=blob(session)) or 0)
            self._cursor = self._db.cursor("scan", binary=True)
            self._cursor.execute(engine._sql(sql.SCAN), asked)
        except BaseException:
            self._db.close()
            raise

    def __del__(self) -> None:
        self._db.close()

    def batches(self) -> Iterator[list[tuple[Any, ...]]]:
        """The records in batches of about `BATCH_BYTES`."""
        wanted = SHORT_ROWS
        with self._db:
            while batch := self._cursor.fetchmany(wanted):
                yield batch
                size = sum(len(record[5]) + 300 for record in batch)
                wanted = min(MOST_ROWS, max(1, BATCH_BYTES * len(batch) // size))


def _lost(error: Exception) -> bool:
    """Whether the connection, not the statement, is at fault: a broken one has no code, or one of those that end it."""
    code = error_code(error)
    return isinstance(error, (*_GONE, PoolTimeout)) or code is None or code.startswith("08")


def error_code(error: Exception) -> str | None:
    return error.sqlstate if isinstance(error, psycopg.Error) else None
