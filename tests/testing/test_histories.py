"""Real processes write to one session and are killed at it; and the checker finds what is wrong with a history that was forged."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lineal.engines import Row
from lineal.entries import Entry, RolledBack
from lineal.fold import Misfit
from lineal.store import connect
from lineal.testing import histories
from lineal.testing.orders import Operation, an_order_of, lost, out_of_order, shown, unlike


def test_all_that_was_acknowledged_stands_once_in_one_order(tmp_path: Path, tell: Callable[[str], None]) -> None:
    """R2, R30, R31, R32, R33, R49: four processes, some of them killed with SIGKILL and followed by another."""
    tally = histories.campaign(lambda name: str(tmp_path / f"{name}.db"), tmp_path, runs=2, operations=50, seed=5)
    assert tally.sound, tally.wrong()
    assert tally.faults["a process killed at work"] >= 2
    for verb in ("append", "effect", "head", "read", "compact", "checkpoint", "pin", "rollback"):
        assert tally.states[f"{verb} answered"] + tally.states[f"{verb} refused"], verb
    assert tally.states["append answered"] > 100
    operations, killed = sum(tally.states.values()), sum(tally.faults.values())
    tell(f"histories of 4 processes: {tally.runs} runs, {operations} operations, {killed} killed, lost 0")


# --- the checker -----------------------------------------------------------------------------------------------------

Rows = list[tuple[Row, Entry]]


def say(name: str, seq: int, asked: float, answered: float, process: int = 1) -> Operation:
    return Operation(process, "append", name, asked, answered, True, seq)


def send(process: int, asked: float, done: bool = True) -> Operation:
    return Operation(process, "effect", "k", asked, asked + 0.5, True, int(done), pending=True)


@pytest.fixture
def sound(tmp_path: Path) -> tuple[list[Operation], Rows]:
    """A small history and the log that it left: 1 a, 2 b, 3 c, 4 pinned, 5 intended, 6 settled, 7 checkpoint, 8 d, 9 rolled back, 10 d."""
    with connect(tmp_path / "agent.db") as store:
        session = store.session("agent", histories.POLICY)
        for name in ("a", "b", "c"):
            session.append({"role": "user", "content": name}, id=name)
        view = session.view()
        session.pin("p")
        with session.effect("send", {"to": "k"}, key="k") as effect:
            effect.settle("sent")
        session.checkpoint("here")
        session.append({"role": "user", "content": "d"}, id="d")
        session.rollback("here")
        session.append({"role": "user", "content": "d"}, id="d")
        rows = list(session.log.entries())
    history = [
        say("a", 1, 1, 2),
        say("b", 2, 1.5, 4, 2),
        say("c", 3, 5, 6),
        Operation(2, "head", "", 7, 8, True, 3),
        Operation(2, "read", "", 7, 8, True, 3, shown(view.generation, view.turns, view.summaries)),
        Operation(1, "pin", "p", 9, 10, True),
        send(1, 11),
        Operation(1, "checkpoint", "", 13, 14, True, 7),
        say("d", 8, 15, 16),
        Operation(1, "rollback", "", 17, 18, True, 9, "8"),
        say("d", 10, 19, 20),
        Operation(3, "append", "e", 19),
    ]
    return history, rows


def judged(history: list[Operation], rows: Rows) -> Iterator[str]:
    log = [(row.seq, entry) for row, entry in rows]
    yield from lost(history, log)
    yield from out_of_order(history, log)
    yield from unlike(history, rows)


def other(history: list[Operation], n: int, **changes: Any) -> None:
    history[n] = replace(history[n], **changes)


def again(rows: Rows, n: int) -> None:
    rows.append((replace(rows[n][0], seq=rows[-1][0].seq + 1), rows[n][1]))


def without(rows: Rows, kind: type) -> None:
    rows[:] = [(row, entry) for row, entry in rows if not isinstance(entry, kind)]


Forge = Callable[[list[Operation], Rows], object]
FORGED: dict[str, tuple[Forge, str]] = {
    "an acknowledged append is gone": (lambda h, rows: rows.pop(7), "d was acknowledged at seq 8 and stands at [10]"),
    "one stands twice": (lambda h, rows: again(rows, 0), "a stands at 1 and again at 11"),
    "one is said again without a rollback": (lambda h, rows: without(rows, RolledBack), "d stands at 8 and again at 10"),
    "one was told another seq": (lambda h, rows: other(h, 1, value=9), "b was acknowledged at seq 9 and stands at [2]"),
    "one that nobody said": (lambda h, rows: h.pop(1), "b stands at seq 2 and nobody said it"),
    "a pin is gone": (lambda h, rows: rows.pop(3), "the pin p was acknowledged and is not in the log"),
    "a stale read": (lambda h, rows: other(h, 3, value=2), "head  of process 2 gave 2 after 3 had been acknowledged"),
    "a view of another log": (lambda h, rows: other(h, 4, seen="00"), "process 2 was shown a view at seq 3 that the log does not give"),
    "a view beyond the log": (lambda h, rows: other(h, 4, value=77), "a view was shown at seq 77, which the log has not"),
    "an order against time": (lambda h, rows: other(h, 2, value=1), "append c of process 1 gave 1 after 2 had been acknowledged"),
    "a rollback on another head": (lambda h, rows: other(h, 9, seen="7"), "a rollback expected the head 7 and stands at 9"),
    "a rollback that is not there": (lambda h, rows: without(rows, RolledBack), "a rollback expected the head 8 and stands at 9"),
    "sent twice": (lambda h, rows: h.append(send(2, 12)), "k was done by process 1, and process 2 was told to send it again"),
    "begun again": (lambda h, rows: again(rows, 4), "k is begun at seq 11, and it was done"),
}


@pytest.mark.parametrize("what", FORGED)
def test_the_checker_finds(what: str, sound: tuple[list[Operation], Rows]) -> None:
    history, rows = sound
    assert [*judged(history, rows)] == []
    forge, sentence = FORGED[what]
    forge(history, rows)
    found: list[str] = []
    try:
        found.extend(judged(history, rows))
    except Misfit:  # a log with a hole cannot be folded again; the sentence came before
        found = [*lost(history, [(row.seq, e) for row, e in rows]), *out_of_order(history, [(row.seq, e) for row, e in rows])]
    assert sentence in found, found


# --- a second, dumber check ------------------------------------------------------------------------------------------


def drawn(chance: random.Random) -> list[Operation]:
    """A few operations that were really carried out one after the other, each at a moment between asked and answered."""
    head, operations = 0, []
    for n in range(chance.randint(2, 6)):
        moment, head = float(n), head + chance.randint(1, 2)
        asked, answered = moment - chance.uniform(0.1, 1), moment + chance.uniform(0.1, 1)
        kind = chance.choice(["append", "append", "head", "effect"])
        if kind == "effect":
            done = any(o.verb == "effect" and o.value for o in operations)
            operations.append(Operation(n, "effect", "k", moment, moment + 0.01, True, int(not done and n % 2), pending=not done))
        else:
            operations.append(Operation(n, kind, f"id{n}" if kind == "append" else "", asked, answered, True, head))
    return operations


def test_it_agrees_with_trying_every_order() -> None:
    """What was really carried out is accepted by both; of what was forged both say the same."""
    refused = 0
    for seed in range(400):
        chance = random.Random(seed)
        history = drawn(chance)
        assert an_order_of(history) is not None and not [*out_of_order(history, [])], seed
        n = chance.randrange(len(history))
        forged = {"value": max(1, history[n].value + chance.choice([-3, -1, 2]))} if history[n].verb != "effect" else {"pending": True}
        history[n] = replace(history[n], **forged)
        if len({o.value for o in history if o.verb == "append"}) < sum(o.verb == "append" for o in history):
            continue  # two at one seq: that is told by the log, not by time
        possible = an_order_of(history) is not None
        assert possible == (not [*out_of_order(history, [])]), (seed, history)
        refused += not possible
    assert refused > 40
