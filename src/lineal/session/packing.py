"""Pack: salts and bodies of old rows move into compressed segments of the same log. Nothing that is seen changes.

| step | rows | a crash here means |
|---|---|---|
| choose the rows, check each against its digest | raw | nothing happened |
| append `PackBegun` (runs, digest before) | raw | the raw rows are the truth; the next call aborts it |
| append a segment, read it back, check each body in it | raw and packed | the same: the segments are leftovers |
| append `PackCommitted` (segments, digest after) | raw and packed | the segments are the truth; dropping goes on |
| read the segments again; keep a state behind them, drop older ones | raw and packed | the same |
| drop raw content and replaced segments, see that it is gone | partly raw | the same; dropping is idempotent |
| append `PackFinished` | packed | done |
| or: append `PackAborted` (leftovers) | raw and packed | the raw rows are the truth, and the packer cannot go on; emptying does |
| empty the leftovers, append `PackFinished` | raw | done |

A prune or a purge does not wait for a pack: it aborts one that is not committed, and the packer begins again. Nothing is emptied
before the log says what became of the pack: only an append that sees no other writer can say so. Small segments of a block that
is packed again are joined with what is new.

Never packed: rows of effects and checkpoints, whose chains are walked before anything is sent or gone back to; segments; what declares
that rows or contents are gone; what is shown verbatim, unless a bound is given that takes it in. So opening, appending, the gate of
effects and, by default, showing the view read no segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from lineal import codec, ranges
from lineal.engines import Row
from lineal.entries import Entry, Lease, PackAborted, PackBegun, PackCommitted, PackFinished, Piece, PurgeBegun, Range, Segment
from lineal.errors import Corrupt, Refused, Unavailable, Verdict
from lineal.holder import alive, describe, give_up, lease
from lineal.lineage import Lineage
from lineal.session import segments
from lineal.session.effects import EFFECT_KINDS
from lineal.session.outcomes import Packed
from lineal.session.segments import HEAD, PLAIN_MAX, Place, members
from lineal.session.travel import checkpoints

if TYPE_CHECKING:
    from lineal.session import Session

Progress = Callable[[int, int], None]  # rows packed, rows in all
DECLARING = ("prune_begun", "purge_begun", "forked", "pack_begun", "pack_committed", "pack_aborted", "pack_finished")
NEVER = (*DECLARING, *EFFECT_KINDS, "segment", "checkpoint", codec.PRUNED)
SMALL = 64 << 10  # bytes of a segment that is joined with what is packed next in its block
LEASE_SECONDS = 3_600.0  # for a packer on another machine; one on this machine is asked whether it lives
TRIES = 5  # how often a pack begins again because a prune or a purge came between


class _Overtaken(Exception):
    """The pack is not open any more: a prune or a purge aborted it."""


@dataclass(frozen=True)
class _Plan:
    """`chunks`: the seqs of each segment to be. `runs`: rows that lose their own copy. `damaged`: rows left as they are."""

    chunks: tuple[tuple[int, ...], ...] = ()
    runs: tuple[Range, ...] = ()
    entries: int = 0
    bytes: int = 0
    digest: str = ""
    replaces: tuple[Place, ...] = ()
    damaged: tuple[int, ...] = ()


def pack(session: Session, before: int | None, dry_run: bool, progress: Progress | None = None) -> Packed:
    """Pack what may be packed of the rows below `before` (default: of what the view shows no more). See `Session.pack`."""
    segments.refuse_unless_possible()
    if dry_run:
        lineage = session.log.catch_up()
        plan = _plan(session, lineage, before)
        sizes = [len(codec.encode(_segment(session, lineage.head + 1, plan, chunk))) for chunk in plan.chunks]
        return _receipt(plan, (), sum(sizes), dry_run)
    for _ in range(TRIES):
        held = lease(session.holder, LEASE_SECONDS, session.clock)
        try:
            plan, seq = _begin(session, before, held)
            if not seq:
                return _receipt(plan, (), 0, dry_run)
            written, committed = _write(session, seq, plan, progress)
            if session.log.catch_up().packing == committed:  # else a removal has gone on with it already
                finish(session, committed)
            return _receipt(plan, [row.seq for row in written], sum(row.size for row in written), dry_run)
        except _Overtaken:
            continue
        finally:
            give_up(held)
    message = f"prunes or purges came between {TRIES} times."
    raise Refused(Verdict("pack", "overtaken", message=message, remedy="call pack() again when they have ended"))


def _receipt(plan: _Plan, written: Sequence[int], size: int, dry_run: bool) -> Packed:
    replaced = sum(place.bytes for place in plan.replaces)
    return Packed(plan.runs, plan.entries, plan.bytes + replaced, size, len(plan.chunks), tuple(written), plan.damaged, dry_run)


# --- what may go ---------------------------------------------------------------------------------------------------------


def _plan(session: Session, lineage: Lineage, before: int | None) -> _Plan:
    """Rows with content below the bound, but for those that declare something and, where no bound is given, those that are shown;
    cut into segments block by block.
    """
    until = min(lineage.head, (before - 1) if before else lineage.covered_through)
    shown = set() if before else {t.seq for t in lineage.turns}
    sizes: dict[int, int] = {}
    inner: dict[int, bytes] = {}
    packed: set[int] = set()
    damaged: list[int] = []
    for row in session.engine.scan(session.name, 0, until):
        inner[row.seq] = row.inner
        if row.erased:
            packed.add(row.seq)
        elif row.kind in NEVER or row.seq in shown:
            continue
        elif codec.digest(row.salt, row.body) != row.inner:
            damaged.append(row.seq)  # it stays, and does not stand in the way of the rest (R56)
        elif len(row.salt) == codec.SALT_BYTES:
            sizes[row.seq] = row.size
    joined = _small(session, {seq >> codec.BLOCK_BITS for seq in sizes}, until)
    moved = {seq for place in joined for seq in members(place.segment.runs) if seq in packed} - session.log.erased().keys()
    raw = ranges.union((seq, seq) for seq in sizes)
    every = sizes | {row.seq: row.size for row in _rows_at(session, moved)}
    digest = _digest((seq, inner[seq]) for seq in sorted(every))
    content = sum(sizes.values()) + codec.SALT_BYTES * len(sizes)
    return _Plan(tuple(_chunks(every)), raw, len(sizes), content, digest, tuple(joined), tuple(damaged))


def _small(session: Session, blocks: set[int], until: int) -> list[Place]:
    """Segments that are joined with what is new in their blocks."""
    standing = segments.all_standing(session.engine, session.name) if blocks else ()
    return [
        p for p in standing if p.bytes < SMALL and p.segment.runs[0][0] >> codec.BLOCK_BITS in blocks and p.segment.runs[-1][1] <= until
    ]


def _chunks(sizes: dict[int, int]) -> Iterator[tuple[int, ...]]:
    """The seqs of each segment: of one block, and of no more than `PLAIN_MAX` bytes unless one row alone has more."""
    chunk: list[int] = []
    filled = 0
    for seq in sorted(sizes):
        if chunk and (chunk[0] >> codec.BLOCK_BITS != seq >> codec.BLOCK_BITS or filled + sizes[seq] > PLAIN_MAX):
            yield tuple(chunk)
            chunk, filled = [], 0
        chunk.append(seq)
        filled += sizes[seq]
    if chunk:
        yield tuple(chunk)


def _digest(pairs: Iterable[tuple[int, bytes]]) -> str:
    """Over seqs and inner digests, in order of seq (hex)."""
    return codec.digest(*(seq.to_bytes(8, "big") + inner for seq, inner in pairs)).hex()


def _begin(session: Session, before: int | None, held: Lease) -> tuple[_Plan, int]:
    """(what will be packed, the seq of `PackBegun` or 0 if there is nothing). Raises `Refused` while somebody else packs."""
    plan, waiting = _Plan(), True
    while waiting:
        session.finish_removal()
        lineage = session.log.catch_up()
        if lineage.packing:
            raise _in_flight(session, lineage.packing)

        def decide(now: Lineage) -> Sequence[Entry]:
            nonlocal plan, waiting
            waiting = bool(now.packing or now.pruning or now.purging)
            plan = _Plan() if waiting else _plan(session, now, before)
            if not plan.runs:
                return []
            return [PackBegun(runs=plan.runs, entries=plan.entries, bytes=plan.bytes, pre_digest=plan.digest, lease=held)]

        rows = session.log.write(decide)[1]
    return plan, rows[0].seq if rows else 0


def _in_flight(session: Session, seq: int) -> Refused:
    entry = next(session.log.entries(seq - 1, seq))[1]
    who = describe(entry.lease, session.clock) if isinstance(entry, PackBegun) else "somebody"
    message = f"a pack of session {session.name!r} is in flight since seq {seq} ({who})."
    return Refused(Verdict("pack", "in_flight", message=message, remedy="let it end; if its process has died, call pack() again"))


# --- writing -------------------------------------------------------------------------------------------------------------


def _write(session: Session, begun: int, plan: _Plan, progress: Progress | None) -> tuple[list[Row], int]:
    """Every segment, read back, and the seq of the manifest of them. Raises `_Overtaken`."""
    written: list[Row] = []
    read: list[tuple[int, bytes]] = []
    for chunk in plan.chunks:
        with _overtaken_unless(session, begun):
            written += session.log.write(_while_open(begun, _segment(session, begun, plan, chunk)))[1]
            read += _read_back(session, written[-1].seq, chunk)
        if progress:
            progress(len(read), sum(map(len, plan.chunks)))
    pieces = tuple(Piece(row.seq, ranges.union((s, s) for s in chunk)) for row, chunk in zip(written, plan.chunks, strict=True))
    committed = PackCommitted(begun=begun, segments=pieces, post_digest=_digest(read), replaced=tuple(place.seq for place in plan.replaces))
    if committed.post_digest != plan.digest:
        raise Corrupt(session.name, begun, plan.digest[:16], committed.post_digest[:16], "segments read back differently")
    return written, session.log.write(_while_open(begun, committed))[1][0].seq


@contextmanager
def _overtaken_unless(session: Session, at: int) -> Iterator[None]:
    """What is damaged for a pack that stands no more at `at` was taken by a removal, and says nothing. Raises `_Overtaken` then."""
    try:
        yield
    except Corrupt:
        if session.log.catch_up().packing == at:
            raise
        raise _Overtaken from None


def _while_open(begun: int, entry: Entry) -> Callable[[Lineage], Sequence[Entry]]:
    def decide(lineage: Lineage) -> Sequence[Entry]:
        if lineage.packing != begun:
            raise _Overtaken
        return [entry]

    return decide


def _segment(session: Session, begun: int, plan: _Plan, chunk: Sequence[int]) -> Segment:
    """The segment of these rows."""
    rows = [session.log.restored(row) for row in _rows_at(session, chunk)]
    if len(rows) != len(chunk):
        raise _Overtaken  # a prune took them since
    frame, size = segments.pack(rows)
    block = chunk[0] >> codec.BLOCK_BITS
    replaces = tuple(p.seq for p in plan.replaces if p.segment.runs[0][0] >> codec.BLOCK_BITS == block)
    return Segment(begun=begun, runs=ranges.union((s, s) for s in chunk), size=size, replaces=replaces, packed=frame)


def _read_back(session: Session, seq: int, wanted: Iterable[int]) -> list[tuple[int, bytes]]:
    """Seqs and inner digests of what the segment at `seq` gives for these rows. Raises `Corrupt` where it is not what the rows say."""
    place = next(segments.standing(session.engine, session.name, [seq]), None)
    if place is None:
        raise Corrupt(session.name, seq, "the segment that was written", "nothing", "segment read back differently")
    rows = {row.seq: row for row in _rows_at(session, wanted)}
    most = max((row.size for row in rows.values()), default=0) + HEAD if len(rows) == 1 else segments.MOST
    content = segments.unpack(place.segment, session.name, seq, most)
    for member, row in rows.items():
        found = codec.digest(*content[member]) if member in content else b""
        if found != row.inner:
            expected = f"entry {member} of digest {row.inner.hex()[:16]}"
            raise Corrupt(session.name, seq, expected, found.hex()[:16] or "nothing", "segment read back differently")
    return [(member, row.inner) for member, row in rows.items()]


def _rows_at(session: Session, seqs: Iterable[int]) -> Iterator[Row]:
    """The rows at these seqs, one scan for each run of them."""
    for first, last in ranges.union((seq, seq) for seq in seqs):
        yield from session.engine.scan(session.name, first - 1, last)


# --- going on after a crash ----------------------------------------------------------------------------------------------


def finish(session: Session, at: int, wait: bool = False) -> int:
    """Go on with the pack that stands at `at`: abort it where it was not committed, drop what goes.

    `wait`: one whose packer is alive is left alone. Returns the seq at which it was closed, 0 if it was not.
    """
    entry = next(session.log.entries(at - 1, at))[1]
    if isinstance(entry, PackBegun):
        if wait and alive(entry.lease, session.clock, expires=False):
            return 0
        return _abort(session, at)
    if isinstance(entry, PackAborted):
        _empty(session, entry.leftovers)
        return _finished(session, at, entry.begun)
    if isinstance(entry, PackCommitted):
        try:
            return _drop(session, at, entry)
        except _Overtaken:
            return 0  # others have gone on with it
    return 0


def _abort(session: Session, begun: int) -> int:
    """Say that it came to nothing, then empty what was written. Asked again when its packer wrote meanwhile."""

    def decide(lineage: Lineage) -> Sequence[Entry]:
        if lineage.packing != begun:
            return []
        written = session.engine.scan(session.name, begun, lineage.head, ("segment",))
        return [PackAborted(begun=begun, leftovers=tuple(row.seq for row in written))]

    session.log.write(decide)
    at = session.log.catch_up().packing
    return finish(session, at) if at else session.log.lineage.head


def _finished(session: Session, at: int, begun: int) -> int:
    return session.log.write(lambda now: [PackFinished(begun=begun)] if now.packing == at else [])[0].head


def _drop(session: Session, at: int, committed: PackCommitted) -> int:
    """Drop the rows' own copies, once the segments were read again: what an engine acknowledged it must still have."""
    begun = cast(PackBegun, next(session.log.entries(committed.begun - 1, committed.begun))[1])
    with _overtaken_unless(session, at):
        for piece in committed.segments:
            _read_back(session, piece.seq, members(piece.runs))
    session.log.keep_state(read_back=True)  # so that the next opening does not read the segments
    session.engine.delete_states(session.name, _old_states(session, committed.begun))
    _empty(session, [*members(begun.runs), *committed.replaced])
    return _finished(session, at, committed.begun)


