"""Every row of a store, changed at rest in every way: what of it is noticed, and when?

`lived` gives a store in which every verb was used. Each edit goes to copies of it, at one row. One copy is opened and asked
everything that can be asked, question by question, and then verified; in another, each effect of the ledger is begun again.

| an answer | is |
|---|---|
| as before the edit | true |
| an error of lineal's that says what was found | noticed |
| any other | undetected: damage that was read as sound |

The anchor lies elsewhere: whoever edits has the store and lineal's code, and not the anchor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from lineal import codec
from lineal.engines import Row
from lineal.errors import Corrupt, LinealError, Refused
from lineal.rules.integrity import CompactionVerdict as V
from lineal.session import Session
from lineal.session.outcomes import LedgerRow
from lineal.store import Store
from lineal.testing.lived import Kept, lived
from lineal.testing.scripts.places import InFile, InMemory
from lineal.testing.stories import POLICY, summarize
from lineal.testing.tally import Tally

# --- edits -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spot:
    """Where an edit strikes: a row, the rows before and behind it in its session, and a row of another session."""

    session: str
    before: tuple[Row, ...]
    row: Row
    behind: tuple[Row, ...]
    other: Row


Changes = dict[int, Row | None]  # what stands at these seqs afterwards
Change = Callable[[Spot], Changes]


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] if data else b"\x01"


def _here(change: Callable[[Row], Row]) -> Change:
    return lambda spot: {spot.row.seq: change(spot.row)}


def _key(row: Row, n: int) -> Row:
    keys = [*row.keys, *["made-up"] * (n + 1 - len(row.keys))]
    keys[n] = f"{keys[n]}-not"
    return replace(row, keys=tuple(keys))


def _dropped(count: int) -> Change:
    return lambda spot: {row.seq: None for row in (spot.row, *spot.behind)[:count]}


def _swapped(spot: Spot) -> Changes:
    first, second = spot.row, spot.behind[0] if spot.behind else spot.before[-1]
    return {first.seq: replace(second, seq=first.seq), second.seq: replace(first, seq=second.seq)}


def _the_one_before(spot: Spot) -> Changes:
    return {spot.row.seq: replace(spot.before[-1] if spot.before else spot.behind[0], seq=spot.row.seq)}


def _rewritten(row: Row) -> Row:
    """Other content, with every digest of the row itself right; a row without content is left."""
    if row.erased:
        return row
    body, said = re.subn(rb'"(content|outcome|label|text|why|note)":"', rb'"\1":"not ', row.body, count=1)
    if not said:
        body = row.body.replace(b'"at":1', b'"at":2', 1)
    return replace(row, body=body, size=len(body), inner=codec.digest(row.salt, body))


def _linked(row: Row, before: bytes) -> Row:
    return replace(row, digest=codec.link(before, row.seq, row.kind, row.generation, row.size, row.unique, row.keys, row.inner))


def _chained(spot: Spot, rows: Sequence[Row]) -> Changes:
    """These rows, chained to the row before the spot as lineal would have chained them."""
    before = spot.before[-1].digest if spot.before and spot.before[-1].seq == spot.row.seq - 1 else codec.seed(spot.session)
    made: Changes = {}
    for row in rows:
        linked = _linked(row, before)
        made[row.seq], before = linked, linked.digest
    return made


@dataclass(frozen=True)
class Edit:
    """`verdict` and `offsets`: what `verify` must say, at which seqs counted from the spot's.

    `or_else`: what it says where the generation of the rows around is another, or not known behind a hole.
    """

    change: Change
    verdict: V
    offsets: tuple[int, ...] = (0,)
    or_else: V = V.CHAIN_BROKEN


EDITS: dict[str, Edit] = {
    "a bit at the beginning": Edit(_here(lambda r: replace(r, body=_flipped(r.body, 0))), V.ALTERED),
    "a bit in the middle": Edit(_here(lambda r: replace(r, body=_flipped(r.body, len(r.body) // 2))), V.ALTERED),
    "a bit at the end": Edit(_here(lambda r: replace(r, body=_flipped(r.body, len(r.body) - 1))), V.ALTERED),
    "the body longer": Edit(_here(lambda r: replace(r, body=r.body + b" ")), V.ALTERED),
    "the body cut short": Edit(_here(lambda r: replace(r, body=r.body[:30])), V.TRUNCATED),
    "the body blanked": Edit(_here(lambda r: replace(r, body=b"", salt=b"")), V.PHANTOM_DELETION),
    "the salt": Edit(_here(lambda r: replace(r, salt=bytes(16))), V.ALTERED),
    "the inner digest": Edit(_here(lambda r: replace(r, inner=_flipped(r.inner, 0))), V.ALTERED),
    "the digest": Edit(_here(lambda r: replace(r, digest=_flipped(r.digest, 0))), V.CHAIN_BROKEN, (0, 1)),
    "the size": Edit(_here(lambda r: replace(r, size=r.size + 1)), V.ALTERED),
    "the generation": Edit(_here(lambda r: replace(r, generation=r.generation + 1)), V.MIXED_GENERATION_DETECTED),
    "the kind": Edit(_here(lambda r: replace(r, kind="pinned" if r.kind != "pinned" else "turn")), V.CHAIN_BROKEN),
    "the unique key": Edit(_here(lambda r: replace(r, unique=f"{r.unique}-not")), V.CHAIN_BROKEN),
    "a lookup key": Edit(_here(lambda r: _key(r, 0)), V.CHAIN_BROKEN),
    "a second lookup key": Edit(_here(lambda r: _key(r, 1)), V.CHAIN_BROKEN),
    "no keys": Edit(_here(lambda r: replace(r, unique=None, keys=())), V.CHAIN_BROKEN),
    "one deleted": Edit(_dropped(1), V.PHANTOM_DELETION),
    "three deleted": Edit(_dropped(3), V.PHANTOM_DELETION, (0, 1, 2)),
    "two swapped": Edit(_swapped, V.CHAIN_BROKEN, (0, 1, 2), V.MIXED_GENERATION_DETECTED),
    "the one before again": Edit(_the_one_before, V.CHAIN_BROKEN, (0, 1), V.MIXED_GENERATION_DETECTED),
    "another session's": Edit(
        lambda spot: {spot.row.seq: replace(spot.other, seq=spot.row.seq)}, V.CHAIN_BROKEN, (0, 1), V.MIXED_GENERATION_DETECTED
    ),
    "rewritten, with its digests": Edit(lambda spot: _chained(spot, [_rewritten(spot.row)]), V.CHAIN_BROKEN, (1,)),
    "rewritten, and chained to the end": Edit(lambda spot: _chained(spot, [_rewritten(spot.row), *spot.behind]), V.CUT_TAIL),
    "cut off from here": Edit(lambda spot: {row.seq: None for row in (spot.row, *spot.behind)}, V.CUT_TAIL),
}


def spots(kept: Kept) -> list[Spot]:
    """Every row of the store."""
    logs = kept.ask(lambda store: {name: tuple(store.engine.scan(name)) for name in store.sessions()})
    found = []
    for name, rows in logs.items():
        others = next(other for known, other in logs.items() if known != name)
        for n, row in enumerate(rows):
            found.append(Spot(name, rows[:n], row, rows[n + 1 :], others[n % len(others)]))
    return found


def strike(kept: Kept, spot: Spot, change: Change) -> Changes:
    """Carry the edit out. Empty if it changes nothing, which is no edit."""
    standing = {row.seq: row for row in (*spot.before, spot.row, *spot.behind)}
    changes = {seq: row for seq, row in change(spot).items() if standing.get(seq) != row}
    for seq in changes:
        kept.place.edit(spot.session, seq, None)
    for seq, row in changes.items():
        if row is not None:
            kept.place.edit(spot.session, seq, row)
    return changes


# --- questions -------------------------------------------------------------------------------------------------------

Answers = dict[str, Any]  # by question; an error where one was raised


def _asked(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except LinealError as error:
        return error


QUESTIONS: dict[str, Callable[[Session], Any]] = {
    "status": lambda s: replace(s.status(), latched=None),
    "messages": lambda s: s.messages(),
    "view": lambda s: replace(s.view(), effects=()),
    "turns": lambda s: s.turns(),
    "ledger": lambda s: [replace(row, note="") for row in s.ledger()],
    "checkpoints": lambda s: s.checkpoints(),
    "search": lambda s: [(hit.id, hit.text) for hit in s.search("request answer result", 50)],
    "handles": lambda s: [_asked_behind(s, node.handle) for node in s.view().summaries],
}


def _asked_behind(session: Session, handle: str) -> Any:
    """The turns behind a handle; that some are no longer retained is an answer too."""
    try:
        return session.expand(handle)
    except Refused as refusal:
        return refusal.reason


def answers(store: Store, name: str) -> Answers:
    """All that can be asked of a session without changing it."""
    session = _asked(lambda: store.session(name, POLICY, summarize))
    if isinstance(session, LinealError):
        return {"open": session}
    return {"open": None, **{asked: _asked(partial(question, session)) for asked, question in QUESTIONS.items()}}


def begun_again(store: Store, name: str, ledger: Sequence[LedgerRow]) -> Answers:
    """Each effect of the true ledger, begun once more: is it to be sent?"""
    session = _asked(lambda: store.session(name, POLICY, summarize))
    if isinstance(session, LinealError):
        return {"open": session}
    return {f"effect {row.key}": _asked(partial(_sends, session, row)) for row in ledger}


def _sends(session: Session, row: LedgerRow) -> tuple[bool, Any]:
    with session.effect(row.tool, row.shown, key=row.key if row.keyed else None) as effect:
        pending, result = effect.pending, effect.result
        if pending:
            effect.no_effect("it was only asked")
    return pending, result


def false(found: Answers, truth: Answers) -> Iterator[str]:
    """The answers that are neither true nor an error that says what was found."""
    for question, value in found.items():
        true = truth.get(question)
        if isinstance(value, Refused) and isinstance(true, Refused) and value.reason == true.reason:
            continue
        if isinstance(value, LinealError):
            if not isinstance(value, Corrupt) and not (isinstance(value, Refused) and value.reason == "latched"):
                yield f"{question} is refused for another reason: {value}"
        elif value != true:
            yield f"{question} is answered {_shortly(value)}, and not {_shortly(true)}"


def _shortly(value: Any) -> str:
    return f"{value!r:.120}"


# --- the campaign ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Truth:
    """What a session answered before anything was changed."""

    answers: Answers
    effects: Answers
    ledger: tuple[LedgerRow, ...]


def truths(kept: Kept) -> dict[str, Truth]:
    found = {}
    for name in kept.ask(lambda store: store.sessions()):
        told = kept.ask(partial(answers, name=name))
        copy = kept.copy()
        found[name] = Truth(told, copy.ask(partial(begun_again, name=name, ledger=told["ledger"])), tuple(told["ledger"]))
        copy.forget()
    return found


def campaign(folder: Path | None = None, progress: Callable[[int, int], None] | None = None, every: int = 1) -> Tally:
    """All edits at every row (or each `every`-th place), on a SQLite file in `folder`, or (None) on the memory engine."""
    kept = lived(InFile(folder / "whole.db") if folder else InMemory())
    known, places = truths(kept), [(name, spot) for spot in spots(kept) for name in EDITS][::every]
    tally = Tally()
    for n, (name, spot) in enumerate(places, 1):
        tally += one(kept, known[spot.session], name, spot)
        if progress:
            progress(n, len(places))
    return tally


def one(kept: Kept, truth: Truth, name: str, spot: Spot) -> Tally:
    """One edit at one row: how it was noticed, or which answers were false."""
    edit, where = EDITS[name], f"{name} at {spot.session} {spot.row.seq} ({spot.row.kind})"
    read, acted = kept.copy(), kept.copy()
    tally = Tally(runs=1)
    changes = strike(read, spot, edit.change)
    if changes and strike(acted, spot, edit.change):
        tally.faults[name] += 1
        found = read.ask(lambda store: answers(store, spot.session))
        sends = acted.ask(lambda store: begun_again(store, spot.session, truth.ledger))
        wrong = [*false(found, truth.answers), *false(sends, truth.effects)]
        tally.undetected += [f"{where}: {sentence}" for sentence in wrong]
        reports = read.ask(lambda store: store.verify(spot.session))
        tally.states[_noticed(found, sends, reports.damaged)] += 1
        expected = {edit.verdict, edit.or_else, *([V.CUT_TAIL] if len(spot.behind) <= len(edit.offsets) else [])}
        bare = any(row and row.erased for row in (spot.row, *(changes.values() if edit.verdict is not V.PHANTOM_DELETION else ())))
        if not any(r.verdict in expected for r in reports) and not bare:
            tally.broken.append(f"{where}: verify says {[r.verdict.name for r in reports]}, and not {edit.verdict.name}")
    read.forget()
    acted.forget()
    return tally


def _noticed(found: Answers, sends: Answers, damaged: bool) -> str:
    if isinstance(found["open"], LinealError):
        return "noticed when opened"
    if any(isinstance(value, Corrupt) for value in found.values()):
        return "noticed when read"
    if any(isinstance(value, Corrupt) for value in sends.values()):
        return "noticed when an effect is begun"
    return "named by verify() only, and every answer is true" if damaged else "did no harm: every answer is true"
