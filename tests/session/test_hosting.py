"""What hosts keep in the log: found, missed, released, pruned, purged, forked."""

from __future__ import annotations

from typing import Any

import pytest

import lineal.aio
from lineal import Conflict, Corrupt, PolicyError, Record, Said
from lineal.engines.memory import MemoryEngine
from lineal.session import Session
from lineal.store import Store


def data(session: Session, group: str = "cp", **asked: Any) -> list[Any]:
    return [kept.data for kept in session.kept("graph", group, **asked)]


def test_records_are_found_by_group_and_by_key_newest_first(session: Session) -> None:
    """R3: in the order of the log."""
    first, second = session.keep("graph", "cp", [Record({"n": 1}, key="a"), Record({"n": 2}, key="b")])
    session.keep("graph", "cp", [Record({"n": 3}, key="a")])
    session.keep("graph", "other", [Record("not this")])
    session.keep("elsewhere", "cp", [Record("nor this", key="a")])
    assert data(session) == [{"n": 3}, {"n": 2}, {"n": 1}]
    assert data(session, key="a") == [{"n": 3}, {"n": 1}] and data(session, key="a", limit=1) == [{"n": 3}]
    assert data(session, limit=2) == [{"n": 3}, {"n": 2}] and data(session, key="c") == []
    assert [kept.key for kept in session.kept_at([second, first])] == ["a", "b"]


def test_they_are_in_no_view(session: Session, say: Any) -> None:
    session.append(say.user(1))
    before = session.messages()
    session.keep("graph", "cp", [Record({"secret": "state"})])
    assert session.messages() == before and session.verify().clean


def test_a_key_that_is_there_is_not_written_again_if_once_is_asked(session: Session) -> None:
    """R2."""
    first = session.keep("claude", "lines", [Record(1, key="a")])
    head = session.status().head
    assert session.keep("claude", "lines", [Record(1, key="a")], once=True) == first and session.status().head == head
    assert session.keep("claude", "lines", [Record(1, key="a"), Record(2, key="b")], once=True) == [*first, head + 1]


def test_what_a_record_says_becomes_a_turn_with_it(session: Session) -> None:
    """R1, R2, R3: one transaction, in the order given; said again it stands once."""
    hello, hi = Said("u1", {"role": "user", "content": "hello"}), Said("a1", {"role": "assistant", "content": "hi"}, "assistant")
    records = [Record("before"), Record([1], key="u1", says=[hello]), Record("between"), Record([2], key="a1", says=[hi]), Record("end")]
    seqs = session.keep("claude", "lines", records, after=0)
    assert seqs == [1, 3, 4, 6, 7] and [(t.seq, t.id) for t in session.turns()] == [(2, "u1"), (5, "a1")]
    assert [k.turns for k in session.kept_at([3, 6])] == [("u1",), ("a1",)]
    again = session.keep("claude", "lines", [records[1], Record("more"), records[3]], once=True)
    assert again == [3, 8, 6] and len(session.turns()) == 2 and session.verify().clean
    with pytest.raises(Conflict, match="newer record"):
        session.keep("claude", "lines", [Record(3, says=[Said("u2", hello.message)])], after=7)
    with pytest.raises(Conflict, match="another message"):
        session.keep("claude", "lines", [Record("first"), Record(3, key="x", says=[Said("u1", {"role": "user", "content": "other"})])])
    assert session.status().head == 8 and not session.kept("claude", "lines", key="x")


def test_a_result_of_a_call_that_never_was_here_is_a_late_one(session: Session) -> None:
    """R4: a host's history may begin in the middle."""
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c0", "content": "done"}]}
    session.keep("claude", "lines", [Record(1, says=[Said("r0", result, "tool")])])
    assert [t.author for t in session.turns()] == ["tool"] and session.verify().clean


def test_a_purge_takes_what_a_record_says(session: Session) -> None:
    """R56."""
    session.keep("claude", "lines", [Record("secret", says=[Said("u1", {"role": "user", "content": "secret"})]), Record("plain")])
    session.purge(["u1"])
    assert [k.data for k in session.kept("claude", "lines")] == ["plain", None]


def test_who_read_an_older_record_is_told_so(session: Session) -> None:
    """R31: a compare-and-set on the group alone; what else is written in the log is no conflict."""
    (seq,) = session.keep("adk", "events", [Record(1)], after=0)
    session.append({"role": "user", "content": "meanwhile"})
    (newer,) = session.keep("adk", "events", [Record(2)], after=seq)
    with pytest.raises(Conflict, match="newer record"):
        session.keep("adk", "events", [Record(3)], after=seq)
    assert [kept.seq for kept in session.kept("adk", "events")] == [newer, seq]


