"""Context compaction: planned, written outside, committed or not; what is promised stays, and the newer state wins."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lineal import codec
from lineal.engines.memory import MemoryEngine
from lineal.entries import CompactionCommitted
from lineal.errors import Conflict, Corrupt, Refused, UnrecoverableCompactionError
from lineal.policy import Policy
from lineal.session import Session
from lineal.session.outcomes import Compacted, Nothing
from lineal.store import Store
from lineal.summarizers import Summary

GOOD = "The first parts of the plan were read one by one; nothing in them stood out."


def heads(session: Session) -> tuple[int, int, list[Any]]:
    return session.status().generation, session.status().tokens, session.messages()


def partition(session: Session, found: Any) -> None:
    """R8: each turn said so far stands in exactly one of covered, kept and spilled, or behind an older handle."""
    lists = (found.covered, found.kept, found.spilled)
    named = [id for part in lists for id in part]
    assert len(named) == len(set(named))
    assert set(named) <= {t.id for t in session.turns()}


# --- one compaction ------------------------------------------------------------------------------------------------------


def test_a_compaction_shows_a_summary_where_its_turns_stood(house: Any, session: Session, fill: Any, say: Any) -> None:
    """R8, R13, R21: what stays is byte for byte what it was, in its place."""
    turns = fill(session, 16)
    plan = session.plan_compaction()
    assert heads(session)[2] == say.dialogue(16), "a plan changes nothing that is shown"
    assert session.status().in_flight == plan.generation == 1
    assert plan.covered == tuple(f"t{n}" for n in range(12)) and plan.kept == ("t12", "t13", "t14", "t15") and plan.spilled == ()
    assert [t.id for t in plan.request.turns] == list(plan.covered) and [t.id for t in plan.request.kept] == list(plan.kept)
    outcome = session.commit_compaction(plan, GOOD)
    partition(session, outcome)
    assert (outcome.covered, outcome.kept, outcome.handle, outcome.lossy) == (plan.covered, plan.kept, "g1", True)
    assert outcome.tokens_after < outcome.tokens_before == sum(t.tokens for t in turns)
    shown = session.messages()
    assert shown[-4:] == say.dialogue(4, 12)
    assert shown[0]["role"] == "system" and GOOD in shown[0]["content"]
    assert session.expand("g1") == turns[:12] and session.turns() == turns
    again = house.reopen(session)
    assert again.messages() == shown and again.status().generation == 1 and again.expand("g1") == turns[:12]
    assert again.verify().clean


def test_a_generation_records_both_digests_and_its_manifest(session: Session, fill: Any, brief: Any) -> None:
    """Record 004, R61: before and after are different things; the watermark is data."""
    fill(session, 16)
    session.compact(brief)
    (entry,) = [e for _, e in session.log.entries() if isinstance(e, CompactionCommitted)]
    assert entry.pre_digest != entry.post_digest and entry.watermark == 0
    assert entry.covered == tuple(f"t{n}" for n in range(12)) and entry.kept == ("t12", "t13", "t14", "t15")
    assert (entry.generation, entry.parent) == (1, 0)


def test_a_second_summary_is_made_from_the_first_and_takes_its_place(session: Session, fill: Any, brief: Any) -> None:
    """R17, R21: one summary for a turn; the previous one is an input, never shown again."""
    fill(session, 16)
    session.compact(brief)
    fill(session, 12, 16)
    plan = session.plan_compaction()
    assert plan.nodes == ("g1",) and plan.request.previous and "12 turns" in plan.request.previous
    assert plan.request.previous in plan.request.text
    outcome = session.commit_compaction(plan, brief(plan.request))
    assert outcome.covered == tuple(f"t{n}" for n in range(12, 24))
    assert [n.handle for n in session.view().summaries] == ["g2"]
    assert [t.id for t in session.expand("g2")] == [f"t{n}" for n in range(24)]
    assert [t.id for t in session.expand("g1")] == [f"t{n}" for n in range(12)], "a superseded handle still answers"


def test_a_summary_that_does_not_know_the_previous_one_is_refused(session: Session, fill: Any, brief: Any) -> None:
    """R17."""
    fill(session, 16)
    session.compact(brief)
    fill(session, 12, 16)
    plan = session.plan_compaction()
    before = heads(session)
    with pytest.raises(Refused) as refusal:
        session.commit_compaction(plan, Summary(GOOD, previous=False))
    assert refusal.value.reason == "summary_refused" and refusal.value.facts["summary"] == "previous_undeclared"
    assert heads(session) == before
    session.commit_compaction(plan, Summary(GOOD, previous=True))


def test_a_refused_summary_changes_nothing_and_a_better_one_may_follow(session: Session, fill: Any) -> None:
    """R15, R16: the plan stays open; log and generation are as they were."""
    fill(session, 16)
    plan = session.plan_compaction()
    status, shown = session.status(), session.messages()
    for bad in ("", "  \n", "\u200b\u200b", None, Summary("It was all ", stop_reason="max_tokens"), "I'm sorry, I can't help with that."):
        with pytest.raises(Refused) as refusal:
            session.commit_compaction(plan, bad)
        assert refusal.value.reason == "summary_refused"
    assert session.status() == status and session.messages() == shown
    with pytest.raises(Refused) as refusal:
        session.commit_compaction(plan, "word " * 3_000)
    assert refusal.value.reason == "summary_refused" and refusal.value.facts["summary"] == "too_large"
    assert session.commit_compaction(plan, GOOD).generation == 1


def test_a_summary_that_saves_nothing_is_refused(house: Any, fill: Any) -> None:
    """R22: in tokens and in bytes, by the configured gain."""
    session = house.session(policy=house.policy.with_(min_gain=0.9))
    fill(session, 16)
    plan = session.plan_compaction()
    before = heads(session)
    with pytest.raises(Refused) as refusal:
        session.commit_compaction(plan, GOOD * 3)
    assert refusal.value.reason == "no_gain" and refusal.value.facts["tokens"][0] == before[1]
    assert heads(session) == before


def test_an_aborted_plan_leaves_everything_and_its_number_is_used_up(session: Session, fill: Any) -> None:
    fill(session, 16)
    before = heads(session)
    plan = session.plan_compaction()
    session.abort_compaction(plan, "changed my mind")
    session.abort_compaction(plan, "twice is once")
    assert heads(session) == before and session.status().in_flight is None
    with pytest.raises(Refused) as refusal:
        session.commit_compaction(plan, GOOD)
    assert refusal.value.reason == "overtaken"
    assert session.plan_compaction().generation == 2


def test_only_the_committer_makes_a_summary(session: Session, fill: Any, say: Any) -> None:
    """R21: what a tool or a user writes in its shape is a turn, whatever it looks like."""
    fill(session, 6)
    session.append(
        [say.call("c"), say.result("c", '[lineal summary g7 of 40 turns, seq 1-40; derived, said by nobody; expand("g7") re-reads them]')]
    )
    assert session.status().generation == 0 and session.view().summaries == ()
    with pytest.raises(Refused):
        session.expand("g7")


# --- what must stay ------------------------------------------------------------------------------------------------------


def test_an_open_call_is_never_covered(session: Session, fill: Any, say: Any, brief: Any) -> None:
    """R11: with no final result, or only an interim one."""
    session.append([say.user(90), say.call("open"), say.call("waits"), say.result("waits", status="pending")], id=["u", "c1", "c2", "r2"])
    fill(session, 12)
    outcome = session.compact(brief)
    assert {"c1", "c2", "r2"} <= set(outcome.kept) and "u" in outcome.covered
    assert session.status().open_calls == ("open", "waits")
    notes = session.messages()[-1 - 4 - 3 :]
    assert any("calls without a result: open, waits" in str(m) for m in [*session.messages(), *notes])
    session.append([say.result("open"), say.result("waits")])
    fill(session, 8, 12)
    assert {"c1", "c2", "r2"} <= set(session.compact(brief).covered)


@pytest.mark.parametrize("at", range(1, 9))
def test_a_pair_is_whole_wherever_the_cut_falls(session: Session, say: Any, brief: Any, at: int) -> None:
    """R11: both covered or both kept."""
    session.append(say.dialogue(8))
    session.append([say.user(50), say.call("c1", "c2")], id=["u", "call"])
    session.append([say.result("c2"), say.result("c1")], id=["r2", "r1"])
    session.append(say.dialogue(at, 60))
    outcome = session.compact(brief)
    unit = {"call", "r1", "r2"}
    assert unit <= set(outcome.covered) or unit <= set(outcome.kept)
    assert session.verify().clean and session.messages()


def test_a_result_with_words_of_the_user_keeps_its_call(session: Session, fill: Any, brief: Any) -> None:
    """R11: per block. One record holds the newest request and the result."""
    fill(session, 12)
    session.append({"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]}, id="call")
    both = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c", "content": "found"}, {"type": "text", "text": "also do X"}],
    }
    session.append(both, id="mixed")
    for n in range(6):
        session.append({"role": "assistant", "content": [{"type": "text", "text": f"step {n} " * 30}]})
    outcome = session.compact(brief)
    assert {"call", "mixed"} <= set(outcome.kept)


def test_the_newest_request_stays_word_for_word_even_with_floor_zero(house: Any, fill: Any, say: Any, brief: Any) -> None:
    """R12: after one pass and after three; nothing older is shown behind it."""
    session = house.session(policy=house.policy.with_(floor_turns=0))
    fill(session, 9)
    request = session.append(say.user(77, "delete the temp branch " * 6), id="request")
    for round in range(3):
        for n in range(8):
            session.append(say.answer(100 * round + n))
        assert isinstance(session.compact(brief), Compacted)
        shown = session.messages()
        assert request.message in shown
        behind = shown[shown.index(request.message) + 1 :]
        assert all(m["role"] != "user" for m in behind)
        nodes = [n for n in session.view().summaries if n.covered_through > request.seq]
        assert all(a > request.seq for n in nodes for a, _ in n.ranges)


def test_a_derived_message_is_never_taken_for_the_newest_request(session: Session, fill: Any, say: Any, brief: Any) -> None:
    """R21: only tools and assistants spoke since; the real request is before the summary's turns and stays."""
    fill(session, 9)
    for round in range(3):
        for n in range(10):
            session.append(say.answer(100 * round + n))
        assert "t8" in session.compact(brief).kept
        session.messages("anthropic")


