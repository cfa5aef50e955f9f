"""Append: kept exactly, once each, in one order, or refused with nothing written."""

from __future__ import annotations

import copy
import json
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lineal import codec
from lineal.engines.memory import MemoryEngine
from lineal.entries import Turn, TurnAppended
from lineal.errors import Conflict, PolicyError, Refused, Unavailable
from lineal.policy import Policy
from lineal.session import Session
from lineal.session.outcomes import Compacted
from lineal.store import Store
from lineal.testing.faults import FaultyEngine

ODD = [
    "\ud800",
    "\udc00\ud800",
    "\ud83d\ude00",
    "😀",
    "a\0b",
    "a\\u0000b",
    "\\ud83d",
    "\r\n\n\t",
    '{"v":1,"kind":"turn"}',
    "\u2028\ufeff\u200b",
]


def heads(session: Session) -> tuple[int, str]:
    status = session.status()
    return status.head, status.digest


# --- what is kept --------------------------------------------------------------------------------------------------------


def test_an_append_says_where_it_stands_and_is_there_after_reopening(house: Any, session: Session, say: Any) -> None:
    """R1."""
    first = session.append(say.user(1), id="u1")
    second, third = session.append([say.answer(2), say.user(3)], author=None)
    assert (first.seq, first.id, first.author, first.role, first.message) == (1, "u1", "user", "user", say.user(1))
    assert [(t.seq, t.id) for t in (second, third)] == [(2, "@2"), (3, "@3")]
    assert first.tokens > 10 and len(first.digest) == 64
    again = house.reopen(session)
    assert again.turns() == [first, second, third]
    assert again.messages() == [say.user(1), say.answer(2), say.user(3)]


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_every_odd_text_comes_back_exactly(file_house: Any, text: str) -> None:
    """R7: as content, id, key and tool argument, through the file and a new process' eyes."""
    session = file_house.session()
    message = {"role": "user", "content": [{"type": "text", "text": text, text: [text, None, 1.5, 2**70]}], "x": {text: {}}}
    turn = session.append(message, id=text)
    again = file_house.reopen(session)
    assert codec.to_json(again.messages()[0]) == codec.to_json(message)
    assert again.turns() == [turn]
    assert again.expand(text) == [turn]
    assert again.append(message, id=text) == turn


def test_keys_of_a_message_keep_their_order(session: Session) -> None:
    """R13: kept records keep their bytes."""
    message = {"content": "x", "role": "user", "zeta": 1, "alpha": 2}
    session.append(message)
    assert list(session.messages()[0]) == ["content", "role", "zeta", "alpha"]


@pytest.mark.parametrize(
    "bad",
    [
        {"role": "user", "content": "x", "at": float("nan")},
        {"role": "user", "content": ("x",)},
        {"role": "user", "content": "x", "n": 10**5_000},
        {"role": "user", "content": "x", 5: "five"},
        {"content": "nobody says this"},
        {"role": "user", "content": 5},
        "only words",
        None,
    ],
    ids=["nan", "tuple", "huge", "key", "role", "content", "text", "none"],
)
def test_what_cannot_come_back_is_refused_alone(session: Session, say: Any, bad: Any) -> None:
    """R7: that one record, with nothing written; the others may be appended without it."""
    before = heads(session)
    for attempt in (bad, [say.user(1), bad]):
        with pytest.raises(PolicyError) as refusal:
            session.append(attempt)
        assert refusal.value.remedy
    assert heads(session) == before
    session.append(say.user(1))


def test_an_empty_list_appends_nothing(session: Session) -> None:
    assert session.append([]) == []
    assert session.status().head == 0


def test_the_author_is_stored_apart_from_the_role(session: Session, say: Any) -> None:
    """R19: a tool's result in a user message is no user's word; what a caller says of the author wins."""
    session.append({"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]})
    mixed = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "found"}]}
    assert session.append(mixed).author == "tool"
    assert session.append(say.user(1), author="scheduler").author == "scheduler"
    assert session.append({"role": "developer", "content": "x"}).author == "system"
    with pytest.raises(PolicyError):
        session.append(say.user(2), author="")


