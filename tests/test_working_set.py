"""What the model is shown: labels, notes, pairs, and nothing that anybody could take for a turn."""

from __future__ import annotations

from typing import Any

import pytest

from lineal import messages
from lineal.entries import Anchor, Call, Holder, Lease, Node, Note, Pin, Result
from lineal.errors import Corrupt
from lineal.lineage import Done, Item, Lineage, OpenEffect, TurnItem, place
from lineal.tokens import BytesCounter
from lineal.working_set import make_note, node_text, note_text, pin_note, render, shown, turn_message

COUNT = BytesCounter()
LEASE = Lease(Holder("token"), 0.0, 0.0)
SUMMARY = Node("summary", 3, ((1, 4), (6, 8)), 6, 10, 30, text="The build was moved.")
SPILL = Node("spill", 5, ((9, 9),), 1, 10, 30)


def user(seq: int, text: str = "") -> tuple[TurnItem, Any]:
    return TurnItem(seq, f"u{seq}", "user", "user", 5, 15, ""), {"role": "user", "content": text or f"request {seq}"}


def answer(seq: int) -> tuple[TurnItem, Any]:
    return TurnItem(seq, f"a{seq}", "assistant", "assistant", 5, 15, ""), {"role": "assistant", "content": f"answer {seq}"}


