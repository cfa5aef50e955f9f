"""What each step of a fork is for: a story for every step that could be left out without anything else noticing."""

from __future__ import annotations

from typing import Any

import pytest

from lineal.engines.memory import MemoryEngine
from lineal.errors import Corrupt, Unavailable
from lineal.policy import Policy
from lineal.session import Session
from lineal.store import Store
from lineal.testing.faults import FaultyEngine

SECRET = "hunter2-very-secret"
SMALL = Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4, summary_max_tokens=200)


def holding(engine: Any, session: str) -> list[int]:
    """Rows that have the secret still."""
    return [row.seq for row in engine.scan(session) if SECRET.encode() in row.body]


def test_what_is_being_erased_is_erased_before_it_is_copied(fill: Any, say: Any, brief: Any) -> None:
    """R54: a purge that was cut off is finished first."""
    engine = FaultyEngine(MemoryEngine())
    session = Store(engine).session("agent", SMALL, brief)
    fill(session, 4)
    session.append(say.user(9, f"the password is {SECRET}"), id="secret")
    fill(session, 4, 4)
    delete = engine.delete

    def away(*given: Any, **more: Any) -> None:
        raise Unavailable("delete", "the disk is away")

    engine.delete = away  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        session.purge(["secret"])
    engine.delete = delete  # type: ignore[method-assign]
    child = Store(engine).session("agent", SMALL, brief).fork("child")
    assert holding(engine, "agent") == holding(engine, "child") == []
    assert child.log.lineage.purging == 0 and child.verify().clean


def test_a_copy_is_of_one_moment(session: Session, house: Any, fill: Any, say: Any) -> None:
    """R45, R54: a purge that comes while the parent is read makes it read again."""
    fill(session, 4)
    session.append(say.user(9, f"the password is {SECRET}"), id="secret")
    fill(session, 4, 4)
    other, sessions, raced = house.session(), session.engine.sessions, []

    def race() -> list[str]:
        if not raced:
            raced.append(True)
            other.purge(["secret"])
        return sessions()  # type: ignore[no-any-return]

    session.engine.sessions = race
    try:
        child = session.fork("child")
    finally:
        session.engine.sessions = sessions
    assert holding(session.engine, "child") == [] and child.verify().clean
    assert child.messages() == session.messages()
    own = [row.seq for row, _ in child.log.entries(kinds=("purge_begun",))]
    forked = next(row.seq for row, _ in child.log.entries(kinds=("forked",)))
    assert own and max(own) < forked, "the purge was copied, and nothing was left to be erased behind the parent's back"


def test_what_a_fork_that_was_cut_off_left_is_not_taken_for_this_ones(session: Session, fill: Any) -> None:
    """R36."""
    fill(session, 4)
    session.engine.put_state("child", 99, b"left over")
    child = session.fork("child")
    assert child.messages() == session.messages() and 99 not in session.engine.states("child")


def test_an_effect_whose_entry_is_gone_is_missed(fill: Any, brief: Any) -> None:
    """R59: the fork would do it again."""
    engine = MemoryEngine()
    session = Store(engine).session("agent", SMALL, brief)
    fill(session, 4)
    with session.effect("deploy", {"n": 1}, key="k") as effect:
        effect.settle("ok")
    fill(session, 2, 4)
    engine.delete("agent", [6])
    with pytest.raises(Corrupt):
        session.fork("child", at=4)


def test_what_the_parent_is_doing_is_unknown_in_the_fork(session: Session, fill: Any) -> None:
    """R47: it began behind the place of the fork, and the fork does not wait for it. The view says so."""
    fill(session, 4)
    effect = session.effect("deploy", {"n": 1}, key="k").__enter__()
    fork = session.fork("child", at=4)
    assert {r.key: r.state for r in fork.ledger()} == {"k": "unknown"}
    effect.settle("ok")
    assert {r.key: r.state for r in fork.ledger()} == {"k": "unknown"}


def test_a_fork_says_what_was_in_flight_at_its_place(session: Session, fill: Any) -> None:
    """R51."""
    fill(session, 4)
    session.effect("deploy", {"n": 1}, key="deploy:1").__enter__()
    fork = session.fork("child")
    assert "deploy:1" in str(fork.messages()[-1]["content"])


def test_emissions_of_the_parents_later_turns_are_not_the_forks(session: Session, fill: Any, say: Any) -> None:
    """R50: the fork's own turn at the same seq makes a call of its own."""
    fill(session, 7)
    session.append([say.call("c1", tool="deploy", args={"n": 1})])
    with session.effect("deploy", {"n": 1}, call="c1") as effect:
        effect.settle("the parent's")
    fork = session.fork("child", at=4)
    (own_call,) = fork.append([say.call("c9", tool="restart", args={"host": "a"})])
    assert own_call.seq == 8, "the place where the parent's call stands in its own log"
    with fork.effect("restart", {"host": "a"}, call="c9") as own:
        assert own.pending
        own.settle("the fork's")
    assert sorted(r.outcome for r in fork.ledger()) == ["the fork's", "the parent's"]
