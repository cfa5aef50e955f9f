"""The file under the SQLite engine: where it lies, what is in it, what is refused at the door, and what its errors mean.

| found at open | answer |
|---|---|
| no file, or an empty one | made new, unless `create` is False: then `Unavailable` |
| no file, or an empty one, beside a -wal file that holds data | `Corrupt`: entries lost their file; nothing is touched |
| not an SQLite file; cut short; malformed | `Corrupt`, untouched |
| an SQLite file of somebody else | `Unavailable`, untouched |
| a newer format | `Unavailable`, untouched |
| lineal's, but without one of its tables or indexes, or with the mark of another program | `Corrupt` |
| a file or directory that cannot be written | opened for reading; each write is `Unavailable` |

Whether pages carry checksums is a fact of the file, found in its header; the option decides for a new file only.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

import apsw

from lineal.engines.mounts import refuse_unless_locks_hold, refuse_unsafe_mount
from lineal.engines.sqlite_rows import APPLICATION_ID, FORMAT, INDEXES, SCHEMA, TABLES
from lineal.errors import Corrupt, LinealError, Unavailable

LEAST_SQLITE = (3, 51, 3)  # before it, two connections that write and checkpoint at once could damage a WAL
CHECKSUM_BYTES = 8
_DAMAGE = {apsw.SQLITE_IOERR_DATA, apsw.SQLITE_IOERR_CORRUPTFS}
_REMEDIES: tuple[tuple[type[Exception], str], ...] = (
    (apsw.FullError, "free disk space and try again; nothing of this was written"),
    (apsw.ReadOnlyError, "make the file and its directory writable, or only read"),
    (apsw.CantOpenError, "check that the file, its directory and the -wal and -shm files beside it can be read and written"),
    (apsw.PermissionsError, "check who may read and write the file"),
    (apsw.ConnectionClosedError, "open the store again"),
)


def translated(error: Exception, asked: str, session: str, seq: int, waited: float) -> LinealError:
    """What an error of SQLite means; one of decoding is a column that we cannot have written. `waited` is in seconds."""
    if isinstance(error, UnicodeDecodeError) or (
        isinstance(error, apsw.SQLError) and str(error).startswith(("no such table", "no such column"))
    ):
        return Corrupt(session, seq, "tables and columns as they were made", f"{error} ({asked})", "damaged file")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError) or getattr(error, "extendedresult", 0) in _DAMAGE:
        expected = "a lineal store" if isinstance(error, apsw.NotADBError) else "pages as they were written"
        return Corrupt(session, seq, expected, f"{error} ({asked})", "damaged file")
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Unavailable(
            asked, f"locked by another writer, waited {waited:.1f} s ({error})", "try again, or end the process that holds it"
        )
    remedy = next((text for kind, text in _REMEDIES if isinstance(error, kind)), "check the disk, then try again")
    return Unavailable(asked, error, remedy)


@contextmanager
def errors_of(asked: str, session: str = "", seq: int = 0) -> Iterator[None]:
    """Inside, every error of SQLite leaves as `Corrupt` or `Unavailable` (E9). `asked` says what was wanted of which file."""
    begun = time.monotonic()
    try:
        yield
    except (apsw.Error, UnicodeDecodeError) as e:
        raise translated(e, asked, session, seq, time.monotonic() - begun) from e


class Patience:
    """A busy handler that waits until a deadline, however many attempts that takes (R37)."""

    LONGEST_NAP = 0.01  # seconds: who pauses for twice as long lets every waiting writer in

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._deadline = 0.0

    def __call__(self, attempts: int) -> bool:
        now = time.monotonic()
        if attempts == 0:
            self._deadline = now + self.seconds
        if now >= self._deadline:
            return False
        time.sleep(min(0.001 * (attempts + 1), self.LONGEST_NAP, self._deadline - now))
        return True


SETTINGS: tuple[tuple[str, int | str], ...] = (
    ("synchronous", "FULL"),
    ("fullfsync", 1),  # where an fsync leaves the bytes in the drive's cache (macOS)
    ("checkpoint_fullfsync", 1),
    ("secure_delete", 1),
    ("cell_size_check", 1),
    ("trusted_schema", 0),
)


@dataclass(frozen=True)
class StoreFile:
    """Where a store lies and how it is opened. `read_only` is empty, or says why nothing can be written."""

    path: str
    checksums: bool = False
    wait: float = 10.0
    vfs: str = ""
    probe: bool = False
    any_mount: bool = False
    read_only: str = ""
    immutable: bool = False

    def connect(self, writer: bool = False) -> apsw.Connection:
        """A connection with every setting that the promises lean on. Raises `apsw.Error`."""
        name, flags = self.path, apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if writer else 0)
        if self.immutable:
            name, flags = f"file:{quote(self.path)}?immutable=1", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(name, flags=flags, vfs=_checksum_vfs() if self.checksums else self.vfs or None)
        connection.set_busy_handler(Patience(self.wait))
        try:
            for name, value in SETTINGS:
                connection.pragma(name, value)
            connection.pragma("query_only", int(not writer))
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)  # we have none: one that lies there is not our own
        except BaseException:
            self.leave(connection)
            raise
        return connection

    def leave(self, connection: apsw.Connection) -> None:
        """Let go of a file not known to be ours and plain, without folding its -wal file back: that may be another program's,
        or hold pages that must get checksums.
        """
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(self.wal_bytes > 0))
        connection.close()

    @property
    def identity(self) -> tuple[int, int] | None:
        """Which file the path leads to now: (device, inode); None for no file."""
        found = _stat(self.path)
        return None if found is None else (found.st_dev, found.st_ino)

    @property
    def wal_bytes(self) -> int:
        return _size(f"{self.path}-wal") or 0

    @property
    def bytes(self) -> int:
        return (_size(self.path) or 0) + self.wal_bytes


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as e:  # a text that no path can be is a ValueError
        raise Unavailable(f"store {path!r}", e, "check the path and who may read it") from e


def _size(path: str) -> int | None:
    found = _stat(path)
    return None if found is None else found.st_size


def _checksum_vfs() -> str:
    """Load SQLite's checksum VFS once, without making it the default of every other connection in the process."""
    name = "cksmvfs"
    if name not in apsw.vfs_names():
        default = apsw.vfs_names()[0]
        try:
            from apsw import sqlite_extra

            loader = apsw.Connection(":memory:")
            sqlite_extra.load(loader, "cksumvfs")
            loader.close()
        except (ImportError, LookupError, apsw.Error) as e:
            raise Unavailable("page checksums", e, "install apsw from its own wheel, which carries cksumvfs") from e
        apsw.set_default_vfs(default)
    return name


