"""OpenAI Responses input items: a call, a result, a reasoning step are items of their own, beside messages.

Paired here: every `*_call` with a `call_id` and its `*_output`, and an approval asked for by a hosted MCP server with
its answer. A hosted call without `call_id` carries its own result: it is opaque, and nobody has to answer it.
"""

from __future__ import annotations

from typing import Any

from lineal.messages.blocks import (
    THINKING,
    Block,
    Media,
    Opaque,
    Part,
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
_GIVEN = ("arguments", "input", "action", "actions", "operation", "queries", "code")


def read(item: dict[str, Any]) -> Said:
    kind = string(item, "type")
    if not string(item, "call_id") and (string(item, "role") or not kind):
        return Said(string(item, "role") or "assistant", parts(item.get("content")))
    if kind == "mcp_approval_request":
        return Said("assistant", (ToolCall(string(item, "id"), string(item, "name"), arguments(item.get("arguments"))),))
    if kind == "mcp_approval_response":
        answer = f"approve: {compact(item.get('approve'))} {string(item, 'reason')}".rstrip()
        return Said("tool", (ToolResult(string(item, "approval_request_id"), (Text(answer),)),))
    if kind.endswith("_call") and string(item, "call_id"):
        return Said("assistant", (ToolCall(item["call_id"], _tool(item, kind), _given(item, kind)),))
    if kind.endswith("_output"):
        return Said("tool", (_result(item, kind),))
    if kind in THINKING:
        return Said("assistant", (Opaque(kind),))
    return Said("assistant", (Opaque(kind, _hosted(item, kind)),))


def _tool(item: dict[str, Any], kind: str) -> str:
    return string(item, "name") or kind.removesuffix("_call")


def _given(item: dict[str, Any], kind: str) -> Any:
    given = next((item[key] for key in _GIVEN if item.get(key) is not None), None)
    return given if kind == "custom_tool_call" else arguments(given)


def _result(item: dict[str, Any], kind: str) -> ToolResult:
    call = string(item, "call_id") or (string(item, "id") if kind == "local_shell_call_output" else "")
    output = item.get("output")
    shown: tuple[Part, ...] = plain_parts(output) if isinstance(output, str | list | dict) else (Opaque(kind, f"[{kind}]"),)
    return ToolResult(call, shown, interim=interim(item))


def _hosted(item: dict[str, Any], kind: str) -> str:
    if not kind.endswith("_call"):
        return f"[{kind}]"
    asked = readable(ToolCall("", _tool(item, kind), _given(item, kind)))
    return "\n".join(filter(None, (asked, string(item, "output"))))


# --- writing ---------------------------------------------------------------------------------------------------------


def write(said: Said) -> list[Any]:
    if said.role == "tool":
        return [{"type": "function_call_output", "call_id": b.call, "output": _output(b)} for b in said.blocks if isinstance(b, ToolResult)]
    role, blocks = labelled(said, ROLES)
    items: list[Any] = []
    open_parts: list[Any] | None = None
    for block in blocks:
        if isinstance(block, ToolCall):
            given = compact({} if block.arguments is None else block.arguments)
            items.append({"type": "function_call", "call_id": block.id, "name": block.tool, "arguments": given})
            open_parts = None
            continue
        if open_parts is None:
            open_parts = []
            items.append({"type": "message", "role": role, "content": open_parts})
        open_parts.append(_content_part(block, role))
    return items


def _output(result: ToolResult) -> Any:
    shown = [_content_part(part, "user") for part in result.parts if readable(part)]
    if not shown:
        return ""
    return shown[0]["text"] if len(shown) == 1 and shown[0]["type"] == "input_text" else shown


def _content_part(block: Block, role: str) -> dict[str, Any]:
    if isinstance(block, Media) and role == "user" and (url := data_url(block)):
        if block.kind == "image":
            return {"type": "input_image", "image_url": url}
        if block.kind == "file":
            held = {"filename": block.name or "file", "file_data": url} if block.data else {"file_url": url}
            return {"type": "input_file", **held}
    return {"type": "output_text" if role == "assistant" else "input_text", "text": readable(block)}
