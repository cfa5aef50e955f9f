"""RocksDB in a directory: one write batch an append, synced before it returns; one process at a time.

Who may do what at once: the handles of one process share one open database (`held`), any number of threads read, each
scan from a snapshot of its own, and one writes. A second process waits, then is refused by name.

RocksDB's iterators end in silence at a block they cannot read, so that every read here asks the iterator's `status()` at
its end; and what must stand is kept beside the rows (`standing`), so that a scan knows the next seq that is due.
A log whose last record is cut off is taken for one whose process was killed there; any other damage of it refuses the
store. What a cut log lost only an anchor file can tell (R60).

Erasing for good (E6): the erased rows are written again without content, then everything is flushed and the session's
keys are compacted down to the last level, which leaves no older value in any file. A scan that is open keeps the values
it may still read: `status()["erasure"]` tells, and the compaction is done again by the last handle that closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import rocksdict as rocks

from lineal.engines import Duplicate, Row, refuse_unless_following
from lineal.engines.held import Held, Place, hold, locate, ready, release
from lineal.engines.rocksdb_database import MADE, Database, errors_of, open_database, size_of, value_of, walk
from lineal.engines.rocksdb_rows import (
    MOST,
    NUMBER_KEY,
    Keys,
    carried,
    name_key,
    number,
    numbered,
    packed,
    packed_meta,
    unpacked,
    unpacked_meta,
)  # fmt: skip
from lineal.engines.sqlite_rows import text
from lineal.engines.standing import Expected, Standing
from lineal.errors import Conflict, Corrupt, Unavailable

OPTIONS = {"compression": ("lz4", "none", "zstd")}
CHUNK_ROWS = 500  # rows that one batch of a deletion takes at most


class RocksEngine:
    """A handle on one directory. Threads may share it."""

    name = "rocksdb"

    def __init__(self, place: Place, held: Held[Database], sync: bool):
        self.path, self._place, self._held, self._closed = place.path, place, held, False
        self._durably = rocks.WriteOptions()
        self._durably.sync = sync

    synced = True  # of a write, before it returns; a subclass that says otherwise keeps no promise, and the sync probe says so

    @classmethod
    def open(cls, url: str, create: bool = True) -> RocksEngine:
        """The store in the directory that `url` names: `rocksdb:///relative` or `rocksdb:////absolute`.

        Options after `?`: `wait=seconds` for another process that holds it (10), `compression=lz4|none|zstd` of what is
        written from now on, `mount=any`. Raises `Unavailable` or `Corrupt`.
        """
        place = locate(url, "rocksdb", OPTIONS)
        there = ready(place, MADE, create)
        return cls(place, hold(place, lambda: open_database(place, there)), cls.synced)

    # --- the port ----------------------------------------------------------------------------------------------------

    def append(self, session: str, expected_seq: int, rows: Sequence[Row]) -> None:
        refuse_unless_following(expected_seq, rows)
        with self._writing("append", session) as db:
            found, standing, latched = self._session(db, session)
            if standing.head != expected_seq:
                raise Conflict(session, expected_seq, standing.head)
            if not rows:
                return
            self._refuse_duplicates(db, session, found, expected_seq, rows)
            batch = rocks.WriteBatch(raw_mode=True)
            keys = Keys(found or self._new_session(db, batch, session))
            for row in rows:
                batch.put(keys.entry(row.seq), packed(row))
                for key, mark in carried(row):
                    batch.put(keys.lookup(key) + number(row.seq), mark)
            batch.put(keys.meta, packed_meta(session, replace(standing, head=rows[-1].seq), latched))
            db.write(batch, self._durably)

    def _refuse_duplicates(self, db: rocks.Rdict, session: str, found: int, expected_seq: int, rows: Sequence[Row]) -> None:
        batch: dict[str, int] = {}
        for row in rows:
            if row.unique is not None:
                seq = batch.get(row.unique) or (self._unique_holder(db, Keys(found), row.unique) if found else 0)
                if seq:
                    raise Duplicate(session, expected_seq, seq, row.unique)
                batch[row.unique] = row.seq

    @staticmethod
    def _unique_holder(db: rocks.Rdict, keys: Keys, key: str) -> int:
        prefix = keys.lookup(key)
        return next((numbered(k) for k, mark in walk(db, prefix, prefix + number(MOST)) if mark), 0)

    def scan(self, session: str, after: int = 0, until: int | None = None, kinds: Sequence[str] | None = None) -> Iterator[Row]:
        """One snapshot, taken now. It is held until the iterator ends, is closed, or is forgotten."""
        with self._reading("scan", session) as store:
            snapshot = store.db.snapshot()
            found, standing, _ = self._session(snapshot, session)
            scan = _Scan(snapshot, session, Keys(found), standing, after, until, kinds, self._asked("scan", session))
            store.scans.add(scan)
            return scan

    def find(self, session: str, key: str, limit: int | None = None) -> list[Row]:
        with self._reading("find", session) as store:
            snapshot = store.db.snapshot()
            found, _, _ = self._session(snapshot, session)
            prefix = Keys(found).lookup(key)
            carriers = [numbered(k) for k, _ in walk(snapshot, prefix, prefix + number(MOST))] if found else []
            return [self._row(snapshot, session, found, seq) for seq in carriers[::-1][:limit]]

    def _row(self, db: Any, session: str, found: int, seq: int) -> Row:
        data = value_of(db, Keys(found).entry(seq))
        if data is None:
            raise Corrupt(session, seq, "the row that the index names", "none", "missing row")
        return unpacked(session, seq, data)

    def delete(self, session: str, seqs: Iterable[int], content_only: bool = False) -> None:
        going = [seq for seq in seqs if 0 < seq <= MOST]
        for first in range(0, len(going), CHUNK_ROWS):
            with self._writing("erase" if content_only else "delete", session) as db:
                found, standing, latched = self._session(db, session)
                chunk = [seq for seq in dict.fromkeys(going[first : first + CHUNK_ROWS]) if seq in standing]
                batch = rocks.WriteBatch(raw_mode=True)
                for seq in chunk:
                    row = self._row(db, session, found, seq)
                    if content_only:
                        batch.put(Keys(found).entry(seq), packed(replace(row, salt=b"", body=b"")))
                        continue
                    batch.delete(Keys(found).entry(seq))
                    for key, _ in carried(row):
                        batch.delete(Keys(found).lookup(key) + number(seq))
                if chunk and not content_only:
                    self._set_session(db, batch, session, found, standing.without(chunk), latched)
                if chunk:
                    db.write(batch, self._durably)
        if content_only:
            with self._writing("erase for good", session) as db:
                found, _, _ = self._session(db, session)
                if found:
                    self._held.store.erase(found)

    def put_state(self, session: str, seq: int, data: bytes) -> None:
        with self._writing("put_state", session) as db:
            found, standing, latched = self._session(db, session)
            batch = rocks.WriteBatch(raw_mode=True)
            if not found:
                found = self._new_session(db, batch, session)
                batch.put(Keys(found).meta, packed_meta(session, standing, latched))
            batch.put(Keys(found).state(seq), data)
            db.write(batch, self._durably)

    def state(self, session: str, at: int | None = None) -> tuple[int, bytes] | None:
        with self._reading("state", session) as store:
            found, _, _ = self._session(store.db, session)
            bound = min(MOST if at is None else at, MOST)
            if not found or bound < 0:
                return None
            it = store.db.iter()
            it.seek_for_prev(Keys(found).state(bound))
            if it.valid() and it.key().startswith(Keys(found).states):
                return numbered(it.key()), it.value()
            it.status()
            return None

    def states(self, session: str) -> list[int]:
        with self._reading("states", session) as store:
            found, _, _ = self._session(store.db, session)
            return [numbered(key) for key, _ in walk(store.db, Keys(found).states, Keys(found).states_end)] if found else []

    def delete_states(self, session: str, seqs: Iterable[int]) -> None:
        going = [seq for seq in seqs if 0 <= seq <= MOST]
        with self._writing("delete_states", session) as db:
            found, standing, latched = self._session(db, session)
            if found and going:
                batch = rocks.WriteBatch(raw_mode=True)
                for seq in going:
                    batch.delete(Keys(found).state(seq))
                db.write(batch, self._durably)
                batch = rocks.WriteBatch(raw_mode=True)
                self._set_session(db, batch, session, found, standing, latched)
                db.write(batch, self._durably)

    def latch(self, session: str, reason: str | None) -> None:
        with self._writing("latch", session) as db:
            found, standing, _ = self._session(db, session)
            if found or reason is not None:
                batch = rocks.WriteBatch(raw_mode=True)
                self._set_session(db, batch, session, found or self._new_session(db, batch, session), standing, reason)
                db.write(batch, self._durably)

    def latched(self, session: str) -> str | None:
        with self._reading("latched", session) as store:
            return self._session(store.db, session)[2]

    def sessions(self) -> list[str]:
        with self._reading("sessions", "") as store:
            snapshot = store.db.snapshot()
            names = [text(key[1:]) for key, _ in walk(snapshot, b"N", b"O")]
            return sorted(name for name in names if self._session(snapshot, name)[1].head)

    def status(self) -> dict[str, Any]:
        with self._reading("status", "") as store:
            owed = f"open scans kept {len(store.owed)} sessions' erased values: close them, and the store" if store.owed else "complete"
            return {
                "engine": self.name,
                "path": self.path,
                "bytes": sum(size_of(file) for file in Path(self.path).iterdir()),
                "durable": self._durably.sync,
                "compression": self._place.chosen["compression"],
                "tables": len(store.db.live_files()),
                "compactions_running": store.db.property_int_value("rocksdb.num-running-compactions"),
                "handles": self._held.handles,
                "erasure": owed,
            }

    def check(self) -> list[str]:
        """Every block is read and its checksum tested; then names, numbers, seqs and index are held against each other."""
        from lineal.engines.rocksdb_check import check

        with self._reading("check", "") as store:
            return check(store.db.snapshot())

    def compact(self) -> None:
        """Merge everything down to the last level, which drops what was deleted. Reads and appends go on meanwhile. For an operator."""
        with self._reading("compact", "") as store:
            store.db.flush(True)
            store.db.compact_range(None, None)

    def close(self) -> None:
        """Let go; the last handle of the process closes the database. Idempotent. A forked child leaves its parent's open."""
        if not self._closed:
            self._closed = True
            with errors_of(self._asked("close", "")):
                release(self._held)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _asked(self, what: str, session: str) -> str:
        return f"{what} in session {session!r} of {self.path}" if session else f"{what} of {self.path}"

    @contextmanager
    def _reading(self, what: str, session: str) -> Iterator[Database]:
        asked = self._asked(what, session)
        if self._closed:
            raise Unavailable(asked, "the store was closed", "open it again")
        self._held.refuse_if_forked(asked)
        with errors_of(asked, session):
            yield self._held.store

    @contextmanager
    def _writing(self, what: str, session: str) -> Iterator[rocks.Rdict]:
        with self._reading(what, session) as store, self._held.writing(self._asked(what, session)):
            yield store.db

    @staticmethod
    def _session(db: Any, session: str) -> tuple[int, Standing, str | None]:
        """Its number (0: there is none), what stands of it, and why it is latched."""
        data = value_of(db, name_key(session))
        if data is None:
            return 0, Standing(), None
        found = numbered(data)
        meta = value_of(db, Keys(found).meta)
        if meta is None:
            raise Corrupt(session, 0, f"what is kept of session number {found}", "nothing", "missing session")
        name, standing, latched = unpacked_meta(meta)
        if name != session:
            raise Corrupt(session, 0, f"session number {found} to be {session!r:.60}", f"{name!r:.60}", "exchanged session")
        return found, standing, latched

    @staticmethod
    def _new_session(db: rocks.Rdict, batch: rocks.WriteBatch, session: str) -> int:
        found = numbered(value_of(db, NUMBER_KEY) or number(0)) + 1
        batch.put(NUMBER_KEY, number(found))
        batch.put(name_key(session), number(found))
        return found

    @staticmethod
    def _set_session(db: rocks.Rdict, batch: rocks.WriteBatch, session: str, found: int, standing: Standing, latched: str | None) -> None:
        """What stands now; a session of which nothing is left is forgotten."""
        keys = Keys(found)
        if standing.head or latched is not None or next(walk(db, keys.states, keys.states_end), None):
            batch.put(keys.meta, packed_meta(session, standing, latched))
        else:
            batch.delete(keys.meta)
            batch.delete(name_key(session))


