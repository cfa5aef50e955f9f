"""A disk that fails on purpose, under SQLite and under the files that lineal writes itself.

| set | then |
|---|---|
| `full_at = k` | from the k-th write on, the disk is full; None again: there is space |
| `fail("read", k)` | the k-th read is an I/O error, once, or `times` in a row; so with each of `Troubled` |
| `crash_at = k` | the k-th write is the last of the machine: of it only the part `torn` (0 to 1) reaches the disk, in whole sectors |
| `cut_at = k` | the power goes just before the k-th of all operations that change something (writes, syncs, truncates, deletes, names) |
| `keep = True` | a `Trace` is kept, from which any cut can be made: `survivors(seed)` is what a cut now would leave |

Everything is counted from 1, from the beginning of the disk. After a crash or a cut every further operation fails, as if the
machine had stopped; `restart` makes it run again. The real files hold what programs would have read before the cut, so that the
survivors are put into another folder and opened there by any process, through any VFS.
"""

from __future__ import annotations

import errno
import io
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Literal

import apsw

from lineal.testing.trace import SECTOR, Image, Kind, Trace, base_name, put

Troubled = Literal["read", "write", "sync", "truncate", "delete", "create", "rename"]  # the last two: of files of `under`
_IO_CODES = {
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "delete": apsw.SQLITE_IOERR_DELETE,
}


