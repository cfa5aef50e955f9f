"""Keys and values of a RocksDB store: a prefix, or a whole column family, read to the iterator's own last word.

A store in another process, or in none, is opened as a *secondary*: it takes no lock, and writes nothing beside the store.
What it reads is the state at the moment of opening. A store that is open in this process is read through a snapshot of it.

A block that fails its checksum ends an iterator as an empty rest would: only `status` tells, so it is asked at the end, always.

Only the process that compacts knows its compactions. Of another one the store's own LOG tells: it names each compaction as
it begins and as it ends. One that began and never ended, in a store that nobody holds, died with its process: what it wrote
was never made part of the store.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rocksdict

from lineal.errors import Unavailable
from lineal.guarding.encoding import Record, content, id_bytes, shown
from lineal.guarding.manifest import ForeignDamage
from lineal.guarding.sources import Asked, Facts, Shape, chosen_table, folder_of, usage

_RESTORE = "restore a backup; the message names the file"
_MARK = b"EVENT_LOG_v1 "


@contextmanager
def source(url: str, asked: Asked) -> Iterator[RocksSource]:
    """The store in the folder that `url` names: `rocksdb:///relative`, `rocksdb:////absolute`. `table` is a column family."""
    _refuse(asked)
    folder, _ = folder_of(url)
    if not (folder / "CURRENT").is_file():
        raise Unavailable(f"store {url!r}", f"{str(folder)!r} is no RocksDB store: it has no file CURRENT", "name the folder of one")
    with tempfile.TemporaryDirectory(prefix="lineal-guard-") as beside:
        with _told(str(folder)):
            families = rocksdict.Rdict.list_cf(str(folder), _options(beside))
            family = chosen_table(url, families, asked.table or "default")
            db = rocksdict.Rdict(
                str(folder), _options(beside), {name: _options(beside) for name in families}, rocksdict.AccessType.secondary(beside)
            )
        try:
            column = db if family == "default" else db.get_column_family(family)
            yield RocksSource(column, column, str(folder), family, asked, lambda: _from_log(folder))
        finally:
            db.close()


@contextmanager
def in_process(db: Any, asked: Asked) -> Iterator[RocksSource]:
    """A store that this process has open: an `rocksdict.Rdict` in raw mode, or a column family of one."""
    _refuse(asked)
    if not isinstance(db, rocksdict.Rdict):
        raise usage(
            "unknown_store", f"a source of type {type(db).__name__} cannot be read.", "give a URL, a path, or an open rocksdict.Rdict"
        )
    yield RocksSource(db, db.snapshot(), db.path(), asked.table or "default", asked, lambda: _asked(db))


def _refuse(asked: Asked) -> None:
    asked.refuse("RocksDB, which has keys and values only", "ids", "generation", "where")


def _options(log: str) -> Any:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(False)
    options.set_max_open_files(-1)  # a file that a live owner removes stays readable to whoever has it open
    options.set_db_log_dir(log)
    return options


class RocksSource:
    """Keys that begin with the prefix, as of one moment."""

    in_order = isolated = True

    def __init__(self, db: Any, view: Any, place: str, family: str, asked: Asked, tell: Any):
        self.db, self.view, self.tell = db, view, tell
        self.prefix = _prefix(asked.prefix)
        self.shape = Shape("rocksdb", place, family, ("key",), (("value", "bytes"),), prefix=asked.prefix)

    def records(self) -> Iterator[Record]:
        last = b""
        with _told(self.shape.place):
            iterator = self.view.iter()
            iterator.seek(self.prefix) if self.prefix else iterator.seek_to_first()
        while iterator.valid():
            key = iterator.key()
            if not isinstance(key, bytes):
                raise usage("not_raw", "the store is open with encoded keys.", "open it with Options(raw_mode=True), or give its URL")
            if not key.startswith(self.prefix):
                break
            digest, size = content((iterator.value(),))
            last = id_bytes((key,))
            yield Record(last, digest, 0, size)
            iterator.next()
        try:
            iterator.status()
        except Exception as e:  # rocksdict raises plain Exception for everything
            where = f"behind key {shown(last)!r}" if last else "at the first key"
            raise ForeignDamage(f"RocksDB store {self.shape.place!r}, {where}", "a record", str(e), _RESTORE) from e

    def facts(self) -> Facts:
        running, notes = self.tell()
        errors = self.db.property_int_value("rocksdb.background-errors") or 0
        damage = (f"the store counts {errors} background errors",) if errors else ()
        return Facts(self.db.latest_sequence_number(), running, notes, damage)


def _prefix(given: str | None) -> bytes:
    if given is None:
        return b""
    if given.startswith("0x"):
        try:
            return bytes.fromhex(given[2:])
        except ValueError:
            raise usage(
                "no_prefix", f"{given!r} begins as bytes in hex and is none.", "say 0x and pairs of hex digits, or a text"
            ) from None
    return given.encode()


@contextmanager
def _told(place: str) -> Iterator[None]:
    try:
        yield
    except Exception as e:
        if type(e) is not Exception:  # rocksdict's own are of no class of their own
            raise
        if str(e).startswith("Corruption"):
            raise ForeignDamage(f"RocksDB store {place!r}", "a store", str(e), _RESTORE) from e
        raise Unavailable(
            f"RocksDB store {place!r}", e, "check the folder, and who may read it; a live store may have moved on: ask again"
        ) from e


# --- is a compaction running? ----------------------------------------------------------------------------------------


def _asked(db: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    count = db.property_int_value("rocksdb.num-running-compactions") or 0
    note = "RocksDB, open in this process: read through a snapshot"
    return ((f"{count} compactions",) if count else ()), (note,)


def _from_log(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(running, notes) from the store's own LOG, streamed, and from who holds its lock."""
    holder, jobs = _holder(folder), _open_jobs(folder / "LOG")
    notes = ["RocksDB, opened as a secondary: the state of one moment"]
    if jobs is None:
        notes.append("no LOG: whether a compaction runs cannot be told")
        return (), tuple(notes)
    if holder is None:
        notes += [f"compaction job {job} died with its process; what it wrote is no part of the store" for job in jobs]
        return (), tuple(notes)
    return tuple(f"compaction job {job} of process {holder}" for job in jobs), (*notes, f"process {holder} holds the store")


def _open_jobs(log: Path) -> list[int] | None:
    """Compactions that the LOG saw begin and not end; None without a LOG."""
    found: dict[int, None] = {}
    try:
        with open(log, "rb") as file:
            for line in file:
                _, mark, text = line.partition(_MARK)
                if not mark or b"compaction_" not in text:
                    continue
                event = _event(text)
                if event.get("event") == "compaction_started":
                    found[int(event.get("job", 0))] = None
                elif event.get("event") == "compaction_finished":
                    found.pop(int(event.get("job", 0)), None)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise Unavailable(f"RocksDB log {str(log)!r}", e, "check who may read the folder") from e
    return [*found]


def _event(text: bytes) -> dict[str, Any]:
    """A line that its writer had no time to end is no event."""
    try:
        event = json.loads(text)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _holder(folder: Path) -> int | None:
    """The process that holds the store's lock; None if nobody does. Asked of the kernel, by the file's number.

    The lock file itself is not opened: closing it again would take the lock from a store that is open in this very process.
    """
    try:
        number = (folder / "LOCK").stat().st_ino
        with open("/proc/locks") as locks:
            held = [line.split() for line in locks if "POSIX" in line and "WRITE" in line]
    except FileNotFoundError:
        return None
    return next((int(words[4]) for words in held if words[1] == "POSIX" and words[5].rpartition(":")[2] == str(number)), None)
