"""The faulty disk fails where it was told to, under SQLite and under the anchor (R1, R30, E9)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lineal.anchor
from lineal.anchor import AnchorFile
from lineal.engines.sqlite import SqliteEngine
from lineal.errors import Unavailable
from lineal.testing import EngineTests, FaultyDisk
from lineal.testing.disk import Troubled
from lineal.testing.engine import MakeEngine, rows


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    made = FaultyDisk(f"disk-{uuid.uuid4().hex}", keep=True)
    yield made
    made.unregister()


def opened(disk: FaultyDisk, path: Path) -> SqliteEngine:
    return SqliteEngine.open(f"{path}?vfs={disk.vfs_name}")


class TestSqliteOnASoundFaultyDisk(EngineTests):
    """It is a disk like any other."""

    @pytest.fixture
    def make_engine(self, disk: FaultyDisk, tmp_path: Path) -> MakeEngine:
        return lambda: opened(disk, tmp_path / "agent.db")


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.endswith("-shm")}


def test_the_trace_gives_the_very_files(disk: FaultyDisk, store_path: Path) -> None:
    """Played in memory it leaves what stands on the real disk, at any moment."""
    engine = opened(disk, store_path)
    assert disk.trace is not None
    for seq in range(1, 30, 3):
        engine.append("s", seq - 1, rows(seq, 3))
        assert disk.trace.after().after_end() == files(store_path.parent)
    engine.delete("s", [1, 2], content_only=True)
    assert disk.trace.after().after_end() == files(store_path.parent)
    engine.close()
    assert disk.trace.after().after_end() == files(store_path.parent)


def test_a_store_that_stood_there_is_the_base_of_the_trace(disk: FaultyDisk, store_path: Path) -> None:
    engine = SqliteEngine.open(str(store_path))
    engine.append("s", 0, rows(1, 3))
    engine.close()
    engine = opened(disk, store_path)
    engine.append("s", 3, rows(4, 1))
    engine.close()
    assert disk.trace is not None and [*disk.trace.base] == [store_path.name]
    assert disk.trace.after().after_end() == files(store_path.parent)


@pytest.mark.parametrize("kind", ["read", "write", "sync"])
def test_one_error_is_told_and_the_next_operation_works(disk: FaultyDisk, store_path: Path, kind: Troubled) -> None:
    engine = opened(disk, store_path)
    engine.append("s", 0, rows(1, 3))
    reader = opened(disk, store_path)  # has read nothing yet, so that a read goes to the disk
    disk.fail(kind, disk.done[kind] + 1)
    with pytest.raises(Unavailable, match="an error was injected"):
        list(reader.scan("s")) if kind == "read" else engine.append("s", 3, rows(4, 2))
    assert list(reader.scan("s")) == rows(1, 3)
    engine.append("s", 3, rows(4, 2))
    assert list(reader.scan("s")) == rows(1, 5) and engine.check() == []
    engine.close()
    reader.close()


def test_errors_may_come_in_a_row(disk: FaultyDisk, store_path: Path) -> None:
    engine = opened(disk, store_path)
    disk.fail("write", disk.writes + 1, times=3)
    failed = 0
    for _ in range(5):
        try:
            engine.append("s", 0, rows(1, 1))
            break
        except Unavailable:
            failed += 1
    assert failed == 3 and list(engine.scan("s")) == rows(1, 1)
    engine.close()


def test_there_is_no_space_until_there_is(disk: FaultyDisk, store_path: Path) -> None:
    engine = opened(disk, store_path)
    disk.full_at = disk.writes + 1
    with pytest.raises(Unavailable, match="free disk space"):
        engine.append("s", 0, rows(1, 1))
    disk.full_at = None
    engine.append("s", 0, rows(1, 1))
    engine.close()


def test_the_power_goes_before_an_operation_and_what_was_synced_is_there(disk: FaultyDisk, store_path: Path, tmp_path: Path) -> None:
    """E1: whatever the cut takes, each acknowledged row survives it, in a folder where any process may open it."""
    engine = opened(disk, store_path)
    engine.append("s", 0, rows(1, 3))
    disk.cut_at = disk.changes + 2
    with pytest.raises(Unavailable):
        engine.append("s", 3, rows(4, 3))
    assert disk.dead
    with pytest.raises(Unavailable):
        list(engine.scan("s"))
    for seed in range(10):
        folder = tmp_path / f"after-{seed}"
        folder.mkdir()
        disk.restore(folder, seed)
        found = SqliteEngine.open(str(folder / store_path.name), create=False)
        assert list(found.scan("s")) == rows(1, 3) and found.check() == []
        found.append("s", 3, rows(4, 1))
        found.close()
    disk.restart()


def test_without_a_trace_nothing_can_be_restored() -> None:
    disk = FaultyDisk(f"disk-{uuid.uuid4().hex}")
    with pytest.raises(AssertionError, match="keep=True"):
        disk.survivors(0)
    disk.unregister()


# --- files that lineal writes itself ---------------------------------------------------------------------------------------


def test_the_anchor_works_on_the_disk_too(disk: FaultyDisk, tmp_path: Path) -> None:
    """R60: its trace is what it does: a fresh file, synced, renamed over the old one, the folder synced."""
    anchor = AnchorFile(tmp_path / "anchor.json")
    with disk.under(lineal.anchor):
        anchor.move("a", 3, "aa", 0)
    assert disk.trace is not None
    assert [op.kind for op in disk.trace.ops] == ["create", "create", "write", "sync", "rename", "sync folder"]
    assert disk.trace.after().after_end() == files(tmp_path)
    anchor.move("a", 4, "ab", 0)
    assert len(disk.trace.ops) == 6, "outside it works as it did before"


@pytest.mark.parametrize(("kind", "number"), [("write", 1), ("sync", 1), ("sync", 2), ("rename", 1), ("create", 1)])
def test_a_failing_disk_leaves_the_old_anchor_or_the_new_one(disk: FaultyDisk, tmp_path: Path, kind: Any, number: int) -> None:
    anchor = AnchorFile(tmp_path / "anchor.json")
    anchor.move("a", 3, "aa", 0)
    disk.fail(kind, number)
    with disk.under(lineal.anchor):
        with pytest.raises(Unavailable, match="anchor"):
            anchor.move("a", 4, "ab", 0)
        assert anchor.read()["a"] in ((3, "aa", 0), (4, "ab", 0))
        anchor.move("a", 5, "ac", 0)
    assert anchor.read()["a"] == (5, "ac", 0)


def test_a_cut_leaves_the_old_anchor_or_the_new_one(disk: FaultyDisk, tmp_path: Path) -> None:
    """R60: before any of its operations, whatever comes through."""
    anchor = AnchorFile(tmp_path / "anchor.json")
    with disk.under(lineal.anchor):
        anchor.move("a", 1, "aa", 0)
        anchor.move("a", 2, "bb", 0)
    assert disk.trace is not None
    first = next(n for n, op in enumerate(disk.trace.ops) if op.kind == "sync folder") + 1
    heads = set()
    for _, _, replay in disk.trace.replays(first, len(disk.trace.ops)):
        for seed in range(20):
            (tmp_path / "after").mkdir(exist_ok=True)
            image = replay.after_cut(seed)
            (tmp_path / "after" / "anchor.json").write_bytes(image["anchor.json"])
            heads.add(AnchorFile(tmp_path / "after" / "anchor.json").read()["a"][0])
    assert heads == {1, 2}