def call(seq: int, *ids: str) -> tuple[TurnItem, Any]:
    made = [{"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}} for id in ids]
    item = TurnItem(seq, f"c{seq}", "assistant", "assistant", 5, 15, "", tuple(Call(id, "look") for id in ids))
    return item, {"role": "assistant", "content": None, "tool_calls": made}


def result(seq: int, id: str, final: bool = True, late: bool = False) -> tuple[TurnItem, Any]:
    item = TurnItem(seq, f"r{seq}", "tool", "tool", 5, 15, "", (), () if late else (Result(id, final),), late=late)
    return item, {"role": "tool", "tool_call_id": id, "content": f"result {seq}"}


def view(*pairs: tuple[TurnItem, Any] | Node | Note, **more: Any) -> tuple[Lineage, dict[int, Any]]:
    items: list[Item] = [p[0] if isinstance(p, tuple) else p for p in pairs]
    head = max((place(i) for i in items), default=0)
    return Lineage(session="agent", digest="", head=head, items=tuple(items), **more), {
        p[0].seq: p[1] for p in pairs if isinstance(p, tuple)
    }


def texts(found: list[Any]) -> list[str]:
    return [messages.text_of(m).split("\n")[0] for m in found]


# --- nodes and notes -----------------------------------------------------------------------------------------------------


def test_a_summary_says_that_nobody_said_it_and_where_its_turns_are() -> None:
    """R21: untrusted derived data, labelled, with the handle."""
    text = node_text(SUMMARY)
    assert text.startswith("[lineal summary g3 of 6 turns, seq 1-8; derived, said by nobody;")
    assert 'expand("g3")' in text and text.endswith("\nThe build was moved.")


def test_a_spill_is_one_line_with_its_handle() -> None:
    text = node_text(SPILL)
    assert text.startswith("[lineal spill g5: 1 turn, seq 9-9, put aside byte-exact;") and 'expand("g5")' in text and "\n" not in text


def test_nothing_derived_is_a_users_or_an_assistants_turn() -> None:
    """R21: no lookup by role finds it as what somebody said."""
    lineage, contents = view(SUMMARY, Note(8, "[lineal notes] x", 5, 9), user(9), answer(10))
    found = render(lineage, contents)
    assert [m["role"] for m in found] == ["system", "system", "user", "assistant"]
    assert found[2:] == [contents[9], contents[10]], "what was said is shown as it was given, the very same"
    for dialect in ("anthropic", "responses"):
        derived = render(lineage, contents, dialect)[:2]
        assert all(messages.text_of(m).startswith("[lineal ") for m in derived)


def test_the_note_holds_what_a_summary_must_not_be_trusted_with() -> None:
    """R51: pins, unsettled effects with handles, what was done, open calls, anchors; fresh, by machine."""
    effects = (
        OpenEffect("k1", "deploy", "", 4, 1, False, True, True, 2, LEASE, handle="job/9"),
        OpenEffect("k2", "pay", "", 6, 1, False, True, True, 2, LEASE, "unknown", "timed out"),
    )
    lineage, _ = view(
        SUMMARY, call(9, "c1"), user(10), effects=effects, done=(Done("k3", "rotate", 5, "ok: 7"),), watermark=5,
        pins=(Pin("p", text="Never touch staging."),), anchors=(Anchor("path", "src/build.rs", 2),),
    )  # fmt: skip
    text = note_text(lineage, 400, COUNT.count, ["gone back from seq 9 to seq 3"])
    lines = text.split("\n")
    assert lines[0] == "[lineal notes at seq 10; kept by machine, said by nobody]"
    assert lines[1] == "gone back from seq 9 to seq 3"
    assert "pinned: Never touch staging." in lines
    assert "in flight: deploy (key k1, seq 4, ask job/9), not settled" in lines
    assert "unknown outcome: pay (key k2, seq 6), not to be repeated before it is resolved" in lines
    assert "- rotate (key k3, seq 5): ok: 7" in lines and any("watermark seq 5" in line for line in lines)
    assert "calls without a result: c1" in lines
    assert "src/build.rs" in text


def test_a_pinned_turn_from_before_the_summary_is_marked_as_old() -> None:
    """R12: it is no fresh request; work went on since."""
    lineage, _ = view(user(2), SUMMARY, user(9), pins=(Pin("u2", turn="u2"), Pin("u9", turn="u9")), covered_through=8)
    text = note_text(lineage, 400, COUNT.count)
    assert "turn u2 (seq 2, user) is kept verbatim from before; work went on since" in text
    assert "u9" not in text


def test_nothing_to_say_is_no_note() -> None:
    lineage, _ = view(user(1))
    assert note_text(lineage, 400, COUNT.count) == ""
    assert make_note(lineage, 400, COUNT) is None
    assert pin_note(lineage, Pin("u1", turn="u1"), COUNT) is None


def test_a_note_is_measured_as_it_will_be_shown() -> None:
    """R25."""
    lineage, _ = view(user(1), pins=(Pin("p", text="x" * 300),))
    note = make_note(lineage, 400, COUNT)
    assert note and note.tokens >= 100 and note.bytes > 300 and note.seq == 1
    fresh = pin_note(lineage, Pin("p", text="keep this"), COUNT)
    assert fresh and fresh.seq == 2 and "pinned: keep this" in fresh.text


def test_anchors_take_at_most_their_share_of_the_notes_budget() -> None:
    """R22: the note does not grow with the number of anchors; all of them stay in the view as data."""
    anchors = tuple(Anchor("id", f"value-{n:04}", n + 1) for n in range(2_000))
    lineage, _ = view(user(1), anchors=anchors)
    assert COUNT.count(note_text(lineage, 400, COUNT.count)) < 300
    assert "more in the record" in note_text(lineage, 400, COUNT.count)


# --- turns ---------------------------------------------------------------------------------------------------------------


def test_an_oversized_turn_is_shown_as_a_stub_and_a_late_result_as_derived_text() -> None:
    """R26, R51."""
    item, message = result(5, "c1")
    large = {**message, "content": "x" * 5_000}
    stubbed = TurnItem(5, "r5", "tool", "tool", 5, 15, "", results=item.results, stubbed=1_024)
    assert turn_message(item, large) is large
    cut = turn_message(stubbed, large)
    assert 'expand("t:r5")' in cut["content"] and len(cut["content"]) < 1_024 and cut["tool_call_id"] == "c1"
    assert turn_message(stubbed, message) is message, "what became small enough is shown whole"
    late, said = result(6, "gone", late=True)
    assert turn_message(late, said) == {"role": "system", "content": "[lineal: late result, its call has left the view]\nresult 6"}
    huge = turn_message(TurnItem(6, "r6", "tool", "tool", 5, 15, "", stubbed=1_024, late=True), {**said, "content": "x" * 5_000})
    assert huge["content"].startswith("[lineal: late result") and 'expand("t:r6")' in huge["content"] and len(huge["content"]) < 1_024


def test_what_a_host_dropped_is_not_shown() -> None:
    item, message = user(1)
    gone = TurnItem(1, "u1", "user", "user", 0, 0, "", gone=True)
    lineage, contents = view((gone, message), user(2))
    assert texts(render(lineage, contents)) == ["request 2"]
    assert item.id == gone.id


def test_each_message_comes_with_the_item_it_shows() -> None:
    lineage, contents = view(SUMMARY, call(9, "c1"), user(10))
    pairs = list(shown(lineage, contents))
    assert [type(item).__name__ for item, _ in pairs] == ["Node", "TurnItem", "Call", "TurnItem"]
    assert [m for _, m in pairs] == render(lineage, contents)


# --- pairs ---------------------------------------------------------------------------------------------------------------


def test_a_call_that_waits_at_the_end_is_left_open() -> None:
    """R11: nothing is made up while the result may still come; neither is what is pending."""
    lineage, contents = view(user(1), call(2, "c1", "c2"), result(3, "c1"))
    assert texts(render(lineage, contents))[2:] == ["result 3"]
    lineage, contents = view(user(1), call(2, "c1"), result(3, "c1", final=False), user(4))
    assert texts(render(lineage, contents))[2:] == ["result 3", "request 4"]


def test_a_call_that_was_overtaken_gets_a_derived_result_that_claims_nothing() -> None:
    """Pairs are whole for every provider, and an unknown outcome is said to be unknown."""
    lineage, contents = view(user(1), call(2, "c1", "c2"), result(3, "c1"), user(4))
    found = render(lineage, contents)
    answers = {m["tool_call_id"]: m["content"] for m in found if m["role"] == "tool"}
    assert answers["c1"] == "result 3" and answers["c2"].startswith("[outcome unknown]")
    assert texts(found)[-1] == "request 4"
    roles = [m["role"] for m in found]
    assert roles == ["user", "assistant", "tool", "tool", "user"], "results stand right behind their call"


def test_a_result_that_came_after_other_turns_is_shown_behind_its_call() -> None:
    """R11: in any order, with records between."""
    lineage, contents = view(call(1, "c1"), user(2), answer(3), result(4, "c1"))
    assert texts(render(lineage, contents))[1:] == ["result 4", "request 2", "answer 3"]


def test_what_is_derived_comes_behind_what_was_shown_before() -> None:
    """R28: a call that is overtaken later on does not move the results that stood there."""
    before = render(*view(user(1), call(2, "c1", "c2"), result(3, "c1")))
    after = render(*view(user(1), call(2, "c1", "c2"), result(3, "c1"), user(4)))
    assert after[: len(before)] == before and texts(after)[-1] == "request 4"


def test_no_note_stands_between_a_call_and_its_result() -> None:
    """R11: providers take a result only right behind its call."""
    lineage, contents = view(user(1), call(2, "c1"), Note(3, "[lineal notes] pinned: x", 5, 9), result(4, "c1"), user(5))
    assert [m["role"] for m in render(lineage, contents)] == ["user", "assistant", "tool", "system", "user"]


def test_an_interim_result_of_an_earlier_call_answers_no_later_one() -> None:
    """Ids are used again: what was pending once does not keep the next call from being closed."""
    lineage, contents = view(call(1, "c"), result(2, "c", final=False), result(3, "c"), user(4), call(5, "c"), user(6))
    found = render(lineage, contents)
    assert [m["role"] for m in found] == ["assistant", "tool", "tool", "user", "assistant", "tool", "user"]
    assert found[5]["content"].startswith("[outcome unknown]")


def test_a_reused_id_goes_to_the_newest_call() -> None:
    lineage, contents = view(call(1, "c"), result(2, "c"), user(3), call(4, "c"), result(5, "c"), user(6))
    assert texts(render(lineage, contents)) == ["tool(look {})", "result 2", "request 3", "tool(look {})", "result 5", "request 6"]


def test_a_result_without_its_call_is_never_shown() -> None:
    """R11: the compaction rule keeps units whole, so this is damage, and named."""
    lineage, contents = view(user(1), result(2, "lost"))
    with pytest.raises(Corrupt, match="lost") as damage:
        render(lineage, contents)
    assert damage.value.seq == 2


def test_every_dialect_can_be_asked_for() -> None:
    lineage, contents = view(SUMMARY, user(9), call(10, "c1"), result(11, "c1"), user(12))
    for dialect in ("openai", "responses", "anthropic"):
        found = render(lineage, contents, dialect)
        assert messages.text_of(found[0]).startswith("[lineal summary g3")
        assert "result 11" in str(found) and "request 12" in str(found)
