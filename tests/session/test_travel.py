"""Checkpoint, recovery, rollback, fork: every way to stand at a seq goes forward, and says what it leaves behind."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lineal import codec
from lineal.engines.memory import MemoryEngine
from lineal.entries import CheckpointTaken, CompactionCommitted, RolledBack
from lineal.errors import CompactionLineageError, Conflict, PolicyError, Refused, Unavailable, UnsafeRollbackError
from lineal.holder import release
from lineal.policy import Policy
from lineal.rules.rollback import Checkpoint
from lineal.session import Session
from lineal.session.log import unpack
from lineal.session.outcomes import Compacted
from lineal.store import Store
from lineal.testing.faults import FaultyEngine

GOOD = "The first parts of the plan were read one by one; nothing in them stood out."


def seen(session: Session) -> tuple[Any, ...]:
    """What is shown and what was said."""
    return session.messages(), [t.id for t in session.turns()]


def done(session: Session, key: str, idempotent: bool = False, outcome: Any = "ok") -> None:
    with session.effect("deploy", {"key": key}, key=key, idempotent=idempotent) as effect:
        effect.settle(outcome)


# --- checkpoints -------------------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_the_fold_as_data(house: Any, session: Session, fill: Any) -> None:
    """R63: seq, generation, state digest and effect watermark, recorded beside the state."""
    fill(session, 6)
    done(session, "k")
    checkpoint = session.checkpoint("before deploy")
    assert (checkpoint.checkpoint_id, checkpoint.seq, checkpoint.generation, checkpoint.effect_watermark) == ("cp9", 9, 0, 7)
    assert checkpoint.label == "before deploy" and len(checkpoint.digest) == 64
    seq, data = session.engine.state(session.name, 8)
    assert seq == 8 and data[:32].hex() == checkpoint.digest and unpack(data).head == 8
    assert house.reopen(session).checkpoints() == [checkpoint]


def test_checkpoints_are_listed_newest_first(session: Session, fill: Any) -> None:
    fill(session, 2)
    names = [session.checkpoint(label).checkpoint_id for label in ("a", "b", "c")]
    assert [c.checkpoint_id for c in session.checkpoints()] == names[::-1]


def test_no_checkpoint_while_a_compaction_is_in_flight(house: Any, session: Session, fill: Any) -> None:
    """R63, record 000: it would be neither before nor after."""
    fill(session, 16)
    plan = session.plan_compaction()
    for handle in (session, house.session()):
        with pytest.raises(CompactionLineageError) as refusal:
            handle.checkpoint()
        assert refusal.value.reason == "taken_in_flight" and refusal.value.facts["generation"] == 1
    session.commit_compaction(plan, GOOD)
    assert session.checkpoint().generation == 1


def test_checkpoints_are_taken_by_policy(house: Any, say: Any) -> None:
    class Clock:
        now = 0.0

        def wall(self) -> float:
            return self.now

        def boot(self) -> float:
            return self.now

    session = house.session("entries", house.policy.with_(checkpoint_every_entries=5))
    for n in range(20):
        session.append(say.user(n))
    assert [c.seq for c in session.checkpoints()] == [24, 18, 12, 6]
    clock = Clock()
    session = house.session("minutes", house.policy.with_(checkpoint_every_minutes=10), clock=clock)
    for n in range(20):
        clock.now += 60
        session.append(say.user(n))
    assert len(session.checkpoints()) == 2


# --- recovery ----------------------------------------------------------------------------------------------------------------


def test_recovery_goes_to_the_newest_checkpoint_behind_the_last_compaction(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """Record 000, R58: by seq alone; the one before the compaction is named and passed over."""
    fill(session, 16)
    old = session.checkpoint("old")
    session.compact(brief)
    recovery = session.recover()
    assert (recovery.target, recovery.checkpoint, recovery.seq) == ("replay", None, session.log.lineage.committed_at)
    assert [(id, v.reason) for id, v in recovery.passed_over] == [(old.checkpoint_id, "not_newer")]
    new = session.checkpoint("new")
    fill(session, 2, 16)
    before = seen(session)
    again = house.reopen(session)
    recovery = again.recover()
    assert (recovery.target, recovery.checkpoint, recovery.seq) == ("checkpoint", new.checkpoint_id, new.seq)
    assert seen(again) == before


def test_recovery_of_a_sound_session_writes_nothing(session: Session, fill: Any) -> None:
    fill(session, 6)
    session.checkpoint()
    before = session.status()
    for _ in range(3):
        assert session.recover().target == "checkpoint"
    assert session.status() == before
    assert session.fork("empty", at=0).recover().target == "replay"


def test_recovery_closes_what_a_dead_holder_left_open(house: Any, session: Session, fill: Any) -> None:
    """R33, R47: a compaction is aborted, an effect becomes unknown, once."""
    fill(session, 16)
    before = seen(session)
    session.plan_compaction()
    session.effect("deploy", {}, key="k").__enter__()
    again = house.reopen(session)
    recovery = again.recover()
    assert (recovery.aborted, recovery.unknown) == (1, ("k",))
    assert again.status().in_flight is None and again.status().unknown_effects == ("k",)
    head = again.status().head
    assert (again.recover().aborted, again.status().head) == (None, head)
    assert seen(again) == before


def test_recovery_waits_for_a_live_holder(house: Any, session: Session, fill: Any) -> None:
    """R33, record 000: refused with holder and deadline; nothing is written."""
    fill(session, 16)
    session.checkpoint()
    session.plan_compaction()
    other = house.session()
    head = other.status().head
    with pytest.raises(CompactionLineageError) as refusal:
        other.recover()
    assert refusal.value.reason == "open_compaction_live" and refusal.value.facts["deadline"]
    assert other.status().head == head


def test_a_rollback_is_a_barrier_too(session: Session, fill: Any) -> None:
    """R40: what it superseded stays dead, also after reopening."""
    fill(session, 6)
    session.checkpoint("superseded")
    fill(session, 2, 6)
    session.rollback(3)
    recovery = session.recover()
    assert recovery.target == "replay" and [v.reason for _, v in recovery.passed_over] == ["not_newer"]


def test_a_checkpoint_whose_state_is_damaged_is_passed_over(session: Session, fill: Any) -> None:
    fill(session, 4)
    good = session.checkpoint("good")
    fill(session, 4, 4)
    bad = session.checkpoint("bad")
    session.engine.put_state(session.name, bad.seq - 1, b"nonsense")
    recovery = session.recover()
    assert recovery.checkpoint == good.checkpoint_id
    assert [(id, v.reason) for id, v in recovery.passed_over] == [(bad.checkpoint_id, "digest_mismatch")]


def test_recovery_works_from_what_a_prune_left(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """Rows behind the barrier may be gone: what is replayed is what is still needed."""
    fill(session, 30)
    session.compact(brief)
    session.record_usage(10)
    fill(session, 2, 30)
    before = seen(session)[0]
    assert session.prune().entries > 0
    assert session.recover().target == "replay"
    assert house.reopen(session).recover().target == "replay" and session.name == "agent"
    assert house.session().messages() == before


# --- rollback ----------------------------------------------------------------------------------------------------------------


def test_going_back_is_going_forward(house: Any, session: Session, fill: Any, say: Any) -> None:
    """R40: a new head above all others, whose view is that of the target."""
    fill(session, 4)
    then = session.messages()
    checkpoint = session.checkpoint("cp")
    fill(session, 4, 4)
    outcome = session.rollback(checkpoint)
    assert (outcome.seq, outcome.target, outcome.left_behind) == (10, 5, ("t4", "t5", "t6", "t7"))
    assert outcome.verdict.reason == "none" and not outcome.dry_run
    assert session.status().head == 10 and session.status().epoch == 1
    shown = session.messages()
    assert shown[:4] == then and "gone back from seq 9 to seq 5; 4 turns were left behind" in shown[4]["content"]
    assert [t.id for t in session.turns()] == ["t0", "t1", "t2", "t3"]
    session.append(say.user(50), id="next")
    again = house.reopen(session)
    assert again.messages()[-1] == say.user(50) and [t.id for t in again.turns()] == ["t0", "t1", "t2", "t3", "next"]
    assert again.verify().clean


@pytest.mark.parametrize("by", ["checkpoint", "id", "label", "seq", "digits"])
def test_a_target_is_named_in_any_way_that_is_no_position_or_time(session: Session, fill: Any, by: str) -> None:
    """R39."""
    fill(session, 4)
    checkpoint = session.checkpoint("before deploy")
    fill(session, 2, 4)
    named: dict[str, Any] = {"checkpoint": checkpoint, "id": checkpoint.checkpoint_id, "label": "before deploy", "seq": 5, "digits": "5"}
    assert session.rollback(named[by]).target == 5


@pytest.mark.parametrize("target", ["never", True, 1.5, None, ["cp"]], ids=repr)
def test_an_unknown_target_is_refused(session: Session, fill: Any, target: Any) -> None:
    fill(session, 4)
    session.checkpoint("cp")
    for dry_run in (True, False):
        with pytest.raises(Refused) as refusal:
            session.rollback(target, dry_run=dry_run)
        assert refusal.value.reason == "unknown_target" and "cp5" in refusal.value.remedy


def test_a_checkpoint_of_another_session_is_no_target(house: Any, fill: Any) -> None:
    """Handles carry their session, although both have a checkpoint of that id; a fork's copy is the same checkpoint."""
    store = house.open()
    one, other = (store.session(name, house.policy, house.summarizer) for name in ("one", "other"))
    for session in (one, other):
        fill(session, 4)
    mine, theirs = one.checkpoint(), other.checkpoint()
    assert mine.checkpoint_id == theirs.checkpoint_id
    fill(one, 2, 4)
    for act in (lambda: one.rollback(theirs), lambda: one.fork("child", at=theirs)):
        with pytest.raises(Refused) as refusal:
            act()
        assert refusal.value.reason == "unknown_target"
    child = one.fork("child")
    assert child.rollback(mine).target == 5


