"""Prune and purge: the two ways in which something leaves the log for good.

Prune drops raw rows that nothing reachable needs; purge erases named content everywhere. Both are intents that resume:

| step | log | a crash here means |
|---|---|---|
| ask retention, or collect what holds the content | | nothing happened |
| keep a fresh materialised state | | nothing happened |
| append `PruneBegun` (runs) / `PurgeBegun` (stand-ins) | begun | declared; verify says *in progress*; the next call goes on |
| delete rows in bounded chunks / drop content; old states | begun | the same; deleting is idempotent |
| append `PruneFinished` / `PurgeFinished` | finished | done |

Effects' rows are never pruned: each is its own tombstone (R52). A purge takes whole units, so that no call is left
without its result, and it follows the content into summaries, notes, anchors, states, rollbacks, ledger payloads and forks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec

from lineal import ranges, working_set
from lineal.entries import (
    CompactionAborted,
    CompactionCommitted,
    EffectIntended,
    EffectSettled,
    Entry,
    Forked,
    Node,
    Note,
    PruneBegun,
    PruneFinished,
    PurgeBegun,
    PurgeFinished,
    Range,
    RolledBack,
    Run,
    TurnAppended,
)
from lineal.errors import PolicyError, Refused, Verdict
from lineal.fold import item_of
from lineal.holder import SystemClock
from lineal.lineage import Lineage, from_state, to_state
from lineal.rules import retention
from lineal.rules.cut import units
from lineal.rules.retention import Needs
from lineal.rules.rollback import Checkpoint
from lineal.session.effects import EFFECT_KINDS
from lineal.session.log import Log
from lineal.session.outcomes import Pruned, Purged
from lineal.session.travel import checkpoints

if TYPE_CHECKING:
    from lineal.engines import Engine, Row
    from lineal.session import Session

ALWAYS_KEPT = (*EFFECT_KINDS, "prune_begun", "purge_begun", "forked")
CHUNK = 500  # rows a step of deletion takes, so that appends are never locked out for long (R37)
TEXT_GONE = "[purged]"
PLAIN_WHYS = ("its holder is gone", "its turns could not be read", "aborted by the caller", "cancelled", "commit failed", TEXT_GONE)
FOREIGN_TURN = -1  # of an effect that a fork knows from its parent: its call stands in no view of the fork
IN_STATES = ("compaction_committed", "rolled_back", "effect_settled", "forked", "purge_finished")  # whose content a state repeats


# --- prune -------------------------------------------------------------------------------------------------------------


def prune(session: Session, before: int | None, keep_checkpoints: int | None, dry_run: bool) -> Pruned:
    """Drop raw rows below `before` (default: the head) that nothing reachable needs. A dry run gives the same plan.

    `keep_checkpoints`: how many of the newest checkpoints stay reachable (default: all of them).
    """
    if not all(n is None or isinstance(n, int) and n >= least for n, least in ((before, 1), (keep_checkpoints, 0))):
        raise PolicyError(
            Verdict("retention", "numbers", message=f"before={before}, keep_checkpoints={keep_checkpoints}.", remedy="give counts above 0")
        )
    if not dry_run:
        finish(session)
    lineage = session.log.catch_up()
    until = min(lineage.head, (before - 1) if before else lineage.head)
    kept = checkpoints(session)[:keep_checkpoints]
    needs = _needs(session, lineage, [c.seq for c in kept])
    runs = retention.prunable(_present(session, until), needs)
    states = _stale_states(session, runs[-1][1] if runs else 0, kept)
    plan = Pruned(runs, ranges.count(runs), tuple(states), dry_run)
    if dry_run or not runs:
        return plan
    session.log.keep_state()
    declared = tuple(_runs(session, runs))
    session.log.write(lambda lineage: [PruneBegun(runs=declared, entries=plan.entries)])
    session.log.forget_holes()
    finish(session)
    return plan


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
    )


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
    if not dry_run:
        finish(session)
    lineage = session.log.catch_up()
    turns = _turns_to_purge(session, lineage, list(ids))
    plan = _Purge(session, lineage, turns)
    receipt = plan.receipt(dry_run)
    if dry_run:
        return receipt
    begun = _begin_purge(session, turns, ())
    return replace(receipt, begun_seq=begun, finished_seq=finish(session))


def _begin_purge(session: Session, turns: list[tuple[int, str]], told: Sequence[str]) -> int:
    _, rows = session.log.write(lambda lineage: [_Purge(session, lineage, turns, told).entry()])
    session.log.forget_holes()
    return rows[-1].seq


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


class _Purge:
    """What a purge of these turns does to a lineage: collected once, then written as one entry.

    `told`: keys of effects whose content goes too, where a fork has them only because its parent did them.
    """

    def __init__(self, session: Session, lineage: Lineage, turns: list[tuple[int, str]], told: Sequence[str] = ()):
        self.session, self.lineage, self.told = session, lineage, frozenset(told)
        self.seqs, self.ids = {seq for seq, _ in turns}, [id for _, id in turns]
        self.generations: set[int] = set()
        self.effects: set[str] = set()
        self.repeated = False  # from here on a note may repeat what goes
        self.bared: set[int] = set()
        self.inherited: dict[str, Any] = {}  # stand-ins of earlier purges whose own declaration holds the content, too
        self.stand_ins = dict(self._collect())
        tainted = [seq for seq, e in self.stand_ins.items() if e.__struct_config__.tag in IN_STATES]
        self.states = [s for s in session.engine.states(session.name) if tainted and s >= min(tainted)]
        self.checkpoints = [c.checkpoint_id for c in checkpoints(session) if c.seq - 1 in self.states]

    def _collect(self) -> Iterator[tuple[int, Entry]]:
        first = 1 if self.told else min(self.seqs, default=self.lineage.head + 1)
        for row, entry in self.session.log.entries(first - 1):
            bare = self._bare(row.seq, entry)
            if bare is not None:
                self.bared.add(row.seq)
                yield row.seq, bare

    def _bare(self, seq: int, e: Entry) -> Entry | None:
        """The entry without the content, or None if it holds none of it."""
        if isinstance(e, TurnAppended) and seq in self.seqs:
            return msgspec.structs.replace(e, message=None)
        if isinstance(e, CompactionCommitted):
            nodes, anchors = tuple(map(self._node, e.nodes)), self._anchors(e.anchors)
            if nodes != e.nodes or anchors != e.anchors or self._repeats(e.note):
                return msgspec.structs.replace(e, nodes=nodes, anchors=anchors, note=None)
        if isinstance(e, RolledBack):
            past = self._lineage(from_state(e.past))
            if past is not None or self._repeats(e.note):
                return msgspec.structs.replace(e, past=to_state(past) if past else e.past, note=None)
        if isinstance(e, EffectIntended) and (e.turn in self.seqs or (e.turn == FOREIGN_TURN and e.key in self.told)):
            self.effects.add(e.key)
            return msgspec.structs.replace(e, shown=None)
        if isinstance(e, EffectSettled) and e.key in self.effects:
            self.repeated = True
            return msgspec.structs.replace(e, outcome=None, why="")
        if isinstance(e, CompactionAborted) and self.seqs and e.why not in PLAIN_WHYS:
            return msgspec.structs.replace(e, why=TEXT_GONE)  # it may quote what was summarised
        if isinstance(e, PurgeFinished) and self._repeats(e.note):
            return msgspec.structs.replace(e, note=None)
        if isinstance(e, Forked) and (self._repeats(e.note) or self._redeclares(e)):
            return msgspec.structs.replace(e, note=None, stand_ins=self._handed_on(e))
        if isinstance(e, PurgeBegun) and self._redeclares(e):
            return msgspec.structs.replace(e, stand_ins=self._handed_on(e))
        return None

    def _redeclares(self, e: Forked | PurgeBegun) -> bool:
        """Whether a stand-in that was declared here holds what goes now: a summary's anchors are of many turns."""
        return not self.bared.isdisjoint(map(int, e.stand_ins))

    def _handed_on(self, e: Forked | PurgeBegun) -> dict[str, Any]:
        """What is left of a declaration when this purge takes over its stand-ins."""
        self.inherited |= e.stand_ins
        return {seq: bare for seq, bare in e.stand_ins.items() if bare["kind"] == "turn"}

    def _repeats(self, note: Note | None) -> bool:
        return note is not None and self.repeated

    def _node(self, node: Node) -> Node:
        if node.kind != "summary" or not any(ranges.contains(node.ranges, seq) for seq in self.seqs):
            return node
        self.generations.add(node.generation)
        return working_set.measured(msgspec.structs.replace(node, text=TEXT_GONE), self.session.counter)

    def _anchors(self, anchors: tuple[Any, ...]) -> tuple[Any, ...]:
        left = tuple(a for a in anchors if a.seq not in self.seqs)
        self.repeated = self.repeated or left != anchors
        return left

    def _lineage(self, past: Lineage) -> Lineage | None:
        items = tuple(self._node(i) if isinstance(i, Node) else i for i in past.items)
        anchors = self._anchors(past.anchors)
        done = tuple(msgspec.structs.replace(d, outcome="") if d.key in self.effects else d for d in past.done)
        if items == past.items and anchors == past.anchors and done == past.done and not self.repeated:
            return None
        return msgspec.structs.replace(past, items=tuple(i for i in items if not isinstance(i, Note)), anchors=anchors, done=done)

    def entry(self) -> PurgeBegun:
        return PurgeBegun(
            turns=tuple(self.ids),
            stand_ins={**self.inherited, **{str(seq): msgspec.to_builtins(e) for seq, e in self.stand_ins.items()}},
            generations=tuple(sorted(self.generations)),
            checkpoints=tuple(self.checkpoints),
            nodes=tuple(self._node(n) for n in self.lineage.nodes if self._node(n) != n),
            seqs=tuple(sorted(self.seqs)),
            effects=tuple(sorted(self.effects)),
        )

    def receipt(self, dry_run: bool) -> Purged:
        return Purged(
            turns=tuple(self.ids),
            erased=tuple(sorted(self.stand_ins)),
            generations=tuple(sorted(self.generations)),
            checkpoints=tuple(self.checkpoints),
            states=tuple(self.states),
            effects=tuple(sorted(self.effects)),
            kept_by=tuple(forks_of(self.session.engine, self.session.name)) if dry_run else (),
        )


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
    """Finish an open prune or purge; returns the seq at which it was finished, 0 if none was open."""
    lineage = session.log.catch_up()
    done = _finish_prune(session, lineage.pruning) if lineage.pruning else 0
    return _finish_purge(session, lineage.purging) if lineage.purging else done


