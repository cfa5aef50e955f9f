"""Effects: intent first, unknown is a state, and nothing repeats without somebody deciding so."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import lineal
from lineal import NoEffect, aio
from lineal.engines.memory import MemoryEngine
from lineal.errors import Conflict, KeyConflict, PolicyError, Refused, Unavailable, UnsafeEffectError
from lineal.holder import release
from lineal.session import Session
from lineal.session.effects import LookAlike
from lineal.session.outcomes import Compacted
from lineal.store import Store
from lineal.testing.faults import FaultyEngine


class World:
    """What was really done, outside."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def do(self, what: Any = "rotated") -> Any:
        self.done.append(what)
        return {"what": what, "nth": len(self.done)}


@pytest.fixture
def world() -> World:
    return World()


def states(session: Session) -> dict[str, str]:
    return {row.key: row.state for row in session.ledger()}


def run(session: Session, world: World, **given: Any) -> Any:
    """Guard one effect the way the front door shows it."""
    with session.effect(given.pop("tool", "rotate"), given.pop("args", {"db": "main"}), **given) as effect:
        if effect.pending:
            effect.settle(world.do())
    return effect


# --- the context manager -----------------------------------------------------------------------------------------------------


def test_an_effect_is_done_once_for_its_key(house: Any, session: Session, world: World) -> None:
    """R47, R49: the second begin is answered from the ledger, in this process and in the next."""
    first = run(session, world, key="rotate:1")
    assert first.pending is False and first.result == {"what": "rotated", "nth": 1} and first.state == "done"
    assert run(session, world, key="rotate:1").result == first.result
    assert run(house.reopen(session), world, key="rotate:1").result == first.result
    assert world.done == ["rotated"]


def test_the_intent_is_durable_before_anything_is_done(house: Any, session: Session) -> None:
    """R47."""
    with session.effect("rotate", {"db": "main"}, key="k") as effect:
        assert effect.pending and effect.attempt == 1
        (row,) = house.session().ledger()
        assert (row.key, row.tool, row.state, row.seq, row.idempotent, row.shown) == ("k", "rotate", "intended", 1, False, {"db": "main"})
        effect.settle("ok")
    assert states(session) == {"k": "done"}


def test_an_exception_makes_the_outcome_unknown_and_goes_through(session: Session, world: World) -> None:
    """R47: neither failed nor done; no automatic repeat, no silent loss."""
    with pytest.raises(TimeoutError), session.effect("rotate", {}, key="k") as effect:
        world.do()
        raise TimeoutError("no answer in 30 s")
    assert effect.state == "unknown" and states(session) == {"k": "unknown"}
    assert session.status().unknown_effects == ("k",)
    (row,) = session.ledger()
    assert "TimeoutError: no answer in 30 s" in row.note
    with pytest.raises(UnsafeEffectError) as refusal:
        run(session, world, args={}, key="k")
    assert refusal.value.reason == "unknown" and "resolve_effect" in refusal.value.remedy
    assert len(world.done) == 1


def test_leaving_it_unsettled_is_unknown_too(session: Session) -> None:
    with session.effect("rotate", {}, key="k"):
        pass
    assert states(session) == {"k": "unknown"}


def test_a_clean_refusal_is_no_effect_and_may_be_sent_again(session: Session, world: World) -> None:
    """R47: recorded apart from done."""
    with session.effect("rotate", {}, key="k") as effect:
        effect.no_effect("locked")
    assert states(session) == {"k": "no_effect"}
    with pytest.raises(NoEffect), session.effect("rotate", {}, key="k") as effect:
        raise NoEffect("still locked")
    assert states(session) == {"k": "no_effect"}
    again = run(session, world, args={}, key="k")
    assert again.attempt == 3 and states(session) == {"k": "done"} and len(world.done) == 1
    assert [(row.key, row.attempt) for row in session.ledger()] == [("k", 3)]


