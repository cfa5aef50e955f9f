"""The full look at a store: the lists agree, every row verifies, live is reopened, and nothing acknowledged is gone.

It is taken from outside the play, now and then between two steps, and after the end, when everybody is dead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lineal.engines import Engine
from lineal.entries import TurnAppended
from lineal.errors import Refused
from lineal.holder import release
from lineal.rules.integrity import CompactionVerdict
from lineal.session import Session
from lineal.session.verification import Reports
from lineal.store import Store
from lineal.testing.simulation.actors import Actor
from lineal.testing.simulation.machines import Process
from lineal.testing.simulation.port import SimulatedEngine
from lineal.testing.simulation.referee import Referee, Watched
from lineal.testing.simulation.scheduler import Scheduler, Strand
from lineal.testing.stories import summarize, user

AFTERWARDS = 30 * 3_600.0  # seconds after the end: every lease is over, whatever the clocks
MAY_BE_SENT = ("intended", "unknown", "done", "compensated")


@dataclass
class Court:
    """`engine` is the bare one."""

    referee: Referee
    scheduler: Scheduler
    actors: Sequence[Actor]
    engine: Engine
    looks: int = 0

    def look(self) -> None:
        """Everything that must hold between any two steps."""
        self.looks += 1
        for name, watched in [*self.referee.sessions.items()]:
            observer = self._process()
            with self.scheduler.looking(observer):
                store = Store(self.engine, clock=observer.machine)
                try:
                    self._look_at(store, name, watched)
                except Exception as error:  # whatever a reader meets is a finding
                    self.referee.complain("torn", f"{name!r} cannot be read: {type(error).__name__}: {error}")
                finally:
                    release(store.holder)
                    observer.alive = False

    def _process(self) -> Process:
        universe = self.referee.universe
        return universe.start(universe.machines[0])

    def _look_at(self, store: Store, name: str, watched: Watched) -> None:
        session = store.session(name, self.referee.policy, summarize)
        lineage = session.log.lineage
        reports = store.verify(name)
        if reports.damaged:
            self.referee.complain("torn", f"{name}: {damage(reports)}")
        if not lineage.purging:  # in the middle of a purge the content is partly gone
            for sentence in watched.model.compare(session):
                self.referee.complain("broken", f"{name}: {sentence}")
        for sentence in self._lost(name, watched):
            self.referee.complain("lost", sentence)
        for actor in self.actors:
            if not self._lives_on(actor, session):
                self.referee.complain("torn", f"{name}: what {actor.name} has in hand is not what is reopened at seq {lineage.head} (R45)")

    def _lost(self, name: str, watched: Watched) -> Iterator[str]:
        """Acknowledged turns that do not stand where they were said to stand (R1)."""
        rows = {row.seq: row for row in self.engine.scan(name)}
        for ack in self.referee.acks:
            seq = ack.turn.seq
            if ack.session != name:
                continue
            told = f"{name}: {ack.turn.id!r} was acknowledged to {ack.who} at seq {seq}"
            row = rows.get(seq)
            if row is None:
                if not any(a <= seq <= b for a, b in watched.holes):
                    yield f"{told} and is gone"
            elif seq not in watched.erased:
                entry = watched.log.entry(row)
                if not isinstance(entry, TurnAppended) or (entry.id, entry.message) != (ack.turn.id, ack.turn.message):
                    yield f"{told} and another row stands there"

    def _lives_on(self, actor: Actor, reopened: Session) -> bool:
        """Between two verbs: the state in the actor's hands, folded on, is the state that a new process reads."""
        mine = actor.sessions.get(reopened.name)
        process = actor.strand.process if mine else None
        if mine is None or process is None or not process.alive or actor.strand.at != "the next verb":
            return True
        actor.engine.quiet = True
        try:
            return mine.log._fold_on(mine.log.lineage, None) == reopened.log.lineage
        except Refused:
            return True  # others pruned what it has not read: it will go on from a state
        finally:
            actor.engine.quiet = False

    # --- after the end -----------------------------------------------------------------------------------------------

    def last_look(self) -> None:
        """Everybody is dead and every lease is over: each session recovers, is clean, tells all that was sent, and goes on."""
        self.referee.universe.pass_time(AFTERWARDS)
        inspector = _Inspector(self._process())
        with self.scheduler.looking(inspector.process):
            engine = SimulatedEngine(self.engine, inspector, self.referee)
            engine.quiet = True
            store = Store(engine, clock=inspector.process.machine)
            for name in sorted(self.referee.sessions):
                try:
                    self._go_on(store.session(name, self.referee.policy, summarize), inspector)
                except Exception as error:  # whatever a reader meets is a finding
                    self.referee.complain("broken", f"{name!r} does not go on after the end: {type(error).__name__}: {error}")
            release(store.holder)
        inspector.process.alive = False
        self.look()

    def _go_on(self, session: Session, inspector: _Inspector) -> None:
        name = session.name
        before = [t.id for t in session.view().turns]
        removing = session.log.lineage.purging
        found = session.recover()
        self.referee.tell("inspector", f"recover [{name}]: from a {found.target} at seq {found.seq}")
        if not removing and [t.id for t in session.view().turns] != before:
            self.referee.complain("broken", f"{name}: recover() changed what is shown")
        reports = session.verify()
        if reports[0].verdict is not CompactionVerdict.POST_COMPACTION_CLEAN:
            self.referee.complain("torn", f"{name}: after the end {reports[0].verdict.name}: {reports[0].detail}")
        states = {row.key: row.state for row in session.ledger()}
        for sent in self.referee.world.sent:
            if sent.session == name and states.get(sent.key) not in self._may_be(name, sent.key):
                told = states.get(sent.key, "not in it")
                self.referee.complain("broken", f"{name}: {sent.key!r} was sent, attempt {sent.attempt}, the ledger says {told} (R47)")
        turn = session.append(user(99), id=f"after the end of {name}")
        self.referee.acknowledged(inspector, name, [turn])
        session.maybe_compact()
        session.prune()

    def _may_be(self, name: str, key: str) -> tuple[str, ...]:
        """The states that an effect which was sent may have: *no effect* only if somebody resolved it so."""
        return (*MAY_BE_SENT, "no_effect") if self.referee.world.not_happened[name, key] else MAY_BE_SENT


def damage(reports: Reports) -> str:
    """What verify found that is wrong, in words."""
    sound = (CompactionVerdict.POST_COMPACTION_CLEAN, CompactionVerdict.COMPACTION_IN_PROGRESS)
    return "; ".join(f"{r.verdict.name} at {r.seqs}: {r.detail}" for r in reports if r.verdict not in sound)


class _Inspector(Strand):
    """Who looks after the end: it has no thread and meets no fault."""

    process: Process

    def __init__(self, process: Process):
        self.name, self.process = "inspector", process

    def point(self, what: str) -> str:
        return "go"
