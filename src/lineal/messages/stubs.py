"""A block that is too large for the view becomes a few words and a handle to its exact bytes (R26)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lineal import codec
from lineal.messages.blocks import MEDIA, TEXTS, Media, plain_parts, string
from lineal.messages.dialects import RESPONSES, native

HEAD_CHARS = 400
_OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output", "apply_patch_call_output")


def stub(message: Any, limit: int, handle: str) -> Any | None:
    """The same message with every text, media and result above `limit` bytes of JSON cut to a stub; None if there is none.

    Results stay results of the same call. Arguments, and signed or unknown blocks, are never edited (R13).
    The whole of what was cut must be held under `handle`. Text keeps a head of at most 400 characters.
    """
    if not isinstance(message, dict) or _size(message) <= limit:
        return None
    key = "output" if string(message, "type") in _OUTPUTS else "content"
    result = key == "output" or message.get("role") in ("tool", "function")
    kind = "tool result" if result else "text"
    block_type = "text"
    if native(message)[0] == RESPONSES:
        block_type = "output_text" if message.get("role") == "assistant" else "input_text"
    found = _cut(message.get(key), _Stub(limit, handle, kind, block_type))
    return None if found is message.get(key) else {**message, key: found}


@dataclass(frozen=True, slots=True)
class _Stub:
    """What a stub is made from: the limit in bytes, the handle, and the kind and block type of the place it stands in."""

    limit: int
    handle: str
    kind: str
    block_type: str

    def words(self, kind: str, size: int, text: str = "") -> str:
        """At most half of the limit goes to the head, however JSON must escape it."""
        line = f'[{kind}, {size:,} bytes, put aside byte-exact: expand("{self.handle}")]'
        head = text[: min(HEAD_CHARS, self.limit // 12)]
        return f"{head}\n{line}" if head else line


def _cut(content: Any, to: _Stub) -> Any:
    """`content` itself when nothing in it is too large."""
    if isinstance(content, str):
        return to.words(to.kind, size, content) if (size := _size(content)) > to.limit else content
    if not isinstance(content, list):
        return content
    cut = [_cut_block(block, to) for block in content]
    if to.kind == "tool result" and _size(cut) > to.limit and all(_may_cut(block) for block in content):
        return [{"type": to.block_type, "text": to.words(to.kind, _size(content), _head(content))}]
    return content if all(new is old for new, old in zip(cut, content, strict=True)) else cut


def _cut_block(block: Any, to: _Stub) -> Any:
    if (size := _size(block)) <= to.limit:
        return block
    if isinstance(block, str):
        return to.words("text", size, block)
    kind = string(block, "type")
    kept = {"cache_control": block["cache_control"]} if kind and "cache_control" in block else {}
    if kind == "tool_result":
        found = _cut(block.get("content"), _Stub(to.limit, to.handle, "tool result", "text"))
        return block if found is block.get("content") else {**block, "content": found}
    if kind in TEXTS:
        key = "refusal" if kind == "refusal" else "text"
        return {"type": kind, key: to.words("text", size, string(block, key)), **kept}
    if kind in MEDIA and kind != "computer_screenshot":
        return {"type": to.block_type, "text": to.words(_named(block), size), **kept}
    return block


def _may_cut(block: Any) -> bool:
    return isinstance(block, str) or string(block, "type") in TEXTS or string(block, "type") in MEDIA


def _named(block: Any) -> str:
    media = next((part for part in plain_parts([block]) if isinstance(part, Media)), None)
    return (media.mime or media.kind) if media else "document"


def _head(content: list[Any]) -> str:
    first = content[0] if content else ""
    return first if isinstance(first, str) else string(first, "text")


def _size(value: Any) -> int:
    return len(codec.to_json(value))
