"""Packing: the content of old rows moves into compressed segments, and nothing that anybody sees changes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from lineal.engines.memory import MemoryEngine
from lineal.errors import Unavailable
from lineal.policy import Policy
from lineal.rules.integrity import CompactionVerdict
from lineal.session import Session, segments
from lineal.session.outcomes import Compacted, Record
from lineal.store import Store
from lineal.testing.faults import FaultyEngine

SECRET = "hunter2-very-secret"
POLICY = Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4, summary_max_tokens=200)
SOUND = ("POST_COMPACTION_CLEAN", "COMPACTION_IN_PROGRESS")


def seen(session: Session) -> dict[str, Any]:
    """Everything that a caller can read."""
    view = session.view()
    return {
        "messages": session.messages(),
        "turns": [(t.seq, t.id, t.author, t.message, t.digest) for t in session.turns()],
        "view": (view.tokens, view.bytes, view.items, view.summaries, view.pins, view.anchors, view.done, view.watermark),
        "ledger": session.ledger(),
        "checkpoints": session.checkpoints(),
        "expanded": [[t.message for t in session.expand(n.handle)] for n in view.summaries],
        "found": [(h.seq, h.text) for h in session.search("part plan request")],
        "kept": session.kept("graph", "g"),
    }


def grown(session: Session, fill: Any, brief: Any) -> None:
    """A log in which a little of everything is old."""
    fill(session, 8)
    with session.effect("deploy", {"n": 1}, key="k") as effect:
        effect.settle({"version": 7})
    session.keep("graph", "g", [Record({"n": n}, key=f"r{n}", turns=("t1",)) for n in range(3)])
    session.checkpoint("early")
    fill(session, 8, 8)
    assert isinstance(session.compact(brief), Compacted)
    fill(session, 16, 16)
    assert isinstance(session.compact(brief), Compacted)
    fill(session, 2, 32)


def raw(session: Session) -> list[int]:
    return [row.seq for row in session.engine.scan(session.name) if not row.erased]


def rows_of(session: Session, kind: str) -> list[Any]:
    return list(session.engine.scan(session.name, 0, None, (kind,)))


def test_a_pack_changes_nothing_that_is_seen(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R46, R59, R61: view, turns, handles, ledger, records and search read as before; the old rows keep only their headers."""
    grown(session, fill, brief)
    before, headers = seen(session), [(r.seq, r.kind, r.inner, r.digest, r.keys) for r in session.engine.scan(session.name)]
    packed = session.pack()
    assert packed.entries > 20 and packed.segments == len(packed.seqs) == 1 and packed.bytes_after < packed.bytes_before
    assert seen(session) == before and session.verify().clean
    assert [(r.seq, r.kind, r.inner, r.digest, r.keys) for r in session.engine.scan(session.name)][: len(headers)] == headers
    shown = {t.seq for t in session.view().turns}
    assert shown <= set(raw(session)) and not {s for a, b in packed.runs for s in range(a, b + 1)} & set(raw(session))
    again = house.reopen(session)
    assert seen(again) == before and again.verify().clean
    fill(again, 12, 40)
    assert isinstance(again.compact(brief), Compacted) and again.verify().clean


def test_nothing_that_is_shown_is_packed_and_the_second_pack_has_nothing_to_do(session: Session, fill: Any, brief: Any) -> None:
    fill(session, 6)
    assert session.pack().entries == 0 and str(session.pack()) == "nothing to pack"
    fill(session, 16, 6)
    session.compact(brief)
    assert session.pack().entries
    head = session.status().head
    assert session.pack().entries == 0 and session.status().head == head


def test_a_dry_run_gives_the_same_figures(session: Session, fill: Any, brief: Any) -> None:
    """R43."""
    grown(session, fill, brief)
    before = session.status()
    dry = session.pack(dry_run=True)
    assert session.status() == before and dry.dry_run and "would pack" in str(dry)
    real = session.pack()
    assert (real.runs, real.entries, real.bytes_before, real.segments) == (dry.runs, dry.entries, dry.bytes_before, dry.segments)
    assert abs(real.bytes_after - dry.bytes_after) < 100, "but for the times in it"


def test_what_lies_above_the_bound_stays_raw(session: Session, fill: Any, brief: Any) -> None:
    grown(session, fill, brief)
    assert session.pack(before=10).runs == ((1, 9),)
    assert session.pack(before=12).entries == 2