class FaultyDisk(apsw.VFS):
    """A VFS over the default one. Open a store on it by `?vfs=` and its name; `unregister` when it is no longer needed."""

    SECTOR = SECTOR

    def __init__(self, name: str = "faulty-disk", keep: bool = False):
        self.done: Counter[str] = Counter()  # operations so far, by kind
        self.changes = 0
        self.full_at: int | None = None
        self.crash_at: int | None = None
        self.cut_at: int | None = None
        self.torn = 0.0
        self.dead = False
        self.trace = Trace() if keep else None
        self.vfs_name = name
        self.paths: dict[int, str] = {}  # of the files that lineal itself has opened, by descriptor
        self._failing: dict[str, range] = {}
        self._known: set[str] = set()
        super().__init__(name, "")

    @property
    def writes(self) -> int:
        return self.done["write"]

    def fail(self, kind: Troubled, at: int, times: int = 1) -> None:
        """An I/O error at the operation `at` of this kind, and at those that follow, `times` in all."""
        self._failing[kind] = range(at, at + times)

    def restart(self) -> None:
        """The machine runs again, and the disk is sound."""
        self.dead, self.crash_at, self.cut_at = False, None, None
        self.heal()

    def heal(self) -> None:
        """No error and no lack of space any more."""
        self.full_at = None
        self._failing.clear()

    def told(self, name: str) -> None:
        """Note in the trace that something was acknowledged."""
        if self.trace is not None:
            self.trace.add("told", name)

    def survivors(self, seed: int) -> Image:
        """The files as a power cut now would leave them, one of many possible ways. The disk must keep its trace."""
        assert self.trace is not None, "this disk keeps no trace: make it with keep=True"
        return self.trace.after().after_cut(seed)

    def restore(self, folder: Path, seed: int) -> None:
        """Put the survivors of a power cut into `folder`, where they may be opened."""
        put(self.survivors(seed), folder)

    # --- what SQLite asks for ----------------------------------------------------------------------------------------

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _FaultyFile(name, flags, self)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        self.enter("delete")
        super().xDelete(filename, syncdir)
        self.keep("delete", filename)
        if syncdir:
            self.keep("sync folder", filename)

    # --- every operation goes through here ---------------------------------------------------------------------------

    def enter(self, kind: str) -> None:
        """Count an operation. Raises what SQLite would see if it is one that fails, or the machine has stopped."""
        self.done[kind] += 1
        if kind != "read":
            self.changes += 1
            self.dead = self.dead or (self.cut_at is not None and self.changes >= self.cut_at)
        if self.dead:
            raise apsw.IOError("the machine has stopped")
        if self.done[kind] in self._failing.get(kind, ()):
            error: Any = apsw.IOError(f"an error was injected into {kind} {self.done[kind]}")
            error.extendedresult = _IO_CODES.get(kind, apsw.SQLITE_IOERR)
            raise error

    def allowed(self, data: bytes) -> bytes:
        """What of `data` this write may put on the disk. Raises what SQLite would see."""
        self.enter("write")
        if self.full_at is not None and self.writes >= self.full_at:
            raise apsw.FullError("no space left on this disk")
        if self.crash_at is not None and self.writes >= self.crash_at:
            self.dead = True
            return data[: int(len(data) * self.torn) // SECTOR * SECTOR]
        return data

    def keep(self, kind: Kind, path: str, at: int = 0, data: bytes = b"", to: str = "") -> None:
        if self.trace is not None:
            self.trace.add(kind, base_name(path), at, data, base_name(to))
            self._known.add(base_name(to))

    def opening(self, path: str) -> None:
        """A file is about to be opened: what it holds is the base of the trace, or it is made now. Read before SQLite has it open."""
        if self.trace is None:
            return
        name = base_name(path)
        if not os.path.exists(path):
            self.trace.add("create", name)
        elif name not in self._known:
            self.trace.base[name] = Path(path).read_bytes()
        self._known.add(name)

    # --- files that lineal writes itself -----------------------------------------------------------------------------

    @contextmanager
    def under(self, module: ModuleType) -> Iterator[None]:
        """Inside, `open` and `os` of this module (such as `lineal.anchor`) work on this disk too."""
        names: dict[str, Any] = {"open": self._open, "os": _Os(self)}
        before = {name: vars(module)[name] for name in names if name in vars(module)}
        vars(module).update(names)
        try:
            yield
        finally:
            for name in names:
                del vars(module)[name]
            vars(module).update(before)

    def _open(self, path: str | os.PathLike[str], mode: str = "r", **options: Any) -> IO[Any]:
        """Only what is written from its beginning goes through the disk."""
        if mode != "w":
            return open(path, mode, **options)
        with as_os_error():
            self.enter("create")
            there = os.path.exists(path)
            self.opening(os.fspath(path))
            raw = _PlainFile(os.fspath(path), self)
            if there:
                self.keep("truncate", os.fspath(path))
        return io.TextIOWrapper(io.BufferedWriter(raw))


class _FaultyFile(apsw.VFSFile):
    """One file that SQLite has open. Its temporary files are not in the trace: nobody looks for them after a restart."""

    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int], disk: FaultyDisk):
        self._disk = disk
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if self._path is not None:
            disk.opening(self._path)
        # SQLite makes the name of a new journal durable at its first sync, and with it every other name in the folder.
        journal = flags[0] & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL)
        self._syncs_folder = bool(journal and flags[0] & apsw.SQLITE_OPEN_CREATE)
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._disk.enter("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        allowed = self._disk.allowed(data)
        if allowed:
            super().xWrite(allowed, offset)
            self._keep("write", offset, bytes(allowed))
        if self._disk.dead:
            raise apsw.IOError("the machine stopped in this write")

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._disk.enter("sync")
        super().xSync(flags)
        self._keep("sync")
        if self._syncs_folder:
            self._keep("sync folder")
            self._syncs_folder = False

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._disk.enter("truncate")
        super().xTruncate(size)
        self._keep("truncate", size)

    def _keep(self, kind: Kind, at: int = 0, data: bytes = b"") -> None:
        if self._path is not None:
            self._disk.keep(kind, self._path, at, data)


class _PlainFile(io.RawIOBase):
    """A file that is written from its beginning, on a faulty disk."""

    def __init__(self, path: str, disk: FaultyDisk):
        super().__init__()
        self.path, self._disk, self._at = path, disk, 0
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        disk.paths[self._file] = path

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._file

    def write(self, data: Any) -> int:
        with as_os_error():
            allowed = self._disk.allowed(bytes(data))
            os.write(self._file, allowed)
            self._disk.keep("write", self.path, self._at, allowed)
            self._at += len(allowed)
            if self._disk.dead:
                raise apsw.IOError("the machine stopped in this write")
        return len(allowed)

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._file)


class _Os:
    """The `os` of a module whose files lie on a faulty disk."""

    def __init__(self, disk: FaultyDisk):
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: str | os.PathLike[str], flags: int, mode: int = 0o777) -> int:
        file = os.open(path, flags, mode)
        self._disk.paths[file] = os.fspath(path)
        return file

    def fsync(self, file: int) -> None:
        path = self._disk.paths[file]
        with as_os_error():
            self._disk.enter("sync")
            os.fsync(file)
            self._disk.keep("sync folder" if os.path.isdir(path) else "sync", path)

    def replace(self, old: str | os.PathLike[str], new: str | os.PathLike[str]) -> None:
        with as_os_error():
            self._disk.enter("rename")
            os.replace(old, new)
            self._disk.keep("rename", os.fspath(old), to=os.fspath(new))


@contextmanager
def as_os_error() -> Iterator[None]:
    """What the disk tells SQLite, as a program that calls the system is told."""
    try:
        yield
    except apsw.FullError as e:
        raise OSError(errno.ENOSPC, str(e)) from e
    except apsw.IOError as e:
        raise OSError(errno.EIO, str(e)) from e
