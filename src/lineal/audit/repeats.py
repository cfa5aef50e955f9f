"""The same thing twice: state-changing calls made again, history written again, ids used again. Pure.

What a repeated call means depends on what the agent could still see of the first, and on how the first ended:

| the first one | the repeat is |
|---|---|
| had no effect, and had left the view | `effect_retried`: right, though the agent could not know |
| had no effect, and stood in the view | no finding: a deliberate second try |
| took effect or may have, and had left the view | `effect_repeated_blind` |
| took effect or may have, stood in the view, and no other state-changing call that may have taken effect stands between | `effect_doubled` |
| took effect or may have, stood in the view, and others stand between (commit, push, commit, push) | `effect_repeated` |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lineal.audit.boundaries import Gone
from lineal.audit.findings import KINDS, CallSeen, Repeat
from lineal.audit.history import History, Said
from lineal.codec import digest, sorted_json

IDENTIFIED = 200  # characters: two texts as long as this are not equal by chance
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
