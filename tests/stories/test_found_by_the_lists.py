"""Short lives that the plain lists and the cut-off stories found: each went wrong once, and is told here without any chance."""

from __future__ import annotations

import pytest

from lineal.engines.memory import MemoryEngine
from lineal.errors import Refused, Unavailable, UnsafeRollbackError
from lineal.session import Session
from lineal.store import Store
from lineal.testing.faults import FaultyEngine
from lineal.testing.oracle import unpaired
from lineal.testing.stories import POLICY, answer, call, result, summarize, user


def opened(engine: MemoryEngine | FaultyEngine, name: str = "agent") -> Session:
    return Store(engine).session(name, POLICY, summarize)


def talked(session: Session, rounds: int = 3) -> Session:
    for n in range(1, rounds + 1):
        session.append([user(n), answer(n)], id=[f"u{n}", f"a{n}"])
    return session


def shown(session: Session) -> list[str]:
    return [t.id for t in session.view().turns]


def test_what_was_purged_does_not_come_back_with_the_past() -> None:
    """R39, R54: neither a rollback to before the purge nor a fork from there shows the turn, and both go on."""
    session = talked(opened(MemoryEngine()))
    target = session.checkpoint("before the purge")
    session.pin("a1")
    session.append(user(4), id="u4")
    session.purge(["a1"])
    session.rollback(target)
    child = session.fork("child", at=target)
    for one in (session, child):
        assert shown(one) == ["u1", "u2", "a2", "u3", "a3"] and not one.view().pins
        assert "answer 1" not in str(one.messages())
        one.append(user(9), id="u9")
        assert one.verify().clean


def test_a_purge_that_was_cut_off_goes_on_in_the_forks() -> None:
    """R54: it is finished only when no fork has the content; until then recover() goes on with it."""
    engine = MemoryEngine()
    opened_first = talked(opened(engine))
    opened_first.fork("child")
    calls = FaultyEngine(engine)
    session = opened(calls)
    calls.fail_at(len(calls.calls) + 1 + _calls_until_forks_are_asked())
    with pytest.raises(Unavailable):
        session.purge(["a1"])
    calls.heal()
    assert "answer 1" in str([row.body for row in engine.scan("child")]) and "answer 1" not in str([r.body for r in engine.scan("agent")])
    opened(engine).recover()
    assert "answer 1" not in str([row.body for row in engine.scan("child")])
    assert opened(engine).verify().clean and opened(engine, "child").verify().clean


def _calls_until_forks_are_asked() -> int:
    """How many engine calls a purge makes before it looks for forks, counted on a store without faults."""
    calls = FaultyEngine(MemoryEngine())
    session = talked(opened(calls))
    session.fork("child")
    before = len(calls.calls)
    session.purge(["a1"])
    return [method for _, method in calls.calls[before:]].index("sessions")


def test_a_fork_keeps_its_own_turn_of_the_same_id() -> None:
    """R54, R55: a purge follows copies, not names."""
    session = talked(opened(MemoryEngine()))
    child = session.fork("child")
    session.append(answer(7, "said by the parent, "), id="a7")
    child.append(answer(7, "said by the fork, "), id="a7")
    session.purge(["a7"])
    assert "said by the fork" in str(child.messages()) and "said by the parent" not in str(session.messages())


def test_a_target_that_was_pruned_is_refused_though_nothing_stands_behind_it() -> None:
    """R39: the last entries below the target are gone; the view of an earlier seq is no substitute."""
    session = talked(opened(MemoryEngine()))
    session.pin("u2")
    session.unpin("u2")
    pruned = session.status().head
    session.append(answer(4), id="a4")
    session.prune()
    assert pruned not in [row.seq for row in session.engine.scan("agent")]
    with pytest.raises(UnsafeRollbackError, match="raw_gone"):
        session.rollback(pruned)
    with pytest.raises(Refused, match="pruned"):
        session.fork("child", at=pruned)


