"""The fold: entries -> Lineage. What the memory *is*, computed from nothing but the log.

`fold(lineage, seq, digest, inner, entry)` is one pure function per entry kind (`_STEPS`). Appending and reopening go
through the same fold; a materialised state is a `Lineage` written down, so that reopening folds only the tail behind it.

Invariants, checked after every step, also where Python leaves out assertions, because the rows may be anybody's:

| # | holds |
|---|---|
| L1 | `head` grows by exactly one with each entry |
| L2 | items stand in log order: a turn at its seq, a node at `covered_through`, a note at the seq it stands behind |
| L3 | no seq is in two nodes' ranges |
| L4 | `generation <= last_generation`; a compaction in flight has a generation above every committed one |
| L5 | the watermark never falls |
| L6 | an entry that names the one before it in a chain names the newest of that chain |
| L7 | a segment is of the pack, or of the purge, that is open; a pack is committed, or aborted, once |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

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
    Node,
    Note,
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
    Stub,
    Suspended,
    TurnAppended,
    Unknown,
    Unpinned,
    Usage,
)
from lineal.lineage import Done, InFlight, Item, Lineage, OpenEffect, TurnItem, calibrated, chains_of, from_state, place

CALIBRATION_FROM = 4_096  # counted tokens: below this a difference is fixed overhead (tools, framing), above it a factor
FACTOR_MAX = 3.0
DONE_NOTED = 24  # settled effects that the state carries for the notes; the ledger has all
OUTCOME_CHARS = 120


class Misfit(Exception):
    """An entry that cannot follow the ones before it, or an invariant that does not hold behind it."""


def _must(holds: bool, *told: object) -> None:
    if not holds:
        raise Misfit(" ".join(map(str, told)))


def fold(before: Lineage, seq: int, digest: str, inner: str, entry: Entry) -> Lineage:
    """The lineage after `entry`. `digest` is its place in the chain, `inner` the digest of its own bytes (hex).

    Raises `Misfit` for an entry that cannot follow: who reads a log that others wrote says `Corrupt` then.
    """
    _must(seq == before.head + 1, "L1: entry", seq, "folded onto head", before.head)
    step = _STEPS[type(entry)]
    try:
        after = step(msgspec.structs.replace(before, head=seq, digest=digest), seq, inner, entry)
    except (msgspec.ValidationError, ValueError, TypeError, KeyError, AttributeError, OverflowError, ZeroDivisionError) as e:
        raise Misfit(f"a {type(entry).__name__} at {seq} that no step understands: {e}") from e
    _must(after.generation <= after.last_generation, "L4 at", seq)
    _must(after.watermark >= before.watermark, "L5 at", seq)
    return _chained(before, after, entry)


def _chained(before: Lineage, after: Lineage, entry: Entry) -> Lineage:
    """Chains go on through rollbacks. Entries of a version that did not link them stand in none."""
    names = chains_of(entry) if entry.before else ()
    newest = links(before, names)
    _must(entry.before == newest, "L6: entry", after.head, "names", entry.before, "before it, not", newest)
    if not names and after.chains is before.chains:
        return after
    return _replace(after, chains={**before.chains, **dict.fromkeys(names, after.head)})


def links(lineage: Lineage, chains: Iterable[str]) -> tuple[int, ...]:
    """What the next entry that stands in these chains must name as `before`."""
    return tuple(lineage.chains.get(name, 0) for name in chains)


def check_items(items: tuple[Item, ...]) -> None:
    """L2 and L3. Called where items are rearranged; appending at the end keeps both by L1."""
    places = [place(i) for i in items]
    _must(places == sorted(places), "L2: items out of log order:", places)
    ranges = sorted(r for i in items if isinstance(i, Node) for r in i.ranges)
    _must(all(a[1] < b[0] for a, b in zip(ranges, ranges[1:], strict=False)), "L3: ranges overlap:", ranges)


# --- one pure step per kind ------------------------------------------------------------------------------------------

_replace = msgspec.structs.replace


def _with_items(old: Lineage, items: tuple[Item, ...], **more: Any) -> Lineage:
    check_items(items)
    return _replace(old, items=items, tokens=sum(i.tokens for i in items), bytes=sum(i.bytes for i in items), **more)


def _push(old: Lineage, item: Item, **more: Any) -> Lineage:
    return _replace(old, items=(*old.items, item), tokens=old.tokens + item.tokens, bytes=old.bytes + item.bytes, **more)


def item_of(seq: int, inner: str, e: TurnAppended) -> TurnItem:
    return TurnItem(seq, e.id, e.author, e.role, e.tokens, e.bytes, inner, e.calls, e.results, e.dialect, e.stubbed, e.late)


def _turn(old: Lineage, seq: int, inner: str, e: TurnAppended) -> Lineage:
    item = item_of(seq, inner, e)
    if e.author == "user":
        return _push(old, item, ineffective=0, suspended=False, changed_at=seq)
    return _push(old, item, changed_at=seq)


def _begun(old: Lineage, seq: int, inner: str, e: CompactionBegun) -> Lineage:
    flight = InFlight(e.generation, seq, old.epoch, e.request_id, e.covered, e.lease)
    return _replace(old, in_flight=flight, last_generation=e.generation, policy=e.policy or old.policy)


def replaced(items: tuple[Item, ...], covered: Iterable[str], nodes: Iterable[Node], note: Note | None) -> tuple[Item, ...]:
    """The view's items once `nodes` stand for the covered ones (ids of turns, handles of nodes). Old notes go."""
    gone = set(covered)
    kept: list[Item] = [i for i in items if isinstance(i, TurnItem) and i.id not in gone or isinstance(i, Node) and i.handle not in gone]
    fresh: list[Item] = [*nodes, *([note] if note else [])]
    return tuple(sorted([*kept, *fresh], key=place))