def _finish_prune(session: Session, seq: int) -> int:
    begun = cast(PruneBegun, next(session.log.entries(seq - 1, seq))[1])
    for run in begun.runs:
        for first in range(run.first, run.last + 1, CHUNK):
            session.engine.delete(session.name, range(first, min(first + CHUNK, run.last + 1)))
    last = max(run.last for run in begun.runs)
    session.engine.delete_states(session.name, _stale_states(session, last, checkpoints(session)))
    return session.log.write(lambda now: [PruneFinished(begun=now.pruning)] if now.pruning else [])[0].head


def _finish_purge(session: Session, seq: int) -> int:
    """Erase states and rows, then the same in every fork; only then is it finished (R54)."""
    begun = cast(PurgeBegun, next(session.log.entries(seq - 1, seq))[1])
    first = min((int(s) for s, e in begun.stand_ins.items() if e["kind"] in IN_STATES), default=seq)
    session.log.keep_state()  # before the tainted ones go: behind a pruned range it is where the fold goes on
    session.engine.delete_states(session.name, [s for s in session.engine.states(session.name) if first <= s < seq])
    # States first: one that still has the content would look altered beside rows that have lost it.
    session.engine.delete(session.name, [int(s) for s in begun.stand_ins], content_only=True)
    for name in forks_of(session.engine, session.name):
        _purge_copies(session.sibling(name), begun, session.name)

    def decide(now: Lineage) -> Sequence[Entry]:
        if not now.purging:
            return []
        draft = msgspec.structs.replace(now, purging=0, head=now.head + 1)
        return [PurgeFinished(begun=now.purging, note=working_set.make_note(draft, session.policy.summary_max_tokens, session.counter))]

    return session.log.write(decide)[0].head


def _purge_copies(child: Session, begun: PurgeBegun, parent: str) -> None:
    """The same purge in a fork, for what it still has of the content. A copied row has the inner digest of its original."""
    finish(child)
    lineage = child.log.lineage
    inner = {row.inner for row in _rows_at(child, parent, begun.seqs)}
    copies = [row for row in _rows_at(child, child.name, begun.seqs) if row.inner in inner and not row.erased]
    turns = _with_content(child, lineage, [cast(TurnAppended, child.log.entry(row)).id for row in copies])
    told = [key for k in begun.effects for key in (k, f"{parent}{k}")]
    if turns or _Purge(child, lineage, [], told).effects:
        _begin_purge(child, turns, told)
        finish(child)


def _rows_at(session: Session, name: str, seqs: Sequence[int]) -> Iterator[Row]:
    return (row for seq in seqs for row in session.engine.scan(name, seq - 1, seq))
