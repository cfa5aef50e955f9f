"""Any engine, with faults at chosen calls: it fails, the process dies, or it lies.

Whoever tests that an operation is all or nothing runs it once to count the calls, then once for each k with a fault
there, reopens, and compares (R30). Nothing here is random: the same k fails at the same place again. `FAULTS` says for each
kind what is promised: that it is survived, or that nobody is left to take the store for whole.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeVar

from lineal.engines import Engine, Row
from lineal.errors import LinealError, Unavailable

Result = TypeVar("Result")
When = Literal["before", "after"]
Promise = Literal["survived", "detected"]
CHANGES = ("append", "delete", "put_state", "delete_states", "latch")  # engine calls after which a store may look different


@dataclass(frozen=True)
class _Fault:
    when: When
    error: BaseException | None  # None: kill the process


@dataclass(frozen=True)
class _Lie:
    """What is done with a call that changes something instead of what was asked. Lengths are rows, seqs, or bytes of a state."""

    kind: Literal["tear", "drop", "delay", "reorder", "repeat"]
    count: int = 1
    error: BaseException | None = None


class FaultyEngine:
    """Any engine, with faults at chosen calls. `calls` lists each call so far as (k, method), k = 1, 2, 3, ...

    `before` fails without carrying the call out; `after` carries it out and loses the answer. A scan counts as one call;
    a fault after it strikes when its last row has been yielded. A lie is told about calls that change something; about
    others there is nothing to lie. `unheard` holds the errors of calls that had been acknowledged before they were carried out.
    """

    def __init__(self, engine: Engine):
        self.engine = engine
        self.name = engine.name
        self.calls: list[tuple[int, str]] = []
        self.unheard: list[LinealError] = []
        self._faults: dict[int, _Fault] = {}
        self._lies: dict[int, _Lie] = {}
        self._late: list[tuple[int, Callable[[], None]]] = []  # (before which call it is carried out, 0 for behind the next change)

    def fail_at(self, k: int, error: BaseException | None = None, when: When = "before") -> None:
        """Raise `error` (an `Unavailable` if none is given) at the k-th call from the beginning of `calls`."""
        self._faults[k] = _Fault(when, error or Unavailable(f"call {k}", "a fault was injected", "take the fault away"))

    def kill_at(self, k: int, when: When = "before") -> None:
        """End this very process with SIGKILL at the k-th call."""
        self._faults[k] = _Fault(when, None)

    def tear_at(self, k: int, count: int = 1, error: BaseException | None = None, acknowledged: bool = False) -> None:
        """Of the k-th call only the first `count` rows (seqs, bytes of a state) are carried out: an engine without E1.

        Then `error` is raised (an `Unavailable` if none is given), or with `acknowledged` nothing.
        """
        told = None if acknowledged else error or Unavailable(f"call {k}", "it was torn", "take the fault away")
        self._lies[k] = _Lie("tear", count, told)

    def drop_at(self, k: int) -> None:
        """The k-th call is acknowledged and never carried out."""
        self._lies[k] = _Lie("drop")

    def delay_at(self, k: int, calls: int = 1) -> None:
        """The k-th call is acknowledged at once, and carried out `calls` calls later (before that one) or when the engine is closed."""
        self._lies[k] = _Lie("delay", calls)

    def reorder_at(self, k: int) -> None:
        """The k-th call is acknowledged at once, and carried out behind the next one that changes something."""
        self._lies[k] = _Lie("reorder")

    def repeat_at(self, k: int) -> None:
        """The k-th call is carried out twice, as by a driver that did not hear the first answer. The first answer counts."""
        self._lies[k] = _Lie("repeat")

    def heal(self) -> None:
        """Take every fault away. The count goes on, and what was delayed is still carried out."""
        self._faults.clear()
        self._lies.clear()

    def _enter(self, method: str) -> int:
        k = len(self.calls) + 1
        self.calls.append((k, method))
        self._catch_up(lambda due: method == "close" or 0 < due <= k)
        self._strike(k, "before")
        return k

    def _strike(self, k: int, when: When) -> None:
        fault = self._faults.get(k)
        if fault is None or fault.when != when:
            return
        if fault.error is None:
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            raise fault.error

    def _call(self, method: str, carry_out: Callable[[], Result]) -> Result:
        k = self._enter(method)
        result = carry_out()
        self._strike(k, "after")
        return result

    def _change(self, method: str, carry_out: Callable[[int | None], None]) -> None:
        """`carry_out(n)` does the first n parts of the call, `carry_out(None)` all of it."""
        k = self._enter(method)
        waiting = [held for held in self._late if held[0] == 0]
        lie = self._lies.get(k)
        try:
            if lie is None:
                carry_out(None)
            else:
                self._lie(k, lie, carry_out)
        finally:
            self._catch_up(lambda due: due == 0, waiting)
        self._strike(k, "after")

    def _lie(self, k: int, lie: _Lie, carry_out: Callable[[int | None], None]) -> None:
        if lie.kind in ("delay", "reorder"):
            self._late.append((k + lie.count if lie.kind == "delay" else 0, partial(carry_out, None)))
        elif lie.kind == "repeat":
            carry_out(None)
            self._unheard(partial(carry_out, None))
        elif lie.kind == "tear":
            carry_out(lie.count)
            if lie.error is not None:
                raise lie.error

    def _catch_up(self, due: Callable[[int], bool], among: Sequence[tuple[int, Callable[[], None]]] | None = None) -> None:
        for held in [held for held in (self._late if among is None else among) if due(held[0])]:
            self._late.remove(held)
            self._unheard(held[1])

    def _unheard(self, carry_out: Callable[[], None]) -> None:
        try:
            carry_out()
        except LinealError as error:
            self.unheard.append(error)

    def append(self, session: str, expected_seq: int, rows: Sequence[Row]) -> None:
        self._change("append", lambda n: self.engine.append(session, expected_seq, rows[:n]))

    def scan(self, session: str, after: int = 0, until: int | None = None, kinds: Sequence[str] | None = None) -> Iterator[Row]:
        k = self._enter("scan")
        return self._walk(k, self.engine.scan(session, after, until, kinds))

    def _walk(self, k: int, rows: Iterator[Row]) -> Iterator[Row]:
        yield from rows
        self._strike(k, "after")

    def find(self, session: str, key: str, limit: int | None = None) -> list[Row]:
        return self._call("find", lambda: self.engine.find(session, key, limit))

    def delete(self, session: str, seqs: Iterable[int], content_only: bool = False) -> None:
        going = list(seqs)
        self._change("delete", lambda n: self.engine.delete(session, islice(going, n), content_only))

    def put_state(self, session: str, seq: int, data: bytes) -> None:
        self._change("put_state", lambda n: self.engine.put_state(session, seq, data[:n]))

    def state(self, session: str, at: int | None = None) -> tuple[int, bytes] | None:
        return self._call("state", lambda: self.engine.state(session, at))

    def states(self, session: str) -> list[int]:
        return self._call("states", lambda: self.engine.states(session))

    def delete_states(self, session: str, seqs: Iterable[int]) -> None:
        going = list(seqs)
        self._change("delete_states", lambda n: self.engine.delete_states(session, islice(going, n)))

    def latch(self, session: str, reason: str | None) -> None:
        self._change("latch", lambda n: self.engine.latch(session, reason))

    def latched(self, session: str) -> str | None:
        return self._call("latched", lambda: self.engine.latched(session))

    def sessions(self) -> list[str]:
        return self._call("sessions", lambda: self.engine.sessions())

    def status(self) -> dict[str, Any]:
        return self._call("status", lambda: self.engine.status())

    def check(self) -> list[str]:
        return self._call("check", lambda: self.engine.check())

    def close(self) -> None:
        self._call("close", lambda: self.engine.close())


# --- what is promised ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """One kind of fault. `put(engine, k)` places it at the k-th call. `kills`: the process is gone behind it.

    | `promise` | means |
    |---|---|
    | `survived` | the store is as before the operation or as after it, everything acknowledged is there, and it goes on |
    | `detected` | the same; or a part of what was told to have failed; or a named error, at the latest when everything is verified |
    """

    name: str
    does: str
    answers: str
    promise: Promise
    put: Callable[[FaultyEngine, int], None]
    kills: bool = False


FAULTS: tuple[Fault, ...] = (
    Fault("fail before", "nothing", "an error", "survived", lambda e, k: e.fail_at(k)),
    Fault("fail after", "what was asked", "an error", "survived", lambda e, k: e.fail_at(k, when="after")),
    Fault("kill before", "nothing", "nothing: the process is killed", "survived", lambda e, k: e.kill_at(k), kills=True),
    Fault("kill after", "what was asked", "nothing: the process is killed", "survived", lambda e, k: e.kill_at(k, "after"), kills=True),
    Fault("repeat", "what was asked, twice", "done", "survived", lambda e, k: e.repeat_at(k)),
    Fault("tear", "the first row, seq or byte", "an error", "detected", lambda e, k: e.tear_at(k)),
    Fault("tear, acknowledged", "the first row, seq or byte", "done", "detected", lambda e, k: e.tear_at(k, acknowledged=True)),
    Fault("drop", "nothing", "done", "detected", lambda e, k: e.drop_at(k)),
    Fault("delay", "what was asked, at the next call", "done", "detected", lambda e, k: e.delay_at(k)),
    Fault("long delay", "what was asked, 5 calls later", "done", "detected", lambda e, k: e.delay_at(k, 5)),
    Fault("reorder", "what was asked, behind the next change", "done", "detected", lambda e, k: e.reorder_at(k)),
)
