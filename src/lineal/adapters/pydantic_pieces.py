"""Pydantic AI's messages, cut into pieces that are one turn each, and the same pieces in the chat dialect and back. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai import messages as pm

from lineal.codec import to_json
from lineal.messages import parse, text_of

MARK = "lineal"  # in `metadata`: the turn that this shows in other words, or "" where lineal itself speaks
REFUSED = "[lineal: not done"
SILENT = (  # parts that nobody says: they configure a request
    pm.SystemPromptPart,
    pm.InstructionDeltaPart,
    pm.InstructionBaselinePart,
    pm.ToolAvailabilityDeltaPart,
    pm.CapabilityLoadDeltaPart,
    pm.ModelSettingsDeltaPart,
)


def dump(message: pm.ModelMessage) -> Any:
    """The message as JSON. A value of a tool that JSON cannot hold is kept as its repr."""
    (dumped,) = pm.ModelMessagesTypeAdapter.dump_python([message], mode="json", fallback=repr)
    return dumped


def load(dumped: Any) -> pm.ModelMessage:
    return pm.ModelMessagesTypeAdapter.validate_json(to_json([dumped]))[0]  # as JSON: only so bytes come back as bytes


def split(message: pm.ModelMessage) -> list[pm.ModelMessage]:
    """One message for each turn: a response is one; of a request each part that speaks, with the silent ones before it."""
    if isinstance(message, pm.ModelResponse):
        return [message]
    found: list[pm.ModelMessage] = []
    waiting: list[Any] = []
    for part in message.parts:
        waiting.append(part)
        if not isinstance(part, SILENT):
            found.append(replace(message, parts=waiting))
            waiting = []
    if found and waiting:
        found[-1] = replace(message, parts=[*found[-1].parts, *waiting])
    return found


def _speaking(piece: pm.ModelRequest) -> Any:
    return next(part for part in piece.parts if not isinstance(part, SILENT))


def moment(piece: pm.ModelMessage) -> str:
    """When it was said, by the framework's stamp; it survives every round trip, and tells equal words apart."""
    stamp = getattr(piece if isinstance(piece, pm.ModelResponse) else _speaking(piece), "timestamp", None)
    return stamp.isoformat() if stamp is not None else ""


def mark(piece: pm.ModelMessage) -> str | None:
    """The turn that lineal wrote on it; None where it wrote nothing."""
    held: Any = piece if isinstance(piece, pm.ModelResponse) else _speaking(piece)
    if isinstance(held, pm.UserPromptPart):
        held = held.content[0] if not isinstance(held.content, str) and held.content else None
    noted = getattr(held, "metadata", None)
    return noted.get(MARK) if isinstance(noted, dict) else None


# --- into the chat dialect ---------------------------------------------------------------------------------------------


def say(piece: pm.ModelMessage) -> dict[str, Any]:
    """The piece in the chat dialect: what is said, called and answered."""
    if isinstance(piece, pm.ModelResponse):
        return _said_by_model(piece)
    part = _speaking(piece)
    if isinstance(part, pm.BaseToolReturnPart):
        said = {"role": "tool", "tool_call_id": part.tool_call_id, "name": part.tool_name, "content": part.model_response_str()}
        return said if part.outcome == "success" else {**said, "is_error": True}
    if isinstance(part, pm.RetryPromptPart) and part.tool_name:
        said = {"role": "tool", "tool_call_id": part.tool_call_id, "name": part.tool_name, "content": part.model_response()}
        return {**said, "is_error": True}
    if isinstance(part, pm.RetryPromptPart | pm.RetryFeedbackPart):
        return {"role": "user", "content": part.model_response()}
    if isinstance(part, pm.SpeechPart):
        return {"role": "user", "content": part.transcript or "[speech]"}
    content = part.content or ""
    if isinstance(content, str):
        return {"role": "user", "content": content}
    return {"role": "user", "content": [_item(item) for item in content if not isinstance(item, pm.CachePoint)]}


def _said_by_model(response: pm.ModelResponse) -> dict[str, Any]:
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in response.parts:
        match part:
            case pm.TextPart(content=text) | pm.CompactionPart(content=str(text)) | pm.SpeechPart(transcript=str(text)):
                texts.append(text)
            case pm.FilePart(content=file):
                texts.append(f"[{file.media_type}]")
            case pm.ToolCallPart():
                function = {"name": part.tool_name, "arguments": part.args_as_json_str()}
                calls.append({"id": part.tool_call_id, "type": "function", "function": function})
            case _:
                pass  # thinking, and what the provider did by itself: kept in the record of the piece
    said = {"role": "assistant", "content": "\n\n".join(texts)}
    return {**said, "tool_calls": calls} if calls else said


def _item(item: Any) -> dict[str, Any]:
    match item:
        case str(text) | pm.TextContent(content=text):
            return {"type": "text", "text": text}
        case pm.ImageUrl(url=url):
            return {"type": "image_url", "image_url": {"url": url}}
        case pm.BinaryContent() if item.is_image:
            return {"type": "image_url", "image_url": {"url": item.data_uri}}
    return {"type": "text", "text": f"[{getattr(item, 'kind', 'file')} {getattr(item, 'identifier', '')}]"}


# --- and back ----------------------------------------------------------------------------------------------------------


def from_chat(message: dict[str, Any], turn: str) -> pm.ModelMessage:
    """What the view shows, as a message that bears the mark of its turn ("": lineal itself says it, as a user)."""
    if message["role"] == "assistant":
        texts = [pm.TextPart(text)] if (text := text_of({**message, "tool_calls": None})) else []
        functions = [(call["id"], call["function"]) for call in message.get("tool_calls") or ()]
        calls = [pm.ToolCallPart(function["name"], function["arguments"], id) for id, function in functions]
        return pm.ModelResponse(parts=[*texts, *calls], metadata={MARK: turn})
    results = parse(message).results
    if results:
        part = pm.ToolReturnPart(message.get("name") or "tool", text_of(message), results[0].call, metadata={MARK: turn})
        return pm.ModelRequest(parts=[part])
    return pm.ModelRequest(parts=[pm.UserPromptPart([pm.TextContent(text_of(message), metadata={MARK: turn})])])


def joined(pieces: Sequence[pm.ModelMessage], asked: Sequence[pm.ModelMessage]) -> list[pm.ModelMessage]:
    """Pieces as whole messages, led by the system prompts of what the agent is about to ask, and ending in a request."""
    found: list[pm.ModelMessage] = []
    for piece in pieces:
        if isinstance(piece, pm.ModelRequest):
            piece = replace(piece, parts=[part for part in piece.parts if not isinstance(part, pm.SystemPromptPart)])
            if found and isinstance(found[-1], pm.ModelRequest):
                found[-1] = replace(piece, parts=[*found[-1].parts, *piece.parts])
                continue
        found.append(piece)
    requests = [message for message in asked if isinstance(message, pm.ModelRequest)]
    prompts = [part for message in requests for part in message.parts if isinstance(part, pm.SystemPromptPart)]
    if prompts and found and isinstance(found[0], pm.ModelRequest):
        found[0] = replace(found[0], parts=[*prompts, *found[0].parts])
    elif prompts:
        found.insert(0, pm.ModelRequest(parts=prompts))
    if requests and not isinstance(found[-1], pm.ModelRequest):
        found.append(replace(requests[-1], parts=[part for part in requests[-1].parts if isinstance(part, SILENT[1:])]))
    return found
