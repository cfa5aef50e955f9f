"""Prune by age, by number and by size: each only chooses below which seq entries may go; what is needed stays all the same."""

from __future__ import annotations

from typing import Any

import pytest

from lineal.engines.memory import MemoryEngine
from lineal.entries import Unknown
from lineal.errors import PolicyError
from lineal.policy import Policy
from lineal.session import Session
from lineal.store import Store
from lineal.testing.clock import JumpingClock

POLICY = Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4, summary_max_tokens=200)


def seqs(session: Session) -> list[int]:
    return [row.seq for row in session.engine.scan(session.name)]


def bodies(session: Session) -> int:
    return sum(row.size for row in session.engine.scan(session.name) if row.seq not in session.log.erased() and row.kind != "segment")


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
def days(clock: JumpingClock, fill: Any, brief: Any) -> Session:
    """Four days of sixteen turns each, compacted every evening."""
    session = Store(MemoryEngine(), clock=clock).session("agent", POLICY, brief)
    for day in range(4):
        fill(session, 16, 16 * day)
        session.compact()
        clock.pass_time(86_400)
    return session


def test_what_is_older_may_go(days: Session) -> None:
    before = days.messages()
    first_of_third = next(row.seq for row, e in days.log.entries() if getattr(e, "id", "") == "t32")
    dry = days.prune(older_than=2 * 86_400 + 1, dry_run=True)
    pruned = days.prune(older_than=2 * 86_400 + 1)
    assert pruned.ranges == dry.ranges and pruned.ranges[-1][1] == first_of_third - 1
    assert days.messages() == before and days.verify().clean
    assert days.prune(older_than=30 * 86_400).entries == 0
    assert days.prune(older_than=0).entries > 0, "all that is not of this moment"


def test_a_clock_that_was_set_back_keeps_more(days: Session, clock: JumpingClock, fill: Any) -> None:
    """Below the first entry that is young enough: what was recorded under a wrong clock behind it takes nothing with it."""
    clock.step(-40 * 86_400)
    fill(days, 1, 70)
    clock.step(40 * 86_400)
    fill(days, 1, 71)
    days.log.write(lambda lineage: [Unknown(name="x.mood", raw=b'{"v":1,"kind":"x.mood"}')])
    head = days.status().head
    assert all(last < head - 2 for _, last in days.prune(older_than=86_400).ranges)


def test_the_newest_entries_stay(days: Session) -> None:
    newest = seqs(days)[-30:]
    pruned = days.prune(keep_entries=30)
    assert pruned.entries and set(newest) <= set(seqs(days)) and pruned.ranges[-1][1] < newest[0]
    assert days.verify().clean
    assert days.prune(keep_entries=0).entries > 0


@pytest.mark.parametrize("packed", [False, True])
def test_the_oldest_go_until_the_rest_fits(days: Session, packed: bool) -> None:
    if packed:
        days.pack()
    had = bodies(days)
    assert days.prune(max_bytes=had).entries == 0
    most = had * 3 // 4
    before, dry = seqs(days), days.prune(max_bytes=most, dry_run=True)
    pruned = days.prune(max_bytes=most)
    assert pruned.ranges == dry.ranges
    gone = sorted(set(before) - set(seqs(days)))
    marks = sum(r.size for r in days.engine.scan("agent", before[-1]))
    assert had * 3 // 5 < bodies(days) - marks <= most
    kept_below = [s for s in seqs(days) if s < gone[-1]]
    kinds = {r.seq: r.kind for r in days.engine.scan("agent")}
    assert all(kinds[s] not in ("turn", "usage") for s in kept_below), "only what is needed stays among the oldest"
    days.prune(max_bytes=0)
    assert days.verify().clean and days.messages()


def test_of_several_the_most_careful_holds(days: Session) -> None:
    by_age, by_number = days.prune(older_than=2 * 86_400 + 1, dry_run=True), days.prune(keep_entries=60, dry_run=True)
    both = days.prune(older_than=2 * 86_400 + 1, keep_entries=60, dry_run=True)
    assert both.ranges == min(by_age.ranges, by_number.ranges, key=lambda ranges: ranges[-1][1])
    assert days.prune(before=3, older_than=0, dry_run=True).ranges == ((1, 2),)
    assert days.prune(before=1, dry_run=True).entries == days.prune(before=9, max_bytes=1 << 40, dry_run=True).entries == 0


@pytest.mark.parametrize(
    "wrong", [{"older_than": -1}, {"older_than": "30d"}, {"older_than": float("nan")}, {"keep_entries": -1}, {"max_bytes": 1.5}], ids=str
)
def test_what_is_no_bound_is_refused(days: Session, wrong: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        days.prune(**wrong)
