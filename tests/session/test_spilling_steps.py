"""What each step of putting aside is for: a story for every step that could be left out without anything else noticing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lineal.engines.memory import MemoryEngine
from lineal.errors import Corrupt
from lineal.holder import release
from lineal.policy import Policy
from lineal.session import Session
from lineal.store import Store

GOOD = "The first parts of the plan were read one by one; nothing in them stood out."
SMALL = Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4, summary_max_tokens=200)


def test_the_ceiling_waits_for_a_compaction_that_is_under_way(house: Any, session: Session, fill: Any) -> None:
    """R33: what it is covering is not put aside under its hands."""
    fill(session, 16)
    plan = session.plan_compaction()
    fill(session, 28, 16)
    assert session.status().tokens > session.policy.ceiling and session.status().in_flight == 1
    assert session.commit_compaction(plan, GOOD).generation == 1


def test_a_spill_that_makes_nothing_smaller_is_not_made(session: Session, say: Any) -> None:
    """R22: a stub in place of a word would only add to what is too large."""
    long = {"role": "user", "content": "please read this: " + "word " * 3_000}
    said = [{"role": "assistant", "content": "ok"}, *say.dialogue(2), say.answer(3), long]
    for message in said:
        session.append(message)
    assert session.status().tokens > session.policy.ceiling
    assert session.status().generation == 0 and session.messages() == said


class Story:
    """A memory engine in which something happens right behind the commit of a generation."""

    def __init__(self, then: Any, brief: Any):
        self.engine, story = MemoryEngine(), self
        append = self.engine.append
        self.then = then

        def appended(name: str, expected_seq: int, rows: Any) -> None:
            append(name, expected_seq, rows)
            if any(row.kind == "compaction_committed" for row in rows) and story.then:
                happens, story.then = story.then, None
                happens(story)

        self.engine.append = appended  # type: ignore[method-assign]
        self.session = Store(self.engine).session("agent", SMALL, brief)

    def another(self) -> Session:
        return Store(self.engine).session("agent", SMALL, lambda request: GOOD)

    def damage(self) -> None:
        rows = self.engine._logs["agent"].rows
        rows[1] = replace(rows[1], body=rows[1].body.replace(b"part 0", b"part 9"))


def test_what_the_ceiling_put_aside_is_read_back_before_the_append_returns(fill: Any, brief: Any) -> None:
    """R53."""
    story = Story(Story.damage, brief)
    with pytest.raises(Corrupt, match="altered"):
        fill(story.session, 60)


def test_what_others_purged_meanwhile_is_not_missed(fill: Any, brief: Any) -> None:
    """R53, R54: it is declared gone."""
    story = Story(lambda told: told.another().purge(["t0"]), brief)
    fill(story.session, 60)
    assert story.then is None and story.session.status().generation > 0
    assert "t0" not in [t.id for t in story.session.turns()]


def test_a_compaction_of_a_dead_holder_does_not_hold_the_ceiling_up(house: Any, session: Session, fill: Any) -> None:
    """R10, R33: nobody will ever commit it; the view is put aside at its ceiling all the same."""
    fill(session, 16)
    session.plan_compaction()
    release(session.holder)
    again = house.session()
    fill(again, 28, 16)
    assert again.status().tokens <= again.policy.ceiling and again.status().generation > 0
    assert again.verify().clean