def test_released_ones_are_found_no_more_and_a_prune_takes_them(session: Session) -> None:
    """R46: what a host keeps stays, whatever is pruned, until it lets go."""
    seqs = session.keep("graph", "cp", [Record({"n": n}, key=f"k{n}") for n in range(6)])
    assert session.prune().entries == 0
    session.release("graph", seqs[3:])
    assert data(session) == [{"n": 2}, {"n": 1}, {"n": 0}] and data(session, limit=2) == [{"n": 2}, {"n": 1}]
    assert data(session, key="k4") == [] and data(session, key="k4", limit=1) == []
    assert session.prune().entries == 3
    assert data(session) == [{"n": 2}, {"n": 1}, {"n": 0}] and session.verify().clean
    with pytest.raises(Corrupt, match="another one needs"):
        session.kept_at(seqs[3:4])


def test_a_purge_takes_what_repeats_the_turn(session: Session, say: Any) -> None:
    """R54: also what was kept before the turn itself was said."""
    session.keep("graph", "cp", [Record({"messages": ["hunter2"]}, turns=["secret"]), Record({"messages": ["else"]}, turns=["u1"])])
    session.append(say.user(1), id="u1")
    session.append(say.user(2, "hunter2"), id="secret")
    session.purge(["secret"])
    assert data(session) == [{"messages": ["else"]}, None]
    assert not any(b"hunter2" in row.body for row in session.engine.scan(session.name)) and session.verify().clean


def test_a_fork_has_them_and_a_rollback_leaves_them(session: Session, say: Any) -> None:
    """Where the host stands is the host's to say."""
    session.append(say.user(1))
    (early,) = session.keep("graph", "cp", [Record("early")])
    session.append(say.user(2))
    (late,) = session.keep("graph", "cp", [Record("late")])
    fork = session.fork("child", at=early)
    assert data(fork) == ["early"]
    session.rollback(early)
    assert data(session) == ["late", "early"]
    assert session.restorable(early) and not session.restorable(late)


def test_what_was_kept_before_a_lossy_compaction_may_not_be_gone_back_to(session: Session, fill: Any, brief: Any) -> None:
    """Record 000: one sequence, no clocks."""
    fill(session, 16)
    (before,) = session.keep("graph", "cp", [Record("before")])
    session.compact(brief)
    (after,) = session.keep("graph", "cp", [Record("after")])
    refused = session.restorable(before, "cp-1")
    assert not refused and refused.reason == "not_newer" and "cp-1" in refused.message
    assert session.restorable(after)


@pytest.mark.parametrize("key", [None, "k"])
def test_one_that_the_store_lost_is_missed(key: str | None) -> None:
    """R59: an older checkpoint is no substitute, and none is no beginning."""
    engine = MemoryEngine()
    session = Store(engine).session("agent")
    session.keep("graph", "cp", [Record("one", key="k")])
    for carriers in engine._logs["agent"].carriers.values():
        carriers.clear()
    with pytest.raises(Corrupt, match="damaged index"):
        session.kept("graph", "cp", key)


@pytest.mark.parametrize(
    "act",
    [
        lambda s: s.keep("graph", "", [Record(1)]),
        lambda s: s.keep("", "cp", [Record(1)]),
        lambda s: s.keep("graph", "cp", [{"no": "record"}]),
        lambda s: s.keep("graph", "cp", [Record({1: 2})]),
        lambda s: s.keep("graph", "cp", [Record(1, key="a"), Record(2, key="a")]),
        lambda s: s.kept("graph", "cp", limit=0),
        lambda s: s.release("graph", ["3"]),
        lambda s: s.restorable(-1),
    ],
)
def test_bad_arguments_are_refused_and_nothing_is_written(session: Session, act: Any) -> None:
    with pytest.raises(PolicyError):
        act(session)
    assert session.status().head == 0


def test_shown_tells_which_turn_each_message_is(session: Session, fill: Any, say: Any, brief: Any) -> None:
    """The same messages as `messages()`; what lineal says is nobody's turn (R21)."""
    fill(session, 16)
    session.compact(brief)
    shown = session.shown()
    assert [s.message for s in shown] == session.messages()
    turns = {t.id: t.message for t in session.view().turns}
    assert [s.turn for s in shown if s.turn] == [*turns] and any(not s.turn for s in shown)
    assert all(s.message == turns[s.turn] for s in shown if s.whole)


def test_records_may_be_kept_by_async_callers(session: Session) -> None:
    import asyncio

    async def act() -> list[int]:
        with_twin = lineal.aio.AsyncSession(session)
        await with_twin.keep("graph", "cp", [Record(1)])
        return [k.data for k in await with_twin.kept("graph", "cp")]

    assert asyncio.run(act()) == [1]
