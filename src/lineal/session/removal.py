"""Prune and purge: the two ways in which something leaves the log for good.

Prune drops raw rows that nothing reachable needs; purge erases named content everywhere. Both are intents that resume:

| step | log | a crash here means |
|---|---|---|
| ask retention, or collect what holds the content | | nothing happened |
| keep a fresh materialised state | | nothing happened |
| append `PruneBegun` (runs) / `PurgeBegun` (stand-ins) | begun | declared; verify says *in progress*; the next call goes on |
| delete rows in bounded chunks / drop content; old states; read that they are gone | begun | the same; deleting is idempotent |
| append `PruneFinished` / `PurgeFinished` | finished | done |

Effects' rows are never pruned: each is its own tombstone (R52). A purge takes whole units, so that no call is left
without its result, and it follows the content into summaries, notes, anchors, states, rollbacks, ledger payloads and forks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

import msgspec

from lineal import codec, ranges, working_set
from lineal.entries import Entry, Forked, PruneBegun, PruneFinished, PurgeBegun, PurgeFinished, Range, Run, TurnAppended
from lineal.errors import Refused, Unavailable, Verdict
from lineal.fold import item_of
from lineal.holder import SystemClock
from lineal.lineage import Lineage
from lineal.rules import retention
from lineal.rules.cut import units
from lineal.rules.retention import Needs
from lineal.rules.rollback import Checkpoint
from lineal.session import hosting, packing, retaining, segments, states
from lineal.session.effects import EFFECT_KINDS
from lineal.session.log import Decide, Log
from lineal.session.outcomes import Pruned, Purged
from lineal.session.purging import Purge
from lineal.session.retaining import Bound
from lineal.session.segments import Place
from lineal.session.travel import checkpoints

if TYPE_CHECKING:
    from lineal.engines import Engine, Row
    from lineal.session import Session

ALWAYS_KEPT = (*EFFECT_KINDS, "prune_begun", "purge_begun", "forked", "pack_committed", "pack_aborted")
CHUNK = 500  # rows a step of deletion takes, so that appends are never locked out for long (R37)


# --- prune -------------------------------------------------------------------------------------------------------------


def prune(session: Session, bound: Bound, keep_checkpoints: int | None, dry_run: bool) -> Pruned:
    """Drop raw rows below the bound (default: the head) that nothing reachable needs. A dry run gives the same plan.

    `keep_checkpoints`: how many of the newest checkpoints stay reachable (default: all of them).
    """
    if dry_run:
        return _prunable(session, session.log.catch_up(), bound, keep_checkpoints, dry_run)
    plan = Pruned((), 0, ())

    def decide(lineage: Lineage) -> Sequence[Entry]:
        """Asked again when others wrote meanwhile: what they took, went back to or forked may need what was to go."""
        nonlocal plan
        plan = _prunable(session, lineage, bound, keep_checkpoints, dry_run)
        if not plan.ranges:
            return []
        session.log.keep_state(read_back=True)  # behind what goes it is the only place where a fold can begin
        emptied = tuple(place.seq for place in _standing(session) if not _stands_for(session, place, plan.ranges))
        return [PruneBegun(runs=tuple(_runs(session, plan.ranges)), entries=plan.entries, segments=emptied)]

    if _begin(session, decide):
        finish(session)
    return plan


def _begin(session: Session, decide: Decide) -> list[Row]:
    """Begin a removal when no other one is open: an open one is finished first, whoever began it."""
    rows: list[Row] = []
    others = True
    while others:
        _finish_open(session)

        def alone(lineage: Lineage) -> Sequence[Entry]:
            nonlocal others
            others = bool(lineage.pruning or lineage.purging or lineage.packing)
            return [] if others else decide(lineage)

        rows = session.log.write(alone)[1]
    session.log.forget_holes()
    return rows


def _prunable(session: Session, lineage: Lineage, bound: Bound, keep_checkpoints: int | None, dry_run: bool) -> Pruned:
    kept = checkpoints(session)[:keep_checkpoints]
    needs = _needs(session, lineage, [c.seq for c in kept])
    runs = retention.prunable(_present(session, retaining.until(session, lineage, bound)), needs)
    runs = retaining.fitting(session, lineage, bound, runs)
    needs = replace(needs, segments=ranges.union((p.seq, p.seq) for p in _standing(session) if _stands_for(session, p, runs)))
    runs = retention.prunable(runs, needs)
    stale = _stale_states(session, runs[-1][1] if runs else 0, kept)
    return Pruned(runs, ranges.count(runs), tuple(stale), dry_run)


def _needs(session: Session, lineage: Lineage, kept: Sequence[int]) -> Needs:
    """What can still be reached: the view now, each kept checkpoint's view, spills, pins, effects, what declares holes."""
    now = _reached(lineage)
    held = [_reached(past) for past in map(partial(_rebuilt, session), kept) if past]
    pinned = [(t.seq, t.seq) for t in lineage.turns if t.id in {p.turn for p in lineage.pins}]
    flight = lineage.in_flight
    return Needs(
        view=ranges.union(now[0]),
        spills=ranges.union(r for _, spilled in (now, *held) for r in spilled),
        checkpoints=ranges.union([*((seq, seq) for seq in kept), *(r for view, _ in held for r in view)]),
        effects=ranges.union(_rows_of(session, ALWAYS_KEPT, lineage.head)),
        generations=ranges.union([*_commits(session, lineage), *([(flight.seq, lineage.head)] if flight else [])]),
        pins=ranges.union(pinned),
        forks=((lineage.head, lineage.head),),
        hosts=hosting.retained(session),
    )


