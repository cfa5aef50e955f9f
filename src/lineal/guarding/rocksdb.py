"""Keys and values of a RocksDB store: a prefix, or a whole column family, read to the iterator's own last word.

A store in another process, or in none, is opened as a *secondary*, through links to its files: that takes no lock, and writes
nothing beside the store. What is read is the state at the moment of opening. A store that is open in this process is read
through a snapshot of it.

A block that fails its checksum ends an iterator as an empty rest would: only `status` tells, so it is asked at the end, always.

Only the process that compacts knows its compactions. Of another one the folder tells: a table that is newer than all that are
part of the store is being written, by a compaction or a flush; if nobody holds the store, its writer died, and the table was
never made part of it.
"""

from __future__ import annotations

import json
import re
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

CACHE_BYTES = 8 << 20
TRIES = 5  # at opening a store whose owner removes files meanwhile
_RESTORE = "restore a backup; the message names the file"
_MARK = b"EVENT_LOG_v1 "


@contextmanager
def source(url: str, asked: Asked) -> Iterator[RocksSource]:
    """The store in the folder that `url` names: `rocksdb:///relative`, `rocksdb:////absolute`. `table` is a column family."""
    _refuse(asked)
    folder, _ = folder_of(url)
    if not (folder / "CURRENT").is_file():
        raise Unavailable(f"store {url!r}", f"{str(folder)!r} is no RocksDB store: it has no file CURRENT", "name the folder of one")
    _refuse_log_elsewhere(folder)
    with tempfile.TemporaryDirectory(prefix="lineal-guard-") as beside:
        db, family = _opened(folder, Path(beside), url, asked.table or "default")
        try:
            column = db if family == "default" else db.get_column_family(family)
            yield RocksSource(column, column, str(folder), family, asked, lambda: _looked_up(folder, db))
        finally:
            db.close()


def _opened(folder: Path, beside: Path, url: str, table: str) -> tuple[Any, str]:
    """(store, column family), opened by links to its files: the library leaves a file of its own in the folder that it opens.

    A live owner may remove a file between the listing and the opening; then the folder is listed again.
    """
    for tries_left in reversed(range(TRIES)):
        place = beside / f"links-{tries_left}"
        place.mkdir()
        for path in folder.iterdir():
            if not path.name.startswith(("LOG", "LOCK", "rocksdict")):
                (place / path.name).symlink_to(path.absolute())
        try:
            families = rocksdict.Rdict.list_cf(str(place), _options(beside))
            family = chosen_table(url, families, table)
            columns = {name: _options(beside) for name in families}
            return rocksdict.Rdict(str(place), _options(beside), columns, rocksdict.AccessType.secondary(str(beside))), family
        except Exception as e:
            if type(e) is not Exception:  # rocksdict's own are of no class of their own
                raise
            if not tries_left or "No such file" not in str(e):
                raise _failure(repr(str(folder)), e) from e
    raise AssertionError("the last try raises")


def _refuse_log_elsewhere(folder: Path) -> None:
    """What stands only in a write-ahead log in another folder would be missed in silence."""
    newest = max(folder.glob("OPTIONS-*"), key=lambda path: path.name, default=None)
    found = re.search(r"^\s*wal_dir=(.+)$", newest.read_text(errors="replace"), re.MULTILINE) if newest else None
    if (
        found
        and (elsewhere := Path(found[1].strip())).is_dir()
        and elsewhere.resolve() != folder.resolve()
        and any(elsewhere.glob("*.log"))
    ):
        raise usage(
            "log_elsewhere", f"the write-ahead log of {str(folder)!r} is in {str(elsewhere)!r}.", "give the store open in this process"
        )


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


def _options(log: Path) -> Any:
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(False)
    options.set_max_open_files(-1)  # a file that a live owner removes stays readable to whoever has it open
    options.set_db_log_dir(str(log))
    tables = rocksdict.BlockBasedOptions()  # in this much memory, whatever the store is large
    tables.set_block_cache(rocksdict.Cache(CACHE_BYTES))
    tables.set_cache_index_and_filter_blocks(True)
    options.set_block_based_table_factory(tables)
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
        iterator = self.view.iter()
        if self.prefix:
            iterator.seek(self.prefix)
        else:
            iterator.seek_to_first()
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
            raise _failure(f"{self.shape.place!r}, " + (f"behind key {shown(last)!r}" if last else "at the first key"), e) from e

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


def _failure(where: str, error: Exception) -> Exception:
    """What the engine said, with the names of its files, not of the links to them."""
    said = re.sub(r"\S*/links-\d+/", "", str(error))
    if said.startswith("Corruption"):
        return ForeignDamage(f"RocksDB store {where}", "a record", said, _RESTORE)
    return Unavailable(f"RocksDB store {where}", said, "check the folder, and who may read it; a live store may have moved on: ask again")


# --- is a compaction running? ----------------------------------------------------------------------------------------


def _asked(db: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    count = db.property_int_value("rocksdb.num-running-compactions") or 0
    note = "RocksDB, open in this process: read through a snapshot"
    return ((f"{count} running compactions",) if count else ()), (note,)


def _looked_up(folder: Path, db: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(running, notes) of a store that another process holds, or none.

    Two witnesses: tables in the folder that are newer than all that are part of the store, and the store's own LOG, which its
    owner writes some seconds late.
    """
    holder = _holder(folder)
    live = {int(re.sub(r"\D", "", str(file["name"]))) for file in db.live_files()}
    unborn = sorted(path.name for path in folder.glob("*.sst") if path.stem.isdigit() and int(path.stem) > max(live, default=0))
    seen = [f"compaction job {job} is in the LOG, its end is not" for job in _open_jobs(folder / "LOG")]
    seen += [f"{name} is no part of the store" for name in unborn]
    how = "RocksDB, opened as a secondary: the state of one moment"
    if holder is None:
        return (), (how, *(f"{what}: its process died over it" for what in seen))
    return tuple(f"{what}: process {holder} is at it" for what in seen), (how, f"process {holder} holds the store")


def _open_jobs(log: Path) -> list[int]:
    """Compactions that the LOG saw begin and not end; the LOG is read as a stream."""
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
        return []
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