def test_it_is_settled_once(session: Session) -> None:
    with session.effect("rotate", {}, key="k") as effect:
        effect.settle(1)
        with pytest.raises(PolicyError) as error:
            effect.settle(2)
        assert error.value.reason == "not_pending"
    with pytest.raises(PolicyError):
        effect.no_effect()
    with pytest.raises(PolicyError):
        session.effect("rotate", {}, key="other").settle(1)
    assert session.ledger()[0].outcome == 1


def test_an_outcome_that_json_cannot_hold_is_recorded_all_the_same(house: Any, session: Session) -> None:
    """R47: what happened must not go unrecorded because its value is odd."""
    for n, value in enumerate((object(), {1: 2}, float("nan"), b"bytes", {"ok": "\ud800\0", "n": 2**80})):
        with session.effect("t", {"n": n}, key=f"k{n}") as effect:
            assert effect.settle(value) is value
    outcomes = [row.outcome for row in house.reopen(session).ledger()]
    assert all("repr" in o for o in outcomes[:4]) and outcomes[4] == {"ok": "\ud800\0", "n": 2**80}


def test_the_class_is_stored_and_never_guessed(session: Session, world: World) -> None:
    """R48: an idempotent effect may be sent again after an unknown outcome; the default may not, whatever its name."""
    for key, idempotent in (("get_status", False), ("delegate_payment", True)):
        with session.effect("t", {}, key=key, idempotent=idempotent):
            pass
    with pytest.raises(UnsafeEffectError):
        run(session, world, tool="t", args={}, key="get_status")
    assert run(session, world, tool="t", args={}, key="delegate_payment").attempt == 2
    assert [row.idempotent for row in session.ledger()] == [False, True]


def test_one_key_for_other_arguments_is_a_conflict(session: Session, world: World) -> None:
    """R49: also for another tool, and while it is open; the first entry is untouched."""
    first = run(session, world, args={"db": "main"}, key="k")
    for given in ({"args": {"db": "other"}}, {"tool": "truncate"}):
        with pytest.raises(KeyConflict) as conflict:
            run(session, world, key="k", **given)
        assert isinstance(conflict.value, Conflict) and conflict.value.found_seq == 1
    with session.effect("rotate", {"n": 1}, key="open") as effect:
        with pytest.raises(KeyConflict):
            session.effect("rotate", {"n": 2}, key="open").__enter__()
        effect.settle("ok")
    assert session.ledger()[0].outcome == first.result and len(world.done) == 1
    assert run(session, world, args={"db": "main"}, key="k").result == first.result


@pytest.mark.parametrize("key", ["", "@5.0", "@x", 5, ("a",)], ids=repr)
def test_a_key_that_cannot_be_meant_is_refused(session: Session, key: Any) -> None:
    """Keys with @ are lineal's own: emissions without a caller's key."""
    with pytest.raises(PolicyError):
        session.effect("t", {}, key=key).__enter__()
    assert session.status().head == 0


# --- decorated functions -----------------------------------------------------------------------------------------------------


def test_a_decorated_function_is_guarded_at_every_call(house: Any, session: Session, world: World) -> None:
    @session.effect("rotate", key=lambda args: f"rotate:{args['db']}:{args['day']}")
    def rotate(db: str, day: int = 1) -> Any:
        """Rotate the keys of a database."""
        return world.do([db, day])

    assert rotate("main") == rotate("main", day=1) == rotate(db="main")
    rotate("main", day=2)
    assert world.done == [["main", 1], ["main", 2]]
    assert rotate.__doc__ == "Rotate the keys of a database."
    assert [row.key for row in session.ledger()] == ["rotate:main:1", "rotate:main:2"]


def test_a_decorated_coroutine_is_guarded_too(session: Session, world: World) -> None:
    async def story() -> None:
        @session.effect("rotate", key="k")
        async def rotate(db: str) -> Any:
            await asyncio.sleep(0)
            return world.do(db)

        assert await rotate("main") == await rotate("main")

        @session.effect("fail", key="f")
        async def fail() -> None:
            raise ConnectionError("reset")

        with pytest.raises(ConnectionError):
            await fail()

    asyncio.run(story())
    assert world.done == ["main"] and states(session) == {"k": "done", "f": "unknown"}