def test_another_handle_goes_on_behind_what_was_pruned_and_purged() -> None:
    """R54, R59: holes that others declared after this handle last looked are no damage."""
    engine = MemoryEngine()
    first = talked(opened(engine), 6)
    second = opened(engine)
    first.purge(["u2"])
    assert "u2" not in [t.id for t in second.turns()]
    first.purge(["u3"])
    assert "u3" not in [t.id for t in second.turns()]
    first.append([answer(8), user(8)])
    first.compact()
    first.prune()
    assert second.messages() == first.messages() and second.status().latched is None


def test_a_late_result_of_a_call_that_a_host_dropped_is_no_orphan() -> None:
    """R11, R51: also where the model used the id of an older call that still stands."""
    session = opened(MemoryEngine())
    session.append([user(1), call(1), result(1), answer(1), call(1)], id=["u1", "k1", "r1", "a1", "k2"])
    session.note_eviction(["k2"], by="host")
    late = session.append(result(1, "came late; "))
    assert not list(unpaired(session.messages()))
    assert late.id in shown(session) and "late result" in str(session.messages())


def test_a_host_drops_whole_units() -> None:
    """R11: no result is shown without its call, whichever of them the host dropped."""
    for dropped in ("k1", "r1"):
        session = opened(MemoryEngine())
        session.append([user(1), call(1), result(1), answer(1)], id=["u1", "k1", "r1", "a1"])
        session.note_eviction([dropped], by="host")
        assert shown(session) == ["u1", "a1"] and not list(unpaired(session.messages()))


def test_a_settlement_whose_acknowledgement_was_lost_stays_settled() -> None:
    """R47: the caller sees the error; leaving the block does not make a known outcome unknown."""
    engine = FaultyEngine(MemoryEngine())
    session = opened(engine)
    with pytest.raises(Unavailable), session.effect("deploy", {"to": "staging"}, key="deploy:1") as effect:
        engine.fail_at(len(engine.calls) + 1, when="after")
        effect.settle("done")
    engine.heal()
    assert [row.state for row in opened(engine).ledger()] == ["done"]
    assert [row.kind for row in engine.scan("agent")] == ["effect_intended", "effect_settled"]


def test_a_delete_that_was_interrupted_is_not_forgotten_by_a_verification() -> None:
    """R54: all is still there and sound, and yet nothing may be written until the delete has come to its end."""
    engine = FaultyEngine(MemoryEngine())
    talked(opened(engine))
    engine.fail_at(len(engine.calls) + next(k for k, method in enumerate(_calls_of_a_delete(), 1) if method == "delete"))
    with pytest.raises(Unavailable):
        Store(engine).delete("agent")
    engine.heal()
    session = opened(engine)
    assert session.verify().clean and session.status().latched == "it is being deleted"
    with pytest.raises(Refused) as refusal:
        session.append(user(4))
    assert refusal.value.reason == "latched" and "delete()" in refusal.value.remedy
    Store(engine).delete("agent")
    assert engine.sessions() == [] and engine.latched("agent") is None


def _calls_of_a_delete() -> list[str]:
    engine = FaultyEngine(MemoryEngine())
    talked(opened(engine))
    before = len(engine.calls)
    Store(engine).delete("agent")
    return [method for _, method in engine.calls[before:]]


def test_a_session_stays_read_only_when_its_mark_could_not_be_taken_away() -> None:
    """R6: the verification found nothing, but the store still says that it is damaged, and so does everybody else."""
    engine = FaultyEngine(MemoryEngine())
    session = talked(opened(engine))
    session.log.latch("somebody saw damage")
    before = len(engine.calls)
    session.verify()
    lifted = [method for _, method in engine.calls[before:]].index("latch") + 1
    session.log.latch("somebody saw damage")
    engine.fail_at(len(engine.calls) + lifted)
    with pytest.raises(Unavailable):
        session.verify()
    with pytest.raises(Refused, match="somebody saw damage"):
        session.append(user(4))
    assert engine.latched("agent") == session.status().latched == "somebody saw damage"
    assert session.verify().clean and session.append(user(4))
