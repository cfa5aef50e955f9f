"""pi session JSONL, as messages in Anthropic shape.

`toolCall` becomes `tool_use`, `toolResult` a user message with one `tool_result`, an image an Anthropic image source; a
thinking block keeps its signature. `bashExecution` is a command that the person ran: a user message that says so.
An assistant message without content (aborted before any output) was never shown to a model again: skipped and counted.

A compaction keeps the entries from `firstKeptEntryIndex` on, which counts the file's lines from 0; `kept_from_line` in the
boundary is the same, counted from 1. Sessions of later versions are trees: where an entry does not follow the one
before it, what stands before belongs in part to another branch, and that is `Damage`, since in file order they would mix.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lineal.transcripts.lines import Found, scan
from lineal.transcripts.records import NOWHERE, Boundary, Damage, Ids, Item, Record, Tally, are_blocks, epoch

NAME = "pi"
_AUTHORS = {"user": "user", "assistant": "assistant", "toolResult": "tool", "bashExecution": "user"}
_TYPES = frozenset({"session", "message", "compaction", "model_change", "thinking_level_change"})


def is_record(value: dict[str, Any]) -> bool:
    if value.get("type") == "message":
        message = value.get("message")
        return isinstance(message, dict) and isinstance(message.get("role"), str)
    return isinstance(value.get("type"), str) and "timestamp" in value and "payload" not in value and "sessionId" not in value


def begins(value: dict[str, Any]) -> bool:
    """Stricter than `is_record`: what tells this format from others."""
    return is_record(value) and value["type"] in _TYPES


def read(path: Path, conversation: int, tally: Tally) -> Iterator[Item]:
    """The session in `path`, streaming. Memory: one line, and the ids."""
    session = _Session(tally)
    for found in scan(path, is_record, tally):
        if isinstance(found, Damage):
            yield found
        else:
            yield from session.take(found)


class _Session:
    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.ids = Ids()
        self.last: str | None = None

    def take(self, found: Found) -> Iterator[Item]:
        value = found.value
        yield from self._branch(found)
        if value["type"] == "compaction":
            yield self._compaction(found)
        elif value["type"] != "message":
            self.tally[value["type"]] += 1
        elif value["message"]["role"] not in _AUTHORS:
            self.tally[f"message/{value['message']['role']}"] += 1
        elif value["message"].get("content") == []:
            self.tally[f"{value['message']['role']} without content"] += 1
        else:
            yield self._record(found)

    def _branch(self, found: Found) -> Iterator[Damage]:
        id, parent = found.value.get("id"), found.value.get("parentId")
        if isinstance(parent, str) and parent != self.last:
            yield Damage(found.line, f"a branch: this entry follows {parent}, not the entry before it", b"", NOWHERE)
        if found.value["type"] != "session" and isinstance(id, str):
            self.last = id

    def _compaction(self, found: Found) -> Boundary:
        value, detail = found.value, {}
        summary = value.get("summary")
        if isinstance(value.get("tokensBefore"), int):
            detail["tokens_before"] = value["tokensBefore"]
        first = value.get("firstKeptEntryIndex")
        if isinstance(first, int):
            detail["kept_from_line"] = first + 1
        return Boundary(found.line, "compaction", summary if isinstance(summary, str) else None, detail)

    def _record(self, found: Found) -> Item:
        source = found.value["message"]
        try:
            message = _MESSAGE[source["role"]](source)
        except (KeyError, TypeError, AttributeError) as e:
            return found.damage(f"a {source['role']} message that is not whole: {type(e).__name__} {e}")
        id = found.value.get("id") or (f"{source['toolCallId']}:result" if source["role"] == "toolResult" else None)
        at = epoch(found.value.get("timestamp")) or epoch(source.get("timestamp"))
        return Record(found.line, self.ids.unique(id), message, _AUTHORS[source["role"]], at, found.place)


def _said(source: dict[str, Any]) -> dict[str, Any]:
    content = source["content"]
    if not are_blocks(content):
        raise TypeError("content is neither text nor blocks")
    role = "assistant" if source["role"] == "assistant" else "user"
    return {"role": role, "content": content if isinstance(content, str) else [_block(b) for b in content]}


def _result(source: dict[str, Any]) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": source["toolCallId"], "content": _said(source)["content"]}
    if source.get("isError"):
        block["is_error"] = True
    return {"role": "user", "content": [block]}


def _ran(source: dict[str, Any]) -> dict[str, Any]:
    end = "cancelled" if source.get("cancelled") else f"exit code {source.get('exitCode')}"
    text = f"ran: {source['command']}\n{source.get('output') or '(no output)'}\n({end})"
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def _block(block: dict[str, Any]) -> dict[str, Any]:
    if block["type"] == "text":
        return {"type": "text", "text": block["text"]}
    if block["type"] == "thinking":
        signature = {"signature": block["thinkingSignature"]} if block.get("thinkingSignature") else {}
        return {"type": "thinking", "thinking": block["thinking"], **signature}
    if block["type"] == "toolCall":
        return {"type": "tool_use", "id": block["id"], "name": block["name"], "input": block["arguments"]}
    if block["type"] == "image" and "data" in block:
        return {"type": "image", "source": {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}}
    return block


_MESSAGE = {"user": _said, "assistant": _said, "toolResult": _result, "bashExecution": _ran}
