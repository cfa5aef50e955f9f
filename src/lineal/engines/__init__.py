"""The engine port. An engine stores rows; it knows no meanings.

What an engine owes, and all it owes (each point is a test in `lineal.testing.EngineTests`):

| # | promise |
|---|---|
| E1 | `append` is all or nothing and durable on return: killed after it returned, every row is there |
| E2 | `append` writes only if the session's head is `expected_seq`; otherwise `Conflict` with both numbers, nothing written |
| E3 | a row whose `unique` key is present refuses the whole append with `Duplicate`, naming the seq that has it |
| E4 | `scan` yields rows in seq order from one snapshot, and never ends early in silence |
| E5 | `find` yields the rows that carry a key, newest first, without scanning the log |
| E6 | `delete` is bounded and idempotent; with `content_only` a row keeps its header and digests, loses salt and body |
| E7 | states are a disposable index beside the log: the newest at or below a seq can be had without reading the log |
| E8 | two processes may hold the engine open, or the second is refused by name; each reads what another was told is written |
| E9 | a failure is `Unavailable` (or `Corrupt`), never a partial result |

No promise needs more than one session's partition: on a cluster a conditional append to one partition is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from lineal.errors import Conflict, PolicyError, Unavailable, Verdict


@dataclass(frozen=True, slots=True)
class Row:
    """One entry as an engine keeps it. `keys` holds at most two lookup keys; `unique` at most one row may carry.

    `inner` = H(salt, body); `digest` = H(digest of the row before, header, inner); both are 32 bytes. An erased row
    has `body` and `salt` empty and `size` still as it was written.
    """

    seq: int
    kind: str
    generation: int
    size: int
    salt: bytes
    body: bytes
    inner: bytes
    digest: bytes
    unique: str | None = None
    keys: tuple[str, ...] = ()

    @property
    def erased(self) -> bool:
        return not self.salt and not self.body


class Duplicate(Conflict):
    """A row with this `unique` key stands already, at `found_seq`."""

    def __init__(self, session: str, expected_seq: int, found_seq: int, key: str):
        super().__init__(session, expected_seq, found_seq, f"the key {key!r} is taken")
        self.key = key


def refuse_unless_following(expected_seq: int, rows: Sequence[Row]) -> None:
    """Every engine's first line of `append`: raise `PolicyError` unless the rows are seqs `expected_seq + 1` onward, two keys at most."""
    for seq, row in enumerate(rows, expected_seq + 1):
        if row.seq != seq:
            raise _not_a_batch(f"a row of seq {row.seq} stands where seq {seq} must follow", "number the rows one after the other")
        if len(row.keys) > 2:
            raise _not_a_batch(f"the row of seq {seq} has {len(row.keys)} lookup keys, 2 is the most", "keep two keys")


def _not_a_batch(message: str, remedy: str) -> PolicyError:
    return PolicyError(Verdict("append", "not_a_batch", message=message, remedy=remedy))


@runtime_checkable
class Engine(Protocol):
    """What `Session` asks of a store. Every method may raise `Unavailable`; reads may raise `Corrupt`."""

    name: str

    def append(self, session: str, expected_seq: int, rows: Sequence[Row]) -> None:
        """Write `rows` (seqs `expected_seq + 1` onward) if the head is `expected_seq` (0 = empty). Raises `Conflict`, `Duplicate`."""

    def scan(self, session: str, after: int = 0, until: int | None = None, kinds: Sequence[str] | None = None) -> Iterator[Row]:
        """Rows with `after < seq <= until`, in order, of one snapshot; only of `kinds` where given."""

    def find(self, session: str, key: str, limit: int | None = None) -> list[Row]:
        """Rows that carry `key` among their `keys` or as `unique`, newest first."""

    def delete(self, session: str, seqs: Iterable[int], content_only: bool = False) -> None:
        """Drop these rows, or (with `content_only`) only their salt and body, for good. Absent rows are no error."""

    def put_state(self, session: str, seq: int, data: bytes) -> None:
        """Keep the materialised state of the fold at `seq`; replaces one of the same seq."""

    def state(self, session: str, at: int | None = None) -> tuple[int, bytes] | None:
        """The newest state with seq <= `at` (None: the newest of all)."""

    def states(self, session: str) -> list[int]:
        """The seqs of all states, oldest first."""

    def delete_states(self, session: str, seqs: Iterable[int]) -> None: ...

    def latch(self, session: str, reason: str | None) -> None:
        """Durably mark the session read-only because of `reason`, or (None) lift the mark."""

    def latched(self, session: str) -> str | None: ...

    def sessions(self) -> list[str]: ...

    def status(self) -> dict[str, Any]:
        """Facts for people: engine, place, size in bytes, durability settings."""

    def check(self) -> list[str]:
        """The engine's own integrity check: one sentence for each thing found wrong, empty when sound."""

    def close(self) -> None: ...


OURS = {  # scheme: module, class, extra
    "memory": ("memory", "MemoryEngine", ""),
    "sqlite": ("sqlite", "SqliteEngine", ""),
    "file": ("sqlite", "SqliteEngine", ""),
    "postgresql": ("postgres", "PostgresEngine", "postgres"),
    "postgres": ("postgres", "PostgresEngine", "postgres"),
    "rocksdb": ("rocksdb", "RocksEngine", "rocksdb"),
    "cassandra": ("cassandra", "CassandraEngine", "cassandra"),
}


def open_engine(url: str, create: bool = True) -> Engine:
    """The engine that `url` names: a file path, one of the schemes of `OURS`, or an installed `lineal.engines` entry point.

    Raises `Unavailable` for an unknown scheme, for an engine whose extra is missing, or for a store that does not exist
    when `create` is False.
    """
    scheme = scheme_of(url)
    if scheme in OURS:
        module, name, extra = OURS[scheme]
        try:
            ours: type[Any] = getattr(import_module(f"lineal.engines.{module}"), name)
        except ImportError as missing:
            raise Unavailable(f"the engine of {scheme}:", f"{missing.name} is not installed", f"pip install 'lineal[{extra}]'") from missing
        engine: Engine = ours.open(url, create=create)
        return engine
    from importlib.metadata import entry_points

    for point in entry_points(group="lineal.engines"):
        if point.name == scheme:
            theirs: Engine = point.load()(url, create=create)
            return theirs
    remedy = f"use a file path, {', '.join(f'{s}:' for s in OURS)} or install an engine that brings it"
    raise Unavailable(f"no engine for {url!r}", f"unknown scheme {scheme!r}", remedy)


def scheme_of(url: str) -> str:
    """What stands before the colon; a path (also one with a drive's letter) is of `sqlite`."""
    scheme, separator, _ = url.partition(":")
    return scheme if separator and len(scheme) > 1 else "sqlite"
