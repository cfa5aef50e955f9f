"""Read models: what a person is shown of a session, as rows of plain values. Pure; the caller reads.

| question | rows |
|---|---|
| what happened, in order? | `timeline` over the log's entries |
| what is the model shown, and why? | `context`, with `budgets` for what it costs |
| what was done to the world? | `ledger` |
| why was a generation made, and what became of what it covered? | `explained` |
| is it well? | `health` |
| where would recovery go, and why not elsewhere? | `recovery` |

Every row has a text to read and fields for programs. Texts are one line each and quote what was said as it was said:
a window that prints them makes them safe for its own medium.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from lineal import messages, working_set
from lineal.entries import Call, Node, Note, Range
from lineal.errors import Verdict
from lineal.lineage import Item, Lineage
from lineal.policy import Policy
from lineal.rules import recovery as recovery_rule
from lineal.rules.cut import protected
from lineal.rules.recovery import Candidate, RecoveryChoice, RecoveryFacts
from lineal.tokens import Counter, measure
from lineal.view.generations import Carried, Generation, explained
from lineal.view.lines import TimelineRow, as_text, counted_turns, first_ids, timeline, words

if TYPE_CHECKING:
    from lineal.session.outcomes import LedgerRow, Status

__all__ = [
    "BudgetRow",
    "Carried",
    "ContextRow",
    "Generation",
    "HealthRow",
    "LedgerLine",
    "RecoveryRow",
    "TimelineRow",
    "budgets",
    "context",
    "explained",
    "health",
    "ledger",
    "recovery",
    "timeline",
    "words",
]


# --- context -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ContextRow:
    """One message that the model is shown. `name`: a turn's id, a node's handle, a call's id. Sizes are of what is shown.

    `what`: turn, stub (a turn with oversized blocks put aside), late, summary, spill, note, or derived (a result that
    only says that a call got none). `seqs`: the turns that it stands for, both ends inside. `why`: what keeps it.
    """

    what: str
    name: str
    seqs: Range
    author: str
    tokens: int
    bytes: int
    why: str
    text: str


def context(lineage: Lineage, policy: Policy, contents: Mapping[int, Any], counter: Counter) -> Iterator[ContextRow]:
    """A row for each message of `working_set.render`, in its order. `contents` maps a shown turn's seq to its message."""
    kept = protected(lineage, policy)
    at = 0
    for item, message in working_set.shown(lineage, contents):
        text = words(messages.text_of(message))
        if isinstance(item, Call):
            tokens, size = measure(message, counter)
            yield ContextRow("derived", item.id, (at, at), "lineal", tokens, size, "its call got no result", text)
            continue
        at = item.covered_through if isinstance(item, Node) else item.seq
        yield _context_row(item, kept, text)


def _context_row(item: Item, kept: Mapping[str, str], text: str) -> ContextRow:
    if isinstance(item, Node):
        why = f"stands for {counted_turns(item.count)} of {item.source_tokens:,} tokens"
        return ContextRow(
            item.kind,
            item.handle,
            (item.ranges[0][0], item.covered_through),
            "lineal",
            item.tokens,
            item.bytes,
            why,
            words(item.text or text),
        )
    if isinstance(item, Note):
        return ContextRow("note", "", (item.seq, item.seq), "lineal", item.tokens, item.bytes, "kept by machine", text)
    what = "late" if item.late else "stub" if item.stubbed else "turn"
    why = kept.get(item.id, "not covered yet")
    return ContextRow(what, item.id, (item.seq, item.seq), item.author, item.tokens, item.bytes, why, text)


@dataclass(frozen=True)
class BudgetRow:
    """One of the three budgets: what the view takes, where compaction engages (None: it does not), what it may never pass."""

    name: str
    used: int
    trigger: int | None
    ceiling: int

    @property
    def text(self) -> str:
        trigger = f", trigger {self.trigger:,}" if self.trigger is not None else ""
        return f"{self.used:,} {self.name} of {self.ceiling:,} ({100 * self.used / self.ceiling:.0f} % of the ceiling{trigger})"


