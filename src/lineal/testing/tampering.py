"""Every row of a store, changed at rest in every way: what of it is noticed, and when?

The store is the one that `stories.STORY` leaves behind, which has every kind of entry. Each edit goes to a copy of it, at one
row; then the copy is opened and read as an agent reads it, and verified. An edit may be noticed by reading, by `verify()`, or
do no harm (everything that can be asked has the true answer); anything else is undetected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from lineal.engines import Row
from lineal.errors import LinealError, Refused
from lineal.holder import release
from lineal.store import Store
from lineal.testing.faults import FaultyEngine
from lineal.testing.scripts.places import InFile, InMemory, Place
from lineal.testing.stories import POLICY, STORY, Tale, portrait, summarize
from lineal.testing.tally import Tally

Edit = Callable[[Row, Row], dict[int, Row | None]]  # a row and the one behind it -> what stands at these seqs then


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def _here(change: Callable[[Row], Row]) -> Edit:
    return lambda row, behind: {row.seq: change(row)}


EDITS: dict[str, Edit] = {
    "a flipped bit at the beginning": _here(lambda r: replace(r, body=_flipped(r.body, 0)) if r.body else replace(r, size=r.size + 1)),
    "a flipped bit at the end": _here(lambda r: replace(r, body=_flipped(r.body, -1 % len(r.body))) if r.body else replace(r, body=b"{}")),
    "a cut body": _here(lambda r: replace(r, body=r.body[: len(r.body) // 2] or b"x")),
    "an emptied body": _here(lambda r: replace(r, body=b"", salt=b"") if r.body else replace(r, body=b"{}", salt=b"s" * 16)),
    "another kind": _here(lambda r: replace(r, kind="pinned" if r.kind != "pinned" else "turn")),
    "another generation": _here(lambda r: replace(r, generation=r.generation + 1)),
    "another size": _here(lambda r: replace(r, size=r.size + 1)),
    "another salt": _here(lambda r: replace(r, salt=_flipped(r.salt, 0) if r.salt else b"s" * 16)),
    "another inner digest": _here(lambda r: replace(r, inner=_flipped(r.inner, 0))),
    "another link": _here(lambda r: replace(r, digest=_flipped(r.digest, 0))),
    "a dropped row": lambda row, behind: {row.seq: None},
    "two rows swapped": lambda row, behind: {row.seq: replace(behind, seq=row.seq), behind.seq: replace(row, seq=behind.seq)},
    "a row doubled over the next": lambda row, behind: {behind.seq: replace(row, seq=behind.seq)},
}


def campaign(folder: Path | None = None, progress: Callable[[int, int], None] | None = None, every: int = 1) -> Tally:
    """All edits at every row (or each `every`-th place), on a SQLite file in `folder`, or (None) on the memory engine."""
    whole = _told(InFile(folder / "whole.db") if folder else InMemory())
    truth = _answers(whole.copy())
    places = [(name, *pair) for name in EDITS for pair in _pairs(whole)]
    tally = Tally()
    for n, (name, session, row, behind) in enumerate(places[::every], 1):
        tally += _one(whole, truth, name, session, EDITS[name](row, behind))
        if progress:
            progress(n, len(places[::every]))
    return tally


def _told(place: Place) -> Place:
    """The place, once the whole story was told there."""
    Tale(FaultyEngine(place.open()), place.open, lambda name: None).play(STORY)
    return place


def _pairs(place: Place) -> Iterator[tuple[str, Row, Row]]:
    """Each row with its session and the row behind it."""
    engine = place.open()
    try:
        for name in engine.sessions():
            mine = list(engine.scan(name))
            yield from ((name, row, behind) for row, behind in zip(mine, mine[1:], strict=False))
    finally:
        engine.close()


def _one(whole: Place, truth: Any, name: str, session: str, edit: dict[int, Row | None]) -> Tally:
    copy = whole.copy()
    for seq, row in edit.items():
        copy.edit(session, seq, row)
    tally = Tally(runs=1)
    tally.faults[name] += 1
    try:
        if _answers(copy) != truth:
            where = f"{name} at {session} {', '.join(map(str, edit))}"
            tally.undetected.append(f"{where}: everything reads as sound, and is not what was written")
        elif _verified(copy):
            tally.states["did no harm: every answer is true"] += 1
        else:
            tally.states["noticed by verify()"] += 1
    except LinealError as error:
        tally.states[f"noticed by reading: {type(error).__name__}"] += 1
    if isinstance(copy, InFile):
        for left in copy.path.parent.glob(f"{copy.path.name}*"):
            left.unlink()
    return tally


def _answers(place: Place) -> Any:
    """All that can be asked of the store without changing it. Raises what a reader would be told."""
    engine = place.open()
    try:
        seen = portrait(engine)["seen"]
        store = Store(engine)
        more: dict[str, Any] = {}
        for name in store.sessions():
            session = store.session(name, POLICY, summarize)
            nodes = {node.handle: _expanded(session, node.handle) for node in session.view().summaries}
            more[name] = (nodes, [hit.id for hit in session.search("request answer result")], session.status().head)
        release(store.holder)
        return seen, more
    finally:
        engine.close()


def _expanded(session: Any, handle: str) -> list[tuple[str, Any]] | str:
    """The turns behind the handle; that some are no longer retained is an answer too."""
    try:
        return [(turn.id, turn.message) for turn in session.expand(handle)]
    except Refused as refusal:
        return refusal.reason


def _verified(place: Place) -> bool:
    engine = place.open()
    try:
        return Store(engine).verify().clean
    finally:
        engine.close()
