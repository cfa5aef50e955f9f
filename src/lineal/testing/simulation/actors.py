"""A simulated process: it opens the store, recovers, does its verbs, dies, and is started again where it was cut off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lineal.engines import Engine
from lineal.errors import Conflict, Corrupt, LinealError, Refused, Unavailable
from lineal.holder import release
from lineal.policy import Policy
from lineal.session import Session
from lineal.session.outcomes import Plan
from lineal.store import Store
from lineal.summarizers import Summarizer, Summary, SummaryRequest
from lineal.testing.simulation.machines import Machine
from lineal.testing.simulation.port import SimulatedEngine
from lineal.testing.simulation.referee import Referee
from lineal.testing.simulation.scheduler import Died, Strand
from lineal.testing.simulation.script import Part, Verb
from lineal.testing.stories import summarize
from lineal.testing.summaries import STUBS

TRIES = 3  # how often one process tries a verb that an I/O error cut off
HOMES = ("agent", "other")
FORKS_MAX = 3

VerbOf = Callable[["Actor", Session, Verb], str]


@dataclass
class Stage:
    """What the actors of one run share. `open_engine` gives the store's engine once more, as a new process would get it."""

    machines: Sequence[Machine]
    referee: Referee
    policy: Policy
    open_engine: Callable[[], Engine]
    tell: Callable[[str, str], None]
    homes: Sequence[str]
    after_verb: Callable[[], None]
    forks: int = 0

    def names(self) -> list[str]:
        """The sessions that can be meant: the homes, and the forks that are there."""
        return [*self.homes, *(name for name in sorted(self.referee.sessions) if name not in self.homes)]


@dataclass
class Actor:
    """One part of the script. What it means to say and to do outlives its process: a crash does not change its mind."""

    stage: Stage
    part: Part
    verbs: dict[str, VerbOf]
    at: int = 0
    tries: int = 0
    meant: dict[Any, Any] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)
    strand: Strand = field(init=False)
    engine: SimulatedEngine = field(init=False)
    store: Store = field(init=False)

    @property
    def name(self) -> str:
        return self.part.name

    @property
    def referee(self) -> Referee:
        return self.stage.referee

    def tell(self, text: str) -> None:
        self.stage.tell(self.name, text)

    # --- from start to end -------------------------------------------------------------------------------------------

    def play(self, strand: Strand) -> None:
        """The body of its strand: lives until every verb was tried."""
        self.strand = strand
        while self.at < len(self.part.verbs):
            try:
                self._live()
            except Died:
                release(self.store.holder)
                self.tell("-- dead")
                strand.rest_until_restarted()
        self.tell("done")

    def _live(self) -> None:
        machine = self.stage.machines[self.part.machine]
        universe = self.referee.universe
        self.strand.process = universe.running = universe.start(machine)
        self.sessions, self.plans, self.tries = {}, {}, 0
        self.engine = SimulatedEngine(self.stage.open_engine(), self.strand, self.referee)
        self.store = Store(self.engine, clock=machine)
        try:
            self.tell(f"-- starts on {machine.name}, process {self.strand.process.pid}")
            if self.at:
                self._do(Verb("recover", 0, (0, 0, 0)))
            while self.at < len(self.part.verbs):
                self.strand.point("the next verb")
                self._try(self.part.verbs[self.at])
            release(self.store.holder)
            self.strand.process.alive = False
        finally:
            self.engine.engine.close()

    def _try(self, verb: Verb) -> None:
        """One verb; again if an I/O error cut it off."""
        self.tries += 1
        if self._do(verb) or self.tries >= TRIES:
            self.at, self.tries = self.at + 1, 0

    def _do(self, verb: Verb) -> bool:
        """Whether it is over: done or refused. An I/O error may be tried again; anything else is no answer that a caller may get."""
        self.referee.begins(self.strand)
        self.engine.failed = False
        name = ""
        try:
            name = self.choose(verb)
            told = self.verbs[verb.name](self, self.session(name), verb)
        except Unavailable as error:
            if not self.engine.failed:
                self.referee.complain("broken", f"{self.name}: {verb.name} is unavailable without any fault: {error}")
            self.tell(f"{verb.name} [{name}] failed: {_first(error)}")
            return False
        except Corrupt as error:
            self.referee.complain("torn", f"{self.name}: {verb.name}: {error}")
            return True
        except (Refused, Conflict) as refusal:
            told = self._refused(verb, refusal)
        self.tell(f"{verb.name} [{name}]: {told}")
        self.stage.after_verb()
        return True

    def _refused(self, verb: Verb, refusal: LinealError) -> str:
        if not isinstance(refusal, Refused):
            self.referee.reached(f"{verb.name}: conflict")
            return f"conflict: {_first(refusal)}"
        self.referee.reached(f"{verb.name} refused: {refusal.reason}")
        if refusal.reason == "latched":
            self.referee.complain("torn", f"{self.name}: {verb.name}: {refusal}")
        return f"refused: {refusal.rule}, {refusal.reason}"

    def choose(self, verb: Verb) -> str:
        names = self.stage.names()
        return names[verb.session % len(names)]

    def session(self, name: str) -> Session:
        if name not in self.sessions:
            self.sessions[name] = self.store.session(name, self.stage.policy, summarize)
        return self.sessions[name]

    # --- what verbs need ---------------------------------------------------------------------------------------------

    def label(self, what: str = "") -> str:
        """A name that only this verb of this actor has, the same after a crash."""
        return f"{self.name}.{self.at}{what}"

    def once(self, what: str, make: Callable[[], Any]) -> Any:
        """What was meant the first time that this verb was tried."""
        key = (self.at, what)
        if key not in self.meant:
            self.meant[key] = make()
        return self.meant[key]

    def summarizer(self, session: Session, name: str) -> Summarizer:
        return lambda request: self.answer(session, name, request)

    def answer(self, session: Session, name: str, request: SummaryRequest) -> str | Summary:
        """What the stub of this name writes; others go first while it is at work, and it is known what it received (R9)."""
        self.strand.point("the summary")
        if name == "hangs":
            raise TimeoutError("the summarizer gave no answer")
        summary = STUBS[name](request)
        read = summary.received if isinstance(summary, Summary) and summary.received is not None else [t.id for t in request.turns]
        self.referee.sessions[session.name].model.received[request.generation] = set(read)
        return summary


def _first(error: LinealError) -> str:
    return str(error).split(". Way out")[0]
