"""The store: an engine with sessions in it, and what they share (clock, holder, anchor)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from lineal.anchor import AnchorPlace, HeadAnchor, anchor_at
from lineal.engines import Engine, open_engine
from lineal.entries import CompactionCommitted, Turn
from lineal.errors import PolicyError, Refused, Unavailable, Verdict
from lineal.holder import Clock, SystemClock, new_holder, release
from lineal.policy import Policy
from lineal.rules.integrity import BEING_DELETED, CompactionVerdict, Report
from lineal.session import Session, removal
from lineal.session.recall import turn_of
from lineal.session.verification import Reports, salvage, verify
from lineal.summarizers import Summarizer
from lineal.tokens import Counter, counter


def connect(
    url: str | os.PathLike[str],
    anchor: str | os.PathLike[str] | AnchorPlace | None = None,
    create: bool = True,
    clock: Clock | None = None,
) -> Store:
    """Open a store: a file path or `sqlite:///path`, `memory:`, or the scheme of an installed engine.

    `anchor` names a file outside the data file that remembers each head (R60), or is an `AnchorPlace` of your own. Raises
    `Unavailable` (cannot be opened, or absent with `create=False`) or `Corrupt` (is no sound store). The file is then left
    as it was.
    """
    return Store(open_engine(os.fspath(url), create), anchor, clock)


class Store:
    """Sessions in one engine. A context manager; closing ends its claims (leases) at once."""

    def __init__(
        self,
        engine: Engine,
        anchor: str | os.PathLike[str] | AnchorPlace | HeadAnchor | None = None,
        clock: Clock | None = None,
    ):
        self.engine = engine
        self.clock: Clock = clock or SystemClock()
        self.holder = new_holder()
        self.anchor = anchor_at(anchor)
        self.opened = self.clock.wall()
        self._closed = False

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def session(
        self,
        name: str,
        policy: Policy | None = None,
        summarizer: Summarizer | None = None,
        counter: str | Counter = "bytes/3",
        redact: Callable[[Any], Any] | None = None,
        before_commit: Callable[[CompactionCommitted], None] | None = None,
    ) -> Session:
        """The session of this name; it begins with its first entry. Reads the newest state and the tail behind it.

        `summarizer` is used where a verb gets none (default: the offline extractive one). `redact` maps a message before it
        is stored and digested (R56). `before_commit` is called once with each generation about to be committed; what it
        raises stops the commit. Raises `Corrupt` if what it
        must read is damaged: `verify(name)` then says what, `salvage(name)` reads the rest.
        """
        if self._closed:
            raise Unavailable("the store is closed", None, "connect again")
        if not isinstance(name, str) or not name:
            raise PolicyError(Verdict("session", "name", message=f"{name!r} is no session name.", remedy="give a non-empty string"))
        return Session(self, name, policy or Policy(), summarizer or _extractive(), _counter(counter), redact, before_commit)

    def sessions(self) -> list[str]:
        """Names of the sessions that have an entry."""
        return self.engine.sessions()

    def status(self) -> dict[str, Any]:
        """Facts about the engine, for people."""
        return self.engine.status()

    def verify(self, name: str | None = None) -> Reports:
        """Verify one session or all of them, and the engine's own structures. Changes nothing."""
        names = [name] if name else self.sessions()
        found = [r for n in names for r in verify(self.engine, n, self.clock, self.anchor)]
        if self.anchor and not name:
            found += [r for n in self.anchor.read() if n not in names for r in verify(self.engine, n, self.clock, self.anchor)]
        found += [Report(CompactionVerdict.ALTERED, 0, detail=f"engine: {what}") for what in self.engine.check()]
        wrong = [r for r in found if not r.clean]
        return Reports(wrong or found[:1] or [Report(CompactionVerdict.POST_COMPACTION_CLEAN, 0, detail="no session")])

    def delete(self, name: str) -> tuple[str, ...]:
        """Delete a whole session for good: log, states, index. Returns the forks that keep their own copies of its entries.

        A mark goes first, so that a delete that was interrupted never leaves a log that reads as whole; call it again to
        finish. Raises `Refused` for an unknown session.
        """
        seqs = [row.seq for row in self.engine.scan(name)]
        if not seqs and self.engine.latched(name) is None:
            known = ", ".join(self.sessions()[:5]) or "none"
            raise Refused(Verdict("retention", "unknown_session", message=f"no session {name!r}.", remedy=f"sessions are: {known}"))
        forks = removal.forks_of(self.engine, name)
        self.engine.latch(name, BEING_DELETED)
        self.engine.delete_states(name, self.engine.states(name))
        self.engine.delete(name, seqs, content_only=True)
        self.engine.delete(name, seqs)
        if (left := next(iter(self.engine.scan(name)), None)) or self.engine.states(name):
            still = f"a row at seq {left.seq} stands there still" if left else "states stand there still"
            raise Unavailable(f"delete of session {name!r}", still, "call delete() again; if it stays, the engine does not delete")
        self.engine.latch(name, None)
        return tuple(forks)

    def salvage(self, name: str) -> Iterator[Turn]:
        """Every turn of a damaged session that still verifies by itself, oldest first."""
        return (turn_of(row, entry) for row, entry in salvage(self.engine, name, self.clock))

    def close(self) -> None:
        """Give up leases and close the engine. Idempotent."""
        if not self._closed:
            self._closed = True
            release(self.holder)
            self.engine.close()


def _counter(chosen: str | Counter) -> Counter:
    return counter(chosen) if isinstance(chosen, str) else chosen


def _extractive() -> Summarizer:
    from lineal.summarizers.extractive import extractive

    return extractive