# --- where it lies ---------------------------------------------------------------------------------------------------

_QUERY = re.compile(r"(?P<path>.*?)\?(?P<query>[a-z_]+=[^/?]*)", re.DOTALL)  # a "?" without "name=" is part of a file's name


def locate(url: str) -> StoreFile:
    """The file that a path, `sqlite:///relative.db`, `sqlite:////absolute.db` or `file:` URL names, with its options."""
    match = _QUERY.fullmatch(url)
    text, query = (match["path"], match["query"]) if match else (url, "")
    path = text
    if text.startswith("sqlite:"):
        path = text[len("sqlite:") :]
        path = path[3:] if path.startswith("///") else path
    elif text.startswith("file:"):
        path = unquote(text[len("file:") :])
        path = path[2:] if path.startswith("///") else path
    if not path or path.startswith("//") or path == ":memory:" or "\0" in path:
        raise Unavailable(f"store {url!r}", "it names no file", "give a path, sqlite:///relative.db or sqlite:////absolute.db")
    return _with_options(StoreFile(os.path.abspath(path)), url, dict(parse_qsl(query, keep_blank_values=True)))


def _with_options(file: StoreFile, url: str, options: dict[str, str]) -> StoreFile:
    """`checksums` and `probe` are 0 or 1, `wait` is in seconds, `vfs` names one of SQLite's, `mount` is `any`."""
    try:
        wait = float(options.pop("wait", file.wait))
        switches = [{"0": False, "1": True}[options.pop(name, "0")] for name in ("checksums", "probe")]
        any_mount = {"": False, "any": True}[options.pop("mount", "")]
        vfs = options.pop("vfs", "")
    except (ValueError, KeyError) as e:
        raise Unavailable(f"store {url!r}", f"an option has a value that it cannot have: {e}", "see the options in the docs") from e
    if options or not 0 <= wait < 1e6 or (vfs and switches[0]):
        raise Unavailable(
            f"store {url!r}",
            f"options that do not exist or do not go together: {sorted(options) or url}",
            "use checksums=1 (not with vfs), probe=1, wait=seconds, mount=any, vfs=name",
        )
    return replace(file, checksums=switches[0], wait=wait, vfs=vfs, probe=switches[1], any_mount=any_mount)


