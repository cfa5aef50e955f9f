"""The four records, sentence by sentence, against the pure rules that keep them (R64).

A test is named by its record, the section of the record, and what the sentence demands. Where a record gives its own
function or class names, the test goes through these.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lineal.errors import CompactionLineageError, PolicyError, Refused, UnrecoverableCompactionError, UnsafeRollbackError
from lineal.rules import emission, integrity, rollback
from lineal.rules.compaction import assert_compaction_safe, maybe_auto_compact
from lineal.rules.emission import EmissionFacts, LookalikeFacts
from lineal.rules.integrity import (
    CompactionGuard,
    CompactionManifest,
    CompactionPolicy,
    CompactionState,
    CompactionVerdict,
    Gap,
    RowFacts,
    RowSeen,
    judge_rows,
)
from lineal.rules.recovery import Candidate, RecoveryFacts, choose, recover, select_recovery_target
from lineal.rules.rollback import Checkpoint, EffectLedger, EffectRecord, RollbackFacts, authorize_rollback


def never(what: str) -> Callable[[], Any]:
    def called() -> Any:
        raise AssertionError(f"{what} must not be called")

    return called


# --- record 000: compaction and recovery -------------------------------------------------------------------------------


def test_000_core_a_checkpoint_is_a_target_only_if_newer_than_the_last_lossy_compaction() -> None:
    for checkpoint in range(1, 9):
        assert select_recovery_target(checkpoint, 5, False) == ("checkpoint" if checkpoint > 5 else "replay")


def test_000_observed_the_full_snapshot_from_just_before_the_compaction_is_not_restored() -> None:
    """Checkpoint at 10, compaction committed at 11, a fault at 14: the newest checkpoint is the stale one."""
    choice = choose(RecoveryFacts(committed_at=11, replay_from=8), [Candidate("hourly", 10)])
    assert (choice.target, choice.seq) == ("replay", 11)
    assert [(c.id, v.reason) for c, v in choice.passed_over] == [("hourly", "not_newer")]


def test_000_observed_a_snapshot_of_the_state_after_the_compaction_is_fine() -> None:
    assert choose(RecoveryFacts(committed_at=11), [Candidate("hourly", 12)]).target == "checkpoint"


def test_000_validity_1_the_sequence_number_is_strictly_greater() -> None:
    assert select_recovery_target(12, 11, False) == "checkpoint"
    assert select_recovery_target(11, 11, False) == "replay"
    assert select_recovery_target(10, 11, False) == "replay"


def test_000_validity_1_only_a_committed_compaction_counts() -> None:
    """One that was begun and given up by a dead holder moves no barrier: it is aborted, and the checkpoint stays good."""
    facts = RecoveryFacts(committed_at=11, open_compaction="dead", generation=2)
    choice = choose(facts, [Candidate("hourly", 12)])
    assert (choice.target, choice.abort_open) == ("checkpoint", True)


def test_000_validity_2_the_checkpoint_is_downstream_of_the_commit_not_concurrent_with_it() -> None:
    """On one log, downstream is a greater seq; while a commit is still being made nothing is downstream of it."""
    with pytest.raises(CompactionLineageError):
        select_recovery_target(12, 11, True)


def test_000_validity_3_no_compaction_was_in_flight_when_the_checkpoint_was_taken() -> None:
    """Whatever its seq, and although none is in flight at recovery."""
    torn = Candidate("torn", 13, in_flight=True)
    choice = choose(RecoveryFacts(committed_at=11), [torn, Candidate("whole", 12)])
    assert choice.checkpoint_id == "whole"
    assert choose(RecoveryFacts(committed_at=11), [torn]).target == "replay"


@pytest.mark.parametrize(
    "failed",
    [Candidate("older", 10), Candidate("equal", 11), Candidate("torn", 20, in_flight=True), Candidate("damaged", 20, digest_ok=False)],
    ids=lambda c: c.id,
)
def test_000_validity_if_any_condition_fails_the_target_is_another_checkpoint_or_a_replay(failed: Candidate) -> None:
    facts = RecoveryFacts(committed_at=11)
    good = Candidate("good", 15)
    newest_first = sorted([failed, good], key=lambda c: -c.seq)
    assert choose(facts, newest_first).checkpoint_id == "good"
    alone = choose(facts, [failed])
    assert (alone.target, alone.checkpoint_id, alone.seq) == ("replay", None, 11)


def test_000_validity_the_most_recent_checkpoint_after_the_compaction_is_taken() -> None:
    choice = choose(RecoveryFacts(committed_at=11), [Candidate("c3", 30), Candidate("c2", 20), Candidate("c1", 10)])
    assert choice.checkpoint_id == "c3"


def test_000_validity_the_comparison_is_on_one_logical_counter_never_on_times() -> None:
    with pytest.raises(PolicyError):
        select_recovery_target(1_764_500_000.5, 1_764_500_000.0, False)  # type: ignore[arg-type]


def test_000_decision_is_made_before_any_restore_is_attempted() -> None:
    with pytest.raises(CompactionLineageError):
        recover(12, 11, True, never("restore"), never("replay"))
    with pytest.raises(PolicyError):
        recover(-1, 11, False, never("restore"), never("replay"))


def test_000_decision_restore_when_the_checkpoint_is_greater() -> None:
    assert recover(12, 11, False, lambda: "restored", never("replay")) == "restored"


@pytest.mark.parametrize("checkpoint", [10, 11])
def test_000_decision_reconstruct_when_the_checkpoint_is_not_greater(checkpoint: int) -> None:
    assert recover(checkpoint, 11, False, never("restore"), lambda: "replayed") == "replayed"


def test_000_decision_equality_with_a_compaction_in_flight_is_refusal() -> None:
    with pytest.raises(CompactionLineageError) as refusal:
        select_recovery_target(11, 11, True)
    assert "seq 11" in str(refusal.value)


def test_000_decision_there_is_no_third_option_that_merges() -> None:
    """Every answer is exactly one of the two, or a refusal."""
    answers = {select_recovery_target(c, k, False) for c in range(6) for k in range(6)}
    assert answers == {"checkpoint", "replay"}


def test_000_operation_whatever_is_resumed_from_is_one_passes_output() -> None:
    """A restored checkpoint lies after every barrier; a replay starts at the last one. Nothing else is ever resumed from."""
    for committed in range(5):
        for rolled_back in range(5):
            facts = RecoveryFacts(committed_at=committed, rolled_back_at=rolled_back)
            choice = choose(facts, [Candidate(str(s), s) for s in (5, 4, 3, 2, 1) if s not in (committed, rolled_back)])
            assert choice.seq >= max(committed, rolled_back)
            assert choice.target == "replay" or choice.seq > max(committed, rolled_back)


# --- record 002: when a compaction must be refused -----------------------------------------------------------------------


FLOOR, WINDOW = range(30, 42), range(1, 42)


def test_002_core_a_tail_that_an_earlier_stage_evicted_refuses() -> None:
    with pytest.raises(UnrecoverableCompactionError):
        assert_compaction_safe(FLOOR, WINDOW, evicted=[33])


def test_002_core_a_window_that_leaves_out_turns_of_the_guarantee_refuses() -> None:
    with pytest.raises(UnrecoverableCompactionError):
        assert_compaction_safe(FLOOR, range(1, 41))


def test_002_observed_eight_oldest_turns_dropped_to_meet_the_ceiling_reach_into_the_floor() -> None:
    """After large tool results only 16 turns stand; the 8 oldest are dropped, 4 of them inside a floor of 12."""
    standing = list(range(26, 42))
    floor, evicted = standing[-12:], standing[:8]
    with pytest.raises(UnrecoverableCompactionError) as refusal:
        maybe_auto_compact(161_000, 160_000, floor, standing[8:], evicted, never("compact"))
    assert "30..33" in str(refusal.value)


def test_002_validity_the_window_is_a_superset_of_the_floor() -> None:
    assert_compaction_safe(FLOOR, WINDOW)
    assert_compaction_safe(FLOOR, FLOOR)
    with pytest.raises(UnrecoverableCompactionError):
        assert_compaction_safe(WINDOW, FLOOR)


def test_002_validity_an_overlap_is_not_enough() -> None:
    for missing in FLOOR:
        with pytest.raises(UnrecoverableCompactionError):
            assert_compaction_safe(FLOOR, [n for n in WINDOW if n != missing])


def test_002_validity_no_truncation_has_removed_a_turn_within_the_floors_reach() -> None:
    """Evicted from elsewhere is no harm to the floor; evicted from inside it is, although the window lists it again."""
    assert_compaction_safe(FLOOR, range(9, 42), evicted=range(1, 9))
    with pytest.raises(UnrecoverableCompactionError):
        assert_compaction_safe(FLOOR, WINDOW, evicted=[30])


def test_002_decision_refuse_when_the_floor_cannot_be_proven_a_subset() -> None:
    with pytest.raises(UnrecoverableCompactionError):
        maybe_auto_compact(161_000, 160_000, FLOOR, [], [], never("compact"))


def test_002_decision_a_tail_that_starts_outside_the_summarizers_input_refuses() -> None:
    """The input ends before the tail begins: not one turn of the floor was read."""
    with pytest.raises(UnrecoverableCompactionError):
        maybe_auto_compact(161_000, 160_000, FLOOR, range(1, 30), [], never("compact"))


def test_002_decision_escalate_to_a_spill_where_there_is_one() -> None:
    assert maybe_auto_compact(161_000, 160_000, FLOOR, WINDOW, [33], never("compact"), lambda: "spilled") == "spilled"


def test_002_decision_or_halt_and_compact_nothing() -> None:
    with pytest.raises(UnrecoverableCompactionError) as refusal:
        maybe_auto_compact(161_000, 160_000, FLOOR, WINDOW, [33], never("compact"))
    assert refusal.value.remedy


def test_002_operation_the_halt_names_the_evicted_range() -> None:
    with pytest.raises(UnrecoverableCompactionError) as refusal:
        assert_compaction_safe(FLOOR, WINDOW, evicted=[31, 32, 33])
    assert "31..33" in str(refusal.value)


def test_002_operation_a_provable_floor_is_compacted_and_below_the_trigger_nothing_happens() -> None:
    assert maybe_auto_compact(161_000, 160_000, FLOOR, WINDOW, [], lambda: "compacted", never("spill")) == "compacted"
    assert maybe_auto_compact(159_999, 160_000, FLOOR, [], [33], never("compact"), never("spill")) is None


# --- record 003: effects, rollback and emission --------------------------------------------------------------------------


def ledger_of(*effects: tuple[int, bool]) -> EffectLedger:
    ledger = EffectLedger()
    for effect_id, idempotent in effects:
        ledger.record(effect_id, idempotent)
    return ledger


def test_003_core_a_delta_of_context_changes_alone_is_a_pure_state_operation() -> None:
    verdict = rollback.judge(RollbackFacts(target=10, head=90, watermark=4, effects=(EffectRecord("before", 4),)))
    assert (verdict.allowed, verdict.reason) == (True, "none")


def test_003_core_what_was_done_is_known_from_data_when_prose_has_forgotten_it() -> None:
    """The very call that only a summary remembers is found in the ledger, and not sent again."""
    assert emission.judge(EmissionFacts("done", key="truncate:scratch", tool="truncate", seq=12)).reason == "recorded"
    assert emission.judge_lookalike(LookalikeFacts("done", in_view=False)).reason == "look_alike"


def test_003_observed_maintenance_is_not_run_twice_after_a_rollback() -> None:
    """Rotate, truncate and advance came after the target: going back names them, and each is answered from the ledger."""
    done = tuple(EffectRecord(key, seq) for seq, key in enumerate(("rotate", "truncate", "advance"), 11))
    verdict = rollback.judge(RollbackFacts(target=10, head=40, watermark=0, effects=done))
    assert verdict.facts["guarded"] == ("rotate", "truncate", "advance")
    assert [emission.judge(EmissionFacts("done", key=key)).allowed for key in verdict.facts["guarded"]] == [False] * 3


def test_003_validity_a_every_effect_is_idempotent() -> None:
    verdict = authorize_rollback(Checkpoint("cp", 5), ledger_of((6, True), (7, True)), False)
    assert (verdict.allowed, verdict.facts["idempotent"]) == (True, ("6", "7"))


def test_003_validity_b_or_stands_in_a_ledger_that_survives() -> None:
    verdict = authorize_rollback(Checkpoint("cp", 5), ledger_of((6, False)), False)
    assert (verdict.allowed, verdict.facts["guarded"]) == (True, ("6",))
    with pytest.raises(UnsafeRollbackError):
        authorize_rollback(Checkpoint("cp", 5), None, False)


def test_003_validity_b_and_that_ledger_is_consulted_before_emission() -> None:
    """An effect that was seen outside the gate was not, and its repeat would not be."""
    ledger = EffectLedger()
    ledger.record(6, False, guarded=False)
    with pytest.raises(UnsafeRollbackError):
        authorize_rollback(Checkpoint("cp", 5), ledger, False)


def test_003_validity_every_effect_means_that_one_is_enough_to_refuse() -> None:
    ledger = ledger_of((6, True), (7, False))
    ledger.record(8, False, state="unknown")
    with pytest.raises(UnsafeRollbackError) as refusal:
        authorize_rollback(Checkpoint("cp", 5), ledger, False)
    assert refusal.value.facts["refused"] == ("8",)


def test_003_validity_the_interval_is_open_at_the_checkpoint() -> None:
    verdict = authorize_rollback(Checkpoint("cp", 5), ledger_of((5, False)), False)
    assert verdict.reason == "none"


def test_003_validity_second_the_watermark_is_data_or_the_ledger_does_not_help() -> None:
    with pytest.raises(UnsafeRollbackError) as refusal:
        authorize_rollback(Checkpoint("cp", None), ledger_of((4, False), (6, False)), False)
    assert refusal.value.reason == "no_watermark"


def test_003_decision_refuse_when_all_three_hold() -> None:
    """Not idempotent, no watermark that can be read, not safely run again."""
    with pytest.raises(UnsafeRollbackError) as refusal:
        authorize_rollback(Checkpoint("cp", None), ledger_of((6, False)), False)
    assert refusal.value.remedy


@pytest.mark.parametrize(
    ("checkpoint", "effects"),
    [
        (Checkpoint("readable", 5), ((6, False),)),
        (Checkpoint("repeatable", None), ((6, True),)),
        (Checkpoint("nothing since", 5), ()),
    ],
    ids=lambda x: x.checkpoint_id if isinstance(x, Checkpoint) else "",
)
def test_003_decision_proceed_when_any_of_the_three_does_not(checkpoint: Checkpoint, effects: tuple[tuple[int, bool], ...]) -> None:
    assert authorize_rollback(checkpoint, ledger_of(*effects), False)


def test_003_decision_proceed_to_the_latest_checkpoint_with_no_effects_since() -> None:
    assert authorize_rollback(Checkpoint("cp", 6), ledger_of((6, False)), True).reason == "none"


def test_003_decision_latest_with_effects_since_is_judged_like_any_other() -> None:
    ledger = EffectLedger()
    ledger.record(6, False, state="unknown")
    for latest in (True, False):
        with pytest.raises(UnsafeRollbackError):
            authorize_rollback(Checkpoint("cp", 5), ledger, latest)


def test_003_decision_escalation_to_an_operator_clears_the_way() -> None:
    blocked = EffectRecord("mail", 12, state="unknown")
    facts = RollbackFacts(target=10, head=20, watermark=0, effects=(blocked,))
    assert not rollback.judge(facts)
    assert rollback.judge(replace(facts, effects=(replace(blocked, state="done", resolved=True),))).reason == "reconciled"


def test_003_operation_it_fails_loudly_with_what_stands_in_the_way() -> None:
    with pytest.raises(Refused) as refusal:
        authorize_rollback(Checkpoint("before deploy", None), ledger_of((6, False)), True)
    text = str(refusal.value)
    assert "before deploy" in text
    assert "'6'" in text
    assert "Way out" in text


def test_003_operation_there_is_a_deduplication_key() -> None:
    """Nothing that was or may have been done is sent again under its key."""
    for state in ("done", "unknown", "compensated", "intended"):
        assert not emission.judge(EmissionFacts(state, key="mail:7"))


# --- record 004: integrity across a partial compaction -------------------------------------------------------------------


DONE = CompactionState("before", "after", 3, (3, 3, 3), 40, 57, "after")
SNAPSHOTS, NONE = CompactionPolicy(require_snapshot_isolation=True), CompactionPolicy(require_snapshot_isolation=False)


def evaluate(state: CompactionState, policy: CompactionPolicy = NONE) -> CompactionManifest:
    return CompactionGuard.evaluate_state(state, policy)


def test_004_core_the_hash_before_and_the_hash_after_are_different_things() -> None:
    """A lossy pass changes the state: read-back equal to the hash from before it is an old copy, not a clean one."""
    assert evaluate(DONE).verdict is CompactionVerdict.POST_COMPACTION_CLEAN
    assert evaluate(replace(DONE, current_readback_hash="before")).verdict is CompactionVerdict.ALTERED


def row(seq: int, **more: Any) -> RowSeen:
    return replace(RowSeen(seq, generation=3, expected_generation=3, size=100, found_size=100, id=f"r{seq}"), **more)


def test_004_observed_1_half_the_records_in_the_new_format() -> None:
    (report,) = judge_rows(RowFacts([row(1), row(2, generation=2), row(3), row(4, generation=2)], generation=3))
    assert report.verdict is CompactionVerdict.MIXED_GENERATION_DETECTED
    assert (report.generation, report.ids) == (2, ("r2", "r4"))


def test_004_observed_2_a_record_cut_in_its_middle() -> None:
    (report,) = judge_rows(RowFacts([row(1), row(2, found_size=41, inner_ok=False)], generation=3))
    assert (report.verdict, report.seqs) == (CompactionVerdict.TRUNCATED, (2,))


def test_004_observed_3_a_partial_deletion_that_looks_complete() -> None:
    (report,) = judge_rows(RowFacts([row(1), row(4)], generation=3, gaps=[Gap(2, 3, ("r2", "r3"))]))
    assert (report.verdict, report.ids) == (CompactionVerdict.PHANTOM_DELETION, ("r2", "r3"))


def test_004_recorded_1_the_hash_from_before_is_the_ground_truth_of_a_pass_that_changes_nothing() -> None:
    lossless = replace(DONE, post_compaction_state_hash=None)
    assert evaluate(replace(lossless, current_readback_hash="before")).verdict is CompactionVerdict.POST_COMPACTION_CLEAN
    assert evaluate(lossless).verdict is CompactionVerdict.ALTERED


def test_004_recorded_2_the_generation_tells_records_of_another_pass() -> None:
    assert evaluate(replace(DONE, record_generations_seen=(2, 2))).verdict is CompactionVerdict.MIXED_GENERATION_DETECTED


def test_004_recorded_3_the_completion_epoch_is_a_boundary_on_the_sequence() -> None:
    verdicts = [evaluate(replace(DONE, compaction_completion_epoch=end)).verdict for end in (56, 57, 58, None)]
    clean, open_pass = CompactionVerdict.POST_COMPACTION_CLEAN, CompactionVerdict.COMPACTION_IN_PROGRESS
    assert verdicts == [clean, clean, open_pass, open_pass]


def test_004_recorded_4_the_manifest_says_which_record_belongs_to_which_generation() -> None:
    """A record that the manifest gives to another generation is found, one by one."""
    assert integrity.judge_row(row(2)) is None
    report = integrity.judge_row(row(2, expected_generation=2))
    assert report is not None
    assert report.verdict is CompactionVerdict.MIXED_GENERATION_DETECTED


def test_004_decision_1_without_a_compaction_the_standard_read_back_applies() -> None:
    quiet = CompactionState("state", "state", 3, (3,), 0, 57)
    assert evaluate(quiet).verdict is CompactionVerdict.POST_COMPACTION_CLEAN
    assert evaluate(replace(quiet, current_readback_hash="other")).verdict is CompactionVerdict.ALTERED


def test_004_decision_2_completion_after_the_current_epoch_is_in_progress_whatever_else_is_seen() -> None:
    for seen in ((3,), (2, 3)):
        for read in ("before", "after", "other"):
            state = replace(DONE, compaction_completion_epoch=58, record_generations_seen=seen, current_readback_hash=read)
            assert evaluate(state).verdict is CompactionVerdict.COMPACTION_IN_PROGRESS


def test_004_decision_2_a_completed_compaction_is_verified_by_read_back() -> None:
    assert evaluate(replace(DONE, current_readback_hash="other")).verdict is CompactionVerdict.ALTERED


def test_004_decision_3_more_than_one_generation_is_mixed_whatever_the_policy() -> None:
    for policy in (SNAPSHOTS, NONE):
        manifest = evaluate(replace(DONE, record_generations_seen=(2, 3)), policy)
        assert manifest.verdict is CompactionVerdict.MIXED_GENERATION_DETECTED
        assert "PROCEED" not in manifest.directive


def test_004_decision_4_during_a_compaction_only_a_snapshot_can_be_trusted() -> None:
    open_pass = replace(DONE, compaction_completion_epoch=None)
    assert "snapshot" in evaluate(open_pass, SNAPSHOTS).directive
    assert "snapshot" not in evaluate(open_pass, NONE).directive
    for policy in (SNAPSHOTS, NONE):
        assert evaluate(open_pass, policy).directive.startswith("WAIT")


def test_004_decision_4_or_a_read_strictly_from_after_the_compaction() -> None:
    manifest = evaluate(replace(DONE, record_generations_seen=(2, 3)), SNAPSHOTS)
    assert "snapshot of after the compaction" in manifest.directive


def test_004_operation_every_directive_fits_its_verdict() -> None:
    cases = {
        CompactionVerdict.COMPACTION_IN_PROGRESS: (replace(DONE, compaction_completion_epoch=None), "generation 3"),
        CompactionVerdict.MIXED_GENERATION_DETECTED: (replace(DONE, record_generations_seen=(2, 3)), "generations [2, 3]"),
        CompactionVerdict.ALTERED: (replace(DONE, current_readback_hash="other"), "'other'"),
        CompactionVerdict.POST_COMPACTION_CLEAN: (DONE, "post-compaction hash"),
    }
    for verdict, (state, words) in cases.items():
        manifest = evaluate(state)
        assert manifest.verdict is verdict
        assert words in manifest.directive


def test_004_operation_a_truncated_record_is_found_before_it_is_used() -> None:
    """Row by row: the report on a row needs nothing that comes after it."""
    report = integrity.judge_row(row(2, found_size=0, inner_ok=False))
    assert report is not None
    assert report.verdict is CompactionVerdict.TRUNCATED


def test_004_operation_a_successor_knows_whether_it_reads_the_state_of_before_or_after() -> None:
    before, after = (evaluate(replace(DONE, current_readback_hash=read)).directive for read in ("before", "after"))
    assert "from before generation 3" in before
    assert "post-compaction" in after
