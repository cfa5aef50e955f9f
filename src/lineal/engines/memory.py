"""The engine port in plain dicts: the executable specification that every other engine is compared with.

What the port leaves open is settled here. The head is the highest seq that stands, 0 for none. A wrong head is told
before a taken key. A scan is of the moment of the call. A session is listed while it has rows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from lineal.engines import Duplicate, Row, refuse_unless_following
from lineal.errors import Conflict, Unavailable


@dataclass
class _Log:
    """One session. `rows` is in seq order; `carriers` holds the seqs of the rows that carry a key, oldest first."""

    rows: dict[int, Row] = field(default_factory=dict)
    carriers: dict[str, list[int]] = field(default_factory=dict)
    states: dict[int, bytes] = field(default_factory=dict)
    latched: str | None = None

    @property
    def head(self) -> int:
        return next(reversed(self.rows), 0)

    def holder(self, unique: str) -> int | None:
        return next((seq for seq in self.carriers.get(unique, ()) if self.rows[seq].unique == unique), None)

    def add(self, row: Row) -> None:
        self.rows[row.seq] = row
        for key in _carried(row):
            self.carriers.setdefault(key, []).append(row.seq)

    def drop(self, seq: int) -> None:
        for key in _carried(self.rows.pop(seq)):
            self.carriers[key].remove(seq)


class MemoryEngine:
    """A store that lives and dies with the process. Each instance is its own store; threads may share one."""

    name = "memory"

    @classmethod
    def open(cls, url: str, create: bool = True) -> MemoryEngine:
        """An empty store, whatever `create` says: there is never one there. Raises `Unavailable` for anything but `memory:`."""
        if url != "memory:":
            raise Unavailable(f"no engine for {url!r}", "a store in memory has no name", "use memory:")
        return cls()

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: dict[str, _Log] = {}
        self._closed = False

    @contextmanager
    def _held(self) -> Iterator[dict[str, _Log]]:
        with self._lock:
            if self._closed:
                raise Unavailable("the memory engine", "it was closed", "open a new one; what it held is gone")
            yield self._logs

    @contextmanager
    def _log(self, session: str) -> Iterator[_Log]:
        """The session's log, under the lock. One with nothing in it is not kept."""
        with self._held() as logs:
            log = logs.get(session, _Log())
            yield log
            if log.rows or log.states or log.latched is not None:
                logs[session] = log
            else:
                logs.pop(session, None)

    def append(self, session: str, expected_seq: int, rows: Sequence[Row]) -> None:
        refuse_unless_following(expected_seq, rows)
        with self._log(session) as log:
            if log.head != expected_seq:
                raise Conflict(session, expected_seq, log.head)
            batch: dict[str, int] = {}
            for row in rows:
                if row.unique is None:
                    continue
                found = log.holder(row.unique) or batch.get(row.unique)
                if found:
                    raise Duplicate(session, expected_seq, found, row.unique)
                batch[row.unique] = row.seq
            for row in rows:
                log.add(row)

    def scan(self, session: str, after: int = 0, until: int | None = None, kinds: Sequence[str] | None = None) -> Iterator[Row]:
        with self._log(session) as log:
            snapshot = [row for row in log.rows.values() if after < row.seq and (until is None or row.seq <= until)]
        return (row for row in snapshot if kinds is None or row.kind in kinds)

    def find(self, session: str, key: str, limit: int | None = None) -> list[Row]:
        with self._log(session) as log:
            return [log.rows[seq] for seq in reversed(log.carriers.get(key, ()))][:limit]

    def delete(self, session: str, seqs: Iterable[int], content_only: bool = False) -> None:
        named = list(seqs)
        with self._log(session) as log:
            for seq in named:
                if seq not in log.rows:
                    continue
                if content_only:
                    log.rows[seq] = replace(log.rows[seq], salt=b"", body=b"")
                else:
                    log.drop(seq)

    def put_state(self, session: str, seq: int, data: bytes) -> None:
        with self._log(session) as log:
            log.states[seq] = data

    def state(self, session: str, at: int | None = None) -> tuple[int, bytes] | None:
        with self._log(session) as log:
            return max(((seq, data) for seq, data in log.states.items() if at is None or seq <= at), default=None)

    def states(self, session: str) -> list[int]:
        with self._log(session) as log:
            return sorted(log.states)

    def delete_states(self, session: str, seqs: Iterable[int]) -> None:
        named = list(seqs)
        with self._log(session) as log:
            for seq in named:
                log.states.pop(seq, None)

    def latch(self, session: str, reason: str | None) -> None:
        with self._log(session) as log:
            log.latched = reason

    def latched(self, session: str) -> str | None:
        with self._log(session) as log:
            return log.latched

    def sessions(self) -> list[str]:
        with self._held() as logs:
            return sorted(name for name, log in logs.items() if log.rows)

    def status(self) -> dict[str, Any]:
        with self._held() as logs:
            held = sum(len(row.body) for log in logs.values() for row in log.rows.values())
            return {"engine": self.name, "path": "memory:", "bytes": held, "durable": False}

    def check(self) -> list[str]:
        return []

    def close(self) -> None:
        self._closed = True


def _carried(row: Row) -> set[str]:
    return {*row.keys, row.unique} if row.unique is not None else set(row.keys)
