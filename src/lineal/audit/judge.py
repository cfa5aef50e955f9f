"""From a history and the accounts of its boundaries to findings. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lineal.anchors import PLURALS
from lineal.audit.boundaries import listed
from lineal.audit.findings import CallSeen, CompactionAudit, Finding, Repeat, Value, found
from lineal.audit.history import History, Said, shown
from lineal.audit.repeats import reused_ids, stretches
from lineal.transcripts import NOWHERE, Damage

NAMED = 5  # things that a finding's text names; its detail has all
VALUE_SHOWN, RESULT_SHOWN = 100, 90  # characters

_DAMAGE = (  # what the reader says -> the finding's kind; first match wins; "" where a finding about calls says the same
    (r"lost (call|result):", ""),
    (r"lost record:", "lost_record"),
    (r"a branch:", "branch"),
    (r"deleted rows:", "rows_deleted"),
    (r"torn tail", "torn_tail"),
    (r".* records on one line", "glued"),
    (
        r"no (chat )?message|no record of this format|not an object|an? \w+ (line|message) (without|that is not whole)|no event",
        "no_message",
    ),
    (r"a message without|an? \w+ without a call_id", "no_message"),
)


def judge(history: History, accounts: Sequence[CompactionAudit], repeated: Sequence[Repeat]) -> list[Finding]:
    """All that is found in one conversation, in no order."""
    return [
        *_damage(history),
        *_unanswered(history, accounts),
        *_orphans(history),
        *(_repeat(r, history) for r in repeated),
        *(f for account in accounts for f in _boundary(account, history)),
        *_said_again(history),
    ]


# --- damage and pairs ------------------------------------------------------------------------------------------------


def _damage(history: History) -> Iterator[Finding]:
    for before, damage in history.damage:
        if kind := damage_kind(damage, before):
            where = f" at byte {damage.offset:,}" if damage.offset != NOWHERE else ""
            size = f"; {len(damage.raw):,} bytes{where}" if damage.raw and kind != "glued" else ""
            at = f"{history.place.capitalize()} {damage.line}" if damage.line or history.place == "line" else "The file"
            text = f"{at}: {shown(damage.why, 300)}{size}."
            yield found(kind, damage.line, text, bytes=len(damage.raw), offset=damage.offset)


def damage_kind(damage: Damage, before: int) -> str:
    """The finding's kind for what the reader says, with `before` records in front of it; "" where a finding about calls says it."""
    kind = next((kind for pattern, kind in _DAMAGE if re.match(pattern, damage.why, re.DOTALL)), "damaged")
    return "begins_midway" if kind == "lost_record" and before == 0 else kind


def _unanswered(history: History, accounts: Sequence[CompactionAudit]) -> Iterator[Finding]:
    covered = {(c.seq, c.id) for a in accounts for c in a.open_calls}
    quiet = []
    for call in history.calls:
        if call.outcome is not None or (call.seq, call.id) in covered:
            continue
        if not call.changes_state:
            quiet.append(call)
        elif in_flight(call, history.said):
            text = (
                f"Checkpoint taken with an effect in flight: the log ends while {call.named} runs ({history.place} {call.line}), "
                "and no result stands."
            )
            yield found("effect_in_flight", call.line, text, call=call_data(call))
        else:
            yield found(
                "effect_unanswered", call.line, f"{call.named} ({history.place} {call.line}) never got a result.", call=call_data(call)
            )
    if quiet:
        text = f"No result stands for {_number(quiet, 'call')}: {_some(quiet, _placed(history.place))}."
        yield found("call_unanswered", quiet[0].line, text, calls=[call_data(c) for c in quiet])


def in_flight(call: CallSeen, said: Sequence[Said]) -> bool:
    """True if the agent has not gone on since: only results, and calls made in the same breath, stand behind the call."""
    answered = False
    for s in said[call.seq :]:
        if not s.results and (answered or not s.calls):
            return False
        answered = answered or bool(s.results)
    return True


def _orphans(history: History) -> Iterator[Finding]:
    if orphans := history.orphans:
        text = f"No call stands before {_number(orphans, 'result')}: {_some(orphans, lambda o: f'{o[1]} ({history.place} {o[0].line})')}."
        yield found("orphan_result", orphans[0][0].line, text, results=[{"call": id, "line": s.line} for s, id in orphans])


# --- boundaries ------------------------------------------------------------------------------------------------------

_ENCRYPTED = ("codex", "openai_agents")  # whose summaries only their provider can read


