"""Short lives that the simulation found: each went wrong once when two processes came to one session at the wrong moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lineal.engines.memory import MemoryEngine
from lineal.entries import CompactionAborted, EffectResolved
from lineal.errors import Refused, Unavailable, UnsafeEffectError, UnsafeRollbackError
from lineal.policy import Policy
from lineal.session import Session
from lineal.session.states import tainted
from lineal.store import Store
from lineal.testing.faults import FaultyEngine
from lineal.testing.oracle import unpaired
from lineal.testing.stories import POLICY, answer, call, result, summarize, user


class Meanwhile:
    """An engine; just before its next call of a method, somebody else does something."""

    def __init__(self, engine: MemoryEngine):
        self.engine = engine
        self.name = engine.name
        self.acts: dict[str, Callable[[], object]] = {}

    def before(self, method: str, act: Callable[[], object]) -> None:
        self.acts[method] = act

    def __getattr__(self, method: str) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            act = self.acts.pop(method, None)
            if act:
                act()
            return getattr(self.engine, method)(*args, **named)

        return call


def opened(engine: Any, policy: Policy = POLICY, name: str = "agent") -> Session:
    return Store(engine).session(name, policy, summarize)


def two(rounds: int = 3, policy: Policy = POLICY) -> tuple[Session, Session, Meanwhile]:
    """A session that may be interrupted, another handle on it, and the engine of the first."""
    bare = MemoryEngine()
    engine = Meanwhile(bare)
    first, second = opened(engine, policy), opened(bare, policy)
    for n in range(1, rounds + 1):
        first.append([user(n), answer(n)], id=[f"u{n}", f"a{n}"])
    return first, second, engine


def stored(engine: MemoryEngine, name: str = "agent") -> str:
    """Everything that the engine keeps of a session's entries."""
    return str([row.body for row in engine.scan(name)])


# --- purge and prune --------------------------------------------------------------------------------------------------


def test_a_result_that_comes_while_its_call_is_purged_goes_too() -> None:
    """R11, R54: what is to be purged is decided again when others wrote meanwhile."""
    first, second, engine = two()
    first.append(call(1), id="k1")
    engine.before("append", lambda: second.append(result(1), id="r1"))
    assert set(first.purge(["k1"]).turns) == {"k1", "r1"}
    assert not list(unpaired(first.messages())) and first.verify().clean


def test_a_purge_finishes_one_that_somebody_else_began() -> None:
    """R54: two purges at once, one of them cut off before it erased anything; neither content stays."""
    first, second, engine = two()
    bare = engine.engine

    def cut_off() -> None:
        bare.delete = _fail_once(bare.delete, bare)  # type: ignore[method-assign]
        with pytest.raises(Unavailable):
            second.purge(["a1"])

    engine.before("append", cut_off)
    first.purge(["a2"])
    assert "answer 1" not in stored(bare) and "answer 2" not in stored(bare) and first.verify().clean


def test_a_state_that_was_written_late_does_not_bring_back_what_was_purged() -> None:
    """R54: a checkpoint puts its state beside the log before it hears of a purge."""
    first, second, engine = two()
    with first.effect("ask", {"n": 1}) as effect:
        effect.settle("the secret outcome")
    first.append(answer(4), id="a4")
    engine.before("put_state", lambda: second.purge(["a3"]))
    first.checkpoint("late")
    bare = engine.engine
    assert not [seq for seq in bare.states("agent") for a, b in tainted(bare, "agent") if a <= seq <= b]
    assert "the secret outcome" not in str(first.view().done) and first.verify().clean


def test_a_prune_is_decided_again_when_somebody_went_back() -> None:
    """R46, R52: the rows that the view of now needs stay, whenever it became the view of now."""
    first, second, engine = two(6)
    before = first.status().head
    first.compact()
    engine.before("append", lambda: second.rollback(before))
    first.prune(keep_checkpoints=0)
    assert first.messages() == second.messages() and len(first.view().turns) == 12
    assert first.verify().clean


def test_nobody_goes_back_to_what_is_being_pruned() -> None:
    """R39: a prune that was cut off before it dropped anything has said what goes."""
    bare = MemoryEngine()
    faulty = FaultyEngine(bare)
    first, second = opened(bare), opened(faulty)
    for n in range(1, 7):
        first.append([user(n), answer(n)])
    before = first.status().head
    first.compact()
    second.status()
    original = bare.delete
    bare.delete = _fail_once(original, bare)  # type: ignore[method-assign]
    with pytest.raises(Unavailable):
        second.prune(keep_checkpoints=0)
    with pytest.raises(UnsafeRollbackError, match="raw_gone"):
        first.rollback(before - 2)
    assert first.messages() and first.verify().clean


