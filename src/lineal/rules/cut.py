"""What a compaction would cover: units, what protects them, and the cut between covered and kept. Pure.

A unit is a call with all its results, in any order, with other records between; it is never split (R11).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lineal.entries import Node
from lineal.lineage import Item, Lineage, TurnItem, place
from lineal.policy import Policy

SYSTEM_ROLES = ("system", "developer")
HUGE = 65_536  # bytes: whoever said it, a turn above this holds a document or media
STUB_LIMIT = 1_024  # bytes: a block that is put aside to make the floor fit is shown as a stub above this

# --- units: a call and all its results are never split (R11) -----------------------------------------------------------


@dataclass(frozen=True)
class Unit:
    """Turns that only leave the view together. `open` lists calls that have no final result yet."""

    turns: tuple[TurnItem, ...]
    open: tuple[str, ...] = ()


def units(turns: Sequence[TurnItem]) -> list[Unit]:
    """The turns grouped into units, in order of each unit's first turn.

    A result belongs to the newest call of its id that has no final result yet: models re-use ids.
    """
    parent = list(range(len(turns)))

    def root(i: int) -> int:
        while parent[i] != i:
            i = parent[i]
        return i

    asked: dict[str, list[int]] = {}  # call id -> turns that asked and are not finally answered, oldest first
    said: dict[str, int] = {}  # call id -> turn that asked last, answered or not
    early: dict[str, list[tuple[int, bool]]] = {}  # call id -> turns with a result that came before its call; whether final
    for i, turn in enumerate(turns):
        for call in turn.calls:
            said[call.id] = i
            before = early.pop(call.id, [])
            for j, _ in before:
                parent[root(j)] = root(i)
            if not any(final for _, final in before):
                asked.setdefault(call.id, []).append(i)
        for result in turn.results:
            waiting = asked.get(result.call, [])
            owner = waiting[-1] if waiting else said.get(result.call)
            if owner is None:
                early.setdefault(result.call, []).append((i, result.final))
                continue
            parent[root(i)] = root(owner)
            if result.final and waiting:
                waiting.pop()
    groups: dict[int, list[int]] = {}
    for i in range(len(turns)):
        groups.setdefault(root(i), []).append(i)
    open_in: dict[int, list[str]] = {}
    for call_id, i in ((call_id, i) for call_id, waiting in asked.items() for i in waiting):
        open_in.setdefault(root(i), []).append(call_id)
    found = [Unit(tuple(turns[i] for i in members), tuple(open_in.get(r, ()))) for r, members in groups.items()]
    return sorted(found, key=lambda u: u.turns[0].seq)


def open_calls(turns: Sequence[TurnItem]) -> tuple[str, ...]:
    """Ids of calls in the view without a final result, oldest first."""
    return tuple(c for u in units(turns) for c in u.open)


# --- the cut -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """What a compaction would do. Ids of turns and handles of nodes; together the whole window (R8)."""

    covered: tuple[Item, ...]
    kept: tuple[Item, ...]
    floor: tuple[TurnItem, ...]
    put_aside: tuple[TurnItem, ...] = ()
    held_by: tuple[str, ...] = ()
    later: tuple[Item, ...] = ()  # kept for now though nothing protects them: the next pass may cover them

    @property
    def covered_ids(self) -> tuple[str, ...]:
        return tuple(name(i) for i in self.covered)

    @property
    def kept_ids(self) -> tuple[str, ...]:
        return tuple(name(i) for i in self.kept)


def name(item: Item) -> str:
    """A turn's id or a node's handle."""
    return item.id if isinstance(item, TurnItem) else item.handle if isinstance(item, Node) else ""


def floor_of(turns: Sequence[TurnItem], policy: Policy) -> tuple[TurnItem, ...]:
    return tuple(turns[-policy.floor_turns :]) if policy.floor_turns else ()


def newest_user(turns: Sequence[TurnItem]) -> TurnItem | None:
    """The newest turn in the view that a user said (R12)."""
    return next((t for t in reversed(turns) if t.author == "user"), None)


def protected(lineage: Lineage, policy: Policy) -> dict[str, str]:
    """Turn id -> why it must stay verbatim: floor, pin, leading instructions, newest user turn, open call, or their unit.

    A unit that lies on both sides of the newest user turn stays too: its summary could stand on neither (R11, R12).
    """
    turns = lineage.turns
    why: dict[str, str] = {}
    for turn in turns:
        if turn.role not in SYSTEM_ROLES:
            break
        why[turn.id] = "instructions"
    newest = newest_user(turns)
    if newest:
        why[newest.id] = "newest user turn"
    pinned = {p.turn for p in lineage.pins if p.turn}
    why.update({t.id: "pinned" for t in turns if t.id in pinned})
    why.update({t.id: "floor" for t in floor_of(turns, policy)})
    for unit in units(turns):
        reason = "open call" if unit.open else next((f"unit of {t.id}" for t in unit.turns if t.id in why), None)
        if newest and unit.turns[0].seq < newest.seq < unit.turns[-1].seq:
            reason = reason or f"unit around {newest.id}"
        if reason:
            for turn in unit.turns:
                why.setdefault(turn.id, reason)
    return why


def cut(lineage: Lineage, policy: Policy, fill_to: int = 0) -> Cut:
    """Cover everything that nothing protects; with `fill_to` (tokens) keep newer units verbatim up to that size.

    No summary of older turns may come to stand behind the newest user turn (R12): where coverable items lie on both
    sides of it, the heavier side is covered and the other waits for the next pass.
    """
    why = protected(lineage, policy)
    shown = [i for i in lineage.items if isinstance(i, TurnItem | Node)]
    free: list[Item] = [i for i in shown if name(i) not in why]
    if fill_to:
        room = fill_to - sum(i.tokens for i in shown if name(i) in why)
        free = _leave_newest(free, lineage, room)
    covered = _one_side(free, lineage)
    chosen = {name(i) for i in covered}
    kept = tuple(i for i in shown if name(i) not in chosen)
    return Cut(
        covered=tuple(covered),
        kept=kept,
        floor=floor_of(lineage.turns, policy),
        put_aside=_put_aside(kept, lineage, policy),
        later=tuple(i for i in free if name(i) not in chosen),
        held_by=tuple(sorted({w for w in why.values() if w != "floor"})),
    )


def _leave_newest(free: list[Item], lineage: Lineage, room: int) -> list[Item]:
    """`free` without the newest whole units that fit into `room` tokens."""
    free_ids = {name(i) for i in free}
    left: set[str] = set()
    for unit in reversed(units(lineage.turns)):
        ids = {t.id for t in unit.turns}
        if not ids & free_ids:
            continue
        room -= sum(t.tokens for t in unit.turns)
        if room < 0 or not ids <= free_ids:
            break
        left |= ids
    return [i for i in free if name(i) not in left]


def _one_side(free: list[Item], lineage: Lineage) -> list[Item]:
    newest = newest_user(lineage.turns)
    asked = newest.seq if newest else 0
    before = [i for i in free if place(i) < asked]
    behind = [i for i in free if place(i) > asked]
    return max(before, behind, key=lambda side: (_worth(side), sum(i.tokens for i in side)))


def _worth(items: Iterable[Item]) -> bool:
    """Nodes alone are worth no pass: nothing new would be covered, and a summary of a summary only loses (R24)."""
    return any(isinstance(i, TurnItem) for i in items)


def _put_aside(kept: Sequence[Item], lineage: Lineage, policy: Policy) -> tuple[TurnItem, ...]:
    """The largest kept tool results and media to show as stubs, until what is kept fits under the ceilings with a summary.

    What a person said, and what is pinned, stays word for word.
    """
    pinned = {p.turn for p in lineage.pins}
    movable = (i for i in kept if isinstance(i, TurnItem) and not i.gone and i.id not in pinned)
    turns = sorted((t for t in movable if t.author == "tool" or t.bytes > HUGE), key=lambda t: t.bytes, reverse=True)
    tokens = sum(i.tokens for i in kept) + min(policy.summary_max_tokens, policy.target)
    size = sum(i.bytes for i in kept)
    chosen: list[TurnItem] = []
    for turn in turns:
        if tokens * lineage.factor + lineage.overhead <= policy.ceiling and size <= policy.ceiling_bytes:
            break
        if turn.bytes <= STUB_LIMIT or turn.stubbed == STUB_LIMIT:
            break
        chosen.append(turn)
        tokens -= turn.tokens - STUB_LIMIT // 3
        size -= turn.bytes - STUB_LIMIT
    return tuple(chosen)


def spill_cut(lineage: Lineage, policy: Policy, tokens: int, size: int, items: int) -> tuple[Item, ...]:
    """The oldest unprotected units to put aside byte-exact until the view has at most these tokens, bytes and items.

    Spilled nodes among them are taken along, so that there is one stub and not a row of them. Summaries stay.
    """
    why = protected(lineage, policy)
    newest = newest_user(lineage.turns)
    asked = newest.seq if newest else 0
    free = [u for u in units(lineage.turns) if not any(t.id in why for t in u.turns)]
    side = [u for u in free if u.turns[-1].seq < asked] or [u for u in free if u.turns[0].seq > asked]
    left = (lineage.view_tokens, lineage.bytes, len(lineage.items))
    taken: list[Item] = []
    for unit in side:
        if left[0] <= tokens and left[1] <= size and left[2] <= items:
            break
        taken += unit.turns
        gone = int(sum(t.tokens for t in unit.turns) * lineage.factor)
        left = (left[0] - gone, left[1] - sum(t.bytes for t in unit.turns), left[2] - len(unit.turns))
    if not taken:
        return ()
    through = max(place(i) for i in taken)
    same_side = (n for n in lineage.nodes if (place(n) < asked) == (through < asked))
    taken += [n for n in same_side if n.kind == "spill" and place(n) < through]
    return tuple(sorted(taken, key=place))


def over(lineage: Lineage, tokens: int, size: int, items: int) -> bool:
    """Whether the view is above any of the three budgets (R26)."""
    return lineage.view_tokens > tokens or lineage.bytes > size or len(lineage.items) > items


def above_trigger(lineage: Lineage, policy: Policy) -> bool:
    return over(lineage, policy.trigger, policy.ceiling_bytes, policy.ceiling_items)


def above_ceiling(lineage: Lineage, policy: Policy) -> bool:
    return over(lineage, policy.ceiling, policy.ceiling_bytes, policy.ceiling_items)