def budgets(lineage: Lineage, policy: Policy) -> tuple[BudgetRow, ...]:
    """Tokens (calibrated by reported usage), bytes and items against the policy (R26)."""
    return (
        BudgetRow("tokens", lineage.view_tokens, policy.trigger, policy.ceiling),
        BudgetRow("bytes", lineage.bytes, None, policy.ceiling_bytes),
        BudgetRow("items", len(lineage.items), None, policy.ceiling_items),
    )


# --- ledger, health, recovery --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LedgerLine:
    """One effect, for people: `how` says whether the gate guards it, `text` what it was and how it ended."""

    seq: int
    key: str
    tool: str
    state: str
    attempt: int
    how: str
    text: str


def ledger(rows: Iterable[LedgerRow]) -> Iterator[LedgerLine]:
    """The rows of `Session.ledger`, readable."""
    for row in rows:
        how = "guarded" if row.guarded else "seen"
        how += ", idempotent" if row.idempotent else ""
        how += ", resolved" if row.resolved else ""
        how += f", outside as {words(row.handle, 60)}" if row.handle else ""
        outcome = row.note if row.outcome is None else as_text(row.outcome)
        text = f"{as_text(row.shown)} -> {words(outcome)}" if outcome else as_text(row.shown)
        yield LedgerLine(row.seq, row.key, row.tool, row.state, row.attempt, how, text)


@dataclass(frozen=True)
class HealthRow:
    """One look: `state` is ok, watch (something to know) or bad (something to do); `advice` is the way out."""

    name: str
    state: Literal["ok", "watch", "bad"]
    text: str
    advice: str = ""


def health(status: Status, lineage: Lineage, policy: Policy) -> Iterator[HealthRow]:
    """What a person should know about a session: a row for each thing looked at, good or not."""
    for row in budgets(lineage, policy):
        over, engaged = row.used > row.ceiling, row.trigger is not None and row.used > row.trigger
        yield HealthRow(row.name, "bad" if over else "watch" if engaged else "ok", row.text, "compact" if over or engaged else "")
    unknown, waiting = status.unknown_effects, status.open_calls
    open_now = (("prune", lineage.pruning), ("purge", lineage.purging), ("pack", lineage.packing))
    removals = [f"{what} begun at seq {at}" for what, at in open_now if at]
    looks: tuple[tuple[str, Literal["watch", "bad"], str, str, str], ...] = (
        ("integrity", "bad", status.latched or "", "no damage met", "read-only until `verify` finds nothing wrong"),
        ("compaction", "watch", _in_flight(status), "none in flight", "wait for it; `recover` closes one whose holder is gone"),
        ("progress", "watch", "suspended" if lineage.suspended else "", "not suspended", "unpin, lower the floor, or raise the trigger"),
        ("effects", "bad", _some(unknown, "of unknown outcome"), "none of unknown outcome", "find out, then `effect resolve`"),
        ("calls", "watch", _some(waiting, "without a result"), "none without a result", "append their results"),
        ("removal", "watch", ", ".join(removals), "none open", "`recover`, or the same command again, goes on with it"),
    )
    for name, state, found, fine, advice in looks:
        yield HealthRow(name, state, found, advice) if found else HealthRow(name, "ok", fine)


def _in_flight(status: Status) -> str:
    return f"generation {status.in_flight} is in flight" if status.in_flight is not None else ""


def _some(ids: tuple[str, ...], what: str) -> str:
    return f"{len(ids):,} {what}: {first_ids(ids)}" if ids else ""


@dataclass(frozen=True)
class RecoveryRow:
    """One checkpoint, as recovery sees it now. `chosen`: recovery would restore this one. `verdict` says why, or why not."""

    checkpoint: str
    seq: int
    label: str
    chosen: bool
    eligible: bool
    verdict: Verdict


def recovery(
    facts: RecoveryFacts, candidates: Iterable[Candidate], choice: RecoveryChoice, labels: Mapping[str, str]
) -> Iterator[RecoveryRow]:
    """Each checkpoint with the rule's own verdict on it (record 000), newest first; also those that recovery need not ask."""
    closed = replace(facts, open_compaction=None) if facts.open_compaction == "dead" else facts
    for candidate in candidates:
        verdict = recovery_rule.judge(replace(closed, candidate=candidate))
        chosen = candidate.id == choice.checkpoint_id
        yield RecoveryRow(candidate.id, candidate.seq, labels.get(candidate.id, ""), chosen, verdict.allowed, verdict)