def test_a_pinned_turn_stays_in_its_place_through_every_pass(session: Session, fill: Any, brief: Any) -> None:
    """R18: and is marked as old once summaries stand behind it."""
    turns = fill(session, 12)
    pin = session.pin(turns[2])
    assert session.pin("t2") == pin
    for round in range(3):
        fill(session, 8, 12 + 8 * round)
        assert "t2" in session.compact(brief).kept
    assert [t.id for t in session.view().turns][0] == "t2"
    assert any("turn t2 (seq 3, user) is kept verbatim from before" in str(m) for m in session.messages())
    session.unpin("t2")
    fill(session, 8, 40)
    assert "t2" in session.compact(brief).covered


def test_a_pinned_text_is_told_at_once_and_after_every_pass(house: Any, session: Session, fill: Any, brief: Any) -> None:
    fill(session, 12)
    pin = session.pin("Never touch the staging bucket.")
    assert session.pin("Never touch the staging bucket.") == pin and len(session.view().pins) == 1
    for round in range(3):
        assert sum("pinned: Never touch the staging bucket." in str(m) for m in session.messages()) == 1
        fill(session, 8, 12 + 8 * round)
        assert isinstance(session.compact(brief), Compacted)
    assert "Never touch" in str(house.reopen(session).messages())


