"""One message: who says it, which calls and results it holds, what a person reads in it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineal import codec
from lineal.entries import Call, Result
from lineal.errors import PolicyError
from lineal.messages import (
    DIALECTS,
    arguments_of,
    convert,
    machine_message,
    missing_result,
    outcome_of,
    parse,
    result_text,
    text_of,
    tool_of,
)

ARGS = {"path": "a.py", "line": 3}
DIGEST = codec.arguments_digest(ARGS)


def chat_call(call_id="c1", arguments='{"path": "a.py", "line": 3}'):
    return {"id": call_id, "type": "function", "function": {"name": "edit", "arguments": arguments}}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def tool_use(call_id="c1", **more):
    return {"type": "tool_use", "id": call_id, "name": "edit", "input": ARGS, **more}


def tool_result(call_id="c1", content="ok", **more):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


# --- author ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "role", "author"),
    [
        ({"role": "user", "content": "hi"}, "user", "user"),
        ({"role": "assistant", "content": "hi"}, "assistant", "assistant"),
        ({"role": "system", "content": "hi"}, "system", "system"),
        ({"role": "developer", "content": "hi"}, "developer", "system"),
        ({"role": "tool", "tool_call_id": "c1", "content": "ok"}, "tool", "tool"),
        ({"role": "function", "name": "f", "content": "ok"}, "function", "tool"),
        ({"role": "exit", "content": "diff"}, "exit", "exit"),
        (user(tool_result()), "user", "tool"),
        (user(tool_result("c1"), tool_result("c2")), "user", "tool"),
        (user({"type": "text", "text": "also do X"}, tool_result()), "user", "user"),
        (user(), "user", "user"),
        ({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}, "user", "user"),
        ({"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}, "assistant", "assistant"),
        ({"type": "function_call_output", "call_id": "c1", "output": "ok"}, "tool", "tool"),
        ({"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}, "assistant", "assistant"),
        ({"type": "some_item_of_next_year", "x": 1}, "assistant", "assistant"),
        ({"type": "mcp_approval_response", "approval_request_id": "a1", "approve": True}, "tool", "user"),
    ],
)
def test_author_is_known_apart_from_role(message, role, author):
    """R19: words in a message of role "user" are a user's only where a user wrote them."""
    parsed = parse(message)
    assert (parsed.role, parsed.author) == (role, author)


def test_the_caller_knows_best_who_said_it():
    assert parse({"role": "user", "content": "hi"}, author="cron").author == "cron"


# --- calls and results -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "tool_calls": [chat_call()]},
        {"role": "assistant", "content": None, "tool_calls": [chat_call(arguments='{"line": 3, "path": "a.py"}')]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "name": "edit", "arguments": ARGS, "requestor": "assistant"}]},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "function": "edit", "args": ARGS}]},
        {"type": "function_call", "call_id": "c1", "name": "edit", "arguments": json.dumps(ARGS), "id": "fc_9"},
        assistant({"type": "text", "text": "now"}, tool_use()),
        assistant(tool_use(input={"line": 3, "path": "a.py"}, type="server_tool_use")),
        assistant(tool_use(type="mcp_tool_use")),
    ],
)
def test_the_same_call_is_found_in_every_dialect(message):
    parsed = parse(message)
    assert parsed.calls == (Call("c1", "edit", DIGEST),)
    assert arguments_of(message, "c1") == ARGS
    assert tool_of(message, "c1") == "edit"
    assert not parsed.results


@pytest.mark.parametrize(
    ("item", "tool", "arguments"),
    [
        ({"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": '{"a": 1}'}, "apply_patch", '{"a": 1}'),
        ({"type": "local_shell_call", "call_id": "c1", "action": {"type": "exec"}}, "local_shell", {"type": "exec"}),
        ({"type": "tool_search_call", "call_id": "c1", "arguments": {"query": "x"}}, "tool_search", {"query": "x"}),
        ({"type": "mcp_approval_request", "id": "c1", "name": "pay", "arguments": '{"sum": 5}'}, "pay", {"sum": 5}),
    ],
)
def test_responses_has_many_kinds_of_call(item, tool, arguments):
    assert parse(item).calls == (Call("c1", tool, codec.arguments_digest(arguments)),)
    assert arguments_of(item, "c1") == arguments


