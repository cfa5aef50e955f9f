"""Fuzzing: every door of lineal is tried with inputs that nobody would write. Two outcomes are sound: taken, or a typed refusal.

A `Surface` is one door: `make(rng)` gives an input, `enter(input, folder)` uses it and says in a word what came of it.
Whatever else happens is a finding: another exception, a wrong answer (`AssertionError`), more memory than `MEMORY`, no
answer within `PATIENCE`, the end of the process. Each run has its own seed, so each finding can be seen again with `again`.

    from random import Random
    from lineal.testing.fuzzing import Surface, campaign, mutated

    mine = Surface("my reader", lambda rng: mutated(SAMPLE, rng), lambda data, folder: my_reader(data))
    assert campaign(runs=1_000, surfaces=[mine]).sound

Runs happen in a child process with limits; the parent only counts. Needs a POSIX system.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

from lineal.errors import LinealError
from lineal.testing.fuzzing.mutations import MUTATIONS, as_bytes, changed, lines_of, mutated, nested, odd
from lineal.testing.tally import Tally

__all__ = ["MUTATIONS", "Surface", "again", "as_bytes", "campaign", "changed", "lines_of", "mutated", "nested", "odd", "surfaces"]

MEMORY = 1 << 30  # bytes of address space that a child may take beside what it has when it begins
PATIENCE = 60.0  # seconds for one run: a hang, not a slow machine
BATCH = 400  # runs of one child: what one leaves behind in memory does not add up for ever
SHOWN = 20  # findings with one and the same cause are counted, but so many of them are told


@dataclass(frozen=True)
class Surface:
    """One door. `enter` may raise a `LinealError` (counted as refused); what it returns is counted as a state."""

    name: str
    make: Callable[[Random], Any]
    enter: Callable[[Any, Path], str]


@dataclass(frozen=True)
class _Run:
    surface: str
    seed: int
    outcome: str = ""  # the state that was reached; empty for a finding
    finding: str = ""  # what went wrong, in one line


def surfaces() -> tuple[Surface, ...]:
    """The doors of lineal: bytes, transcripts, messages, arguments, anchors, stores and commands."""
    from lineal.testing.fuzzing.doors import DOORS
    from lineal.testing.fuzzing.files import FILES

    return (*DOORS, *FILES)


def campaign(
    runs: int | None = 600,
    seed: int = 0,
    seconds: float | None = None,
    surfaces: Sequence[Surface] | None = None,
    progress: Callable[[Tally], None] | None = None,
    patience: float = PATIENCE,
    memory: int = MEMORY,
) -> Tally:
    """Try the surfaces in turn, `runs` times in all or for `seconds` (whichever ends first; None: without that end).

    The tally: `faults` counts runs by surface, `states` what came of them, `broken` every other outcome with its seed.
    """
    doors = tuple(surfaces) if surfaces is not None else globals()["surfaces"]()
    tally, end, told = Tally(), None if seconds is None else time.monotonic() + seconds, dict[str, int]()
    n = 0
    while (runs is None or n < runs) and (end is None or time.monotonic() < end):
        last = n + BATCH if runs is None else min(runs, n + BATCH)
        for run in _batch(doors, [(doors[k % len(doors)].name, seed + k) for k in range(n, last)], patience, memory, end):
            n += 1
            _count(tally, run, told)
            if progress:
                progress(tally)
    return tally


def _count(tally: Tally, run: _Run, told: dict[str, int]) -> None:
    tally.runs += 1
    tally.faults[run.surface] += 1
    tally.states[f"{run.surface}: {run.outcome or 'broken'}"] += 1
    if run.finding:
        told[run.finding] = told.get(run.finding, 0) + 1
        if told[run.finding] <= SHOWN:
            tally.broken.append(f"{run.surface}, seed {run.seed}: {run.finding}")


def again(surface: str | Surface, seed: int, folder: Path) -> str:
    """One run once more, in this process and without limits: returns its outcome, or raises what it raised."""
    door = surface if isinstance(surface, Surface) else next(s for s in surfaces() if s.name == surface)
    return _enter(door, seed, folder)


def _enter(door: Surface, seed: int, folder: Path) -> str:
    given = door.make(Random(f"{door.name}:{seed}"))
    try:
        return door.enter(given, folder)
    except LinealError as refusal:
        assert str(refusal), f"{type(refusal).__name__} says nothing"
        return f"refused ({type(refusal).__name__})"


# --- the child -----------------------------------------------------------------------------------------------------------


def _batch(doors: Sequence[Surface], jobs: list[tuple[str, int]], patience: float, memory: int, end: float | None) -> Iterator[_Run]:
    """The runs of these jobs in one child; in another one from the job behind a hang or a crash."""
    while jobs and (end is None or time.monotonic() < end):
        done = 0
        with tempfile.TemporaryDirectory(prefix="lineal-fuzzing-") as folder:
            ours, theirs = multiprocessing.Pipe(duplex=False)
            child = multiprocessing.get_context("fork").Process(target=_work, args=(doors, jobs, theirs, folder, memory), daemon=True)
            child.start()
            theirs.close()
            try:
                for run in _told(ours, child, jobs, patience, end):
                    done += 1
                    yield run
            finally:
                child.kill()
                child.join()
                ours.close()
        jobs = jobs[done:]


def _told(pipe: Connection, child: BaseProcess, jobs: list[tuple[str, int]], patience: float, end: float | None) -> Iterator[_Run]:
    for surface, seed in jobs:
        if end is not None and time.monotonic() > end:
            return
        if not pipe.poll(patience):
            yield _Run(surface, seed, finding=f"no answer within {patience:g} s")
            return
        try:
            yield pipe.recv()
        except EOFError:
            child.join()
            yield _Run(surface, seed, finding=f"the process ended with {child.exitcode}")
            return


def _work(doors: Sequence[Surface], jobs: Iterable[tuple[str, int]], pipe: Connection, folder: str, memory: int) -> None:
    """In the child: every run in a folder of its own, its outcome told at once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit(memory)
    by_name = {door.name: door for door in doors}
    with suppress(BrokenPipeError):
        for n, (surface, seed) in enumerate(jobs):
            place = Path(folder, str(n))
            place.mkdir()
            os.chdir(place)
            pipe.send(_outcome(by_name[surface], seed, place))
            os.chdir(folder)
            shutil.rmtree(place, ignore_errors=True)
    pipe.close()
    os._exit(0)  # what the parent would do at its own exit is not the child's


def _outcome(door: Surface, seed: int, place: Path) -> _Run:
    try:
        return _Run(door.name, seed, _enter(door, seed, place))
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        at = f"{Path(where.filename).name}:{where.lineno}"
        return _Run(door.name, seed, finding=f"{type(error).__name__} at {at}: {str(error)[:200]!r}")


def _limit(memory: int) -> None:
    """No more address space than now and `memory` bytes. Where the present size is not told (no /proc), there is no limit."""
    with suppress(OSError, ValueError):
        present = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (present + memory, hard))