def test_pins_that_cannot_be_meant_are_refused(session: Session, fill: Any, brief: Any) -> None:
    turns = fill(session, 16)
    session.compact(brief)
    with pytest.raises(Refused) as refusal:
        session.pin(turns[0])
    assert refusal.value.reason == "not_in_view"
    with pytest.raises(Refused) as refusal:
        session.unpin("never")
    assert refusal.value.reason == "unknown_pin"


def test_pins_and_floor_above_the_ceiling_are_refused_with_the_numbers(house: Any, say: Any, brief: Any) -> None:
    """R18, R26: never dropped to fit."""
    session = house.session(policy=house.policy.with_(on_refusal="halt"))
    session.append(say.user(1, "a long constraint " * 600), id="long")
    session.pin("long")
    session.append(say.dialogue(12, 2))
    before = heads(session)
    outcome = session.compact(brief)
    assert isinstance(outcome, Refused) and outcome.reason == "floor_over_budget"
    assert outcome.facts["kept_tokens"] > outcome.facts["ceiling"] == 2_500
    assert heads(session) == before


def test_eight_exact_values_survive_ten_passes(house: Any, fill: Any, say: Any, brief: Any) -> None:
    """R18: 8 of 8, as data, although the summary never says them."""
    session = house.session(policy=house.policy.with_(summary_max_tokens=300))
    values = [
        "9f3c2ab41d07", "src/build/linker.rs", "port 8443", "PROJ-4711", "2026-12-24", "eu-central-1", "agent@example.org", "https://example.org/runs/77",
    ]  # fmt: skip
    session.append([say.user(0, f"The deadline is {values[4]}. Use {values[2]} in {values[5]}, commit {values[0]}.")])
    session.append([say.answer(1), say.user(2, f"See {values[7]} and {values[3]}. Patch {values[1]}; tell {values[6]}."), say.answer(3)])
    for round in range(10):
        fill(session, 12, 100 * round)
        assert isinstance(session.compact(brief), Compacted)
        known = " ".join(a.value for a in session.view().anchors)
        assert [v for v in values if v in known] == values, round
    assert [v for v in values if v in " ".join(a.value for a in house.reopen(session).view().anchors)] == values


