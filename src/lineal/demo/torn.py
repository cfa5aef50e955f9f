"""A filesystem that stands still in the middle of a commit, so that a process can be killed exactly there.

It passes everything through to the real one. Once armed, it counts what SQLite writes to the -wal file; after so many
writes it calls `stand` and never returns: some pages of the commit are in the file, the mark that makes them count is not.
"""

from __future__ import annotations

from collections.abc import Callable

import apsw

NAME = "lineal-demo"


class TornFiles(apsw.VFS):
    """Register it once a process; open a store with `?vfs=lineal-demo`."""

    def __init__(self) -> None:
        self.base = apsw.vfs_names()[0]
        self.left = 0
        self.stand: Callable[[int], None] | None = None
        super().__init__(NAME, self.base)

    def arm(self, writes: int, stand: Callable[[int], None]) -> None:
        """Call `stand(bytes of the commit written so far)` after so many writes, or at the commit's sync if that comes first."""
        self.left, self.stand = writes, stand

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, files: TornFiles, name: str | apsw.URIFilename | None, flags: list[int]):
        self.files, self.wal, self.written = files, bool(flags[0] & apsw.SQLITE_OPEN_WAL), 0
        super().__init__(files.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        if self.wal and self.files.stand:
            self.written += len(data)
            self.files.left -= 1
            if self.files.left <= 0:
                self.files.stand(self.written)

    def xSync(self, flags: int) -> None:
        if self.wal and self.files.stand:
            self.files.stand(self.written)
        super().xSync(flags)
