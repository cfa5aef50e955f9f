"""Is a directory a place where locks between processes hold? Asked before a store is made there (R38).

Two questions. What kind of mount is it: on a network filesystem the shared memory beside a WAL is not shared between
hosts, and two writers would not see each other. And do locks hold here at all: a lock taken through one open file must
be refused through another, by the kernel, on a scratch file in that very directory.
"""

from __future__ import annotations

import os
import struct
import tempfile
from pathlib import Path

from lineal.errors import Unavailable

UNSAFE = frozenset(("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "davfs", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone"))
_TABLE = Path("/proc/self/mountinfo")


def refuse_unsafe_mount(directory: str, table: str | None = None) -> None:
    """Raise `Unavailable` for a directory on a network filesystem. `table` is text in the form of /proc/self/mountinfo."""
    kind = kind_of_mount(directory, table)
    if kind in UNSAFE:
        raise Unavailable(
            f"a store in {directory}",
            f"it lies on a mount of type {kind}, where two hosts do not see each other's locks",
            "keep the store on a local disk, or say ?mount=any if no other host will ever open it",
        )


def kind_of_mount(directory: str, table: str | None = None) -> str:
    """The filesystem type of the longest mount point above the directory; a later line covers an earlier one. Empty: not known."""
    if table is None:
        table = _TABLE.read_text(errors="surrogateescape") if _TABLE.exists() else ""
    directory = os.path.realpath(directory)
    longest, kind = -1, ""
    for line in table.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
        inside = directory == point or directory.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= longest:
            longest, kind = len(point), right.split(" ", 1)[0]
    return kind


def refuse_unless_locks_hold(directory: str) -> None:
    """Raise `Unavailable` if a write lock of one open file is granted a second time through another.

    An open-file-description lock conflicts with a POSIX lock even inside one process, so no second process is needed.
    Where the platform has none (it is Linux's), nothing is asked.
    """
    try:
        import fcntl

        take = fcntl.F_OFD_SETLK
    except (ImportError, AttributeError):
        return
    whole_file = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=".lineal-lock-probe-") as first, open(first.name, "r+b") as second:
            fcntl.lockf(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                fcntl.fcntl(second, take, whole_file)
            except BlockingIOError:
                return
    except OSError as e:
        raise Unavailable(f"a store in {directory}", f"locks could not be tried there ({e})", "use a directory that can be written") from e
    raise Unavailable(
        f"a store in {directory}",
        "a lock held through one open file was granted again through another",
        "keep the store on a local disk, where locks hold",
    )
