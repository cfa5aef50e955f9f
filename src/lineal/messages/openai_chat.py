"""OpenAI chat completions: `tool_calls` beside the content, one message of role "tool" for each result.

Also read: arguments as an object (tau2), `function` as a name with `args` (AgentDojo), a tool message that names its
call by `id` (tau2) or by a list `tool_call_ids` (SWE-agent), and the old `function_call`, which has no id.
"""

from __future__ import annotations

from typing import Any

from lineal.messages.blocks import (
    Block,
    Media,
    Said,
    Text,
    ToolCall,
    ToolResult,
    arguments,
    compact,
    data_url,
    interim,
    labelled,
    parts,
    plain_parts,
    readable,
    string,
)

ROLES = ("system", "developer", "user", "assistant")


def read(message: dict[str, Any]) -> Said:
    role = string(message, "role")
    if role in ("tool", "function"):
        return Said(role, _results(message))
    blocks = list(parts(message.get("content")))
    if string(message, "refusal"):
        blocks.append(Text(message["refusal"]))
    asked = message.get("tool_calls")
    calls = [_call(item) for item in asked if isinstance(item, dict)] if isinstance(asked, list) else []
    if not calls and isinstance(message.get("function_call"), dict):
        old = message["function_call"]
        calls = [ToolCall("", string(old, "name"), arguments(old.get("arguments")))]
    if calls:  # some clients keep a second copy of the calls in the content
        blocks = [b for b in blocks if not isinstance(b, ToolCall)]
    return Said(role, (*blocks, *calls))


def _call(item: dict[str, Any]) -> ToolCall:
    custom = item.get("custom")
    if isinstance(custom, dict):
        return ToolCall(string(item, "id"), string(custom, "name"), custom.get("input"))
    held = item["function"] if isinstance(item.get("function"), dict) else item
    tool = string(held, "name") or string(item, "function")
    given = next((held[key] for key in ("arguments", "args", "input") if key in held), None)
    return ToolCall(string(item, "id"), tool, arguments(given))


def _results(message: dict[str, Any]) -> tuple[Block, ...]:
    inside = parts(message.get("content"))
    own = [string(message, "tool_call_id")]
    listed = message.get("tool_call_ids")
    ids = own if own[0] else [i for i in listed if isinstance(i, str)] if isinstance(listed, list) else []
    if not ids and any(isinstance(b, ToolResult) for b in inside):
        return inside
    if not ids and message["role"] == "tool":
        ids = [string(message, "id")]
    failed = bool(message.get("error")) or message.get("is_error") is True
    shown = plain_parts(message.get("content"))
    return tuple(ToolResult(call, shown, failed, interim(message)) for call in ids or [""])


# --- writing ---------------------------------------------------------------------------------------------------------


def write(said: Said) -> list[Any]:
    if said.role == "tool":
        return [_result_message(b) for b in said.blocks if isinstance(b, ToolResult)]
    role, blocks = labelled(said, ROLES)
    calls = [_call_item(b) for b in blocks if isinstance(b, ToolCall)]
    shown = [_content_part(b, role) for b in blocks if not isinstance(b, ToolCall)]
    message: dict[str, Any] = {"role": role, "content": _slim(shown)}
    if calls:
        message["tool_calls"] = calls
    return [message]


def _slim(shown: list[dict[str, Any]]) -> Any:
    if not shown:
        return None
    return shown[0]["text"] if len(shown) == 1 and shown[0]["type"] == "text" else shown


def _result_message(result: ToolResult) -> dict[str, Any]:
    shown = [{"type": "text", "text": text} for part in result.parts if (text := readable(part))]
    return {"role": "tool", "tool_call_id": result.call, "content": _slim(shown) or ""}


def _call_item(call: ToolCall) -> dict[str, Any]:
    given = {} if call.arguments is None else call.arguments
    return {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": compact(given)}}


def _content_part(block: Block, role: str) -> dict[str, Any]:
    """Only a user can show media; anything this dialect has no place for is named."""
    if isinstance(block, Media) and role == "user":
        url = data_url(block)
        if block.kind == "image" and url:
            return {"type": "image_url", "image_url": {"url": url}}
        if block.kind == "audio" and block.data:
            return {"type": "input_audio", "input_audio": {"data": block.data, "format": block.mime.partition("/")[2] or "wav"}}
        if block.kind == "file" and block.data:
            return {"type": "file", "file": {"filename": block.name or "file", "file_data": url}}
    return {"type": "text", "text": readable(block)}