def _standing(session: Session) -> Iterator[Place]:
    return segments.all_standing(session.engine, session.name)


def _stands_for(session: Session, place: Place, going: Sequence[Range]) -> tuple[Range, ...]:
    """The rows whose content this segment holds once `going` have gone: neither pruned nor purged."""
    log = session.log
    gone = [*going, *((run.first, run.last) for run in log.holes()), *((seq, seq) for seq in log.erased())]
    return ranges.subtract(place.segment.runs, gone)


def _rebuilt(session: Session, seq: int) -> Lineage | None:
    """The fold at a checkpoint, or None where it can be rebuilt no more (in a fork of a pruned log): then it needs nothing."""
    try:
        return session.log.at(seq)
    except Refused:
        return None


def _reached(lineage: Lineage) -> tuple[list[Range], list[Range]]:
    """(seqs of turns shown verbatim, seqs that spill handles in the view answer with)."""
    turns = [(t.seq, t.seq) for t in lineage.turns]
    return turns, [r for n in lineage.nodes if n.kind == "spill" for r in n.ranges]


def _rows_of(session: Session, kinds: Sequence[str], until: int) -> list[Range]:
    return [(row.seq, row.seq) for row in session.engine.scan(session.name, 0, until, kinds)]


def _commits(session: Session, lineage: Lineage) -> list[Range]:
    """The commits of the nodes that stand in the view: their handles must resolve."""
    rows = (row for n in lineage.nodes for row, _ in session.log.find(f"generation:{n.generation}", 1))
    return [(row.seq, row.seq) for row in rows]


def _present(session: Session, until: int) -> Iterator[Range]:
    """Rows that may be asked about. Annotations of others (`x.*`) are theirs to judge: they stay."""
    return ((row.seq, row.seq) for row in session.engine.scan(session.name, 0, until) if not row.kind.startswith("x."))


def _stale_states(session: Session, last: int, kept: Sequence[Checkpoint]) -> list[int]:
    """States from which the head can no longer be folded, because rows up to `last` are dropped; those of checkpoints stay."""
    held = {c.seq - 1 for c in kept}
    return [s for s in session.engine.states(session.name) if s < last and s not in held]


def _runs(session: Session, gone: Sequence[Range]) -> Iterator[Run]:
    for first, last in gone:
        yield Run(first, last, session.log.digest_at(first - 1) or "", session.log.digest_at(last) or "")


