"""One run of a script, from an empty store to the last look, and the story of it."""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lineal.engines import Engine
from lineal.engines.sqlite import SqliteEngine
from lineal.session.effects import LookAlike
from lineal.testing.lasting import Lasting
from lineal.testing.simulation.actors import HOMES, Actor, Stage
from lineal.testing.simulation.court import Court
from lineal.testing.simulation.machines import Universe
from lineal.testing.simulation.referee import Complaint, Referee
from lineal.testing.simulation.scheduler import Scheduler, Strand
from lineal.testing.simulation.script import Script
from lineal.testing.simulation.verbs import VERBS

LOOK_EVERY = 4  # verbs


@dataclass(frozen=True)
class Played:
    """What came of a run. `story`: one line an event; `complaints`: what was found wrong."""

    story: tuple[str, ...]
    complaints: tuple[Complaint, ...]
    faults: Counter[str]
    states: Counter[str]
    steps: int


@contextmanager
def _engines(kind: str) -> Iterator[Callable[[], Engine]]:
    """What opens the one store of a run once more."""
    if kind == "memory":
        lasting = Lasting()
        yield lambda: lasting
        return
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "agent.db")
        yield lambda: SqliteEngine.open(path)


def play(script: Script) -> Played:
    """Play the script; the same script gives the same story, byte for byte."""
    universe = Universe()
    story: list[str] = []

    def tell(who: str, text: str) -> None:
        story.append(f"{universe.now:9.2f}s  {who:<10}  {text}")

    with _engines(script.engine) as open_engine, universe.seen_by_holders(), warnings.catch_warnings():
        warnings.simplefilter("ignore", LookAlike)
        bare = open_engine()
        machines = [universe.machine(name, skew) for name, skew in zip(("alpha", "beta", "gamma"), script.skews, strict=False)]
        referee = Referee(universe, bare, script.policy, tell)
        scheduler = Scheduler(universe, script.chance(), script.sticky, tell)
        ended = [0]

        def after_verb() -> None:
            ended[0] += 1

        stage = Stage(machines, referee, script.policy, open_engine, tell, HOMES[: script.sessions], after_verb)
        actors = [Actor(stage, part, VERBS) for part in script.parts]
        scheduler.strands = [Strand(scheduler, actor.name, actor.part.machine, actor.play) for actor in actors]
        court = Court(referee, scheduler, actors, bare)
        scheduler.run(script.faults, partial(_after_step, court, referee, ended))
        for text in scheduler.crashed:
            referee.complain("broken", text)
        if not referee.complaints:
            court.last_look()
        bare.close()
    return Played(tuple(story), tuple(referee.complaints), scheduler.faults, referee.states, scheduler.step)


def _after_step(court: Court, referee: Referee, ended: list[int]) -> bool:
    """A full look after every few verbs. Whether the run is to go on."""
    if ended[0] >= LOOK_EVERY * (court.looks + 1):
        court.look()
    return not referee.complaints
