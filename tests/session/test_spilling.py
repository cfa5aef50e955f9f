"""Putting aside, byte-exact: the ceiling, explicit spills, stubs, evictions by a host."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lineal import codec
from lineal.engines.memory import MemoryEngine
from lineal.entries import CompactionCommitted, Turn
from lineal.errors import Corrupt, PolicyError, Refused, Unavailable
from lineal.policy import Policy
from lineal.session import Session
from lineal.session.outcomes import Compacted
from lineal.store import Store
from lineal.testing.faults import FaultyEngine

ODD = "\ud800 \udc00 \ud83d\ude00 😀 \0 \\u0000 \r\n {}"


def commits(session: Session) -> list[CompactionCommitted]:
    return [e for _, e in session.log.entries() if isinstance(e, CompactionCommitted)]


def same_bytes(found: list[Turn], said: list[Any]) -> bool:
    return [codec.to_json(t.message) for t in found] == [codec.to_json(m) for m in said]


# --- explicit --------------------------------------------------------------------------------------------------------------


def test_a_spill_comes_back_byte_for_byte(house: Any, session: Session, say: Any) -> None:
    """R53, R7: whatever is in it, after reopening, in a fork, and after a summary took its place."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 300}}
    said = [
        {"role": "user", "content": [{"type": "text", "text": ODD}, image], "extra": {ODD: [2**80, None, 1.5]}},
        say.call("c1", args={"text": ODD}),
        say.result("c1", ODD),
    ]
    session.append(said, id=["a", "b", "c"])
    session.append(say.dialogue(8))
    handle = session.spill(["a", "b"])
    assert handle == "g1" and same_bytes(session.expand(handle), said)
    assert session.messages()[0]["content"].startswith("[lineal spill g1: 3 turns, seq 1-3, put aside byte-exact;")
    assert same_bytes(house.reopen(session).expand(handle), said)
    again = house.session()
    assert same_bytes(again.fork("child").expand(handle), said)
    assert isinstance(again.compact(), Compacted)
    assert same_bytes(again.expand(handle), said) and same_bytes(again.expand("g2")[:3], said)
    assert again.verify().clean


def test_a_spill_is_a_generation_with_its_own_record(session: Session, fill: Any) -> None:
    """R10: the same commit, the same proof, no barrier for recovery; a rollback finds what was put aside."""
    turns = fill(session, 12)
    session.spill([t.id for t in turns[:4]])
    (entry,) = commits(session)
    assert not entry.lossy and entry.covered == ("t0", "t1", "t2", "t3") and entry.pre_digest != entry.post_digest
    assert session.status().generation == 1 and session.log.lineage.committed_at == 0
    session.rollback(6)
    assert [t.id for t in session.view().turns] == [f"t{n}" for n in range(6)]
    assert session.expand("g1") == turns[:4]


def test_a_spill_takes_whole_units(session: Session, say: Any) -> None:
    """R11."""
    session.append([say.user(1), say.call("c1", "c2"), say.result("c2"), say.result("c1")], id=["u", "call", "r2", "r1"])
    session.append(say.dialogue(6))
    handle = session.spill(["r2"])
    assert [t.id for t in session.expand(handle)] == ["call", "r2", "r1"]
    assert [t.id for t in session.view().turns][0] == "u"


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        (["open"], "must_stay"),
        (["newest"], "must_stay"),
        (["pinned"], "must_stay"),
        (["nobody"], "not_in_view"),
        ([], "not_in_view"),
        (["t0", "last"], "two_sides"),
    ],
    ids=str,
)
def test_what_must_stay_cannot_be_put_aside(session: Session, say: Any, fill: Any, ids: list[str], reason: str) -> None:
    """R11, R12, R18: typed, with nothing written."""
    fill(session, 4)
    session.append([say.answer(90), say.call("c9"), say.user(91), say.answer(92)], id=["pinned", "open", "newest", "last"])
    session.pin("pinned")
    before = session.status()
    with pytest.raises(Refused) as refusal:
        session.spill(ids)
    assert refusal.value.reason == reason and refusal.value.remedy
    assert session.status() == before


