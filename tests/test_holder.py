"""Who holds a compaction or an effect, and is it alive? A case for each row of the table in `holder`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from lineal import holder as module
from lineal.entries import Holder, Lease
from lineal.holder import SystemClock, alive, describe, lease, new_holder, release


class Still:
    """A clock that moves by hand."""

    def __init__(self, wall: float = 1_000.0, boot: float = 500.0):
        self.now, self.up = wall, boot

    def wall(self) -> float:
        return self.now

    def boot(self) -> float:
        return self.up


@pytest.fixture
def mine() -> Iterator[Holder]:
    made = new_holder()
    yield made
    release(made)


def other_process(seconds: float = 30) -> tuple[subprocess.Popen[bytes], Holder]:
    child = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({seconds})"])
    started = module._start_of(child.pid)
    assert started is not None
    return child, Holder("theirs", socket.gethostname(), module._boot_id(), child.pid, started)


def test_a_holder_of_this_process_lives_until_its_store_is_closed(mine: Holder) -> None:
    clock = Still()
    held = lease(mine, 60, clock)
    assert alive(held, clock)
    assert alive(lease(new_holder(), 60, clock), clock), "several stores of one process are several holders"
    release(mine)
    assert not alive(held, clock)
    release(mine)


def test_a_process_of_an_earlier_boot_is_gone_whoever_has_its_number_now() -> None:
    """R33."""
    child, them = other_process()
    try:
        clock = Still()
        assert alive(lease(them, 60, clock), clock)
        assert not alive(lease(msgspec.structs.replace(them, boot="the boot before"), 60, clock), clock)
    finally:
        child.kill()
        child.wait()


def test_a_lease_ends_by_seconds_since_boot_never_by_the_wall_clock(mine: Holder) -> None:
    """R3, R33: a clock set by five hours changes nothing on one machine."""
    clock = Still()
    held = lease(mine, 60, clock)
    clock.now += 5 * 3_600
    assert alive(held, clock)
    clock.now -= 10 * 3_600
    assert alive(held, clock)
    clock.up += 60
    assert not alive(held, clock)


def test_another_process_of_this_boot_is_dead_when_it_is_gone() -> None:
    """R33: without waiting for the deadline."""
    clock = Still()
    child, theirs = other_process()
    try:
        held = lease(theirs, 10_000, clock)
        assert alive(held, clock)
        clock.up += 10_000
        assert not alive(held, clock), "a live process whose lease is over may be fenced"
        clock.up -= 10_000
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not alive(held, clock), "a zombie has died"
    finally:
        child.kill()
        child.wait()
    assert not alive(held, clock)


def test_a_process_that_has_another_start_time_is_another_one() -> None:
    """The system gives process ids again."""
    clock = Still()
    child, theirs = other_process()
    try:
        held = lease(msgspec.structs.replace(theirs, started=theirs.started - 1), 60, clock)
        assert not alive(held, clock)
    finally:
        child.kill()
        child.wait()


def test_a_holder_of_an_earlier_boot_is_dead() -> None:
    clock = Still()
    held = lease(Holder("old", socket.gethostname(), "another boot", os.getpid(), 1), 60, clock)
    assert not alive(held, clock)


def test_a_holder_on_another_machine_lives_until_its_deadline() -> None:
    clock = Still()
    held = lease(Holder("far", "another host", "another boot", 1, 1), 60, clock)
    clock.up += 10_000
    assert alive(held, clock)
    clock.now += 60
    assert not alive(held, clock)


def test_who_holds_it_and_how_long_is_told(mine: Holder) -> None:
    clock = Still()
    assert describe(lease(mine, 60, clock), clock) == f"process {os.getpid()} on {socket.gethostname()}, lease ends in 60 s"
    far = Lease(Holder("far", "", "another boot", 7, 1), 990.0, 0.0)
    assert describe(far, clock) == "process 7 on an unnamed host, lease ends in 0 s"


def test_the_systems_clock_goes_on() -> None:
    clock = SystemClock()
    assert clock.wall() > 1_600_000_000
    first = clock.boot()
    assert clock.boot() >= first > 0


def test_a_new_holder_names_this_process(mine: Holder) -> None:
    assert (mine.pid, mine.host, mine.boot) == (os.getpid(), socket.gethostname(), module._boot_id())
    assert mine.token != new_holder().token