# --- at the door -----------------------------------------------------------------------------------------------------


def open_file(file: StoreFile, create: bool) -> tuple[StoreFile, apsw.Connection]:
    """The file as it really is, and the one connection that writes to it. Raises `Unavailable` or `Corrupt`.

    While another process makes the same store SQLite answers "busy" at once, without asking the busy handler (it would be
    a deadlock); so opening is tried again until the deadline.
    """
    _refuse_old_sqlite()
    _look(file, create)
    deadline = time.monotonic() + file.wait
    with errors_of(f"open {file.path}"):
        while True:
            try:
                return _open(file)
            except (apsw.BusyError, apsw.LockedError):
                if time.monotonic() >= deadline:
                    raise
                time.sleep(Patience.LONGEST_NAP)


def _open(file: StoreFile) -> tuple[StoreFile, apsw.Connection]:
    wanted, file = file.checksums, replace(file, checksums=False)
    file, connection, found = _enter(file)
    try:
        if (wanted and found == "new") or connection.reserve_bytes(None, -1) == CHECKSUM_BYTES:
            file.leave(connection)
            file = replace(file, checksums=True)
            connection = file.connect(writer=True)
        elif wanted:
            raise Unavailable(f"store {file.path} with page checksums", "it was made without", "open it without the option")
        if found == "new":
            _make(file, connection)
            file = replace(file, probe=True)
        return _ready(file, connection), connection
    except BaseException:
        connection.close()
        raise


def _enter(file: StoreFile) -> tuple[StoreFile, apsw.Connection, str]:
    """Connect and judge. Where SQLite can make no -shm file, a store without a WAL is read as one that cannot change."""
    try:
        connection = file.connect(writer=True)
        try:
            connection.execute("BEGIN")
            found = _judge(file, connection)
            connection.execute("COMMIT")
            return file, connection, found
        except BaseException:
            file.leave(connection)
            raise
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        if file.immutable or not _size(file.path) or file.wal_bytes:
            raise
    return _enter(replace(file, immutable=True, read_only="neither the file nor its directory can be written"))


def _refuse_old_sqlite() -> None:
    version = apsw.sqlite_lib_version()
    if tuple(map(int, version.split(".")[:3])) < LEAST_SQLITE:
        least = ".".join(map(str, LEAST_SQLITE))
        raise Unavailable(f"SQLite {version}", f"two writers can damage a WAL before {least}", "upgrade the apsw package")


def _look(file: StoreFile, create: bool) -> None:
    """What can be known without opening the file. (Never open it beside SQLite: closing it again would drop SQLite's locks.)"""
    directory, size = os.path.dirname(file.path), _size(file.path)
    if not os.path.isdir(directory):
        raise Unavailable(f"store {file.path}", f"there is no directory {directory}", "make the directory first")
    if os.path.isdir(file.path):
        raise Unavailable(f"store {file.path}", "it is a directory", "name a file in it")
    if not size and file.wal_bytes:
        size = _size(file.path)  # looked at again: another process may have made the store between the two looks
    if not size and file.wal_bytes:
        found = f"{'no file' if size is None else 'an empty file'} beside {file.wal_bytes:,} bytes in {file.path}-wal"
        raise Corrupt("", 0, f"a lineal store at {file.path}", found, "lost file")
    if size == 1:  # SQLite takes such a file for an empty one
        raise Corrupt("", 0, f"a lineal store at {file.path}", "a file of 1 byte", "file cut short")
    if not size and not create:
        raise Unavailable(
            f"store {file.path}", "it does not exist" if size is None else "it is empty", "check the path, or open it with create"
        )
    if not file.any_mount:
        refuse_unsafe_mount(directory)
    if file.probe or not size:
        if not os.access(directory, os.W_OK):
            raise Unavailable(f"store {file.path}", f"the directory {directory} cannot be written", "choose another, or make it writable")
        refuse_unless_locks_hold(directory)