def test_a_handle_is_given_only_after_its_turns_were_read_back(fill: Any, brief: Any) -> None:
    """R53: a store that lost them says so instead."""

    class Forgetful(MemoryEngine):
        def append(self, session: str, expected_seq: int, rows: Any) -> None:
            super().append(session, expected_seq, rows)
            if any(row.kind == "compaction_committed" for row in rows):
                self.delete(session, [2])

    session = Store(Forgetful()).session("a", summarizer=brief)
    fill(session, 8)
    with pytest.raises((Corrupt, Refused)):
        session.spill(["t0", "t1", "t2"])


def test_a_spill_that_fails_puts_nothing_aside(fill: Any, brief: Any) -> None:
    """R53, R30."""
    engine = FaultyEngine(MemoryEngine())
    session = Store(engine).session("a", summarizer=brief)
    fill(session, 8)
    engine.fail_at(len(engine.calls) + 1)
    with pytest.raises(Unavailable):
        session.spill(["t0", "t1"])
    assert len(Store(engine).session("a", summarizer=brief).messages()) == 8


# --- the ceiling -----------------------------------------------------------------------------------------------------------


def test_an_append_above_the_ceiling_puts_the_oldest_units_aside(session: Session, say: Any) -> None:
    """R10, R26, R29: without any summarizer; the view stays under the ceiling and nothing is lost."""
    said = []
    for n in range(120):
        said.append(session.append(say.user(n), id=f"u{n}"))
        assert session.status().tokens <= session.policy.ceiling
    assert session.turns() == said
    view = session.view()
    assert [n.kind for n in view.summaries] == ["spill"], "one stub, not a row of them"
    assert session.expand(view.handles[0]) + list(view.turns) == said
    assert view.tokens == session.status().tokens


def test_between_engage_and_release_there_is_room(session: Session, say: Any) -> None:
    """R28: not one generation for each append."""
    for n in range(120):
        session.append(say.user(n))
    assert 1 <= session.status().generation <= 12


def test_bytes_and_items_have_ceilings_of_their_own(house: Any, say: Any) -> None:
    """R26."""
    session = house.session("bytes", Policy(trigger=50_000, target=500, floor_turns=2, ceiling_bytes=8_000, stub_bytes=8_000))
    for n in range(60):
        session.append(say.user(n))
        assert session.status().bytes <= 8_000
    session = house.session("items", Policy(trigger=50_000, target=500, floor_turns=2, ceiling_items=20))
    for n in range(60):
        session.append(say.user(n))
        assert session.status().items <= 20
    assert len(session.turns()) == 60


def test_media_count_by_what_is_sent_not_by_nothing(house: Any) -> None:
    """R26, R25: images fill the bytes long before the tokens; they are put aside and come back."""
    session = house.session("media", Policy(trigger=50_000, target=500, floor_turns=2, ceiling_bytes=100_000, stub_bytes=50_000))
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 30_000}}
    for n in range(10):
        session.append({"role": "user", "content": [{"type": "text", "text": f"picture {n}"}, image]}, id=f"p{n}")
        assert session.status().bytes <= 100_000
    assert all(session.expand(f"p{n}")[0].message["content"][1] == image for n in range(10))


def test_with_halt_nothing_is_put_aside(house: Any, say: Any) -> None:
    """R29: spill or refuse, never drop."""
    session = house.session(policy=house.policy.with_(on_refusal="halt"))
    for n in range(80):
        session.append(say.user(n))
    assert session.status().generation == 0 and session.status().tokens > session.policy.ceiling
    assert len(session.messages()) == 80


def test_a_huge_result_in_the_floor_is_shown_as_a_stub(house: Any, session: Session, fill: Any, say: Any) -> None:
    """R26: no model call; the floor's promise is kept by a byte-exact handle."""
    fill(session, 3)
    session.append([say.user(50), say.call("c1")])
    huge = session.append(say.result("c1", "row of a table; " * 2_000), id="huge")
    assert session.status().tokens <= session.policy.ceiling
    shown = session.messages()[-1]
    assert shown["tool_call_id"] == "c1" and 'expand("t:huge")' in shown["content"]
    outcome = commits(session)[-1]
    assert not outcome.lossy and outcome.nodes == () and [s.turn for s in outcome.stubs] == ["huge"]
    assert session.expand("t:huge") == [huge] and session.view().turns[-1] == huge
    again = house.reopen(session)
    assert again.messages()[-1] == shown and again.status().tokens == session.log.lineage.view_tokens
    assert again.verify().clean


