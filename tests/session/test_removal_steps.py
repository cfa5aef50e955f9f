"""What each step of a removal is for: a story for every step that could be left out without anything else noticing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from lineal.engines.memory import MemoryEngine
from lineal.entries import Unknown
from lineal.errors import Unavailable
from lineal.policy import Policy
from lineal.session import Session
from lineal.session.removal import CHUNK
from lineal.store import Store

SECRET = "hunter2-very-secret"
SMALL = Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4, summary_max_tokens=200)


def kinds(session: Session) -> list[str]:
    return [row.kind for row, _ in session.log.entries()]


def holding(engine: Any, session: str) -> list[int]:
    """Rows that have the secret still."""
    return [row.seq for row in engine.scan(session) if SECRET.encode() in row.body]


# --- prune ---------------------------------------------------------------------------------------------------------------


def test_what_a_checkpoints_view_has_put_aside_stays(session: Session, fill: Any, brief: Any) -> None:
    """R46: going back to it, its handle answers."""
    turns = fill(session, 12)
    handle = session.spill(["t0", "t1"])
    checkpoint = session.checkpoint("with a spill")
    fill(session, 12, 12)
    session.compact(brief)
    assert not any(n.kind == "spill" for n in session.view().summaries)
    session.prune()
    session.rollback(checkpoint)
    assert session.expand(handle) == turns[:2]


def test_the_begin_of_an_open_compaction_stays(session: Session, fill: Any, brief: Any) -> None:
    """R46: with all that came after it."""
    fill(session, 16)
    session.compact(brief)
    fill(session, 12, 16)
    plan = session.plan_compaction()
    session.pin("a text")
    session.unpin("a text")
    session.prune()
    left = [row.seq for row, _ in session.log.entries()]
    assert left[-5:-2] == [plan.begun_seq, plan.begun_seq + 1, plan.begun_seq + 2]


def test_what_others_noted_in_the_log_is_theirs(session: Session, fill: Any, brief: Any) -> None:
    """R57: an annotation is carried, and never pruned."""
    fill(session, 4)
    note = Unknown(name="x.note", raw=b'{"v":1,"kind":"x.note","by":"a host"}')
    session.log.write(lambda lineage: [note])
    fill(session, 12, 4)
    session.compact(brief)
    session.prune()
    assert "x.note" in kinds(session)


def test_rows_go_in_steps_that_let_others_write_in_between(brief: Any, say: Any) -> None:
    """R37."""
    sizes: list[int] = []

    class Telling(MemoryEngine):
        def delete(self, session: str, seqs: Iterable[int], content_only: bool = False) -> None:
            named = list(seqs)
            sizes.append(len(named))
            super().delete(session, named, content_only)

    session = Store(Telling()).session("agent", SMALL.with_(ceiling=10_000_000, ceiling_items=10_000), brief)
    session.append([{"role": "assistant" if n % 2 else "user", "content": f"say {n}"} for n in range(1_100)])
    session.compact(lambda request: "Many small things were said.")
    session.prune()
    assert sum(sizes) > 1_000 and max(sizes) == CHUNK == 500


@pytest.mark.parametrize("verb", ["prune", "purge"])
def test_what_somebody_else_finished_meanwhile_is_not_finished_again(verb: str, fill: Any, brief: Any) -> None:
    """R54: two who go on with one removal write one end."""
    engine = MemoryEngine()
    session = Store(engine).session("agent", SMALL, brief)
    fill(session, 16)
    session.compact(brief)
    other, delete, raced = Store(engine).session("agent", SMALL, brief), engine.delete, []

    def race(*given: Any, **more: Any) -> None:
        delete(*given, **more)
        if not raced:
            raced.append(True)
            other.finish_removal()

    engine.delete = race  # type: ignore[method-assign]
    session.prune() if verb == "prune" else session.purge(["t1"])
    assert raced and kinds(session).count(f"{verb}_begun") == kinds(session).count(f"{verb}_finished") == 1
    assert session.verify().clean


# --- purge ---------------------------------------------------------------------------------------------------------------


def test_nothing_is_erased_before_the_state_behind_it_is_there(fill: Any, say: Any, brief: Any) -> None:
    """R54: an engine that acknowledges a state and has it not is found out while everything can still be read."""

    class Forgetting(MemoryEngine):
        forget = False

        def put_state(self, session: str, seq: int, data: bytes) -> None:
            if not self.forget:
                super().put_state(session, seq, data)

    engine = Forgetting()
    session = Store(engine).session("agent", SMALL, brief)
    fill(session, 6)
    session.append(say.user(9, f"the password is {SECRET}"), id="secret")
    fill(session, 6, 6)
    engine.forget = True
    with pytest.raises(Unavailable, match="has it not"):
        session.purge(["secret"])
    assert holding(engine, "agent") == [7]
    engine.forget = False
    assert session.finish_removal() and holding(engine, "agent") == []


def test_a_fork_forgets_what_it_only_heard_of(session: Session, fill: Any, say: Any) -> None:
    """R54: an effect that the parent did behind the place of the fork stands in the fork's ledger with its arguments."""
    fill(session, 4)
    session.append([say.call("c1", tool="login", args={"password": SECRET})], id=["call"])
    with session.effect("login", {"password": SECRET}, call="c1") as effect:
        effect.settle(f"welcome, {SECRET}")
    session.append([say.result("c1")])
    session.fork("child", at=4)
    assert holding(session.engine, "child")
    session.purge(["call"])
    assert holding(session.engine, "agent") == holding(session.engine, "child") == []
    assert session.sibling("child").verify().clean