def test_a_refusal_inside_a_decorated_function_is_no_effect(session: Session) -> None:
    @session.effect("pay", key="k")
    def pay() -> None:
        raise NoEffect("insufficient funds")

    for _ in range(2):
        with pytest.raises(NoEffect):
            pay()
    assert states(session) == {"k": "no_effect"}


def test_an_effect_in_async_code(house: Any, world: World) -> None:
    """R47: cancelled is unknown."""

    async def story() -> dict[str, str]:
        session = aio.AsyncSession(house.session())
        async with session.effect("rotate", {}, key="k") as effect:
            effect.settle(world.do())
        async with session.effect("rotate", {}, key="k") as effect:
            assert not effect.pending and effect.result["nth"] == 1

        async def hangs() -> None:
            async with session.effect("deploy", {}, key="slow"):
                await asyncio.sleep(60)

        task = asyncio.create_task(hangs())
        while "slow" not in {row.key for row in await session.ledger()}:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return {row.key: row.state for row in await session.ledger()}

    assert asyncio.run(story()) == {"k": "done", "slow": "unknown"}


# --- who holds it ------------------------------------------------------------------------------------------------------------


def test_a_live_holder_is_busy_and_a_dead_ones_effect_is_unknown(house: Any, session: Session, world: World) -> None:
    """R47, R33: a recovery that runs meanwhile leaves a live worker alone; twelve restarts repeat nothing."""
    effect = session.effect("cron", {}, key="cron:daily").__enter__()
    other = house.session()
    with pytest.raises(UnsafeEffectError) as refusal:
        run(other, world, tool="cron", args={}, key="cron:daily")
    assert refusal.value.reason == "busy" and "process" in str(refusal.value)
    assert other.recover().unknown == () and states(other) == {"cron:daily": "intended"}
    with pytest.raises(UnsafeEffectError):
        other.resolve_effect("cron:daily", "not_happened")
    assert effect.pending
    release(session.holder)
    for _ in range(12):
        again = house.session()
        assert states(again) == {"cron:daily": "unknown"} and again.status().unknown_effects == ("cron:daily",)
        with pytest.raises(UnsafeEffectError) as refusal:
            run(again, world, tool="cron", args={}, key="cron:daily")
        assert refusal.value.reason == "unknown"
        again.recover()
    assert world.done == []


