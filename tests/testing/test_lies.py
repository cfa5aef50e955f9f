"""An engine that lies is found out (R59, R60): a sample of the places; `lies.every_lie()` takes all."""

from __future__ import annotations

from pathlib import Path

import pytest

from lineal.anchor import AnchorFile
from lineal.testing import lies
from lineal.testing.faults import FAULTS, Fault, FaultyEngine
from lineal.testing.lasting import Lasting
from lineal.testing.stories import STORY, Reference, Tale, reference
from lineal.testing.tally import Tally


@pytest.fixture(scope="module")
def whole() -> Reference:
    return reference()


@pytest.mark.parametrize("fault", lies.QUIET, ids=lambda fault: fault.name)
def test_a_fault_is_survived_or_detected_as_promised(fault: Fault) -> None:
    """R30, R54, R59, R60: at each sixth call that changes something."""
    tally = lies.every_lie([fault], every=6)
    assert tally.wrong() == [] and tally.runs == tally.faults[fault.name] >= 10
    assert fault.promise == "detected" or set(tally.states) <= {"old", "new", "between"}


def test_lies_that_matter_are_among_them() -> None:
    """The sample is none of harmless ones: a dropped append is detected, by name."""
    tally = lies.every_lie([fault for fault in FAULTS if fault.name == "drop"], every=6)
    assert tally.states["detected"] >= 3


def test_the_judge_can_condemn(whole: Reference, tmp_path: Path) -> None:
    """A store that lost an acknowledged step, with an anchor that does not know of it, is no state of the story: undetected."""
    lasting, told = Lasting(), lies.Told()
    Tale(FaultyEngine(lasting), lambda: lasting, told.steps.append, str(tmp_path / "anchor.json")).play(STORY[:3])
    assert lies.judged(lasting, whole, told, str(tmp_path / "anchor.json")) == ("old", "nobody was told")
    head = max(row.seq for row in lasting.scan("agent"))
    lasting.delete("agent", [head])
    assert lies.judged(lasting, whole, told, str(tmp_path / "anchor.json"))[0] == "detected"
    assert lies.judged(lasting, whole, told, str(tmp_path / "no anchor.json"))[0] == "undetected"
    assert AnchorFile(tmp_path / "anchor.json").read()["agent"][0] == head


def test_progress_is_told() -> None:
    heard: list[tuple[int, int]] = []
    assert isinstance(lies.every_lie(FAULTS[:1], every=30, progress=lambda done, of: heard.append((done, of))), Tally)
    assert heard == [(n, len(heard)) for n in range(1, len(heard) + 1)] and heard