def _fail_once(original: Any, engine: Any) -> Any:
    def delete(*args: Any, **named: Any) -> None:
        engine.delete = original
        raise Unavailable("delete", "the disk failed once")

    return delete


def test_a_state_alone_is_no_way_back_when_the_turns_of_its_view_are_gone() -> None:
    """R39: the state lies above the pruned rows and can be had, but what its view shows can be read no more."""
    first, _, _ = two(6)
    with first.effect("ask", {"n": 1}, key="ask:1") as effect:
        effect.settle("so it is")  # rows of effects are never pruned: the state stands on one
    kept = first.log.keep_state()
    target = first.status().head
    first.compact()
    first.prune(before=target - 1, keep_checkpoints=0)
    assert kept and target in first.engine.states("agent")
    with pytest.raises(UnsafeRollbackError, match="raw_gone"):
        first.rollback(target)
    with pytest.raises(Refused, match="raw_entries_gone"):
        first.fork("child", at=target)
    assert first.verify().clean and first.messages()


def test_a_fork_that_is_made_during_a_purge_does_not_keep_the_content() -> None:
    """R54, R55: also where the purge looked for forks before this one was there."""
    first, second, engine = two()
    engine.before("append", lambda: second.purge(["a1"]))
    child = first.fork("child")
    assert "answer 1" not in stored(engine.engine) and "answer 1" not in stored(engine.engine, "child")
    assert "answer 2" in str(child.messages()) and child.verify().clean


# --- reading while others write ------------------------------------------------------------------------------------------


def test_messages_are_of_one_moment() -> None:
    """R45: a turn that is purged between the look at the view and the reading of its turns is not shown, and is no crash."""
    first, second, engine = two()
    engine.before("scan", lambda: engine.before("scan", lambda: second.purge(["a1"])))
    assert "answer 1" not in str(first.messages()) and len(first.messages()) == 5


def test_recovery_is_not_confused_by_what_is_written_meanwhile() -> None:
    """R33, R59: the second opinion is of the same head as the first."""
    first, second, engine = two()
    engine.before("states", lambda: (second.append([user(7), answer(7)]), second.checkpoint("meanwhile")))
    assert first.recover().target in ("checkpoint", "replay")
    assert first.status().latched is None and first.verify().clean


def test_verify_is_not_confused_by_a_prune() -> None:
    """R61: states that others remove while the log is read are no damage."""
    first, second, engine = two(6)
    first.checkpoint("old")
    first.compact()
    engine.before("state", lambda: second.prune(keep_checkpoints=0))
    assert not first.verify().damaged and first.status().latched is None


def test_a_commit_that_is_purged_before_it_is_read_back_was_written() -> None:
    """R35: what was declared gone is not missed."""
    first, second, engine = two(6)
    plan = first.plan_compaction()
    engine.before("append", lambda: engine.before("scan", lambda: second.purge([plan.covered[0]])))
    assert first.commit_compaction(plan, summarize(plan.request)).lossy
    assert first.verify().clean


def test_what_is_put_aside_is_read_back_in_the_view_of_now() -> None:
    """R53: turns that others said since this handle last looked may be the ones that are put aside."""
    small = Policy(trigger=300, ceiling=420, target=140, floor_turns=2, summary_max_tokens=90)
    first, second, engine = two(1, small)
    second.policy = POLICY
    long = [answer(n, "a long answer that fills the view, " * 3) for n in range(2, 5)]
    more = [*(answer(n, "a long answer that fills the view, " * 3) for n in range(5, 9)), user(9), answer(9)]
    engine.before("append", lambda: engine.before("append", lambda: second.append(more)))
    first.append([*long, user(4)])
    assert first.view().summaries and first.verify().clean and first.messages() == second.messages()


# --- compaction and appends ---------------------------------------------------------------------------------------------------


def test_an_append_is_not_refused_because_its_checkpoint_is() -> None:
    """R63: the policy wants a checkpoint, and a compaction has just begun; the turn stands all the same."""
    first, second, engine = two(5, POLICY.with_(checkpoint_every_entries=11))
    engine.before("put_state", second.plan_compaction)
    assert first.append(user(8), id="u8").id == "u8"
    assert first.status().in_flight and not first.checkpoints()