@pytest.mark.parametrize("target", [6, 7, 100, -1])
def test_a_no_op_is_never_reported_as_success(session: Session, fill: Any, target: int) -> None:
    """R43."""
    fill(session, 6)
    plan = session.rollback(target, dry_run=True)
    assert not plan.verdict.allowed and plan.verdict.reason == "nothing_to_roll_back"
    with pytest.raises(UnsafeRollbackError):
        session.rollback(target)
    assert session.status().head == 6


def test_a_dry_run_and_a_real_one_have_the_same_plan(session: Session, fill: Any) -> None:
    """R43."""
    fill(session, 4)
    done(session, "guarded")
    done(session, "again", idempotent=True)
    fill(session, 2, 4)
    dry = session.rollback(2, dry_run=True)
    assert session.status().head == 10 and dry.dry_run
    real = session.rollback(2)
    assert (real.seq, real.target, real.guarded, real.refused, real.left_behind, real.verdict) == (
        dry.seq, dry.target, dry.guarded, dry.refused, dry.left_behind, dry.verdict,
    )  # fmt: skip
    assert real.guarded == ("guarded",) and real.left_behind == ("t2", "t3", "t4", "t5")


def test_newer_work_is_a_conflict(house: Any, session: Session, fill: Any, say: Any) -> None:
    """R42: the expected head comes with the plan."""
    fill(session, 6)
    plan = session.rollback(3, dry_run=True)
    house.session().append(say.user(99))
    with pytest.raises(Conflict) as conflict:
        session.rollback(3, expected_head=plan.seq - 1)
    assert (conflict.value.expected_seq, conflict.value.found_seq) == (6, 7)
    assert session.rollback(3, expected_head=7).left_behind == ("t3", "t4", "t5", "@7")


