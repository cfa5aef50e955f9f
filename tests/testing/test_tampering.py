"""Every way of changing a row at rest is noticed, on each engine, and the campaign can find one that is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lineal import codec
from lineal.engines import Row
from lineal.entries import Entry
from lineal.session.log import Log
from lineal.testing import tampering


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
def test_no_edit_is_read_as_sound(engine: str, tmp_path: Path) -> None:
    """R59, R61: a sample of the rows of a store with every kind of entry; each edit is among them."""
    tally = tampering.campaign(tmp_path if engine == "sqlite" else None, every=11)
    assert tally.sound, tally.wrong()
    assert set(tally.faults) == set(tampering.EDITS) and tally.runs > 90
    assert tally.states["noticed by reading: Corrupt"] > tally.runs / 2


def test_the_campaign_finds_a_reader_that_checks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def trusting(self: Log, row: object, before: bytes) -> None:
        return None

    monkeypatch.setattr(Log, "_refuse_unless_linked", trusting)
    monkeypatch.setattr(Log, "entry", _believing(Log.entry))
    tally = tampering.campaign(every=7)
    assert tally.undetected and "is not what was written" in tally.undetected[0]


def _believing(checked: Callable[[Log, Row], Entry]) -> Callable[[Log, Row], Entry]:
    return lambda log, row: checked(log, row) if row.erased else codec.decode(row.body, log.session, row.seq)
