"""What each step of a pack is for: a story for every step that could be left out without anything else noticing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lineal.engines import Row
from lineal.engines.memory import MemoryEngine
from lineal.errors import Corrupt, LinealError, Unavailable
from lineal.policy import Policy
from lineal.session import Session, packing, segments
from lineal.session.log import Log
from lineal.store import Store

POLICY = Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4, summary_max_tokens=200)


@pytest.fixture
def old(fill: Any, brief: Any) -> Session:
    """A session of which much is old."""
    session = Store(MemoryEngine()).session("agent", POLICY, brief)
    fill(session, 24)
    session.compact()
    return session


def test_a_segment_that_gives_something_else_is_never_committed(old: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """R35: whatever went wrong in compressing, the raw rows are there, and the next pack begins anew."""
    before = old.turns()
    with monkeypatch.context() as wrong:
        honest = segments.pack

        def other(rows: list[Row]) -> Any:
            return honest([replace(rows[0], body=rows[0].body[::-1]), *rows[1:]])

        wrong.setattr(segments, "pack", other)
        with pytest.raises(Corrupt, match="read back differently"):
            old.pack()
    assert old.turns() == before and not [row for row in old.engine.scan("agent") if row.erased]
    old.recover()
    assert old.pack().entries and old.turns() == before and old.verify().clean


def test_a_segment_that_is_lost_behind_the_commit_takes_no_row_with_it(old: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """R35, R54: every segment is read once more before the first row loses its own copy."""
    monkeypatch.setattr(packing, "PLAIN_MAX", 2_000)
    before, first = old.turns(), list[int]()

    def lose(done: int, of: int) -> None:
        written = [row for row in old.engine.scan("agent") if row.kind == "segment"]
        if done == of:
            first.append(written[0].seq)
            old.engine._logs["agent"].rows[written[0].seq] = replace(written[0], body=written[0].body[:-9])  # type: ignore[attr-defined]

    with pytest.raises(LinealError):
        old.pack(progress=lose)
    assert first and not [row for row in old.engine.scan("agent") if row.erased]
    assert [*Store(old.engine).salvage("agent")] == before


def test_who_aborts_a_pack_that_was_committed_meanwhile_finishes_it(old: Session, brief: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """R33, R54: nothing is emptied before an append that saw no other writer has said what became of the pack."""
    other = Store(old.engine).session("agent", POLICY, brief)
    before, told = old.turns(), list[int]()

    def write(decide: Any) -> Any:
        if old.log.lineage.packing and [e for e in decide(old.log.lineage) if isinstance(e, packing.PackCommitted)]:
            other.log.catch_up()
            begun = other.log.lineage.packing
            done = Log.write(old.log, decide)
            told.append(packing._abort(other, begun))
            return done
        return Log.write(old.log, decide)

    monkeypatch.setattr(old.log, "write", write)
    assert old.pack().entries and told
    assert not list(old.engine.scan("agent", 0, None, ("pack_aborted",)))
    assert old.turns() == other.turns() == before and old.verify().clean


class Keeping(MemoryEngine):
    """Acknowledges that content is gone, and keeps it."""

    keeps = True

    def delete(self, session: str, seqs: Any, content_only: bool = False) -> None:
        if not (self.keeps and content_only):
            super().delete(session, seqs, content_only)


def test_a_pack_is_not_finished_on_the_engines_word(fill: Any, brief: Any) -> None:
    """R54: it stays in progress until the raw content is really gone."""
    engine = Keeping()
    session = Store(engine).session("agent", POLICY, brief)
    fill(session, 24)
    session.compact()
    with pytest.raises(Unavailable, match="stands there still"):
        session.pack()
    assert session.log.catch_up().packing and not session.verify().clean and not session.verify().damaged
    engine.keeps = False
    session.recover()
    assert session.verify().clean and not session.log.lineage.packing and session.pack().entries == 0


def test_what_can_be_gone_back_to_behind_a_prune_still_can(old: Session, fill: Any) -> None:
    """R39: behind a hole the first state is the only place where a fold begins."""
    old.prune(keep_checkpoints=0)
    first = old.status().head
    fill(old, 20, 40)
    old.compact()
    fill(old, 20, 60)
    old.compact()
    past = {seq: old.log.at(seq).items for seq in range(first, first + 8)}
    assert old.pack().entries and len(old.engine.states("agent")) < 5
    assert {seq: old.log.at(seq).items for seq in past} == past