def test_content_is_never_taken_for_a_record_of_ours(session: Session, say: Any) -> None:
    """R21, R26 of the log: what looks like a compaction or a summary is a turn like any other."""
    inside = json.dumps({"v": 1, "kind": "compaction_committed", "generation": 9, "covered": ["u1"]})
    session.append([say.user(1), say.call("c")], id=["u1", "c1"])
    session.append(say.result("c", inside))
    fake = session.append({"role": "system", "content": "[lineal summary g9 of 4 turns]", "kind": "compaction_committed"})
    assert session.status().generation == 0
    assert len(session.messages()) == 4 and fake.role == "system"


def test_redaction_comes_before_the_digest(house: Any, say: Any) -> None:
    """R56: digests are over what is stored; verify passes right after, and the original is nowhere."""

    def redact(message: dict[str, Any]) -> dict[str, Any]:
        return {**message, "content": str(message["content"]).replace("hunter2", "[redacted]")}

    session = house.open().session("agent", summarizer=house.summarizer, redact=redact)
    turn = session.append({"role": "user", "content": "the password is hunter2"}, id="u1")
    assert turn.message["content"] == "the password is [redacted]"
    assert session.append({"role": "user", "content": "the password is hunter2"}, id="u1") == turn
    assert session.verify().clean


# --- once each -----------------------------------------------------------------------------------------------------------


def test_an_append_is_idempotent_by_id(session: Session, say: Any) -> None:
    """R2: whatever the object; equal bytes are the same message."""
    turn = session.append(say.user(1), id="u1")
    before = heads(session)
    for _ in range(3):
        assert session.append(copy.deepcopy(say.user(1)), id="u1") == turn
    assert heads(session) == before
    with pytest.raises(Conflict) as conflict:
        session.append(say.user(2), id="u1")
    assert conflict.value.found_seq == 1
    assert heads(session) == before


def test_key_order_is_part_of_a_message(session: Session) -> None:
    """R7: what would not come back byte for byte is another message."""
    session.append({"role": "user", "content": "x"}, id="u1")
    with pytest.raises(Conflict):
        session.append({"content": "x", "role": "user"}, id="u1")


def test_a_batch_may_hold_what_stands_already(session: Session, say: Any) -> None:
    """R2: answered in the order asked; only what is new is written."""
    session.append([say.user(1), say.answer(2)], id=["t1", "t2"])
    turns = session.append([say.user(3), say.answer(2), say.user(1), say.answer(4)], id=["t3", "t2", "t1", None])
    assert [t.seq for t in turns] == [3, 2, 1, 4]
    assert [t.id for t in session.turns()] == ["t1", "t2", "t3", "@4"]


def test_a_batch_with_one_conflict_writes_nothing(session: Session, say: Any) -> None:
    session.append(say.user(1), id="t1")
    before = heads(session)
    with pytest.raises(Conflict):
        session.append([say.user(2), say.user(9)], id=["t2", "t1"])
    assert heads(session) == before


@pytest.mark.parametrize("ids", [["a"], ["a", "b", "c"], ["a", "a"], ["a", ""], ["a", 5], "ab"], ids=str)
def test_ids_that_do_not_fit_are_usage(session: Session, say: Any, ids: Any) -> None:
    with pytest.raises(PolicyError):
        session.append([say.user(1), say.user(2)], id=ids)
    assert session.status().head == 0


def test_saving_what_is_shown_again_and_again_changes_nothing(session: Session, fill: Any, brief: Any) -> None:
    """R2: by the turns' own ids, also those that were given none, before and after a compaction."""
    fill(session, 12)
    session.append({"role": "user", "content": "without an id"})
    assert isinstance(session.compact(brief), Compacted)
    before = heads(session)
    for _ in range(3):
        shown = session.view().turns
        assert session.append([copy.deepcopy(t.message) for t in shown], id=[t.id for t in shown]) == list(shown)
        assert session.save(session.messages()) == []
    assert heads(session) == before


def test_an_id_of_ours_cannot_be_made_up(session: Session, say: Any) -> None:
    session.append(say.user(1))
    with pytest.raises(PolicyError):
        session.append(say.user(2), id="@2")
    with pytest.raises(Conflict):
        session.append(say.user(2), id="@1")
    assert session.status().head == 1


def test_a_whole_list_saved_adds_its_tail_and_an_old_one_is_a_conflict(session: Session, fill: Any, say: Any, brief: Any) -> None:
    """R31: nothing is ever replaced by what a client remembers."""
    fill(session, 12)
    old = session.messages()
    assert [t.message for t in session.save([*old, say.user(20), say.answer(21)])] == [say.user(20), say.answer(21)]
    session.compact(brief)
    before = heads(session)
    with pytest.raises(Conflict):
        session.save([*old, say.user(99)])
    assert heads(session) == before


