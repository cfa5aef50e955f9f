"""The same thing twice: state-changing calls made again, history written again, ids used again. Pure.

What a repeated call means depends on what the agent could still see of the first, and on how the first ended:

| the first one | the repeat is |
|---|---|
| had no effect, and had left the view | `effect_retried`: right, though the agent could not know |
| had no effect, and stood in the view | no finding: a deliberate second try |
| took effect or may have, and had left the view | `effect_repeated_blind` |
| took effect or may have, stood in the view, and nothing else that changes state stands between | `effect_doubled` |
| took effect or may have, stood in the view, and other effects stand between (commit, push, commit, push) | `effect_repeated` |
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lineal.audit.boundaries import Gone
from lineal.audit.findings import KINDS, CallSeen, Repeat
from lineal.audit.history import History, Said
from lineal.codec import digest, sorted_json

BY_CHANCE = 2  # records: a model may say the same, and reuse a call id, for so long
_AGAIN = re.compile(r"(?P<id>.+)#\d+")


def repeats(history: History, gone: Gone) -> tuple[Repeat, ...]:
    """Groups of equal state-changing calls, by the worst of their neighbours, in order of the last call."""
    changing = [c for c in history.calls if c.changes_state]
    groups: dict[str, list[int]] = {}
    for at, call in enumerate(changing):
        groups.setdefault(call.key, []).append(at)
    out = []
    for places in groups.values():
        kinds = [kind for a, b in zip(places, places[1:], strict=False) if (kind := _kind(changing, a, b, history, gone))]
        if kinds:
            out.append(Repeat(min(kinds, key=list(KINDS).index), tuple(changing[at] for at in places)))
    return tuple(sorted(out, key=lambda r: r.calls[-1].seq))


def _kind(changing: list[CallSeen], first: int, again: int, history: History, gone: Gone) -> str | None:
    a, b = changing[first], changing[again]
    if not b.may_have_happened:
        return None
    left = a.seq in gone and history.boundaries[gone[a.seq] - 1][0] < b.seq
    if not a.may_have_happened:
        return "effect_retried" if left else None
    if left:
        return "effect_repeated_blind"
    between = any(c.may_have_happened for c in changing[first + 1 : again])
    return "effect_repeated" if between else "effect_doubled"


def across(repeat: Repeat, number: int, history: History, gone: Gone) -> bool:
    """True if a call of the group left the view at boundary `number` and a later one stands behind it."""
    until = history.boundaries[number - 1][0]
    return any(gone.get(c.seq) == number for c in repeat.calls) and repeat.calls[-1].seq > until


# --- history written again -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stretch:
    """Records `again` hold word for word what the records `first` hold."""

    first: tuple[Said, ...]
    again: tuple[Said, ...]


def stretches(history: History) -> tuple[Stretch, ...]:
    """Records that stand in the history a second time, neighbours together.

    Equal records are no repetition by themselves ("yes", "go on", the same look at the same file): a stretch is longer
    than `BY_CHANCE`, or its records have the times of the first ones too.
    """
    first: dict[bytes, int] = {}
    out: list[Stretch] = []
    run: list[tuple[Said, Said]] = []
    for at, said in enumerate(history.said):
        content = _content(said)
        after = history.said[run[-1][0].seq] if run else None
        follows = after is not None and after.seq < said.seq and _content(after) == content
        if not follows:
            out += _closed(run)
            run = []
        if follows and after is not None:
            run.append((after, said))
        elif content in first:
            run = [(history.said[first[content]], said)]
        first.setdefault(content, at)
    return tuple(out + _closed(run))


def _content(said: Said) -> bytes:
    """What a record says, without the id of the record itself; calls and results keep theirs."""
    if not said.calls and not said.results:
        return digest(said.author.encode(), said.text.encode("utf-8", "surrogatepass"))
    return digest(sorted_json({k: v for k, v in said.message.items() if k != "id"}))


def _closed(run: list[tuple[Said, Said]]) -> list[Stretch]:
    same_times = bool(run) and all(a.at is not None and a.at == b.at for a, b in run)
    if len(run) <= BY_CHANCE and not same_times:
        return []
    return [Stretch(tuple(a for a, _ in run), tuple(b for _, b in run))]


def reused_ids(history: History) -> tuple[list[tuple[str, list[int]]], list[tuple[str, list[int]]]]:
    """Ids that stand for more than one thing, with the lines: of records, and of calls."""
    records: dict[str, list[int]] = {}
    calls: dict[str, list[int]] = {}
    again = {s.seq for stretch in stretches(history) for s in stretch.again}
    of_calls = {c.id for c in history.calls}
    first = {s.id: s.line for s in history.said}
    for said in history.said:
        match = _AGAIN.fullmatch(said.id or "")
        base = match["id"] if match else ""
        plain_id = base.removesuffix(":result").removesuffix(":output")
        if base in first and plain_id == base and base not in of_calls and said.seq not in again:
            records.setdefault(base, [first[base]]).append(said.line)
    for call in history.calls:
        calls.setdefault(call.id, []).append(call.line)
    return list(records.items()), [(id, lines) for id, lines in calls.items() if len(lines) > 1]
