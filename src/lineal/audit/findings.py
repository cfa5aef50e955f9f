"""What an audit says: findings, worst first, and one account for each boundary. Plain values.

A finding's severity follows from its kind alone, and `KINDS` is the table of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lineal.transcripts import Outcome

if TYPE_CHECKING:
    from pathlib import Path

Severity = Literal["high", "medium", "low"]
SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low")


@dataclass(frozen=True)
class Kind:
    severity: Severity
    says: str


KINDS: dict[str, Kind] = {
    "effect_in_flight": Kind("high", "the log ends inside a call that changes the world: whoever goes on from here may send it again"),
    "effect_doubled": Kind("high", "the same state-changing call took effect twice, and nothing that changes state stands between"),
    "effect_repeated_blind": Kind("high", "a state-changing call was repeated after its first run had left the view"),
    "effect_rolled_back": Kind("high", "somebody went back over a state-changing call: it took effect, and the view no longer says so"),
    "effect_covered": Kind("high", "a state-changing call had no result yet when a compaction took it out of the view"),
    "no_summary": Kind("high", "turns left the view and nothing was put in their place"),
    "unread_removal": Kind("high", "turns left the view for a summary whose writer was never shown them"),
    "damaged": Kind("high", "bytes that are no record: what stood there is lost"),
    "lost_constraint": Kind("high", "a constraint of the user no longer stands in the view word for word"),
    "lost_commit": Kind("high", "the SHA of a commit that git reported, or that the user named, no longer stands in the view"),
    "lost_record": Kind("medium", "a record must have stood there, because another one refers to it"),
    "rows_deleted": Kind("medium", "rows were deleted from the store: what they said stands nowhere"),
    "unread_by_default": Kind("medium", "by the host's default setting, the writer of a summary was shown only the end of what left"),
    "rolled_back": Kind("medium", "somebody went back to an older state: turns left the view"),
    "torn_tail": Kind("medium", "the last record is cut off"),
    "no_message": Kind("medium", "a record that is no message was left out"),
    "branch": Kind("medium", "an entry does not follow the one before it: branches stand mixed in one file"),
    "orphan_result": Kind("medium", "a result whose call stands nowhere before it"),
    "result_parted": Kind("medium", "a result stands in the view, its call left it"),
    "call_covered": Kind("medium", "a call without a result was taken out of the view"),
    "effect_repeated": Kind("medium", "the same state-changing call was made again while the first stood in the view"),
    "effect_unanswered": Kind("medium", "a state-changing call never got a result: its outcome is unknown"),
    "lost_value": Kind("medium", "ids, hashes, URLs, or other values of the user no longer stand in the view"),
    "history_repeated": Kind("medium", "the same records stand in the log twice"),
    "id_repeated": Kind("medium", "one record id stands for different records"),
    "effect_retried": Kind("low", "a state-changing call that had no effect was made again after the first had left the view"),
    "call_unanswered": Kind("low", "a call never got a result"),
    "call_id_reused": Kind("low", "a call id names more than one call: it is no key for a ledger"),
    "lost_detail": Kind("low", "paths, numbers, decisions, failed approaches or open tasks no longer stand in the view word for word"),
    "results_cleared": Kind("low", "tool results were cleared from the view, and nobody summarised them"),
    "written_over": Kind("low", "messages were written over in place, and stand in the view with other words"),
    "summary_unreadable": Kind("low", "the summary is encrypted: what it keeps cannot be checked"),
    "begins_midway": Kind("low", "the log begins in the middle of a history"),
    "glued": Kind("low", "several records stand on one line: nothing is lost, and other readers may trip"),
    "written_twice": Kind("low", "records were written a second time; they are read once"),
}


@dataclass(frozen=True)
class Finding:
    """`line` counts from 1, what `Audit.place` names (in a JSON list: index + 1); 0 is the file as a whole.

    `detail` holds JSON values only.
    """

    severity: Severity
    kind: str
    line: int
    text: str
    detail: Mapping[str, Any] = field(default_factory=dict)


def found(kind: str, line: int, text: str, **detail: Any) -> Finding:
    return Finding(KINDS[kind].severity, kind, line, text, detail)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """By severity, then by the order of `KINDS`, then as they were found."""
    rank = {kind: n for n, kind in enumerate(KINDS)}
    return tuple(sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), rank[f.kind])))


@dataclass(frozen=True)
class CallSeen:
    """A call of the transcript. `outcome` is None while no result stands; `key` is equal for the same call made again.

    `arguments` and `result` are clipped for reading. `seq` is the record's place in its conversation, from 1.
    """

    seq: int
    line: int
    id: str
    tool: str
    arguments: str
    key: str
    changes_state: bool
    outcome: Outcome | None = None
    result: str = ""
    result_seq: int | None = None
    result_line: int | None = None

    @property
    def named(self) -> str:
        return f"{self.tool} {self.arguments}".rstrip()

    @property
    def ended(self) -> str:
        return {"done": "done", "no_effect": "no effect", "unknown": "outcome unknown", None: "no result"}[self.outcome]

    @property
    def may_have_happened(self) -> bool:
        return self.outcome != "no_effect"


@dataclass(frozen=True)
class Repeat:
    """The same state-changing call, made more than once, in order; `kind` is the finding's."""

    kind: str
    calls: tuple[CallSeen, ...]