def test_a_compaction_that_others_closed_is_not_closed_again() -> None:
    """R33: its turns cannot be read, and meanwhile it was taken for dead."""
    first, second, engine = two(6)

    def closed_then_broken() -> None:
        flight = second.log.catch_up().in_flight
        assert flight is not None
        second.log.write(lambda lineage: [CompactionAborted(generation=flight.generation, why="its holder is gone")])
        raise Unavailable("scan", "the disk failed once")

    engine.before("append", lambda: engine.before("scan", closed_then_broken))
    with pytest.raises(Unavailable):
        first.plan_compaction()
    assert [row.kind for row in engine.engine.scan("agent")].count("compaction_aborted") == 1


def test_closed_calls_are_paired_whoever_closed_them() -> None:
    """R11: the result stands right behind its call, though other turns came between."""
    session = opened(MemoryEngine())
    session.append([user(1), call(1), answer(1), answer(2)])
    session.close_calls()
    assert not list(unpaired(session.messages()))
    session.append([call(2), answer(3)])
    session.append(result(2), author="search service")
    assert not list(unpaired(session.messages()))


def test_a_call_that_is_answered_while_it_is_closed_is_left_alone() -> None:
    first, second, engine = two()
    first.append([call(1), call(2)])
    engine.before("append", lambda: second.append(result(1), id="r1"))
    closed = first.close_calls()
    assert [t.message["tool_call_id"] for t in closed] == ["call-2"]
    assert not list(unpaired(first.messages()))


# --- effects ------------------------------------------------------------------------------------------------------------------


def test_a_named_call_is_one_emission_however_often_it_is_asked() -> None:
    """R47, R50: the process that tries again after an I/O error, and the one that finds the call answered, get the record."""
    engine = MemoryEngine()
    session = opened(engine)
    session.append([user(1), call(1, "rotate")])
    done = []
    for handle in (session, session, opened(engine)):
        with handle.effect("rotate", {"n": 1}, call="call-1") as effect:
            if effect.pending:
                done.append(effect.settle("key 7"))
        assert effect.result == "key 7"
        handle.close_calls()
    assert done == ["key 7"] and [row.key for row in session.ledger()] == ["@2.0"]


def test_an_effect_whose_end_could_not_be_written_is_unknown() -> None:
    """R47: this process is not at it any more, so an equal call is no parallel one."""
    faulty = FaultyEngine(MemoryEngine())
    session = opened(faulty)
    session.append([user(1), call(1, "rotate")])
    with pytest.raises(Unavailable), session.effect("rotate", {"n": 1}) as effect:
        faulty.fail_at(len(faulty.calls) + 1)
        faulty.fail_at(len(faulty.calls) + 2)
        effect.settle("key 7")
    faulty.heal()
    session.append([result(1), user(2), call(2, "rotate")])
    assert session.status().unknown_effects == ("@2.0",)
    with pytest.raises(UnsafeEffectError, match="unsettled_lookalike"), session.effect("rotate", {"n": 1}):
        raise AssertionError("it was sent again")


def test_that_an_old_attempt_did_nothing_says_nothing_about_the_new_one() -> None:
    """R47: the old one was resolved; the new one is under way when the old one reports."""
    engine = MemoryEngine()
    first, second = opened(engine), opened(engine)
    old = first.effect("rotate", {"n": 1}, key="rotate:1")
    old.__enter__()
    first.log.write(lambda lineage: [])
    second.log.catch_up()
    second.log.write(lambda lineage: [EffectResolved(key="rotate:1", finding="not_happened")])
    new = second.effect("rotate", {"n": 1}, key="rotate:1")
    new.__enter__()
    assert new.pending and new.attempt == 2
    old.no_effect("it was locked")
    assert [row.state for row in second.ledger()] == ["intended"]
    new.settle("key 7")
    assert [row.state for row in first.ledger()] == ["done"]


def test_a_unit_that_grows_while_it_is_summarised_stays_whole() -> None:
    """R11: a second result comes for a call that was answered, and covered by the plan."""
    first, second, _ = two()
    first.append([call(1), result(1), answer(4)], id=["k1", "r1", "a4"])
    first.append([m for n in range(5, 9) for m in (user(n), answer(n))])
    plan = first.plan_compaction()
    assert {"k1", "r1"} <= set(plan.covered)
    second.append(result(1, "once more; "), id="r1-again")
    done = first.commit_compaction(plan, summarize(plan.request))
    assert not {"k1", "r1"} & set(done.covered) and {"k1", "r1", "r1-again"} <= set(done.kept)
    assert not list(unpaired(second.messages())) and second.verify().clean
