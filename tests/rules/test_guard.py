"""Is a state set what the compaction left behind (record 004): a case for each row, and what no policy may change."""

from dataclasses import fields, replace
from itertools import product

import pytest

from lineal.rules.guard import (
    TABLE,
    VERDICTS,
    CompactionGuard,
    CompactionManifest,
    CompactionPolicy,
    CompactionState,
    CompactionVerdict,
    GuardFacts,
)

CLEAN = CompactionState("pre", "post", 3, (3, 3), 40, 57, "post")
SNAPSHOTS, NONE = CompactionPolicy(True), CompactionPolicy(False)

CASES = [
    ("in_progress", replace(CLEAN, compaction_completion_epoch=58)),
    ("in_progress", replace(CLEAN, compaction_completion_epoch=None)),
    ("in_progress", replace(CLEAN, compaction_completion_epoch=float("nan"))),
    ("in_progress", replace(CLEAN, compaction_completion_epoch=58, record_generations_seen=(2, 3))),
    ("mixed", replace(CLEAN, record_generations_seen=(2, 3))),
    ("mixed", replace(CLEAN, record_generations_seen=(2, 2))),
    ("clean", CLEAN),
    ("clean", replace(CLEAN, compaction_completion_epoch=57)),
    ("clean", replace(CLEAN, current_readback_hash="pre", post_compaction_state_hash=None)),
    ("old_copy", replace(CLEAN, current_readback_hash="pre")),
    ("altered", replace(CLEAN, current_readback_hash="other")),
    ("altered", replace(CLEAN, post_compaction_state_hash=None)),
    ("altered", CompactionState("", "", 3, (3,), 40, 57)),
]


@pytest.mark.parametrize(("row", "state"), CASES, ids=[f"{row}-{i}" for i, (row, _) in enumerate(CASES)])
@pytest.mark.parametrize("policy", [SNAPSHOTS, NONE], ids=["snapshots", "no-snapshots"])
def test_row(row: str, state: CompactionState, policy: CompactionPolicy) -> None:
    """R64, R61: each row decides its case under either policy, and only a clean one is told to proceed."""
    assert TABLE.decide(GuardFacts(state, policy)).reason == row
    manifest = CompactionGuard.evaluate_state(state, policy)
    assert manifest.verdict is VERDICTS[row]
    assert manifest.directive.startswith("PROCEED") is (row == "clean")


def test_every_row_has_a_case_and_a_verdict() -> None:
    names = {row.name for row in TABLE.rows}
    assert {row for row, _ in CASES} == names
    assert set(VERDICTS) == names


def test_the_fields_are_the_records_in_its_order() -> None:
    assert [f.name for f in fields(CompactionState)][:6] == [
        "pre_compaction_state_hash",
        "current_readback_hash",
        "compaction_generation_id",
        "record_generations_seen",
        "compaction_completion_epoch",
        "current_epoch",
    ]
    assert [f.name for f in fields(CompactionManifest)] == ["verdict", "directive", "manifest_digest"]
    assert [v.name for v in CompactionVerdict][:3] == ["POST_COMPACTION_CLEAN", "COMPACTION_IN_PROGRESS", "MIXED_GENERATION_DETECTED"]


def test_the_policy_changes_the_way_out_and_never_the_finding() -> None:
    mixed = replace(CLEAN, record_generations_seen=(2, 3))
    with_snapshots, without = (CompactionGuard.evaluate_state(mixed, p) for p in (SNAPSHOTS, NONE))
    assert with_snapshots.verdict is without.verdict is CompactionVerdict.MIXED_GENERATION_DETECTED
    assert with_snapshots.directive.startswith("RE-READ")
    assert "snapshot of after the compaction" in with_snapshots.directive
    assert without.directive.startswith("HALT")


def test_an_old_copy_is_told_from_a_damaged_one() -> None:
    old = CompactionGuard.evaluate_state(replace(CLEAN, current_readback_hash="pre"), NONE)
    damaged = CompactionGuard.evaluate_state(replace(CLEAN, current_readback_hash="other"), NONE)
    assert old.verdict is damaged.verdict is CompactionVerdict.ALTERED
    assert "old copy" in old.directive
    assert "'other'" in damaged.directive
    assert "'post'" in damaged.directive


def test_the_digest_binds_the_verdict_to_all_that_it_was_drawn_from() -> None:
    states = [
        CLEAN,
        replace(CLEAN, compaction_generation_id=4),
        replace(CLEAN, record_generations_seen=(3,)),
        replace(CLEAN, current_epoch=58),
        replace(CLEAN, pre_compaction_state_hash="another"),
        replace(CLEAN, current_readback_hash="other"),
    ]
    digests = {CompactionGuard.evaluate_state(s, p).manifest_digest for s, p in product(states, (SNAPSHOTS, NONE))}
    assert len(digests) == 12
    assert CompactionGuard.evaluate_state(CLEAN, NONE) == CompactionGuard.evaluate_state(replace(CLEAN), NONE)


def dumb(state: CompactionState) -> str:
    if state.compaction_completion_epoch is None or state.compaction_completion_epoch > state.current_epoch:
        return "COMPACTION_IN_PROGRESS"
    for generation in state.record_generations_seen:
        if generation != state.compaction_generation_id:
            return "MIXED_GENERATION_DETECTED"
    wanted = state.post_compaction_state_hash or state.pre_compaction_state_hash
    return "POST_COMPACTION_CLEAN" if state.current_readback_hash == wanted else "ALTERED"


def test_everything_small_agrees_with_the_dumb_rule() -> None:
    for read, seen, end, post in product(("a", "b", "c"), ((), (1,), (2,), (1, 2)), (None, 4, 5, 6), (None, "a", "b")):
        state = CompactionState("a", read, 2, seen, end, 5, post)
        for policy in (SNAPSHOTS, NONE):
            assert CompactionGuard.evaluate_state(state, policy).verdict.name == dumb(state), state
