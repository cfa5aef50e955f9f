"""Where a store may lie: on a mount whose locks every writer sees (R38)."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from lineal.engines import mounts, open_engine
from lineal.engines.mounts import UNSAFE, refuse_unless_locks_hold, refuse_unsafe_mount
from lineal.errors import Unavailable

TABLE = """\
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 21 0:40 / /mnt/far rw,relatime shared:7 - {kind} server:/export rw
31 30 0:41 / /mnt/far/near rw,relatime - tmpfs tmpfs rw
32 21 0:42 / /mnt/with\\040space rw - {kind} server:/other rw
33 21 0:43 / /mnt/covered rw - {kind} server:/third rw
34 21 0:44 / /mnt/covered rw - ext4 /dev/vdb rw
"""


@pytest.mark.parametrize("kind", sorted(UNSAFE))
def test_a_network_filesystem_is_refused_by_name(kind: str) -> None:
    """R38: the innermost mount decides; of two on one point, the later."""
    table = TABLE.format(kind=kind)
    for directory in ("/mnt/far", "/mnt/far/deep/down", "/mnt/with space/x"):
        with pytest.raises(Unavailable, match=kind):
            refuse_unsafe_mount(directory, table)
    for directory in ("/", "/mnt/farther", "/mnt/far/near", "/mnt/far/near/x", "/mnt/covered/x", "/home"):
        refuse_unsafe_mount(directory, table)


def test_a_local_disk_is_accepted(tmp_path: Path) -> None:
    """R38: the table of this machine, and its locks; nothing is left behind."""
    refuse_unsafe_mount(str(tmp_path))
    refuse_unless_locks_hold(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_directory_where_a_lock_is_granted_twice_is_refused(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R38: before a store is made there, and for one that exists when asked; no file is made."""
    open_engine(f"{store_path}").close()
    monkeypatch.setattr(fcntl, "fcntl", lambda *arguments: b"granted")
    with pytest.raises(Unavailable, match="granted again"):
        open_engine(f"{store_path}?probe=1")
    with pytest.raises(Unavailable, match="granted again"):
        open_engine(f"{store_path}.new")
    assert list(store_path.parent.iterdir()) == [store_path]


def test_a_directory_without_locks_is_refused(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R38: an error of the lock call is told as it is."""

    def none_here(*arguments: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", none_here)
    with pytest.raises(Unavailable, match="No locks available"):
        open_engine(str(store_path))
    assert list(store_path.parent.iterdir()) == []


def test_a_store_on_an_unsafe_mount_is_not_opened(store_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R38: neither made there nor opened there, unless it is said that no other host will."""
    table = tmp_path / "mountinfo"
    table.write_text(f"30 21 0:40 / {store_path.parent} rw,relatime shared:7 - nfs4 server:/export rw\n")
    monkeypatch.setattr(mounts, "_TABLE", table)
    with pytest.raises(Unavailable, match="nfs4.*mount=any"):
        open_engine(f"{store_path}")
    assert not store_path.exists()
    open_engine(f"{store_path}?mount=any").close()
    with pytest.raises(Unavailable, match="nfs4"):
        open_engine(f"{store_path}")
