"""LangGraph checkpoints in an SQLite file: the tables `checkpoints` and `writes` of langgraph-checkpoint-sqlite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lineal.transcripts.langgraph import MESSAGES, Checkpoint, conversations, holds_messages, no_channel, time_of
from lineal.transcripts.lines import decode
from lineal.transcripts.packed import Decoder
from lineal.transcripts.records import Item, Tally
from lineal.transcripts.snapshot import Snapshot, text

TABLE, WRITES = "checkpoints", "writes"
COLUMNS = {"thread_id", "checkpoint_id", "parent_checkpoint_id", "type", "checkpoint"}
_Thread = tuple[str, str]


def read_all(snapshot: Snapshot, path: Path, tally: Tally) -> Iterator[tuple[str, Iterator[Item]]]:
    """Every conversation of the store: a channel of messages in a thread."""
    yield from conversations(_File(snapshot))


class _File:
    """What is small is read at once: the ids. A checkpoint is read when its turn comes, and decoded once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.decoder = Decoder()
        columns = snapshot.columns()
        ids = ("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id")
        self.rows: dict[_Thread, dict[str, tuple[int, str | None]]] = {}
        for rowid, values in snapshot.rows(TABLE, [text(name) if name in columns[TABLE] else "x''" for name in ids]):
            thread, space, id, parent = (decode(v) if v is not None else None for v in values)
            self.rows.setdefault((thread or "", space or ""), {})[id or ""] = (rowid, parent)
        self.written: dict[tuple[str, str, str, str], list[tuple[tuple[Any, ...], int]]] = {}
        if WRITES in columns:
            self._index_writes(set(columns[WRITES]))

    def _index_writes(self, there: set[str]) -> None:
        asked = ("thread_id", "checkpoint_ns", "checkpoint_id", "channel", "task_path", "task_id")
        for rowid, values in self.snapshot.rows(WRITES, [*(text(c) if c in there else "x''" for c in asked), "idx"]):
            thread, space, id, channel, path, task = (decode(v or b"") for v in values[:6])
            order = (path, task, values[6] if isinstance(values[6], int) else 0)
            self.written.setdefault((thread, space, id, channel), []).append((order, rowid))

    def threads(self) -> list[_Thread]:
        return sorted(self.rows, key=lambda thread: min(self.rows[thread]))

    def channels(self, thread: _Thread) -> list[str]:
        for id in sorted(self.rows[thread], reverse=True):
            value, _ = self._checkpoint(self.rows[thread][id][0])
            if isinstance(value, dict) and isinstance(value.get("channel_values"), dict):
                found = {name for name, held in value["channel_values"].items() if holds_messages(str(name), held)}
                found |= {MESSAGES} & set(_versions(value))
                if found:
                    return sorted(found)
        return []

    def checkpoints(self, thread: _Thread) -> Iterator[Checkpoint]:
        for id in sorted(self.rows[thread]):
            rowid, parent = self.rows[thread][id]
            value, why = self._checkpoint(rowid)
            values = value.get("channel_values") if isinstance(value, dict) else None
            if why or not isinstance(values, dict):
                yield Checkpoint(id, parent, no_channel, why=why or "no checkpoint: it has no channel values", raw=self._raw(rowid))
            else:
                yield Checkpoint(id, parent, values.__getitem__, _versions(value), time_of(value), self._source(rowid))

    def writes(self, thread: _Thread, checkpoint: str, channel: str) -> list[Any]:
        found = []
        for _, rowid in sorted(self.written.get((*thread, checkpoint, channel), [])):
            kind, data = self.snapshot.row(WRITES, [text("type"), text("value")], rowid)
            found.append(self.decoder.value(decode(kind or b""), data or b""))
        return found

    def _checkpoint(self, rowid: int) -> tuple[Any, str]:
        """The checkpoint, or why it cannot be read."""
        try:
            kind, data = self.snapshot.row(TABLE, [text("type"), text("checkpoint")], rowid)
            return self.decoder.value(decode(kind or b"msgpack"), data or b""), ""
        except ValueError as e:
            return None, str(e)

    def _raw(self, rowid: int) -> bytes:
        try:
            return bytes(self.snapshot.row(TABLE, [text("checkpoint")], rowid)[0] or b"")
        except ValueError:
            return b""

    def _source(self, rowid: int) -> str:
        """What made the checkpoint: `input`, `loop`, `update` or `fork`."""
        try:
            value = self.decoder.value("json", self.snapshot.row(TABLE, [text("metadata")], rowid)[0] or b"{}")
        except ValueError:
            return ""
        return str(value.get("source", "")) if isinstance(value, dict) else ""


def _versions(value: dict[str, Any]) -> dict[str, str]:
    versions = value.get("channel_versions")
    return {str(name): str(version) for name, version in versions.items()} if isinstance(versions, dict) else {}