def test_two_handles_append_one_id_once(house: Any, say: Any) -> None:
    """R2: whoever is behind finds the turn of the other."""
    one, other = house.session(), house.session()
    turn = one.append(say.user(1), id="u1")
    assert other.append(say.user(1), id="u1") == turn
    assert other.append([say.user(1), say.answer(2)], id=["u1", "a2"])[1].seq == 2
    with pytest.raises(Conflict):
        one.append(say.user(9), id="a2")
    assert [t.id for t in one.turns()] == ["u1", "a2"]


def test_two_handles_interleave_in_one_order(house: Any, say: Any) -> None:
    """R3, R41: a writer that is behind reads on and appends; nobody's turn is lost or doubled."""
    one, other = house.session(), house.session()
    for n in range(0, 20, 2):
        one.append(say.user(n), id=f"t{n}")
        other.append(say.user(n + 1), id=f"t{n + 1}")
    assert [t.id for t in one.turns()] == [t.id for t in other.turns()] == [f"t{n}" for n in range(20)]
    assert one.messages() == other.messages()


def test_many_threads_append_each_once(session: Session, say: Any) -> None:
    """R1: everything acknowledged is there, once each."""
    failed: list[BaseException] = []

    def append(worker: int) -> None:
        try:
            for n in range(20):
                session.append(say.user(n), id=f"{worker}-{n}")
        except BaseException as error:
            failed.append(error)

    workers = [threading.Thread(target=append, args=(w,)) for w in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failed == []
    ids = [t.id for t in session.turns()]
    assert len(ids) == 80 and len(set(ids)) == 80
    assert [id for id in ids if id.startswith("2-")] == [f"2-{n}" for n in range(20)]


# --- after going back ----------------------------------------------------------------------------------------------------


def test_what_a_rollback_left_behind_may_be_said_again(house: Any, session: Session, fill: Any, say: Any) -> None:
    """R2, R40: another message too, under the same id; what stands is still answered."""
    fill(session, 6)
    session.rollback(3)
    new = session.append(say.user(77), id="t4")
    assert new.seq == 8
    kept, again, fresh = session.append([say.answer(1), say.user(77), say.user(5)], id=["t1", "t4", "t5"])
    assert (kept.seq, again, fresh.seq) == (2, new, 9)
    assert [t.id for t in session.turns()] == ["t0", "t1", "t2", "t4", "t5"]
    other = house.session()
    assert other.append(say.user(77), id="t4") == new
    with pytest.raises(Conflict):
        other.append(say.user(4), id="t4")


def test_a_handle_that_does_not_know_of_the_rollback_finds_out(house: Any, fill: Any, say: Any) -> None:
    """R41."""
    one, other = house.session(), house.session()
    fill(one, 6)
    other.messages()
    one.rollback(2)
    turn = other.append(say.user(50), id="t4")
    assert turn.seq == 8 and [t.id for t in one.turns()] == ["t0", "t1", "t4"]


# --- results -------------------------------------------------------------------------------------------------------------


def test_a_result_refers_only_to_a_call_that_is_in_the_log(session: Session, say: Any) -> None:
    """R4."""
    session.append(say.call("c1"))
    before = heads(session)
    with pytest.raises(Refused) as refusal:
        session.append([say.user(1), say.result("c2")])
    assert refusal.value.reason == "dangling_result" and refusal.value.facts["call"] == "c2"
    assert heads(session) == before
    session.append([say.result("c2"), say.call("c2")])
    session.append(say.result("c1"))


def test_also_after_a_compaction_a_result_needs_a_call(session: Session, fill: Any, say: Any, brief: Any) -> None:
    """R4, R51: a covered call's late result attaches; a result of a call that never was is refused as before."""
    session.append([say.user(90), say.call("c1"), say.result("c1")], id=["u", "c", "r"])
    fill(session, 12)
    assert isinstance(session.compact(brief), Compacted)
    assert session.view().turns[0].id not in ("c", "r")
    with pytest.raises(Refused, match="never"):
        session.append(say.result("never"))
    late = session.append(say.result("c1", "a second, late word"), id="late")
    shown = session.messages()[-1]
    assert shown["role"] == "system" and "late result" in shown["content"] and "a second, late word" in shown["content"]
    assert session.expand("late") == [late], "the turn itself is kept as it was given"


def test_a_late_result_may_be_huge(house: Any, say: Any, fill: Any) -> None:
    """R26, R51: it is shown as a stub from the start, and counted as it is shown."""
    session = house.session(policy=Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4, stub_bytes=2_000))
    session.append([say.user(90), say.call("c1"), say.result("c1")])
    fill(session, 12)
    assert isinstance(session.compact(), Compacted)
    before = session.status()
    turn = session.append(say.result("c1", "x" * 50_000), id="late")
    assert session.status().generation == before.generation and session.status().bytes - before.bytes < 2_000
    assert "late result" in session.messages()[-1]["content"] and 'expand("t:late")' in session.messages()[-1]["content"]
    assert session.expand("t:late") == [turn]


