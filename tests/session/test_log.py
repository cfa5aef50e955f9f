"""The log: one writer's rows and their fold, read again by anybody, and what happens when a row is not what it was."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lineal import codec
from lineal.engines import Row
from lineal.engines.memory import MemoryEngine
from lineal.entries import CompactionBegun, Entry, Unknown
from lineal.errors import Conflict, Corrupt, LinealError, Refused, Unavailable
from lineal.fold import check_items, fold
from lineal.holder import release
from lineal.lineage import Lineage, empty
from lineal.policy import Policy
from lineal.rules.cut import units
from lineal.session import Session
from lineal.session.log import STATE_EVERY
from lineal.store import Store
from lineal.testing.faults import FaultyEngine

PLACE = (1 << 36) - 1


def from_scratch(session: Session) -> Lineage:
    """The lineage, folded from nothing but the entries."""
    lineage = empty(session.name, codec.seed(session.name).hex())
    for row, entry in session.log.entries():
        lineage = fold(lineage, row.seq, row.digest.hex(), row.inner.hex(), entry)
    return lineage


# --- writing -------------------------------------------------------------------------------------------------------------


def test_a_decision_is_asked_again_after_a_lost_race(house: Any, say: Any) -> None:
    """R32: what was decided for an older head is not written for a newer one."""
    one, other = house.session(), house.session()
    asked: list[int] = []

    def decide(lineage: Lineage) -> list[Entry]:
        asked.append(lineage.head)
        if len(asked) == 1:
            other.append(say.user(1))
        return [Unknown(name="x.mark", raw=b'{"v":1,"kind":"x.mark"}')] if lineage.head < 5 else []

    lineage, rows = one.log.write(decide)
    assert asked == [0, 1]
    assert (lineage.head, [r.seq for r in rows]) == (2, [2])


def test_a_decision_for_nothing_writes_nothing(session: Session) -> None:
    assert session.log.write(lambda lineage: []) == (session.log.lineage, [])
    assert session.status().head == 0


def test_what_a_decision_raises_is_raised_and_nothing_written(session: Session) -> None:
    def decide(lineage: Lineage) -> list[Entry]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        session.log.write(decide)
    assert session.status().head == 0


def test_a_race_that_is_always_lost_ends_by_a_deadline(say: Any, brief: Any) -> None:
    """R37: by time, not by attempts, and never by going on without writing."""

    class Hurried:
        up = 0.0

        def wall(self) -> float:
            return 0.0

        def boot(self) -> float:
            self.up += 5.0
            return self.up

    class Contended(MemoryEngine):
        def append(self, session: str, expected_seq: int, rows: Any) -> None:
            raise Conflict(session, expected_seq, expected_seq + 1)

    session = Store(Contended(), clock=Hurried()).session("a", summarizer=brief)
    with pytest.raises(Conflict):
        session.append(say.user(1))


def test_a_mistyped_argument_never_becomes_an_entry(session: Session, say: Any) -> None:
    """R59: the log holds nothing that cannot be read again."""
    session.append(say.user(1))
    before = session.status()
    for attempt in (
        lambda: session.effect("t", {}, key=5).__enter__(),  # type: ignore[arg-type]
        lambda: session.effect(None, {}).__enter__(),  # type: ignore[arg-type]
        lambda: session.checkpoint(5),  # type: ignore[arg-type]
        lambda: session.record_usage(1.5),  # type: ignore[arg-type]
        lambda: session.note_eviction(["@1"], None),  # type: ignore[arg-type]
    ):
        with pytest.raises(LinealError) as error:
            attempt()
        assert not isinstance(error.value, Corrupt)
    assert session.status() == before
    assert session.verify().clean


# --- reading back --------------------------------------------------------------------------------------------------------


def test_opening_reads_the_newest_state_and_the_tail_behind_it(say: Any, brief: Any) -> None:
    """DESIGN section 6: not history."""
    engine = FaultyEngine(MemoryEngine())
    session = Store(engine).session("a", Policy(trigger=900, target=300, floor_turns=4), brief)
    for n in range(STATE_EVERY + 40):
        session.append({"role": "user", "content": f"turn {n}"})
        if n % 50 == 0:
            session.compact()
    newest = max(engine.engine.states("a"))
    read: list[int] = []
    scan = engine.engine.scan

    def counting(name: str, after: int = 0, until: int | None = None, kinds: Any = None) -> Any:
        for row in scan(name, after, until, kinds):
            read.append(row.seq)
            yield row

    engine.engine.scan = counting  # type: ignore[method-assign]
    again = Store(engine).session("a", summarizer=brief)
    assert min(read) >= newest and len(read) <= session.log.lineage.head - newest + 1
    assert again.log.lineage == session.log.lineage


def test_states_are_kept_now_and_then_by_themselves(session: Session) -> None:
    for n in range(STATE_EVERY + 5):
        session.append({"role": "user", "content": f"turn {n}"})
    assert session.engine.states(session.name) != []


def test_a_damaged_or_foreign_state_is_passed_over(session: Session, house: Any, fill: Any) -> None:
    """It is only an index: the log says what is true."""
    fill(session, 6)
    session.log.keep_state()
    fill(session, 6, 6)
    session.engine.put_state(session.name, 12, b"nonsense")
    session.engine.put_state(session.name, 11, session.engine.state(session.name, 6)[1])
    assert house.session().log.lineage == session.log.lineage


def test_any_seq_can_be_folded_again(session: Session, fill: Any, brief: Any) -> None:
    fill(session, 10)
    lineages = {session.log.lineage.head: session.log.lineage}
    session.compact(brief)
    lineages[session.log.lineage.head] = session.log.lineage
    fill(session, 4, 10)
    session.checkpoint()
    lineages[session.log.lineage.head] = session.log.lineage
    for seq, lineage in lineages.items():
        assert session.log.at(seq) == lineage
        assert session.log.at_from(0, seq) == lineage


def test_reading_a_range_checks_its_links(session: Session, fill: Any) -> None:
    fill(session, 6)
    assert [row.seq for row, _ in session.log.entries(2, 4)] == [3, 4]
    assert [row.seq for row, _ in session.log.rows([(1, 2), (5, 5)])] == [1, 2, 5]
    assert [row.seq for row, _ in session.log.entries(kinds=("turn",), after=4)] == [5, 6]
    assert [row.seq for row, _ in session.log.find("turn:t3")] == [4]


# --- unknown kinds -------------------------------------------------------------------------------------------------------


def foreign(session: Session, body: bytes, kind: str) -> None:
    """A row as a later version would have written it: in the chain, with a kind we do not know."""
    lineage = session.log.catch_up()
    salt, before = b"s" * 16, bytes.fromhex(lineage.digest)
    inner = codec.digest(salt, body)
    digest = codec.link(before, lineage.head + 1, kind, lineage.generation, len(body), None, (), inner)
    session.engine.append(
        session.name, lineage.head, [Row(lineage.head + 1, kind, lineage.generation, len(body), salt, body, inner, digest)]
    )


def test_another_programs_annotation_is_carried_and_changes_nothing(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R57: byte for byte, through compaction and reopening."""
    fill(session, 6)
    shown = session.messages()
    raw = b'{"v":3,"kind":"x.tracer","span":1.50}'
    foreign(session, raw, "x.tracer")
    assert session.messages() == shown
    fill(session, 6, 6)
    session.compact(brief)
    again = house.reopen(session)
    assert [e.raw for _, e in again.log.entries() if isinstance(e, Unknown)] == [raw]
    assert again.verify().clean


