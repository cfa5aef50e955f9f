"""What the model is shown: the view of a lineage as messages. Pure; the caller reads the turns' contents.

    leading instructions · summaries and spills where their turns stood · notes · verbatim turns

Everything that lineal itself says is labelled as such, is nobody's turn, and is never found by a lookup for the last
user or assistant turn (R21). The label names the handle under which the covered turns can be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

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


def make_note(lineage: Lineage, budget: int, counter: Counter, head: Sequence[str] = ()) -> Note | None:
    """The note as an item of the view, measured as it will be shown."""
    text = note_text(lineage, budget, counter.count, head)
    if not text:
        return None
    tokens, size = measure(messages.machine_message(text, "openai"), counter)
    return Note(lineage.head, text, tokens, size)


def pin_note(lineage: Lineage, pin: Pin, counter: Counter) -> Note | None:
    """What the model is told at once when a text is pinned; the next note repeats it. A pinned turn is in the view already."""
    if not pin.text:
        return None
    text = f"[lineal notes; kept by machine, said by nobody]\npinned: {pin.text}"
    tokens, size = measure(messages.machine_message(text, "openai"), counter)
    return Note(lineage.head + 1, text, tokens, size)


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
    _refuse_orphans(lineage)
    return messages.convert(found, dialect) if dialect else found


def shown(lineage: Lineage, contents: Mapping[int, Any], dialect: str | None = None) -> Iterator[tuple[Item | Call, Any]]:
    """Each message in the order it is shown, with the item that it shows; a derived result comes with its call."""
    spoken = dialect or messages.dialect_of([contents[t.seq] for t in lineage.turns if not t.gone])
    unanswered = _to_close(lineage)
    for item in _paired(lineage):
        if isinstance(item, Node):
            yield item, messages.machine_message(node_text(item), spoken)
        elif isinstance(item, Note):
            yield item, messages.machine_message(item.text, spoken)
        elif not item.gone:
            yield item, turn_message(item, contents[item.seq])
            for call in item.calls:
                if (item.seq, call.id) in unanswered:
                    yield call, messages.missing_result(call, item.dialect, contents[item.seq])


def _paired(lineage: Lineage) -> list[Item]:
    """The items in the order they are shown: a result that came after other turns is shown behind its call (R11).

    Providers take a result only right behind its call. Turns that hold anything but results stay where they were said.
    """
    behind: dict[int, list[TurnItem]] = {}
    moved: set[int] = set()
    asked: dict[str, int] = {}
    last_word = 0
    for turn in lineage.turns:
        asked.update({c.id: turn.seq for c in turn.calls})
        callers = {asked[r.call] for r in turn.results if r.call in asked}
        if turn.author == "tool" and len(callers) == 1 and (caller := callers.pop()) < last_word:
            behind.setdefault(caller, []).append(turn)
            moved.add(turn.seq)
        elif not turn.results:
            last_word = turn.seq
    if not moved:
        return list(lineage.items)
    order: list[Item] = []
    for item in lineage.items:
        if not (isinstance(item, TurnItem) and item.seq in moved):
            order.append(item)
        if isinstance(item, TurnItem):
            order.extend(behind.get(item.seq, ()))
    return order


def _to_close(lineage: Lineage) -> set[tuple[int, str]]:
    """(seq, call id) of calls with no final result behind which the conversation went on."""
    last = next((t.seq for t in reversed(lineage.turns) if not t.results and not t.late), 0)
    open_ids = [(t.seq, call) for u in units(lineage.turns) for call in u.open for t in u.turns if any(c.id == call for c in t.calls)]
    interim = {r.call for t in lineage.turns for r in t.results if not r.final}
    return {(seq, call) for seq, call in open_ids if seq < last and call not in interim}


def _refuse_orphans(lineage: Lineage) -> None:
    """No result is shown without its call (R11). The compaction rule keeps units whole, so this can only be damage."""
    asked: set[str] = set()
    for turn in lineage.turns:
        asked.update(c.id for c in turn.calls)
    for turn in lineage.turns:
        for result in turn.results:
            if result.call not in asked and not turn.late and not turn.gone:
                raise Corrupt(lineage.session, turn.seq, f"the call of result {result.call!r} in the view", "none", "orphan result")
