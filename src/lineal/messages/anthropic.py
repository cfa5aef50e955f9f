"""Anthropic messages: everything is a block in the content of a user or an assistant message.

All results of one round stand in one user message, one for each call: an interim result gives way to what came after
it. There is no system role in the list: words of one become words of a user, labelled. Blocks of nothing but white
space are refused there, so they are left out.
"""

from __future__ import annotations

from typing import Any

from lineal.messages.blocks import Block, Media, Said, Text, ToolCall, ToolResult, labelled, parts, readable, string

ROLES = ("user", "assistant")


def read(message: dict[str, Any]) -> Said:
    return Said(string(message, "role"), parts(message.get("content")))


def write(said: Said) -> list[Any]:
    if said.role == "tool":
        results = [b for b in said.blocks if isinstance(b, ToolResult)]
        overtaken = [b for i, b in enumerate(results) if b.interim and any(b.call == later.call for later in results[i + 1 :])]
        return [{"role": "user", "content": [_result(b) for b in results if b not in overtaken]}]
    role, blocks = labelled(said, ROLES)
    shown = [_block(b, role) for b in blocks if not (isinstance(b, Text) and not b.text.strip())]
    return [{"role": role, "content": shown}] if shown else []


def _block(block: Block, role: str) -> dict[str, Any]:
    if isinstance(block, ToolCall):
        given = {} if block.arguments in (None, "") else block.arguments
        return {"type": "tool_use", "id": block.id, "name": block.tool, "input": given if isinstance(given, dict) else {"input": given}}
    if isinstance(block, Media) and role == "user" and (source := _source(block)):
        return {"type": "image" if block.kind == "image" else "document", "source": source}
    return {"type": "text", "text": readable(block)}


def _source(media: Media) -> dict[str, Any] | None:
    """None for what this dialect cannot take: sounds, files that are no PDF, and another provider's uploads."""
    if media.kind == "audio" or (media.kind == "file" and media.data and media.mime != "application/pdf"):
        return None
    if media.data:
        return {"type": "base64", "media_type": media.mime or "image/png", "data": media.data}
    return {"type": "url", "url": media.url} if media.url else None


def _result(result: ToolResult) -> dict[str, Any]:
    shown = [_block(part, "user") for part in result.parts if readable(part)]
    plain = len(result.parts) <= 1 and all(isinstance(part, Text) for part in result.parts)
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call, "content": shown}
    if plain:
        block["content"] = shown[0]["text"] if shown else ""
    return {**block, "is_error": True} if result.failed else block
