"""Which dialects a message is valid in as it stands, and how it is said in another one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lineal.errors import PolicyError, Verdict, quoted
from lineal.messages import anthropic, openai_chat, openai_responses
from lineal.messages.blocks import Said, neighbours, string

OPENAI, RESPONSES, ANTHROPIC = "openai", "responses", "anthropic"
DIALECTS = (OPENAI, RESPONSES, ANTHROPIC)

_READ = {OPENAI: openai_chat.read, RESPONSES: openai_responses.read, ANTHROPIC: anthropic.read}
_WRITE = {OPENAI: openai_chat.write, RESPONSES: openai_responses.write, ANTHROPIC: anthropic.write}

_CHAT_KEYS = ("tool_calls", "function_call", "tool_call_id", "tool_call_ids", "refusal", "name")
_BLOCKS = {
    "image_url": OPENAI,
    "input_audio": OPENAI,
    "file": OPENAI,
    "refusal": OPENAI,
    "input_text": RESPONSES,
    "output_text": RESPONSES,
    "input_image": RESPONSES,
    "input_file": RESPONSES,
    "image": ANTHROPIC,
    "document": ANTHROPIC,
    "search_result": ANTHROPIC,
    "thinking": ANTHROPIC,
    "redacted_thinking": ANTHROPIC,
}


def native(message: dict[str, Any]) -> tuple[str, ...]:
    """The dialects, of `DIALECTS`, that take this message unchanged. Never empty; what nothing tells apart is `openai` first.

    Words of a user or an assistant as a plain string are valid in all three.
    """
    role, content = string(message, "role"), message.get("content")
    if not role or string(message, "call_id"):
        return (RESPONSES,)
    if any(message.get(key) for key in _CHAT_KEYS):
        return (OPENAI,)
    marked = next((d for d in map(_marked, content) if d), "") if isinstance(content, list) else ""
    if message.get("type") == "message":
        plain = isinstance(content, list) and any(string(b, "type") == "text" for b in content)
        return (ANTHROPIC,) if marked == ANTHROPIC or plain or "stop_reason" in message else (RESPONSES,)
    if marked or any(key in message for key in _CHAT_KEYS):
        return (marked or OPENAI,)
    if role in ("user", "assistant"):
        return DIALECTS if isinstance(content, str) else (OPENAI, ANTHROPIC) if isinstance(content, list) else (OPENAI,)
    return (OPENAI, RESPONSES) if role in ("system", "developer") and isinstance(content, str) else (OPENAI,)


def _marked(block: Any) -> str:
    """The only dialect that has such a block, or ""."""
    kind = string(block, "type")
    if kind in _BLOCKS:
        return _BLOCKS[kind]
    if kind.endswith(("tool_use", "tool_result")) or (kind == "text" and ("cache_control" in block or "citations" in block)):
        return ANTHROPIC
    return ""


def read(message: dict[str, Any]) -> Said:
    return _READ[native(message)[0]](message)


def dialect_of(messages: Iterable[Any]) -> str:
    """The dialect of the first message that is valid in one only; `openai` where none is."""
    for message in messages:
        if isinstance(message, dict) and len(found := native(message)) == 1:
            return found[0]
    return OPENAI


def convert(messages: Iterable[Any], dialect: str) -> list[Any]:
    """Each message in `dialect`. One that is valid there already is the same object, byte-exact (R13).

    Words, media, calls, results and their order pass over; what only its own provider can read (signed thinking,
    encrypted reasoning, hosted items) is left out whole, and so is a message with nothing else. Neighbouring messages
    may be joined or split where `dialect` wants it. Arguments that are no object become `{"input": ...}` for
    Anthropic. Raises `PolicyError` for an unknown dialect.
    """
    check(dialect)
    out: list[Any] = []
    foreign: list[Said] = []
    for message in messages:
        if dialect in native(message):
            out += _written(foreign, dialect)
            foreign = []
            out.append(message)
        else:
            foreign.append(read(message))
    return out + _written(foreign, dialect)


def _written(run: list[Said], dialect: str) -> list[Any]:
    return [message for said in neighbours(run) for message in _WRITE[dialect](said)]


def check(dialect: str) -> None:
    if dialect not in DIALECTS:
        raise PolicyError(
            Verdict("dialect", "unknown_dialect", message=f"{quoted(dialect)} is no dialect.", remedy=f"name one of {', '.join(DIALECTS)}")
        )