class _Scan:
    """An iterator over one snapshot. Closed, or when its store is, it lets go of it."""

    def __init__(
        self,
        snapshot: rocks.Snapshot,
        session: str,
        keys: Keys,
        standing: Standing,
        after: int,
        until: int | None,
        kinds: Sequence[str] | None,
        asked: str,
    ):
        self._session, self._keys, self._kinds, self._asked = session, keys, kinds, asked
        self._expected = Expected(session, standing, after, until)
        self._seen = min(max(after, 0), MOST)
        self._end = keys.entry(min(max(MOST if until is None else until, 0), MOST) + 1)
        self._it: rocks.RdictIter | None = snapshot.iter()
        self._it.seek(keys.entry(self._seen + 1))
        self._ended = False

    def __iter__(self) -> _Scan:
        return self

    def __next__(self) -> Row:
        while True:
            row = self._next()
            if self._kinds is None or row.kind in self._kinds:
                return row

    def _next(self) -> Row:
        it = self._it
        if it is None:
            if self._ended:
                raise StopIteration
            raise Unavailable(self._asked, "the scan was closed, or its store", "open the store and scan again")
        with errors_of(self._asked, self._session, self._seen + 1):
            if not it.valid() or it.key() >= self._end:
                it.status()
                self._expected.ended()
                self._it, self._ended = None, True
                raise StopIteration
            seq, data = numbered(it.key()), it.value()
            self._expected.came(seq)
            self._seen = seq
            it.next()
        return unpacked(self._session, seq, data)

    def close(self) -> None:
        self._it = None
