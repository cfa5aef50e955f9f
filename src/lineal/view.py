"""Read models: what a person is shown of a session, as rows of plain values. Pure; the caller reads.

| question | rows |
|---|---|
| what happened, in order? | `timeline` over the log's entries |
| what is the model shown, and why? | `context`, with `budgets` for what it costs |
| what was done to the world? | `ledger` |
| is it well? | `health` |
| where would recovery go, and why not elsewhere? | `recovery` |

Every row has a `text` to read and fields for programs. Texts are one line each and quote what was said as it was said:
a window that prints them makes them safe for its own medium.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from lineal import codec, messages, working_set
from lineal.entries import (
    Call,
    CheckpointTaken,
    CompactionAborted,
    CompactionBegun,
    CompactionCommitted,
    EffectIntended,
    EffectResolved,
    EffectSettled,
    Entry,
    Evicted,
    Forked,
    Node,
    Note,
    Pinned,
    PruneBegun,
    PruneFinished,
    PurgeBegun,
    PurgeFinished,
    Range,
    RolledBack,
    Suspended,
    TurnAppended,
    Unknown,
    Unpinned,
    Usage,
)
from lineal.errors import Verdict
from lineal.lineage import Item, Lineage
from lineal.policy import Policy
from lineal.ranges import told
from lineal.rules import recovery as recovery_rule
from lineal.rules.cut import protected
from lineal.rules.recovery import Candidate, RecoveryChoice, RecoveryFacts
from lineal.tokens import Counter, measure

if TYPE_CHECKING:
    from lineal.engines import Row
    from lineal.session.outcomes import LedgerRow, Status

WORDS = 96  # characters of a message that a row quotes
NAMED = 5  # ids that a row names one by one

Mark = Literal["", "begun", "inside", "committed", "aborted", "spilled", "checkpoint", "rollback"]


def words(text: str, limit: int = WORDS) -> str:
    """The first words of a text on one line, at most `limit` characters."""
    line = " ".join(text[: limit * 8].split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _ids(ids: Iterable[str]) -> str:
    named = list(ids)
    shown = ", ".join(named[:NAMED]) or "none"
    return shown if len(named) <= NAMED else f"{shown} and {len(named) - NAMED:,} more"


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count:,} turns"


# --- timeline ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimelineRow:
    """One entry. `at` is in seconds since 1970 (0: not known). `mark`: what it is to the compaction around it, or a place to go back to.

    `detail` holds the facts of `text` under their names.
    """

    seq: int
    at: float
    kind: str
    text: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    mark: Mark = ""


def timeline(entries: Iterable[tuple[Row, Entry]]) -> Iterator[TimelineRow]:
    """One row an entry, in log order, as `Log.entries` gives them; streams."""
    flight = 0
    for stored, entry in entries:
        text, detail = _TOLD[type(entry)](entry)
        mark: Mark = _MARKS.get(type(entry), "inside" if flight else "")
        if isinstance(entry, CompactionBegun):
            flight = entry.generation
        elif isinstance(entry, CompactionCommitted):
            mark = "committed" if entry.generation == flight else "spilled"
            flight = 0 if entry.generation == flight else flight
        elif isinstance(entry, CompactionAborted | RolledBack | Forked | PurgeBegun):
            flight = 0
        yield TimelineRow(stored.seq, entry.at, stored.kind, text, detail, mark)


Told = tuple[str, dict[str, Any]]


def _turn(e: TurnAppended) -> Told:
    said = "[content erased]" if e.message is None else words(messages.text_of(e.message))
    notes = [", late result" if e.late else "", ", shown as stub" if e.stubbed else ""]
    detail = {"id": e.id, "author": e.author, "role": e.role, "tokens": e.tokens, "bytes": e.bytes}
    detail |= {"calls": [c.tool for c in e.calls], "results": [r.call for r in e.results], "late": e.late}
    return f"{e.author} ({e.tokens:,} tokens{''.join(notes)}): {said}", detail


def _begun(e: CompactionBegun) -> Told:
    detail = {"generation": e.generation, "covered": len(e.covered), "kept": len(e.kept), "spilled": len(e.spilled)}
    detail |= {"request_id": e.request_id, "deadline": e.lease.deadline, "pid": e.lease.holder.pid}
    return f"compaction g{e.generation} begun: {len(e.covered):,} items to cover, {len(e.kept):,} kept", detail


def _committed(e: CompactionCommitted) -> Told:
    ranges = tuple(r for n in e.nodes for r in n.ranges)
    tokens, source, count = (sum(getattr(n, name) for n in e.nodes) for name in ("tokens", "source_tokens", "count"))
    how = "compaction" if e.lossy else "spill"
    text = f"{how} g{e.generation} committed: {_turns(count)}, seq {told(ranges)}, now stand in {tokens:,} tokens (were {source:,})"
    if e.stubs:
        text += f"; {_turns(len(e.stubs))} shown as stub"
    detail = {"generation": e.generation, "parent": e.parent, "lossy": e.lossy, "turns": count, "ranges": [list(r) for r in ranges]}
    detail |= {"tokens": tokens, "source_tokens": source, "anchors": len(e.anchors), "stubs": [s.turn for s in e.stubs]}
    return text, detail


def _aborted(e: CompactionAborted) -> Told:
    return f"compaction g{e.generation} aborted: {words(e.why)}", {"generation": e.generation, "why": e.why}


def _evicted(e: Evicted) -> Told:
    return f"{_turns(len(e.turns))} evicted by {e.by}: {_ids(e.turns)}", {"turns": list(e.turns), "by": e.by}


def _suspended(e: Suspended) -> Told:
    text = f"compaction suspended: view {e.tokens:,} tokens, trigger {e.trigger:,}, floor {e.floor_tokens:,}, pins {e.pinned_tokens:,}"
    return text, _fields(e)


def _checkpoint(e: CheckpointTaken) -> Told:
    label = f" {words(e.label)!r}" if e.label else ""
    torn = ", taken while a compaction was in flight" if e.in_flight else ""
    return f"checkpoint {e.id}{label} at generation {e.generation}, effects up to seq {e.watermark}{torn}", _fields(e)


def _rolled_back(e: RolledBack) -> Told:
    name = f" (checkpoint {e.checkpoint})" if e.checkpoint else ""
    world = f"; guarded effects: {_ids(e.guarded)}" if e.guarded else ""
    world += f"; unknown effects: {_ids(e.unknown)}" if e.unknown else ""
    detail = {"target": e.target, "guarded": list(e.guarded), "unknown": list(e.unknown), "checkpoint": e.checkpoint}
    return f"rolled back to seq {e.target}{name}{world}", detail


def _forked(e: Forked) -> Told:
    return f"forked from {e.parent!r} at seq {e.fork_at}", {"parent": e.parent, "fork_at": e.fork_at}


def _intended(e: EffectIntended) -> Told:
    seen = "" if e.guarded else ", seen outside the gate"
    detail = {"key": e.key, "tool": e.tool, "attempt": e.attempt, "guarded": e.guarded, "idempotent": e.idempotent, "turn": e.turn}
    return f"effect {e.tool} intended (key {e.key}, attempt {e.attempt}{seen}): {_json(e.shown)}", detail


def _settled(e: EffectSettled) -> Told:
    outcome = "" if e.outcome is None else f": {_json(e.outcome)}"
    why = f" ({words(e.why)})" if e.why else ""
    return f"effect {e.key} is {e.state}{why}{outcome}", {"key": e.key, "state": e.state, "attempt": e.attempt, "why": e.why}


def _resolved(e: EffectResolved) -> Told:
    note = f": {words(e.note)}" if e.note else ""
    return f"effect {e.key} resolved: {e.finding}{note}", {"key": e.key, "finding": e.finding, "note": e.note}


def _pinned(e: Pinned) -> Told:
    what = f"turn {e.pin.turn}" if e.pin.turn else f"text {words(e.pin.text)!r}"
    return f"pinned {what}", {"pin": e.pin.id, "turn": e.pin.turn, "text": e.pin.text}


def _unpinned(e: Unpinned) -> Told:
    return f"unpinned {e.id}", {"pin": e.id}


def _usage(e: Usage) -> Told:
    return f"provider counted {e.input_tokens:,} tokens in, {e.output_tokens:,} out; counted here {e.counted:,}", _fields(e)


def _prune_begun(e: PruneBegun) -> Told:
    ranges = [(run.first, run.last) for run in e.runs]
    return f"prune begun: {e.entries:,} entries, seq {told(ranges)}", {"entries": e.entries, "ranges": [list(r) for r in ranges]}


def _prune_finished(e: PruneFinished) -> Told:
    return f"prune of seq {e.begun} finished", {"begun": e.begun}


def _purge_begun(e: PurgeBegun) -> Told:
    detail = {"turns": list(e.turns), "generations": list(e.generations), "checkpoints": list(e.checkpoints)}
    return f"purge begun: content of {_turns(len(e.turns))} ({_ids(e.turns)}), {len(e.stand_ins):,} rows", detail


def _purge_finished(e: PurgeFinished) -> Told:
    return f"purge of seq {e.begun} finished", {"begun": e.begun}


def _annotation(e: Unknown) -> Told:
    try:
        fields = codec.from_json(e.raw)
    except ValueError:
        return f"{e.name}: {len(e.raw):,} bytes that are no JSON", {}
    shown = {k: v for k, v in fields.items() if k not in ("v", "kind")} if isinstance(fields, dict) else {"value": fields}
    return f"{e.name}: {', '.join(f'{k} {words(str(v), 60)}' for k, v in shown.items())}", shown


def _fields(e: Entry) -> dict[str, Any]:
    return {k: v for k, v in msgspec.structs.asdict(e).items() if k != "at"}


def _json(value: Any) -> str:
    return words(value if isinstance(value, str) else codec.sorted_json(value).decode("utf-8", "replace"))


_TOLD: dict[type[Entry], Callable[[Any], Told]] = {
    TurnAppended: _turn,
    CompactionBegun: _begun,
    CompactionCommitted: _committed,
    CompactionAborted: _aborted,
    Evicted: _evicted,
    Suspended: _suspended,
    CheckpointTaken: _checkpoint,
    RolledBack: _rolled_back,
    Forked: _forked,
    EffectIntended: _intended,
    EffectSettled: _settled,
    EffectResolved: _resolved,
    Pinned: _pinned,
    Unpinned: _unpinned,
    Usage: _usage,
    PruneBegun: _prune_begun,
    PruneFinished: _prune_finished,
    PurgeBegun: _purge_begun,
    PurgeFinished: _purge_finished,
    Unknown: _annotation,
}
_MARKS: dict[type[Entry], Mark] = {
    CompactionBegun: "begun",
    CompactionAborted: "aborted",
    CheckpointTaken: "checkpoint",
    RolledBack: "rollback",
}


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
        why = f"stands for {_turns(item.count)} of {item.source_tokens:,} tokens"
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
        outcome = row.note if row.outcome is None else _json(row.outcome)
        text = f"{_json(row.shown)} -> {words(outcome)}" if outcome else _json(row.shown)
        yield LedgerLine(row.seq, row.key, row.tool, row.state, row.attempt, how, text)


@dataclass(frozen=True)
class HealthRow:
    """One look: `state` is ok, watch (something to know) or bad (something to do); `advice` is the way out."""

    name: str
    state: Literal["ok", "watch", "bad"]
    text: str
    advice: str = ""


def health(status: Status, lineage: Lineage, policy: Policy) -> Iterator[HealthRow]:
    """What a person should know about a session, the worst not first but always there."""
    for row in budgets(lineage, policy):
        over, engaged = row.used > row.ceiling, row.trigger is not None and row.used > row.trigger
        yield HealthRow(row.name, "bad" if over else "watch" if engaged else "ok", row.text, "compact" if over or engaged else "")
    yield _if(status.latched, "integrity", "bad", "read-only", "run verify; it lifts the latch once nothing is wrong")
    flight = f"generation {status.in_flight} is in flight" if status.in_flight is not None else ""
    yield _if(flight, "compaction", "watch", "", "wait for it; recover closes one whose holder is gone")
    numbers = "suspended: two passes did not help" if lineage.suspended else ""
    yield _if(numbers, "progress", "watch", "", "unpin, lower the floor, raise the trigger, or go on: user input lifts it")
    yield _if(_some(status.unknown_effects), "effects", "bad", "of unknown outcome", "find out what happened, then effect resolve")
    yield _if(_some(status.open_calls), "calls", "watch", "without a result", "append their results")
    begun = [f"{what} begun at seq {at}" for what, at in (("prune", lineage.pruning), ("purge", lineage.purging)) if at]
    yield _if(", ".join(begun), "removal", "watch", "not finished", "recover, or the same command again, goes on with it")


def _some(ids: tuple[str, ...]) -> str:
    return f"{len(ids):,}: {_ids(ids)}" if ids else ""


def _if(found: str | None, name: str, state: Literal["watch", "bad"], what: str, advice: str) -> HealthRow:
    if not found:
        return HealthRow(name, "ok", "none open" if name in ("calls", "effects", "compaction", "removal") else "ok")
    return HealthRow(name, state, f"{what}: {found}" if what else found, advice)


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
