"""The reference model of a session: plain lists, no cleverness.

A `Model` reads the same entries as the fold and keeps, in lists and dicts, what was said, what is shown, what is pinned and
what was done. It copies everything at every entry and searches from the beginning each time. Along the way it holds every
entry against the requirements that need no fold to be checked (R8, R9, R11, R12, an append-only log, a ledger that never
goes back), and `compare` holds a live session against the lists. Each complaint is one sentence in `wrong`.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from lineal import messages, ranges
from lineal.codec import PRUNED
from lineal.entries import (
    CompactionAborted,
    CompactionBegun,
    CompactionCommitted,
    EffectIntended,
    EffectResolved,
    EffectSettled,
    Entry,
    Evicted,
    Forked,
    Pinned,
    PruneBegun,
    PurgeBegun,
    PurgeFinished,
    RolledBack,
    TurnAppended,
    Unpinned,
)
from lineal.session import Session
from lineal.session.log import Log
from lineal.testing.oracle import sizes, unpaired

# What may follow what in the ledger, under one key; an idempotent effect may be sent again while its outcome is not known.
LEDGER_STEPS = {
    "": ("intended",),
    "intended": ("done", "no_effect", "unknown", "compensated"),
    "unknown": ("done", "no_effect", "compensated", "unknown"),
    "no_effect": ("intended", "done", "no_effect", "compensated"),
    "done": ("done", "no_effect", "compensated"),
    "compensated": ("compensated", "done", "no_effect"),
}
FINDINGS = {"happened": "done", "not_happened": "no_effect", "compensated": "compensated"}


@dataclass
class Said:
    """One turn. `calls` are ids; `results` are (call id, final). `message` is None once it was purged."""

    seq: int
    id: str
    author: str
    role: str
    message: Any
    calls: list[str]
    results: list[tuple[str, bool]]
    late: bool = False


@dataclass
class Shown:
    """One thing in the view: a turn (its id), a node (its handle and the seqs of the turns it stands for), or a note."""

    what: str
    place: int
    name: str = ""
    stands_for: list[int] = field(default_factory=list)
    lossy: bool = False
    gone: bool = False


@dataclass
class Moment:
    """All that a rollback brings back."""

    view: list[Shown]
    pins: dict[str, tuple[str, str]]
    generation: int
    branch: list[int]


class Model:
    """One session as lists. `read` takes in what its log has behind `head`."""

    def __init__(self) -> None:
        self.head = 0
        self.said: dict[int, Said] = {}
        self.now = Moment([], {}, 0, [])
        self.past: dict[int, Moment] = {0: copy.deepcopy(self.now)}
        self.ledger: dict[str, str] = {}
        self.beside: dict[int, tuple[dict[str, str], int]] = {0: ({}, 0)}  # seq -> ledger and epoch, which no rollback brings back
        self.may_be_twice: dict[str, bool] = {}
        self.pruned: list[tuple[int, int]] = []  # what was dropped is no longer known by its id
        self.begun: set[int] = set()
        self.committed: list[int] = []
        self.open: int | None = None
        self.epoch = 0
        self.rows: dict[int, str] = {}
        self.received: dict[int, set[str]] = {}
        self.wrong: list[str] = []

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, log: Log, floor: int = 0) -> None:
        """Take in every entry behind `head`. `floor`: how many of the newest turns no summary may cover."""
        for row in log.engine.scan(log.session):
            seen = self.rows.get(row.seq)
            if seen is not None and seen != row.digest.hex():
                self.wrong.append(f"row {row.seq} was rewritten")
            if row.seq <= self.head:
                continue
            if row.seq != self.head + 1:
                self.wrong.append(f"row {row.seq} follows row {self.head}")
            self.head, self.rows[row.seq] = row.seq, row.digest.hex()
            if row.kind != PRUNED:
                self.take(row.seq, log.entry(row), floor)
            self.past[row.seq], self.beside[row.seq] = copy.deepcopy(self.now), (dict(self.ledger), self.epoch)

    def forked(self, at: int) -> Model:
        """The model of a session that begins as this one was at `at`; its own entries are still to be read."""
        child = Model()
        child.head, child.now = at, copy.deepcopy(self.past[at])
        child.ledger, child.epoch = copy.deepcopy(self.beside[at])
        child.past = {seq: copy.deepcopy(moment) for seq, moment in self.past.items() if seq <= at}
        child.said = {seq: copy.deepcopy(turn) for seq, turn in self.said.items() if seq <= at}
        child.may_be_twice = dict(self.may_be_twice)
        child.pruned = list(self.pruned)
        child.beside = {seq: copy.deepcopy(beside) for seq, beside in self.beside.items() if seq <= at}
        child._forget_purged(child.now)
        child.committed = [g for g in self.committed if g <= child.now.generation]
        return child

    def take(self, seq: int, entry: Entry, floor: int = 0) -> None:
        match entry:
            case TurnAppended():
                self._turn(seq, entry)
            case CompactionBegun():
                self._begun(entry)
            case CompactionCommitted():
                self._committed(seq, entry, floor)
            case CompactionAborted() if entry.generation == self.open:
                self.open = None
            case Evicted():
                for shown in self.now.view:
                    shown.gone = shown.gone or (shown.what == "turn" and shown.name in entry.turns)
            case Pinned():
                self.now.pins[entry.pin.id] = (entry.pin.text, entry.pin.turn)
                self._note(entry.note)
            case Unpinned():
                self.now.pins.pop(entry.id, None)
            case EffectIntended():
                self._settle(seq, entry.key, "intended")
                self.may_be_twice[entry.key] = entry.idempotent
            case EffectSettled():
                self._settle(seq, entry.key, entry.state)
            case EffectResolved():
                self._settle(seq, entry.key, FINDINGS[entry.finding])
            case RolledBack():
                self._rolled_back(seq, entry)
            case Forked():
                self.open, self.epoch = None, self.epoch + 1
                self._note(entry.note)
            case PurgeBegun():
                self._purged(entry)
            case PruneBegun():
                self.pruned += [(run.first, run.last) for run in entry.runs]
            case PurgeFinished():
                self._note(entry.note)

    def _turn(self, seq: int, e: TurnAppended) -> None:
        if any(self.said[s].id == e.id and not ranges.contains(self.pruned, s) for s in self.now.branch):
            self.wrong.append(f"turn {e.id!r} stands twice (seq {seq})")
        self.said[seq] = Said(
            seq, e.id, e.author, e.role, e.message, [c.id for c in e.calls], [(r.call, r.final) for r in e.results], e.late
        )
        self.now.branch.append(seq)
        self.now.view.append(Shown("turn", seq, e.id))

    def _note(self, note: Any) -> None:
        if note is not None:
            self.now.view.append(Shown("note", note.seq))
            self.now.view.sort(key=lambda shown: shown.place)

    # --- compaction --------------------------------------------------------------------------------------------------

    def _begun(self, e: CompactionBegun) -> None:
        if self.open is not None:
            self.wrong.append(f"generation {e.generation} begins while {self.open} is open")
        if e.generation in self.begun or any(g >= e.generation for g in self.committed):
            self.wrong.append(f"generation {e.generation} begins a second time")
        self.begun.add(e.generation)
        self.open = e.generation

    def _committed(self, seq: int, e: CompactionCommitted, floor: int) -> None:
        where = f"generation {e.generation} at seq {seq}"
        if e.parent != self.now.generation:
            self.wrong.append(f"{where} follows {e.parent}, the view is of generation {self.now.generation}")
        if e.lossy and e.generation != self.open:
            self.wrong.append(f"{where} was not begun")
        names = [shown.name for shown in self.now.view if shown.what != "note"]
        if sorted([*e.covered, *e.kept]) != sorted(names):
            self.wrong.append(f"{where}: covered {e.covered} and kept {e.kept} are not the window {names} (R8)")
        covered = [shown for shown in self.now.view if shown.name in e.covered]
        self.wrong += [f"{where}: {sentence}" for sentence in self._broken(e, covered, floor)]
        stands_for = sorted(seq for shown in covered for seq in ([shown.place] if shown.what == "turn" else shown.stands_for))
        kept = [shown for shown in self.now.view if shown.name in e.kept]
        for node in e.nodes:
            kept.append(Shown("node", max(stands_for), f"g{node.generation}", stands_for, e.lossy))
        self.now.view = sorted(kept, key=lambda shown: shown.place)
        self.now.generation, self.open = e.generation, None
        self.committed.append(e.generation)
        self._note(e.note)
        self.wrong += [f"{where}: {sentence}" for sentence in self._misplaced({f"g{node.generation}" for node in e.nodes})]

    def _broken(self, e: CompactionCommitted, covered: list[Shown], floor: int) -> Iterator[str]:
        """What of R9, R11, R12 and the promises of pins and floor the commit breaks."""
        turns = self.turns()
        gone = [turn for turn in turns if turn.id in e.covered]
        for caller, answers, answered in self.pairs():
            both = {t.id in e.covered for t in [caller, *answers]}
            if len(both) > 1:
                yield f"the call of {caller.id} and its results are not together (R11)"
            if caller.id in e.covered and not answered:
                yield f"{caller.id} has a call without a final result and is covered (R11)"
        newest = self.newest_user()
        if newest and newest.id in e.covered:
            yield f"the newest user turn {newest.id} is covered (R12)"
        if not e.lossy:
            return
        yield from (f"pinned turn {turn.id} is covered" for turn in gone if any(p[1] == turn.id for p in self.now.pins.values()))
        yield from (f"floor turn {turn.id} is covered" for turn in turns[len(turns) - floor :] if turn in gone and floor)
        if e.generation in self.received:
            fresh = [s for shown in covered if not shown.lossy for s in (shown.stands_for or [shown.place])]
            there = [self.said[s].id for s in fresh if self.said[s].message is not None]
            unread = [id for id in there if id not in self.received[e.generation]]
            if unread:
                yield f"the summarizer never received {unread} (R9)"

    def _misplaced(self, made: Collection[str]) -> Iterator[str]:
        """A commit puts nothing older behind the newest user turn (R12); no turn is stood for twice or shown and stood for (R8).

        `made`: its nodes. An older node may come to stand so, when a user turn behind it is purged.
        """
        newest = self.newest_user()
        for shown in self.now.view:
            if newest and shown.name in made and shown.place > newest.seq and min(shown.stands_for) < newest.seq:
                yield f"{shown.name} of older turns stands behind the newest user turn {newest.id} (R12)"
        everywhere = [s for shown in self.now.view for s in ([shown.place] if shown.what == "turn" else shown.stands_for)]
        if len(everywhere) != len(set(everywhere)):
            yield "a turn stands in the view twice (R8)"
        missing = [self.said[s].id for s in self.now.branch if s not in everywhere and self.said[s].message is not None]
        if missing:
            yield f"{missing} are neither shown nor stood for (R8)"

    def turns(self) -> list[Said]:
        """The turns that are shown word for word, oldest first."""
        return [self.said[shown.place] for shown in self.now.view if shown.what == "turn"]

    def newest_user(self) -> Said | None:
        users = [turn for turn in self.turns() if turn.author == "user"]
        return users[-1] if users else None

    def pairs(self) -> Iterator[tuple[Said, list[Said], bool]]:
        """For each call that is shown: who made it, the turns with its results, and whether one of them is final."""
        turns = self.turns()
        for i, caller in enumerate(turns):
            for call in caller.calls:
                again = next((n for n, later in enumerate(turns[i + 1 :], i + 1) if call in later.calls), len(turns))
                answers = [t for t in turns[i + 1 : again] if not t.late and any(c == call for c, _ in t.results)]
                yield caller, answers, any(final for t in answers for c, final in t.results if c == call)

    # --- the rest ----------------------------------------------------------------------------------------------------

    def _settle(self, seq: int, key: str, state: str) -> None:
        before = self.ledger.get(key, "")
        again = state == "intended" and before in ("intended", "unknown") and self.may_be_twice.get(key)
        if state not in LEDGER_STEPS[before] and not again:
            self.wrong.append(f"effect {key!r} was {before or 'unheard of'} and is {state} at seq {seq}")
        self.ledger[key] = state

    def _rolled_back(self, seq: int, e: RolledBack) -> None:
        """The view of then, the pins of then and now, and the pinned turns of now with what belongs to them."""
        then, promised = copy.deepcopy(self.past[e.target]), dict(self.now.pins)
        pinned = {turn for _, turn in [*promised.values(), *then.pins.values()] if turn}
        partners = self._with_partners(pinned)
        known = [s for shown in then.view for s in ([shown.place] if shown.what == "turn" else shown.stands_for)]
        for shown in self.now.view:
            if shown.what == "turn" and shown.name in partners and shown.place not in known:
                then.view.append(copy.copy(shown))
                then.branch.append(shown.place)
        then.view.sort(key=lambda shown: shown.place)
        then.branch.sort()
        then.pins = {**then.pins, **promised}
        self._forget_purged(then)
        self.now, self.open, self.epoch = then, None, self.epoch + 1
        self._note(e.note)

    def _with_partners(self, ids: Collection[str]) -> set[str]:
        """These turns and all that is tied to them by calls and results."""
        found = set(ids)
        while True:
            tied = [{caller.id, *(a.id for a in answers)} for caller, answers, _ in self.pairs()]
            more = {id for group in tied if group & found for id in group}
            if more <= found:
                return found
            found |= more

    def _purged(self, e: PurgeBegun) -> None:
        for turn in self.said.values():
            if turn.id in e.turns:
                turn.message = None
        self.now.view = [shown for shown in self.now.view if shown.what != "note"]
        self._forget_purged(self.now)
        self.open, self.epoch = None, self.epoch + 1

    def _forget_purged(self, moment: Moment) -> None:
        """Purged turns stand in no view, also not in one that comes back."""
        gone = {turn.seq: turn.id for turn in self.said.values() if turn.message is None}
        moment.view = [shown for shown in moment.view if shown.what != "turn" or shown.place not in gone]
        moment.pins = {id: pin for id, pin in moment.pins.items() if pin[1] not in gone.values()}

    # --- a live session beside the lists -----------------------------------------------------------------------------

    def compare(self, session: Session) -> list[str]:
        """Every difference between the session and the lists, and everything found wrong while reading."""
        return [*self.wrong, *self._differences(session)]

    def _differences(self, session: Session) -> Iterator[str]:
        view, shown = session.view(), session.messages()
        lineage = session.log.lineage
        if (view.seq, view.generation, lineage.epoch) != (self.head, self.now.generation, self.epoch):
            found = f"seq {view.seq}, generation {view.generation}, epoch {lineage.epoch}"
            yield f"the session is at {found}, the lists at {self.head}, {self.now.generation}, {self.epoch}"
        if (lineage.in_flight.generation if lineage.in_flight else None) != self.open:
            yield f"in flight is {lineage.in_flight}, the lists say {self.open}"
        here = [s.name for s in self.now.view if s.what == "turn" and not s.gone]
        if [t.id for t in view.turns] != here:
            yield f"shown are {[t.id for t in view.turns]}, the lists say {here}"
        if list(view.handles) != [s.name for s in self.now.view if s.what == "node"]:
            yield f"nodes are {view.handles}, the lists say {[s.name for s in self.now.view if s.what == 'node']}"
        if {p.id: (p.text, p.turn) for p in view.pins} != self.now.pins:
            yield f"pins are {view.pins}, the lists say {self.now.pins}"
        yield from self._said_otherwise(session)
        ledger = {row.key: row.state for row in session.ledger()}
        if ledger != {k: "unknown" if s == "intended" and ledger.get(k) == "unknown" else s for k, s in self.ledger.items()}:
            yield f"the ledger is {ledger}, the lists say {self.ledger}"
        yield from self._unlike(shown)
        yield from unpaired(shown)
        yield from sizes(session, shown)

    def _said_otherwise(self, session: Session) -> Iterator[str]:
        """The retained turns of the branch are a tail-complete part of what was said, word for word."""
        for turn in session.turns():
            known = self.said.get(turn.seq)
            if (
                known is None
                or turn.seq not in self.now.branch
                or (known.id, known.author, known.message) != (turn.id, turn.author, turn.message)
            ):
                yield f"turn {turn.id!r} at seq {turn.seq} is not what was said"

    def _unlike(self, shown: list[Any]) -> Iterator[str]:
        """Each turn of the view is among the messages as it was given, once; what else is there is a machine's or a stand-in."""
        left = [m for m in shown if m is not None]
        for turn in self.turns():
            if next(s for s in self.now.view if s.what == "turn" and s.place == turn.seq).gone:
                continue
            as_stub = next((m for m in left if f'expand("t:{turn.id}")' in str(m)), None)
            if turn.message in left:
                left.remove(turn.message)
            elif as_stub is not None:
                left.remove(as_stub)
            elif not turn.late:
                yield f"turn {turn.id!r} is not shown as it was given"
        derived = [m for m in left if "[lineal" not in str(m) and messages.UNKNOWN_OUTCOME not in str(m)]
        if derived:
            yield f"nobody said {derived}"