def restubbed(items: tuple[Item, ...], stubs: Iterable[Stub]) -> tuple[Item, ...]:
    """The items with some turns shown as stubs from now on."""
    by_id = {s.turn: s for s in stubs}

    def shown(item: Item) -> Item:
        stub = by_id.get(item.id) if isinstance(item, TurnItem) else None
        return _replace(item, stubbed=stub.limit, tokens=stub.tokens, bytes=stub.bytes) if stub else item

    return tuple(shown(i) for i in items)


def _committed(old: Lineage, seq: int, inner: str, e: CompactionCommitted) -> Lineage:
    items = restubbed(replaced(old.items, e.covered, e.nodes, e.note), e.stubs)
    through = max((n.covered_through for n in e.nodes), default=old.covered_through)
    return _with_items(
        old,
        items,
        generation=e.generation,
        last_generation=max(old.last_generation, e.generation),
        in_flight=None,
        committed_at=seq if e.lossy else old.committed_at,
        covered_through=max(through, old.covered_through),
        anchors=e.anchors,
        ineffective=e.ineffective,
        suspended=old.suspended and not e.lossy,
        committed_changed_at=0 if e.more else min(old.changed_at, old.in_flight.seq if old.in_flight else old.changed_at),
    )


def _aborted(old: Lineage, seq: int, inner: str, e: CompactionAborted) -> Lineage:
    mine = old.in_flight and old.in_flight.generation == e.generation
    return _replace(old, in_flight=None if mine else old.in_flight, ineffective=old.ineffective + e.ineffective)


def _evicted(old: Lineage, seq: int, inner: str, e: Evicted) -> Lineage:
    gone = set(e.turns)
    dropped = tuple(_replace(i, gone=True, tokens=0, bytes=0) if isinstance(i, TurnItem) and i.id in gone else i for i in old.items)
    return _with_items(old, dropped, changed_at=seq)


def _suspended(old: Lineage, seq: int, inner: str, e: Suspended) -> Lineage:
    return _replace(old, suspended=True, policy=e.policy or old.policy)


def _checkpoint(old: Lineage, seq: int, inner: str, e: CheckpointTaken) -> Lineage:
    return _replace(old, checkpointed_at=seq, checkpointed_time=e.at)


