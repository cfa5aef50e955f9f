"""The engine of one simulated process: every call is a point at which others may go first, or at which a fault strikes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from lineal.engines import Engine, Row
from lineal.errors import Conflict, Unavailable
from lineal.testing.simulation.machines import Process
from lineal.testing.simulation.scheduler import Strand

Result = TypeVar("Result")
PAUSE_IN_SCAN = 0.08  # how likely it is that others go first between two rows of a scan


class Who(Protocol):
    """Somebody with a name and, while it lives, a process."""

    @property
    def name(self) -> str: ...
    @property
    def process(self) -> Process | None: ...


class Watcher(Protocol):
    """Who is told what the engine really did, whatever its caller heard of it."""

    def wrote(self, who: Who, session: str, rows: Sequence[Row]) -> None: ...
    def lost_a_race(self, who: Who, session: str) -> None: ...
    def dropped(self, who: Who, session: str, seqs: Sequence[int]) -> None: ...


class SimulatedEngine:
    """`engine` as one process has it open. With `quiet` its calls are no points: somebody outside the play looks."""

    def __init__(self, engine: Engine, strand: Strand, watcher: Watcher):
        self.engine, self.strand, self.watcher = engine, strand, watcher
        self.name = engine.name
        self.quiet = False
        self.failed = False  # a fault was raised since the last look

    def _call(self, method: str, carry_out: Callable[[], Result]) -> Result:
        fate = "go" if self.quiet else self.strand.point(method)
        if fate == "error before a call":
            self.failed = True
            raise Unavailable(f"the engine's {method}", "I/O error, nothing was done", "try again")
        try:
            return carry_out()
        finally:
            if fate == "die after":
                self.strand.die()
            if fate == "answer lost":
                self.failed = True
                raise Unavailable(f"the engine's {method}", "I/O error, the answer is lost", "read what stands there")

    def append(self, session: str, expected_seq: int, rows: Sequence[Row]) -> None:
        def carry_out() -> None:
            try:
                self.engine.append(session, expected_seq, rows)
            except Conflict:
                self.watcher.lost_a_race(self.strand, session)
                raise
            self.watcher.wrote(self.strand, session, rows)

        self._call("append", carry_out)

    def scan(self, session: str, after: int = 0, until: int | None = None, kinds: Sequence[str] | None = None) -> Iterator[Row]:
        return self._walk(self._call("scan", lambda: [*self.engine.scan(session, after, until, kinds)]))

    def _walk(self, rows: list[Row]) -> Iterator[Row]:
        for n, row in enumerate(rows):
            if n and not self.quiet and self.strand.scheduler.chance.random() < PAUSE_IN_SCAN:
                self.strand.point("next row")
            yield row

    def find(self, session: str, key: str, limit: int | None = None) -> list[Row]:
        return self._call("find", lambda: self.engine.find(session, key, limit))

    def delete(self, session: str, seqs: Iterable[int], content_only: bool = False) -> None:
        named = [*seqs]

        def carry_out() -> None:
            self.watcher.dropped(self.strand, session, named)
            self.engine.delete(session, named, content_only)

        self._call("delete", carry_out)

    def put_state(self, session: str, seq: int, data: bytes) -> None:
        self._call("put_state", lambda: self.engine.put_state(session, seq, data))

    def state(self, session: str, at: int | None = None) -> tuple[int, bytes] | None:
        return self._call("state", lambda: self.engine.state(session, at))

    def states(self, session: str) -> list[int]:
        return self._call("states", lambda: self.engine.states(session))

    def delete_states(self, session: str, seqs: Iterable[int]) -> None:
        named = [*seqs]
        self._call("delete_states", lambda: self.engine.delete_states(session, named))

    def latch(self, session: str, reason: str | None) -> None:
        self._call("latch", lambda: self.engine.latch(session, reason))

    def latched(self, session: str) -> str | None:
        return self._call("latched", lambda: self.engine.latched(session))

    def sessions(self) -> list[str]:
        return self._call("sessions", lambda: self.engine.sessions())

    def status(self) -> dict[str, Any]:
        return self.engine.status()

    def check(self) -> list[str]:
        return self.engine.check()

    def close(self) -> None:
        return
