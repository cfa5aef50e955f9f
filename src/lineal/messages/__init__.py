"""Turn <-> provider dialects: blocks, call and result ids, author. Pure.

Three dialects: `openai` (chat completions), `responses` (OpenAI Responses input items), `anthropic`. A message is kept
and given back as it came; everything here only reads it, or makes another one from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from lineal import codec
from lineal.entries import Call, Result
from lineal.errors import PolicyError, Verdict, quoted
from lineal.messages.blocks import Said, ToolCall, ToolResult, interim, joined_text, string
from lineal.messages.dialects import ANTHROPIC, DIALECTS, OPENAI, RESPONSES, check, convert, dialect_of, native, read
from lineal.messages.stubs import stub

__all__ = [
    "DIALECTS",
    "Parsed",
    "arguments_of",
    "convert",
    "dialect_of",
    "machine_message",
    "missing_result",
    "outcome_of",
    "parse",
    "result_text",
    "stub",
    "text_of",
    "tool_of",
]


@dataclass(frozen=True)
class Parsed:
    """What the log keeps beside a message. `role` is as given; `author` is who really said it (R19)."""

    role: str
    author: str
    dialect: str
    calls: tuple[Call, ...]
    results: tuple[Result, ...]


def parse(message: Any, author: str | None = None) -> Parsed:
    """Who says what in a JSON message, and which calls and results it holds, block by block (R11).

    `author` given by the caller wins. Raises `PolicyError` (rule "append") for what is no message.
    """
    _refuse_unless_message(message)
    if author is not None and (not isinstance(author, str) or not author):
        raise _refused("author", f"author is {quoted(author, 60)}.", "pass a name that is not empty, or none")
    said = read(message)
    calls = tuple(Call(b.id, b.tool, codec.arguments_digest(b.arguments)) for b in said.blocks if isinstance(b, ToolCall) and b.id)
    waiting = interim(message)
    results = tuple(Result(b.call, not (b.interim or waiting)) for b in said.blocks if isinstance(b, ToolResult) and b.call)
    return Parsed(said.role, author or _author(said, message), native(message)[0], calls, results)


_AUTHORS = {"function": "tool", "developer": "system"}


def _author(said: Said, message: dict[str, Any]) -> str:
    if message.get("type") == "mcp_approval_response":
        return "user"
    if said.role == "user" and said.blocks and all(isinstance(b, ToolResult) for b in said.blocks):
        return "tool"
    return _AUTHORS.get(said.role, said.role)


# --- what is no message ----------------------------------------------------------------------------------------------

_BLOCK_TYPES = re.compile(r"text|\w*_text|\w*tool_use|\w*tool_result|(redacted_)?thinking|image(_url)?|input_\w+|document|refusal|toolCall")
_WRAPPED = ("user", "assistant", "system", "human", "ai", "tool")


def _refuse_unless_message(message: Any) -> None:
    if not isinstance(message, dict):
        raise _refused("not_a_message", f"the message is of type {type(message).__name__}.", 'pass a dict such as {"role": "user", ...}')
    role, kind, content = message.get("role"), message.get("type"), message.get("content")
    if role is None and not (isinstance(kind, str) and kind):
        keys = ", ".join(map(repr, list(message)[:8])) or "no keys"
        raise _refused("no_role", f"the message has neither a role nor a type (it has {keys}).", 'give it a "role"')
    if role is None and _BLOCK_TYPES.fullmatch(str(kind)):
        raise _refused("a_block", f"{kind!r} is a block, not a message.", 'put it into the "content" list of a message with a "role"')
    if role is None and kind in _WRAPPED:
        raise _refused("wrapped", f"the type is {kind!r} and there is no role: a message in a wrapper.", "pass the message inside it")
    if role is not None and not (isinstance(role, str) and role):
        raise _refused("role", f"the role is {quoted(role, 60)}.", 'give it a "role" that is a name, such as "user"')
    if role is not None and not isinstance(content, str | list | None):
        raise _refused("content", f"the content is of type {type(content).__name__}.", "make it a string or a list of blocks")
    for i, block in enumerate(content if role is not None and isinstance(content, list) else ()):
        if not isinstance(block, str | dict):
            raise _refused("content", f"content[{i}] is of type {type(block).__name__}.", "make each block a dict")
    calls = message.get("tool_calls")
    if calls is not None and not (isinstance(calls, list) and all(isinstance(call, dict) for call in calls)):
        raise _refused("tool_calls", "tool_calls is not a list of dicts.", "pass each call as a dict, or leave tool_calls out")


def _refused(reason: str, what: str, remedy: str) -> PolicyError:
    return PolicyError(Verdict("append", reason, message=what[0].upper() + what[1:], remedy=remedy))


# --- one call, one result --------------------------------------------------------------------------------------------


def arguments_of(message: Any, call_id: str) -> Any:
    """The parsed arguments of a call in the message; the raw string where it holds no JSON. Raises `PolicyError`."""
    return _call(message, call_id).arguments


def tool_of(message: Any, call_id: str) -> str:
    return _call(message, call_id).tool


def result_text(message: Any, call_id: str) -> str:
    """What came back for the call, as a person reads it. Raises `PolicyError` where the message holds no such result."""
    return joined_text(_result(message, call_id).parts)


def outcome_of(message: Any, call_id: str) -> Literal["done", "no_effect"]:
    """Whether the result says that nothing was done (R47): an error flag, or a chat result that opens with "Error".

    Anything less clear counts as done: only a plain refusal may let an effect be sent again.
    """
    found = _result(message, call_id)
    refused = message.get("role") == "tool" and re.match(r"Error\b", joined_text(found.parts))
    return "no_effect" if found.failed or refused else "done"


def _call(message: Any, call_id: str) -> ToolCall:
    found = [b for b in read(message).blocks if isinstance(b, ToolCall)]
    return next((b for b in found if b.id == call_id), None) or _missing("call", call_id, [b.id for b in found])


def _result(message: Any, call_id: str) -> ToolResult:
    found = [b for b in read(message).blocks if isinstance(b, ToolResult)]
    return next((b for b in reversed(found) if b.call == call_id), None) or _missing("result", call_id, [b.call for b in found])


def _missing(what: str, call_id: str, found: list[str]) -> Any:
    held = ", ".join(map(repr, found[:8])) or "none"
    raise PolicyError(
        Verdict("message", f"no_{what}", message=f"No {what} {call_id!r} in this message; it holds {held}.", remedy="name one of them")
    )


def text_of(message: Any) -> str:
    """All that a person would read in the message, for summarizers and search. Never raises.

    Thinking is left out; a call reads `tool(name {arguments})`, media `[image]`.
    """
    if not isinstance(message, dict):
        return message if isinstance(message, str) else ""
    return joined_text(read(message).blocks)


# --- messages that nobody said ---------------------------------------------------------------------------------------


def machine_message(text: str, dialect: str) -> dict[str, Any]:
    """How text that lineal derived (a summary, notes) is shown in `dialect`."""
    check(dialect)
    if dialect == OPENAI:
        return {"role": "system", "content": text}
    if dialect == RESPONSES:
        return {"type": "message", "role": "system", "content": [{"type": "input_text", "text": text}]}
    return {"role": "user", "content": [{"type": "text", "text": text}]}


UNKNOWN_OUTCOME = (
    "[outcome unknown] No result of this call was recorded. It may or may not have taken effect. Check what happened before you repeat it."
)


def missing_result(call: Call, dialect: str, said: Any = None) -> dict[str, Any]:
    """A result for a call that never got one: it only says that the outcome is unknown.

    `said` is the message that holds the call; Responses answers some kinds of call by an item of their own kind.
    """
    check(dialect)
    if dialect == OPENAI:
        return {"role": "tool", "tool_call_id": call.id, "content": UNKNOWN_OUTCOME}
    if dialect == ANTHROPIC:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": UNKNOWN_OUTCOME}]}
    kind = string(said, "type")
    if kind == "mcp_approval_request":
        return {"type": "mcp_approval_response", "approval_request_id": call.id, "approve": False, "reason": UNKNOWN_OUTCOME}
    answer = "custom_tool_call_output" if kind == "custom_tool_call" else "function_call_output"
    return {"type": answer, "call_id": call.id, "output": UNKNOWN_OUTCOME}