def _judge(file: StoreFile, connection: apsw.Connection) -> str:
    """ "new" or "ours"; anything else is raised, and the file left as it was."""
    mark, version = connection.pragma("application_id"), connection.pragma("user_version")
    parts = connection.execute("SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'").fetchall()
    tables = {name for kind, name, _ in parts if kind == "table"}
    indexes = {name for kind, name, made in parts if kind == "index" and str(made) in SCHEMA}
    if not mark and not version and not tables:
        return "new"
    if mark != APPLICATION_ID and not tables >= TABLES:
        raise Unavailable(f"store {file.path}", "it is an SQLite file of another program; it was left as it is", "name another file")
    if mark != APPLICATION_ID:
        raise Corrupt("", 0, f"the mark {APPLICATION_ID:#x} in {file.path}", f"{mark:#x}", "altered header")
    if version > FORMAT:
        raise Unavailable(
            f"store {file.path} of format {version}", f"this version reads format {FORMAT}", "upgrade lineal; nothing was changed"
        )
    if version < 1 or not tables >= TABLES or not indexes >= INDEXES:
        gone = [", ".join(sorted(missing)) or "none" for missing in (TABLES - tables, INDEXES - indexes)]
        found = f"format {version}, tables missing: {gone[0]}, indexes missing: {gone[1]}"
        raise Corrupt("", 0, f"format 1 to {FORMAT} and all tables and indexes in {file.path}", found, "altered file")
    return "ours"


def _make(file: StoreFile, connection: apsw.Connection) -> None:
    """Make a new store, once, whoever else is making the same one now."""
    if file.checksums:
        connection.reserve_bytes(None, CHECKSUM_BYTES)
    _set_wal(file, connection)
    connection.execute("BEGIN IMMEDIATE")
    if _judge(file, connection) == "new":
        connection.execute(SCHEMA).fetchall()
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", FORMAT)
    connection.execute("COMMIT")
    if file.checksums and connection.reserve_bytes(None, -1) != CHECKSUM_BYTES:
        connection.reserve_bytes(None, CHECKSUM_BYTES)
        connection.execute("VACUUM")


def _set_wal(file: StoreFile, connection: apsw.Connection) -> None:
    mode = connection.pragma("journal_mode", "wal")
    if mode != "wal":
        raise Unavailable(f"store {file.path}", f"the journal stays in mode {mode} there, not wal", "keep it on a local disk")


def _ready(file: StoreFile, connection: apsw.Connection) -> StoreFile:
    """Journal mode and locks as they must be, or a file that is only read."""
    if connection.readonly("main"):
        return replace(file, read_only=file.read_only or "the file cannot be written")
    if connection.pragma("journal_mode") != "wal":
        _set_wal(file, connection)
    if file.probe:
        _refuse_unless_second_writer_waits(file, connection)
    return file


def _refuse_unless_second_writer_waits(file: StoreFile, connection: apsw.Connection) -> None:
    second = replace(file, wait=0.0).connect(writer=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        second.execute("BEGIN IMMEDIATE")
    except apsw.BusyError:
        return
    finally:
        connection.execute("ROLLBACK")
        second.close()
    raise Unavailable(f"store {file.path}", "two writers held its lock at once", "keep the store on a local disk, where locks hold")


def facts(file: StoreFile, connection: apsw.Connection) -> dict[str, Any]:
    """What `status` tells of the file."""
    return {
        "path": file.path,
        "bytes": file.bytes,
        "wal_bytes": file.wal_bytes,
        "free_bytes": connection.pragma("freelist_count") * connection.pragma("page_size"),
        "sqlite_version": apsw.sqlite_lib_version(),
        "journal_mode": connection.pragma("journal_mode"),
        "synchronous": {0: "off", 1: "normal", 2: "full", 3: "extra"}[connection.pragma("synchronous")],
        "checksums": file.checksums,
        "read_only": file.read_only,
    }
