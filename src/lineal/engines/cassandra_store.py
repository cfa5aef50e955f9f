"""The open tables of the Cassandra-format engine: the library's handle, what is kept of each session, flush, merge, rewrite."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cqlite

from lineal.engines import Row
from lineal.engines import cassandra_files as files
from lineal.engines import cassandra_rows as cql
from lineal.engines.cassandra_files import Manifest
from lineal.engines.held import replace_file
from lineal.engines.standing import Standing
from lineal.errors import Corrupt, LinealError, Unavailable

FLUSH_BYTES = 4 << 20  # kept in memory, and in the commit log, before they become a table
STAMPS = 1 << 36  # timestamps that one opening may use


@dataclass
class Kept:
    """What is in memory of one session. `fresh`: rows that are only in the commit log yet; a state of None is in the tables."""

    standing: Standing = field(default_factory=Standing)
    latched: str | None = None
    uniques: dict[str, int] = field(default_factory=dict)
    carriers: dict[str, list[int]] = field(default_factory=dict)
    fresh: dict[int, Row] = field(default_factory=dict)
    states: dict[int, bytes | None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.standing.head or self.states or self.latched is not None)

    def add(self, row: Row) -> None:
        self.fresh[row.seq] = row
        self.index(row.seq, row.unique, row.keys)

    def index(self, seq: int, unique: str | None, keys: Sequence[str]) -> None:
        if unique is not None:
            self.uniques[unique] = seq
        for key in {*keys, unique} - {None}:
            self.carriers.setdefault(str(key), []).append(seq)

    def drop(self, seqs: Sequence[int]) -> None:
        gone = set(seqs)
        self.uniques = {key: seq for key, seq in self.uniques.items() if seq not in gone}
        left = {key: [seq for seq in carriers if seq not in gone] for key, carriers in self.carriers.items()}
        self.carriers = {key: carriers for key, carriers in left.items() if carriers}
        for seq in gone:
            self.fresh.pop(seq, None)


class Tables:
    """One open store. Whoever uses it holds its lock. After a write that failed it answers reads, and writes no more."""

    def __init__(self, root: Path, manifest: Manifest):
        self.root, self.manifest = root, manifest
        self.sessions: dict[str, Kept] = {}
        self.scans: weakref.WeakSet[Any] = weakref.WeakSet()
        self.unflushed = 0
        self.failed: object = None
        self._stamp = manifest.stamp
        self._db = self._library(manifest.folder)

    @classmethod
    def open(cls, root: Path, there: bool) -> Tables:
        with errors_of(f"open {root}"):
            manifest = files.prove(root, files.read(root) if there else files.begin(root))
            replace_file(str(root / "schema.cql"), cql.SCHEMA.encode())
            store = cls(root, manifest)
            try:
                store.manifest = replace(manifest, stamp=manifest.stamp + STAMPS).write(root)
                store._db.flush_run()
                store._settle()
                store._load()
            except BaseException:
                with suppress(Exception):  # the first error is the one to tell
                    store._db.close()
                raise
            return store

    def _library(self, folder: str) -> cqlite.Database:
        place = self.root / folder
        return cqlite.open(place / "data", schema=self.root / "schema.cql", writable=True, write_dir=place)

    def _load(self) -> None:
        """Read every row's place and keys. Rows beyond the head, and those that were dropped, are none."""
        self.sessions = {}
        stands: dict[str, Standing] = {}
        for record in self._db.execute_streaming(cql.SELECT_ALL):
            session = cql.text_in(record["session"])
            kept = self.sessions.setdefault(session, Kept())
            if session not in stands:
                stands[session] = kept.standing = cql.standing_in(session, record["standing"])
                kept.latched = None if record["latched"] is None else cql.text_in(record["latched"], session)
            seq = record["seq"]
            if seq is None:
                continue
            if record["part"] == cql.STATE:
                kept.states[seq] = None
            elif seq in kept.standing:
                unique, *keys = (None if record[c] is None else cql.text_in(record[c], session) for c in ("uniq", "key1", "key2"))
                kept.index(seq, unique, [key for key in keys if key is not None])
        self.sessions = {name: kept for name, kept in self.sessions.items() if kept}

    # --- sessions ----------------------------------------------------------------------------------------------------

    def session(self, name: str) -> Kept:
        """What is kept of it; a new session is remembered once something of it is written."""
        return self.sessions.get(name) or self._new(name)

    def _new(self, name: str) -> Kept:
        self._draft = (name, Kept())
        return self._draft[1]

    def written(self, name: str, size: int) -> None:
        draft = getattr(self, "_draft", None)
        if name not in self.sessions and draft and draft[0] == name:
            self.sessions[name] = draft[1]
        self.unflushed += size

    def forget_if_empty(self, name: str) -> None:
        if name in self.sessions and not self.sessions[name]:
            del self.sessions[name]

    # --- reading and writing -----------------------------------------------------------------------------------------

    def stream(self, session: str, statement: str) -> Iterator[Any]:
        """Records of the tables, which are as the manifest says. They stay the same whatever is flushed or merged meanwhile."""
        files.refuse_if_changed(self.root, self.manifest, session)
        found: Iterator[Any] = self._db.execute_streaming(statement)
        return found

    def stamp(self) -> int:
        self._stamp += 1
        return self._stamp

    def write(self, session: str, statements: Sequence[str]) -> None:
        """Each is in the commit log, synced, when the next begins."""
        if self.failed is not None:
            raise Unavailable(f"write into {self.root}", f"a write before it failed: {self.failed}", "close the store and open it again")
        try:
            for statement in statements:
                self._db.execute(statement)
        except Exception as e:
            self.failed = e
            raise

    def flush_if_due(self) -> bool:
        due = self.unflushed >= FLUSH_BYTES
        if due:
            self.flush()
        return due

    def flush(self) -> None:
        """What is in the commit log becomes a table."""
        self._guarded(self._db.flush_run)
        self._settle()

    def _settle(self, merging: bool | None = None) -> None:
        """The manifest as the files are now; the library's reader, and what is in memory, likewise."""
        found = files.current(self.root, self.manifest)
        merges = self.manifest.merging if merging is None else merging
        if (found, merges) != (self.manifest.files, self.manifest.merging):
            self.manifest = replace(self.manifest, files=found, merging=merges).write(self.root)
        self._db.refresh()
        self.unflushed = 0
        for kept in self.sessions.values():
            kept.fresh = {}
            kept.states = dict.fromkeys(kept.states)

    def maintain(self, budget_ms: int) -> bool:
        """One slice of merging. The manifest says that a merge is under way before a file of it can be gone."""
        if not self.manifest.merging:
            self.manifest = replace(self.manifest, merging=True).write(self.root)
        report = self._guarded(lambda: self._db.maintenance_step(budget_ms))
        if report.completed_merges or not report.pending_compaction:
            self._settle(merging=report.pending_compaction)
        return bool(report.pending_compaction)

    def rewrite(self) -> None:
        """Everything into a new folder, without what was erased or dropped. Until the manifest changes over, the old one counts."""
        self.flush()
        files.refuse_if_changed(self.root, self.manifest, "")
        folder = f"t{int(self.manifest.folder[1:]) + 1}"
        files.make_folder(self.root / folder)
        new = self._library(folder)
        try:
            self._copy(new)
            new.flush_run()
        finally:
            new.close()
        old, self.manifest = self.manifest, replace(self.manifest, folder=folder, files={}, merging=False)
        self.manifest = replace(self.manifest, files=files.current(self.root, self.manifest)).write(self.root)
        self._db.close()
        self._db = self._library(folder)
        shutil.rmtree(self.root / old.folder)
        self._settle()

    def _copy(self, new: cqlite.Database) -> None:
        stamp, size = self.stamp(), 0
        for session, kept in self.sessions.items():
            for seq in kept.states:
                for record in self.stream(session, cql.select_state(session, seq)):
                    new.execute(cql.insert_state(session, seq, cql.plain(record["body"]), stamp))
                    size += len(record["body"])
            for record in self.stream(session, cql.select_entries(session, 0, kept.standing.head)):
                if record["seq"] in kept.standing:
                    new.execute(cql.insert_entry(session, cql.row_in(session, record["seq"], record), stamp))
                    size += len(record["body"] or b"")
                if size >= FLUSH_BYTES:
                    new.flush_run()
                    size = 0
            new.execute(cql.commit(session, kept.standing, kept.latched, stamp))

    def _guarded(self, work: Any) -> Any:
        if self.failed is not None:
            raise Unavailable(f"write into {self.root}", f"a write before it failed: {self.failed}", "close the store and open it again")
        try:
            return work()
        except Exception as e:
            self.failed = e
            raise

    def check(self) -> list[str]:
        try:
            files.prove(self.root, self.manifest)
        except Corrupt as e:
            return [str(e)]
        return []

    def close(self) -> None:
        for scan in list(self.scans):
            scan.close()
        try:
            if self.failed is None:
                self.flush()
        finally:
            self._db.close()


@contextmanager
def errors_of(asked: str, session: str = "", seq: int = 0) -> Iterator[None]:
    """Inside, every error of the library leaves as `Corrupt` or `Unavailable` (E9). `asked` says what was wanted of which store."""
    try:
        yield
    except LinealError:
        raise
    except (cqlite.CqliteError, OSError, ValueError, RuntimeError) as e:
        said = str(e)
        if isinstance(e, cqlite.CqliteError) and any(word in said.lower() for word in ("crc", "checksum", "corrupt", "digest", "chunk")):
            raise Corrupt(session, seq, "tables as they were written", f"{said} ({asked})", "damaged file") from e
        remedy = "free disk space" if "No space" in said else "check the disk"
        raise Unavailable(asked, said, f"{remedy}, close the store and open it again") from e