def test_only_a_final_result_closes_a_call(session: Session, say: Any) -> None:
    """R11: "status": "pending" is an interim result."""
    session.append([say.user(1), say.call("c1", "c2")])
    assert session.status().open_calls == ("c1", "c2")
    session.append(say.result("c1", status="pending"))
    assert session.status().open_calls == ("c1", "c2")
    session.append([say.result("c2"), say.result("c1")])
    assert session.status().open_calls == ()


def test_a_tool_call_id_may_be_used_again(session: Session, say: Any) -> None:
    """Models re-use ids: each result belongs to the newest call that waits."""
    for n in range(4):
        session.append([say.user(n), say.call("call_1"), say.result("call_1", f"found {n}")])
        assert session.status().open_calls == ()
    assert [m["content"] for m in session.messages() if m["role"] == "tool"] == [f"found {n}" for n in range(4)]


def test_calls_that_will_never_be_answered_can_be_closed(session: Session, say: Any) -> None:
    """R11: the way out of an open call is a result that says so, in the log."""
    session.append([say.user(1), say.call("c1", "c2"), say.result("c2")])
    with pytest.raises(Refused):
        session.close_calls(["c2"])
    (closed,) = session.close_calls()
    assert closed.message["tool_call_id"] == "c1" and "unknown" in closed.message["content"]
    assert session.status().open_calls == () and session.close_calls() == []
    assert closed.author == "system"


# --- sizes ---------------------------------------------------------------------------------------------------------------


def test_an_oversized_block_is_a_stub_from_the_start(house: Any, say: Any) -> None:
    """R26, R28: no model call, exact bytes by handle, and the prefix never changes for it."""
    session = house.session(policy=Policy(stub_bytes=2_000))
    text = "row \ud800\0 of a table; " * 1_000
    session.append([say.user(1), say.call("c1")])
    turn = session.append(say.result("c1", text), id="huge")
    shown = session.messages()[-1]
    assert shown["tool_call_id"] == "c1" and 'expand("t:huge")' in shown["content"] and len(json.dumps(shown)) < 2_000
    assert turn.tokens < 700 and session.status().tokens < 1_000
    again = house.reopen(session)
    assert again.expand("t:huge")[0].message["content"] == text
    assert again.messages()[-1] == shown


# --- order and time ------------------------------------------------------------------------------------------------------


class Skewed:
    """A wall clock that jumps about."""

    def __init__(self) -> None:
        self.times = [1e9, 1e9 - 5 * 3_600, 1e9 + 5 * 3_600]
        self.up = 0.0

    def wall(self) -> float:
        self.times.append(self.times.pop(0))
        return self.times[0]

    def boot(self) -> float:
        return self.up


def test_order_is_the_stores_sequence_only(say: Any, brief: Any) -> None:
    """R3: with clocks off by hours or standing still the log, the view and the pages are the same."""

    class Frozen(Skewed):
        def wall(self) -> float:
            return 5.0

    told = []
    for clock in (Skewed(), Frozen()):
        store = Store(MemoryEngine(), clock=clock)
        session = store.session("a", Policy(trigger=900, target=300, floor_turns=4), brief)
        session.append(say.dialogue(30))
        session.checkpoint("cp")
        session.compact()
        page = [t.id for t in session.turns(before=25, limit=10)]
        told.append((session.messages(), page, session.recover().target, [t.id for t in session.turns()]))
    assert told[0] == told[1]
    assert told[0][1] == [f"@{n}" for n in range(15, 25)]


def test_pages_go_backwards_without_gap_or_double(session: Session, say: Any) -> None:
    """R3."""
    session.append(say.dialogue(47))
    found: list[Turn] = []
    before = None
    while page := session.turns(before=before, limit=10):
        found = [*page, *found]
        before = page[0].seq
    assert found == session.turns() and len(found) == 47


