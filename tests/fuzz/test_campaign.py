"""The campaign itself: a short run of every door, and that it would notice what it is there to notice."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lineal.errors import Unavailable
from lineal.testing.fuzzing import Surface, again, campaign, surfaces
from lineal.testing.fuzzing.mutations import MUTATIONS, as_bytes, changed, mutated, odd

RUNS = 540  # about 8 s; `make proof` runs for as long as it is told
SEED = 20_260_101


def test_no_door_gives_way(tell: Any) -> None:
    """R7, R57, R59: typed refusals or true answers, in bounded time and memory, for inputs that nobody would write."""
    tally = campaign(RUNS, SEED)
    tell(f"fuzzing: {tally.runs} runs at {len(tally.faults)} doors, {len(tally.broken)} findings")
    assert tally.sound, "\n".join(tally.broken)
    assert tally.runs == RUNS and tally.faults.keys() == {s.name for s in surfaces()}
    for door in ("entries: taken", "entries: refused (Corrupt)", "transcripts: detected", "messages: some taken", "verbs: some done"):
        assert tally.states[door], f"no run came to {door}"
    assert any(state.endswith(": true") for state in tally.states) and any(state.endswith(": refused") for state in tally.states)


def door(enter: Any) -> Surface:
    return Surface("mine", lambda rng: rng.randbytes(4), enter)


def raises(data: bytes, folder: Path) -> str:
    raise ZeroDivisionError("no answer")


def lies(data: bytes, folder: Path) -> str:
    raise AssertionError("a wrong answer")


def hangs(data: bytes, folder: Path) -> str:
    time.sleep(3_600)
    return "never"


def dies(data: bytes, folder: Path) -> str:
    os._exit(7)


def swells(data: bytes, folder: Path) -> str:
    return f"{len(bytearray(2 << 30))} bytes"


@pytest.mark.parametrize(
    ("enter", "told"),
    [
        (raises, "ZeroDivisionError"),
        (lies, "a wrong answer"),
        (hangs, "no answer within"),
        (dies, "the process ended with 7"),
        (swells, "MemoryError"),
    ],
)
def test_what_goes_wrong_is_a_finding(enter: Any, told: str) -> None:
    """Each run is one, and the next one goes on in another process."""
    tally = campaign(2, surfaces=[door(enter)], patience=0.3)
    assert not tally.sound and len(tally.broken) == 2 and all(told in sentence for sentence in tally.broken), tally.broken
    assert "mine, seed 1" in tally.broken[1]


def test_a_refusal_by_name_is_no_finding() -> None:
    def refuses(data: bytes, folder: Path) -> str:
        raise Unavailable("this", "that", "try again")

    tally = campaign(3, surfaces=[door(refuses)])
    assert tally.sound and tally.states["mine: refused (Unavailable)"] == 3


def test_the_child_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run has a folder of its own, and it goes with the run."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def writes(data: bytes, folder: Path) -> str:
        (folder / "file").write_bytes(data)
        assert os.listdir() == ["file"]
        return "written"

    assert campaign(5, surfaces=[door(writes)]).states["mine: written"] == 5
    assert list(tmp_path.iterdir()) == []


def test_a_campaign_ends_when_its_time_is_up() -> None:
    tally = campaign(None, seconds=0.5, surfaces=[door(lambda data, folder: "done")])
    assert tally.runs and tally.sound


def test_a_run_is_a_function_of_its_seed(tmp_path: Path) -> None:
    """What was found is seen again by door and seed."""
    first, second = (door.make(Random(f"{door.name}:7")) for door in [surfaces()[0]] * 2)
    assert first == second
    assert again("entries", 7, tmp_path) == again("entries", 7, tmp_path)
    with pytest.raises(ZeroDivisionError):
        again(door(raises), 1, tmp_path)


@pytest.mark.parametrize("name", MUTATIONS)
def test_each_mutation_changes_something(name: str) -> None:
    data = bytes(range(256)) * 20
    seen = {MUTATIONS[name](data, Random(seed)) for seed in range(20)}
    assert len(seen) > 5 and any(one != data for one in seen)


def test_mutations_end_with_nothing_left() -> None:
    assert mutated(b"", Random(0)) == b"" and {len(mutated(b"a", Random(n))) for n in range(30)} > {0, 1}


def test_odd_values_are_written_whatever_they_are() -> None:
    """Also those that Python's own encoder refuses."""
    for seed in range(300):
        assert isinstance(as_bytes(odd(Random(seed))), bytes)
    sample = {"a": [1, None, {"b": "c"}], "d": 1.5}
    assert as_bytes(sample) == b'{"a":[1,null,{"b":"c"}],"d":1.5}'
    assert any(changed(sample, Random(seed)) != sample for seed in range(50))
