"""The formal model holds, each rule that is left out breaks it, and the real sessions do what the model does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lineal.engines import Engine
from lineal.testing import formal
from lineal.testing.scripts import InFile, InMemory

HERE = Path(__file__).parents[1] / "formal"
SPEC = HERE / "Lineal.tla"

# What is left out -> the promise that TLC then breaks.
BROKEN = {
    "no_floor": "NothingPromisedIsSummarisedAway",
    "not_received": "NothingPromisedIsSummarisedAway",
    "checkpoint_in_flight": "NoPastThatACompactionHasOvertaken",
    "recover_below": "NoPastThatACompactionHasOvertaken",
    "intent_after": "NothingRepeatedUnasked",
    "ledger_rolled_back": "NothingRepeatedUnasked",
    "unknown_retried": "NothingRepeatedUnasked",
    "rollback_ungated": "RollbackOnlyOverWhatIsKnown",
    "two_steps": "NoHalfCompactionReadAsWhole",
    "no_compare": "GenerationsFollowEachOther",
}
TRAPS = ("NeverTwoGenerations", "NeverFenced", "NeverBackToACheckpoint", "NeverGuarded", "NeverSentTwice")

needs_tlc = pytest.mark.skipif(bool(formal.missing()), reason=f"TLC cannot be run: {formal.missing()}")


@needs_tlc
def test_the_promises_hold_in_every_state_of_the_small_model() -> None:
    checked = formal.check(HERE / "small.cfg", SPEC)
    assert checked.violated == "" and checked.states > 10_000


@needs_tlc
@pytest.mark.parametrize("name", BROKEN)
def test_a_rule_that_is_left_out_breaks_its_promise_and_the_session_refuses_that_step(name: str) -> None:
    """TLC's counterexample, done with real sessions, is refused or goes another way, at the step that the rule is about or before."""
    checked = formal.check(HERE / "broken" / f"{name}.cfg", SPEC)
    assert checked.violated == BROKEN[name]
    assert len(checked.trace) >= 2
    assert formal.replay(checked.trace, InMemory().open), "the session went along with it"


@needs_tlc
@pytest.mark.parametrize("name", TRAPS)
def test_the_model_does_reach(name: str) -> None:
    """Each of these must be broken, else the promises would hold for want of anything happening; and the sessions follow."""
    checked = formal.check(HERE / "broken" / f"trap_{name}.cfg", SPEC)
    assert checked.violated == name
    assert formal.replay(checked.trace, InMemory().open) == []


@needs_tlc
@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_real_sessions_do_what_the_model_does(engine: str, tmp_path: Path) -> None:
    numbers = iter(range(1_000))

    def fresh() -> Callable[[], Engine]:
        return (InMemory() if engine == "memory" else InFile(tmp_path / f"{next(numbers)}.db")).open

    tally = formal.campaign(HERE, fresh, count=40 if engine == "memory" else 10, depth=25, seed=3)
    assert tally.sound, tally.wrong()
    assert {
        f"model: {name}" for name in ("Say", "Begin", "Commit", "Close", "Crash", "Recover", "Rollback", "Resolve")
    } <= tally.states.keys()


def test_what_tlc_prints_is_read() -> None:
    assert formal._value('[a |-> <<1, "x">>, b |-> {2, 3}, c |-> [d |-> TRUE], e |-> <<>>, f |-> {}]') == {
        "a": [1, "x"],
        "b": {2, 3},
        "c": {"d": True},
        "e": [],
        "f": set(),
    }