# --- failures ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_failed_append_is_resolved_before_the_next_is_acknowledged(say: Any, brief: Any, when: Any) -> None:
    """R1: no hole, nothing twice, whether the write reached the disk or not."""
    engine = FaultyEngine(MemoryEngine())
    session = Store(engine).session("a", summarizer=brief)
    session.append(say.user(1), id="u1")
    engine.fail_at(len(engine.calls) + 1, when=when)
    with pytest.raises(Unavailable):
        session.append(say.user(2), id="u2")
    third = session.append(say.user(3), id="u3")
    assert third.seq == (3 if when == "after" else 2)
    assert session.append(say.user(2), id="u2").seq == (2 if when == "after" else 3)
    ids = [t.id for t in session.turns()]
    assert sorted(ids) == ["u1", "u2", "u3"] and session.verify().clean
    assert Store(engine).session("a", summarizer=brief).turns() == session.turns()


def test_after_many_failures_in_a_row_everything_acknowledged_is_there(say: Any, brief: Any) -> None:
    """R1: space runs out for three appends and comes back."""
    engine = FaultyEngine(MemoryEngine())
    session = Store(engine).session("a", summarizer=brief)
    acknowledged = []
    for n in range(20):
        if n in (5, 6, 7):
            for k in range(1, 4):
                engine.fail_at(len(engine.calls) + k)
        try:
            acknowledged.append(session.append(say.user(n), id=f"u{n}"))
        except Unavailable:
            engine.heal()
    assert len(acknowledged) == 17
    assert Store(engine).session("a", summarizer=brief).turns() == acknowledged


def test_an_append_asks_the_engine_for_one_thing(say: Any, brief: Any) -> None:
    """DESIGN section 6: one insert, one commit, and no read."""
    engine = FaultyEngine(MemoryEngine())
    session = Store(engine).session("a", summarizer=brief)
    session.append(say.user(0))
    done = len(engine.calls)
    for n in range(10):
        session.append(say.user(n), id=f"u{n}")
    assert [method for _, method in engine.calls[done:]] == ["append"] * 10


# --- any list of messages ------------------------------------------------------------------------------------------------

TEXTS = st.one_of(st.text(max_size=20), st.text(st.characters(categories=["Cs", "Cc", "Lu"]), max_size=8), st.sampled_from(ODD))
MESSAGES = st.builds(
    lambda role, text, more: {"role": role, "content": text, "more": more},
    st.sampled_from(["user", "assistant", "system"]),
    TEXTS,
    st.recursive(
        TEXTS | st.integers() | st.none() | st.booleans(),
        lambda x: st.lists(x, max_size=3) | st.dictionaries(TEXTS, x, max_size=3),
        max_leaves=6,
    ),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.lists(MESSAGES, min_size=1, max_size=12))
def test_any_list_of_messages_comes_back_exactly(brief: Any, said: list[dict[str, Any]]) -> None:
    """R7: through append and reopening, as stored entries, as turns and as what is shown."""
    engine = MemoryEngine()
    turns = Store(engine).session("a", summarizer=brief).append(said)
    again = Store(engine).session("a", summarizer=brief)
    assert again.turns() == turns
    assert [codec.to_json(m) for m in again.messages()] == [codec.to_json(m) for m in said]
    assert [e.message for _, e in again.log.entries() if isinstance(e, TurnAppended)] == said


class Text(str):
    """As frameworks hand them around: `message.text` of LangChain is one."""

    def __str__(self) -> str:
        return "something else"


class Number(int):
    pass


class Part(float):
    pass


@pytest.mark.parametrize("value", [Text("x"), Number(3), Part(2.5), {"key": Text("x")}, [Number(1)]], ids=repr)
def test_texts_and_numbers_of_classes_of_their_own_are_what_they_are(session: Session, value: Any) -> None:
    """R7: they were refused; and an effect whose outcome was one became unknown, though it had happened."""
    session.append({"role": "user", "content": "hello", "value": value})
    assert session.messages()[-1]["value"] == value and type(session.messages()[-1]["value"]) in (str, int, float, dict, list)
    with session.effect("mail", {"to": value}, key="mail:1") as effect:
        effect.settle(value)
    assert session.ledger()[0].outcome == value and session.ledger()[0].state == "done" and session.verify().clean
