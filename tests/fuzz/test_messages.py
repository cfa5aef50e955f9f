"""Any JSON as a message: it comes back exactly and can be shown in every dialect, or that one message is refused (R7, R13)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineal import codec
from lineal.engines.memory import MemoryEngine
from lineal.errors import LinealError, Refused
from lineal.messages import DIALECTS, convert, parse, stub, text_of
from lineal.store import Store
from lineal.testing.fuzzing import changed
from lineal.testing.fuzzing.samples import DIALOGUES

TEXTS = st.text(st.one_of(st.characters(), st.characters(categories=["Cs", "Cc"])), max_size=12)
NUMBERS = st.one_of(st.integers(), st.floats(), st.sampled_from([10**400, 10**4_200, 2**63]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)
KEYS = st.sampled_from(
    ["role", "type", "content", "text", "tool_calls", "tool_call_id", "call_id", "id", "name", "arguments", "output", "source", "refusal"]
)
WORDS = st.sampled_from(["user", "assistant", "tool", "system", "message", "function_call", "function_call_output", "reasoning", "item"])
SHAPED = st.dictionaries(KEYS, st.one_of(WORDS, VALUES), max_size=5)
BLOCKS = st.lists(
    st.dictionaries(KEYS, st.one_of(VALUES, st.sampled_from(["text", "tool_use", "tool_result", "image", "document", "thinking"]))),
    max_size=3,
)


def given_and_got(message: Any) -> bool:
    """Whether it was taken; then it is the same again, from the log and in the view, and every dialect can show it."""
    session = Store(MemoryEngine()).session("agent")
    try:
        turn = session.append(message)
    except Refused as refusal:
        assert refusal.remedy and session.status().head == 0
        return False
    turns = turn if isinstance(turn, list) else [turn]
    said = [codec.to_json(m) for m in (message if isinstance(message, list) else [message])]
    assert [codec.to_json(t.message) for t in turns] == said == [codec.to_json(m) for m in session.messages()]
    for dialect in DIALECTS:
        codec.to_json(session.messages(dialect))
    assert session.verify().clean
    return True


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_any_value(value: Any) -> None:
    given_and_got(value)


@settings(max_examples=200, deadline=None)
@given(st.one_of(SHAPED, st.builds(lambda role, blocks: {"role": role, "content": blocks}, WORDS, BLOCKS)))
def test_any_value_that_looks_like_a_message(message: Any) -> None:
    given_and_got(message)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([*DIALOGUES]), st.integers(0, 2**32))
def test_real_messages_changed(dialect: str, seed: int) -> None:
    """All that was taken of a dialogue is shown together in each dialect too."""
    rng = Random(seed)
    session = Store(MemoryEngine()).session("agent")
    taken = []
    for message in (changed(m, rng, 0.05) for m in DIALOGUES[dialect]):
        try:
            taken += [turn.message for turn in session.append([message])]
        except Refused as refusal:
            assert refusal.remedy
    for wanted in DIALECTS:
        codec.to_json(session.messages(wanted))
        codec.to_json(convert(taken, wanted))


@pytest.mark.parametrize("dialect", DIALOGUES)
def test_the_samples_are_taken_whole(dialect: str) -> None:
    session = Store(MemoryEngine()).session("agent")
    assert [t.message for t in session.append([*DIALOGUES[dialect]])] == [*DIALOGUES[dialect]] == session.messages()


@settings(max_examples=150, deadline=None)
@given(st.one_of(SHAPED, VALUES))
def test_reading_a_message_never_crashes(message: Any) -> None:
    text_of(message)
    try:
        parse(message)
        codec.to_json(message)
    except (LinealError, ValueError):  # no message, or what no JSON can hold: neither is ever appended
        return
    stub(message, 16, "t:x")