def _old_states(session: Session, begun: int) -> list[int]:
    """States from before the pack, but for those of checkpoints, the one from which a recovery folds, and the first behind what was
    pruned: what they say can be folded again. A checkpoint whose state is newer may still be on its way.
    """
    known, lineage = session.engine.states(session.name), session.log.lineage
    holes = max((run.last for run in session.log.holes()), default=0)
    kept = {max((s for s in known if s <= lineage.covered_through), default=0)}
    kept |= {min((s for s in known if s >= holes), default=0)} if holes else set()
    kept |= {c.seq - 1 for c in checkpoints(session)}
    return [s for s in known if s < begun and s not in kept]


def _empty(session: Session, seqs: Sequence[int]) -> None:
    """Drop the content of these rows and see that it is gone. Raises `Unavailable` where it stays."""
    if not seqs:
        return
    session.engine.delete(session.name, seqs, content_only=True)
    left = [row.seq for row in _rows_at(session, seqs) if not row.erased]
    if left:
        asked = f"content of {len(left)} packed rows in session {session.name!r}"
        raise Unavailable(
            asked, f"it stands there still (first at seq {left[0]})", "call recover(); if it stays, the engine does not delete"
        )


# --- for a purge ---------------------------------------------------------------------------------------------------------


def repack(session: Session, at: int, begun: PurgeBegun) -> None:
    """What the segments that a purge (begun at `at`) takes have beside the purged content is written into new ones. Idempotent."""
    going = {int(seq) for seq in begun.stand_ins}
    for place in segments.standing(session.engine, session.name, begun.segments):
        there = {row.seq for row in _rows_at(session, members(place.segment.runs))}
        rest = [seq for seq in members(place.segment.runs) if seq in there and seq not in going and seq not in session.log.erased()]
        if not rest:
            continue
        frame, size = segments.pack([session.log.restored(row) for row in _rows_at(session, rest)])
        fresh = Segment(begun=at, runs=ranges.union((s, s) for s in rest), size=size, replaces=(place.seq,), packed=frame)
        session.log.write(_once(session, at, fresh))
    try:
        for place in segments.all_standing(session.engine, session.name, at):
            if place.segment.begun == at:
                _read_back(session, place.seq, members(place.segment.runs))
    except Corrupt:
        if session.log.catch_up().purging == at:  # else others have finished it, and took that segment since
            raise


def _replaced(session: Session, at: int) -> set[int]:
    """The segments that the purge begun at `at` has packed anew already."""
    places = segments.all_standing(session.engine, session.name, at)
    return {old for place in places if place.segment.begun == at for old in place.segment.replaces}


def _once(session: Session, at: int, fresh: Segment) -> Callable[[Lineage], Sequence[Entry]]:
    """Unless others, who go on with the same purge, have written it, or have ended the purge."""
    return lambda now: [fresh] if now.purging == at and _replaced(session, at).isdisjoint(fresh.replaces) else []