def test_opening_appending_and_showing_read_no_segment(
    house: Any, session: Session, fill: Any, brief: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What decides is never behind a segment: also without the library the session opens, goes on, recovers and compacts."""
    grown(session, fill, brief)
    checkpoint = session.checkpoint("here")
    session.pack()

    def refuse(asked: str) -> Any:
        raise Unavailable(f"{asked}:", "zstandard is not installed", "pip install 'lineal[pack]'")

    monkeypatch.setattr(segments, "_zstandard", refuse)
    again = house.reopen(session)
    fill(again, 2, 60)
    again.messages(), again.view(), again.status(), again.recover(), again.checkpoints()
    with again.effect("deploy", {"n": 2}, key="new") as effect:
        effect.settle("ok")
    again.rollback(checkpoint) if False else None
    for ask in (again.turns, again.verify, again.pack, lambda: again.expand("g1"), lambda: again.search("plan")):
        with pytest.raises(Unavailable, match="lineal\\[pack\\]"):
            ask()
    assert again.status().latched is None, "what cannot be read here is not damaged"


def test_a_rollback_and_a_recovery_go_over_packed_rows(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R39, R45: every seq below is what it was."""
    grown(session, fill, brief)
    early = next(c for c in session.checkpoints() if c.label == "early")
    past = {seq: session.log.at(seq).items for seq in range(1, session.status().head + 1)}
    session.pack()
    again = house.reopen(session)
    for seq in [*again.engine.states(again.name)]:
        again.engine.delete_states(again.name, [seq]) if seq < 20 else None
    assert {seq: again.log.at(seq).items for seq in past} == past
    again.rollback(early)
    assert [t.id for t in again.view().turns] == [f"t{n}" for n in range(8)]
    assert again.verify().clean and again.recover()
    assert house.reopen(again).verify().clean


@pytest.mark.parametrize("at", [None, 9, "early"])
def test_a_fork_has_whole_rows_and_needs_no_segment(house: Any, session: Session, fill: Any, brief: Any, at: Any) -> None:
    """R45: byte for byte, also when the parent is gone."""
    grown(session, fill, brief)
    expected = session.fork("raw", at=at)
    session.pack()
    child = session.fork("child", at=at)
    assert child.messages() == expected.messages()
    assert [(t.seq, t.message, t.digest) for t in child.turns()] == [(t.seq, t.message, t.digest) for t in expected.turns()]
    assert child.verify().clean and all(r.erased for r in rows_of(child, "segment"))
    session.store.delete("agent")
    other = house.session("child")
    assert other.turns() == child.turns() and other.verify().clean
    fill(other, 20, 50)
    other.compact(brief)
    before = seen(other)
    assert other.pack().entries and seen(other) == before and other.verify().clean


def test_small_segments_of_a_block_are_joined(session: Session, fill: Any, brief: Any) -> None:
    """Packing often costs no space in the end."""
    for n in range(4):
        fill(session, 16, 16 * n)
        session.compact(brief)
        before = seen(session)
        packed = session.pack()
        assert packed.entries and packed.segments == 1 and seen(session) == before and session.verify().clean
    full = [row for row in rows_of(session, "segment") if not row.erased]
    assert len(rows_of(session, "segment")) == 4 and len(full) == 1


def test_a_segment_keeps_within_its_block_and_its_size(session: Session, fill: Any, brief: Any) -> None:
    for n in range(0, 1_200, 40):
        session.append([{"role": "user", "content": f"{n + i}"} for i in range(40)])
    session.append({"role": "user", "content": "x" * (segments.PLAIN_MAX + 10)})
    session.append([{"role": "user", "content": f"{'y' * 400_000}{i}"} for i in range(8)])
    fill(session, 8)
    session.compact(brief)
    before = session.turns()
    packed = session.pack()
    pieces = [piece for _, e in session.log.entries(kinds=("pack_committed",)) for piece in e.segments]  # type: ignore[attr-defined]
    assert len(pieces) == packed.segments >= 5
    for piece in pieces:
        assert {piece.runs[0][0] >> 10} == {piece.runs[-1][1] >> 10}
    assert session.turns() == before and session.verify().clean


# --- crashes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_pack_that_is_cut_off_anywhere_goes_on(fill: Any, brief: Any, when: Any) -> None:
    """R54, R61: at each storage call: declared, in progress, nothing that is seen changes, closed by the next call."""

    def made() -> tuple[FaultyEngine, Session]:
        engine = FaultyEngine(MemoryEngine())
        session = Store(engine).session("agent", POLICY, brief)
        grown(session, fill, brief)
        session.pack(before=10)
        return engine, session

    engine, session = made()
    first = len(engine.calls)
    session.pack()
    calls = len(engine.calls) - first
    assert calls > 20
    for k in range(1, calls + 1):
        engine, session = made()
        engine.fail_at(len(engine.calls) + k, when=when)
        before = seen_of(engine, brief)
        with suppress(Unavailable):  # a read that is not read to its end hears of no fault behind it
            session.pack()
        engine.heal()
        again = Store(engine).session("agent", POLICY, brief)
        assert all(r.verdict.name in SOUND for r in again.verify()), k
        assert seen(again) == before, k
        begun = again.log.lineage.packing
        assert not begun or again.verify()[0].verdict is CompactionVerdict.COMPACTION_IN_PROGRESS
        again.recover()
        again.finish_removal()
        assert again.verify().clean and again.log.lineage.packing == 0, k
        again.pack()
        assert again.verify().clean and seen(again) == before and again.pack().entries == 0, k


def seen_of(engine: FaultyEngine, brief: Any) -> dict[str, Any]:
    """As it is seen by somebody else, without a call that counts."""
    return seen(Store(engine.engine).session("agent", POLICY, brief))
