"""One SQLite file: the default engine. WAL, synchronous=FULL, one transaction an append.

Who may do what at once: any number of processes and threads read; one writes, the others wait for it until a deadline
(10 s; `?wait=`). Inside a process one connection writes, under a lock; reads have connections of their own, so that a
long scan neither waits for an append nor keeps one waiting. A child made by `fork` is refused: it must open the store
again (SQLite's locks and connections do not survive a fork).

Erasing for good (E6): freed bytes are overwritten (`secure_delete`), then the file is rebuilt, because moving rows
between pages leaves old copies in the gaps of pages that `secure_delete` does not reach, and the -wal file is cut to
nothing. The rebuild is skipped above `REWRITE_LIMIT` bytes, and the cut waits for readers; `status()["erasure"]` tells.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import apsw

from lineal.engines import Duplicate, Row, refuse_unless_following
from lineal.engines import sqlite_rows as sql
from lineal.engines.sqlite_file import Patience, StoreFile, errors_of, facts, locate, open_file, translated
from lineal.engines.sqlite_rows import SEQ_MASK, blob, record_of, row_of, text
from lineal.errors import Conflict, Corrupt, Unavailable

CHUNK_ROWS = 500  # one transaction of `delete` ends after so many rows, or so much time, whichever comes first (R37)
CHUNK_SECONDS = 0.05
REWRITE_LIMIT = 1 << 30
CUT_SECONDS = 1.0  # a scan of another process may hold the -wal file for longer than anyone wants to wait
IDLE_READERS = 4


class SqliteEngine:
    """A handle on one file. Threads may share it; another process opens its own."""

    name = "sqlite"

    def __init__(self, file: StoreFile, writer: apsw.Connection):
        self._file, self._writer = file, writer
        self._lock = threading.Lock()
        self._readers: deque[apsw.Connection] = deque()
        self._process = os.getpid()
        self._identity = file.identity
        self._closed = False
        self._uncut = self._unrebuilt = False  # erased bytes may still stand in the -wal file; in gaps of the file

    @classmethod
    def open(cls, url: str, create: bool = True) -> SqliteEngine:
        """The store in the file that `url` names: a path, `sqlite:///relative.db` or `sqlite:////absolute.db`.

        Options after `?`: `checksums=1` (each page of a new file carries a checksum that is tested when it is read),
        `wait=seconds` for locks, `probe=1` (try the locks again, as for a new file), `mount=any`, `vfs=name`.
        Raises `Unavailable` or `Corrupt`: see the table in `sqlite_file`.
        """
        return cls(*open_file(locate(url), create))

    @property
    def path(self) -> str:
        return self._file.path

    # --- the port ----------------------------------------------------------------------------------------------------

    def append(self, session: str, expected_seq: int, rows: Sequence[Row]) -> None:
        refuse_unless_following(expected_seq, rows)
        name = blob(session)
        with self._writing("append", session) as db:
            if not rows:
                self._refuse_unless_head(db, session, expected_seq)
            elif expected_seq == 0:
                db.execute(sql.ADD_SESSION, (name,))
            try:
                db.executemany(sql.APPEND, (record_of(name, row) for row in rows))
            except apsw.MismatchError:
                self._refuse_unless_head(db, session, expected_seq)
                raise
            except apsw.ConstraintError:
                self._refuse_duplicate(db, session, expected_seq, rows)
                raise

    def _refuse_unless_head(self, db: apsw.Connection, session: str, expected_seq: int) -> None:
        head = _value(db, sql.HEAD, (blob(session),)) or 0
        if head != expected_seq:
            raise Conflict(session, expected_seq, head)

    def _refuse_duplicate(self, db: apsw.Connection, session: str, expected_seq: int, rows: Sequence[Row]) -> None:
        """Asked after the insert failed, in the same transaction: the rows of the batch before the failing one stand there too."""
        for row in rows:
            if row.unique is not None:
                found = _value(db, sql.HOLDER, (blob(session), blob(row.unique)))
                if found is not None and found != row.seq:
                    raise Duplicate(session, expected_seq, found, row.unique)

    def scan(self, session: str, after: int = 0, until: int | None = None, kinds: Sequence[str] | None = None) -> Iterator[Row]:
        """One statement is one snapshot, taken now. It is held until the iterator ends, is closed, or is forgotten."""
        wanted = "" if kinds is None else f"AND kind IN ({','.join('?' * len(kinds))})"
        last = SEQ_MASK if until is None else until
        bounds = (min(max(after, 0), SEQ_MASK), min(max(last, 0), SEQ_MASK))
        with errors_of(self._asked("scan", session), session, bounds[0] + 1):
            db = self._borrow("scan", session)
            try:
                cursor = db.execute(sql.SCAN % wanted, (blob(session), *bounds, *map(blob, kinds or ())))
            except BaseException:
                db.close(True)
                raise
        return self._walk(db, cursor, session, bounds[0])

    def _walk(self, db: apsw.Connection, cursor: apsw.Cursor, session: str, seen: int) -> Iterator[Row]:
        try:
            for record in cursor:
                row = row_of(session, seen + 1, record)
                seen = row.seq
                yield row
        except (apsw.Error, UnicodeDecodeError) as e:
            raise translated(e, self._asked("scan", session), session, seen + 1, 0.0) from e
        finally:
            cursor.close(True)
            self._give_back(db)

    def find(self, session: str, key: str, limit: int | None = None) -> list[Row]:
        found = self._ask("find", session, sql.FIND, blob(session), blob(key), -1 if limit is None else limit)
        return [row_of(session, record[0], record) for record in found]

    def delete(self, session: str, seqs: Iterable[int], content_only: bool = False) -> None:
        self._in_chunks("erase" if content_only else "delete", session, sql.ERASE if content_only else sql.DROP, seqs)
        if content_only:
            self._leave_no_copy(session, rewrite=True)
        else:
            self._forget(session)

    def put_state(self, session: str, seq: int, data: bytes) -> None:
        with self._writing("put_state", session) as db:
            db.execute(sql.ADD_SESSION, (blob(session),))
            db.execute(sql.PUT_STATE, (blob(session), seq, data))

    def state(self, session: str, at: int | None = None) -> tuple[int, bytes] | None:
        found = self._ask("state", session, sql.STATE, blob(session), SEQ_MASK if at is None else min(at, SEQ_MASK))
        if not found:
            return None
        seq, data = found[0]
        if not isinstance(data, bytes):
            raise Corrupt(session, seq, "the bytes of a state", f"{data!r:.60}", "damaged state")
        return seq, data

    def states(self, session: str) -> list[int]:
        return [seq for (seq,) in self._ask("states", session, sql.STATES, blob(session))]

    def delete_states(self, session: str, seqs: Iterable[int]) -> None:
        """Blanked first, then dropped: dropping moves what is left between pages, and must not move what is going."""
        going = list(seqs)
        self._in_chunks("delete_states", session, sql.BLANK_STATE, going)
        self._in_chunks("delete_states", session, sql.DROP_STATE, going)
        self._forget(session)
        self._leave_no_copy(session, rewrite=False)

    def latch(self, session: str, reason: str | None) -> None:
        with self._writing("latch", session) as db:
            if reason is not None:
                db.execute(sql.ADD_SESSION, (blob(session),))
            db.execute(sql.LATCH, (blob(session), None if reason is None else blob(reason)))
            db.execute(sql.FORGET, (blob(session),))

    def latched(self, session: str) -> str | None:
        found = self._ask("latched", session, sql.LATCHED, blob(session))
        named = not found and self._ask("latched", session, sql.NAMED, blob(session))
        if named:  # or another process has just begun it, between the two questions
            found = self._ask("latched", session, sql.LATCHED, blob(session))
        if named and not found:
            raise Corrupt(session, 0, "its name in the index of sessions", "it in their table only", "damaged file")
        return text(found[0][0], session) if found and found[0][0] is not None else None

    def sessions(self) -> list[str]:
        if self._ask("sessions", "", sql.MISNAMED):
            raise Corrupt("", 0, "the same names in the table and the index of sessions", "others", "damaged file")
        return [text(name) for (name,) in self._ask("sessions", "", sql.SESSIONS)]

    def status(self) -> dict[str, Any]:
        with errors_of(self._asked("status", "")), self._reading("status", "") as db:
            found = facts(self._file, db)
        return {"engine": self.name, "durable": True, **found, "erasure": self._erasure()}

    def check(self) -> list[str]:
        """SQLite's integrity check; with page checksums every page in use is read and tested."""
        try:
            found = [line for (lines,) in self._ask("check", "", "PRAGMA integrity_check") for line in lines.splitlines()]
        except Corrupt as e:
            return [str(e)]
        return [] if found == ["ok"] else found

    def close(self) -> None:
        """Let go; the last handle of all folds the -wal file back. Idempotent. A forked child leaves its parent's connections open."""
        if os.getpid() != self._process:
            self._closed = True
            return
        with self._lock, errors_of(self._asked("close", "")):
            if self._closed:
                return
            self._closed = True
            while self._readers:
                self._readers.pop().close()
            try:
                if self._uncut:
                    self._cut_wal()
            finally:
                self._writer.close()

    # --- connections -------------------------------------------------------------------------------------------------

    def _asked(self, what: str, session: str) -> str:
        return f"{what} in session {session!r} of {self._file.path}" if session else f"{what} of {self._file.path}"

    def _refuse_unless_usable(self, what: str, session: str) -> None:
        """Closed, forked, or the path no longer leads to the open file: an acknowledged row would not be found again (R1)."""
        asked = self._asked(what, session)
        if self._closed:
            raise Unavailable(asked, "the store was closed", "open it again")
        if os.getpid() != self._process:
            raise Unavailable(
                asked, f"it was opened by process {self._process}, this is its child {os.getpid()}", "open it again in the child"
            )
        if self._file.identity != self._identity:
            raise Unavailable(asked, "the file was moved, deleted or replaced while it was open", "close it and open it again")
        if self._file.immutable and self._file.wal_bytes:
            raise Unavailable(
                asked, "it was opened as a file that cannot change, and somebody writes to it", "read it where -shm can be made"
            )

    def _borrow(self, what: str, session: str) -> apsw.Connection:
        """A connection that only reads. It goes back by `_give_back`, or is closed after an error."""
        self._refuse_unless_usable(what, session)
        try:
            return self._readers.pop()
        except IndexError:
            return self._file.connect()

    def _give_back(self, db: apsw.Connection) -> None:
        if self._closed or len(self._readers) >= IDLE_READERS:
            db.close()
        else:
            self._readers.append(db)

    @contextmanager
    def _reading(self, what: str, session: str) -> Iterator[apsw.Connection]:
        """Closed after an error: its snapshot must not last for as long as somebody keeps the error and its traceback."""
        db = self._borrow(what, session)
        try:
            yield db
        except BaseException:
            db.close(True)
            raise
        self._give_back(db)

    def _ask(self, what: str, session: str, statement: str, *arguments: Any) -> list[Any]:
        with errors_of(self._asked(what, session), session), self._reading(what, session) as db:
            return db.execute(statement, arguments).fetchall()

    @contextmanager
    def _holding(self, what: str, session: str) -> Iterator[apsw.Connection]:
        """The writer's connection, under this process's lock."""
        asked = self._asked(what, session)
        self._refuse_unless_usable(what, session)
        if self._file.read_only:
            raise Unavailable(asked, self._file.read_only, "it can be read; to write, make the file and its directory writable")
        with errors_of(asked, session):
            if not self._lock.acquire(timeout=self._file.wait):
                raise Unavailable(asked, f"locked by another thread, waited {self._file.wait:.1f} s", "try again")
            try:
                yield self._writer
            finally:
                self._lock.release()

    @contextmanager
    def _writing(self, what: str, session: str) -> Iterator[apsw.Connection]:
        """One transaction: committed and durable on leaving, rolled back whole after any error."""
        with self._holding(what, session) as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    # --- dropping and erasing ----------------------------------------------------------------------------------------

    def _in_chunks(self, what: str, session: str, statement: str, seqs: Iterable[int]) -> None:
        """`statement` for each seq, in transactions short enough that others write in between (R37)."""
        name, going, done = blob(session), [seq for seq in seqs if 0 <= seq <= SEQ_MASK], 0
        while done < len(going):
            with self._writing(what, session) as db:
                begun = time.monotonic()
                for seq in islice(going, done, done + CHUNK_ROWS):
                    db.execute(statement, (name, seq))
                    done += 1
                    if time.monotonic() - begun > CHUNK_SECONDS:
                        break
            if done < len(going):
                time.sleep(min(time.monotonic() - begun, 2 * Patience.LONGEST_NAP))

    def _forget(self, session: str) -> None:
        with self._writing("forget", session) as db:
            db.execute(sql.FORGET, (blob(session),))

    def _leave_no_copy(self, session: str, rewrite: bool) -> None:
        """Nothing of what was erased may be left in the file's gaps (rebuild) or in the -wal file (cut)."""
        with self._holding("erase for good", session) as db:
            if rewrite:
                self._unrebuilt = self._file.bytes > REWRITE_LIMIT
                if not self._unrebuilt:
                    db.execute("VACUUM")
            self._uncut = not self._cut_wal()

    def _erasure(self) -> str:
        if self._uncut:
            return f"{self._file.path}-wal may hold erased bytes while others read: erase again, or close the store, when they have ended"
        if self._unrebuilt:
            return f"gaps in pages may hold erased bytes: above {REWRITE_LIMIT:,} bytes the file is not rebuilt; run VACUUM in a quiet hour"
        return "complete"

    def _cut_wal(self) -> bool:
        """Fold the -wal file back and cut it to nothing; False if others hold it for longer than `CUT_SECONDS`."""
        db, deadline = self._writer, time.monotonic() + CUT_SECONDS
        db.set_busy_handler(Patience(CUT_SECONDS / 5))
        try:
            while True:
                try:
                    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                    db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                    return True
                except apsw.BusyError:
                    if time.monotonic() >= deadline:
                        return False
                    time.sleep(Patience.LONGEST_NAP)
        finally:
            db.set_busy_handler(Patience(self._file.wait))


def _value(db: apsw.Connection, statement: str, arguments: tuple[Any, ...]) -> Any:
    found = db.execute(statement, arguments).fetchall()
    return found[0][0] if found else None
