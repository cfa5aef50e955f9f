"""The proof as one table: every campaign of faults, one after the other, each on fresh stores of its own.

| campaign | what is done |
|---|---|
| kills | SIGKILL before and after every engine call of a life that uses every verb |
| errors | an error at every engine call of it |
| system calls | SIGKILL inside syncs, writes and renames of the process, by strace where it is installed |
| power cuts | the power goes at every disk operation: unsynced sectors survive by chance; writes are torn in four ways |
| cuts in recovery | a second cut while the store that was cut is opened again |
| disk errors | no space, and an I/O error, at reads, writes and syncs |
| lies | an engine that drops, delays, repeats, swaps or tears what it acknowledged: noticed, or a legal state |
| tampering | each row of a store, changed at rest in each way, on both engines; and what the file keeps beside its rows |
| histories | processes that write to one session at once, some of them killed |
| fuzzing | inputs that nobody would write, at every door |
| simulation | seeds, each a whole run of several processes, with crashes, stalls, lost leases and jumping clocks |

A campaign is added to `CAMPAIGNS`; `scale` says how much of each is done: 1 for minutes, more for longer.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lineal.testing import crashes, diskerrors, histories, lies, powercuts, spoiling, tampering
from lineal.testing.fuzzing import campaign as fuzz
from lineal.testing.simulation import simulate
from lineal.testing.tally import Tally

Told = Callable[[str], None]
SYSTEM_CALLS = (
    ("fdatasync,fsync", "signal=KILL"),
    ("pwrite64", "signal=KILL"),
    ("rename", "signal=KILL"),
    ("fdatasync,fsync", "error=EIO"),
)


@dataclass(frozen=True)
class Setting:
    """Where a campaign works, how much it does, with how many processes, and whom it tells how far it is."""

    folder: Path
    scale: int
    workers: int
    told: Told

    def url_for(self, name: str) -> str:
        return str(self.folder / f"{name}.db")

    def counted(self, done: int, all: int) -> None:
        self.told(f"{done:,} of {all:,}")

    def so_far(self, tally: Tally) -> None:
        self.told(f"{tally.runs:,} runs")


def _system_calls(s: Setting) -> Tally:
    every = 1 if s.scale > 1 else 4
    return sum((crashes.every_system_call(s.url_for, s.folder, c, what, every, s.counted) for c, what in SYSTEM_CALLS), Tally())


def _tampering(s: Setting) -> Tally:
    whole = tampering.campaign(None, s.counted) + spoiling.campaign(s.folder, s.counted)
    return whole + tampering.campaign(s.folder, s.counted, every=1 if s.scale > 1 else 9)


def _disk_errors(s: Setting) -> Tally:
    return diskerrors.campaign(every=1 if s.scale > 1 else 4, progress=s.counted, workers=s.workers)


CAMPAIGNS: dict[str, Callable[[Setting], Tally]] = {
    # Those that fork come first: what a child inherits must not be a connection.
    "kills": lambda s: crashes.every_call(s.url_for, "kill", s.workers, s.counted),
    "errors": lambda s: crashes.every_call(s.url_for, "error", s.workers, s.counted),
    "system calls": _system_calls,
    "power cuts": lambda s: powercuts.campaign(seeds=range(8 * s.scale), progress=s.counted, workers=s.workers),
    "cuts in recovery": lambda s: powercuts.again(every=40 // s.scale or 1, progress=s.counted, workers=s.workers),
    "disk errors": _disk_errors,
    "lies": lambda s: lies.every_lie(progress=s.counted),
    "tampering": _tampering,
    "histories": lambda s: histories.campaign(s.url_for, s.folder, runs=4 * s.scale, operations=80, progress=s.counted),
    "fuzzing": lambda s: fuzz(runs=6_000 * s.scale, progress=s.so_far),
    "simulation": lambda s: simulate(range(400 * s.scale), workers=s.workers, progress=s.so_far),
}


def prove(names: list[str], scale: int, workers: int, told: Callable[[str, str], None]) -> list[tuple[str, Tally]]:
    """Carry these campaigns out (none named: all). `told` is called with a campaign's name and how far it is."""
    done: list[tuple[str, Tally]] = []
    for name in names or [*CAMPAIGNS]:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="lineal-proof-") as folder:
            told(name, "begins")
            done.append((name, CAMPAIGNS[name](Setting(Path(folder), scale, workers, _of(told, name)))))
        told(name, f"{done[-1][1].runs:,} runs in {time.monotonic() - started:,.0f} s")
    return done


def _of(told: Callable[[str, str], None], name: str) -> Told:
    return lambda how_far: told(name, how_far)
