"""The values that entries are made of: what a turn, a call, a node, a note, a lease is. Frozen structs, no behaviour."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Struct(msgspec.Struct, frozen=True, omit_defaults=True):
    """Base of all values in a log: immutable; a field at its default takes no bytes."""


class Turn(Struct, frozen=True):
    """One message as callers see it: `message` is exactly what was given; `digest` (hex) is over its stored bytes.

    `tokens` is what the view shows of it, before calibration by reported usage.
    """

    seq: int
    id: str
    author: str
    role: str
    tokens: int
    digest: str
    message: Any


class Call(Struct, frozen=True):
    """A tool call inside a turn: its id, the tool, and the digest of its canonical arguments (hex)."""

    id: str
    tool: str = ""
    arguments: str = ""


class Result(Struct, frozen=True):
    """A result inside a turn. `final` is False for an interim ("status": "pending") result."""

    call: str
    final: bool = True


class Holder(Struct, frozen=True):
    """Who is doing something that takes time. Enough to tell on the same machine, without a clock, that it died."""

    token: str
    host: str = ""
    boot: str = ""
    pid: int = 0
    started: int = 0


class Lease(Struct, frozen=True):
    """A holder's right to finish, until `deadline` (seconds since 1970) or `boot_deadline` (seconds since its boot)."""

    holder: Holder
    deadline: float
    boot_deadline: float


class Anchor(Struct, frozen=True):
    """A fact that a summary must not be trusted to remember: typed, exact, carried as data (R18).

    `kind`: constraint, decision, failed, task, commit, id, hash, path, url, number. `seq`: the turn it stands in.
    """

    kind: str
    value: str
    seq: int
    author: str = "user"


Range = tuple[int, int]  # first and last seq, both inside


class Node(Struct, frozen=True, tag_field="item", tag="node"):
    """What stands in the view for turns that left it. `summary` is lossy; `spill` is byte-exact through its handle.

    `tokens` and `bytes` measure what is shown; `source_tokens` what it stands for; `count` is in turns. `dialect` is the
    one that was spoken when it was made: what comes later does not change how it is shown (R28).
    """

    kind: Literal["summary", "spill"]
    generation: int
    ranges: tuple[Range, ...]
    count: int
    tokens: int
    bytes: int
    source_tokens: int = 0
    text: str = ""
    dialect: str = "openai"

    @property
    def handle(self) -> str:
        return f"g{self.generation}"

    @property
    def covered_through(self) -> int:
        return self.ranges[-1][1]


class Note(Struct, frozen=True, tag_field="item", tag="note"):
    """Machine-made text in the view, standing behind `seq`. Frozen, so that the rendered prefix is too (R28)."""

    seq: int
    text: str
    tokens: int
    bytes: int
    dialect: str = "openai"


class Stub(Struct, frozen=True):
    """From now on blocks of `turn` above `limit` bytes are shown as a stub with a handle; the turn's size in the view then."""

    turn: str
    limit: int
    tokens: int
    bytes: int


class Pin(Struct, frozen=True):
    """A promise to keep a turn (by `id`) or a `text` verbatim in the view."""

    id: str
    text: str = ""
    turn: str = ""


class Run(Struct, frozen=True):
    """Rows `first`..`last` that left the store, and the chain digests on both sides of the hole."""

    first: int
    last: int
    before: str
    after: str


class Piece(Struct, frozen=True):
    """A segment in a manifest: its row's seq, and the runs of rows whose content it holds."""

    seq: int
    runs: tuple[Range, ...]