@pytest.mark.parametrize("body", [b'{"v":2,"kind":"turn","id":"x"}', b'{"v":1,"kind":"dream"}'], ids=["format", "kind"])
def test_an_entry_of_a_later_version_is_refused_not_skipped(house: Any, session: Session, fill: Any, body: bytes) -> None:
    """R57: never treated as live, never as nothing; the store is left as it is."""
    fill(session, 4)
    foreign(session, body, "dream")
    with pytest.raises(Unavailable, match="upgrade"):
        session.messages()
    with pytest.raises(Unavailable, match="seq 5"):
        house.reopen(session)


# --- damage --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def damaged(file_house: Any, fill: Any) -> Any:
    """Give it a statement over the table `entries`; it runs while nobody has the file open, and the store opens again."""
    session = file_house.session()
    fill(session, 12)
    file_house.close()

    def damage(statement: str) -> Any:
        with sqlite3.connect(file_house.path) as db:
            assert db.execute(statement).rowcount > 0
        db.close()
        return file_house

    return damage


def body_at(seq: int) -> str:
    return f"id & {PLACE} = {seq}"


ALTERED = "UPDATE entries SET body = CAST(replace(body, 'part', 'tarp') AS BLOB) WHERE " + body_at(7)
CASES = [
    ("ALTERED", ALTERED, 7),
    ("TRUNCATED", f"UPDATE entries SET body = substr(body, 1, 40) WHERE {body_at(7)}", 7),
    ("PHANTOM_DELETION", f"DELETE FROM entries WHERE {body_at(7)}", 7),
    ("PHANTOM_DELETION", f"UPDATE entries SET body = x'', salt = x'' WHERE {body_at(7)}", 7),
    ("CHAIN_BROKEN", f"UPDATE entries SET key1 = CAST('turn:t0' AS BLOB) WHERE {body_at(7)}", 7),
    ("CHAIN_BROKEN", f"UPDATE entries SET kind = CAST('pinned' AS BLOB) WHERE {body_at(7)}", 7),
]