def test_what_was_left_behind_stays_dead(house: Any, session: Session, fill: Any, say: Any) -> None:
    """R40: a superseded checkpoint is no target any more, also after reopening; a fork may still look at it."""
    fill(session, 4)
    superseded = session.checkpoint("superseded")
    fill(session, 2, 4)
    session.rollback(3)
    session.append(say.user(50))
    again = house.reopen(session)
    for target in (superseded, 4, 6):
        with pytest.raises(UnsafeRollbackError) as refusal:
            again.rollback(target)
        assert refusal.value.reason == "left_behind"
    assert [t.id for t in again.fork("look", at=superseded).turns()] == ["t0", "t1", "t2", "t3"]


def test_going_back_and_forth_along_one_path(session: Session, fill: Any, say: Any) -> None:
    fill(session, 4)
    session.rollback(2)
    session.append(say.user(10), id="b1")
    session.append(say.answer(11), id="b2")
    session.rollback(6)
    session.append(say.user(12), id="c1")
    assert [t.id for t in session.turns()] == ["t0", "t1", "b1", "c1"]
    session.rollback(2)
    assert [t.id for t in session.turns()] == ["t0", "t1"]
    assert session.verify().clean


def test_a_person_may_go_back_across_a_compaction(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """DESIGN section 3: explicitly, from the retained log; the view of then, the numbers of now."""
    fill(session, 16)
    then = session.messages()
    session.compact(brief)
    fill(session, 12, 16)
    session.compact(brief)
    outcome = session.rollback(16)
    assert outcome.verdict.allowed and session.messages()[:16] == then
    assert session.status().generation == 0
    fill(session, 8, 60)
    again = house.reopen(session)
    assert again.compact(brief).generation == 3, "numbers are never used again"
    assert [t.id for t in again.expand("g2")] == [f"t{n}" for n in range(24)], "what was left behind can still be read"
    assert again.verify().clean


def test_going_back_to_a_view_with_a_summary_shows_it(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R45: byte for byte; the summary and the note stand at one place."""
    fill(session, 16)
    session.pin("a constraint")
    session.compact(brief)
    then, head = session.messages(), session.status().head
    fill(session, 6, 16)
    session.rollback(head)
    shown = session.messages()
    assert shown[: len(then)] == then and len(shown) == len(then) + 1
    assert [n.handle for n in session.view().summaries] == ["g1"]
    assert house.reopen(session).messages() == shown


def test_going_back_compacts_at_once_where_the_view_is_too_large(session: Session, fill: Any, brief: Any) -> None:
    """DESIGN section 3."""
    fill(session, 26)
    assert session.status().tokens > session.policy.trigger
    assert isinstance(session.maybe_compact(), Compacted)
    session.rollback(26)
    assert session.status().tokens <= session.policy.trigger and session.status().generation == 2


def test_pins_of_before_and_after_are_kept(house: Any, session: Session, fill: Any, say: Any, brief: Any) -> None:
    """A promise outlives a rollback: the pinned turn comes along with its unit, is shown, read, and named no victim."""
    fill(session, 4)
    session.append([say.call("c1"), say.result("c1")], id=["call", "res"])
    session.append(say.user(70), id="after")
    session.pin("res")
    session.pin("text that stays")
    outcome = session.rollback(2)
    assert outcome.left_behind == ("t2", "t3", "after")
    again = house.reopen(session)
    assert [t.id for t in again.view().turns] == ["t0", "t1", "call", "res"] == [t.id for t in again.turns()]
    assert {p.id for p in again.view().pins} >= {"res"} and "pinned: text that stays" in str(again.messages())
    assert again.append(say.result("c1"), id="res").seq == 6, "it stands, so it is not said twice"
    with pytest.raises(UnsafeRollbackError) as refusal:
        again.rollback(6)
    assert refusal.value.reason == "left_behind", "its place on the old branch is no target"
    fill(again, 12, 20)
    assert {"call", "res"} <= set(again.compact(brief).kept)
    again.unpin("res")
    fill(again, 8, 40)
    outcome = again.compact(brief)
    assert {"call", "res"} <= set(outcome.covered) and {"call", "res"} <= {t.id for t in again.expand(outcome.handle)}
    assert again.verify().clean


def test_an_open_call_at_the_target_is_open_again(session: Session, say: Any) -> None:
    session.append([say.user(1), say.call("c1")])
    session.append([say.result("c1"), say.user(2)])
    session.rollback(2)
    assert session.status().open_calls == ("c1",)
    session.append(say.result("c1", "once more"))
    assert session.status().open_calls == () and session.messages()[2]["content"] == "once more"


# --- rollback and the world ------------------------------------------------------------------------------------------------------


def test_effects_that_the_ledger_guards_are_named_and_noted(session: Session, fill: Any) -> None:
    """Record 003: the restored view knows what is already done, as data and as a note; the key answers."""
    fill(session, 4)
    session.checkpoint("nightly")
    done(session, "rotate:1", outcome={"version": 7})
    fill(session, 4, 4)
    outcome = session.rollback("nightly")
    assert outcome.verdict.reason == "guarded" and outcome.guarded == ("rotate:1",)
    assert "key rotate:1" in session.messages()[-1]["content"] and "7" in session.messages()[-1]["content"]
    assert [d.key for d in session.view().done] == ["rotate:1"]
    with session.effect("deploy", {"key": "rotate:1"}, key="rotate:1") as effect:
        assert not effect.pending and effect.result == {"version": 7}


@pytest.mark.parametrize("trouble", ["unknown", "intended", "unguarded", "no watermark"])
def test_a_rollback_over_what_nothing_guards_is_refused(house: Any, session: Session, fill: Any, trouble: str) -> None:
    """Record 003: with the keys; once resolved it may go."""
    fill(session, 4)
    checkpoint = session.checkpoint("nightly")
    target: Any = checkpoint
    if trouble == "unknown":
        with session.effect("deploy", {}, key="k"):
            pass
    elif trouble == "intended":
        session.effect("deploy", {}, key="k").__enter__()
    elif trouble == "unguarded":
        with session.effect("deploy", {}) as effect:
            effect.settle("ok")
    else:
        done(session, "k")
        target = Checkpoint(checkpoint.checkpoint_id, None)
    fill(session, 2, 4)
    key = session.ledger()[0].key
    before = session.status()
    plan = session.rollback(target, dry_run=True)
    assert plan.refused == (key,) and not plan.verdict.allowed
    with pytest.raises(UnsafeRollbackError) as refusal:
        session.rollback(target)
    expected = {"unknown": "unknown_outcome", "intended": "unknown_outcome", "unguarded": "unguarded", "no watermark": "no_watermark"}
    assert refusal.value.reason == expected[trouble] and key in str(refusal.value) and refusal.value.remedy
    assert session.status() == before
    if trouble == "intended":
        release(session.holder)
    session.resolve_effect(key, "happened")
    assert session.rollback(target).target == 5


def test_the_latest_checkpoint_is_no_safer_than_any_other(session: Session, fill: Any) -> None:
    """Record 003: there is no short cut for it."""
    fill(session, 2)
    session.checkpoint("latest")
    with session.effect("deploy", {}, key="k"):
        pass
    with pytest.raises(UnsafeRollbackError):
        session.rollback("latest")


def test_repeatable_effects_and_none_at_all_are_no_hindrance(session: Session, fill: Any) -> None:
    fill(session, 2)
    done(session, "read", idempotent=True)
    with session.effect("pay", {}, key="refused") as effect:
        effect.no_effect("locked")
    outcome = session.rollback(2)
    assert outcome.verdict.reason == "all_idempotent" and outcome.guarded == ()


def test_an_effect_in_flight_at_the_target_is_unknown_in_the_new_view(session: Session, fill: Any) -> None:
    """Record 003: 13 % of real checkpoints were taken so."""
    fill(session, 2)
    effect = session.effect("deploy", {}, key="k").__enter__()
    checkpoint = session.checkpoint()
    fill(session, 2, 2)
    outcome = session.rollback(checkpoint)
    assert outcome.verdict.reason == "in_flight_at_target"
    assert session.status().unknown_effects == ("k",) and "unknown outcome: deploy (key k" in str(session.messages())
    effect.settle("ok after all")
    assert session.ledger()[0].state == "done" and session.status().unknown_effects == ()


def test_raw_entries_that_are_gone_are_named(session: Session, fill: Any, brief: Any) -> None:
    """R39: refused, with the oldest seq that still can be reached."""
    fill(session, 30)
    session.compact(brief)
    fill(session, 4, 30)
    session.prune()
    with pytest.raises(UnsafeRollbackError) as refusal:
        session.rollback(10)
    assert refusal.value.reason == "raw_gone"
    oldest = refusal.value.facts["oldest"]
    assert 30 < oldest <= session.status().head
    if oldest < session.status().head:
        assert session.rollback(oldest).target == oldest


# --- forks -------------------------------------------------------------------------------------------------------------------


def test_a_fork_shows_what_its_parent_showed(house: Any, session: Session, fill: Any, say: Any, brief: Any) -> None:
    """R45: byte for byte, at the head and at any seq; both go on by themselves."""
    fill(session, 6)
    early = session.messages()
    fill(session, 10, 6)
    session.compact(brief)
    now = session.messages()
    child = session.fork("child")
    assert child.messages() == now and child.turns() == session.turns()
    assert session.fork("early", at=6).messages() == early
    assert session.fork("nothing", at=0).messages() == []
    child.append(say.user(50), id="own")
    session.append(say.user(51), id="own")
    assert child.messages()[-1] == say.user(50) and session.messages()[-1] == say.user(51)
    again = house.reopen(session)
    assert sorted(again.store.sessions()) == ["agent", "child", "early", "nothing"]
    other = again.sibling("child")
    assert other.messages()[-1] == say.user(50) and other.expand("g1") == again.expand("g1")
    assert again.store.verify().clean


def test_a_fork_holds_no_summary_beyond_its_place(session: Session, fill: Any, brief: Any) -> None:
    """R45: rebuilt from the raw log."""
    fill(session, 30)
    session.compact(brief)
    child = session.fork("child", at=20)
    assert child.status().generation == 0 and child.view().summaries == ()
    assert [t.id for t in child.view().turns] == [f"t{n}" for n in range(20)]
    assert child.verify().clean


def test_a_fork_lists_each_generation_once(session: Session, fill: Any, brief: Any) -> None:
    """Digests of superseded generations are its parent's (R46)."""
    for round in range(2):
        fill(session, 16, 16 * round)
        session.compact(brief)
    child = session.fork("child")
    mine, theirs = (
        [(e.generation, e.post_digest) for _, e in s.log.entries() if isinstance(e, CompactionCommitted)] for s in (child, session)
    )
    assert mine == theirs and [g for g, _ in mine] == [1, 2]
    fill(child, 16, 100)
    assert child.compact(brief).generation == 3 and session.status().generation == 2


def test_a_fork_is_whole_or_absent(session: Session, fill: Any) -> None:
    fill(session, 4)
    session.fork("child")
    for name, at in (("child", None), ("agent", None), ("other", 9), ("other", -1), ("other", "never")):
        with pytest.raises(Refused):
            session.fork(name, at=at)
    assert session.store.sessions() == ["agent", "child"]


def test_a_fork_that_is_cut_off_leaves_its_name_free(fill: Any, say: Any, brief: Any) -> None:
    """R30: at each storage call the fork is whole or absent, and the name can be used for another session."""
    k, made = 0, False
    while not made:
        k += 1
        engine = FaultyEngine(MemoryEngine())
        session = Store(engine).session("a", Policy(trigger=1_500, target=600, floor_turns=4), brief)
        fill(session, 8)
        engine.fail_at(len(engine.calls) + k)
        try:
            session.fork("child")
            made = True
        except Unavailable:
            made = False
        engine.heal()
        other = Store(engine).session("child", summarizer=brief)
        assert len(other.messages()) in (0, 8)
        other.append(say.user(1))
        assert other.verify().clean, k
    assert k > 5


def test_a_fork_needs_a_name(session: Session, fill: Any) -> None:
    fill(session, 2)
    for name in ("", None, 5):
        with pytest.raises(PolicyError):
            session.fork(name)


def test_going_back_to_the_very_beginning(house: Any, session: Session, fill: Any, say: Any) -> None:
    fill(session, 4)
    assert session.rollback(0).left_behind == ("t0", "t1", "t2", "t3")
    session.append(say.user(9), id="t0")
    again = house.reopen(session)
    assert [t.id for t in again.turns()] == ["t0"] and again.turns()[0].message == say.user(9)
    assert again.verify().clean


def test_a_fork_of_a_pruned_parent_says_what_it_cannot_reach(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R45, R46: the same view; what is gone is gone there too, declared, and the chain is sound."""
    fill(session, 30)
    checkpoint = session.checkpoint("cp")
    session.compact(brief)
    fill(session, 6, 30)
    session.prune(keep_checkpoints=0)
    child = session.fork("child")
    assert child.messages() == session.messages()
    assert child.verify().clean
    fill(child, 16, 60)
    assert isinstance(child.compact(brief), Compacted) and child.verify().clean
    with pytest.raises(Refused):
        session.fork("gone", at=10)
    with pytest.raises(Refused):
        session.fork("gone", at=checkpoint)
    shown = child.messages()
    assert house.reopen(session).sibling("child").messages() == shown


def test_a_fork_between_the_steps_of_a_removal_has_nothing_open(session: Session, fill: Any) -> None:
    """R54: what is being removed is the parent's business."""
    fill(session, 6)
    session.purge(["t1"])
    begun = next(row.seq for row, _ in session.log.entries(kinds=("purge_begun",)))
    child = session.fork("child", at=begun)
    assert child.verify().clean and child.finish_removal() == 0
    assert [t.id for t in child.turns()] == ["t0", "t2", "t3", "t4", "t5"]


def test_a_fork_of_a_fork(session: Session, fill: Any, say: Any, brief: Any) -> None:
    fill(session, 16)
    child = session.fork("child", at=10)
    child.append(say.user(50), id="c")
    grandchild = child.fork("grandchild")
    assert grandchild.turns() == child.turns() and grandchild.verify().clean
    assert grandchild.rollback(4).target == 4


def test_a_dangling_anchor_is_an_error(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R45: never `show all`."""
    fill(session, 16)
    session.compact(brief)
    (entry,) = [e for _, e in session.log.entries() if isinstance(e, CompactionCommitted)]
    assert set(entry.kept) == {t.id for t in session.view().turns}
    with pytest.raises(Refused):
        session.expand("g9")


# --- a summary, a fork and a rollback of anything ------------------------------------------------------------------------------------

TEXTS = st.one_of(
    st.text(max_size=12), st.text(st.characters(categories=["Cs", "Cc"]), max_size=4), st.sampled_from(["\0", "\\u0000", "\ud83d\ude00"])
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(TEXTS, min_size=6, max_size=10), name=st.text(st.characters(categories=["Cs", "Lu", "Cc"]), min_size=1, max_size=6))
def test_any_content_survives_every_way(brief: Any, say: Any, said: list[str], name: str) -> None:
    """R7: through compaction, spill, checkpoint, rollback, fork and reopening, byte for byte, whatever the session is called."""
    engine = MemoryEngine()
    policy = Policy(trigger=1_500, target=600, floor_turns=2)
    messages = [{"role": "user", "content": f"{n} {text}", "raw": {text: [text]}} for n, text in enumerate(said)]
    session = Store(engine).session(name, policy, brief)
    turns = session.append(messages, id=[f"{n}{text}" for n, text in enumerate(said)])
    session.spill([turns[0].id])
    session.append(say.dialogue(8))
    assert isinstance(session.compact(), Compacted)
    session.checkpoint(said[0])
    child = session.fork(name + "'")
    session.rollback(len(said))
    again = Store(engine)
    for found in (again.session(name, policy, brief), again.session(name + "'", policy, brief), child, session):
        assert found.turns()[: len(said)] == turns
        assert [codec.to_json(t.message) for t in found.expand("g1")] == [codec.to_json(messages[0])]
        assert found.expand(turns[1].id) == [turns[1]]
        assert found.verify().clean
    kinds = [type(e) for _, e in session.log.entries()]
    assert kinds.count(CheckpointTaken) == kinds.count(RolledBack) == 1