@pytest.mark.parametrize(
    "raw", ["", "{not json", '{"a": NaN}', '{"a": 1e999}', '"only words"', "[" * 5_000 + "]" * 5_000, "[" * 300 + "]" * 300, "9" * 5_000]
)
def test_arguments_that_json_cannot_hold_stay_the_string_they_came_as(raw):
    message = {"role": "assistant", "content": None, "tool_calls": [chat_call(arguments=raw)]}
    assert arguments_of(message, "c1") == raw
    assert parse(message).calls[0].arguments == codec.arguments_digest(raw)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "function_call": {"name": "edit", "arguments": "{}"}},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "edit", "arguments": "{}"}}]},
        {"role": "assistant", "content": "hi", "tool_calls": None},
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        assistant({"type": "tool_use", "name": "edit", "input": {}}),
    ],
)
def test_a_call_without_an_id_is_no_call_that_could_stay_open(message):
    assert parse(message).calls == ()


@pytest.mark.parametrize(
    "message",
    [
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "ok"}]},
        {"role": "tool", "id": "c1", "content": "ok", "error": False},
        {"role": "tool", "tool_call_ids": ["c1"], "content": "ok"},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "ok"}]},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
        {"type": "local_shell_call_output", "id": "c1", "output": "ok"},
        user(tool_result()),
        user(tool_result(content=[{"type": "text", "text": "ok"}])),
        assistant(tool_result(type="mcp_tool_result")),
    ],
)
def test_the_same_result_is_found_in_every_dialect(message):
    assert parse(message).results == (Result("c1"),)
    assert result_text(message, "c1") == "ok"
    assert outcome_of(message, "c1") == "done"


@pytest.mark.parametrize(
    "message",
    [
        {"role": "tool", "tool_call_id": "c1", "content": "started", "status": "pending"},
        {"type": "function_call_output", "call_id": "c1", "output": "", "status": "in_progress"},
        user(tool_result(status="pending")),
    ],
)
def test_an_interim_result_does_not_close_its_call(message):
    """R11"""
    assert parse(message).results == (Result("c1", final=False),)


def test_one_message_may_hold_several_calls_and_results():
    """R11: the check is per block, so every block must be seen."""
    said = assistant(tool_use("c1"), tool_result("s1", type="web_search_tool_result", content=[]), tool_use("c2"))
    assert [c.id for c in parse(said).calls] == ["c1", "c2"]
    assert parse(said).results == (Result("s1"),)
    answer = user(tool_result("c1"), {"type": "text", "text": "and"}, tool_result("c2", status="pending"))
    assert parse(answer).results == (Result("c1"), Result("c2", final=False))


def test_a_second_copy_of_the_calls_in_the_content_is_not_a_second_call():
    message = {"role": "assistant", "content": [{"type": "text", "text": "x"}, tool_use()], "tool_calls": [chat_call()]}
    assert len(parse(message).calls) == 1


@pytest.mark.parametrize(
    ("message", "outcome"),
    [
        (user(tool_result(is_error=True)), "no_effect"),
        (user(tool_result(is_error=False)), "done"),
        (user(tool_result(content="Error: was printed by the program")), "done"),
        ({"role": "tool", "tool_call_id": "c1", "content": "Error: seat is taken"}, "no_effect"),
        ({"role": "tool", "tool_call_id": "c1", "content": "Errors fixed: 3"}, "done"),
        ({"role": "tool", "tool_call_id": "c1", "content": "no Error"}, "done"),
        ({"role": "tool", "id": "c1", "content": "x", "error": True}, "no_effect"),
        ({"role": "tool", "tool_call_id": "c1", "content": "x", "error": "ValueError: no such user"}, "no_effect"),
        ({"role": "tool", "tool_call_id": "c1", "content": "x", "error": None}, "done"),
        ({"type": "function_call_output", "call_id": "c1", "output": "Error: exit 1 after push"}, "done"),
    ],
)
def test_only_a_plain_refusal_is_no_effect(message, outcome):
    """R47: whatever is less than clear counts as done, for a wrong "no effect" would be sent twice."""
    assert outcome_of(message, "c1") == outcome


