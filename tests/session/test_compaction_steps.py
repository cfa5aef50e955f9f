"""What each step of a compaction is for: a story for every step that could be left out without anything else noticing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from lineal.engines.memory import MemoryEngine
from lineal.entries import CompactionBegun, CompactionCommitted
from lineal.errors import Corrupt, Refused, Unavailable
from lineal.policy import Policy
from lineal.session import Session
from lineal.session import compaction as room
from lineal.session.generation import view_digest
from lineal.session.outcomes import Compacted, Nothing
from lineal.store import Store
from lineal.testing.faults import FaultyEngine

GOOD = "The first parts of the plan were read one by one; nothing in them stood out."
SMALL = Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4, summary_max_tokens=200)


def kinds(session: Session) -> list[str]:
    return [row.kind for row, _ in session.log.entries()]


# --- plan and begin ------------------------------------------------------------------------------------------------------


def test_the_begun_entry_says_what_was_read(session: Session, fill: Any) -> None:
    """R61: whoever looks later can tell what the summary was made from."""
    fill(session, 16)
    shown = session.log.lineage.items
    session.plan_compaction()
    (entry,) = [e for _, e in session.log.entries() if isinstance(e, CompactionBegun)]
    assert entry.covered == tuple(f"t{n}" for n in range(12)) and entry.input_digest == view_digest(shown[:12])


def test_the_abort_of_a_dead_holders_compaction_stands_in_the_log(house: Any, session: Session, fill: Any) -> None:
    """R33, R36: the next one does not begin over one that is open."""
    fill(session, 16)
    session.plan_compaction()
    again = house.reopen(session)
    again.plan_compaction()
    assert kinds(again)[-3:] == ["compaction_begun", "compaction_aborted", "compaction_begun"]


def test_another_policy_is_reason_enough_to_compact_again(session: Session, fill: Any, brief: Any) -> None:
    """R24: an unchanged session is compacted once, under one policy."""
    fill(session, 16)
    session.compact(brief)
    assert isinstance(session.compact(brief), Nothing)
    session.policy = session.policy.with_(floor_turns=2)
    outcome = session.compact(brief)
    assert isinstance(outcome, Compacted) and outcome.covered == ("t12", "t13")


def test_damage_found_while_planning_is_raised_and_not_told_as_a_refusal(fill: Any, brief: Any) -> None:
    """R6, R59: the log is read-only from then on, so the plan cannot be closed; it is given up, and nobody waits for it."""
    engine = MemoryEngine()
    session = Store(engine).session("agent", SMALL, brief)
    fill(session, 16)
    whole = engine._logs["agent"].rows[3]
    engine._logs["agent"].rows[3] = replace(whole, body=whole.body.replace(b"part 2", b"part 9"))
    with pytest.raises(Corrupt, match="altered"):
        session.compact()
    engine._logs["agent"].rows[3] = whole
    assert session.verify().clean is False, "the compaction is in progress"
    engine.latch("agent", None)
    session.log.latch(None)
    assert isinstance(session.compact(), Compacted)


def test_a_plan_that_could_not_be_read_is_closed(fill: Any, brief: Any) -> None:
    """R16."""
    engine = FaultyEngine(MemoryEngine())
    session = Store(engine).session("agent", SMALL, brief)
    fill(session, 16)
    session.compact(brief)
    fill(session, 16, 16)
    real = engine.scan

    def scan(name: str, after: int = 0, until: int | None = None, wanted: Any = None) -> Any:
        if session.log.lineage.in_flight:
            engine.scan = real  # type: ignore[method-assign]
            raise Unavailable("scan", "the disk is away")
        return real(name, after, until, wanted)

    engine.scan = scan  # type: ignore[method-assign]
    with pytest.raises(Unavailable, match="the disk is away"):
        session.plan_compaction()
    assert session.status().in_flight is None and kinds(session)[-1] == "compaction_aborted"


def test_the_summarizer_is_told_what_must_not_be_lost_and_what_is_open(session: Session, fill: Any, say: Any) -> None:
    """R18, R20."""
    session.append(say.user(0, "Patch src/build/linker.rs, and nothing else."), id="fact")
    fill(session, 16)
    with session.effect("rotate_key", {"db": "main"}, key="rotate:1"):
        pass
    plan = session.plan_compaction()
    assert any(a.value == "src/build/linker.rs" for a in plan.request.anchors)
    assert "src/build/linker.rs" in plan.request.text and "rotate:1" in plan.request.text
    session.commit_compaction(plan, GOOD)
    assert any(a.value == "src/build/linker.rs" for a in session.view().anchors)


# --- commit --------------------------------------------------------------------------------------------------------------


def test_who_is_overtaken_is_told_by_what(house: Any, session: Session, fill: Any) -> None:
    """R32: a reset moves the epoch, and another session's plan is another session's."""
    fill(session, 16)
    plan = session.plan_compaction()
    other = house.session("other")
    with pytest.raises(Refused, match="the plan is of session 'agent', not of 'other'"):
        other.commit_compaction(plan, GOOD)
    session.rollback(14)
    with pytest.raises(Refused, match="the session was reset \\(epoch 0 -> 1\\)"):
        session.commit_compaction(plan, GOOD)


@pytest.mark.parametrize(("fault", "reason"), [("a kept turn is lost", "not_partition"), ("an anchor is lost", "anchor_lost")])
def test_a_fault_in_the_making_of_a_generation_does_not_reach_the_log(
    session: Session, fill: Any, say: Any, monkeypatch: pytest.MonkeyPatch, fault: str, reason: str
) -> None:
    """R8, R18: the rule looks at what would be shown, not at what was meant."""
    session.append(say.user(0, "Patch src/build/linker.rs, and nothing else."), id="fact")
    fill(session, 16)
    session.compact(lambda request: GOOD)
    fill(session, 12, 16)
    build = room.build

    def faulty(*given: Any) -> Any:
        entry, after = build(*given)
        if fault == "an anchor is lost":
            return msgspec.structs.replace(entry, anchors=()), after
        return entry, msgspec.structs.replace(after, items=after.items[:-1])

    monkeypatch.setattr(room, "build", faulty)
    plan, head = session.plan_compaction(), session.status().head
    with pytest.raises(Refused) as refusal:
        session.commit_compaction(plan, GOOD + " More was read.")
    assert refusal.value.reason == reason and session.status().head == head


def test_a_summary_of_fewer_tokens_and_more_bytes_is_refused(house: Any, say: Any) -> None:
    """R22: both must fall."""

    class Words:
        name = "words"

        def count(self, text: str) -> int:
            return len(text.split())

    policy = Policy(trigger=60, ceiling=4_000, target=40, floor_turns=2, summary_max_tokens=40)
    session = house.open().session("agent", policy, counter=Words())
    for n in range(12):
        session.append({"role": "assistant" if n % 2 else "user", "content": f"say {n} a b c d e f g h"})
    plan = session.plan_compaction()
    with pytest.raises(Refused) as refusal:
        session.commit_compaction(plan, "Everything was read: " + "long" * 600 + " and found to be sound")
    assert refusal.value.reason == "no_gain"
    tokens, size = refusal.value.facts["tokens"], refusal.value.facts["bytes"]
    assert tokens[1] < tokens[0] and size[1] > size[0]


def test_above_the_budget_of_items_fewer_items_are_asked_for(house: Any, say: Any) -> None:
    """R22, R26: one long turn for one short summary is no gain where there are too many items."""
    policy = house.policy.with_(ceiling=40_000, trigger=39_000, target=30_000, ceiling_items=5, floor_turns=4, on_refusal="halt")
    session = house.session(policy=policy)
    session.append(say.answer(0, "word " * 4_000), id="long")
    session.append(say.dialogue(5), id=["pinned", "b", "c", "d", "e"])
    session.pin("pinned")
    plan = session.plan_compaction()
    assert plan.covered == ("long",)
    with pytest.raises(Refused) as refusal:
        session.commit_compaction(plan, GOOD)
    tokens = refusal.value.facts["tokens"]
    assert refusal.value.reason == "no_gain" and tokens[1] < tokens[0] * 0.5


def test_a_part_of_a_larger_pass_need_not_make_the_whole_gain(house: Any, fill: Any) -> None:
    """R22, R27: the parts together do."""

    class Small:
        window = 1_400

        def __call__(self, request: Any) -> str:
            return f"{len(request.turns)} turns were read, part by part, and looked sound."

    session = house.session(policy=house.policy.with_(ceiling=100_000, min_gain=0.5))
    fill(session, 40)
    outcome = session.compact(Small())
    assert isinstance(outcome, Compacted) and outcome.generation > 2
    assert outcome.tokens_after < outcome.tokens_before * 0.5


def test_a_users_words_of_an_earlier_generation_may_be_quoted(session: Session, fill: Any, say: Any) -> None:
    """R19: an exact value that a user named stays theirs when its turn was covered long ago."""
    session.append(say.user(0, "Work in src/build/linker.rs and nowhere else."), id="fact")
    fill(session, 16)
    session.compact(lambda request: GOOD)
    assert any(a.value == "src/build/linker.rs" and a.author == "user" for a in session.view().anchors)
    fill(session, 12, 16)
    outcome = session.compact(lambda request: 'The plan was read. The user said: "src/build/linker.rs".')
    assert isinstance(outcome, Compacted)


def test_a_commit_whose_bytes_read_back_otherwise_was_not_written(fill: Any, brief: Any) -> None:
    """R35: header and digest may be right, and the content another."""

    class Altering(MemoryEngine):
        def append(self, session: str, expected_seq: int, rows: Any) -> None:
            super().append(session, expected_seq, rows)
            for row in rows:
                if row.kind == "compaction_committed":
                    self._logs[session].rows[row.seq] = replace(row, body=row.body.replace(b"sound", b"wrong"))

    session = Store(Altering()).session("a", SMALL, brief)
    fill(session, 16)
    with pytest.raises(Corrupt, match="read back"):
        session.compact(lambda request: "The plan was read, and looked sound.")


def test_a_stale_plan_closes_nothing_when_it_is_aborted(house: Any, session: Session, fill: Any) -> None:
    """R33: and nothing is written for it."""
    fill(session, 16)
    stale = session.plan_compaction()
    again = house.reopen(session)
    plan = again.plan_compaction()
    head = again.status().head
    again.abort_compaction(stale)
    assert again.status().head == head and again.status().in_flight == plan.generation


def test_a_race_at_the_commit_does_not_announce_it_twice(house: Any, fill: Any, brief: Any, say: Any) -> None:
    """R10: the hook is told once of each generation, however often the decision is asked."""
    told: list[int] = []
    other = house.session()

    def hook(entry: CompactionCommitted) -> None:
        told.append(entry.generation)
        other.append(say.answer(50, "meanwhile"))

    session = house.open().session("agent", house.policy, brief, before_commit=hook)
    fill(session, 16)
    assert isinstance(session.compact(), Compacted)
    assert told == [1]


def test_what_was_said_meanwhile_stands_behind_the_note(session: Session, fill: Any, say: Any) -> None:
    """R31: a note tells what is open; it belongs to the summary, and the newest words stay the newest."""
    fill(session, 16)
    with session.effect("rotate_key", {"db": "main"}, key="rotate:1"):
        pass

    def slow(request: Any) -> str:
        session.append(say.user(90, "and one more thing"), id="meanwhile")
        return GOOD

    session.compact(slow)
    shown = session.messages()
    assert "rotate:1" in shown[1]["content"] and "one more thing" in shown[-1]["content"]
    assert [i for i, m in enumerate(shown) if "[lineal note" in str(m["content"])] == [1]


# --- progress ------------------------------------------------------------------------------------------------------------


def refused(session: Session, times: int) -> None:
    for _ in range(times):
        session.maybe_compact(lambda request: "")


def test_a_summary_clears_the_count_of_vain_passes_and_a_spill_does_not(house: Any, fill: Any, brief: Any) -> None:
    """R23: a spill is no progress of a summarizer."""
    session = house.session(policy=house.policy.with_(ceiling=100_000))
    fill(session, 26)
    refused(session, 1)
    session.spill(["t1"])
    assert session.log.lineage.ineffective == 1
    session.compact(brief)
    assert session.log.lineage.ineffective == 0


def test_a_pass_by_hand_that_gains_nothing_counts(house: Any, fill: Any) -> None:
    """R23: like one that was asked for by the trigger."""
    session = house.session(policy=house.policy.with_(ceiling=100_000, min_gain=0.9))
    fill(session, 26)
    for vain in (1, 2):
        assert session.compact(lambda request: GOOD).reason == "no_gain"
        assert session.log.lineage.ineffective == vain
    assert session.status().suspended
