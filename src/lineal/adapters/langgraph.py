"""LangGraph checkpoints in a session's log: `LinealSaver`. Needs the extra `langgraph`.

Each thread is a session of its name, and its checkpoints stand in the log of that session. So a checkpoint and a compaction
are on one sequence, and "is this checkpoint newer than the last lossy compaction?" compares two positions (record 000).
How a checkpoint is written in parts: `shelf`.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from types import TracebackType
from typing import Any, cast

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig as Config
from langgraph.checkpoint import base
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointTuple, DeltaChannelHistory
from langgraph.checkpoint.serde.base import SerializerProtocol

from lineal.adapters.shelf import Saved, Shelf
from lineal.errors import CompactionLineageError, PolicyError, Verdict, quoted
from lineal.store import Store, connect

SPACE = "langgraph"
FORKS = 10_000  # so many checkpoints that were asked for by id are remembered
REMEDY = "name no checkpoint: the newest one goes on. To go back on purpose use session.rollback(...)"


class StaleCheckpointError(CompactionLineageError):
    """A checkpoint was asked for by its id, and a lossy compaction or a rollback has overtaken it (record 000)."""


def _twin(verb: Callable[..., Any]) -> Any:
    @functools.wraps(verb)
    async def twin(*args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(verb, *args, **kwargs)

    return twin


class LinealSaver(BaseCheckpointSaver[int]):
    """Checkpoints in a lineal store. `store`: a `Store`, or what `lineal.connect` takes (then `close` closes it, too).

    Thread-safe, sync and async. Without an id `get_tuple` gives the newest checkpoint of the log. With one it raises
    `StaleCheckpointError` if that is not the newest and a lossy compaction or a rollback of the session came behind it; `list`
    shows it all the same. `put` raises `Conflict` where two runs go on from one checkpoint and neither asked for it by its id.
    `prune` and `delete_for_runs` let go at once; the session's own prune takes the rows.
    """

    def __init__(self, store: Store | str | os.PathLike[str], *, serde: SerializerProtocol | None = None):
        super().__init__(serde=serde)
        self._owned = not isinstance(store, Store)
        self.store = store if isinstance(store, Store) else connect(store)
        self._shelves: dict[str, Shelf] = {}
        self._asked: dict[tuple[str, str, str], None] = {}  # checkpoints that were asked for by id: to go on from them is a fork
        self._lock = threading.RLock()

    def __enter__(self) -> LinealSaver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the store, if it was opened here."""
        if self._owned:
            self.store.close()

    # --- reading -------------------------------------------------------------------------------------------------------

    def get_tuple(self, config: Config) -> CheckpointTuple | None:
        """The checkpoint that is named, or the newest one; None if there is none. Raises `StaleCheckpointError`."""
        shelf, ns, id = self._at(config)
        newest = shelf.find(ns)
        if id is None or newest is None or newest.id == id:
            return self._tuple(shelf, newest) if newest else None
        found = shelf.find(ns, id)
        if found is None:
            return None
        verdict = shelf.session.restorable(found.seq, id)
        if not verdict:
            raise StaleCheckpointError(replace(verdict, remedy=verdict.remedy or REMEDY))
        with self._lock:
            self._asked[shelf.session.name, ns, id] = None
            while len(self._asked) > FORKS:
                del self._asked[next(iter(self._asked))]
        return self._tuple(shelf, found)

    def list(
        self,
        config: Config | None,
        *,
        filter: dict[str, Any] | None = None,
        before: Config | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """The checkpoints of a thread (None: of all), the last written first; also those that may not be restored."""
        place = config.get("configurable", {}) if config else {}
        shelves = [self._at(config)[0]] if config else map(self._shelf, self.store.sessions())
        every = ((shelf, saved) for shelf in shelves for saved in _behind(shelf.every(place.get("checkpoint_ns")), before))
        tuples = (self._tuple(*one) for one in every if place.get("checkpoint_id") in (None, "", one[1].id))
        wanted = (filter or {}).items()
        return islice((t for t in tuples if all(cast(Any, t.metadata).get(key) == value for key, value in wanted)), limit)

    def get_delta_channel_history(self, *, config: Config, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        """What each channel was made of: the writes on the way to this checkpoint, behind the newest stored value.

        The way leads over compactions, too: nothing older is restored, one checkpoint is put together from its parts.
        """
        shelf, ns, id = self._at(config)
        found: dict[str, DeltaChannelHistory] = {}
        for channel, (writes, seed) in shelf.history(shelf.find(ns, id), channels).items():
            found[channel] = {"writes": writes, "seed": seed[0]} if seed else {"writes": writes}
        return found

    def _tuple(self, shelf: Shelf, saved: Saved) -> CheckpointTuple:
        def at(id: str) -> Config:
            return _config(shelf.session.name, saved.ns, id)

        bare = self._load(saved.data["checkpoint"])
        return CheckpointTuple(
            config=at(saved.id),
            checkpoint=cast(Checkpoint, {**bare, "channel_values": shelf.values(saved)}),
            metadata=self._load(saved.data["metadata"]),
            parent_config=at(saved.parent) if saved.parent else None,
            pending_writes=shelf.writes(saved.ns, saved.id),
        )

    # --- writing -------------------------------------------------------------------------------------------------------

    def put(self, config: Config, checkpoint: Checkpoint, metadata: base.CheckpointMetadata, new_versions: base.ChannelVersions) -> Config:
        """Keep a checkpoint: durable on return. Raises `Conflict` where another run went on from its parent, unless it is a fork."""
        shelf, ns, parent = self._at(config)
        meta = cast(dict[str, Any], base.get_serializable_checkpoint_metadata(config, metadata))
        bare = {name: part for name, part in checkpoint.items() if name != "channel_values"}
        data = {"checkpoint": self._dump(bare), "metadata": self._dump(meta), "run": meta.get("run_id") and str(meta["run_id"])}
        fork = metadata.get("source") == "fork" or (shelf.session.name, ns, parent) in self._asked
        saved = Saved(0, ns, checkpoint["id"], parent, data, {})
        shelf.put(saved, checkpoint["channel_values"], new_versions, _messages_in, fork)
        return _config(shelf.session.name, ns, checkpoint["id"])

    def put_writes(self, config: Config, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Keep what a task wrote on a checkpoint, which may itself come later."""
        shelf, ns, id = self._at(config)
        rows = [(base.WRITES_IDX_MAP.get(channel, n), channel, value) for n, (channel, value) in enumerate(writes)]
        shelf.put_writes(ns, id or "", task_id, task_path, rows, _messages_in)

    def get_next_version(self, current: int | None, channel: None) -> int:
        """Whole numbers; where another saver wrote texts (`7.0.4`), the number before the dot goes on."""
        return int(str(current).partition(".")[0]) + 1 if current else 1

    # --- letting go ------------------------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Delete the whole session of this thread for good: checkpoints, turns and ledger. Resumable (R54)."""
        with self._lock:
            self._shelves.pop(thread_id, None)
            if thread_id in self.store.sessions():
                self.store.delete(thread_id)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Let go of every checkpoint that these runs wrote, in all threads."""
        for shelf in map(self._shelf, self.store.sessions()):
            shelf.let_go([saved for saved in shelf.every() if saved.data["run"] in run_ids], self._made_of_writes)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """A fork of the thread's session: all its checkpoints, turns and effects. Raises `Refused` if the target exists."""
        if source_thread_id in self.store.sessions():
            self._shelf(source_thread_id).session.fork(target_thread_id)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Let go of all checkpoints but the newest of each namespace ("keep_latest"), or of all ("delete")."""
        if strategy not in ("keep_latest", "delete"):
            message = f"{quoted(strategy)} is no strategy."
            raise PolicyError(Verdict("checkpoint", "strategy", message=message, remedy="say keep_latest or delete"))
        for shelf in map(self._shelf, {*thread_ids} & {*self.store.sessions()}):
            every = [*shelf.every()]
            newest = {saved.ns: saved for saved in reversed(every)} if strategy == "keep_latest" else {}
            shelf.let_go([saved for saved in every if newest.get(saved.ns) != saved], self._made_of_writes)

    def _made_of_writes(self, saved: Saved) -> Iterable[str]:
        """Channels that have a version and no value: delta channels are put together from writes."""
        versions: dict[str, Any] = self._load(saved.data["checkpoint"])["channel_versions"]
        return [channel for channel in versions if channel not in saved.places]

    # --- where things are ------------------------------------------------------------------------------------------------

    def _shelf(self, thread: str) -> Shelf:
        with self._lock:
            if thread not in self._shelves:
                self._shelves[thread] = Shelf(self.store.session(thread), SPACE, self._dump, self._load)
            return self._shelves[thread]

    def _at(self, config: Config) -> tuple[Shelf, str, str | None]:
        place = config.get("configurable", {})
        if not place.get("thread_id"):
            message = f"the configuration {quoted(place)} names no thread."
            raise PolicyError(Verdict("checkpoint", "no_thread", message=message, remedy='give {"configurable": {"thread_id": ...}}'))
        return self._shelf(str(place["thread_id"])), str(place.get("checkpoint_ns") or ""), base.get_checkpoint_id(config) or None

    def _dump(self, value: Any) -> Any:
        kind, data = self.serde.dumps_typed(value)
        return [kind, base64.b64encode(data).decode()]

    def _load(self, dumped: Any) -> Any:
        return self.serde.loads_typed((dumped[0], base64.b64decode(dumped[1])))

    # --- the same for async callers: in a worker thread, so that no disk wait blocks the loop -------------------------------

    aget_tuple, aput, aput_writes = _twin(get_tuple), _twin(put), _twin(put_writes)
    adelete_thread, adelete_for_runs = _twin(delete_thread), _twin(delete_for_runs)
    acopy_thread, aprune = _twin(copy_thread), _twin(prune)
    aget_delta_channel_history = _twin(get_delta_channel_history)

    async def alist(self, config: Config | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        found = self.list(config, **options)
        while (one := await asyncio.to_thread(next, found, None)) is not None:
            yield one


def _config(thread: str, ns: str, id: str) -> Config:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": id}}


def _behind(every: Iterable[Saved], before: Config | None) -> Iterator[Saved]:
    found, cursor = iter(every), base.get_checkpoint_id(before) if before else None
    if cursor:
        next((saved for saved in found if saved.id == cursor), None)
    return found


def _messages_in(value: Any) -> Sequence[str]:
    return [m.id for m in (value if isinstance(value, list) else [value]) if isinstance(m, BaseMessage) and m.id]
