"""R26: what is too large for the view becomes a few words and a handle."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineal import codec
from lineal.messages import convert, parse, stub, text_of

BIG = "x" * 2_000
LIMIT = 1_000
HANDLE = "t:abc"


def size(value):
    return len(codec.to_json(value))


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [{"type": "text", "text": "x" * 700}, {"type": "text", "text": "y" * 700}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": BIG}}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"text": BIG}}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": BIG, "signature": "s"}]},
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": BIG}]},
        {"role": "assistant", "content": [{"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"encrypted_content": BIG}]}]},
        {"role": "assistant", "content": [{"type": "block_of_next_year", "text": BIG}]},
        {"type": "reasoning", "summary": [], "encrypted_content": BIG},
        {"type": "compaction", "encrypted_content": BIG},
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": BIG}},
        "no message at all " + BIG,
    ],
)
def test_small_signed_and_unknown_blocks_and_arguments_are_left_alone(message):
    """R13"""
    assert stub(message, LIMIT, HANDLE) is None


@pytest.mark.parametrize(
    ("message", "kind", "place"),
    [
        ({"role": "user", "content": BIG}, "text", ("content",)),
        ({"role": "user", "content": [{"type": "text", "text": BIG}]}, "text", ("content", 0, "text")),
        ({"role": "tool", "tool_call_id": "c", "content": BIG}, "tool result", ("content",)),
        (
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": BIG}]},
            "tool result",
            ("content", 0, "content"),
        ),
        ({"type": "function_call_output", "call_id": "c", "output": BIG}, "tool result", ("output",)),
        (
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": BIG, "annotations": []}]},
            "text",
            ("content", 0, "text"),
        ),
    ],
)
def test_text_keeps_its_head(message, kind, place):
    before = copy.deepcopy(message)
    shown = stub(message, LIMIT, HANDLE)
    assert message == before
    for step in place:
        shown, message = shown[step], message[step]
    head, _, line = shown.rpartition("\n")
    assert 0 < len(head) <= 400 and message.startswith(head)
    assert line.startswith(f"[{kind}, 2,0") and line.endswith(' bytes, put aside byte-exact: expand("t:abc")]')


@pytest.mark.parametrize(
    ("message", "block"),
    [
        (
            {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BIG}}]},
            {"type": "text", "text": "image/png"},
        ),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/jpeg;base64," + BIG}}]},
            {"type": "text", "text": "image/jpeg"},
        ),
        (
            {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/webp;base64," + BIG}]},
            {"type": "input_text", "text": "image/webp"},
        ),
        (
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": BIG, "format": "wav"}}]},
            {"type": "text", "text": "audio/wav"},
        ),
        (
            {"role": "user", "content": [{"type": "document", "source": {"type": "text", "data": BIG}}]},
            {"type": "text", "text": "document"},
        ),
        (
            {
                "type": "function_call_output",
                "call_id": "c",
                "output": [{"type": "input_image", "image_url": "data:image/png;base64," + BIG}],
            },
            {"type": "input_text", "text": "image/png"},
        ),
    ],
)
def test_media_are_named_in_the_words_of_their_dialect(message, block):
    shown = stub(message, LIMIT, HANDLE)
    (found,) = shown.get("content") or shown["output"]
    assert found["type"] == block["type"]
    assert found["text"].startswith(f"[{block['text']}, 2,")
    assert convert([shown], parse(message).dialect)[0] is shown


def test_only_the_block_that_is_too_large_is_cut():
    """R13: the rest stays the same object, the call's answer stays an answer to that call."""
    small, image = {"type": "text", "text": "look"}, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BIG}}
    sealed = {"type": "tool_use", "id": "c9", "name": "f", "input": {"x": BIG}}
    message = {
        "role": "user",
        "content": [small, {"type": "tool_result", "tool_use_id": "c1", "content": [small, image], "is_error": True}, sealed],
    }
    shown = stub(message, LIMIT, HANDLE)
    assert shown["content"][0] is small and shown["content"][2] is sealed
    result = shown["content"][1]
    assert result["tool_use_id"] == "c1" and result["is_error"] is True
    assert result["content"][0] is small
    assert result["content"][1]["text"].startswith("[image/png, 2,")


def test_a_result_of_many_small_blocks_is_cut_as_one():
    blocks = [{"type": "text", "text": f"part {i} " + "x" * 100} for i in range(30)]
    for message in (
        {"role": "tool", "tool_call_id": "c1", "content": blocks},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": blocks}]},
    ):
        shown = stub(message, LIMIT, HANDLE)
        assert size(shown) < LIMIT
        assert text_of(shown).startswith("part 0 ")
        assert parse(shown).results == parse(message).results


blocks = st.lists(
    st.builds(lambda t: {"type": "text", "text": t}, st.text(alphabet=st.characters(codec=None), max_size=30).map(lambda t: t * 40))
    | st.builds(
        lambda n: {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * n}}, st.integers(0, 2_000)
    )
    | st.builds(lambda n: {"type": "thinking", "thinking": "t" * n, "signature": "s"}, st.integers(0, 2_000)),
    max_size=4,
)


@settings(deadline=None)
@given(blocks | st.text(max_size=60).map(lambda t: t * 40), st.sampled_from(["user", "tool", "anthropic"]), st.integers(256, 4_000))
def test_a_stub_is_never_larger_and_never_cut_again(content, shape, limit):
    message = {"role": "user", "content": content}
    if shape == "tool":
        message = {"role": "tool", "tool_call_id": "c1", "content": content}
    if shape == "anthropic":
        message = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": content}]}
    shown = stub(message, limit, HANDLE)
    if shown is None:
        return
    assert size(shown) < size(message)
    assert stub(shown, limit, HANDLE) is None
    before, after = parse(message), parse(shown)
    assert (before.role, before.author, before.results) == (after.role, after.author, after.results)
