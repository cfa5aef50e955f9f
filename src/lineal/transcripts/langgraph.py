"""A LangGraph thread: its checkpoints in order, and what each did to the list of messages.

A conversation is a channel of messages in one thread and namespace. `line` is the number of a checkpoint in it, from 1;
ids sort by time. A checkpoint is held against the one before it:

| its list of messages, against the one before | comes out |
|---|---|
| has messages more | a record for each |
| lacks messages | a boundary `compaction`; the summary is the message that LangChain marked, one put in front, or a channel for it |
| lacks messages, and the checkpoint follows an older one | a boundary `rollback`: somebody went back |
| has a message whose words are others | a boundary `eviction` that names it; a changed call is a record of its own too |
| cannot be read, or follows a checkpoint that stands nowhere | damage |

What was written behind the last checkpoint and is in none yet comes last. A channel that stores differences is put
together from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from lineal.messages import parse, text_of
from lineal.messages.blocks import compact
from lineal.transcripts.langchain_messages import Held, Message, Unreadable, is_messages, read, unique, written
from lineal.transcripts.packed import Typed
from lineal.transcripts.records import NOWHERE, Boundary, Damage, Item, Record, epoch

NAME = "langgraph"
MESSAGES = "messages"
TRIM_TOKENS = 4_000  # LangChain's default: so much of what leaves is shown to the writer of the summary, from the end
TOO_LONG = "Previous conversation was too long to summarize."


@dataclass
class Checkpoint:
    """One checkpoint. `read` gives the value of a channel; it raises `KeyError` for none, `ValueError` for a damaged one.

    `why` says why none of it can be read; `raw` are its bytes then. `versions` are those of the channels that were written.
    """

    id: str
    parent: str | None
    read: Callable[[str], Any]
    versions: Mapping[str, str] = field(default_factory=dict)
    at: float | None = None
    source: str = ""
    why: str = ""
    raw: bytes = b""


class Source(Protocol):
    """Where checkpoints lie. `thread` is a thread and a namespace in it."""

    def threads(self) -> list[tuple[str, str]]: ...
    def channels(self, thread: tuple[str, str]) -> list[str]:
        """The channels that hold lists, or differences, at the newest checkpoint."""

    def checkpoints(self, thread: tuple[str, str]) -> Iterator[Checkpoint]: ...
    def writes(self, thread: tuple[str, str], checkpoint: str, channel: str) -> list[Any]:
        """What tasks wrote to the channel on top of a checkpoint, in order. Raises `ValueError` for damage."""


def conversations(source: Source) -> Iterator[tuple[str, Iterator[Item]]]:
    """The name and the items of each."""
    for thread in source.threads():
        for channel in _channels(source, thread):
            name = "/".join(part for part in (*thread, "" if channel == MESSAGES else f"[{channel}]") if part)
            yield name, _Thread(source, thread, channel).items()


def _channels(source: Source, thread: tuple[str, str]) -> list[str]:
    return source.channels(thread) or [MESSAGES]


def holds_messages(name: str, value: Any) -> bool:
    """True for a channel that is a conversation."""
    return not name.startswith(("__", "branch:")) and (name == MESSAGES or is_messages(value))


@dataclass
class _Thread:
    """`now`: the list at the last checkpoint read, by id. `record_of`: which record a message is; one for each that was a record."""

    source: Source
    thread: tuple[str, str]
    channel: str
    now: dict[str, Message] = field(default_factory=dict)
    lists: dict[str, list[Held]] = field(default_factory=dict)
    record_of: dict[str, str] = field(default_factory=dict)
    line_of: dict[str, int] = field(default_factory=dict)
    summaries: set[str] = field(default_factory=set)
    known: dict[Typed, Held] = field(default_factory=dict)
    odd: set[bytes] = field(default_factory=set)
    numbers: dict[str, int] = field(default_factory=dict)
    version_at: dict[str, str | None] = field(default_factory=dict)
    differences: bool = False
    tip: str | None = None

    def items(self) -> Iterator[Item]:
        number = 0
        for number, checkpoint in enumerate(self.source.checkpoints(self.thread), 1):
            yield from self._checkpoint(number, checkpoint)
        if self.tip is not None:
            yield from self._pending(number, self.tip)

    def _checkpoint(self, number: int, checkpoint: Checkpoint) -> Iterator[Item]:
        parent, went_back = checkpoint.parent, 0
        if parent and parent not in self.numbers:
            yield Damage(number, f"lost record: the parent of this checkpoint, {parent}, stands nowhere in the store", b"", NOWHERE)
        elif parent and parent != self.tip:
            went_back = self.numbers[parent]
        self.numbers[checkpoint.id] = number
        if checkpoint.why:
            yield Damage(number, f"{checkpoint.why} (checkpoint {checkpoint.id})", checkpoint.raw, NOWHERE)
            self.tip = checkpoint.id
            return
        try:
            held = self._list(checkpoint)
        except ValueError as e:
            yield Damage(number, f"the channel {self.channel!r} of the checkpoint {checkpoint.id}: {e}", b"", NOWHERE)
            self.tip = checkpoint.id
            return
        self.tip = checkpoint.id
        yield from self._changed(number, held, checkpoint, went_back)

    def _list(self, checkpoint: Checkpoint) -> list[Held]:
        """The list of messages at a checkpoint. Raises `ValueError` where it cannot be told."""
        version = checkpoint.versions.get(self.channel)
        self.version_at[checkpoint.id] = version
        try:
            value = checkpoint.read(self.channel)
        except KeyError:
            if version is None:
                return self._keep(checkpoint, [])
            self.differences = True
            return self._keep(checkpoint, self._put_together(checkpoint, version))
        held = unique([self._read(one) for one in value]) if isinstance(value, list) else ([] if value is None else [read(value)])
        return self._keep(checkpoint, held)

    def _put_together(self, checkpoint: Checkpoint, version: str) -> list[Held]:
        parent = checkpoint.parent or ""
        if parent not in self.lists:
            raise ValueError("it stores differences, and what they begin with is not in the store")
        writes = self.source.writes(self.thread, parent, self.channel)
        if not writes and self.version_at.get(parent) != version:
            raise ValueError(f"its version {version} is not in the store")
        return written(self.lists[parent], writes)

    def _keep(self, checkpoint: Checkpoint, held: list[Held]) -> list[Held]:
        """Lists that are stored whole are not kept: each would hold all before it."""
        self.lists = {**(self.lists if self.differences else {}), checkpoint.id: held}
        return held

    def _read(self, value: Any) -> Held:
        """The same object of the serializer stands in each checkpoint: it is read once."""
        if not isinstance(value, Typed):
            return read(value)
        if value not in self.known:
            self.known[value] = read(value)
        return self.known[value]

    def _pending(self, number: int, tip: str) -> Iterator[Item]:
        """Writes on top of the last checkpoint: the process ended, or waits, before they came into one."""
        try:
            writes = self.source.writes(self.thread, tip, self.channel)
        except ValueError as e:
            yield Damage(number, f"what was written behind the last checkpoint cannot be read: {e}", b"", NOWHERE)
            return
        if writes:
            held = written(list(self.now.values()), writes)
            yield from self._changed(number, held, Checkpoint(tip, None, no_channel, source="loop"), 0)

    # --- what a checkpoint did ---------------------------------------------------------------------------------------

    def _changed(self, number: int, held: list[Held], checkpoint: Checkpoint, went_back: int) -> Iterator[Item]:
        for odd in held:
            if isinstance(odd, Unreadable) and odd.raw not in self.odd:
                self.odd.add(odd.raw)
                yield Damage(number, odd.why, odd.raw, NOWHERE)
        before, after = self.now, {m.id: m for m in held if isinstance(m, Message)}
        self.now = after
        added = [m for m in after.values() if m.id not in before]
        removed = [m for m in before.values() if m.id not in after]
        others = [m for id, m in after.items() if id in before and m is not before[id] and m.message != before[id].message]
        yield from self._edited(number, others, before, checkpoint)
        new_summary: Message | None = None
        if removed:
            new_summary = None if went_back or checkpoint.source == "input" else _summary(added, after, before)
            if new_summary is not None:
                self.summaries.add(new_summary.id)
            yield self._boundary(number, removed, new_summary, checkpoint, went_back)
        for place, message in enumerate(m for m in added if m is not new_summary and m.id not in self.record_of):
            yield self._record(number, message, checkpoint.at, place)

    def _record(self, number: int, message: Message, at: float | None, place: int) -> Record:
        self.record_of[message.id] = message.id
        self.line_of[message.id] = number
        return Record(number, message.id, message.message, message.author, at, place)

    def _edited(self, number: int, others: list[Message], before: dict[str, Message], checkpoint: Checkpoint) -> Iterator[Item]:
        """Messages that were written over in place; a call with other arguments is one that was made anew."""
        there = [m for m in others if m.id in self.record_of]
        if not there:
            return
        replaced = {self.record_of[m.id]: text_of(m.message) for m in there}
        yield Boundary(number, "eviction", None, {"replaced": replaced, "id": checkpoint.id})
        for place, message in enumerate(there):
            old, new = parse(before[message.id].message, message.author).calls, parse(message.message, message.author).calls
            if old != new and new:
                id = f"{self.record_of[message.id]}~"
                self.record_of[message.id] = id
                self.line_of[id] = number
                yield Record(number, id, message.message, message.author, checkpoint.at, place)

    def _boundary(self, number: int, removed: list[Message], summary: Message | None, checkpoint: Checkpoint, went_back: int) -> Boundary:
        stay = [self.record_of[id] for id in self.now if id in self.record_of and id not in self.summaries]
        standing = [text_of(m.message) for m in self.now.values() if m.id in self.summaries and m is not summary]
        detail: dict[str, Any] = {"view_ids": stay, "standing": standing, "id": checkpoint.id}
        if went_back:
            undone = [id for id, line in self.line_of.items() if line > went_back and id not in stay]
            for id in undone:
                del self.line_of[id]
            return Boundary(number, "rollback", None, {**detail, "trigger": f"follows checkpoint {went_back}", "undone_ids": undone})
        text = text_of(summary.message) if summary is not None else self._summary_channel(checkpoint)
        unseen = _unseen(removed, summary)
        detail |= {name: [self.record_of[m.id] for m in kept if m.id in self.record_of] for name, kept in unseen.items()}
        return Boundary(number, "compaction", text, detail)

    def _summary_channel(self, checkpoint: Checkpoint) -> str | None:
        """Some graphs keep the summary beside the messages, as text of its own."""
        for name in sorted(checkpoint.versions):
            if "summary" in name.lower() and not name.startswith("branch:"):
                try:
                    value = checkpoint.read(name)
                except (KeyError, ValueError):
                    continue
                if isinstance(value, str) and value:
                    return value
        return None


def no_channel(name: str) -> Any:
    raise KeyError(name)


def _summary(added: list[Message], after: dict[str, Message], before: dict[str, Message]) -> Message | None:
    """The message that stands for what left: the marked one, else the first of the list, if it is new and no agent's or tool's."""
    marked = next((m for m in added if m.is_summary), None)
    first = next(iter(after.values()), None)
    if marked is not None or first is None or first.id in before or first.author not in ("user", "system"):
        return marked
    return first if len(added) < len(after) or len(added) == 1 else None


def _unseen(removed: list[Message], summary: Message | None) -> dict[str, list[Message]]:
    """What the writer of the summary was not shown; under `default_unseen_ids` where that hangs on a setting that no store has."""
    if summary is None or not summary.is_summary:
        return {}
    if text_of(summary.message).rstrip().endswith(TOO_LONG):
        return {"unseen_ids": removed}
    left, first = float(TRIM_TOKENS), len(removed)
    for at in range(len(removed) - 1, -1, -1):
        left -= _approximate(removed[at])
        if left < 0:
            break
        first = at
    while first < len(removed) and removed[first].author != "user":
        first += 1
    return {"default_unseen_ids": removed[:first]} if left < 0 else {}


def _approximate(message: Message) -> int:
    """Tokens as LangChain counts them by default: a token for four characters, and three for a message."""
    content = message.message.get("content")
    return math.ceil(len(content if isinstance(content, str) else compact(content)) / 4) + 3


def time_of(checkpoint: Any) -> float | None:
    return epoch(checkpoint.get("ts")) if isinstance(checkpoint, dict) else None
