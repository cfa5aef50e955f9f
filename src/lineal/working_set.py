"""What the model is shown: the view of a lineage as messages. Pure; the caller reads the turns' contents.

    leading instructions · summaries and spills where their turns stood · notes · verbatim turns

Everything that lineal itself says is labelled as such, is nobody's turn, and is never found by a lookup for the last
user or assistant turn (R21). The label names the handle under which the covered turns can be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from lineal import anchors, messages
from lineal.entries import Call, Node, Note, Pin
from lineal.errors import Corrupt
from lineal.lineage import Item, Lineage, OpenEffect, TurnItem
from lineal.rules.cut import open_calls, units
from lineal.tokens import Counter, measure

ANCHOR_SHARE = 0.5  # of the summary's budget goes at most to rendered anchors


def node_text(node: Node) -> str:
    """How a node is shown: one label line, then the summary."""
    first, last = node.ranges[0][0], node.ranges[-1][1]
    what = f"{node.count} turn{'s' * (node.count != 1)}, seq {first}-{last}"
    if node.kind == "spill":
        return f'[lineal spill {node.handle}: {what}, put aside byte-exact; expand("{node.handle}") re-reads them]'
    label = f'[lineal summary {node.handle} of {what}; derived, said by nobody; expand("{node.handle}") re-reads them]'
    return f"{label}\n{node.text}"


def measured(node: Node, counter: Counter) -> Node:
    """The node with its size, as it will be shown."""
    tokens, size = measure(messages.machine_message(node_text(node), node.dialect), counter)
    return msgspec.structs.replace(node, tokens=tokens, bytes=size)


def note_text(lineage: Lineage, budget: int, count: Callable[[str], int], head: Sequence[str] = ()) -> str:
    """The machine's note: what must be known and was never left to a summary. Empty when there is nothing to say.

    `budget` (tokens) bounds the anchors that are rendered; all of them stay in the view as data.
    """
    lines = list(head)
    lines += [f"pinned: {p.text}" for p in lineage.pins if p.text]
    lines += [_effect_line(e) for e in lineage.effects]
    if lineage.done:
        lines.append(f"done, not to be repeated (effect watermark seq {lineage.watermark}):")
        lines += [f"- {d.tool} (key {d.key}, seq {d.seq}){': ' + d.outcome if d.outcome else ''}" for d in lineage.done]
    waiting = open_calls(lineage.turns)
    if waiting:
        lines.append(f"calls without a result: {', '.join(waiting)}")
    lines += _kept_lines(lineage)
    facts = anchors.render(lineage.anchors, int(budget * ANCHOR_SHARE), count)
    if facts:
        lines.append(facts)
    if not lines:
        return ""
    return "\n".join([f"[lineal notes at seq {lineage.head}; kept by machine, said by nobody]", *lines])


def _effect_line(e: OpenEffect) -> str:
    where = f", ask {e.handle}" if e.handle else ""
    if e.state == "intended":
        return f"in flight: {e.tool} (key {e.key}, seq {e.seq}{where}), not settled"
    return f"unknown outcome: {e.tool} (key {e.key}, seq {e.seq}{where}), not to be repeated before it is resolved"


def _kept_lines(lineage: Lineage) -> list[str]:
    """Pinned turns that stand before a summary, with their seq: they are old, not fresh requests."""
    covered = lineage.covered_through
    pinned = {p.turn for p in lineage.pins if p.turn}
    old = [t for t in lineage.turns if t.id in pinned and t.seq < covered]
    return [f"turn {t.id} (seq {t.seq}, {t.author}) is kept verbatim from before; work went on since" for t in old]


def spoken(lineage: Lineage) -> str:
    """The dialect in which lineal speaks from now on: that of the newest turn that is no plain text, else as before."""
    turns = (t.dialect for t in reversed(lineage.turns) if t.dialect != "openai")
    before = (n.dialect for n in reversed(lineage.nodes) if n.dialect != "openai")
    return next(turns, None) or next(before, "openai")


def make_note(lineage: Lineage, budget: int, counter: Counter, head: Sequence[str] = ()) -> Note | None:
    """The note as an item of the view, measured as it will be shown."""
    text = note_text(lineage, budget, counter.count, head)
    return _note(lineage, lineage.head, text, counter) if text else None


def _note(lineage: Lineage, seq: int, text: str, counter: Counter) -> Note:
    dialect = spoken(lineage)
    tokens, size = measure(messages.machine_message(text, dialect), counter)
    return Note(seq, text, tokens, size, dialect)


def pin_note(lineage: Lineage, pin: Pin, counter: Counter) -> Note | None:
    """What the model is told at once when a text is pinned; the next note repeats it. A pinned turn is in the view already."""
    if not pin.text:
        return None
    return _note(lineage, lineage.head + 1, f"[lineal notes; kept by machine, said by nobody]\npinned: {pin.text}", counter)


def turn_message(item: TurnItem, message: Any) -> Any:
    """A turn as it is shown: as it was given, or with its oversized blocks as stubs."""
    shown = (messages.stub(message, item.stubbed, f"t:{item.id}") or message) if item.stubbed else message
    if item.late:
        return messages.machine_message(f"[lineal: late result, its call has left the view]\n{messages.text_of(shown)}", item.dialect)
    return shown


def render(lineage: Lineage, contents: Mapping[int, Any], dialect: str | None = None) -> list[Any]:
    """The view as messages, oldest first; `contents` maps a turn's seq to its message.

    Without `dialect` each turn is as it was given. A call that never got a result and is no longer the last thing said
    gets a derived one that says so, so that pairs are whole; nothing derived is ever written to the log.
    """
    found = [message for _, message in shown(lineage, contents, dialect)]
    return messages.convert(found, dialect) if dialect else found


def shown(lineage: Lineage, contents: Mapping[int, Any], dialect: str | None = None) -> Iterator[tuple[Item | Call, Any]]:
    """Each message in the order it is shown, with the item that it shows; a derived result comes with its call."""
    _refuse_orphans(lineage)
    unanswered = _to_close(lineage)
    for item in (i for group in _paired(lineage) for i in (*group, *_owed(group, unanswered))):
        if isinstance(item, Node):
            yield item, messages.machine_message(node_text(item), dialect or item.dialect)
        elif isinstance(item, Note):
            yield item, messages.machine_message(item.text, dialect or item.dialect)
        elif isinstance(item, _Owed):
            yield item.call, messages.missing_result(item.call, item.turn.dialect, contents[item.turn.seq])
        elif not item.gone:
            yield item, turn_message(item, contents[item.seq])


@dataclass(frozen=True)
class _Owed:
    """A call behind which the conversation went on without a result."""

    turn: TurnItem
    call: Call


def _paired(lineage: Lineage) -> list[list[Item]]:
    """The items in the order they are shown, each call with its results in one group (R11).

    Providers take a result only right behind its call, so one that came after other turns or notes is shown there. Turns
    that hold anything but results stay where they were said.
    """
    groups: list[list[Item]] = []
    asked: dict[str, list[Item]] = {}
    for item in lineage.items:
        callers = [asked[r.call] for r in item.results if r.call in asked] if isinstance(item, TurnItem) and _only_results(item) else []
        if callers and all(c is callers[0] for c in callers):
            callers[0].append(item)
            continue
        groups.append([item])
        if isinstance(item, TurnItem):
            asked.update({c.id: groups[-1] for c in item.calls})
    return groups


def _only_results(item: TurnItem) -> bool:
    """Whoever the author is: a tool, lineal that closed a call, a name that the caller gave. Mixed turns are a user's or an assistant's."""
    return item.role == "tool" or item.author not in ("user", "assistant")


def _owed(group: Sequence[Item], unanswered: set[tuple[int, str]]) -> list[_Owed]:
    turns = (i for i in group if isinstance(i, TurnItem) and not i.gone)
    return [_Owed(t, call) for t in turns for call in t.calls if (t.seq, call.id) in unanswered]


def _to_close(lineage: Lineage) -> set[tuple[int, str]]:
    """(seq, call id) of calls with no result, not even an interim one, behind which the conversation went on."""
    last = next((t.seq for t in reversed(lineage.turns) if not t.results and not t.late), 0)
    found: set[tuple[int, str]] = set()
    for unit in units(lineage.turns):
        waiting = set(unit.open) - {r.call for t in unit.turns for r in t.results}
        found |= {(t.seq, c.id) for t in unit.turns if t.seq < last for c in t.calls if c.id in waiting}
    return found


def _refuse_orphans(lineage: Lineage) -> None:
    """No result is shown without its call (R11). The compaction rule keeps units whole, so this can only be damage."""
    asked: set[str] = set()
    for turn in lineage.turns:
        asked.update(c.id for c in turn.calls)
    for turn in lineage.turns:
        for result in turn.results:
            if result.call not in asked and not turn.late and not turn.gone:
                raise Corrupt(lineage.session, turn.seq, f"the call of result {result.call!r} in the view", "none", "orphan result")