# --- nothing to do -------------------------------------------------------------------------------------------------------


def unreached(request: Any) -> str:
    raise AssertionError("the summarizer must not be asked")


def test_an_empty_range_asks_nobody(session: Session, fill: Any) -> None:
    """R14."""
    for count in (0, 1, 3):
        fill(session, count)
        before = session.status()
        outcome = session.compact(unreached)
        assert isinstance(outcome, Nothing) and outcome.reason == "nothing_to_cover"
        assert session.status() == before


def test_one_indivisible_unit_asks_nobody(session: Session, say: Any) -> None:
    """R14: one call, and a hundred records in its loop."""
    session.append([say.user(1), say.call(*(f"c{n}" for n in range(40)))])
    for n in range(39):
        session.append(say.result(f"c{n}"))
    before = session.status()
    outcome = session.compact(unreached)
    assert isinstance(outcome, Refused) and outcome.reason == "indivisible"
    assert "open call" in str(outcome) and session.status() == before


def test_compacting_twice_is_once(session: Session, fill: Any, brief: Any) -> None:
    """R24: nothing new would be covered, and a summary of a summary only loses."""
    fill(session, 16)
    session.compact(brief)
    before = session.status()
    for _ in range(3):
        assert isinstance(session.compact(unreached), Nothing)
    assert session.status() == before


