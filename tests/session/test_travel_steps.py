"""What each step of going back and forth is for: a story for every step that could be left out without anything else noticing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lineal.engines.memory import MemoryEngine
from lineal.errors import Corrupt, Unavailable, UnsafeRollbackError
from lineal.policy import Policy
from lineal.session import Session
from lineal.store import Store
from lineal.testing.faults import FaultyEngine

SMALL = Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4, summary_max_tokens=200)


def kinds(session: Session) -> list[str]:
    return [row.kind for row, _ in session.log.entries()]


def test_a_live_state_that_is_not_what_the_log_gives_is_not_recovered_to(session: Session, fill: Any) -> None:
    """R59: recovery takes a second opinion, from the log."""
    fill(session, 8)
    session.checkpoint()
    fill(session, 2, 8)
    right = session.log.lineage
    session.log.lineage = msgspec.structs.replace(right, watermark=right.watermark + 1)
    with pytest.raises(Corrupt, match="recovery disagrees"):
        session.recover()


def test_nothing_is_gone_back_to_while_a_removal_is_open(fill: Any, say: Any, brief: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """R54: a purge that comes between is finished first; what it erases is not gone back to."""
    engine = FaultyEngine(MemoryEngine())
    session = Store(engine).session("agent", SMALL, brief)
    fill(session, 8)
    real, begun = session.finish_removal, []

    def race() -> int:
        if not begun:
            begun.append(True)
            engine.fail_at(len(engine.calls) + 1_000)
            delete = engine.delete

            def away(*given: Any, **more: Any) -> None:
                raise Unavailable("delete", "the disk is away")

            engine.delete = away  # type: ignore[method-assign]
            with pytest.raises(Unavailable):
                Store(engine).session("agent", SMALL, brief).purge(["t2"])
            engine.delete = delete  # type: ignore[method-assign]
            return 0
        return real()

    monkeypatch.setattr(session, "finish_removal", race)
    session.rollback(6)
    assert [k for k in kinds(session) if k != "turn"][:3] == ["purge_begun", "purge_finished", "rolled_back"]
    assert [t.id for t in session.view().turns] == ["t0", "t1", "t3", "t4", "t5"]


def test_a_repeatable_effect_in_flight_at_the_target_is_listed(session: Session, fill: Any) -> None:
    """Record 003: allowed, and named, though nothing was written about it since."""
    fill(session, 4)
    session.effect("look", {}, key="poll", idempotent=True).__enter__()
    target = session.status().head
    fill(session, 4, 4)
    plan = session.rollback(target, dry_run=True)
    assert plan.verdict.facts["idempotent"] == ("poll",) and plan.verdict.facts["in_flight_at_target"] == ("poll",)


def test_the_new_view_names_what_the_old_one_had_no_room_for(session: Session, fill: Any) -> None:
    """R51: the view carries the newest settled effects; a rollback over many more names the older ones too."""
    fill(session, 6)
    for n in range(30):
        with session.effect("deploy", {"n": n}, key=f"deploy:{n}") as effect:
            effect.settle("ok")
    session.rollback(6)
    told = session.messages()[-1]["content"]
    assert "key deploy:0," in told and "not to be repeated" in told


def test_a_rollback_leaves_a_state_to_open_from(session: Session, fill: Any) -> None:
    """What was left behind is not folded again at the next open."""
    fill(session, 8)
    session.rollback(6)
    assert session.status().head in session.engine.states("agent")


def test_a_pin_of_the_target_is_a_pin_again(session: Session, fill: Any) -> None:
    """R18: one that was lifted since."""
    fill(session, 4)
    session.pin("t1")
    fill(session, 2, 4)
    target = session.status().head
    session.unpin("t1")
    fill(session, 2, 6)
    session.rollback(target)
    assert [p.turn for p in session.view().pins] == ["t1"]


def test_a_past_whose_spilled_turns_were_pruned_is_gone(session: Session, fill: Any, brief: Any) -> None:
    """R46, R53: its view would hand out a handle that answers with nothing."""
    fill(session, 8)
    session.spill(["t0", "t1"])
    spilled = session.checkpoint().seq
    fill(session, 12, 8)
    session.compact(brief)
    session.prune(before=3, keep_checkpoints=0)
    assert session.log.at(spilled), "what its view is made of stands, and so do the turns that it shows"
    with pytest.raises(UnsafeRollbackError) as refused:
        session.rollback(spilled)
    assert refused.value.reason == "raw_gone"
