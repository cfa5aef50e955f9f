"""Real processes write to one session and are killed at it; and the checker finds what is wrong with a history that was forged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lineal.entries import Entry
from lineal.store import connect
from lineal.testing import histories
from lineal.testing.histories import Operation


def test_all_that_was_acknowledged_stands_once_in_one_order(tmp_path: Path, tell: Callable[[str], None]) -> None:
    """R2, R30, R32, R33, R49: four processes, some of them killed with SIGKILL and followed by another."""
    tally = histories.campaign(lambda name: str(tmp_path / f"{name}.db"), tmp_path, runs=2, operations=40)
    assert tally.sound, tally.wrong()
    assert tally.states["append answered"] > 50 and tally.states["effect answered"] and tally.states["head answered"]
    tell(
        f"histories of 4 processes: {tally.runs} runs, {sum(tally.states.values())} operations, {sum(tally.faults.values())} killed, lost 0"
    )


def say(name: str, seq: int, asked: float, answered: float, process: int = 1) -> Operation:
    return Operation(process, "append", name, asked, answered, True, seq)


@pytest.fixture
def sound(tmp_path: Path) -> tuple[list[Operation], list[tuple[int, Entry]]]:
    """A small history and the log that it left."""
    with connect(tmp_path / "agent.db") as store:
        session = store.session("agent", histories.POLICY)
        for name in ("a", "b", "c"):
            session.append({"role": "user", "content": name}, id=name)
        log = [(row.seq, entry) for row, entry in session.log.entries()]
    return [say("a", 1, 1, 2), say("b", 2, 1.5, 4, 2), say("c", 3, 5, 6), Operation(2, "head", "", 7, 8, True, 3)], log


Forge = Callable[[list[Operation], list[tuple[int, Any]]], None]
FORGED: dict[str, tuple[Forge, str]] = {
    "an acknowledged append is gone": (lambda h, log: log.pop(1), "b was acknowledged at seq 2 and stands at None"),
    "one stands twice": (lambda h, log: log.append((4, log[0][1])), "a stands 2 times"),
    "one was told another seq": (lambda h, log: h.__setitem__(1, replace(h[1], value=9)), "b was acknowledged at seq 9 and stands at 2"),
    "one that nobody said": (lambda h, log: h.pop(1), "b stands at seq 2 and nobody said it"),
    "a stale read": (lambda h, log: h.__setitem__(3, replace(h[3], value=2)), "head  of process 2 gave 2 after 3 had been acknowledged"),
    "an order against time": (
        lambda h, log: h.__setitem__(2, replace(h[2], value=1)),
        "append c of process 1 gave 1 after 2 had been acknowledged",
    ),
    "sent twice": (
        lambda h, log: h.extend(Operation(p, "effect", "k", 10 + p, 10.5 + p, True, 1, True) for p in (1, 2)),
        "k was done by process 1, and process 2 was told to send it again",
    ),
}


@pytest.mark.parametrize("what", FORGED)
def test_the_checker_finds(what: str, sound: tuple[list[Operation], list[tuple[int, Entry]]]) -> None:
    history, log = sound
    assert [*histories.lost(history, log), *histories.out_of_order(history, log)] == []
    forge, sentence = FORGED[what]
    forge(history, log)
    assert sentence in [*histories.lost(history, log), *histories.out_of_order(history, log)]


def test_brute_force_says_the_same_of_small_histories(sound: tuple[list[Operation], list[tuple[int, Entry]]]) -> None:
    """A second, dumber check: try every order."""
    appends = [o for o in sound[0] if o.verb == "append"]
    assert histories.an_order_of(appends) == tuple(appends)
    against_time = [say("a", 2, 1, 2), say("b", 1, 3, 4)]
    assert histories.an_order_of(against_time) is None
    assert [*histories.out_of_order(against_time, [])] == ["append b of process 1 gave 1 after 2 had been acknowledged"]
    at_once = [say("a", 2, 1, 4), say("b", 1, 2, 3)]
    assert histories.an_order_of(at_once) is not None and not [*histories.out_of_order(at_once, [])]
