"""Machines, processes and clocks that exist only in a simulation, and the eyes that `lineal.holder` sees them with.

Each machine has a wall clock that may be wrong and may jump, and a boot clock that never goes back. Which process looks
is decided by `Universe.running`: a lease is judged from where that process stands.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from lineal import holder
from lineal.entries import Lease
from lineal.testing.clock import JumpingClock

EPOCH = 1_790_000_000.0  # what a right wall clock shows when a simulation begins
FIRST_PID = 100


class Machine(JumpingClock):
    """One host, which is the clock of its processes. `ahead`: by how many seconds its wall clock is wrong at the start."""

    def __init__(self, name: str, ahead: float = 0.0):
        super().__init__(wall=EPOCH + ahead)
        self.name, self.boots = name, 1
        self._set_back = 0.0  # how far the wall clock stands below the latest that it could have shown

    @property
    def boot_id(self) -> str:
        return f"{self.name}-boot-{self.boots}"

    def step(self, seconds: float) -> None:
        super().step(seconds)
        self._set_back = max(0.0, self._set_back - seconds)

    def latest_wall(self) -> float:
        """The latest time that a process may have read here, however the clock was set since."""
        return self.wall() + self._set_back

    def restart(self) -> None:
        """The power comes back: another boot, whose clock begins at nothing."""
        self.boots += 1
        self.set_back(self.boot())


@dataclass
class Process:
    """One process from its start to its end, on one boot of one machine."""

    machine: Machine
    boot_id: str
    pid: int
    started: int
    alive: bool = True


@dataclass
class Universe:
    """All machines, all processes, the true time in seconds, and who is looking."""

    now: float = 0.0
    machines: list[Machine] = field(default_factory=list)
    processes: list[Process] = field(default_factory=list)
    running: Process | None = None

    def machine(self, name: str, ahead: float = 0.0) -> Machine:
        self.machines.append(Machine(name, ahead))
        return self.machines[-1]

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for machine in self.machines:
            machine.pass_time(seconds)

    def start(self, machine: Machine) -> Process:
        process = Process(machine, machine.boot_id, FIRST_PID + len(self.processes), int(machine.boot() * 100))
        self.processes.append(process)
        return process

    def of(self, lease: Lease) -> Process:
        """The process that holds a lease, by its id: no two processes of a simulation have the same."""
        return self.with_pid(lease.holder.pid)

    def with_pid(self, pid: int) -> Process:
        return self.processes[pid - FIRST_PID]

    @property
    def here(self) -> Process:
        assert self.running is not None, "nobody looks"
        return self.running

    def start_of(self, pid: int) -> int | None:
        """When the process with this id began, as this boot of this machine knows it; None where there is none."""
        mine = self.here
        return next((p.started for p in self.processes if p.pid == pid and p.alive and p.boot_id == mine.boot_id), None)

    @contextmanager
    def seen_by_holders(self) -> Iterator[None]:
        """Inside, `lineal.holder` is on the machine of whoever runs."""
        eyes: dict[str, Any] = {
            "socket": SimpleNamespace(gethostname=lambda: self.here.machine.name),
            "os": SimpleNamespace(getpid=lambda: self.here.pid),
            "_boot_id": lambda: self.here.boot_id,
            "_start_of": self.start_of,
        }
        before = {name: getattr(holder, name) for name in eyes}
        try:
            for name, eye in eyes.items():
                setattr(holder, name, eye)
            yield
        finally:
            for name, eye in before.items():
                setattr(holder, name, eye)
