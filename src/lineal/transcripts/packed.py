"""Values of LangGraph's serializer, decoded without its packages: nothing is imported, called or unpickled.

| stored as | comes out as |
|---|---|
| `msgpack`: plain values | them |
| extension 0-5: module, name, what it is made from | `Typed` |
| extension 6: an array | its type and shape, as text |
| extension 7: a snapshot of a channel that is stored as differences | the value in it |
| `json` | its value |
| `null`, `empty` | None |
| `bytes`, `bytearray` | bytes |
| `pickle`, anything encrypted, anything else | `ValueError`, saying so |
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec

MADE, ARRAY, DIFFERENCES = range(6), 6, 7
MAX_DEPTH = 64  # of values inside values that have a type of their own
MAX_KEPT = 200_000  # decoded values that are kept for the next time their bytes occur


@dataclass(frozen=True, eq=False)
class Typed:
    """An object of somebody's class: what its class is called, and what it was made from."""

    module: str
    name: str
    value: Any


class Decoder:
    """Each stretch of bytes is decoded once: a checkpoint repeats nearly all that the one before it holds."""

    def __init__(self) -> None:
        self._known: dict[bytes, Any] = {}
        self._depth = 0
        self._decoder = msgspec.msgpack.Decoder(ext_hook=self._extension)

    def value(self, kind: str, data: bytes) -> Any:
        """Raises `ValueError` saying what is wrong with the bytes, or why they are not opened."""
        if kind in ("null", "empty"):
            return None
        if kind in ("bytes", "bytearray"):
            return data
        if kind not in ("msgpack", "json"):
            why = "a pickle, which is never opened" if kind == "pickle" else f"stored as {kind!r}, which is not known: encrypted, or newer"
            raise ValueError(why)
        try:
            return json.loads(data) if kind == "json" else self._decoder.decode(data)
        except (msgspec.DecodeError, ValueError, RecursionError, TypeError, OverflowError) as e:
            raise ValueError(f"the value cannot be decoded: {e or type(e).__name__}") from e

    def _extension(self, code: int, view: memoryview) -> Any:
        data = bytes(view)
        if code not in MADE and code not in (ARRAY, DIFFERENCES):
            return data
        known = self._known.get(data) if code in MADE else None
        if known is not None:
            return known
        if self._depth >= MAX_DEPTH:
            raise ValueError(f"values nested more than {MAX_DEPTH} deep")
        self._depth += 1
        try:
            held = self._decoder.decode(data)
        finally:
            self._depth -= 1
        if code == DIFFERENCES:
            return held
        if not isinstance(held, list) or len(held) < 3:
            raise ValueError(f"extension {code} holds no module, name and value")
        if code == ARRAY:
            return f"[array {held[0]} {held[1]}]"
        made = Typed(str(held[0]), str(held[1]), held[2])
        if len(self._known) < MAX_KEPT:
            self._known[data] = made
        return made
