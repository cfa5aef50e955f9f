"""LangChain messages, as they lie in a store, in Anthropic shape: it alone carries the error flag of a result. Pure.

A message is known by what it is made from (`type` and `content`), whatever its class: as an object of the serializer, as
the `lc` envelope of older stores, as a plain dict, or in OpenAI's chat shape, which stays as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, time
from typing import Any

from lineal.codec import digest, sorted_json
from lineal.errors import PolicyError
from lineal.messages import parse
from lineal.messages.blocks import arguments, compact, string
from lineal.transcripts.packed import Typed

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool", "developer": "system"}
_CHAT = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system", "tool": "tool"}
ALL = "__remove_all__"
SUMMARY_MARK = "summarization"
MAX_DEPTH = 100  # as in `lineal.codec`, with room for the message around it


@dataclass(frozen=True)
class Message:
    """`id` is the store's, or made from what is said. `is_summary`: LangChain's own middleware marked it as one."""

    id: str
    message: dict[str, Any]
    author: str
    is_summary: bool = False
    own_id: bool = True


@dataclass(frozen=True)
class Removal:
    """An order to take a message, or all of them (`ALL`), out of the list."""

    id: str


@dataclass(frozen=True)
class Unreadable:
    """Something in a list of messages that is none."""

    why: str
    raw: bytes


Held = Message | Removal | Unreadable


def is_messages(value: Any) -> bool:
    """True for a list of messages with at least one in it."""
    return isinstance(value, list) and bool(value) and all(not isinstance(read(one), Unreadable) for one in value[:8])


def read(value: Any) -> Held:
    """One value of a list of messages. Never raises."""
    made = _made(value)
    if made is None:
        return _unreadable(value)
    kind = string(made, "type").removesuffix("MessageChunk").lower()
    if kind == "remove":
        return Removal(string(made, "id"))
    if kind not in _ROLES and kind != "chat" and string(made, "role") in _CHAT:
        return _given(made)
    author = _ROLES.get(kind) or (_CHAT.get(string(made, "role"), "user") if kind == "chat" else "")
    if not author or not isinstance(made.get("content"), str | list):
        return _unreadable(value)
    more = made.get("additional_kwargs")
    marked = isinstance(more, dict) and more.get("lc_source") == SUMMARY_MARK
    message = _result(made) if author == "tool" else {"role": author, "content": _content(made)}
    return _named(string(made, "id"), message, author, marked)


def _made(value: Any) -> dict[str, Any] | None:
    """What the message is made from: its fields."""
    held = value.value if isinstance(value, Typed) else value
    if not isinstance(held, dict):
        return None
    if held.get("type") == "constructor" and isinstance(held.get("kwargs"), dict) and isinstance(held.get("id"), list):
        names = [str(name) for name in held["id"][-1:]]
        kind = names[0].removesuffix("Chunk").removesuffix("Message").lower() if names else ""
        return {"type": kind, **held["kwargs"]}
    return held


def _given(made: dict[str, Any]) -> Held:
    message = {key: value for key, value in made.items() if key != "id"}
    return _named(string(made, "id"), message, _CHAT[made["role"]], False)


def _named(id: str, given: dict[str, Any], author: str, marked: bool) -> Held:
    message = as_json(given)
    try:
        parse(message, author)
    except PolicyError as e:
        return Unreadable(f"no message: {e.verdict.message}", sorted_json(message))
    own = id or f"said-{digest(sorted_json(message))[:8].hex()}"
    return Message(own, message, "system" if marked else author, marked, bool(id))


def as_json(value: Any, depth: int = 0) -> Any:
    """A value of the serializer as a JSON value: what JSON has not is text that names it."""
    if depth > MAX_DEPTH:
        return "[nested too deeply]"
    if isinstance(value, Typed):
        return as_json(value.value, depth + 1)
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): as_json(held, depth + 1) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(held, depth + 1) for held in value]
    if isinstance(value, bytes | bytearray):
        return f"[{len(value):,} bytes]"
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def _content(made: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks, with each call once: LangChain keeps a second copy of the calls in the content."""
    content = made["content"]
    given = [content] if isinstance(content, str) else content
    blocks = [b if string(b, "type") else {"type": "text", "text": compact(as_json(b))} for b in given if b not in ("", None)]
    listed = [held for name in ("tool_calls", "invalid_tool_calls") if isinstance(held := made.get(name), list)]
    calls = [call for held in listed for call in held if isinstance(call, dict)]
    if calls:
        blocks = [b for b in blocks if string(b, "type") not in ("tool_use", "function_call", "tool_call")]
    return blocks + [_call(c) for c in calls]


def _call(call: dict[str, Any]) -> dict[str, Any]:
    given = arguments(call.get("args"))
    return {"type": "tool_use", "id": string(call, "id"), "name": string(call, "name"), "input": {} if given is None else given}


def _result(made: dict[str, Any]) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": string(made, "tool_call_id"), "content": made["content"]}
    if string(made, "status") == "error":
        block["is_error"] = True
    return {"role": "user", "content": [block]}


def _unreadable(value: Any) -> Unreadable:
    name = f"{value.module}.{value.name}" if isinstance(value, Typed) else type(value).__name__
    return Unreadable(f"no message: {name}", repr(value)[:2_000].encode("utf-8", "replace"))


# --- a list of messages, and what is written to it -------------------------------------------------------------------


def unique(held: list[Held]) -> list[Held]:
    """Messages without an id of their own that say the same are told apart by their order."""
    seen: dict[str, int] = {}
    out: list[Held] = []
    for one in held:
        if isinstance(one, Message) and not one.own_id:
            seen[one.id] = seen.get(one.id, 0) + 1
            if seen[one.id] > 1:
                one = Message(f"{one.id}.{seen[one.id]}", one.message, one.author, one.is_summary, False)
        out.append(one)
    return out


def written(before: list[Held], writes: list[Any]) -> list[Held]:
    """The list behind writes to it, as LangGraph's own reducer for messages has it: by id added, replaced, or removed."""
    now = list(before)
    for write in writes:
        value = _overwriting(write)
        if value is not None:
            now = [read(one) for one in value]
            continue
        for one in write if isinstance(write, list) else [write]:
            now = _one(now, read(one))
    return unique(now)


def _overwriting(write: Any) -> list[Any] | None:
    held = write.value if isinstance(write, Typed) and write.name == "Overwrite" else write
    if isinstance(held, dict):
        held = held.get("__overwrite__", held.get("value") if held is not write else None)
        return held if isinstance(held, list) else None
    return None


def _one(now: list[Held], one: Held) -> list[Held]:
    if isinstance(one, Removal):
        return [] if one.id == ALL else [m for m in now if not (isinstance(m, Message) and m.id == one.id)]
    if isinstance(one, Message) and one.own_id and any(isinstance(m, Message) and m.id == one.id for m in now):
        return [one if isinstance(m, Message) and m.id == one.id else m for m in now]
    return [*now, one]
