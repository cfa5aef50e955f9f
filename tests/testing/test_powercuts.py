"""Crashes and power cuts at every operation of the disk (R1, R30, R35, R60): a sample of the points, spread over the story.

`powercuts.campaign()` without `every` takes them all: more than ten thousand.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lineal.engines import open_engine
from lineal.testing import powercuts
from lineal.testing.powercuts import ANCHOR, PARTS, STORE, Judge, Point, Recording, record
from lineal.testing.tally import Tally, table


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """The first half of the story, recorded once."""
    return record(tmp_path_factory.mktemp("played"), "SHORT")


def test_whatever_stops_the_machine_nothing_acknowledged_is_lost(tell: Callable[[str], None]) -> None:
    """R1, R30, R35, R60: old, new or between; verified, recovered, gone on with; the anchor lags by one at most and never leads."""
    heard: list[tuple[int, int]] = []
    tally = powercuts.campaign(seeds=range(2), every=13, progress=lambda done, of: heard.append((done, of)))
    tell(table([("crashes and power cuts, each 13th operation", tally)]))
    assert tally.wrong() == []
    assert tally.runs == sum(tally.faults.values()) == sum(tally.states[s] for s in ("old", "new", "between")) > 280
    assert all(tally.faults[kind] > 80 for kind in ("crash in a write", "power cut"))
    assert min(tally.states[s] for s in ("old", "new", "between")) > 5
    assert 0 < tally.states["images"] <= tally.runs
    assert heard == [(n, len(heard)) for n in range(1, len(heard) + 1)]


def test_the_power_may_go_again_while_the_store_recovers() -> None:
    """R30: the second cut takes nothing that the first had left, and the store goes on."""
    tally = powercuts.again(every=110, cuts=2, workers=1)
    assert tally.wrong() == [] and tally.runs == tally.faults["power cut in a recovery"] >= 16


def test_what_a_second_cut_took_is_found_out(short: Recording, tmp_path: Path) -> None:
    image = short.trace.after().after_end()
    recovery, said = powercuts._recovered(image, tmp_path)
    powercuts.put(recovery.after().after_end(), tmp_path)
    assert said["agent"][0] == "u1" and [*powercuts._after_again(tmp_path, said)] == []
    assert [*powercuts._after_again(tmp_path, {"agent": [*said["agent"], "gone"]})][0].startswith("agent: turns ['u1'")
    powercuts.put({STORE: b"no database" * 99}, tmp_path)
    assert [*powercuts._after_again(tmp_path, said)][0].startswith("it does not open")


def test_the_story_has_enough_points(short: Recording) -> None:
    """Of each kind of operation there are some, and what was acknowledged stands between them."""
    kinds = powercuts.kinds(short.trace)
    assert kinds["write"] > 100 and kinds["sync"] > 30 and kinds["rename"] > 8 and kinds["sync folder"] > 8
    assert kinds["told"] == len(short.heads) > len(short.whole.ends)
    assert short.heads[-1]["agent"] > short.heads[2]["agent"] > 0


# --- the campaign can fail -------------------------------------------------------------------------------------------------


def test_a_disk_that_lies_about_syncs_is_found_out() -> None:
    """Acknowledged and not carried out: things are lost, and stores do not open."""
    tally = powercuts.campaign(seeds=range(2), every=24, story="SHORT", lying=True, workers=1)
    assert len(tally.lost) > 20 and len(tally.torn) > 5
    assert any("was acknowledged" in sentence for sentence in tally.lost)


def test_less_than_full_durability_is_found_out() -> None:
    """With synchronous=NORMAL a commit of SQLite is not durable on return: acknowledged steps are lost, and nothing is torn."""
    tally = powercuts.campaign(seeds=range(3), every=12, story="SHORT", synchronous="NORMAL", workers=1)
    assert len(tally.lost) + len(tally.torn) > 20
    assert any(sentence.startswith("power cut") for sentence in tally.lost + tally.torn)
    assert not any(sentence.startswith("crash") for sentence in tally.lost + tally.torn), "a crash of the process takes nothing"


def test_a_torn_a_leading_and_a_lagging_anchor_are_found_out(short: Recording, tmp_path: Path) -> None:
    """R60: beside a sound store."""
    image, end = short.trace.after().after_end(), Point(len(short.trace.ops), None, part=1.0)
    older = short.trace.after(next(n for n, op in enumerate(short.trace.ops) if op.name == "say a batch")).after_end()

    def found(anchor: bytes, store: dict[str, bytes]) -> Tally:
        tally = Tally()
        Judge(short, tmp_path).judge(end, {**store, ANCHOR: anchor}, tally)
        return tally

    assert found(image[ANCHOR], image).wrong() == []
    torn = found(image[ANCHOR][:-5], image)
    assert any("unreadable anchor" in sentence for sentence in torn.torn) and any(
        "the anchor is torn" in sentence for sentence in torn.lost
    )
    assert any("was acknowledged" in sentence for sentence in found(older[ANCHOR], image).lost)
    assert any("cut tail" in sentence for sentence in found(image[ANCHOR], older).torn)


def test_a_store_that_does_not_open_is_found_out(short: Recording, tmp_path: Path) -> None:
    tally, image = Tally(), short.trace.after().after_end()
    Judge(short, tmp_path).judge(Point(len(short.trace.ops), None, seed=3), {**image, STORE: b"no database" * 99}, tally)
    assert any(sentence.startswith("power cut before") and "seed 3: it does not open" in sentence for sentence in tally.torn)


def test_an_image_that_was_seen_before_counts_and_is_not_examined_again(short: Recording, tmp_path: Path) -> None:
    tally, image, judge = Tally(), short.trace.after().after_end(), Judge(short, tmp_path)
    for part in PARTS:
        judge.judge(Point(len(short.trace.ops), None, part=part), image, tally)
    assert (tally.runs, tally.states["images"], tally.states["new"]) == (4, 1, 4)


def test_what_is_recorded_is_what_the_disk_holds(short: Recording, tmp_path: Path) -> None:
    """The last image is the store as it was left: opened, it has the whole story."""
    for name, content in short.trace.after().after_end().items():
        (tmp_path / name).write_bytes(content)
    engine = open_engine(str(tmp_path / STORE), create=False)
    assert max(row.seq for row in engine.scan("agent")) == short.heads[-1]["agent"]
    engine.close()
