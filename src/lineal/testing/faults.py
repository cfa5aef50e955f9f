"""Stores that fail on purpose: at the k-th call of an engine, or at the k-th write under SQLite.

Whoever tests that an operation is all or nothing runs it once to count the calls, then once for each k with a fault
there, reopens, and compares (R30). Nothing here is random: the same k fails at the same place again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import apsw

from lineal.engines import Engine, Row
from lineal.errors import Unavailable

Result = TypeVar("Result")
When = Literal["before", "after"]


@dataclass(frozen=True)
class _Fault:
    when: When
    error: BaseException | None  # None: kill the process


class FaultyEngine:
    """Any engine, with faults at chosen calls. `calls` lists each call so far as (k, method), k = 1, 2, 3, ...

    `before` fails without carrying the call out; `after` carries it out and loses the answer. A scan counts as one call;
    a fault after it strikes when its last row has been yielded.
    """

    def __init__(self, engine: Engine):
        self.engine = engine
        self.name = engine.name
        self.calls: list[tuple[int, str]] = []
        self._faults: dict[int, _Fault] = {}

    def fail_at(self, k: int, error: BaseException | None = None, when: When = "before") -> None:
        """Raise `error` (an `Unavailable` if none is given) at the k-th call from the beginning of `calls`."""
        self._faults[k] = _Fault(when, error or Unavailable(f"call {k}", "a fault was injected", "take the fault away"))

    def kill_at(self, k: int, when: When = "before") -> None:
        """End this very process with SIGKILL at the k-th call."""
        self._faults[k] = _Fault(when, None)

    def heal(self) -> None:
        """Take every fault away. The count goes on."""
        self._faults.clear()

    def _enter(self, method: str) -> int:
        k = len(self.calls) + 1
        self.calls.append((k, method))
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

    def append(self, session: str, expected_seq: int, rows: Sequence[Row]) -> None:
        self._call("append", lambda: self.engine.append(session, expected_seq, rows))

    def scan(self, session: str, after: int = 0, until: int | None = None, kinds: Sequence[str] | None = None) -> Iterator[Row]:
        k = self._enter("scan")
        return self._walk(k, self.engine.scan(session, after, until, kinds))

    def _walk(self, k: int, rows: Iterator[Row]) -> Iterator[Row]:
        yield from rows
        self._strike(k, "after")

    def find(self, session: str, key: str, limit: int | None = None) -> list[Row]:
        return self._call("find", lambda: self.engine.find(session, key, limit))

    def delete(self, session: str, seqs: Iterable[int], content_only: bool = False) -> None:
        self._call("delete", lambda: self.engine.delete(session, seqs, content_only))

    def put_state(self, session: str, seq: int, data: bytes) -> None:
        self._call("put_state", lambda: self.engine.put_state(session, seq, data))

    def state(self, session: str, at: int | None = None) -> tuple[int, bytes] | None:
        return self._call("state", lambda: self.engine.state(session, at))

    def states(self, session: str) -> list[int]:
        return self._call("states", lambda: self.engine.states(session))

    def delete_states(self, session: str, seqs: Iterable[int]) -> None:
        self._call("delete_states", lambda: self.engine.delete_states(session, seqs))

    def latch(self, session: str, reason: str | None) -> None:
        self._call("latch", lambda: self.engine.latch(session, reason))

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


class FaultyDisk(apsw.VFS):
    """A disk under SQLite that counts its writes and fails on purpose. Open a store on it by `?vfs=` and its name.

    | set | then |
    |---|---|
    | `full_at = k` | from the k-th write on, the disk is full; None again: there is space |
    | `crash_at = k` | the k-th write is the last: of it only the part `torn` (0 to 1) reaches the disk, in whole sectors |

    After a crash every further write and sync fails, as if the machine had stopped; `restart` makes it run again.
    """

    SECTOR = 512

    def __init__(self, name: str = "faulty-disk"):
        self.writes = 0
        self.full_at: int | None = None
        self.crash_at: int | None = None
        self.torn = 0.0
        self.dead = False
        self.vfs_name = name
        super().__init__(name, "")

    def restart(self) -> None:
        self.dead, self.crash_at, self.full_at = False, None, None

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _FaultyFile(name, flags, self)

    def allowed(self, data: bytes) -> bytes:
        """What of `data` this write may put on the disk. Raises what SQLite would see."""
        self.writes += 1
        if self.dead:
            raise apsw.IOError("the machine has stopped")
        if self.full_at is not None and self.writes >= self.full_at:
            raise apsw.FullError("no space left on this disk")
        if self.crash_at is not None and self.writes >= self.crash_at:
            self.dead = True
            return data[: int(len(data) * self.torn) // self.SECTOR * self.SECTOR]
        return data


class _FaultyFile(apsw.VFSFile):
    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int], disk: FaultyDisk):
        self._disk = disk
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        allowed = self._disk.allowed(data)
        if allowed:
            super().xWrite(allowed, offset)
        if self._disk.dead:
            raise apsw.IOError("the machine stopped in this write")

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._disk.dead:
            raise apsw.IOError("the machine has stopped")
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        if self._disk.dead:
            raise apsw.IOError("the machine has stopped")
        super().xTruncate(size)
