"""Can this place keep the promises? What the doctor says of a sound place, and of each that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

import lineal
from lineal import doctor
from lineal.doctor import Check, examine, judge_durability
from lineal.engines import mounts
from lineal.errors import Unavailable


def checks(store: object = None, anchor: object = None) -> dict[str, Check]:
    return {c.name: c for c in examine(None if store is None else str(store), None if anchor is None else str(anchor))}


@pytest.fixture
def store(store_path: Path) -> Path:
    with lineal.connect(store_path) as opened:
        opened.session("s").append({"role": "user", "content": "hi"})
    return store_path


def test_a_sound_place_is_sound_and_left_as_it_was(store: Path, tmp_path: Path) -> None:
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    found = checks(store)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    assert {"python", "sqlite", "tokens", "mount", "locks", "space", "durability", "store", "anchor"} <= set(found)
    assert not [c for c in found.values() if c.state == "bad"]
    assert "journal_mode wal, synchronous full" in found["store"].found


def test_a_store_that_is_not_there_yet_is_looked_at_by_its_place(store_path: Path) -> None:
    found = checks(store_path)
    assert "store" not in found and found["durability"].found and not store_path.exists()
    assert checks(f"sqlite:///{store_path}")["locks"].state == "ok"


def test_without_a_store_it_is_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert checks()["mount"].state in ("ok", "watch") and [*tmp_path.iterdir()] == []


def test_the_promise_of_durability_is_measured_against_the_disk(store: Path) -> None:
    """R1: both numbers are of this place, now, and above nothing."""
    text = checks(store)["durability"].found
    appends, raw = (float(part.split()[0].replace(",", "")) for part in text.split("; "))
    assert appends > 0 and raw > 0


@pytest.mark.parametrize(("acknowledged", "raw", "state"), [(900.0, 1_000.0, "ok"), (10_000.0, 1_000.0, "ok"), (10_001.0, 1_000.0, "bad")])
def test_faster_than_the_disk_is_no_promise(acknowledged: float, raw: float, state: str) -> None:
    """R1: appends that come back ten times faster than a bare fdatasync cannot all be on the disk."""
    found = judge_durability(acknowledged, raw)
    assert found.state == state and bool(found.advice) == (state == "bad")


def test_a_network_mount_is_refused(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R38: two hosts do not see each other's locks there."""
    monkeypatch.setattr(mounts, "kind_of_mount", lambda directory, table=None: "nfs4")
    assert checks(store)["mount"].state == "bad" and "nfs4" in checks(store)["mount"].found


def test_a_filesystem_in_memory_is_said_to_be_one(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "kind_of_mount", lambda directory, table=None: "tmpfs")
    assert checks(store)["mount"].state == "watch" and "power" in checks(store)["mount"].found


def test_locks_that_do_not_hold_are_found_out(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R38."""

    def granted_twice(directory: str) -> None:
        raise Unavailable("a store there", "a lock was granted twice", "a local disk")

    monkeypatch.setattr(mounts, "refuse_unless_locks_hold", granted_twice)
    assert (checks(store)["locks"].state, checks(store)["locks"].found) == ("bad", "a lock was granted twice")


def test_little_space_is_said_with_what_a_purge_needs(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LITTLE_SPACE", 1 << 60)
    assert checks(store)["space"].state == "watch" and f"{1 << 60:,} bytes" in checks(store)["space"].advice


@pytest.mark.parametrize("place", ["/proc/lineal.db", "/proc/1/lineal.db"])
def test_a_place_that_cannot_be_written_is_bad(place: str) -> None:
    assert checks(place)["durability"].state == "bad"


def test_no_directory_ends_the_examination(tmp_path: Path) -> None:
    found = checks(tmp_path / "nowhere" / "a.db")
    assert found["directory"].state == "bad" and "durability" not in found


def test_a_damaged_store_and_a_latched_session_are_bad(store: Path, tmp_path: Path) -> None:
    """R6."""
    with lineal.connect(store) as opened:
        opened.session("s").log.latch("ALTERED: row 1")
    assert checks(store)["latches"].found == "read-only after damage: s"
    torn = tmp_path / "torn.db"
    torn.write_bytes(store.read_bytes()[:5_000])
    assert checks(torn)["store"].state == "bad" and "salvage" in checks(torn)["store"].advice


def test_another_engine_is_asked_for_its_own_status() -> None:
    assert checks("memory:")["store"].found.startswith("opens; engine memory")
    assert checks("oracle://x")["store"].state == "bad"


def test_an_anchor_belongs_on_another_disk(store: Path, tmp_path: Path) -> None:
    """R60: none given, one beside the store, one elsewhere, one that is none."""
    assert checks(store)["anchor"].state == "watch"
    beside, elsewhere = store.parent / "heads.json", tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "beside the store" in checks(store, beside)["anchor"].found
    assert checks(store, elsewhere / "heads.json")["anchor"].state == "ok"
    (elsewhere / "torn.json").write_text("{")
    assert checks(store, elsewhere / "torn.json")["anchor"].state == "bad"
    assert checks(store, tmp_path / "nowhere" / "heads.json")["anchor"].state == "bad"
