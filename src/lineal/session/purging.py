"""What a purge takes: every entry that repeats the content of the named turns, and what stands in its place.

Pure but for reading the log. `removal` writes the result and erases the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from lineal import ranges, working_set
from lineal.entries import (
    CompactionAborted,
    CompactionCommitted,
    EffectIntended,
    EffectSettled,
    Entry,
    Forked,
    HostRecord,
    Node,
    Note,
    PurgeBegun,
    PurgeFinished,
    RolledBack,
    TurnAppended,
)
from lineal.lineage import Lineage, from_state, to_state
from lineal.session.outcomes import Purged
from lineal.session.states import IN_STATES
from lineal.session.travel import checkpoints

if TYPE_CHECKING:
    from lineal.session import Session

TEXT_GONE = "[purged]"
PLAIN_WHYS = ("its holder is gone", "its turns could not be read", "aborted by the caller", "cancelled", "commit failed", TEXT_GONE)
FOREIGN_TURN = -1  # of an effect that a fork knows from its parent: its call stands in no view of the fork


class Purge:
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
        self.segments: set[int] = set()  # of earlier purges whose declaration goes
        self.stand_ins = dict(self._collect())
        self.segments |= {place.seq for place in session.log.segments.holding(self.stand_ins)}
        tainted = [seq for seq, e in self.stand_ins.items() if e.__struct_config__.tag in IN_STATES]
        self.states = [s for s in session.engine.states(session.name) if tainted and s >= min(tainted)]
        self.checkpoints = [c.checkpoint_id for c in checkpoints(session) if c.seq - 1 in self.states]

    def _collect(self) -> Iterator[tuple[int, Entry]]:
        hosted = any(name.startswith("host:") for name in self.lineage.chains)  # a host may have kept a message before it was a turn
        first = 1 if self.told or hosted else min(self.seqs, default=self.lineage.head + 1)
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
        if isinstance(e, HostRecord) and e.data is not None and not set(self.ids).isdisjoint(e.turns):
            return msgspec.structs.replace(e, data=None)
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
        self.segments |= {*e.segments} if isinstance(e, PurgeBegun) else set()
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
            segments=tuple(sorted(self.segments)),
        )

    def receipt(self, kept_by: Sequence[str] = ()) -> Purged:
        return Purged(
            turns=tuple(self.ids),
            erased=tuple(sorted(self.stand_ins)),
            generations=tuple(sorted(self.generations)),
            checkpoints=tuple(self.checkpoints),
            states=tuple(self.states),
            effects=tuple(sorted(self.effects)),
            kept_by=tuple(kept_by),
        )
