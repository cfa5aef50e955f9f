"""A generation explained: why it was made, what it read and covers, what stays verbatim, what is carried exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import lineal
from lineal import view
from lineal.session import Session
from lineal.view import generations

SMALL = lineal.Policy(trigger=900, target=300, floor_turns=2, summary_max_tokens=120)


@pytest.fixture
def session() -> Iterator[Session]:
    with lineal.connect("memory:") as store:
        yield store.session("s", policy=SMALL, summarizer=lambda request: f"Goal: the harbour. {len(request.turns)} turns, pier 4471.")


def talk(session: Session, rounds: int, start: int = 0) -> None:
    for n in range(start, start + rounds):
        session.append({"role": "user", "content": f"question {n} on pier 44{n}1 " + "about the tide " * 9}, id=f"u{n}")
        session.append({"role": "assistant", "content": f"answer {n} " + "low water at nine " * 9}, id=f"a{n}")


def explained(session: Session, generation: int) -> view.Generation | None:
    entries = [*session.log.entries(kinds=generations.KINDS)]
    first = generations.opened_at(generation, entries)
    return view.explained(generation, entries, session.log.at(first - 1) if first else None)


def found(session: Session, generation: int) -> view.Generation:
    made = explained(session, generation)
    assert made is not None and made.generation == generation
    return made


def test_a_summary_tells_what_it_was_made_of_and_what_stays(session: Session) -> None:
    talk(session, 8)
    before = session.status()
    done = session.maybe_compact()
    assert isinstance(done, lineal.Compacted)
    made = found(session, 1)
    assert (made.state, made.how, made.handle, made.summary) == ("committed", "summary", "g1", session.view().summaries[0].text)
    assert made.begun_at == before.head + 1 and made.ended_at == done.committed_at
    assert made.why == f"the view held {before.tokens:,} tokens (trigger 900)" and (made.view_tokens, made.trigger) == (before.tokens, 900)
    assert made.read == done.covered and made.kept == done.kept and made.turns == len(done.covered) == made.read_count
    assert made.kept_count == len(done.kept) and made.ranges == session.view().summaries[0].ranges
    inside = {one.value: one.in_summary for one in made.carried if one.kind == "number"}
    assert inside.get("4471") in (True, None) and not inside["4401"] and made.carried_count >= len(made.carried) > 0


def test_the_next_summary_reads_the_one_before(session: Session) -> None:
    talk(session, 8)
    session.maybe_compact()
    talk(session, 8, 8)
    session.maybe_compact()
    first, second = found(session, 1), found(session, 2)
    assert "g1" in second.read and second.turns > first.turns and second.ranges[0][0] == first.ranges[0][0]


def test_one_below_the_trigger_was_asked_for(session: Session) -> None:
    talk(session, 3)
    assert isinstance(session.compact(), lineal.Compacted)
    assert found(session, 1).why.startswith("asked for: the view held ")


def test_above_the_ceiling_of_items_it_says_so(session: Session) -> None:
    session.policy = SMALL.with_(trigger=9_000, ceiling_items=10, on_refusal="halt")
    talk(session, 8)
    assert isinstance(session.maybe_compact(), lineal.Compacted)
    assert found(session, 1).why == "the view held 16 items (ceiling_items 10)"


def test_a_spill_needed_no_summarizer(session: Session) -> None:
    talk(session, 3)
    handle = session.spill(["u0", "a0"])
    made = found(session, 1)
    assert (made.how, made.handle, made.turns, made.read) == ("spill", handle, 2, ("u0", "a0"))
    assert "without a summarizer" in made.why and made.begun_at == 0 and made.trigger is None and made.carried == ()


def test_a_large_block_that_is_shown_as_a_stub_is_named(session: Session) -> None:
    session.policy = SMALL.with_(ceiling=1_200)
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    session.append([{"role": "user", "content": "read the chart"}, {"role": "assistant", "tool_calls": [call]}])
    session.append({"role": "tool", "tool_call_id": "c1", "content": "depth nine, " * 3_000}, id="chart")
    made = found(session, session.status().generation)
    assert (made.how, made.stubs, made.handle, made.turns) == ("stubs", ("chart",), "", 0)
    assert "without a summarizer" in made.why and made.kept_count == 3


def test_one_that_did_not_come_about_says_why(session: Session) -> None:
    talk(session, 8)
    plan = session.plan_compaction()
    flying = found(session, 1)
    assert (flying.state, flying.ended_at, flying.turns) == ("in_flight", 0, 0) and flying.read == plan.covered
    session.abort_compaction(plan, "the summarizer was asleep")
    made = found(session, 1)
    assert (
        made.state == "aborted" and made.why.endswith("(trigger 900); aborted: the summarizer was asleep") and made.ended_at > made.begun_at
    )


def test_what_a_prune_took_of_its_beginning_is_not_made_up(session: Session) -> None:
    talk(session, 8)
    session.maybe_compact()
    talk(session, 1, 8)
    session.prune()
    entries = [*session.log.entries(kinds=generations.KINDS)]
    made = view.explained(1, entries, None)
    assert made is not None and made.how == "summary" and made.begun_at == 0 and made.why.endswith("is not retained")


def test_lists_are_bounded_and_counted(session: Session) -> None:
    session.policy = lineal.Policy(trigger=50_000, floor_turns=2)
    talk(session, 40)
    session.compact()
    made = found(session, 1)
    assert made.read_count > generations.LISTED == len(made.read) and made.turns == made.read_count


def test_there_may_be_none(session: Session) -> None:
    entries: list[Any] = []
    assert explained(session, 1) is None and generations.newest(entries) == 0 == generations.opened_at(1, entries)
