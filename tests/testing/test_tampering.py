"""Every way of changing a row at rest is noticed, on each engine, and the campaign can find one that is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lineal import codec
from lineal.anchor import HeadAnchor
from lineal.engines import Row
from lineal.entries import ENTRY_TYPES, Entry
from lineal.session import effects, travel
from lineal.session.log import Log
from lineal.testing import tampering
from lineal.testing.lived import Kept, lived
from lineal.testing.scripts.places import InMemory
from lineal.testing.tally import Tally


@pytest.fixture(scope="module")
def kept() -> Kept:
    return lived(InMemory())


@pytest.mark.parametrize(("engine", "every"), [("memory", 37), ("sqlite", 91)])
def test_no_edit_is_read_as_sound(engine: str, every: int, tmp_path: Path, tell: Callable[[str], None]) -> None:
    """R59, R61: a sample of the rows of a store with every kind of entry; each edit is among them, and is named."""
    tally = tampering.campaign(tmp_path if engine == "sqlite" else None, every=every)
    assert tally.sound, tally.wrong()
    assert set(tally.faults) == set(tampering.EDITS)
    noticed = tally.states["noticed when opened"] + tally.states["noticed when read"]
    assert noticed > 0.9 * sum(tally.faults.values())
    tell(f"tampering on {engine}: {sum(tally.faults.values())} edits, {noticed} noticed by who only reads, 0 undetected")


def test_the_store_that_is_changed_has_every_kind_of_entry(kept: Kept) -> None:
    kinds = {spot.row.kind for spot in tampering.spots(kept)}
    assert kinds >= {str(kind.__struct_config__.tag) for kind in ENTRY_TYPES}
    assert codec.PRUNED in kinds and any(spot.row.erased for spot in tampering.spots(kept))


def believing(checked: Callable[[Log, Row], Entry]) -> Callable[[Log, Row], Entry]:
    return lambda log, row: checked(log, row) if row.erased else codec.decode(row.body, log.session, row.seq)


def nothing(*args: object) -> None:
    return None


def disarm_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "_refuse_unless_linked", nothing)
    monkeypatch.setattr(Log, "_refuse_unless_followed", nothing)
    monkeypatch.setattr(Log, "entry", believing(Log.entry))


def disarm_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "_refuse_unless_followed", nothing)


def disarm_chains_of_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    for room in (effects, travel):
        monkeypatch.setattr(room, "find_all", lambda log, lineage, key, chain, limit=None: log.find(key, limit))
    monkeypatch.setattr(effects, "refuse_unless_all", nothing)


def disarm_the_anchor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeadAnchor, "check", nothing)


DISARMED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str, Callable[[tampering.Spot], bool]]] = {
    "no digest is checked": (disarm_digests, "a bit in the middle", lambda spot: spot.row.kind == "turn"),
    "no row is held against the one behind": (disarm_what_follows, "rewritten, with its digests", lambda spot: spot.row.kind == "turn"),
    "an absent effect was never sent": (disarm_chains_of_entries, "one deleted", lambda spot: spot.row.kind == "effect_intended"),
    "an absent checkpoint was never taken": (disarm_chains_of_entries, "one deleted", lambda spot: spot.row.kind == "checkpoint"),
    "no anchor is asked": (disarm_the_anchor, "rewritten, and chained to the end", lambda spot: spot.row.kind == "turn"),
}


@pytest.mark.parametrize("how", DISARMED)
def test_the_campaign_finds_a_reader_that_checks_less(how: str, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check is needed: without it some answer is false, and the campaign says which."""
    disarm, edit, struck = DISARMED[how]
    known = tampering.truths(kept)
    disarm(monkeypatch)
    places = [spot for spot in tampering.spots(kept) if struck(spot) and not spot.row.erased]
    tally = sum((tampering.one(kept, known[spot.session], edit, spot) for spot in places), Tally())
    assert any(" is answered " in sentence for sentence in tally.undetected), tally.states
