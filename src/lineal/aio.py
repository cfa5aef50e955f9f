"""The same session for async callers: every verb in a worker thread, so that no disk wait blocks the event loop.

A summarizer may be a coroutine function: it runs on the caller's loop while the compaction waits for it elsewhere.
`effect` is the same object, entered with `async with`. The sync session behind is `.sync`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from lineal.policy import Policy
from lineal.session import Session
from lineal.session.effects import Effect
from lineal.session.outcomes import Outcome
from lineal.store import Store
from lineal.store import connect as connect_sync
from lineal.summarizers import Summarizer, SummaryRequest

Verb = Callable[..., Awaitable[Any]]


def _twin(verb: Callable[..., Any]) -> Verb:
    """The async twin of a method of `Session` or `Store`."""

    @functools.wraps(verb)
    async def twin(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(verb, self.sync, *args, **kwargs)

    return twin


class AsyncSession:
    """`Session` with async verbs; see there for what each does, returns and raises."""

    def __init__(self, session: Session):
        self.sync = session

    @property
    def name(self) -> str:
        return self.sync.name

    append = _twin(Session.append)
    save = _twin(Session.save)
    messages = _twin(Session.messages)
    view = _twin(Session.view)
    turns = _twin(Session.turns)
    status = _twin(Session.status)
    record_usage = _twin(Session.record_usage)
    plan_compaction = _twin(Session.plan_compaction)
    commit_compaction = _twin(Session.commit_compaction)
    abort_compaction = _twin(Session.abort_compaction)
    spill = _twin(Session.spill)
    note_eviction = _twin(Session.note_eviction)
    close_calls = _twin(Session.close_calls)
    pin = _twin(Session.pin)
    unpin = _twin(Session.unpin)
    checkpoint = _twin(Session.checkpoint)
    checkpoints = _twin(Session.checkpoints)
    recover = _twin(Session.recover)
    rollback = _twin(Session.rollback)
    resolve_effect = _twin(Session.resolve_effect)
    ledger = _twin(Session.ledger)
    expand = _twin(Session.expand)
    search = _twin(Session.search)
    shown = _twin(Session.shown)
    keep = _twin(Session.keep)
    kept = _twin(Session.kept)
    kept_at = _twin(Session.kept_at)
    release = _twin(Session.release)
    restorable = _twin(Session.restorable)
    verify = _twin(Session.verify)
    prune = _twin(Session.prune)
    pack = _twin(Session.pack)
    purge = _twin(Session.purge)

    async def compact(self, summarizer: Summarizer | None = None, request_id: str | None = None) -> Outcome:
        return await asyncio.to_thread(self.sync.compact, _bridged(summarizer), request_id)

    async def maybe_compact(self, summarizer: Summarizer | None = None) -> Outcome:
        return await asyncio.to_thread(self.sync.maybe_compact, _bridged(summarizer))

    async def fork(self, name: str, at: Any = None) -> AsyncSession:
        return AsyncSession(await asyncio.to_thread(self.sync.fork, name, at))

    def effect(self, *args: Any, **kwargs: Any) -> Effect:
        """As `Session.effect`; enter it with `async with`, or decorate a coroutine function."""
        return self.sync.effect(*args, **kwargs)


def _bridged(summarizer: Summarizer | None) -> Summarizer | None:
    """A coroutine summarizer runs on the loop of the caller, not on a loop of the worker thread."""
    if summarizer is None or not (inspect.iscoroutinefunction(summarizer) or inspect.iscoroutinefunction(type(summarizer).__call__)):
        return summarizer
    loop, asked = asyncio.get_running_loop(), summarizer

    def on_loop(request: SummaryRequest) -> Any:
        async def call() -> Any:
            answer = asked(request)
            return await answer if inspect.isawaitable(answer) else answer

        return asyncio.run_coroutine_threadsafe(call(), loop).result()

    window = getattr(asked, "window", None)
    if window is not None:
        on_loop.window = window  # type: ignore[attr-defined]
    return on_loop


class AsyncStore:
    """`Store` with async verbs; an async context manager."""

    def __init__(self, store: Store):
        self.sync = store

    sessions = _twin(Store.sessions)
    status = _twin(Store.status)
    verify = _twin(Store.verify)
    delete = _twin(Store.delete)
    close = _twin(Store.close)

    async def session(self, name: str, policy: Policy | None = None, summarizer: Summarizer | None = None, **more: Any) -> AsyncSession:
        return AsyncSession(await asyncio.to_thread(self.sync.session, name, policy, summarizer, **more))

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


async def connect(url: str | os.PathLike[str], **options: Any) -> AsyncStore:
    """As `lineal.connect`, without blocking the loop."""
    return AsyncStore(await asyncio.to_thread(connect_sync, url, **options))
