"""May this effect be sent (record 003): a case for each row of both tables, then all combinations."""

from dataclasses import replace
from itertools import product
from typing import Literal, get_args

import pytest

from lineal.rules.emission import LOOKALIKE, TABLE, EmissionFacts, LookalikeFacts, judge, judge_lookalike
from lineal.rules.rollback import State

STATES: tuple[State, ...] = get_args(State)
FOUND: tuple[State | None, ...] = (None, *STATES)
BOOLS = (False, True)
POLICIES: tuple[Literal["ask", "warn", "allow"], ...] = ("ask", "warn", "allow")
ROTATE = EmissionFacts("done", key="rotate:1", tool="rotate", seq=7, attempt=1)
BUSY = replace(ROTATE, found="intended", holder_live=True, holder="worker-2", deadline=1_764_500_000.0)
PUSH = LookalikeFacts("done", key="s/12/0", tool="push", seq=12)

CASES = [
    ("send", EmissionFacts()),
    ("key_conflict", replace(ROTATE, same_arguments=False)),
    ("key_conflict", replace(BUSY, same_arguments=False)),
    ("key_conflict", replace(ROTATE, found="no_effect", same_arguments=False)),
    ("recorded", ROTATE),
    ("recorded", replace(ROTATE, idempotent=True)),
    ("compensated", replace(ROTATE, found="compensated")),
    ("send_again", replace(ROTATE, found="no_effect")),
    ("busy", BUSY),
    ("busy", replace(BUSY, idempotent=True)),
    ("send_again_idempotent", replace(ROTATE, found="unknown", idempotent=True)),
    ("send_again_idempotent", replace(ROTATE, found="intended", idempotent=True)),
    ("unknown", replace(ROTATE, found="unknown")),
    ("unknown", replace(ROTATE, found="intended")),
]

LOOKALIKE_CASES = [
    ("none", LookalikeFacts()),
    ("parallel", replace(PUSH, found="intended", holder_live=True)),
    ("had_no_effect", replace(PUSH, found="no_effect")),
    ("idempotent", replace(PUSH, idempotent=True)),
    ("idempotent", replace(PUSH, found="unknown", idempotent=True)),
    ("unsettled_lookalike", replace(PUSH, found="unknown", in_view=True)),
    ("unsettled_lookalike", replace(PUSH, found="intended", policy="allow")),
    ("deliberate_repeat", replace(PUSH, in_view=True)),
    ("allowed_by_policy", replace(PUSH, policy="allow")),
    ("warned", replace(PUSH, policy="warn")),
    ("look_alike", PUSH),
    ("look_alike", replace(PUSH, found="compensated")),
]


@pytest.mark.parametrize(("row", "facts"), CASES, ids=[f"{row}-{i}" for i, (row, _) in enumerate(CASES)])
def test_row(row: str, facts: EmissionFacts) -> None:
    """R64: each row decides its case; what is not sent says why and shows the way out."""
    verdict = judge(facts)
    assert verdict.reason == row
    assert verdict.allowed is TABLE.row(row).allowed
    assert verdict.message
    assert verdict.allowed or verdict.remedy


@pytest.mark.parametrize(("row", "facts"), LOOKALIKE_CASES, ids=[f"{row}-{i}" for i, (row, _) in enumerate(LOOKALIKE_CASES)])
def test_lookalike_row(row: str, facts: LookalikeFacts) -> None:
    """R64, for the second table."""
    verdict = judge_lookalike(facts)
    assert verdict.reason == row
    assert verdict.allowed is LOOKALIKE.row(row).allowed
    assert verdict.message
    assert verdict.allowed or verdict.remedy


def test_every_row_has_a_case() -> None:
    assert {row for row, _ in CASES} == {row.name for row in TABLE.rows}
    assert {row for row, _ in LOOKALIKE_CASES} == {row.name for row in LOOKALIKE.rows}


# --- stories -----------------------------------------------------------------------------------------------------------


def test_an_effects_life_under_one_key() -> None:
    """R47: declined, tried again, lost on the way, found out, and never sent twice."""
    effect = EmissionFacts(key="mail:7", tool="mail")
    assert judge(effect)
    effect = replace(effect, found="intended", holder_live=True, seq=3, attempt=1)
    assert judge(effect).reason == "busy"
    declined = judge(replace(effect, found="no_effect", holder_live=False))
    assert (declined.reason, declined.facts["attempt"]) == ("send_again", 2)
    lost = replace(effect, holder_live=False, attempt=2)
    assert judge(lost).reason == "unknown"
    assert judge(replace(lost, found="done")).reason == "recorded"


def test_a_busy_refusal_names_the_holder_and_until_when() -> None:
    verdict = judge(BUSY)
    assert "worker-2" in verdict.message
    assert verdict.facts["deadline"] == 1_764_500_000.0
    assert (verdict.facts["key"], verdict.facts["seq"]) == ("rotate:1", 7)


def test_a_loop_of_equal_calls_runs_in_full_while_the_agent_sees_them() -> None:
    """R50: agents rightly push twice."""
    assert judge_lookalike(replace(PUSH, in_view=True)).reason == "deliberate_repeat"


def test_an_equal_call_that_left_the_view_waits_for_a_decision() -> None:
    """R50: the earlier one is named, so that its outcome can be returned."""
    verdict = judge_lookalike(PUSH)
    assert not verdict
    assert (verdict.facts["key"], verdict.facts["seq"]) == ("s/12/0", 12)
    assert judge_lookalike(replace(PUSH, policy="warn")).reason == "warned"


# --- second, dumber implementations ---------------------------------------------------------------------------------------


def dumb(found: State | None, same: bool, live: bool, idempotent: bool) -> str:
    if found is not None and not same:
        return "key_conflict"
    if found == "intended":
        if live:
            return "busy"
        found = "unknown"
    if found == "unknown":
        return "send_again_idempotent" if idempotent else "unknown"
    return {None: "send", "done": "recorded", "compensated": "compensated", "no_effect": "send_again"}[found]


def test_every_combination_under_one_key_agrees_with_the_dumb_rule() -> None:
    for found, same, live, idempotent in product(FOUND, BOOLS, BOOLS, BOOLS):
        assert judge(EmissionFacts(found, same, live, idempotent)).reason == dumb(found, same, live, idempotent)


def dumb_may_repeat(found: State | None, in_view: bool, live: bool, idempotent: bool, policy: str) -> bool:
    known_harmless = found in (None, "no_effect") or idempotent
    at_the_same_time = found == "intended" and live
    lost = found in ("intended", "unknown") and not at_the_same_time
    somebody_knows = in_view or policy != "ask"
    return known_harmless or at_the_same_time or (somebody_knows and not lost)


def test_every_combination_of_equal_calls_agrees_with_the_dumb_rule() -> None:
    for found, in_view, live, idempotent, policy in product(FOUND, BOOLS, BOOLS, BOOLS, POLICIES):
        facts = LookalikeFacts(found, in_view, live, idempotent, policy)
        assert judge_lookalike(facts).allowed is dumb_may_repeat(found, in_view, live, idempotent, policy), facts


def test_nothing_that_may_have_happened_is_sent_again_unless_it_is_idempotent() -> None:
    """Promise 3, as one sentence over the whole table."""
    for found, same, live in product(STATES, BOOLS, BOOLS):
        if found != "no_effect":
            assert not judge(EmissionFacts(found, same, live, idempotent=False))