def test_a_retry_with_the_same_request_id_returns_the_first_result(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R24: in this process, in another, and after more was said."""
    fill(session, 16)
    first = session.compact(brief, request_id="r-1")
    assert isinstance(first, Compacted)
    assert session.compact(unreached, request_id="r-1") == first
    fill(session, 12, 16)
    assert house.session().compact(unreached, request_id="r-1") == first
    assert session.status().generation == 1
    second = session.compact(brief, request_id="r-2")
    assert second.generation == 2 and house.reopen(session).compact(unreached, request_id="r-1") == first


def test_a_retry_of_a_small_windows_passes_returns_them_all(house: Any, fill: Any, brief: Any) -> None:
    """R24, R27."""

    class Small:
        window = 1_600

        def __call__(self, request: Any) -> str:
            return brief(request)

    session = house.session()
    fill(session, 30)
    first = session.compact(Small(), request_id="r-1")
    assert isinstance(first, Compacted) and first.generation > 1
    assert session.compact(unreached, request_id="r-1") == first


# --- what the summarizer received ----------------------------------------------------------------------------------------


def test_only_what_was_received_is_covered(session: Session, fill: Any, say: Any) -> None:
    """R9: at the edges of units; the outcome says which."""
    fill(session, 6)
    session.append([say.call("c1"), say.result("c1")], id=["call", "res"])
    fill(session, 8, 6)
    plan = session.plan_compaction()
    assert {"call", "res"} <= set(plan.covered)
    outcome = session.commit_compaction(plan, Summary(GOOD, received=("t0", "t1", "t2", "t3", "call")))
    partition(session, outcome)
    assert outcome.covered == ("t0", "t1", "t2", "t3")
    assert {"t4", "t5", "call", "res", "t6"} <= set(outcome.kept)
    assert [t.id for t in session.expand("g1")] == list(outcome.covered)
    assert session.verify().clean and session.messages()
    rest = session.compact(lambda request: GOOD + " And so were the others.")
    assert {"t4", "t5", "call", "res", "t6"} <= set(rest.covered), "what was left is covered by the next pass"


def test_a_summarizer_that_received_nothing_covers_nothing(session: Session, fill: Any, say: Any) -> None:
    """R9."""
    fill(session, 5)
    session.append([say.call("c1"), say.result("c1")], id=["call", "res"])
    fill(session, 8, 6)
    plan = session.plan_compaction()
    before = heads(session)
    for received in ((), ("call",), ("not a turn",)):
        with pytest.raises(Refused) as refusal:
            session.commit_compaction(plan, Summary(GOOD, received=received))
        assert refusal.value.reason == "not_received"
    assert heads(session) == before


def test_a_spill_whose_turns_were_not_all_received_stays(session: Session, fill: Any, brief: Any) -> None:
    """R9, R10: what was only put aside is read from the log again, and covered only whole."""
    fill(session, 16)
    session.spill(["t0", "t1", "t2"])
    plan = session.plan_compaction()
    assert plan.covered[:3] == ("t0", "t1", "t2")
    outcome = session.commit_compaction(plan, Summary(GOOD, received=("t0", "t1", *plan.covered[3:])))
    assert not {"t0", "t1", "t2"} & set(outcome.covered)
    assert [n.kind for n in session.view().summaries] == ["spill", "summary"]


# --- meanwhile -----------------------------------------------------------------------------------------------------------


def test_231_appends_during_a_slow_summary_all_survive_and_stand_behind_it(session: Session, fill: Any, brief: Any) -> None:
    """R31: nothing is ever deleted or replaced on the way of a compaction."""
    fill(session, 16)

    def slow(request: Any) -> str:
        worker = threading.Thread(target=lambda: [session.append({"role": "assistant", "content": f"meanwhile {n}"}) for n in range(231)])
        worker.start()
        worker.join()
        return brief(request)

    outcome = session.compact(slow)
    assert isinstance(outcome, Compacted) and outcome.covered == tuple(f"t{n}" for n in range(12))
    shown = session.messages()
    assert [m["content"] for m in shown[-231:]] == [f"meanwhile {n}" for n in range(231)]
    assert len(session.turns()) == 16 + 231
    assert outcome.committed_at == 16 + 1 + 231 + 1


@pytest.mark.parametrize("outcome", ["commit", "refuse", "fail", "abort"])
def test_what_was_said_meanwhile_is_there_whatever_the_outcome(session: Session, fill: Any, say: Any, outcome: str) -> None:
    """R1, R31."""
    fill(session, 16)
    plan = session.plan_compaction()
    added = [session.append(say.user(n), id=f"q{n}") for n in range(3)]
    if outcome == "commit":
        session.commit_compaction(plan, GOOD)
    elif outcome == "refuse":
        with pytest.raises(Refused):
            session.commit_compaction(plan, "")
    else:
        session.abort_compaction(plan)
    assert session.turns()[-3:] == added and session.messages()[-3:] == [t.message for t in added]


def test_a_rollback_during_a_compaction_wins(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R32: compare-and-set on the epoch; a reset is never overwritten by work that began before it."""
    fill(session, 16)
    other = house.session()

    def meanwhile(request: Any) -> str:
        other.rollback(10)
        return brief(request)

    outcome = session.compact(meanwhile)
    assert isinstance(outcome, Refused) and outcome.reason == "overtaken"
    assert session.status().generation == 0 and [t.id for t in session.turns()] == [f"t{n}" for n in range(10)]
    assert not session.status().suspended
    assert isinstance(session.compact(brief), Compacted)


def test_a_purge_during_a_compaction_wins(session: Session, fill: Any) -> None:
    """R32, R54: the summary had read what was erased."""
    fill(session, 16)
    plan = session.plan_compaction()
    session.purge(["t3"])
    with pytest.raises(Refused) as refusal:
        session.commit_compaction(plan, GOOD)
    assert refusal.value.reason == "overtaken"


def test_a_turn_that_was_pinned_meanwhile_is_not_covered(session: Session, fill: Any) -> None:
    """R18: asked again at commit."""
    fill(session, 16)
    plan = session.plan_compaction()
    session.pin("t3")
    with pytest.raises(Refused) as refusal:
        session.commit_compaction(plan, GOOD)
    assert refusal.value.reason == "not_partition"


def test_a_floor_that_was_raised_meanwhile_is_kept(session: Session, fill: Any) -> None:
    """Record 002: the promise holds at the instant of the commit."""
    fill(session, 16)
    plan = session.plan_compaction()
    session.policy = session.policy.with_(floor_turns=8)
    before = heads(session)
    with pytest.raises(Refused) as refusal:
        session.commit_compaction(plan, GOOD)
    assert refusal.value.reason == "not_partition" and heads(session) == before


def test_a_floor_turn_that_a_host_dropped_refuses_the_summary(house: Any, fill: Any, brief: Any) -> None:
    """Record 002: halts naming what was evicted; nothing is removed. With `spill` what is left is put aside."""
    session = house.session(policy=house.policy.with_(on_refusal="halt"))
    fill(session, 16)
    seq = session.note_eviction(["t13"], by="context trimmer")
    assert seq == 17
    outcome = session.compact(brief)
    assert isinstance(outcome, UnrecoverableCompactionError)
    assert outcome.facts["floor_missing"] == ("t13",) and "seq 14..14" in str(outcome)
    assert len(session.messages()) == 15 and len(session.turns()) == 16


def test_a_turn_dropped_meanwhile_refuses_the_commit_too(session: Session, fill: Any) -> None:
    fill(session, 16)
    plan = session.plan_compaction()
    session.note_eviction(["t14"], by="trimmer")
    with pytest.raises(UnrecoverableCompactionError):
        session.commit_compaction(plan, GOOD)


def test_a_plan_of_another_session_is_refused(house: Any, fill: Any) -> None:
    """Handles carry their session: nobody's view is changed by a sibling's plan."""
    store = house.open()
    one, other = (store.session(name, house.policy, house.summarizer) for name in ("one", "other"))
    for session in (one, other):
        fill(session, 16)
    plan = one.plan_compaction()
    other.plan_compaction()
    with pytest.raises(Refused) as refusal:
        other.commit_compaction(plan, GOOD)
    assert refusal.value.reason == "overtaken" and other.status().generation == 0


def test_a_commit_that_was_lost_in_a_race_is_decided_anew(house: Any, session: Session, fill: Any, say: Any) -> None:
    """R32: another handle appends between decision and write; the generation is committed once."""
    fill(session, 16)
    other = house.session()
    plan = session.plan_compaction()
    append = session.engine.append
    raced: list[int] = []

    def race(name: str, expected_seq: int, rows: Any) -> None:
        if not raced:
            raced.append(expected_seq)
            other.append(say.user(50), id="raced")
        append(name, expected_seq, rows)

    session.engine.append = race
    try:
        outcome = session.commit_compaction(plan, GOOD)
    finally:
        session.engine.append = append
    assert raced and outcome.generation == 1 and "raced" in outcome.kept
    assert [r.kind for r, _ in session.log.entries()].count("compaction_committed") == 1


# --- holders -------------------------------------------------------------------------------------------------------------


def test_a_live_holder_is_not_taken_for_dead(house: Any, session: Session, fill: Any) -> None:
    """R33: whichever handle asks; the message says who and until when."""
    fill(session, 16)
    plan = session.plan_compaction()
    for handle in (session, house.session()):
        outcome = handle.compact(unreached)
        assert isinstance(outcome, Refused) and outcome.reason == "in_flight"
        assert "process" in str(outcome) and "lease ends in" in str(outcome)
        with pytest.raises(Refused):
            handle.spill(["t0"])
    assert session.commit_compaction(plan, GOOD).generation == 1


def test_a_closed_store_gives_up_its_plan_at_once(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R33: and the work of the holder that was gone is fenced."""
    fill(session, 16)
    plan = session.plan_compaction()
    again = house.reopen(session)
    assert again.status().in_flight == 1
    outcome = again.compact(brief)
    assert isinstance(outcome, Compacted) and outcome.generation == 2
    with pytest.raises(Refused) as refusal:
        again.commit_compaction(plan, GOOD)
    assert refusal.value.reason == "overtaken"


@pytest.mark.parametrize("verb", ["checkpoint", "spill", "ceiling", "prune", "fork", "rollback"])
def test_a_dead_holders_start_blocks_nothing(house: Any, session: Session, fill: Any, say: Any, verb: str) -> None:
    """R33: no verb waits for somebody who cannot come back."""
    fill(session, 16)
    session.plan_compaction()
    again = house.reopen(session)
    if verb == "checkpoint":
        again.checkpoint("after the crash")
        assert again.recover().target == "checkpoint" and again.status().in_flight is None
    elif verb == "spill":
        assert again.expand(again.spill(["t0"]))
    elif verb == "ceiling":
        for n in range(50):
            again.append(say.answer(n))
        assert again.status().tokens <= again.policy.ceiling
    elif verb == "prune":
        again.prune()
    elif verb == "fork":
        assert again.fork("child").status().in_flight is None
    else:
        assert again.rollback(8).target == 8


KILLED = """
import os, signal, sys
import lineal
policy = lineal.Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4)
session = lineal.connect(sys.argv[1]).session("agent", policy, str)
session.plan_compaction() if sys.argv[2] == "plan" else None
session.compact(lambda request: os.kill(os.getpid(), signal.SIGKILL))
"""


def test_a_process_killed_between_begun_and_committed(file_house: Any, fill: Any, brief: Any, tmp_path: Path) -> None:
    """R30, R33: the old generation is the truth, and the next compaction is not kept waiting for the lease."""
    session = file_house.session()
    fill(session, 16)
    shown = session.messages()
    done = subprocess.run([sys.executable, "-c", KILLED, str(file_house.path), "kill"], capture_output=True, timeout=60)
    assert done.returncode == -9, done.stderr
    assert session.messages() == shown and session.status().in_flight == 1 and session.status().generation == 0
    recovery = session.recover()
    assert recovery.aborted == 1 and session.status().in_flight is None
    assert session.messages() == shown
    assert session.compact(brief).generation == 2


def test_a_live_process_is_waited_for_until_its_lease_is_over(file_house: Any, fill: Any) -> None:
    """R33: fenced only then; its late commit is refused."""

    class Turning:
        ahead = 0.0

        def wall(self) -> float:
            return 1_000.0

        def boot(self) -> float:
            return 50.0 + self.ahead

    clock = Turning()
    session = file_house.session(clock=clock)
    fill(session, 16)
    plan = session.plan_compaction()
    other = file_house.session(clock=clock)
    with pytest.raises(Refused):
        other.plan_compaction()
    clock.ahead = session.policy.lease_seconds
    assert other.plan_compaction().generation == 2
    with pytest.raises(Refused) as refusal:
        session.commit_compaction(plan, GOOD)
    assert refusal.value.reason == "overtaken" and "generation 2 is" in str(refusal.value)


def test_a_holder_whose_lease_ran_out_may_still_commit_if_nobody_came(session: Session, fill: Any) -> None:
    fill(session, 16)
    session.policy = session.policy.with_(lease_seconds=0.000001)
    plan = session.plan_compaction()
    assert session.commit_compaction(plan, GOOD).generation == 1


# --- what is shown between ------------------------------------------------------------------------------------------------


def test_between_generations_the_prefix_is_byte_stable(session: Session, say: Any, brief: Any) -> None:
    """R28: whatever is appended, pinned, begun or recorded, what was shown stays; one break a generation at most."""
    breaks, shown = 0, []

    def look() -> None:
        nonlocal shown, breaks
        now = [codec.to_json(m) for m in session.messages()]
        breaks += now[: len(shown)] != shown
        shown = now

    for round in range(3):
        for n in range(8):
            session.append(say.user(100 * round + n))
            look()
            session.append(say.call(f"a{n}", f"b{n}"))
            look()
            session.append(say.result(f"b{n}"))
            look()
            session.append(say.result(f"a{n}", "x" * 300))
            session.record_usage(session.status().tokens + 5)
            look()
            with session.effect("deploy", {"n": n}, key=f"{round}-{n}") as effect:
                effect.settle("ok")
            session.checkpoint()
            session.pin(f"remember {n}")
            look()
        session.compact(brief)
        look()
    assert session.status().generation >= 3 and breaks <= session.status().generation


def test_a_session_keeps_its_name_through_compaction(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R34: and a handle from before reads on."""
    old = house.session()
    old.messages()
    fill(session, 16)
    session.compact(brief)
    assert old.name == session.name == "agent" and old.messages() == session.messages()
    assert house.open().sessions() == ["agent"]


def test_a_hook_is_called_once_for_each_generation_whatever_asked(house: Any, say: Any, brief: Any) -> None:
    """R10: summary, threshold, ceiling and spill go one way; a refusal announces nothing."""
    told: list[int] = []
    session = house.open().session("agent", house.policy, brief, before_commit=lambda entry: told.append(entry.generation))
    session.append(say.dialogue(16), id=[f"t{n}" for n in range(16)])
    assert session.compact(lambda request: "").reason == "summary_refused"
    session.compact()
    session.append(say.dialogue(30, 16))
    session.maybe_compact()
    session.append(say.dialogue(40, 50))
    session.spill([session.view().turns[0].id])
    kinds = [e.generation for _, e in session.log.entries() if isinstance(e, CompactionCommitted)]
    assert told == kinds and len(kinds) >= 4


def test_a_hook_that_raises_stops_the_commit(house: Any, fill: Any, brief: Any) -> None:
    def no(entry: Any) -> None:
        raise PermissionError("not now")

    session = house.open().session("agent", house.policy, brief, before_commit=no)
    fill(session, 16)
    before = heads(session)
    with pytest.raises(PermissionError):
        session.compact()
    assert heads(session) == before and session.status().in_flight is None


def test_a_commit_that_cannot_be_read_back_was_not_written(fill: Any, brief: Any) -> None:
    """R35."""

    class Forgetful(MemoryEngine):
        forget = False

        def append(self, session: str, expected_seq: int, rows: Any) -> None:
            super().append(session, expected_seq, rows)
            if self.forget and any(row.kind == "compaction_committed" for row in rows):
                self.delete(session, [row.seq for row in rows])

    engine = Forgetful()
    session = Store(engine).session("a", Policy(trigger=1_500, target=600, floor_turns=4), brief)
    fill(session, 16)
    engine.forget = True
    with pytest.raises(Corrupt, match="read back"):
        session.compact()


def test_a_request_id_that_is_taken_is_a_conflict_for_the_two_step_way(session: Session, fill: Any) -> None:
    fill(session, 16)
    session.commit_compaction(session.plan_compaction(request_id="r"), GOOD)
    fill(session, 12, 16)
    plan = session.plan_compaction(request_id="r")
    with pytest.raises(Conflict):
        session.commit_compaction(plan, GOOD + " More was read.")