@dataclass(frozen=True)
class Value:
    """An exact value or a sentence that stood in a turn: its kind as in `lineal.anchors`, whose turn, on which line."""

    kind: str
    value: str
    author: str
    line: int


@dataclass(frozen=True)
class Survival:
    """How many values of a kind stood in turns of `author` that left, and how many of them still stand in the view behind it."""

    kind: str
    author: str
    total: int
    kept: int


@dataclass(frozen=True)
class CompactionAudit:
    """One boundary of a conversation: what left the view there, and what of it was lost. Tokens are estimates (UTF-8 bytes / 3).

    `host_tokens` is the view as the host counted it. `covered` turns left; `kept` stayed verbatim. `seen` is the share
    of the removed tokens that whoever wrote the summary can have been shown (None: nothing left). `summary_tokens` is
    None where there is no summary that can be read. `open_calls` left without a result; `parted` left without theirs.
    `undone`: state-changing calls that a rollback left behind, though they took effect or may have. `unseen_by_default`: the
    share of the removed tokens that was not shown if the host ran with its default settings (0 where that says nothing).
    """

    line: int
    kind: Literal["compaction", "eviction", "rollback"]
    number: int
    conversation: str
    trigger: str
    host_tokens: int | None
    covered: int
    covered_lines: tuple[int, int] | None
    covered_tokens: int
    kept: int
    kept_tokens: int
    summary_tokens: int | None
    seen: float | None
    unseen: int
    unseen_lines: tuple[int, int] | None
    unseen_tokens: int
    survival: tuple[Survival, ...] = ()
    lost: tuple[Value, ...] = ()
    open_calls: tuple[CallSeen, ...] = ()
    parted: tuple[CallSeen, ...] = ()
    repeated: tuple[Repeat, ...] = ()
    undone: tuple[CallSeen, ...] = ()
    unseen_by_default: float = 0.0
    rows_deleted: int = 0
    id: str = ""


@dataclass(frozen=True)
class Audit:
    """One file, or one store by its address (without a password). `skipped` says why it was not read.

    `tokens` estimates all that its records show (UTF-8 bytes / 3). `place` is what a line number counts: lines, or a
    store's checkpoints, rows, events.
    """

    path: Path
    format: str
    records: int
    tokens: int
    findings: tuple[Finding, ...]
    compactions: tuple[CompactionAudit, ...]
    conversations: int = 1
    skipped: str = ""
    place: str = "line"
    address: str = ""

    @property
    def named(self) -> str:
        return self.address or str(self.path)

    def count(self, severity: Severity) -> int:
        return sum(f.severity == severity for f in self.findings)
