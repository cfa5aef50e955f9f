"""The open RocksDB of a process: how it is opened, what is refused of it, and reads that say how they ended."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import rocksdict as rocks

from lineal.engines.held import Place, replace_file
from lineal.engines.rocksdb_rows import FORMAT, FORMAT_KEY, NUMBER_KEY, Keys, number, numbered
from lineal.errors import Corrupt, LinealError, Unavailable

MADE = "lineal.rocksdb"  # written once the store is whole: where it stands, nothing is ever made anew


class Database:
    """The open database of this process, the scans that read from it, and the numbers of sessions that were erased under one."""

    def __init__(self, path: str, options: rocks.Options):
        self.db = rocks.Rdict(path, options)
        self.scans: weakref.WeakSet[Any] = weakref.WeakSet()
        self.owed: set[int] = set()

    def erase(self, session_number: int) -> None:
        """Leave no older value of this session in any file. Under the writer's lock."""
        keys, thorough = Keys(session_number), rocks.CompactOptions()
        thorough.set_bottommost_level_compaction(rocks.BottommostLevelCompaction.force())
        self.db.flush(True)
        self.db.compact_range(keys.prefix, keys.end, thorough)
        (self.owed.add if self.scans else self.owed.discard)(session_number)

    def close(self) -> None:
        for scan in list(self.scans):
            scan.close()
        try:
            for session_number in sorted(self.owed):
                self.erase(session_number)
        finally:
            self.db.close()


def open_database(place: Place, there: bool) -> Database:
    """Raises `Corrupt` where the store stood and has lost what RocksDB would quietly make anew."""
    names = {entry.name for entry in os.scandir(place.path)}
    if there and ("CURRENT" not in names or not any(name.endswith(".log") for name in names)):
        lost = "CURRENT" if "CURRENT" not in names else "its log"
        raise Corrupt("", 0, f"a lineal store in {place.path}", f"none of {lost}", "lost file")
    with errors_of(f"open {place.path}"):
        store = Database(place.path, _options(place, make=not there))
    try:
        with errors_of(f"open {place.path}"):
            _judge(place, store.db, there)
    except BaseException:
        with suppress(Exception):  # the first error is the one to tell
            store.close()
        raise
    return store


def _judge(place: Place, db: rocks.Rdict, there: bool) -> None:
    data = value_of(db, FORMAT_KEY)
    found = None if data is None else numbered(data)
    if found is not None and found > FORMAT:
        raise Unavailable(f"store {place.path} of format {found}", f"this version reads format {FORMAT}", "upgrade lineal")
    if there and found is None:
        raise Corrupt("", 0, f"format 1 to {FORMAT} in {place.path}", "none", "lost file")
    if not there:
        if value_of(db, NUMBER_KEY) is not None:
            raise Corrupt("", 0, f"the file {MADE} beside a store in {place.path}", "none", "lost file")
        durably = rocks.WriteOptions()
        durably.sync = True
        db.put(FORMAT_KEY, number(FORMAT), durably)
        try:
            replace_file(os.path.join(place.path, MADE), f"lineal store, RocksDB, format {FORMAT}\n".encode())
        except OSError as e:
            raise Unavailable(f"store {place.path}", e, "check the disk, then try again") from e


def _options(place: Place, make: bool) -> rocks.Options:
    options = rocks.Options(raw_mode=True)
    options.create_if_missing(make)
    options.set_paranoid_checks(True)
    options.set_wal_recovery_mode(rocks.DBRecoveryMode.tolerate_corrupted_tail_records())  # any other mode takes a flipped bit for the end
    options.set_compression_type(getattr(rocks.DBCompressionType, place.chosen["compression"])())
    options.set_keep_log_file_num(2)
    options.set_write_buffer_size(16 << 20)
    return options


@contextmanager
def errors_of(asked: str, session: str = "", seq: int = 0) -> Iterator[None]:
    """Inside, every error of RocksDB leaves as `Corrupt` or `Unavailable` (E9). `asked` says what was wanted of which store."""
    try:
        yield
    except (LinealError, StopIteration, GeneratorExit, AssertionError):
        raise
    except rocks.DbClosedError as e:
        raise Unavailable(asked, e, "open the store again") from e
    except Exception as e:
        if type(e) is not Exception:  # the library raises nothing more exact than `Exception`; anything else is a mistake of ours
            raise
        said = str(e)
        if said.startswith("Corruption") or "No such file" in said:
            raise Corrupt(session, seq, "blocks and files as they were written", f"{said} ({asked})", "damaged file") from e
        remedy = "free disk space" if "No space" in said else "check the disk"
        raise Unavailable(asked, said, f"{remedy}, close the store and open it again") from e


def value_of(db: Any, key: bytes) -> bytes | None:
    """Of the database or of a snapshot."""
    if isinstance(db, rocks.Rdict):
        found: bytes | None = db.get(key)
        return found
    it = db.iter()  # a snapshot's own lookup tells an absent key from a failure by words only
    it.seek(key)
    if it.valid() and it.key() == key:
        value: bytes = it.value()
        return value
    it.status()
    return None


def walk(db: Any, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Pairs with `first <= key < end`; an end that the library did not mean raises."""
    it = db.iter()
    it.seek(first)
    while it.valid() and it.key() < end:
        yield it.key(), it.value()
        it.next()
    it.status()


def size_of(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # a table that a compaction has just replaced
        return 0