def test_two_threads_begin_one_key(session: Session) -> None:
    """R49: one winner; the other is told that it is busy, or gets the outcome."""
    gate = threading.Barrier(6)
    done: list[int] = []
    busy: list[Any] = []

    def begin(n: int) -> None:
        gate.wait()
        try:
            with session.effect("pay", {"amount": 5}, key="pay:1") as effect:
                if effect.pending:
                    done.append(n)
                    effect.settle(n)
        except UnsafeEffectError as refusal:
            busy.append(refusal.reason)

    workers = [threading.Thread(target=begin, args=(n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(done) == 1 and set(busy) <= {"busy"}
    assert session.ledger()[0].outcome == done[0]


BEGIN = """
import sys, lineal
session = lineal.connect(sys.argv[1]).session("agent", summarizer=str)
try:
    with session.effect("pay", {"amount": 5}, key="pay:1") as effect:
        if effect.pending:
            with open(sys.argv[2], "a") as world:
                world.write("paid\\n")
            effect.settle("paid")
except lineal.UnsafeEffectError as refusal:
    assert refusal.reason == "busy", refusal
"""


def test_processes_that_begin_one_key_pay_once(file_house: Any, tmp_path: Path) -> None:
    """R49."""
    session = file_house.session()
    session.append({"role": "user", "content": "pay"})
    world = tmp_path / "world"
    workers = [subprocess.Popen([sys.executable, "-c", BEGIN, str(file_house.path), str(world)]) for _ in range(4)]
    assert [worker.wait(60) for worker in workers] == [0, 0, 0, 0]
    assert world.read_text() == "paid\n"
    assert [(row.state, row.attempt) for row in session.ledger()] == [("done", 1)]


def test_a_settlement_whose_answer_was_lost_is_not_made_unknown(brief: Any) -> None:
    """R47: the write reached the disk, its acknowledgement did not."""
    engine = FaultyEngine(MemoryEngine())
    session = Store(engine).session("a", summarizer=brief)
    with pytest.raises(Unavailable), session.effect("rotate", {}, key="k") as effect:
        engine.fail_at(len(engine.calls) + 1, when="after")
        effect.settle("rotated")
    assert [(row.state, row.outcome) for row in session.ledger()] == [("done", "rotated")]


def test_an_intent_that_could_not_be_written_is_not_begun(brief: Any) -> None:
    """R47: the caller must not do it."""
    engine = FaultyEngine(MemoryEngine())
    session = Store(engine).session("a", summarizer=brief)
    session.append({"role": "user", "content": "go"})
    effect = session.effect("rotate", {}, key="k")
    for k in range(1, 9):
        engine.fail_at(len(engine.calls) + k)
    with pytest.raises(Unavailable):
        effect.__enter__()
    assert not effect.pending
    engine.heal()
    assert session.ledger() == []


# --- what an operator finds out ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finding", "state", "sent"),
    [("happened", "done", False), ("not_happened", "no_effect", True), ("compensated", "compensated", False)],
)
def test_an_unknown_outcome_is_resolved(house: Any, session: Session, world: World, finding: str, state: str, sent: bool) -> None:
    """R47: durable, and only then may it be sent again or not."""
    with session.effect("rotate", {}, key="k"):
        pass
    row = session.resolve_effect("k", finding, note="asked the provider")
    assert (row.state, row.resolved, row.note) == (state, True, "asked the provider")
    assert house.reopen(session).ledger() == [row]
    again = house.session()
    assert again.status().unknown_effects == ()
    assert run(again, world, args={}, key="k").attempt == (2 if sent else 1)
    assert len(world.done) == sent


def test_a_resolution_that_cannot_be_meant_is_refused(session: Session) -> None:
    with pytest.raises(PolicyError):
        session.resolve_effect("k", "maybe")
    with pytest.raises(Refused) as refusal:
        session.resolve_effect("k", "happened")
    assert refusal.value.reason == "unknown_key"


# --- without a caller's key ------------------------------------------------------------------------------------------------------


def emit(session: Session, world: World, args: Any = None, call: str | None = None) -> Any:
    with session.effect("push", args if args is not None else {"branch": "main"}, call=call) as effect:
        if effect.pending:
            effect.settle(world.do())
    return effect


def test_a_loop_of_equal_calls_runs_in_full(session: Session, say: Any, world: World) -> None:
    """R50: agents rightly repeat a commit, a push, a reboot; never name and arguments, never the call's id."""
    for n in range(5):
        session.append([say.user(n), say.call("call_1", tool="push", args={"branch": "main"})])
        assert emit(session, world).pending is False
        session.append(say.result("call_1"))
    assert len(world.done) == 5 and len({row.key for row in session.ledger()}) == 5
    assert [row.keyed for row in session.ledger()] == [False] * 5


def test_equal_calls_in_one_turn_are_two(session: Session, say: Any, world: World) -> None:
    session.append(say.user(1))
    emit(session, world)
    emit(session, world)
    session.append(say.call("a", "b", tool="push", args={"branch": "main"}))
    emit(session, world)
    emit(session, world)
    assert len(world.done) == 4
    assert [row.key for row in session.ledger()] == ["@1.+0", "@1.+1", "@4.0", "@4.1"] or len({row.key for row in session.ledger()}) == 4


def test_the_same_call_met_again_after_a_restart_finds_its_record(house: Any, session: Session, say: Any, world: World) -> None:
    """R47, R50: the emission is the identity: this call of this turn."""
    session.append([say.user(1), say.call("c1", tool="push", args={"branch": "main"})])
    first = emit(session, world, call="c1")
    again = emit(house.reopen(session), world, call="c1")
    assert again.result == first.result and len(world.done) == 1


def test_a_crashed_call_met_again_is_unknown(house: Any, session: Session, say: Any, world: World) -> None:
    session.append([say.user(1), say.call("c1", tool="push", args={"branch": "main"})])
    session.effect("push", {"branch": "main"}, call="c1").__enter__()
    again = house.reopen(session)
    with pytest.raises(UnsafeEffectError) as refusal:
        emit(again, world, call="c1")
    assert refusal.value.reason == "unknown"
    again.close_calls()
    with pytest.raises(UnsafeEffectError) as refusal:
        emit(again, world)
    assert refusal.value.reason == "unsettled_lookalike", "an equal call is not sent either before somebody knows"


def forgotten(session: Session, say: Any, fill: Any, brief: Any, how: str) -> None:
    """Bring the run at the start out of what the agent can still know."""
    if how == "compacted":
        fill(session, 12)
        assert isinstance(session.compact(brief), Compacted)
    elif how == "spilled":
        fill(session, 12)
        session.spill([t.id for t in session.view().turns][:4])
    elif how == "dropped by the host":
        session.note_eviction([t.id for t in session.view().turns], "host")
    else:
        for row in session.ledger():
            session.resolve_effect(row.key, "happened")
        session.rollback(1)
        session.append(say.user(71))


@pytest.mark.parametrize("how", ["compacted", "spilled", "dropped by the host", "rolled back"])
def test_an_equal_call_whose_first_run_was_forgotten_is_asked_about(
    house: Any, session: Session, say: Any, fill: Any, brief: Any, world: World, how: str
) -> None:
    """R50: the same wish, forgotten? It is not sent; the recorded outcome is handed out, and the policy decides."""
    session.append(say.user(1))
    session.append(say.call("c1", tool="push", args={"branch": "main"}))
    first = emit(session, world)
    session.append(say.result("c1"))
    forgotten(session, say, fill, brief, how)
    again = emit(session, world)
    assert not again.pending and again.result == first.result and again.verdict.reason == "look_alike"
    assert len(world.done) == 1
    assert emit(session, world, {"branch": "other"}).verdict.allowed, "other arguments are another wish"
    session.policy = session.policy.with_(on_lookalike="warn")
    with pytest.warns(LookAlike, match="out of the view"):
        emit(session, world)
    session.policy = session.policy.with_(on_lookalike="allow")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        emit(session, world)
    assert len(world.done) == 4
    with session.effect("push", {"branch": "main"}, key="once more, on purpose") as effect:
        assert effect.pending
        effect.settle("ok")


def test_an_equal_call_that_had_no_effect_is_sent(session: Session, say: Any, fill: Any, brief: Any, world: World) -> None:
    session.append(say.user(1))
    with session.effect("push", {"branch": "main"}) as effect:
        effect.no_effect("rejected")
    forgotten(session, say, fill, brief, "compacted")
    assert emit(session, world).result == {"what": "rotated", "nth": 1}


def test_the_view_tells_what_is_done_and_what_is_open(house: Any, session: Session, say: Any, fill: Any, brief: Any, world: World) -> None:
    """R51: as data and as a note, with outside handles, after compaction, rollback, fork and reopening."""
    fill(session, 16)
    run(session, world, key="drop:scratch", tool="drop", args={"table": "scratch"})
    opened = [session.effect("job", {"n": n}, key=f"job:{n}").__enter__() for n in range(2)]
    for n, effect in enumerate(opened):
        effect.attach(f"https://jobs.example/{n}")
    with session.effect("pay", {}, key="pay:1"):
        pass
    session.compact(brief)

    def told(s: Session) -> None:
        view = s.view()
        assert view.watermark == 17 and [d.key for d in view.done] == ["drop:scratch"]
        assert {row.key: row.handle for row in view.effects if row.handle} == {f"job:{n}": f"https://jobs.example/{n}" for n in range(2)}
        assert {e.key for e in s.log.lineage.effects} == {"job:0", "job:1", "pay:1"}
        assert s.log.lineage.effect("pay:1").state == "unknown"
        text = str(s.messages())
        assert "drop (key drop:scratch, seq 17)" in text and "pay (key pay:1" in text and "https://jobs.example/1" in text

    told(session)
    fill(session, 12, 16)
    session.compact(brief)
    told(session)
    told(session.fork("child"))
    told(house.session())
    assert opened[0].settle("done") == "done"
    assert states(session)["job:0"] == "done", "a late settlement attaches although its turn is covered"


def test_a_forks_own_calls_are_not_taken_for_its_parents(house: Any, say: Any, world: World) -> None:
    """R50, R45: turns of the fork have the same seqs as turns that only the parent has; their emissions are others."""
    session = house.session()
    session.append([say.user(1), say.answer(2)])
    for n in range(3):
        session.append([say.user(n), say.call("c", tool="push", args={"n": n})])
        emit(session, world, {"n": n}, call="c")
        session.append(say.result("c"))
    child = session.fork("child", at=2)
    known = states(child)
    assert set(known.values()) == {"done"} and len(known) == 3, "the world does not fork"
    for n in range(10, 24):
        child.append([say.user(n), say.call("c", tool="push", args={"n": n})])
        assert emit(child, world, {"n": n}, call="c").verdict.reason == "send", "no key of the parent is in the way"
        child.append(say.result("c"))
    assert not emit(child, world, {"n": 1}).verdict.allowed, "and what the parent did since is a look-alike"


# --- the ledger ------------------------------------------------------------------------------------------------------------------


def test_the_ledger_outlives_compaction_rollback_and_prune(house: Any, session: Session, fill: Any, brief: Any, world: World) -> None:
    """R52, record 003: each row is its own tombstone."""
    fill(session, 8)
    for n in range(5):
        run(session, world, args={"n": n}, key=f"k{n}")
    fill(session, 12, 8)
    session.compact(brief)
    session.rollback(10)
    fill(session, 12, 40)
    session.compact(brief)
    session.prune()
    again = house.reopen(session)
    assert states(again) == {f"k{n}": "done" for n in range(5)}
    assert [row.outcome["nth"] for row in again.ledger()] == [1, 2, 3, 4, 5]
    assert run(again, world, args={"n": 4}, key="k4").result["nth"] == 5 and len(world.done) == 5


def test_effects_of_other_sessions_are_others(house: Any, world: World) -> None:
    store = house.open()
    one, other = store.session("one", summarizer=str), store.session("other", summarizer=str)
    run(one, world, key="k")
    run(other, world, key="k")
    assert len(world.done) == 2


def test_arguments_are_equal_in_any_order(session: Session, world: World) -> None:
    run(session, world, args={"a": 1, "b": [1, {"x": 2, "y": 3}]}, key="k")
    run(session, world, args={"b": [1, {"y": 3, "x": 2}], "a": 1}, key="k")
    assert len(world.done) == 1


def test_the_front_doors_example_works(house: Any, world: World) -> None:
    assert lineal.NoEffect is NoEffect
    session = house.session()
    with session.effect("rotate-keys", {"db": "main"}, key="rotate:2026-11-30") as effect:
        if effect.pending:
            effect.settle(world.do())
        result = effect.result
    assert result == {"what": "rotated", "nth": 1}


# --- one row of the ledger -------------------------------------------------------------------------------------------


def test_the_ledger_is_asked_for_one_key_and_reads_no_other_row(tmp_path: Path) -> None:
    """R49: what another process has settled meanwhile is seen, and a key that nobody used has no row."""

    class Counting(MemoryEngine):
        scanned = 0

        def scan(self, session: str, after: int = 0, until: int | None = None, kinds: Any = None) -> Any:
            for row in super().scan(session, after, until, kinds):
                self.scanned += 1
                yield row

    engine = Counting()
    session, other = Store(engine).session("s"), Store(engine).session("s")
    for n in range(300):
        with session.effect("send", {"n": n}, key=f"k{n}") as effect:
            effect.settle(n)
    assert [(row.key, row.outcome) for row in session.ledger("k7")] == [("k7", 7)] and session.ledger("k7") == [session.ledger()[7]]
    assert session.ledger("nobody's") == []
    assert other.ledger("k299")[0].outcome == 299
    engine.scanned = 0
    session.ledger("k7")
    assert engine.scanned < 30
    with session.effect("send", {"n": 300}, key="k300"):
        assert other.ledger("k300")[0].state == "intended"
    assert other.ledger("k300")[0].state == "unknown"
