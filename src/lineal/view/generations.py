"""One generation, explained: why it was made, what it stands for, what stays verbatim, what is carried exactly. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from lineal import ranges
from lineal.entries import CompactionAborted, CompactionBegun, CompactionCommitted, Range
from lineal.lineage import Lineage

if TYPE_CHECKING:
    from lineal.engines import Row
    from lineal.entries import Entry

LISTED = 50  # ids, handles or values that a field lists; its count says how many there are
KINDS = ("compaction_begun", "compaction_committed", "compaction_aborted")


@dataclass(frozen=True)
class Carried:
    """An exact value that was found in what was covered, and is carried beside the summary as data (R18). `seq`: its turn's."""

    kind: str
    value: str
    seq: int
    in_summary: bool


@dataclass(frozen=True)
class Generation:
    """What a generation did to the view. Lists hold the first `LISTED`; the count beside each is of all. Sizes are in tokens.

    `how`: summary (lossy), spill or stubs (both byte-exact). `read`: what it was made of, ids of turns and handles of older nodes.
    `ranges`: the seqs of the turns that its node stands for. `view_tokens` and `trigger`: when it was begun, None where not known.
    """

    generation: int
    state: Literal["in_flight", "committed", "aborted"]
    how: Literal["", "summary", "spill", "stubs"]
    why: str
    handle: str = ""
    begun_at: int = 0
    ended_at: int = 0
    view_tokens: int | None = None
    trigger: int | None = None
    read_count: int = 0
    read: tuple[str, ...] = ()
    turns: int = 0
    ranges: tuple[Range, ...] = ()
    source_tokens: int = 0
    tokens: int = 0
    summary: str = ""
    kept_count: int = 0
    kept: tuple[str, ...] = ()
    stubs: tuple[str, ...] = ()
    carried_count: int = 0
    carried: tuple[Carried, ...] = ()


def newest(entries: Iterable[tuple[Row, Entry]]) -> int:
    """The last committed generation among a log's entries of `KINDS`; 0 if there is none."""
    return max((e.generation for _, e in entries if isinstance(e, CompactionCommitted)), default=0)


def opened_at(generation: int, entries: Iterable[tuple[Row, Entry]]) -> int:
    """The seq of the first retained entry of this generation; 0 if there is none."""
    return min((row.seq for row, e in entries if getattr(e, "generation", 0) == generation), default=0)


def explained(generation: int, entries: Iterable[tuple[Row, Entry]], before: Lineage | None) -> Generation | None:
    """The generation, from a log's retained entries of `KINDS`; None if none of them is of it.

    `before`: the lineage in front of `opened_at`, None where that can be rebuilt no more.
    """
    begun: tuple[int, CompactionBegun] | None = None
    ended: tuple[int, CompactionCommitted | CompactionAborted] | None = None
    for row, entry in entries:
        if isinstance(entry, CompactionBegun) and entry.generation == generation:
            begun = (row.seq, entry)
        elif isinstance(entry, CompactionCommitted | CompactionAborted) and entry.generation == generation:
            ended = (row.seq, entry)
    if begun is None and ended is None:
        return None
    spilled = ended is not None and isinstance(ended[1], CompactionCommitted) and not ended[1].lossy and begun is None
    why = "put aside byte-exact, without a summarizer" if spilled else _why(begun[1].policy if begun else {}, before)
    made = Generation(generation, "in_flight", "", why, view_tokens=before.view_tokens if before else None)
    if begun:
        made = replace(made, begun_at=begun[0], trigger=begun[1].policy.get("trigger"), **_lists(begun[1]))
    if ended and isinstance(ended[1], CompactionAborted):
        return replace(made, state="aborted", ended_at=ended[0], why=f"{why}; aborted: {ended[1].why}")
    return replace(made, ended_at=ended[0], **_committed(ended[1])) if ended else made  # type: ignore[arg-type]


def _why(policy: Mapping[str, Any], before: Lineage | None) -> str:
    """What of the view stood above where compaction engages, or that it was asked for below that."""
    if before is None or not policy:
        return "how large the view was when it was begun is not retained"
    sizes = (
        ("tokens", before.view_tokens, "trigger"),
        ("bytes", before.bytes, "ceiling_bytes"),
        ("items", len(before.items), "ceiling_items"),
    )
    told = [(f"{size:,} {name} ({knob} {policy[knob]:,})", size > policy[knob]) for name, size, knob in sizes if policy.get(knob)]
    above = [text for text, over in told if over]
    return f"the view held {' and '.join(above)}" if above else f"asked for: the view held {', '.join(text for text, _ in told)}"


def _lists(e: CompactionBegun | CompactionCommitted) -> dict[str, Any]:
    return {"read_count": len(e.covered), "read": e.covered[:LISTED], "kept_count": len(e.kept), "kept": e.kept[:LISTED]}


def _committed(e: CompactionCommitted) -> dict[str, Any]:
    made: dict[str, Any] = {"state": "committed", "how": "summary" if e.lossy else "spill" if e.nodes else "stubs", **_lists(e)}
    made["stubs"] = tuple(s.turn for s in e.stubs)
    for node in e.nodes:
        made |= {"handle": node.handle, "turns": node.count, "ranges": node.ranges, "summary": node.text}
        made |= {"source_tokens": node.source_tokens, "tokens": node.tokens}
        inside = [a for a in e.anchors if ranges.contains(node.ranges, a.seq)]
        made["carried_count"] = len(inside)
        made["carried"] = tuple(Carried(a.kind, a.value, a.seq, a.value in node.text) for a in inside[:LISTED])
    return made
