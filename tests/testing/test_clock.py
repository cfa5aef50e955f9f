"""Clocks jump; leases do not care, unless the holder is on another machine (R3, R33). The table of `lineal.holder`, lived through."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from lineal import holder
from lineal.engines.memory import MemoryEngine
from lineal.errors import CompactionLineageError, Refused
from lineal.holder import Clock
from lineal.session import Session
from lineal.session.outcomes import Plan
from lineal.store import Store
from lineal.testing import JumpingClock
from lineal.testing.faults import FaultyEngine
from lineal.testing.lasting import Lasting
from lineal.testing.stories import NAME, POLICY, STORY, Tale, answer, portrait, reference, same, summarize, user

HOUR = 3_600.0


class Two:
    """Two stores on one engine, as two processes would have it; both go by one clock."""

    def __init__(self) -> None:
        self.clock, self.engine = JumpingClock(), MemoryEngine()
        self.stores: list[Store] = []

    def open(self) -> Session:
        self.stores.append(Store(self.engine, clock=self.clock))
        return self.stores[-1].session(NAME, POLICY, summarize)

    def compacting(self) -> tuple[Session, Plan]:
        """A session that has begun a compaction, and has not ended it."""
        session = self.open()
        for n in range(1, 8):
            session.append([user(n), answer(n)], id=[f"u{n}", f"a{n}"])
        plan = session.plan_compaction()
        assert isinstance(plan, Plan)
        return session, plan


@pytest.fixture
def two() -> Iterator[Two]:
    made = Two()
    yield made
    for store in made.stores:
        holder.release(store.holder)


def test_the_clock_stands_still_until_it_is_moved() -> None:
    clock: JumpingClock = JumpingClock(100.0, 10.0)
    as_clock: Clock = clock
    assert [as_clock.wall(), as_clock.wall(), as_clock.boot(), as_clock.boot()] == [100.0, 100.0, 10.0, 10.0]
    clock.pass_time(5)
    clock.step(-50)
    assert (clock.wall(), clock.boot()) == (55.0, 15.0)
    clock.set_back(1)
    assert (clock.wall(), clock.boot()) == (55.0, 14.0)
    with pytest.raises(ValueError, match="cannot pass"):
        clock.pass_time(-1)
    ticking = JumpingClock(100.0, 10.0, each=1.0)
    assert (ticking.wall(), ticking.boot(), ticking.wall()) == (101.0, 12.0, 103.0)


@pytest.mark.parametrize("jumps", [(5 * HOUR,), (-5 * HOUR,), (24 * HOUR, -48 * HOUR, 24 * HOUR)], ids=["forwards", "back", "to and fro"])
def test_a_live_compaction_is_not_taken_over_because_the_wall_clock_jumped(two: Two, jumps: tuple[float, ...]) -> None:
    """R3, R33: same boot, a process that lives: the other one waits, and the first commits."""
    session, plan = two.compacting()
    for jump in jumps:
        two.clock.step(jump)
        other = two.open()
        with pytest.raises(CompactionLineageError):
            other.recover()
        with pytest.raises(Refused) as refusal:
            other.plan_compaction()
        assert refusal.value.reason == "in_flight"
    session.commit_compaction(plan, summarize(plan.request))
    assert session.view().generation == 1 and session.verify().clean


def test_a_lease_that_ran_out_is_fenced_by_the_clock_since_boot(two: Two) -> None:
    """R33: the wall clock went back meanwhile; the other takes over, and the late commit is refused."""
    session, plan = two.compacting()
    two.clock.pass_time(POLICY.lease_seconds)
    two.clock.step(-24 * HOUR)
    other = two.open()
    assert other.recover().aborted == 1
    before = other.messages()
    with pytest.raises(Refused):
        session.commit_compaction(plan, summarize(plan.request))
    assert other.messages() == before and other.verify().clean


def test_an_effect_of_a_live_process_stays_its_own_whatever_the_clocks_say(two: Two) -> None:
    """R47, R48: what is being done to the world cannot be fenced; only the end of its process makes it unknown."""
    session = two.open()
    session.append([user(1), answer(1)])
    with session.effect("deploy", {"to": "staging"}, key="deploy:1") as effect:
        two.clock.step(-9 * HOUR)
        two.clock.pass_time(10 * POLICY.lease_seconds)
        other = two.open()
        other.recover()
        with pytest.raises(Refused) as refusal, other.effect("deploy", {"to": "staging"}, key="deploy:1"):
            pytest.fail("it was sent twice")
        assert refusal.value.reason == "busy"
        effect.settle("done")
    assert [(one.key, one.state) for one in two.open().ledger()] == [("deploy:1", "done")]


def test_an_effect_of_a_dead_process_is_unknown_whatever_the_clocks_say(two: Two) -> None:
    session = two.open()
    session.append([user(1), answer(1)])
    with session.effect("deploy", {"to": "staging"}, key="deploy:1"):
        holder.release(two.stores[0].holder)  # as the end of its process does
        two.clock.step(-9 * HOUR)
        other = two.open()
        assert other.recover().unknown == ("deploy:1",)


def test_a_holder_on_another_machine_is_judged_by_the_wall_clock_and_fenced(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """R33: there is nothing better there. A jump may cost work, never truth."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(holder.socket, "gethostname", lambda: "another machine")
        session, plan = two.compacting()
    two.clock.pass_time(10 * HOUR)
    two.clock.step(-10 * HOUR)
    with pytest.raises(CompactionLineageError):
        two.open().recover()
    two.clock.step(5 * HOUR)
    other = two.open()
    assert other.recover().aborted == 1
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(holder.socket, "gethostname", lambda: "another machine")
        with pytest.raises(Refused):
            session.commit_compaction(plan, summarize(plan.request))
    assert other.view().generation == 0 and other.verify().clean


def test_a_holder_of_an_earlier_boot_is_dead_at_once(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    """R33: even where its lease runs by both clocks."""
    with monkeypatch.context() as earlier:
        earlier.setattr(holder, "_boot_id", lambda: "the boot before")
        two.compacting()
    two.clock.set_back(900)
    two.clock.step(-5 * HOUR)
    assert two.open().recover().aborted == 1


@pytest.mark.parametrize("seed", range(3))
def test_the_whole_story_is_the_same_under_a_clock_that_jumps_at_every_step(seed: int) -> None:
    """R3: nothing is ordered by a clock: each step leaves the store that it leaves under a sound one, and all of it verifies."""
    whole, chance, lasting, clock = reference(), random.Random(seed), Lasting(), JumpingClock(each=0.001)
    told: list[str] = []

    def tell(name: str) -> None:
        clock.step(chance.uniform(-100, 100) * HOUR)
        clock.pass_time(chance.choice((0, 1, 20)))
        told.append(name)
        if name in whole.ends:
            assert same(portrait(lasting), whole.portraits[whole.ends[name]], exact=True), name

    Tale(FaultyEngine(lasting), lambda: lasting, tell, clock=clock).play(STORY)
    assert [name for name in told if name in whole.ends] == [step.name for step in STORY]
    assert all(Store(lasting).session(name, POLICY, summarize).verify().clean for name in lasting.sessions())
