"""What each step around an effect is for: a story for every step that could be left out without anything else noticing."""

from __future__ import annotations

from typing import Any

import pytest

from lineal.errors import UnsafeEffectError
from lineal.holder import release
from lineal.session import Session
from lineal.testing.clock import JumpingClock


def rotate(session: Session, done: list[str], **given: Any) -> Any:
    with session.effect("rotate", {"db": "main"}, **given) as effect:
        if effect.pending:
            done.append("rotated")
            effect.settle("ok")
    return effect


def test_of_equal_calls_before_one_that_is_not_settled_comes_first(session: Session, say: Any) -> None:
    """R47, R50: a newer equal call that went well in the view does not hide an older one whose outcome nobody knows."""
    done: list[str] = []
    session.append(say.user(1))
    with session.effect("rotate", {"db": "main"}):
        pass  # left unsettled
    rotate(session, done, key="rotate:2")
    session.append(say.user(2))
    with pytest.raises(UnsafeEffectError) as refusal:
        rotate(session, done)
    assert refusal.value.reason == "unsettled_lookalike" and done == ["rotated"]


def test_a_repeat_is_deliberate_only_if_its_first_run_stands_in_the_view(session: Session, say: Any) -> None:
    """R50: the call stands still, what came of it was rolled back."""
    done: list[str] = []
    session.append([say.user(1), say.call("c1", tool="rotate", args={"db": "main"})])
    key = rotate(session, done, call="c1").key
    session.resolve_effect(key, "happened")
    session.rollback(2)
    session.append([say.result("c1"), say.call("c2", tool="rotate", args={"db": "main"})])
    again = rotate(session, done, call="c2")
    assert again.verdict.reason == "look_alike" and done == ["rotated"]


def test_beside_the_calls_of_a_conversation_the_next_place_is_taken(house: Any, session: Session, say: Any) -> None:
    """R50: without call and key a new process does not meet the record of the one before as if it were its own."""
    done: list[str] = []
    session.append(say.user(1))
    first = rotate(session, done)
    second = rotate(house.reopen(session), done)
    assert first.key != second.key and done == ["rotated", "rotated"], "a deliberate repeat: its first run stands in the view"


def test_what_was_settled_as_done_cannot_be_called_not_happened(session: Session) -> None:
    """R47: it may be called undone."""
    rotate(session, [], key="k")
    with pytest.raises(UnsafeEffectError) as refusal:
        session.resolve_effect("k", "not_happened")
    assert refusal.value.reason == "settled"
    assert session.resolve_effect("k", "compensated").state == "compensated"


def test_recovery_writes_down_that_an_outcome_is_unknown(house: Any, session: Session, say: Any) -> None:
    """R47: on another machine, and in a copy of the log, nobody could tell any more that its holder was gone."""
    session.append(say.user(1))
    session.effect("rotate", {"db": "main"}, key="k").__enter__()
    release(session.holder)
    again = house.session()
    assert again.recover().unknown == ("k",)
    settled = [e for row, e in again.log.entries(kinds=("effect_settled",))]
    assert [(e.key, e.state) for e in settled] == [("k", "unknown")]
    assert again.recover().unknown == ()


def test_a_process_that_works_for_longer_than_its_lease_is_still_at_it(house: Any) -> None:
    """R33, R47: a compaction can be fenced, what is done to the world cannot: it is waited for as long as its process lives."""
    clock = JumpingClock()
    one, other = house.session(clock=clock), house.session(clock=clock)
    one.effect("rotate", {"db": "main"}, key="k").__enter__()
    clock.pass_time(one.policy.lease_seconds * 100)
    with pytest.raises(UnsafeEffectError) as refusal:
        other.effect("rotate", {"db": "main"}, key="k").__enter__()
    assert refusal.value.reason == "busy"
