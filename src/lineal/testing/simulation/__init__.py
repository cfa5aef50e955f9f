"""Deterministic simulation: one seed is one whole run, the same to the byte whenever and wherever it is played.

Several agents, an operator and a compactor work on one store, each as a simulated process on a simulated machine. They
take turns at every call of the engine, in an order that the seed decides, and the seed decides too who crashes, who
stalls past its lease, whose answer is lost, when the power goes and which clock jumps. A referee beside the store knows
what no process knows (who is alive, what was really written, what was really done to the world), and complains.

| module | holds |
|---|---|
| `script` | what a seed means: parts, verbs, faults. Data |
| `machines` | hosts, boots, processes, clocks, and what a process can know of another |
| `scheduler` | who goes next and what befalls them: threads with one baton |
| `port` | an engine whose every call is a point at which others may go first |
| `actors`, `verbs` | simulated processes, and what they do |
| `referee`, `world` | what holds at every row that is written and at everything that is done |
| `court` | the full look between steps, and after the end |
| `play`, `shrinking` | one run; and a failing one with everything left out that it can fail without |
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Literal

from lineal.testing.simulation.play import Played, play
from lineal.testing.simulation.script import Script, write
from lineal.testing.simulation.shrinking import SECONDS, shrink
from lineal.testing.tally import Tally

EngineName = Literal["memory", "sqlite"]
CHUNK = 10  # seeds that a worker is given at once


def simulate(
    seeds: Iterable[int],
    engine: EngineName = "memory",
    workers: int = 2,
    progress: Callable[[Tally], object] | None = None,
    shrink_seconds: float = SECONDS,
) -> Tally:
    """Play every seed. What is found wrong stands in the tally with its seed and its story, made short.

    `workers`: processes; with 1 everything is played in this one. `progress` is called with the tally so far.
    """
    wanted = [*seeds]
    chunks = [wanted[n : n + CHUNK] for n in range(0, len(wanted), CHUNK)]
    work = partial(_some, engine=engine, shrink_seconds=shrink_seconds)
    if workers == 1:
        return _added_up(map(work, chunks), progress)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        return _added_up(pool.map(work, chunks), progress)


def _added_up(tallies: Iterable[Tally], progress: Callable[[Tally], object] | None) -> Tally:
    whole = Tally()
    for tally in tallies:
        whole += tally
        if progress:
            progress(whole)
    return whole


def _some(seeds: list[int], engine: EngineName, shrink_seconds: float) -> Tally:
    return sum((_one(write(seed, engine), shrink_seconds) for seed in seeds), Tally())


def _one(script: Script, shrink_seconds: float) -> Tally:
    played = play(script)
    tally = Tally(runs=1, faults=Counter(played.faults), states=Counter(played.states))
    if played.complaints:
        first = played.complaints[0]
        getattr(tally, first.kind).append(f"seed {script.seed} on {script.engine}: {first.what}\n{_told(script, played, shrink_seconds)}")
    return tally


def replay(seed: int, engine: EngineName = "memory", shrink_seconds: float = SECONDS) -> str:
    """The story of a seed; of a failing one the whole story, and then the shortest that was found to fail too."""
    script = write(seed, engine)
    played = play(script)
    whole = "\n".join([_title(script, played), *played.story])
    return f"{whole}\n\n{_told(script, played, shrink_seconds)}" if played.complaints else whole


def _told(script: Script, played: Played, seconds: float) -> str:
    """How to see a failing run again, and its shortest story."""
    smallest, short = shrink(script, played, seconds)
    again = f"again: python -m lineal.testing replay {script.seed} --engine {script.engine}"
    return "\n".join([again, "made short: " + _title(smallest, short), *short.story])


def _title(script: Script, played: Played) -> str:
    verbs = sum(len(part.verbs) for part in script.parts)
    policy = script.policy
    return (
        f"seed {script.seed} on {script.engine}: {len(script.parts)} parts on {len(script.skews)} machines, {verbs} verbs, "
        f"{len(script.faults)} faults, {played.steps} steps; on_refusal={policy.on_refusal}, on_lookalike={policy.on_lookalike}"
    )
