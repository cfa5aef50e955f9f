"""The timeline: every entry of a log as one line. Pure; `_TOLD` has one teller a kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from lineal import codec, messages
from lineal.entries import (
    CheckpointTaken,
    CompactionAborted,
    CompactionBegun,
    CompactionCommitted,
    EffectAttached,
    EffectIntended,
    EffectResolved,
    EffectSettled,
    Entry,
    Evicted,
    Forked,
    HostRecord,
    PackAborted,
    PackBegun,
    PackCommitted,
    PackFinished,
    Pinned,
    PruneBegun,
    PruneFinished,
    PurgeBegun,
    PurgeFinished,
    RolledBack,
    Segment,
    Suspended,
    TurnAppended,
    Unknown,
    Unpinned,
    Usage,
)
from lineal.ranges import told

if TYPE_CHECKING:
    from lineal.engines import Row

WORDS = 96  # characters of a message that a row quotes
NAMED = 5  # ids that a row names one by one

Mark = Literal["", "begun", "inside", "committed", "aborted", "spilled", "checkpoint", "rollback"]


def words(text: str, limit: int = WORDS) -> str:
    """The first words of a text on one line, at most `limit` characters."""
    line = " ".join(text[: limit * 8].split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def first_ids(ids: Iterable[str]) -> str:
    named = list(ids)
    shown = ", ".join(named[:NAMED]) or "none"
    return shown if len(named) <= NAMED else f"{shown} and {len(named) - NAMED:,} more"


def counted_turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count:,} turns"


@dataclass(frozen=True)
class TimelineRow:
    """One entry. `at` is in seconds since 1970 (0: not known). `mark`: what it is to the compaction around it, or a place to go back to.

    `detail` holds the facts of `text` under their names.
    """

    seq: int
    at: float
    kind: str
    text: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    mark: Mark = ""


def timeline(entries: Iterable[tuple[Row, Entry]]) -> Iterator[TimelineRow]:
    """One row an entry, in log order, as `Log.entries` gives them; streams."""
    flight = 0
    for stored, entry in entries:
        text, detail = _TOLD[type(entry)](entry)
        mark: Mark = _MARKS.get(type(entry), "inside" if flight else "")
        if isinstance(entry, CompactionBegun):
            flight = entry.generation
        elif isinstance(entry, CompactionCommitted):
            mark = "committed" if entry.generation == flight else "spilled"
            flight = 0 if entry.generation == flight else flight
        elif isinstance(entry, CompactionAborted | RolledBack | Forked | PurgeBegun):
            flight = 0
        yield TimelineRow(stored.seq, entry.at, stored.kind, text, detail, mark)


Told = tuple[str, dict[str, Any]]


def _turn(e: TurnAppended) -> Told:
    said = "[content erased]" if e.message is None else words(messages.text_of(e.message))
    notes = [", late result" if e.late else "", ", shown as stub" if e.stubbed else ""]
    detail: dict[str, Any] = {"id": e.id, "author": e.author, "role": e.role, "tokens": e.tokens, "bytes": e.bytes}
    detail |= {"calls": [c.tool for c in e.calls], "results": [r.call for r in e.results], "late": e.late}
    return f"{e.author} ({e.tokens:,} tokens{''.join(notes)}): {said}", detail


def _begun(e: CompactionBegun) -> Told:
    detail: dict[str, Any] = {"generation": e.generation, "covered": len(e.covered), "kept": len(e.kept), "spilled": len(e.spilled)}
    detail |= {"request_id": e.request_id, "deadline": e.lease.deadline, "pid": e.lease.holder.pid}
    return f"compaction g{e.generation} begun: {len(e.covered):,} items to cover, {len(e.kept):,} kept", detail


def _committed(e: CompactionCommitted) -> Told:
    ranges = tuple(r for n in e.nodes for r in n.ranges)
    tokens, source, count = (sum(getattr(n, name) for n in e.nodes) for name in ("tokens", "source_tokens", "count"))
    how = "compaction" if e.lossy else "spill"
    text = f"{how} g{e.generation} committed: {counted_turns(count)}, seq {told(ranges)}, now stand in {tokens:,} tokens (were {source:,})"
    if e.stubs:
        text += f"; {counted_turns(len(e.stubs))} shown as stub"
    detail: dict[str, Any] = {
        "generation": e.generation,
        "parent": e.parent,
        "lossy": e.lossy,
        "turns": count,
        "ranges": [list(r) for r in ranges],
    }
    detail |= {"tokens": tokens, "source_tokens": source, "anchors": len(e.anchors), "stubs": [s.turn for s in e.stubs]}
    return text, detail


def _aborted(e: CompactionAborted) -> Told:
    return f"compaction g{e.generation} aborted: {words(e.why)}", {"generation": e.generation, "why": e.why}


def _evicted(e: Evicted) -> Told:
    return f"{counted_turns(len(e.turns))} evicted by {e.by}: {first_ids(e.turns)}", {"turns": list(e.turns), "by": e.by}


def _suspended(e: Suspended) -> Told:
    text = f"compaction suspended: view {e.tokens:,} tokens, trigger {e.trigger:,}, floor {e.floor_tokens:,}, pins {e.pinned_tokens:,}"
    return text, _fields(e)


def _checkpoint(e: CheckpointTaken) -> Told:
    label = f" {words(e.label)!r}" if e.label else ""
    torn = ", taken while a compaction was in flight" if e.in_flight else ""
    return f"checkpoint {e.id}{label} at generation {e.generation}, effects up to seq {e.watermark}{torn}", _fields(e)


def _rolled_back(e: RolledBack) -> Told:
    name = f" (checkpoint {e.checkpoint})" if e.checkpoint else ""
    world = f"; guarded effects: {first_ids(e.guarded)}" if e.guarded else ""
    world += f"; unknown effects: {first_ids(e.unknown)}" if e.unknown else ""
    detail = {"target": e.target, "guarded": list(e.guarded), "unknown": list(e.unknown), "checkpoint": e.checkpoint}
    return f"rolled back to seq {e.target}{name}{world}", detail


def _forked(e: Forked) -> Told:
    return f"forked from {e.parent!r} at seq {e.fork_at}", {"parent": e.parent, "fork_at": e.fork_at}


def _intended(e: EffectIntended) -> Told:
    seen = "" if e.guarded else ", seen outside the gate"
    detail = {"key": e.key, "tool": e.tool, "attempt": e.attempt, "guarded": e.guarded, "idempotent": e.idempotent, "turn": e.turn}
    return f"effect {e.tool} intended (key {e.key}, attempt {e.attempt}{seen}): {as_text(e.shown)}", detail


def _attached(e: EffectAttached) -> Told:
    return f"effect {e.key} is known outside as {words(e.handle)}", {"key": e.key, "handle": e.handle}


def _settled(e: EffectSettled) -> Told:
    outcome = "" if e.outcome is None else f": {as_text(e.outcome)}"
    why = f" ({words(e.why)})" if e.why else ""
    return f"effect {e.key} is {e.state}{why}{outcome}", {"key": e.key, "state": e.state, "attempt": e.attempt, "why": e.why}


def _resolved(e: EffectResolved) -> Told:
    note = f": {words(e.note)}" if e.note else ""
    return f"effect {e.key} resolved: {e.finding}{note}", {"key": e.key, "finding": e.finding, "note": e.note}


def _pinned(e: Pinned) -> Told:
    what = f"turn {e.pin.turn}" if e.pin.turn else f"text {words(e.pin.text)!r}"
    return f"pinned {what}", {"pin": e.pin.id, "turn": e.pin.turn, "text": e.pin.text}


def _unpinned(e: Unpinned) -> Told:
    return f"unpinned {e.id}", {"pin": e.id}


def _usage(e: Usage) -> Told:
    return f"provider counted {e.input_tokens:,} tokens in, {e.output_tokens:,} out; counted here {e.counted:,}", _fields(e)


def _prune_begun(e: PruneBegun) -> Told:
    ranges = [(run.first, run.last) for run in e.runs]
    return f"prune begun: {e.entries:,} entries, seq {told(ranges)}", {"entries": e.entries, "ranges": [list(r) for r in ranges]}


def _prune_finished(e: PruneFinished) -> Told:
    return f"prune of seq {e.begun} finished", {"begun": e.begun}


def _purge_begun(e: PurgeBegun) -> Told:
    detail = {"turns": list(e.turns), "generations": list(e.generations), "checkpoints": list(e.checkpoints)}
    return f"purge begun: content of {counted_turns(len(e.turns))} ({first_ids(e.turns)}), {len(e.stand_ins):,} rows", detail


def _purge_finished(e: PurgeFinished) -> Told:
    return f"purge of seq {e.begun} finished", {"begun": e.begun}


def _pack_begun(e: PackBegun) -> Told:
    detail = {"entries": e.entries, "bytes": e.bytes, "ranges": [list(r) for r in e.runs]}
    return f"pack begun: {e.entries:,} entries, {e.bytes:,} bytes, seq {told(e.runs)}", detail


def _segment(e: Segment) -> Told:
    if not e.packed:
        return "segment without content", {}
    detail = {"begun": e.begun, "ranges": [list(r) for r in e.runs], "size": e.size, "bytes": len(e.packed), "replaces": list(e.replaces)}
    return f"segment of seq {told(e.runs)}: {e.size:,} bytes in {len(e.packed):,}", detail


def _pack_committed(e: PackCommitted) -> Told:
    detail = {"begun": e.begun, "segments": [p.seq for p in e.segments], "replaced": list(e.replaced)}
    return f"pack of seq {e.begun} committed: {len(e.segments):,} segments", detail


def _pack_aborted(e: PackAborted) -> Told:
    return f"pack of seq {e.begun} aborted: {len(e.leftovers):,} segments go", {"begun": e.begun, "leftovers": list(e.leftovers)}


def _pack_finished(e: PackFinished) -> Told:
    return f"pack of seq {e.begun} finished", {"begun": e.begun}


def _host(e: HostRecord) -> Told:
    detail = {"space": e.space, "group": e.group, "key": e.key, "turns": len(e.turns), "releases": len(e.releases)}
    if e.releases:
        return f"{words(e.space, 40)} releases {len(e.releases):,} records", detail
    return f"kept for {words(e.space, 40)}: {words(' '.join(filter(None, (e.group, e.key))), 60)}", detail


def _annotation(e: Unknown) -> Told:
    try:
        fields = codec.from_json(e.raw)
    except ValueError:
        return f"{e.name}: {len(e.raw):,} bytes that are no JSON", {}
    shown = {k: v for k, v in fields.items() if k not in ("v", "kind")} if isinstance(fields, dict) else {"value": fields}
    return f"{e.name}: {', '.join(f'{k} {words(str(v), 60)}' for k, v in shown.items())}", shown


def _fields(e: Entry) -> dict[str, Any]:
    return {k: v for k, v in msgspec.structs.asdict(e).items() if k != "at"}


def as_text(value: Any) -> str:
    return words(value if isinstance(value, str) else codec.sorted_json(value).decode("utf-8", "replace"))


_TOLD: dict[type[Entry], Callable[[Any], Told]] = {
    TurnAppended: _turn,
    CompactionBegun: _begun,
    CompactionCommitted: _committed,
    CompactionAborted: _aborted,
    Evicted: _evicted,
    Suspended: _suspended,
    CheckpointTaken: _checkpoint,
    RolledBack: _rolled_back,
    Forked: _forked,
    EffectIntended: _intended,
    EffectAttached: _attached,
    EffectSettled: _settled,
    EffectResolved: _resolved,
    Pinned: _pinned,
    Unpinned: _unpinned,
    Usage: _usage,
    PruneBegun: _prune_begun,
    PruneFinished: _prune_finished,
    PurgeBegun: _purge_begun,
    PurgeFinished: _purge_finished,
    PackBegun: _pack_begun,
    Segment: _segment,
    PackCommitted: _pack_committed,
    PackAborted: _pack_aborted,
    PackFinished: _pack_finished,
    HostRecord: _host,
    Unknown: _annotation,
}
_MARKS: dict[type[Entry], Mark] = {
    CompactionBegun: "begun",
    CompactionAborted: "aborted",
    CheckpointTaken: "checkpoint",
    RolledBack: "rollback",
}
