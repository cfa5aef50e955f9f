"""A message in no dialect: a role and blocks. Every dialect is read into these and written from these.

| block | is |
|---|---|
| `Text` | words that a model and a person both read |
| `Media` | an image, a sound or a file, as base64 or by address |
| `ToolCall` | a tool asked for; without an `id` nothing can answer it |
| `ToolResult` | what came back for one call |
| `Opaque` | signed, encrypted or unknown: valid at its own provider only, and only whole (R13) |

Reading never raises: what has no known shape becomes `Opaque`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 200  # arguments nested deeper stay the string they came as


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True)
class Media:
    """`kind` is image, audio or file; `data` is base64. With neither `data` nor `url` only its provider can find it."""

    kind: str
    mime: str = ""
    data: str = ""
    url: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Opaque:
    """`text` is what a person may read of it; empty for thinking."""

    type: str
    text: str = ""


Part = Text | Media | Opaque


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`arguments` is parsed JSON, or the raw string where that is no JSON."""

    id: str
    tool: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class ToolResult:
    """`failed`: the result itself says so by a flag. `interim`: more is to come for this call."""

    call: str
    parts: tuple[Part, ...]
    failed: bool = False
    interim: bool = False


Block = Text | Media | Opaque | ToolCall | ToolResult


@dataclass(frozen=True, slots=True)
class Said:
    role: str
    blocks: tuple[Block, ...]


# --- reading ---------------------------------------------------------------------------------------------------------

THINKING = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_text", "summary_text"})
TEXTS = frozenset({"text", "input_text", "output_text", "refusal"})
MEDIA = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "computer_screenshot": "image",
    "audio": "audio",
    "input_audio": "audio",
    "file": "file",
    "input_file": "file",
    "document": "file",
}


def parts(content: Any) -> tuple[Block, ...]:
    """The blocks of a message's content: a string, a list of blocks, or one block."""
    return tuple(block for item in _items(content) for block in _block(item))


def plain_parts(content: Any, depth: int = 0) -> tuple[Part, ...]:
    """The same inside a result or a document, where calls and results have no meaning."""
    return tuple(part for item in _items(content) for part in _part(item, depth))


def _items(content: Any) -> Iterable[Any]:
    if isinstance(content, list):
        return content
    return (content,) if isinstance(content, str | dict) else ()


def _block(item: Any) -> Iterator[Block]:
    kind = string(item, "type")
    if kind.endswith("tool_use"):
        yield ToolCall(string(item, "id"), string(item, "name"), arguments(item.get("input")))
    elif kind.endswith("tool_result"):
        found = plain_parts(item.get("content"))
        yield ToolResult(string(item, "tool_use_id"), found, item.get("is_error") is True, interim(item))
    else:
        yield from _part(item, 0)


def interim(item: dict[str, Any]) -> bool:
    """More is to come: this is an interim result (R11)."""
    return string(item, "status") in ("pending", "in_progress")


def _part(item: Any, depth: int) -> Iterator[Part]:
    kind = string(item, "type")
    if isinstance(item, str):
        yield Text(item)
    elif not isinstance(item, dict):
        yield Opaque("", compact(item))
    elif kind in TEXTS:
        yield Text(string(item, "text") or string(item, "refusal") or string(item, "content"))
    elif kind in ("document", "search_result") and depth < 3 and (held := _written(item)) is not None:
        yield from (Text(title) for title in (string(item, "title"),) if title)
        yield from plain_parts(held, depth + 1)
    elif kind in MEDIA:
        yield _media(item, kind)
    elif kind in THINKING:
        yield Opaque(kind)
    elif not kind:
        yield Opaque("", compact(item))
    else:
        yield Opaque(kind, " ".join(filter(None, (f"[{kind}]", string(item, "title"), string(item, "url")))))


def _written(item: dict[str, Any]) -> Any:
    """What a document or a search result says in words; None for a file."""
    source = item.get("source")
    held = source if isinstance(source, dict) else item
    content = held.get("data") if string(held, "type") == "text" else held.get("content")
    return content if isinstance(content, str | list) else None


def _media(item: dict[str, Any], kind: str) -> Media:
    """Wherever a dialect keeps it: beside the type, under the type's own name, or under `source`."""
    held: dict[str, Any] = {**item}
    for key in (kind, "source"):
        if isinstance(item.get(key), dict):
            held.update(item[key])
    address = _first(held, "image_url", "url", "file_url", "file_data")
    mime = _first(held, "media_type", "mime_type", "mimeType") or (f"audio/{held['format']}" if string(held, "format") else "")
    data = string(held, "data")
    name = _first(held, "filename", "title", "name")
    if address.startswith("data:") and ";base64," in address:
        head, _, data = address.partition(";base64,")
        return Media(MEDIA[kind], head[5:].split(";")[0], data, "", name)
    return Media(MEDIA[kind], mime, data, address if "://" in address else "", name)


