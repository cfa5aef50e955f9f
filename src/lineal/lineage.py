"""The state of the fold: what the memory is at one seq, and the questions it answers. `fold.py` computes it.

The state is bounded by the view, not by history: coverage is kept as seq ranges, and only unsettled effects are held.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import msgspec

from lineal.entries import (
    Anchor,
    Call,
    CheckpointTaken,
    EffectAttached,
    EffectIntended,
    EffectResolved,
    EffectSettled,
    Entry,
    HostRecord,
    Lease,
    Node,
    Note,
    Pin,
    Range,
    Result,
    Struct,
)


class TurnItem(Struct, frozen=True, tag_field="item", tag="turn"):
    """A turn that stands verbatim in the view.

    `stubbed`: blocks above so many bytes are shown as a stub with a handle (0 = shown whole). `gone`: a host dropped it,
    so it is shown no more but still missed. `late`: a result whose call has left the view.
    """

    seq: int
    id: str
    author: str
    role: str
    tokens: int
    bytes: int
    digest: str
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    dialect: str = "openai"
    stubbed: int = 0
    late: bool = False
    gone: bool = False


Item = TurnItem | Node | Note


class InFlight(Struct, frozen=True):
    """A compaction that is begun and neither committed nor aborted."""

    generation: int
    seq: int
    epoch: int
    request_id: str
    covered: tuple[str, ...]
    lease: Lease


class OpenEffect(Struct, frozen=True):
    """An effect whose outcome is not known: `intended` (its holder may be at it) or `unknown`."""

    key: str
    tool: str
    arguments: str
    seq: int
    attempt: int
    idempotent: bool
    keyed: bool
    guarded: bool
    turn: int
    lease: Lease
    state: str = "intended"
    why: str = ""
    handle: str = ""


class Done(Struct, frozen=True):
    """A settled effect that may not be repeated, as the notes tell it. The ledger has the whole record."""

    key: str
    tool: str
    seq: int
    outcome: str = ""
    turn: int = 0


class Lineage(Struct, frozen=True):
    """The working memory at one seq. Immutable; `items` is the view in the order it is shown.

    `promised`: seqs of pinned turns that came along when a rollback left the rest of their branch behind. `chains`: the seq of
    the newest entry of each chain; no rollback sets one back. `packing`: where the open pack stands: begun, committed or aborted.
    """

    session: str
    digest: str
    head: int = 0
    epoch: int = 0
    branch: int = 0
    since: int = 1
    segments: tuple[Range, ...] = ()
    promised: tuple[int, ...] = ()
    items: tuple[Item, ...] = ()
    tokens: int = 0
    bytes: int = 0
    generation: int = 0
    last_generation: int = 0
    in_flight: InFlight | None = None
    committed_at: int = 0
    covered_through: int = 0
    rolled_back_at: int = 0
    effects: tuple[OpenEffect, ...] = ()
    done: tuple[Done, ...] = ()
    watermark: int = 0
    pins: tuple[Pin, ...] = ()
    anchors: tuple[Anchor, ...] = ()
    ineffective: int = 0
    suspended: bool = False
    changed_at: int = 0
    committed_changed_at: int = 0
    factor: float = 1.0
    overhead: int = 0
    checkpointed_at: int = 0
    checkpointed_time: float = 0.0
    pruning: int = 0
    purging: int = 0
    packing: int = 0
    policy: dict[str, Any] = {}
    chains: dict[str, int] = {}

    @property
    def turns(self) -> tuple[TurnItem, ...]:
        return tuple(i for i in self.items if isinstance(i, TurnItem))

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(i for i in self.items if isinstance(i, Node))

    @property
    def nodes_are_spills(self) -> bool:
        """Something was only put aside: a summary of it is still to be made."""
        return any(n.kind == "spill" for n in self.nodes)

    @property
    def view_tokens(self) -> int:
        """Size of the view in tokens, calibrated by what providers reported (it can only be tightened, R25)."""
        return calibrated(self.tokens, self)

    def effect(self, key: str) -> OpenEffect | None:
        return next((e for e in self.effects if e.key == key), None)

    def turn(self, id: str) -> TurnItem | None:
        return next((t for t in self.turns if t.id == id), None)

    def on_branch(self, seq: int) -> bool:
        """Whether the entry at `seq` was not left behind by a rollback."""
        return self.since <= seq <= self.head or any(a <= seq <= b for a, b in self.segments) or seq in self.promised

    def stands(self, seq: int) -> bool:
        """Whether what was said or done at `seq` can still be known from the view: on this branch, in no node's ranges, and
        not with a turn that a host dropped.

        What was done before anything was said belongs to the first thing that was said.
        """
        first = min([*(t.seq for t in self.turns), *(a for n in self.nodes for a, _ in n.ranges)], default=seq)
        place = max(seq, first)
        dropped = any(t.seq == place and t.gone for t in self.turns)
        return self.on_branch(seq) and not dropped and not any(a <= place <= b for n in self.nodes for a, b in n.ranges)


def chains_of(entry: Entry) -> tuple[str, ...]:
    """The chains that the entry stands in. An entry names the one before it in each, so that a lookup that finds nothing can be
    held against the log: what was taken out of the store, or lost by an index, is not taken for what never was.

    A chain holds what falls into one of 256 buckets, so that it is short without being a second index.
    """
    match entry:
        case EffectIntended():
            return effect_chain(entry.key), call_chain(entry.tool, entry.arguments)
        case EffectAttached() | EffectSettled() | EffectResolved():
            return (effect_chain(entry.key),)
        case CheckpointTaken():
            return ("checkpoint",)
        case HostRecord():
            return (host_chain(entry.space, entry.group),)
        case _:
            return ()


EFFECT_CHAINS = ("effect:", "call:")


def effect_chain(key: str) -> str:
    return f"effect:{_bucket(key)}"


def call_chain(tool: str, arguments: str) -> str:
    return f"call:{_bucket(f'{tool}:{arguments}')}"


def host_chain(space: str, group: str) -> str:
    return f"host:{_bucket(f'{space}:{group}')}"


def _bucket(text: str) -> str:
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')) & 0xFF:02x}"


def empty(session: str, digest: str) -> Lineage:
    """The lineage of a log with no entry; `digest` is the chain's seed (hex)."""
    return Lineage(session=session, digest=digest)


def calibrated(tokens: int, lineage: Lineage) -> int:
    return lineage.overhead + -int(-tokens * lineage.factor // 1)


def to_state(lineage: Lineage) -> dict[str, Any]:
    """The lineage as JSON values: what a materialised state, and a rollback's `past`, hold."""
    state: dict[str, Any] = msgspec.to_builtins(lineage)
    return state


def from_state(state: dict[str, Any]) -> Lineage:
    return msgspec.convert(state, Lineage)


def view_facts(items: Iterable[Item]) -> list[list[Any]]:
    """What a view digest is taken over: each turn's id and digest, each node's handle and ranges, in order."""
    facts: list[list[Any]] = []
    for item in items:
        if isinstance(item, TurnItem):
            facts.append([item.id, item.digest])
        elif isinstance(item, Node):
            facts.append([item.handle, [list(r) for r in item.ranges]])
    return facts


def place(item: Item) -> int:
    return item.covered_through if isinstance(item, Node) else item.seq
