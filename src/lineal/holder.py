"""Who holds something that takes time (a compaction, an effect), and is that holder still alive?

A wrong answer costs work, never truth: a commit is compare-and-set on generation and epoch, so a holder that was taken
for dead finds its commit refused (fencing). Clocks are only asked where nothing better is known (R3, R33):

| holder is of | it is dead when |
|---|---|
| this process | its store was closed, or what it held ended and no entry could say so (`give_up`) |
| this boot of this machine | its process is gone (pid and start time); a compaction's also when the lease is over, in seconds since boot |
| an earlier boot of this machine | always |
| another machine | the lease's wall-clock deadline is past |
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from pathlib import Path
from typing import Protocol

from lineal.entries import Holder, Lease


class Clock(Protocol):
    """Where time comes from; tests pass their own."""

    def wall(self) -> float:
        """Seconds since 1970. Kept for people; may jump."""

    def boot(self) -> float:
        """Seconds since this machine's boot; the same for all its processes, never set back."""


class SystemClock:
    def wall(self) -> float:
        return time.time()

    def boot(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


_LIVE_TOKENS: set[str] = set()  # tokens of this process whose store is open
_GIVEN_UP: set[Lease] = set()


def new_holder() -> Holder:
    """A new holder of this process; alive until `release`."""
    token = uuid.uuid4().hex
    _LIVE_TOKENS.add(token)
    pid = os.getpid()
    return Holder(token, socket.gethostname(), _boot_id(), pid, _start_of(pid) or 0)


def release(holder: Holder) -> None:
    _LIVE_TOKENS.discard(holder.token)


def lease(holder: Holder, seconds: float, clock: Clock) -> Lease:
    made = Lease(holder, clock.wall() + seconds, clock.boot() + seconds)
    _GIVEN_UP.discard(made)
    return made


def give_up(held: Lease) -> None:
    """What was held under it has ended, though no entry could say so: nobody in this process waits for it."""
    _GIVEN_UP.add(held)


def alive(held: Lease, clock: Clock, expires: bool = True) -> bool:
    """Whether the lease's holder must be waited for, by the table above.

    Without `expires` (effects) a process that lives is waited for however long it takes: what it does cannot be fenced.
    """
    them = held.holder
    if them.host != socket.gethostname():
        return clock.wall() < held.deadline
    if them.boot != _boot_id():
        return False
    if expires and clock.boot() >= held.boot_deadline:
        return False
    if them.pid == os.getpid():
        return them.token in _LIVE_TOKENS and held not in _GIVEN_UP
    return _start_of(them.pid) == them.started


def describe(held: Lease, clock: Clock) -> str:
    """For messages: who, and how long the lease still runs."""
    left = held.boot_deadline - clock.boot() if held.holder.boot == _boot_id() else held.deadline - clock.wall()
    return f"process {held.holder.pid} on {held.holder.host or 'an unnamed host'}, lease ends in {max(0.0, left):.0f} s"


def _boot_id() -> str:
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else ""


def _start_of(pid: int) -> int | None:
    """The process's start time in clock ticks since boot; None when there is no such process.

    A zombie has died: it only waits to be reaped.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return None if Path("/proc").exists() else _exists(pid)
    return None if fields[0] in "ZX" else int(fields[19])


def _exists(pid: int) -> int | None:
    """Where there is no /proc: 0 for a process that answers, None for one that is gone."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return 0
    return 0