def _rolled_back(old: Lineage, seq: int, inner: str, e: RolledBack) -> Lineage:
    """The view of the target, under everything that survives a rollback: ledger, watermark, calibration, generations."""
    past = from_state(e.past)
    items = (*past.items, *([e.note] if e.note else []))
    unknown = tuple(_replace(x, state="unknown", why="rolled back") if x.key in e.unknown else x for x in old.effects)
    segments = (*past.segments, *([(past.since, e.target)] if past.since <= e.target else []))
    promised = {*past.promised, *(i.seq for i in past.items if isinstance(i, TurnItem) and i.seq > e.target)}
    return _with_items(
        _replace(past, session=old.session, head=seq, digest=old.digest),
        items,
        epoch=old.epoch + 1,
        branch=old.branch + 1,
        since=seq,
        segments=segments,
        promised=tuple(sorted(promised)),
        last_generation=old.last_generation,
        in_flight=None,
        committed_at=past.committed_at,
        rolled_back_at=seq,
        effects=unknown,
        done=old.done,
        watermark=old.watermark,
        pins=past.pins,
        suspended=False,
        ineffective=0,
        changed_at=seq,
        factor=old.factor,
        overhead=old.overhead,
        checkpointed_at=old.checkpointed_at,
        checkpointed_time=old.checkpointed_time,
        pruning=old.pruning,
        purging=old.purging,
        packing=old.packing,
    )


def _forked(old: Lineage, seq: int, inner: str, e: Forked) -> Lineage:
    """What was in flight belongs to the parent: its compaction and its removals are void here, its effects unknown here.

    Turns that the parent purged after the fork's place have no content to show here either.
    """
    purged = {t.seq: t.id for t in old.turns if str(t.seq) in e.stand_ins}
    effects = tuple(_replace(x, state="unknown", why=f"in flight in {e.parent!r} at the fork") for x in old.effects)
    kept = (i for i in old.items if not (isinstance(i, TurnItem) and i.seq in purged))
    pins = tuple(p for p in old.pins if p.turn not in purged.values())
    after = _with_items(old, (*kept, *([e.note] if e.note else [])), pins=pins, in_flight=None, effects=effects)
    return _replace(after, epoch=old.epoch + 1, suspended=False, ineffective=0, changed_at=seq, pruning=0, purging=0, packing=0)


def _intended(old: Lineage, seq: int, inner: str, e: EffectIntended) -> Lineage:
    others = tuple(x for x in old.effects if x.key != e.key)
    mine = OpenEffect(e.key, e.tool, e.arguments, seq, e.attempt, e.idempotent, e.keyed, e.guarded, e.turn, e.lease)
    return _replace(old, effects=(*others, mine))


def _settled(old: Lineage, seq: int, inner: str, e: EffectSettled) -> Lineage:
    mine = old.effect(e.key)
    others = tuple(x for x in old.effects if x.key != e.key)
    if e.state == "unknown":
        return _replace(old, effects=(*others, _replace(mine, state="unknown", why=e.why))) if mine else old
    if e.state != "done" or (mine and mine.idempotent):
        return _replace(old, effects=others)
    told = Done(e.key, mine.tool if mine else "", mine.seq if mine else seq, _short(e.outcome), mine.turn if mine else 0)
    return _replace(old, effects=others, watermark=max(old.watermark, told.seq), done=_noted(old, told))


def _noted(old: Lineage, told: Done) -> tuple[Done, ...]:
    return (*(d for d in old.done if d.key != told.key), told)[-DONE_NOTED:]


def _short(outcome: Any) -> str:
    """On one line: an outcome comes from a tool, and a line of its own in the note would be said by the machine."""
    text = " ".join((outcome if isinstance(outcome, str) else "" if outcome is None else repr(outcome)).split())
    return text if len(text) <= OUTCOME_CHARS else text[: OUTCOME_CHARS - 1] + "…"


def _attached(old: Lineage, seq: int, inner: str, e: EffectAttached) -> Lineage:
    return _replace(old, effects=tuple(_replace(x, handle=e.handle) if x.key == e.key else x for x in old.effects))


def _resolved(old: Lineage, seq: int, inner: str, e: EffectResolved) -> Lineage:
    mine = old.effect(e.key)
    rest = _replace(old, effects=tuple(x for x in old.effects if x.key != e.key))
    if e.finding != "happened":
        return _replace(rest, done=tuple(d for d in old.done if d.key != e.key))
    if mine is None or mine.idempotent:
        return rest
    told = Done(e.key, mine.tool, mine.seq, _short(e.note), mine.turn)
    return _replace(rest, watermark=max(old.watermark, mine.seq), done=_noted(old, told))