@pytest.mark.parametrize(("verdict", "statement", "seq"), CASES, ids=[f"{v}-{i}" for i, (v, *_) in enumerate(CASES)])
def test_a_row_that_is_not_what_was_written_stops_the_read(damaged: Any, verdict: str, statement: str, seq: int) -> None:
    """R59, R5, R61: loudly, with its seq, never a shorter history; verify names it and the rest can be salvaged."""
    store = damaged(statement).open()
    with pytest.raises(Corrupt) as damage:
        store.session("agent", summarizer=str)
    assert damage.value.seq == seq and damage.value.session == "agent"
    assert verdict in [r.verdict.name for r in store.verify("agent")]
    assert any(seq in r.seqs for r in store.verify("agent"))
    kept = [t.seq for t in store.salvage("agent")]
    assert set(kept) >= set(range(1, 13)) - {seq}


def test_the_first_detection_latches_until_verify_succeeds(damaged: Any, say: Any) -> None:
    """R6: durable, for every handle, through reopening; lifted only once nothing is wrong."""
    house = damaged(ALTERED)
    with pytest.raises(Corrupt):
        house.session()
    house.close()
    with sqlite3.connect(house.path) as db:
        db.execute(ALTERED.replace("'part', 'tarp'", "'tarp', 'part'"))
    db.close()
    session = house.session()
    assert session.status().latched and "7" in session.status().latched
    assert len(session.messages()) == 12, "what is sound can be read"
    for write in (lambda: session.append(say.user(1)), session.checkpoint, session.plan_compaction, lambda: session.pin("x")):
        with pytest.raises(Refused) as refusal:
            write()
        assert refusal.value.reason == "latched" and "verify" in refusal.value.remedy
    assert session.verify().clean and session.status().latched is None
    assert house.reopen(session).append(say.user(1)).seq == 13


def test_verify_latches_what_it_finds_and_repeats_it(file_house: Any, fill: Any, say: Any) -> None:
    """R6: found while the session is open, too."""
    session = file_house.session()
    fill(session, 12)
    with sqlite3.connect(file_house.path) as db:
        db.execute(ALTERED)
    db.close()
    assert session.verify().damaged and session.verify().damaged
    with pytest.raises(Refused):
        session.append(say.user(1))
    with pytest.raises(Corrupt):
        session.messages()


def test_what_is_read_for_show_is_read_for_preview_too(file_house: Any, fill: Any) -> None:
    """R5: the same verified read behind every verb."""
    session = file_house.session()
    fill(session, 12)
    with sqlite3.connect(file_house.path) as db:
        db.execute(ALTERED)
    db.close()
    for read in (session.messages, session.turns, session.view, lambda: session.expand("t6"), lambda: session.search("part")):
        with pytest.raises(Corrupt):
            read()


