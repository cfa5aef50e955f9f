"""What the tools of the MCP server answer with, each a schema of structured output, and how a value gets there as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from lineal.codec import to_json
from lineal.session.outcomes import Hit, LedgerRow, Status
from lineal.view import Generation, HealthRow

DEEPEST = 64  # levels of a value that are answered as they are; what lies deeper is answered as JSON text


@dataclass(frozen=True)
class Pinned:
    """A pin by its id, and what it keeps verbatim: a turn, or a text."""

    pin: str
    turn: str = ""
    text: str = ""


@dataclass(frozen=True)
class Memory:
    status: Status
    health: tuple[HealthRow, ...]
    summaries: tuple[str, ...]
    pins: tuple[Pinned, ...]


@dataclass(frozen=True)
class Found:
    hits: tuple[Hit, ...]


@dataclass(frozen=True)
class Part:
    """A turn: `message` exactly as it was given; or, where that is larger than a page, `text`, a piece of its JSON from `offset`."""

    seq: int
    id: str
    author: str
    message: Any
    text: str
    offset: int
    of: int


@dataclass(frozen=True)
class Page:
    """`next_seq` and `next_offset`: where to go on; 0 and 0: that was all."""

    handle: str
    turns: tuple[Part, ...]
    next_seq: int
    next_offset: int


@dataclass(frozen=True)
class Line:
    seq: int
    id: str
    author: str
    tokens: int
    handle: str
    text: str


@dataclass(frozen=True)
class Expanded:
    """What stands for the turns, and the turns by their first words. `next_seq`: where to go on; 0: that was all."""

    handle: str
    kind: str
    summary: str
    count: int
    turns: tuple[Line, ...]
    next_seq: int


@dataclass(frozen=True)
class Explained:
    """`readable`: how many of the covered turns the handle still reads back. `lost`: why not all, empty if all."""

    generation: Generation
    readable: int
    lost: str


@dataclass(frozen=True)
class Lookup:
    found: bool
    effect: LedgerRow | None


@dataclass(frozen=True)
class Begun:
    """`begun`: do it now, then settle. Else it is not to be done: `state` and `outcome` are what the ledger has."""

    begun: bool
    key: str
    state: str
    attempt: int
    outcome: Any
    why: str
    way_out: str


def plain(value: Any, depth: int = 0) -> Any:
    """The value as JSON that every client can read. A lone surrogate, which UTF-8 cannot hold, is written as its escape."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth > DEEPEST:
        return as_text(value)
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name), depth + 1) for f in fields(value)}
    if isinstance(value, Mapping):
        return {plain(str(k)): plain(v, depth + 1) for k, v in value.items()}
    return [plain(v, depth + 1) for v in value]


def as_text(value: Any) -> str:
    """A JSON value as JSON text that UTF-8 can hold, and that reads back as the same value."""
    return "".join(c if not 0xD800 <= ord(c) <= 0xDFFF else f"\\u{ord(c):04x}" for c in to_json(value).decode("utf-8", "surrogatepass"))
