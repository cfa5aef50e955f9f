"""Which checkpoint recovery may go to (record 000): a case for each row, then everything small against a dumber rule."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Literal

import pytest

from lineal.errors import CompactionLineageError, PolicyError
from lineal.rules import recovery
from lineal.rules.recovery import TABLE, Candidate, RecoveryFacts, choose, judge, select_recovery_target

OLD, NEW = Candidate("c-old", 20), Candidate("c-new", 57)
COMPACTED = RecoveryFacts(committed_at=41, replay_from=30)
LIVE = replace(COMPACTED, open_compaction="live", generation=4, holder="worker-2", deadline=1_764_500_000.0)

CASES = [
    ("open_compaction_live", LIVE),
    ("open_compaction_live", replace(LIVE, candidate=NEW)),
    ("open_compaction_dead", replace(LIVE, open_compaction="dead")),
    ("taken_in_flight", replace(COMPACTED, candidate=replace(NEW, in_flight=True))),
    ("digest_mismatch", replace(COMPACTED, candidate=replace(NEW, digest_ok=False))),
    ("not_newer", replace(COMPACTED, candidate=OLD)),
    ("not_newer", replace(COMPACTED, candidate=Candidate("c-equal", 41))),
    ("not_newer", replace(COMPACTED, candidate=NEW, rolled_back_at=60)),
    ("hole_above_checkpoint", replace(COMPACTED, candidate=NEW, hole=(58, 59))),
    ("hole_above_checkpoint", replace(COMPACTED, candidate=NEW, hole=(50, 58))),
    ("newer_than_compaction", replace(COMPACTED, candidate=Candidate("c-next", 42))),
    ("newer_than_compaction", replace(COMPACTED, candidate=NEW, hole=(50, 57))),
    ("newer_than_compaction", RecoveryFacts(candidate=Candidate("c-first", 1))),
    ("hole", replace(COMPACTED, hole=(31, 33))),
    ("replay", COMPACTED),
    ("replay", replace(COMPACTED, hole=(10, 30))),
]


@pytest.mark.parametrize(("row", "facts"), CASES, ids=[f"{row}-{i}" for i, (row, _) in enumerate(CASES)])
def test_row(row: str, facts: RecoveryFacts) -> None:
    """R64: each row decides its case, and a refusal says why."""
    verdict = judge(facts)
    assert verdict.reason == row
    assert verdict.allowed is TABLE.row(row).allowed
    assert verdict.message


def test_every_row_has_a_case() -> None:
    assert {row for row, _ in CASES} == {row.name for row in TABLE.rows}


# --- stories -----------------------------------------------------------------------------------------------------------


def test_the_newest_checkpoint_after_the_compaction_is_restored() -> None:
    choice = choose(COMPACTED, [NEW, Candidate("c-mid", 50), OLD])
    assert (choice.target, choice.seq, choice.checkpoint_id, choice.passed_over) == ("checkpoint", 57, "c-new", ())
    assert not choice.abort_open
    assert choice


def test_damaged_and_torn_checkpoints_are_passed_over_and_named() -> None:
    torn, damaged = replace(NEW, in_flight=True), Candidate("c-bad", 55, digest_ok=False)
    choice = choose(COMPACTED, [torn, damaged, Candidate("c-good", 50)])
    assert (choice.target, choice.checkpoint_id) == ("checkpoint", "c-good")
    assert [(c.id, v.reason) for c, v in choice.passed_over] == [("c-new", "taken_in_flight"), ("c-bad", "digest_mismatch")]


def test_an_older_checkpoint_is_never_restored_and_the_search_ends_there() -> None:
    def candidates() -> Iterator[Candidate]:
        yield OLD
        raise AssertionError("nothing older may be looked at")

    choice = choose(COMPACTED, candidates())
    assert (choice.target, choice.seq, choice.checkpoint_id) == ("replay", 41, None)
    assert [v.reason for _, v in choice.passed_over] == ["not_newer"]
    assert "seq 20" in choice.why
    assert "seq 41" in choice.why


def test_a_rollback_is_a_barrier_like_a_compaction_and_is_named() -> None:
    """R40: superseded checkpoints stay dead."""
    choice = choose(replace(COMPACTED, rolled_back_at=70), [NEW, OLD])
    assert (choice.target, choice.seq) == ("replay", 70)
    assert "rollback at seq 70" in choice.why


def test_a_dead_holders_compaction_is_aborted_first_and_blocks_nothing() -> None:
    """R33."""
    choice = choose(replace(LIVE, open_compaction="dead"), [NEW])
    assert (choice.target, choice.checkpoint_id, choice.abort_open) == ("checkpoint", "c-new", True)
    assert "worker-2" in choice.why


def test_a_live_holders_compaction_is_refused_with_holder_and_deadline() -> None:
    """R33: a live holder is not taken for dead, and no checkpoint is looked at."""
    choice = choose(LIVE, iter([NEW]))
    assert (choice.target, choice.passed_over, choice.abort_open) == (None, (), False)
    assert not choice
    assert choice.verdict.facts["holder"] == "worker-2"
    assert choice.verdict.facts["deadline"] == 1_764_500_000.0
    assert "worker-2" in choice.why
    assert choice.verdict.remedy


def test_a_hole_is_refused_with_the_lost_range_and_what_still_reads() -> None:
    """R5, R6: never a shorter history."""
    choice = choose(replace(LIVE, open_compaction="dead", hole=(58, 59)), [NEW, OLD])
    assert (choice.target, choice.seq, choice.abort_open) == (None, 57, False)
    assert choice.verdict.reason == "hole"
    assert choice.verdict.facts["hole"] == (58, 59)
    assert choice.verdict.facts["readable_through"] == 57
    assert "58..59" in choice.why
    assert [v.reason for _, v in choice.passed_over] == ["hole_above_checkpoint", "not_newer"]


def test_a_log_without_checkpoints_is_replayed_from_its_start() -> None:
    choice = choose(RecoveryFacts(), [])
    assert (choice.target, choice.seq, choice.passed_over) == ("replay", 0, ())


# --- the record's names ------------------------------------------------------------------------------------------------


def test_the_gate_by_numbers() -> None:
    assert select_recovery_target(8, 7, False) == "checkpoint"
    assert select_recovery_target(7, 7, False) == "replay"
    assert select_recovery_target(6, 7, False) == "replay"
    assert select_recovery_target(1, 0, False) == "checkpoint"
    assert select_recovery_target(0, 0, False) == "replay"


@pytest.mark.parametrize("checkpoint_seq", [6, 7, 8])
def test_the_gate_refuses_whenever_a_compaction_is_in_flight(checkpoint_seq: int) -> None:
    with pytest.raises(CompactionLineageError) as refusal:
        select_recovery_target(checkpoint_seq, 7, True)
    assert refusal.value.reason == "open_compaction_live"
    assert str(checkpoint_seq) in str(refusal.value)
    assert "seq 7" in str(refusal.value)


@pytest.mark.parametrize("bad", [-1, True, 1.0, "7", None])
def test_the_gate_takes_positions_only(bad: object) -> None:
    """R3: a time or a flag in place of a seq is a mistake, not a state."""
    with pytest.raises(PolicyError):
        select_recovery_target(bad, 7, False)  # type: ignore[arg-type]
    with pytest.raises(PolicyError):
        select_recovery_target(7, bad, False)  # type: ignore[arg-type]


def test_the_gate_takes_a_flag_only() -> None:
    with pytest.raises(PolicyError):
        select_recovery_target(8, 7, "no")  # type: ignore[arg-type]


@pytest.mark.parametrize(("seq", "called"), [(8, "restored"), (7, "replayed")])
def test_recover_calls_exactly_one(seq: int, called: str) -> None:
    calls: list[str] = []

    def call(name: str) -> str:
        calls.append(name)
        return f"state {name}"

    found = recovery.recover(seq, 7, False, lambda: call("restored"), lambda: call("replayed"))
    assert (calls, found) == ([called], f"state {called}")


def test_recover_calls_nothing_when_it_refuses() -> None:
    calls: list[str] = []
    with pytest.raises(CompactionLineageError):
        recovery.recover(9, 7, True, lambda: calls.append("restored"), lambda: calls.append("replayed"))
    assert calls == []


def test_a_failed_restore_is_not_answered_by_a_replay() -> None:
    calls: list[str] = []

    def restore() -> None:
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        recovery.recover(9, 7, False, restore, lambda: calls.append("replayed"))
    assert calls == []


# --- a second, dumber implementation -------------------------------------------------------------------------------------


def dumb(facts: RecoveryFacts, candidates: list[Candidate]) -> tuple[str | None, str | None]:
    if facts.open_compaction == "live":
        return None, None
    lost = set(range(facts.hole[0], facts.hole[1] + 1)) if facts.hole else set()
    for c in sorted(candidates, key=lambda c: -c.seq):
        after_all = c.seq > facts.committed_at and c.seq > facts.rolled_back_at
        if after_all and c.digest_ok and not c.in_flight and not any(seq > c.seq for seq in lost):
            return "checkpoint", c.id
    return (None, None) if any(seq > facts.replay_from for seq in lost) else ("replay", None)


def test_everything_small_agrees_with_the_dumb_rule() -> None:
    """R58: selection is by sequence alone."""
    pairs = [
        [Candidate("b", 4, in_flight=f1, digest_ok=d1), Candidate("a", 2, in_flight=f2, digest_ok=d2)]
        for f1, d1, f2, d2 in product((False, True), repeat=4)
    ]
    compared = 0
    states: tuple[Literal["dead", "live"] | None, ...] = (None, "dead", "live")
    for committed, rolled, hole, opened in product((0, 1, 2, 3, 4), (0, 2, 5), (None, (1, 1), (3, 3), (5, 6)), states):
        facts = RecoveryFacts(committed_at=committed, rolled_back_at=rolled, open_compaction=opened, hole=hole, replay_from=committed)
        for pair in pairs:
            choice = choose(facts, pair)
            assert (choice.target, choice.checkpoint_id) == dumb(facts, pair), (facts, pair)
            assert choice.verdict.allowed is (choice.target is not None)
            compared += 1
    assert compared == 5 * 3 * 4 * 3 * 16


def test_a_replay_begins_at_the_barrier_although_rows_below_what_it_needs_are_lost() -> None:
    """R58: the hole lies where nothing is read; and a refusal names the last that still reads."""
    behind = replace(COMPACTED, hole=(3, 4), replay_from=30)
    assert (choose(behind, []).target, choose(behind, []).seq) == ("replay", behind.barrier)
    refused = choose(replace(COMPACTED, hole=(58, 59), replay_from=30), [])
    assert (refused.target, refused.seq) == (None, 57)


def test_a_checkpoint_without_a_name_is_told_by_its_seq() -> None:
    verdict = judge(replace(COMPACTED, candidate=Candidate("", 10)))
    assert verdict.message.startswith("the checkpoint at seq 10")
    assert judge(replace(COMPACTED, candidate=Candidate("c-1", 10))).message.startswith("checkpoint 'c-1' at seq 10")
