"""Codex rollout JSONL, as items of the Responses API: each `response_item.payload` as it was given.

`event_msg` lines repeat the same for the screen, and `turn_context` and `session_meta` are the host's own: skipped. What a
developer message or an injected user message says (environment, repository instructions) has the author `system`.
A `compacted` line puts `replacement_history` in place of everything before it; the summary inside is encrypted, so the
boundary carries None, or the `message` of older versions. The items after it follow as usual.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lineal.messages.blocks import string
from lineal.transcripts.lines import Found, scan
from lineal.transcripts.records import Boundary, Damage, Ids, Item, Record, Tally, are_blocks, epoch, text_of

NAME = "codex"
_BY_AGENT = frozenset(
    {"reasoning", "function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call", "image_generation_call"}
)
_BY_TOOL = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
_INJECTED = ("# AGENTS.md instructions", "<environment_context>", "<user_instructions>", "<turn_aborted>", "<skill>", "<permissions")


def is_record(value: dict[str, Any]) -> bool:
    return isinstance(value.get("type"), str) and isinstance(value.get("payload"), dict) and "timestamp" in value


def read(path: Path, conversation: int, tally: Tally) -> Iterator[Item]:
    """The rollout in `path`, streaming. Memory: one line, and the ids."""
    ids = Ids()
    for found in scan(path, is_record, tally):
        item = found if isinstance(found, Damage) else _item(found, ids, tally)
        if item is not None:
            yield item


def _item(found: Found, ids: Ids, tally: Tally) -> Item | None:
    kind, payload = found.value["type"], found.value["payload"]
    if kind == "compacted":
        return _compacted(found)
    if kind != "response_item":
        tally[f"{kind}/{payload['type']}" if kind == "event_msg" and "type" in payload else kind] += 1
        return None
    author = _author(payload)
    if author is None:
        tally[f"response_item/{payload.get('type')}"] += 1
        return None
    if payload["type"] == "message" and not are_blocks(payload.get("content")):
        return found.damage("a message without content")
    if payload["type"] in _BY_TOOL and not isinstance(payload.get("call_id"), str):
        return found.damage(f"a {payload['type']} without a call_id")
    return Record(found.line, ids.unique(_id(payload)), payload, author, epoch(found.value["timestamp"]), found.place)


def _author(payload: dict[str, Any]) -> str | None:
    """Who wrote the item; None for an item that the model is not shown."""
    kind, role = payload.get("type"), payload.get("role")
    if not isinstance(kind, str):
        return None
    if kind in _BY_AGENT:
        return "assistant"
    if kind in _BY_TOOL:
        return "tool"
    if kind != "message":
        return None
    if role == "user":
        return "system" if text_of(payload.get("content")).startswith(_INJECTED) else "user"
    return "assistant" if role == "assistant" else "system"


def _id(payload: dict[str, Any]) -> Any:
    if payload["type"] in _BY_TOOL:
        return f"{payload['call_id']}:output"
    return payload.get("id") or payload.get("call_id")


def _compacted(found: Found) -> Boundary:
    payload = found.value["payload"]
    detail = {name: payload[name] for name in ("window_number", "replacement_history") if name in payload}
    return Boundary(found.line, "compaction", string(payload, "message") or None, detail)