# --- purge -------------------------------------------------------------------------------------------------------------


def purge(session: Session, ids: Iterable[str], dry_run: bool) -> Purged:
    """Erase the content of these turns everywhere, in this session and its forks. Raises `Refused` for an unknown id."""
    named, plans = list(ids), list[Purge]()
    if dry_run:
        lineage = session.log.catch_up()
        return Purge(session, lineage, _turns_to_purge(session, lineage, named)).receipt(forks_of(session.engine, session.name))

    def decide(lineage: Lineage) -> Sequence[Entry]:
        """Asked again when others wrote meanwhile: a result of a purged call, a summary or a note may have come."""
        plans[:] = [Purge(session, lineage, _turns_to_purge(session, lineage, named))]
        return [plans[0].entry()]

    begun = _begin(session, decide)[-1].seq
    return replace(plans[0].receipt(), begun_seq=begun, finished_seq=finish(session))


def _turns_to_purge(session: Session, lineage: Lineage, ids: list[str]) -> list[tuple[int, str]]:
    """(seq, id) of the named turns and of the rest of their units, whether they stand in the view or were covered."""
    found = _with_content(session, lineage, ids)
    absent = [id for id in ids if id not in {i for _, i in found}]
    if absent or not ids:
        what = f"no turn {absent[0]!r} with content in session {session.name!r}" if absent else "no turn was named"
        raise Refused(Verdict("purge", "unknown_turn", message=f"{what}.", remedy="see turns() for ids"))
    return found


def _with_content(session: Session, lineage: Lineage, ids: Sequence[str]) -> list[tuple[int, str]]:
    named = set(ids)
    said = [item_of(row.seq, "", e) for row, e in session.log.entries(kinds=("turn",)) if isinstance(e, TurnAppended)]
    unit_ids = {t.id for u in units(said) if any(t.id in named for t in u.turns) for t in u.turns}
    rows = (pair for id in dict.fromkeys([*ids, *sorted(unit_ids)]) for pair in session.log.find(f"turn:{id}"))
    return sorted((row.seq, e.id) for row, e in rows if isinstance(e, TurnAppended) and e.message is not None)


def forks_of(engine: Engine, name: str) -> list[str]:
    """Sessions whose log began as a copy of this one."""
    names = []
    for other in engine.sessions():
        log = Log(engine, other, SystemClock(), read_ahead=False)
        origins = (log.entry(row) for row in engine.scan(other, 0, None, ("forked",)))
        if other != name and any(isinstance(e, Forked) and e.parent == name for e in origins):
            names.append(other)
    return names


# --- going on after a crash ----------------------------------------------------------------------------------------------


def finish(session: Session) -> int:
    """Finish an open prune, purge or pack; returns the seq at which it was finished, 0 if none was open, or its packer lives."""
    purge_copies_of_parent(session)
    return _finish_open(session, wait=True)


def _finish_open(session: Session, wait: bool = False) -> int:
    """`wait`: for a pack whose packer is alive; a removal does not."""
    lineage = session.log.catch_up()
    if not lineage.purging:
        states.sweep(session.engine, session.name)
    done = packing.finish(session, lineage.packing, wait) if lineage.packing else 0
    done = _finish_prune(session, lineage.pruning) if lineage.pruning else done
    return _finish_purge(session, lineage.purging) if lineage.purging else done


def _finish_prune(session: Session, seq: int) -> int:
    begun = cast(PruneBegun, next(session.log.entries(seq - 1, seq))[1])
    for run in begun.runs:
        for first in range(run.first, run.last + 1, CHUNK):
            session.engine.delete(session.name, range(first, min(first + CHUNK, run.last + 1)))
    session.engine.delete(session.name, begun.segments, content_only=True)
    last = max(run.last for run in begun.runs)
    stale = _stale_states(session, last, checkpoints(session))
    session.engine.delete_states(session.name, stale)
    left = [row.seq for run in begun.runs for row in session.engine.scan(session.name, run.first - 1, run.last)]
    left += [row.seq for row in _rows_at(session, session.name, begun.segments) if not row.erased]
    _refuse_unless_gone(session, left, stale)
    return session.log.write(lambda now: [PruneFinished(begun=now.pruning)] if now.pruning else [])[0].head


