"""Agents as processes that are killed with SIGKILL, life after life: at a change of their store, or in the middle of their tool.

A program says what one life is and ends with `serve(life)`; a test starts it once, as `Lives(program)`, and asks for as many
lives as it likes. Each is a child of that process, forked once everything is imported.

    def life(order):                                # the program
        with Store(Killed.of(order)) as store:
            ...
    serve(life)

    with Lives("program.py") as lives:              # the test
        assert lives({"store": "post.db", "change": 7, "when": "after"}) == [KILLED]
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lineal.engines import Engine, open_engine
from lineal.messages import parse
from lineal.session import Session
from lineal.testing.faults import FaultyEngine, When

KILLED = int(signal.SIGKILL)
PARCELS = ("books", "tea", "a lamp", "a map")
Order = dict[str, Any]


class Killed(FaultyEngine):
    """Kills its process at the n-th change of the store (0: never), before it is carried out or after."""

    def __init__(self, engine: Engine, at: int, when: When):
        super().__init__(engine)
        self.left, self.when, self.counting = at, when, threading.Lock()

    @classmethod
    def of(cls, order: Order) -> Killed:
        """On the engine at `order["store"]`, at its `change`, `when` ("before" or "after")."""
        return cls(open_engine(order["store"]), order.get("change", 0), order.get("when", "before"))

    def _change(self, method: str, carry_out: Callable[[int | None], None]) -> None:
        with self.counting:  # a framework may write from several threads
            self.left -= 1
            last = self.left == 0
        if last and self.when == "before":
            die()
        try:
            super()._change(method, carry_out)
        finally:
            if last:
                die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def courier(order: Order) -> Callable[[str], str]:
    """The tool `deliver`: a parcel becomes a line of `order["parcels"]`. `order["tool"]`: dies in it, "before" it is there or "after"."""

    def deliver(parcel: str) -> str:
        """Deliver a parcel."""
        if order.get("tool") == "before":
            die()
        with open(order["parcels"], "a") as arrived:
            arrived.write(f"{parcel}\n")
            arrived.flush()
            os.fsync(arrived.fileno())
        if order.get("tool") == "after":
            die()
        return f"{parcel} was handed over"

    return deliver


def serve(life: Callable[[Order], None]) -> None:
    """Lead the lives that are ordered, a JSON list of orders a line: those of one line at once. Answers how each ended, a list a line."""
    for line in sys.stdin:
        children = [_born(life, order) for order in json.loads(line)]
        ended = [os.waitpid(child, 0)[1] for child in children]
        print(json.dumps([os.WTERMSIG(end) if os.WIFSIGNALED(end) else -os.WEXITSTATUS(end) for end in ended]), flush=True)


def _born(life: Callable[[Order], None], order: Order) -> int:
    if child := os.fork():
        return child
    status = 1
    try:
        life(order)
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


class Lives:
    """The other end of `serve`. A context manager."""

    def __init__(self, program: str | Path):
        self._process = subprocess.Popen([sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, *orders: Order) -> list[int]:
        """Lead these lives at once; the signal that ended each (0: none; below 0: an error, which stands on stderr)."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(orders) + "\n")
        self._process.stdin.flush()
        found: list[int] = json.loads(self._process.stdout.readline())
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait(30)


def arrived(parcels: Path) -> list[str]:
    return parcels.read_text().splitlines() if parcels.exists() else []


def delivered(session: Session, parcels: Path, wanted: Sequence[str] = PARCELS) -> dict[str, str]:
    """Assert what the last life must leave: a sound log in which every parcel was asked for once and answered, none that came twice, and
    each that did not come *unknown*. Returns the ledger's state of each parcel."""
    assert session.verify().clean
    turns = session.turns()
    assert [t.author for t in turns] == ["user", "assistant", "tool", "assistant"] * len(wanted)
    assert [t.id for t in turns if t.author == "user"] == [f"u{n}" for n in range(len(wanted))]
    calls = [c.id for t in turns for c in parse(t.message).calls]
    assert len(set(calls)) == len(wanted) and calls == [r.call for t in turns for r in parse(t.message).results]
    states = {row.shown["parcel"]: row.state for row in session.ledger()}
    came = arrived(parcels)
    assert len(came) == len(set(came)), f"delivered twice: {came}"
    assert set(came) | {parcel for parcel, state in states.items() if state == "unknown"} == set(wanted)
    return states
