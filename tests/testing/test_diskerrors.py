"""The disk fails while a session lives (R1, R30, E9): a sample of the places; `diskerrors.campaign()` takes all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from lineal.engines import Row
from lineal.engines.sqlite import SqliteEngine
from lineal.errors import Unavailable
from lineal.testing import diskerrors
from lineal.testing.diskerrors import TROUBLES, Trouble
from lineal.testing.tally import table

EVERY: dict[Trouble, int] = {"full": 61, "read": 53, "write": 67, "sync": 14, "truncate": 13, "delete": 1, "create": 23, "rename": 19}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_session_outlives_a_disk_that_fails(trouble: Trouble, tell: Callable[[str], None]) -> None:
    """Who works is told; what was acknowledged is there; the same session goes on; a power cut behind a failed sync takes nothing."""
    heard: list[tuple[int, int]] = []
    tally = diskerrors.campaign(every=EVERY[trouble], troubles=[trouble], workers=1, progress=lambda done, of: heard.append((done, of)))
    tell(table([(f"disk errors: {trouble}", tally)]))
    assert tally.wrong() == [] and tally.runs == tally.faults[f"disk: {trouble}"] >= 2
    assert tally.runs == tally.states["told"] + tally.states["harmless"]
    assert tally.states["told"] or trouble == "delete"
    assert heard[-1][0] == heard[-1][1]


def test_the_campaign_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that keeps the disk's error to itself is found out: what it acknowledged is not there."""
    append = SqliteEngine.append

    def says_it_did(engine: SqliteEngine, session: str, expected_seq: int, rows: Sequence[Row]) -> None:
        with suppress(Unavailable):
            append(engine, session, expected_seq, rows)

    monkeypatch.setattr(SqliteEngine, "append", says_it_did)
    tally = diskerrors.campaign(every=80, troubles=["write"], workers=1)
    assert any("cut tail" in sentence for sentence in tally.wrong())