def _finish_purge(session: Session, seq: int) -> int:
    """Erase states and rows, then the same in every fork; only then is it finished (R54)."""
    begun = cast(PurgeBegun, next(session.log.entries(seq - 1, seq))[1])
    first = states.tainted_by(seq, begun)[0]
    session.log.keep_state(read_back=True)  # before the tainted ones go: behind a pruned range it is where the fold goes on
    stale = [s for s in session.engine.states(session.name) if first <= s < seq]
    session.engine.delete_states(session.name, stale)
    # States first: one that still has the content would look altered beside rows that have lost it.
    packing.repack(session, seq, begun)
    going = [*map(int, begun.stand_ins), *begun.segments]
    session.engine.delete(session.name, going, content_only=True)
    left = [row.seq for row in _rows_at(session, session.name, going) if not row.erased]
    _refuse_unless_gone(session, left, stale)
    for name in forks_of(session.engine, session.name):
        _purge_copies(session.sibling(name), begun, session.name)

    def decide(now: Lineage) -> Sequence[Entry]:
        if not now.purging:
            return []
        draft = msgspec.structs.replace(now, purging=0, head=now.head + 1)
        return [PurgeFinished(begun=now.purging, note=working_set.make_note(draft, session.policy.summary_max_tokens, session.counter))]

    return session.log.write(decide)[0].head


def _refuse_unless_gone(session: Session, rows: Sequence[int], stale: Sequence[int]) -> None:
    """Nothing is called finished on the engine's word: what was to go must not be there any more (R54).

    A state that another process wrote since is not missed here: whoever writes one takes it back itself.
    """
    kept = set(stale).intersection(session.engine.states(session.name) if stale else ())
    if rows or kept:
        left = f"{len(rows)} rows (first at seq {min(rows, default=0)}) and {len(kept)} states stand there still"
        raise Unavailable(
            f"removal in session {session.name!r}", left, "call recover(): it goes on; if they stay, the engine does not delete"
        )


def purge_copies_of_parent(child: Session) -> None:
    """What its parent purged while this fork was being made, or was cut off before it could: the fork must not keep it (R54)."""
    forked = [e for _, e in child.log.entries(kinds=("forked",)) if isinstance(e, Forked)]
    if not forked:
        return
    parent, at = forked[-1].parent, forked[-1].fork_at
    for row in child.engine.find(parent, "purge"):
        if row.kind == "purge_begun" and row.seq > at and codec.digest(row.salt, row.body) == row.inner:
            _purge_copies(child, cast(PurgeBegun, codec.decode(row.body, parent, row.seq)), parent)


def _purge_copies(child: Session, begun: PurgeBegun, parent: str) -> None:
    """The same purge in a fork, for what it still has of the content. A copied row has the inner digest of its original."""
    inner = {row.inner for row in _rows_at(child, parent, begun.seqs)}
    told = [key for k in begun.effects for key in (k, f"{parent}{k}")]

    def decide(lineage: Lineage) -> Sequence[Entry]:
        copies = [row for row in _rows_at(child, child.name, begun.seqs) if row.inner in inner and row.seq not in child.log.erased()]
        turns = _with_content(child, lineage, [cast(TurnAppended, child.log.entry(row)).id for row in copies])
        plan = Purge(child, lineage, turns, told)
        return [plan.entry()] if turns or plan.effects else []

    if _begin(child, decide):
        _finish_open(child)


def _rows_at(session: Session, name: str, seqs: Sequence[int]) -> Iterator[Row]:
    return (row for seq in seqs for row in session.engine.scan(name, seq - 1, seq))