def test_a_stub_is_made_by_a_compaction_too(session: Session, say: Any, brief: Any) -> None:
    """R26, R8: what is in `spilled` is neither covered nor kept word for word."""
    session.policy = session.policy.with_(on_refusal="halt", floor_turns=3)
    session.append(say.dialogue(9))
    session.append([say.user(50), say.call("c1")])
    session.append(say.result("c1", "row of a table; " * 2_000), id="huge")
    outcome = session.compact(brief)
    assert isinstance(outcome, Compacted) and outcome.spilled == ("huge",)
    assert not {"huge"} & ({*outcome.covered} | {*outcome.kept})
    assert session.status().tokens <= session.policy.ceiling
    assert len(session.expand("huge")[0].message["content"]) == 32_000


def test_what_a_person_said_and_what_is_pinned_stays_word_for_word(session: Session, say: Any, brief: Any) -> None:
    """R18: the refusal names the numbers instead."""
    session.policy = session.policy.with_(on_refusal="halt", floor_turns=2)
    session.append(say.dialogue(9))
    session.append(say.user(50, "every word of this matters; " * 400), id="words")
    outcome = session.compact(brief)
    assert isinstance(outcome, Refused) and outcome.reason == "floor_over_budget"
    assert "every word" in session.messages()[-1]["content"]


# --- evictions by a host -----------------------------------------------------------------------------------------------------


def test_what_a_host_dropped_is_shown_no_more_and_still_in_the_log(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """Record 002: dropped with nothing in its place, and remembered."""
    turns = fill(session, 12)
    before = session.status().tokens
    seq = session.note_eviction(["t0", "t1"], by="context trimmer")
    assert seq == 13 and len(session.messages()) == 10
    assert session.status().tokens == before - turns[0].tokens - turns[1].tokens
    again = house.reopen(session)
    assert again.turns() == turns and len(again.messages()) == 10
    outcome = again.compact(brief)
    assert isinstance(outcome, Compacted) and {"t0", "t1"} <= set(outcome.covered), "outside the floor it is covered from the log"


def test_an_eviction_of_nothing_known_is_refused(session: Session, fill: Any) -> None:
    fill(session, 4)
    for ids in ([], ["nobody"], ["t0", "nobody"]):
        with pytest.raises(Refused) as refusal:
            session.note_eviction(ids, by="trimmer")
        assert refusal.value.reason == "not_in_view"
    with pytest.raises(PolicyError):
        session.note_eviction(["t0"], by=None)  # type: ignore[arg-type]
    assert session.status().head == 4


# --- one counter -------------------------------------------------------------------------------------------------------------


def test_a_reported_usage_only_tightens_and_is_the_same_after_reopening(house: Any, session: Session, fill: Any, say: Any) -> None:
    """R25: equal from every entry point; what the provider counted moves the trigger, never the other way."""
    fill(session, 20)
    tokens = session.status().tokens
    assert session.record_usage(input_tokens=tokens + 400, output_tokens=7).tokens == tokens + 400
    assert session.record_usage(input_tokens=10).tokens == tokens + 400
    turn = session.append(say.user(50))
    assert session.status().tokens == tokens + 400 + turn.tokens == session.view().tokens
    assert house.reopen(session).status().tokens == tokens + 400 + turn.tokens
    again = house.session()
    assert again.fork("child").status().tokens == again.status().tokens
    again.rollback(10)
    assert again.status().tokens >= 400 + 10 * 50, "a rollback does not unlearn it"
    for bad in (-1, -100):
        with pytest.raises(PolicyError):
            again.record_usage(input_tokens=bad)


def test_an_append_adds_just_its_own_size_whatever_was_covered(session: Session, fill: Any, say: Any, brief: Any) -> None:
    """R25: superseded and covered records never count again."""
    for round in range(4):
        fill(session, 12, 12 * round)
        session.compact(brief)
        before = session.status().tokens
        turn = session.append(say.answer(900 + round))
        assert session.status().tokens == before + turn.tokens
        measured = sum(len(json.dumps(m)) for m in session.messages())
        assert measured < 6_000


def test_spills_of_several_calls_have_handles_of_their_own(session: Session, fill: Any) -> None:
    """R53: unique per session, also across a rollback."""
    turns = fill(session, 12)
    first = session.spill(["t0"])
    second = session.spill(["t2"])
    session.rollback(12)
    third = session.spill(["t4"])
    assert len({first, second, third}) == 3
    assert [session.expand(h) for h in (first, second, third)] == [[turns[0]], [turns[2]], [turns[4]]]