def test_asking_for_a_call_that_is_not_there_names_those_that_are():
    with pytest.raises(PolicyError, match="'c1'.*way out|'c1'.*Way out"):
        arguments_of(assistant(tool_use("c1")), "c9")
    with pytest.raises(PolicyError, match="none"):
        result_text(assistant(tool_use("c1")), "c1")


# --- what is no message ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("hi", "not_a_message"),
        (None, "not_a_message"),
        ([{"role": "user", "content": "hi"}], "not_a_message"),
        ({}, "no_role"),
        ({"content": "hi"}, "no_role"),
        ({"type": "", "content": "hi"}, "no_role"),
        ({"type": 5}, "no_role"),
        ({"type": "text", "text": "hi"}, "a_block"),
        (tool_use(), "a_block"),
        (tool_result(), "a_block"),
        ({"type": "input_text", "text": "hi"}, "a_block"),
        ({"type": "user", "message": {"role": "user", "content": "hi"}}, "wrapped"),
        ({"role": "", "content": "hi"}, "role"),
        ({"role": 1, "content": "hi"}, "role"),
        ({"role": "user", "content": 5}, "content"),
        ({"role": "user", "content": {"type": "text", "text": "hi"}}, "content"),
        ({"role": "user", "content": [1]}, "content"),
        ({"role": "assistant", "content": "", "tool_calls": {"id": "c1"}}, "tool_calls"),
        ({"role": "assistant", "content": "", "tool_calls": ["c1"]}, "tool_calls"),
    ],
)
def test_what_is_no_message_is_refused_with_a_way_out(message, reason):
    with pytest.raises(PolicyError) as refused:
        parse(message)
    assert (refused.value.rule, refused.value.reason) == ("append", reason)
    assert refused.value.remedy and refused.value.verdict.message


@pytest.mark.parametrize("author", ["", 5])
def test_an_author_must_be_a_name(author):
    with pytest.raises(PolicyError, match="author"):
        parse({"role": "user", "content": "hi"}, author=author)


# --- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"role": "user", "content": "hi"}, "hi"),
        ({"role": "assistant", "content": None, "refusal": "no"}, "no"),
        (assistant({"type": "thinking", "thinking": "secret", "signature": "x"}, {"type": "text", "text": "done"}), "done"),
        (assistant(tool_use()), 'tool(edit {"path":"a.py","line":3})'),
        ({"role": "assistant", "content": "on it", "tool_calls": [chat_call()]}, 'on it\ntool(edit {"path":"a.py","line":3})'),
        ({"role": "assistant", "content": None, "tool_calls": [chat_call(arguments="{oops")]}, "tool(edit {oops)"),
        (
            user(tool_result(content=[{"type": "text", "text": "a"}, {"type": "image", "source": {}}]), {"type": "text", "text": "b"}),
            "a\n[image]\nb",
        ),
        (user({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}), "[image]"),
        (user({"type": "input_file", "filename": "plan.pdf", "file_data": "data:application/pdf;base64,AAAA"}), "[file plan.pdf]"),
        (user({"type": "document", "title": "T", "source": {"type": "text", "data": "words"}}), "T\nwords"),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "secret"}]}, ""),
        ({"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** Begin"}, "tool(apply_patch *** Begin)"),
        ({"type": "mcp_call", "name": "pay", "arguments": '{"sum":5}', "output": "paid"}, 'tool(pay {"sum":5})\npaid'),
        ({"type": "compaction", "encrypted_content": "gAAA"}, "[compaction]"),
    ],
)
def test_text_is_what_a_person_would_read(message, text):
    assert text_of(message) == text


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def mostly(expected):
    """One time in ten, any JSON value instead."""
    return st.integers(0, 9).flatmap(lambda n: expected if n else anything)