def _boundary(account: CompactionAudit, history: History) -> Iterator[Finding]:
    word, at = history.place, f"{history.place} {account.line}"
    if account.kind == "eviction":
        yield _cleared(account, history)
    elif account.kind == "rollback":
        yield _went_back(account, history)
    elif account.summary_tokens is None and history.format in _ENCRYPTED:
        if account.covered:
            yield _unreadable(account, at)
    elif account.summary_tokens is None and account.covered:
        text = f"{_turns(account)} left the view at {at}, and no summary stands in their place."
        yield found("no_summary", account.line, text, boundary=account.number)
    if account.kind == "compaction" and account.unseen and account.unseen_lines:
        yield _unread(account, history)
    elif account.unseen_by_default and account.summary_tokens is not None:
        text = (
            f"LangChain's middleware shows the writer of a summary only the last tokens of what leaves, 4,000 unless it was set otherwise: "
            f"at {at} it was shown {100 * (1 - account.unseen_by_default):.0f} % of {account.covered_tokens:,} tokens then."
        )
        yield found("unread_by_default", account.line, text, boundary=account.number, share=account.unseen_by_default)
    if account.kind == "eviction" or account.summary_tokens is not None:
        yield from _lost(account, word)
    for kind, changes in (("effect_covered", True), ("call_covered", False)):
        if calls := [c for c in account.open_calls if c.changes_state is changes]:
            text = f"The {account.kind} at {at} covered {_number(calls, 'call')} without a result: {_some(calls, _placed(word))}."
            yield found(kind, account.line, text, boundary=account.number, calls=[call_data(c) for c in calls])
    if calls := list(account.parted):
        text = f"The {account.kind} at {at} parted {_number(calls, 'result')} from the call: {_some(calls, _placed(word))}."
        yield found("result_parted", account.line, text, boundary=account.number, calls=[call_data(c) for c in calls])


def _went_back(account: CompactionAudit, history: History) -> Finding:
    where = f"{history.place} {account.line} ({account.trigger})" if account.trigger else f"{history.place} {account.line}"
    if calls := account.undone:
        text = (
            f"Going back at {where} left {_number(calls, 'call')} behind that changed the world and did happen, or may have happened: "
            f"{_some(calls, _placed(history.place))}."
        )
        return found("effect_rolled_back", account.line, text, boundary=account.number, calls=[call_data(c) for c in calls])
    text = f"Somebody went back at {where}: {_turns(account)} left the view."
    return found("rolled_back", account.line, text, boundary=account.number)


def _cleared(account: CompactionAudit, history: History) -> Finding:
    boundary, at = history.boundaries[account.number - 1][1], f"{history.place} {account.line}"
    if "replaced" in boundary.detail:
        text = f"Written over in place at {at}, so that their words left the view: {_turns(account)}."
        return found("written_over", account.line, text, boundary=account.number, tokens=account.covered_tokens)
    named = len(listed(boundary, "tool_ids"))
    text = f"Results of {named} calls were cleared from the view at {at}, and nobody summarised them: {_turns(account)}."
    if not account.covered:
        text = f"Results of {named} calls were cleared from the view at {at}; none of them stands in this log."
    return found("results_cleared", account.line, text, boundary=account.number, named=named, tokens=account.covered_tokens)


def _unreadable(account: CompactionAudit, at: str) -> Finding:
    total = sum(s.total for s in account.survival)
    text = (
        f"The summary at {at} is encrypted: whether it keeps {len(account.lost)} of the {total} exact values and "
        "sentences of the turns that left cannot be checked; they stand nowhere else in the view."
    )
    return found("summary_unreadable", account.line, text, boundary=account.number, values=[value_data(v) for v in account.lost])


def _unread(account: CompactionAudit, history: History) -> Finding:
    first, last = account.unseen_lines or (0, 0)
    why = ", kept by the compaction before" if history.format == "pi" else ""
    text = (
        f"{account.unseen} of the {account.covered} turns that left the view at {history.place} {account.line} were never shown to the "
        f"writer of the summary: {history.place}s {first}-{last}, {account.unseen_tokens:,} tokens{why}. "
        f"It saw {100 * (account.seen or 0):.0f} % of what left."
    )
    return found("unread_removal", account.line, text, boundary=account.number, lines=[first, last], tokens=account.unseen_tokens)