def _first(item: dict[str, Any], *keys: str) -> str:
    return next((value for key in keys if (value := string(item, key))), "")


def string(item: Any, key: str) -> str:
    """The string under `key`, or "" where there is none."""
    value = item.get(key) if isinstance(item, dict) else None
    return value if isinstance(value, str) else ""


# --- arguments -------------------------------------------------------------------------------------------------------


def arguments(raw: Any) -> Any:
    """A call's arguments as a JSON value. A string that holds no JSON, or only a string, is given back as it came."""
    if not isinstance(raw, str):
        return raw
    try:
        value = json.loads(raw, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        return raw
    if isinstance(value, str) or (raw.count("[") + raw.count("{") > MAX_DEPTH and _too_deep(value)):
        return raw
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _finite(digits: str) -> float:
    value = float(digits)
    if value - value != 0:
        raise ValueError(digits)
    return value


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [c for v in level for c in (v.values() if isinstance(v, dict) else v if isinstance(v, list) else ())]
    return bool(level)


def compact(value: Any) -> str:
    """A value in one line, for reading. Never raises."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=repr)
    except (ValueError, TypeError, RecursionError):
        return f"[{type(value).__name__}]"


# --- showing ---------------------------------------------------------------------------------------------------------


def readable(block: Block) -> str:
    """What a person reads of a block: thinking left out, media named only."""
    match block:
        case Text(text=text) | Opaque(text=text):
            return text
        case Media(kind=kind, name=name):
            return f"[{kind} {name}]" if name else f"[{kind}]"
        case ToolCall(tool=tool, arguments=given):
            return f"tool({tool} {compact(given)})"
        case ToolResult(parts=inside):
            return joined_text(inside)


def joined_text(blocks: Iterable[Block]) -> str:
    return "\n".join(text for block in blocks if (text := readable(block)))


# --- before writing --------------------------------------------------------------------------------------------------


def neighbours(run: Iterable[Said]) -> list[Said]:
    """A run of messages, cut and joined as the stricter dialects want them.

    Results stand alone under the role "tool", those of one round together; in a user message they come before its
    words. A call that was a message of its own (a Responses item) joins the assistant message before it, so that no
    call is parted from its results by the next call. Opaque blocks leave here, whole; empty messages leave with them.
    """
    out: list[Said] = []
    for said in run:
        for piece in _pieces(said):
            calls_only = piece.role == "assistant" and all(isinstance(b, ToolCall) for b in piece.blocks)
            if out and out[-1].role == piece.role and (piece.role == "tool" or calls_only):
                out[-1] = Said(piece.role, out[-1].blocks + piece.blocks)
            else:
                out.append(piece)
    return out


def _pieces(said: Said) -> Iterator[Said]:
    blocks = [b for b in map(_answerable, said.blocks) if not isinstance(b, Opaque) and b != Text("")]
    if said.role != "assistant":
        blocks.sort(key=lambda b: not isinstance(b, ToolResult))
    held: list[Block] = []
    role = said.role
    for block in blocks:
        wanted = _role(block, said.role)
        if held and wanted != role:
            yield Said(role, tuple(held))
            held = []
        role = wanted
        held.append(block)
    if held:
        yield Said(role, tuple(held))


def _role(block: Block, role: str) -> str:
    """Who can say this, whatever message it stood in: a call is an assistant's, words are never a tool's."""
    if isinstance(block, ToolResult):
        return "tool"
    if isinstance(block, ToolCall):
        return "assistant"
    return "tool_output" if role == "tool" else role


def _answerable(block: Block) -> Block:
    """A call or result without an id is shown as words: no provider could pair it."""
    if (isinstance(block, ToolCall) and not block.id) or (isinstance(block, ToolResult) and not block.call):
        return Text(readable(block))
    return block


def labelled(said: Said, roles: Iterable[str]) -> tuple[str, list[Block]]:
    """Role and blocks for a dialect that knows `roles` only: under any other role, words of a user that name it."""
    if said.role in roles:
        return said.role, list(said.blocks)
    name = re.sub(r"\W+", "_", "system" if said.role == "developer" else said.role)
    return "user", [Text(f"<{name}>{b.text}</{name}>") if isinstance(b, Text) else b for b in said.blocks]


def data_url(media: Media) -> str:
    """Its address, or itself as one; "" when only its provider can find it."""
    mime = media.mime or ("image/png" if media.kind == "image" else "application/octet-stream")
    return f"data:{mime};base64,{media.data}" if media.data else media.url