types = st.sampled_from(
    ["text", "input_text", "output_text", "refusal", "thinking", "image", "image_url", "input_image", "input_audio", "file", "document"]
    + ["search_result", "tool_use", "server_tool_use", "tool_result", "web_search_tool_result", "message", "function_call"]
    + ["function_call_output", "custom_tool_call", "mcp_approval_request", "web_search_call", "local_shell_call_output", "unheard_of"]
)
ids = st.sampled_from(["c1", "c2", ""])
block = st.deferred(
    lambda: st.fixed_dictionaries(
        {"type": mostly(types)},
        optional={
            "id": mostly(ids),
            "call_id": ids,
            "tool_use_id": mostly(ids),
            "name": mostly(st.just("edit")),
            "content": mostly(st.text() | st.lists(block, max_size=2) | block),
            "text": mostly(st.text()),
            "input": anything | st.just('{"a": 1}'),
            "output": mostly(st.text() | st.lists(block, max_size=2) | block),
            "source": anything | block,
            "image_url": anything | st.just({"url": "data:image/png;base64,AA=="}),
            "status": mostly(st.just("pending")),
        },
    )
)
call = st.fixed_dictionaries(
    {"id": mostly(ids), "function": mostly(block)}, optional={"custom": block, "name": anything, "arguments": anything}
)
role = mostly(st.sampled_from(["user", "assistant", "tool", "system", "exit"]))
content = mostly(st.text() | st.lists(block, max_size=3))
chat = st.fixed_dictionaries(
    {"role": role},
    optional={
        "content": content,
        "tool_calls": mostly(st.lists(call, max_size=2)),
        "function_call": mostly(call),
        "tool_call_id": mostly(ids),
        "tool_call_ids": mostly(st.lists(ids)),
        "error": anything,
        "refusal": anything,
    },
)
of_blocks = st.fixed_dictionaries({"role": role, "content": content}, optional={"type": types, "status": anything})
item = st.tuples(
    block, st.sampled_from(["function_call", "function_call_output", "custom_tool_call", "local_shell_call_output", "reasoning"])
)
odd = mostly(chat | of_blocks | item.map(lambda pair: {**pair[0], "type": pair[1]}))


@settings(deadline=None)
@given(odd)
def test_nothing_but_a_refusal_is_ever_raised(message):
    """R56: one bad record never breaks what reads it."""
    assert isinstance(text_of(message), str)
    try:
        parsed = parse(message)
    except PolicyError as refused:
        assert refused.rule == "append"
        return
    assert parsed.role and parsed.author and parsed.dialect in DIALECTS
    for call in parsed.calls:
        assert tool_of(message, call.id) is not None
    for result in parsed.results:
        assert isinstance(result_text(message, result.call), str)
    for dialect in DIALECTS:
        assert all(parse(made) for made in convert([message], dialect))


# --- messages that nobody said ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_derived_text_is_never_shown_as_an_assistants(dialect):
    """R21"""
    message = machine_message("summary", dialect)
    assert text_of(message) == "summary"
    assert parse(message).role != "assistant"
    assert convert([message], dialect)[0] is message


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_that_never_got_a_result_is_said_to_be_unknown(dialect):
    message = missing_result(Call("c1", "pay"), dialect)
    assert parse(message).results == (Result("c1"),)
    assert parse(message).dialect == dialect
    assert "unknown" in result_text(message, "c1") and "heck" in result_text(message, "c1")
    assert outcome_of(message, "c1") == "done"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ({"type": "custom_tool_call", "call_id": "c1", "name": "p", "input": ""}, "custom_tool_call_output"),
        ({"type": "mcp_approval_request", "id": "c1", "name": "pay"}, "mcp_approval_response"),
        ({"type": "function_call", "call_id": "c1", "name": "p"}, "function_call_output"),
    ],
)
def test_responses_answers_each_kind_of_call_by_its_own_kind(said, kind):
    message = missing_result(parse(said).calls[0], "responses", said)
    assert message["type"] == kind
    assert parse(message).results == (Result("c1"),)


@pytest.mark.parametrize(
    "ask", [lambda: machine_message("x", "klingon"), lambda: missing_result(Call("c"), "klingon"), lambda: convert([], "klingon")]
)
def test_an_unknown_dialect_is_refused(ask):
    with pytest.raises(PolicyError, match="klingon"):
        ask()