# --- any story -----------------------------------------------------------------------------------------------------------


class Story:
    """A session that is driven by numbers, and what must hold after each step."""

    def __init__(self, say: Any, brief: Any):
        self.say, self.brief, self.engine = say, brief, MemoryEngine()
        self.policy = Policy(trigger=500, ceiling=900, target=200, floor_turns=2, summary_max_tokens=150, stub_bytes=2_000)
        self.name, self.n = "agent", 0
        self.session = self.opened()
        self.open: list[str] = []
        self.effects: list[Any] = []
        self.settled: dict[str, str] = {}
        self.pruned = self.request_purged = False

    def opened(self) -> Session:
        return Store(self.engine).session(self.name, self.policy, self.brief)

    def play(self, step: int) -> None:
        self.n += 1
        verbs = (
            self.user, self.answer, self.user, self.answer, self.call, self.result, self.result, self.pending, self.huge, self.reuse,
            self.pin, self.unpin, self.compact, self.automatic, self.abandoned, self.spill, self.evict, self.checkpoint, self.rollback,
            self.usage, self.begin, self.settle, self.doubt, self.resolve, self.other_handle, self.prune, self.purge, self.recover,
            self.fork, self.dead_plan,
        )  # fmt: skip
        try:
            verbs[step % len(verbs)]()
        except (Refused, Conflict):
            self.session.log.catch_up()

    def user(self) -> None:
        self.request_purged = False
        self.session.append(self.say.user(self.n), id=f"u{self.n}")

    def answer(self) -> None:
        self.session.append(self.say.answer(self.n), id=f"a{self.n}")

    def call(self) -> None:
        self.session.append(self.say.call(f"c{self.n}", args={"n": self.n % 3}), id=f"k{self.n}")
        self.open.append(f"c{self.n}")

    def reuse(self) -> None:
        self.session.append([self.say.call("same"), self.say.result("same")])

    def result(self) -> None:
        if self.open:
            self.session.append(self.say.result(self.open.pop(self.n % len(self.open))))

    def pending(self) -> None:
        if self.open:
            self.session.append(self.say.result(self.open[-1], status="pending"))

    def huge(self) -> None:
        if self.open:
            self.session.append(self.say.result(self.open.pop(), "x" * 3_000))

    def turns(self) -> list[str]:
        return [t.id for t in self.session.log.lineage.turns]

    def pin(self) -> None:
        ids = self.turns()
        self.session.pin(ids[self.n % len(ids)] if ids and self.n % 2 else f"constraint {self.n}: keep it")

    def unpin(self) -> None:
        pins = self.session.log.lineage.pins
        if pins:
            self.session.unpin(pins[self.n % len(pins)].id)

    def compact(self) -> None:
        self.session.compact()

    def automatic(self) -> None:
        self.session.maybe_compact()

    def abandoned(self) -> None:
        self.session.abort_compaction(self.session.plan_compaction())

    def spill(self) -> None:
        ids = self.turns()
        self.session.spill(ids[: 1 + self.n % 3])

    def checkpoint(self) -> None:
        self.session.checkpoint(f"label {self.n}")

    def rollback(self) -> None:
        self.session.rollback(max(0, self.session.status().head - 1 - self.n % 9))

    def usage(self) -> None:
        self.session.record_usage(self.session.status().tokens + self.n % 20)

    def begin(self) -> None:
        self.effects.append(self.session.effect("deploy", {"n": self.n % 4}, key=f"k{self.n}" if self.n % 2 else None).__enter__())

    def settle(self) -> None:
        if self.effects and (effect := self.effects.pop()).pending:
            effect.settle({"n": self.n}) if self.n % 3 else effect.no_effect("refused")

    def doubt(self) -> None:
        if self.effects:
            self.effects.pop().__exit__(None, None, None)

    def resolve(self) -> None:
        unknown = self.session.status().unknown_effects
        if unknown:
            self.session.resolve_effect(unknown[0], ("happened", "not_happened", "compensated")[self.n % 3])

    def evict(self) -> None:
        ids = self.turns()
        self.session.note_eviction(ids[:1], by="host")

    def other_handle(self) -> None:
        self.opened().append(self.say.user(self.n), id=f"o{self.n}")
        self.session.messages()

    def prune(self) -> None:
        self.pruned |= self.session.prune(before=max(1, self.session.status().head - 10)).entries > 0

    def purge(self) -> None:
        ids = self.turns()
        if ids:
            self.session.purge([ids[self.n % len(ids)]])
            self.request_purged = True

    def recover(self) -> None:
        self.session.recover()

    def fork(self) -> None:
        """Go on in a fork, at the head or before it."""
        back = self.n % 7 if self.n % 2 else 0
        self.session = self.session.fork(f"fork {self.n}", at=max(0, self.session.status().head - back))
        self.name, self.effects = self.session.name, []

    def dead_plan(self) -> None:
        """Somebody began a compaction and died."""
        other = self.opened()
        other.plan_compaction()
        release(other.holder)

    # --- the oracle ------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """R8, R9, R11, R12, R25, R45, R59: after every step of every story."""
        live = self.session.log.catch_up()
        check_items(live.items)
        again = self.opened()
        assert again.log.lineage == live, "the reopened state is the live one"
        if not self.pruned:
            assert from_scratch(self.session) == live, "so is everything folded from nothing"
        shown = self.session.messages()
        assert again.messages() == shown and again.status() == self.session.status()
        for unit in units(live.turns):
            asked = {c.id for t in unit.turns for c in t.calls}
            assert all(r.call in asked for t in unit.turns for r in t.results), "no result without its call"
        users = [t for t in live.turns if t.author == "user"]
        if users and not live.promised and not self.request_purged:
            assert not any(n.ranges[0][0] < users[-1].seq < n.covered_through for n in live.nodes), (
                "nothing older stands behind the newest request"
            )
        ids = [t.id for t in self.session.turns()]
        assert len(ids) == len(set(ids)), "each once"
        self.check_coverage(live)
        self.check_ledger()
        assert self.session.verify().clean or live.in_flight, list(self.session.verify())

    def check_coverage(self, live: Lineage) -> None:
        """Every turn of this branch stands in exactly one place: in the view, or behind exactly one handle."""
        verbatim = {t.seq for t in live.turns}
        for turn in self.session.turns():
            behind = [n.handle for n in live.nodes if any(a <= turn.seq <= b for a, b in n.ranges)]
            assert (turn.seq in verbatim) + len(behind) == 1, (turn.id, behind)

    def check_ledger(self) -> None:
        """What is done never becomes undone without somebody saying so."""
        for row in self.session.ledger():
            before = self.settled.get(row.key)
            assert before is None or row.state == before or (before == "done" and row.state == "compensated") or row.resolved, row
            if row.state in ("done", "compensated"):
                self.settled[row.key] = row.state


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(st.integers(0, 29), min_size=5, max_size=40))
def test_any_story_folds_to_the_same_memory(say: Any, brief: Any, steps: list[int]) -> None:
    """R45 and the oracle of REQUIREMENTS: live, reopened and folded from nothing are one, whatever was done."""
    story = Story(say, brief)
    for step in [0, 1, *steps]:
        story.play(step)
        story.check()


def test_an_open_plan_survives_in_every_reading(session: Session, house: Any, fill: Any) -> None:
    fill(session, 10)
    session.plan_compaction()
    assert house.session().log.lineage == session.log.lineage == from_scratch(session)
    assert isinstance([e for _, e in session.log.entries()][-1], CompactionBegun)
    assert msgspec.structs.asdict(session.log.lineage)["in_flight"] is not None


def test_the_path_of_the_file_is_nobodys_business(file_house: Any, say: Any, tmp_path: Path) -> None:
    """A log is its rows: a copy of the file is the same memory."""
    session = file_house.session()
    session.append(say.user(1))
    file_house.close()
    (tmp_path / "copy.db").write_bytes(file_house.path.read_bytes())
    file_house.path = tmp_path / "copy.db"
    assert file_house.session().messages() == [say.user(1)]