def lost_kind(kind: str, author: str) -> str:
    """How much a lost value weighs: the user's constraints and real commits first; what a summary may well say in other words last."""
    if kind == "constraint" and author == "user":
        return "lost_constraint"
    if kind == "commit" and author in ("user", "tool"):
        return "lost_commit"
    if kind in ("constraint", "decision", "failed", "task"):
        return "lost_detail"
    return "lost_value" if author == "user" or kind in ("commit", "id", "hash", "url") else "lost_detail"


_WORDS = {
    "lost_constraint": "constraints of the user (word for word)",
    "lost_commit": "commits that git reported or the user named",
    "lost_value": "other exact values",
    "lost_detail": "paths, numbers, decisions, failed approaches and open tasks (word for word)",
}


def _lost(account: CompactionAudit, word: str) -> Iterator[Finding]:
    totals: Counter[str] = Counter()
    for s in account.survival:
        totals[lost_kind(s.kind, s.author)] += s.total
    for kind, words in _WORDS.items():
        if lost := [v for v in account.lost if lost_kind(v.kind, v.author) == kind]:
            values = _some(lost, lambda v: f"{shown(v.value, VALUE_SHOWN)} ({word} {v.line})")
            text = f"Gone from the view at the {account.kind} at {word} {account.line}: {len(lost)} of {totals[kind]} {words}: {values}."
            yield found(kind, account.line, text, boundary=account.number, total=totals[kind], values=[value_data(v) for v in lost])


# --- twice -----------------------------------------------------------------------------------------------------------


def _repeat(repeat: Repeat, history: History) -> Finding:
    first, last = repeat.calls[0], repeat.calls[-1]
    runs = "; ".join(
        f"{history.place} {c.line} {c.ended}" + (f" ({shown(c.result, RESULT_SHOWN)})" if c.result else "") for c in repeat.calls
    )
    between = [c for c in history.calls if c.changes_state and first.seq < c.seq < last.seq and c.key != first.key and c.may_have_happened]
    others = f" Between them: {_some(between, _placed(history.place))}." if between else ""
    text = f"{first.named} was called {len(repeat.calls)} times with the same arguments: {runs}.{others}"
    return found(repeat.kind, last.line, text, calls=[call_data(c) for c in repeat.calls], between=[call_data(c) for c in between])


def _said_again(history: History) -> Iterator[Finding]:
    for stretch in stretches(history):
        lines = [[s.line for s in half] for half in (stretch.first, stretch.again)]
        old, new = (f"{half[0]}-{half[-1]}" if len(half) > 1 else f"{half[0]}" for half in lines)
        text = f"{history.place.capitalize()} {new} says again what {history.place} {old} says: {_number(stretch.again, 'record')}."
        yield found("history_repeated", lines[1][0], text, first=lines[0], again=lines[1])
    records, calls = reused_ids(history)
    if records:
        text = f"Ids that stand for more than one record: {_some(records, _lines(history.place))}."
        yield found("id_repeated", records[0][1][-1], text, ids=dict(records))
    if calls:
        text = f"Call ids that stand for more than one call: {_some(calls, _lines(history.place))}."
        yield found("call_id_reused", calls[0][1][-1], text, ids=dict(calls))


# --- words -----------------------------------------------------------------------------------------------------------


def call_data(call: CallSeen) -> dict[str, Any]:
    return {
        "line": call.line,
        "id": call.id,
        "tool": call.tool,
        "arguments": call.arguments,
        "outcome": call.outcome,
        "result_line": call.result_line,
        "result": call.result,
    }


def value_data(value: Value) -> dict[str, Any]:
    return {"kind": value.kind, "value": value.value, "author": value.author, "line": value.line}


def plural(kind: str, number: int) -> str:
    return kind if number == 1 else PLURALS.get(kind, f"{kind}s")


def _turns(account: CompactionAudit) -> str:
    return f"{account.covered} {plural('turn', account.covered)} ({account.covered_tokens:,} tokens)"


def _number(things: Sequence[Any], noun: str) -> str:
    return f"{len(things)} {plural(noun, len(things))}"


def _placed(word: str) -> Callable[[CallSeen], str]:
    return lambda call: f"{shown(call.named, VALUE_SHOWN)} ({word} {call.line})"


def _lines(word: str) -> Callable[[tuple[str, list[int]]], str]:
    return lambda id: f"{id[0]} ({word}s {', '.join(map(str, id[1][:NAMED]))})"


def _some(things: Sequence[Any], name: Callable[[Any], str]) -> str:
    more = f", and {len(things) - NAMED} more" if len(things) > NAMED else ""
    return ", ".join(map(name, things[:NAMED])) + more
