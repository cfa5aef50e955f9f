"""What a transcript gives: records, boundaries and damage. Plain values, no I/O."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Record:
    """One message, as the host's model saw it.

    `line` counts from 1 (in a JSON list: index + 1; in a store its checkpoints, rows or events; 0 for what stands outside
    the list, such as a policy). `place` is 0,
    or counts on where one line gave several records. `id` is the source's own and unique in the transcript; None where
    the source gives none. `at` is in seconds since 1970, and no order: hosts write lines with stamps that go back.
    `author` is `user`, `assistant`, `tool` or `system`: who really wrote it, whatever its role says (R19).
    """

    line: int
    id: str | None
    message: dict[str, Any]
    author: str | None = None
    at: float | None = None
    place: int = 0

    @property
    def key(self) -> str:
        """Always there and unique in its transcript, also after more lines were appended: the id, or made from the place."""
        return self.id or (f"line-{self.line}.{self.place + 1}" if self.place else f"line-{self.line}")


@dataclass(frozen=True)
class Boundary:
    """Here the host itself dropped history from the model's view.

    A `compaction` put a summary in its place (`summary` is None where it is encrypted or missing); an `eviction` put
    nothing there, or other words; a `rollback` went back to an older state. `detail` has, where the host says so:
    `trigger`, `tokens_before`, `tokens_saved`, `tool_ids` (calls whose results were cleared), `replaced` (records that
    were written over, and their new text), `kept_from_line` (first line that stayed), `kept_ids` (records that stayed,
    behind the summary), `replacement_history` (the whole new view), `view_ids` (the records of the whole new view, also
    ones that had left), `standing` (texts of older summaries in it), `unseen_ids` (records that left, and that the
    writer of the summary was not shown), `default_unseen_ids` (the same, if the host ran with its default settings),
    `undone_ids` (records that going back left behind), `rows_deleted` (rows that are gone from the store), `id` (the
    host's name for the place).
    """

    line: int
    kind: Literal["compaction", "eviction", "rollback"]
    summary: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)


NOWHERE = -1


@dataclass(frozen=True)
class Damage:
    """Something that could not be read, or that must have stood here. `raw` stands byte-exact at byte `offset` of the file.

    `offset` is `NOWHERE` where the thing is known only by its absence: a parent that no line has, a call that no line makes.
    """

    line: int
    why: str
    raw: bytes
    offset: int


Item = Record | Boundary | Damage
Tally = Counter[str]
Reader = Callable[[Path, int, Tally], Iterator[Item]]


class Ids:
    """Keeps ids unique: the second record under one id is `id#2`."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()

    def unique(self, id: Any) -> str | None:
        if not isinstance(id, str) or not id:
            return None
        self._times[id] += 1
        return id if self._times[id] == 1 else f"{id}#{self._times[id]}"


def epoch(value: Any) -> float | None:
    """Seconds since 1970 of an ISO time (UTC unless it says otherwise), of seconds, or of milliseconds."""
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, int | float):
            seconds = value / 1000 if value > 1e11 else float(value)
            return seconds if math.isfinite(seconds) else None
        if not isinstance(value, str):
            return None
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def text_of(content: Any) -> str:
    """The text of a message's content: the string, or its text blocks joined."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return "\n".join(b["text"] for b in content if isinstance(b, dict) and isinstance(b.get("text"), str))


def are_blocks(content: Any) -> bool:
    """True for what a message may carry as content: text, or a list of blocks that have a type."""
    return isinstance(content, str) or (
        isinstance(content, list) and all(isinstance(b, dict) and isinstance(b.get("type"), str) for b in content)
    )
