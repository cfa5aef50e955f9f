"""Histories of several processes on one session: is there one order in which all that was acknowledged stands once?

The log's own order is the candidate. It is held against every history:

| what is checked | by |
|---|---|
| an acknowledged append stands once, at the seq that was acknowledged; again only behind a rollback | ids of the log |
| what was asked and never answered stands at most once | ids of the log |
| the same id gives the same seq to everybody who asks | answers |
| what was answered before something else was asked stands before it (real time) | answers and times |
| heads that are read never go back (real time, across processes) | answers and times |
| a view that was shown is the fold of the log up to the seq that it names | answers, folded again |
| under one key one process at a time was told to send, and nobody after it was done | answers and times |
| an effect is begun again only behind an outcome that allows it | entries of the log |
| a rollback that expected a head stands right behind that head | answers |
| generations are committed once each, each on the one before; none is taken back but by a rollback | entries of the log |
| a fork that was made is there, whole | the store |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations

from lineal import codec
from lineal.engines import Row
from lineal.entries import CompactionCommitted, EffectIntended, EffectSettled, Entry, Node, Pinned, RolledBack, Turn, TurnAppended
from lineal.fold import fold
from lineal.lineage import TurnItem, empty

SHARED = tuple(f"shared{n}" for n in range(12))  # ids that several processes append


@dataclass(frozen=True)
class Operation:
    """One verb of one process. `answered` is 0 where no answer came; `ok` False where it was refused, which changes nothing.

    `value`: the seq or head that it was told; of an effect, whether it was done. `seen`: of a read what was shown, of a
    rollback the head that it expected. `pending`: it was told to send.
    """

    process: int
    verb: str
    name: str
    asked: float
    answered: float = 0.0
    ok: bool = False
    value: int = 0
    seen: str = ""
    pending: bool = False


def shown(generation: int, turns: Iterable[Turn | TurnItem], nodes: Iterable[Node]) -> str:
    """What a view shows, short enough to be written down."""
    told = [generation, [[t.id, t.seq] for t in turns], [[n.handle, [list(r) for r in n.ranges]] for n in nodes]]
    return codec.digest(codec.to_json(told)).hex()[:16]


def lost(history: Iterable[Operation], log: Sequence[tuple[int, Entry]]) -> Iterator[str]:
    """What was acknowledged and does not stand where it was said to stand; what stands twice; what nobody said."""
    history, places, pins = list(history), dict[str, list[int]](), {e.pin.text for _, e in log if isinstance(e, Pinned)}
    back = [(seq, e.target) for seq, e in log if isinstance(e, RolledBack)]
    for seq, entry in log:
        if isinstance(entry, TurnAppended):
            places.setdefault(entry.id, []).append(seq)
    for id, seqs in places.items():
        for first, again in pairwise(seqs):
            if not any(target < first < at < again for at, target in back):
                yield f"{id} stands at {first} and again at {again}"
    for operation in history:
        if operation.verb == "append" and operation.ok and operation.value not in places.get(operation.name, ()):
            yield f"{operation.name} was acknowledged at seq {operation.value} and stands at {places.get(operation.name)}"
        if operation.verb == "pin" and operation.ok and operation.name not in pins:
            yield f"the pin {operation.name} was acknowledged and is not in the log"
    asked = {operation.name for operation in history if operation.verb == "append"}
    yield from (f"{id} stands at seq {seqs[0]} and nobody said it" for id, seqs in places.items() if id not in asked)


def out_of_order(history: list[Operation], log: Sequence[tuple[int, Entry]]) -> Iterator[str]:
    """Answers that no single order of the operations, true to real time, can give."""
    answered = sorted((o for o in history if o.ok), key=lambda o: o.answered)
    yield from _not_in_real_time([o for o in answered if o.verb in ("append", "head", "read", "checkpoint", "rollback") and o.value])
    yield from _sent_twice([o for o in history if o.verb == "effect"])
    yield from _begun_again(log)
    acted = {seq for seq, e in log if isinstance(e, RolledBack)}
    for o in answered:
        if o.verb == "rollback" and o.value and (o.value != int(o.seen) + 1 or o.value not in acted):
            yield f"a rollback expected the head {o.seen} and stands at {o.value}"
    generation, newest = 0, 0
    for seq, entry in log:
        if isinstance(entry, RolledBack):
            generation = int(entry.past.get("generation", 0))
        if isinstance(entry, CompactionCommitted):
            if entry.parent != generation or entry.generation <= newest:
                yield f"generation {entry.generation} at seq {seq} follows {entry.parent}, the one before is {generation}"
            generation = newest = entry.generation


def _not_in_real_time(answered: list[Operation]) -> Iterator[str]:
    """Whoever asks after an answer came must be told of a head at least so far; what is fresh must stand behind it."""
    first: dict[str, Operation] = {}
    for operation in answered:
        if operation.verb == "append":
            first.setdefault(operation.name, operation)
    for later in answered:
        newest = max((o.value for o in answered if o.answered < later.asked), default=0)
        fresh = (
            first[later.name] is later and later.name not in SHARED if later.verb == "append" else later.verb in ("checkpoint", "rollback")
        )
        if later.verb in ("head", "read") and later.value < newest or fresh and later.value <= newest:
            yield f"{later.verb} {later.name} of process {later.process} gave {later.value} after {newest} had been acknowledged"


def _sent_twice(effects: list[Operation]) -> Iterator[str]:
    """Two that were told to send under one key: the first must have ended without effect before the second was told."""
    for key in {o.name for o in effects}:
        told = sorted((o for o in effects if o.name == key and o.pending), key=lambda o: o.answered)
        for first, second in pairwise(told):
            if first.value:
                yield f"{key} was done by process {first.process}, and process {second.process} was told to send it again"


def _begun_again(log: Iterable[tuple[int, Entry]]) -> Iterator[str]:
    """Intents of one key: behind each but the last stands an outcome that allows another attempt."""
    state: dict[str, str] = {}
    for seq, e in log:
        if isinstance(e, EffectIntended):
            if state.get(e.key, "no_effect") != "no_effect":
                yield f"{e.key} is begun at seq {seq}, and it was {state[e.key]}"
            state[e.key] = "intended"
        elif isinstance(e, EffectSettled):
            state[e.key] = e.state


def unlike(history: Iterable[Operation], rows: Iterable[tuple[Row, Entry]]) -> Iterator[str]:
    """Views that are not the fold of the log up to the seq that they name, folded once more from nothing."""
    read: dict[int, list[Operation]] = {}
    for operation in history:
        if operation.verb == "read" and operation.ok:
            read.setdefault(operation.value, []).append(operation)
    lineage = empty("agent", codec.seed("agent").hex())
    for row, entry in rows:
        lineage = fold(lineage, row.seq, row.digest.hex(), row.inner.hex(), entry)
        for operation in read.pop(row.seq, ()):
            if operation.seen != shown(lineage.generation, (t for t in lineage.turns if not t.gone), lineage.nodes):
                yield f"process {operation.process} was shown a view at seq {row.seq} that the log does not give"
    yield from (f"a view was shown at seq {seq}, which the log has not" for seq in read if seq)


def an_order_of(operations: Sequence[Operation]) -> tuple[Operation, ...] | None:
    """By brute force, for a few operations: an order true to real time in which each answer is right; None if there is none.

    The model is one number, the head: a fresh append goes above it, a repeated one gets its own seq again, a read tells of it.
    Entries that nobody told of may stand between.
    """
    for order in permutations(operations):
        timely = all(later.answered >= earlier.asked for i, earlier in enumerate(order) for later in order[i + 1 :])
        if timely and _right(order):
            return order
    return None


def _right(order: Sequence[Operation]) -> bool:
    head, known, done = 0, dict[str, int](), set[str]()
    for o in order:
        if o.verb == "effect":
            if o.pending and o.name in done:
                return False
            done |= {o.name} if o.value else set()
        elif o.verb == "append" and o.name in known:
            if o.value != known[o.name]:
                return False
        elif o.value < head or o.verb == "append" and o.value == head:
            return False
        else:
            head = o.value
            known |= {o.name: o.value} if o.verb == "append" else {}
    return True