def _pinned(old: Lineage, seq: int, inner: str, e: Pinned) -> Lineage:
    pins = (*(p for p in old.pins if p.id != e.pin.id), e.pin)
    pinned = _replace(old, pins=pins, ineffective=0, suspended=False, changed_at=seq)
    return _push(pinned, e.note) if e.note else pinned


def _unpinned(old: Lineage, seq: int, inner: str, e: Unpinned) -> Lineage:
    pins = tuple(p for p in old.pins if p.id != e.id)
    return _replace(old, pins=pins, ineffective=0, suspended=False, changed_at=seq)


def _usage(old: Lineage, seq: int, inner: str, e: Usage) -> Lineage:
    """Reported usage can only tighten: small views teach the fixed overhead, large ones the factor."""
    if e.counted < CALIBRATION_FROM:
        return _replace(old, overhead=max(old.overhead, e.input_tokens - calibrated(e.counted, _replace(old, overhead=0))))
    factor = (e.input_tokens - old.overhead) / e.counted
    return _replace(old, factor=min(FACTOR_MAX, max(old.factor, factor)))


def _prune_begun(old: Lineage, seq: int, inner: str, e: PruneBegun) -> Lineage:
    return _replace(old, pruning=seq)


def _prune_finished(old: Lineage, seq: int, inner: str, e: PruneFinished) -> Lineage:
    return _replace(old, pruning=0)


def _purge_begun(old: Lineage, seq: int, inner: str, e: PurgeBegun) -> Lineage:
    """The content leaves the view with every note, since notes repeat it; `PurgeFinished` brings a fresh one."""
    erased, nodes = set(e.turns), {n.generation: n for n in e.nodes}
    items: list[Item] = []
    for item in old.items:
        if isinstance(item, TurnItem) and item.id not in erased:
            items.append(item)
        elif isinstance(item, Node):
            items.append(nodes.get(item.generation, item))
    after = _with_items(
        old,
        tuple(items),
        anchors=tuple(a for a in old.anchors if a.seq not in e.seqs),
        pins=tuple(p for p in old.pins if p.turn not in erased),
        done=tuple(_replace(d, outcome="") if d.key in e.effects else d for d in old.done),
        effects=tuple(_replace(x, why="") if x.key in e.effects else x for x in old.effects),
    )
    return _replace(after, purging=seq, epoch=old.epoch + 1, in_flight=None, changed_at=seq)


def _purge_finished(old: Lineage, seq: int, inner: str, e: PurgeFinished) -> Lineage:
    after = _replace(old, purging=0)
    return _push(after, e.note) if e.note else after


def _pack_begun(old: Lineage, seq: int, inner: str, e: PackBegun) -> Lineage:
    _must(not old.packing, "L7 at", seq, "a pack begins while this one is open:", old.packing)
    return _replace(old, packing=seq)


def _segment(old: Lineage, seq: int, inner: str, e: Segment) -> Lineage:
    """One whose content is gone (in a fork, after an abort) says nothing of where it belongs."""
    _must(not e.packed or e.begun in (old.packing, old.purging), "L7 at", seq, "a segment of", e.begun)
    return old


def _pack_decided(old: Lineage, seq: int, inner: str, e: PackCommitted | PackAborted) -> Lineage:
    _must(e.begun == old.packing, "L7 at", seq, "decided:", e.begun, "open:", old.packing)
    return _replace(old, packing=seq)


def _pack_finished(old: Lineage, seq: int, inner: str, e: PackFinished) -> Lineage:
    return _replace(old, packing=0)


def _carried(old: Lineage, seq: int, inner: str, e: HostRecord | Unknown) -> Lineage:
    return old


_STEPS: dict[type[Entry], Callable[[Lineage, int, str, Any], Lineage]] = {
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
    PackCommitted: _pack_decided,
    PackAborted: _pack_decided,
    PackFinished: _pack_finished,
    HostRecord: _carried,
    Unknown: _carried,
}
