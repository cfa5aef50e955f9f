"""Verify: everything read again, told apart, named; and what is damaged is not made worse."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lineal import codec
from lineal.engines.memory import MemoryEngine, _Log
from lineal.entries import CompactionCommitted, EffectAttached, TurnAppended
from lineal.errors import Corrupt, Refused
from lineal.lineage import Lineage
from lineal.policy import Policy
from lineal.rules.integrity import CompactionVerdict
from lineal.session import Session
from lineal.session.log import pack
from lineal.session.outcomes import Compacted
from lineal.store import Store

PLACE = (1 << 36) - 1


def found(session: Session) -> list[tuple[str, tuple[int, ...]]]:
    return [(r.verdict.name, r.seqs) for r in session.verify()]


def test_a_sound_session_is_clean_in_one_report(session: Session, fill: Any, brief: Any) -> None:
    """R61: with its generation; nothing is written."""
    assert session.verify().clean and len(session.verify()) == 1
    fill(session, 16)
    session.compact(brief)
    session.checkpoint()
    before = session.status()
    (report,) = session.verify()
    assert report.clean and report.generation == 1 and report.detail
    assert session.status() == before


def test_an_open_compaction_is_in_progress_and_no_damage(house: Any, session: Session, fill: Any) -> None:
    """Record 004: begun without commit or abort; nothing is latched for it."""
    fill(session, 16)
    session.plan_compaction()
    reports = session.verify()
    assert not reports.clean and not reports.damaged
    assert [(r.verdict.name, r.generation) for r in reports] == [("COMPACTION_IN_PROGRESS", 1)]
    session.append({"role": "user", "content": "go on"})
    again = house.reopen(session)
    assert not again.verify().clean
    again.recover()
    assert again.verify().clean


# --- a commit that is not what it claims -----------------------------------------------------------------------------------------


class Tampered(MemoryEngine):
    """Rewrites commits on their way in, chained again, as somebody who knows the format would."""

    change: Any = None

    def append(self, session: str, expected_seq: int, rows: Any) -> None:
        if self.change is None:
            return super().append(session, expected_seq, rows)
        before = super().scan(session, expected_seq - 1, expected_seq)
        digest = next(before).digest
        forged = []
        for row in rows:
            entry = self.change(codec.decode(row.body))
            forged.append(codec.seal(digest, row.seq, row.generation, entry, row.salt, 0))
            digest = forged[-1].digest
        return super().append(session, expected_seq, forged)


@pytest.mark.parametrize("which", ["pre_digest", "post_digest"])
def test_a_generation_whose_view_is_not_what_was_committed_is_altered(fill: Any, brief: Any, which: str) -> None:
    """Record 004, R61: both digests are held against the view that the log gives."""
    engine = Tampered()
    session = Store(engine).session("a", Policy(trigger=1_500, target=600, floor_turns=4), brief)
    fill(session, 16)
    engine.change = lambda e: msgspec.structs.replace(e, **{which: "00"}) if isinstance(e, CompactionCommitted) else e
    with pytest.raises(Corrupt):
        session.compact()
    engine.change = None
    again = Store(engine).session("a", summarizer=brief)
    (report,) = again.verify()
    assert (report.verdict.name, report.generation) == ("ALTERED", 1) and which.removesuffix("_digest") in report.detail


def test_rows_of_another_generation_are_mixed(fill: Any, brief: Any) -> None:
    """Record 004: with the ids of each."""
    engine = MemoryEngine()
    session = Store(engine).session("a", Policy(trigger=1_500, target=600, floor_turns=4), brief)
    fill(session, 16)
    session.compact()
    lineage = session.log.lineage
    entry = TurnAppended(id="stray", author="user", role="user", message={"role": "user", "content": "x"}, tokens=1, bytes=9)
    engine.append("a", lineage.head, [codec.seal(bytes.fromhex(lineage.digest), lineage.head + 1, 0, entry, b"s" * 16, 0)])
    (report,) = Store(engine).session("a", summarizer=brief).verify()
    assert (report.verdict.name, report.generation, report.seqs) == ("MIXED_GENERATION_DETECTED", 0, (lineage.head + 1,))
    assert any("stray" in id for id in report.ids)


# --- damage in a file ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def damage(file_house: Any, fill: Any, brief: Any) -> Any:
    """Runs a statement on the file of a store with a compacted session in it; returns the store, opened again."""
    session = file_house.session()
    fill(session, 16)
    session.compact(brief)
    fill(session, 6, 16)
    file_house.close()

    def run(statement: str) -> Store:
        with sqlite3.connect(file_house.path) as db:
            assert db.execute(statement).rowcount > 0
        db.close()
        return file_house.open()

    return run


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (f"UPDATE entries SET body = substr(body, 1, 30) WHERE id & {PLACE} = 3", ("TRUNCATED", (3,))),
        (f"UPDATE entries SET body = CAST(body || ' ' AS BLOB) WHERE id & {PLACE} = 3", ("ALTERED", (3,))),
        (f"UPDATE entries SET salt = x'00' WHERE id & {PLACE} = 3", ("ALTERED", (3,))),
        (f"UPDATE entries SET inner = zeroblob(32) WHERE id & {PLACE} = 3", ("ALTERED", (3,))),
        (f"UPDATE entries SET digest = zeroblob(32) WHERE id & {PLACE} = 3", ("CHAIN_BROKEN", (3, 4))),
        (f"UPDATE entries SET generation = 7 WHERE id & {PLACE} = 3", ("MIXED_GENERATION_DETECTED", (3,))),
        (f"DELETE FROM entries WHERE id & {PLACE} BETWEEN 3 AND 5", ("PHANTOM_DELETION", (3, 4, 5))),
        (f"UPDATE entries SET body = x'', salt = x'' WHERE id & {PLACE} = 3", ("PHANTOM_DELETION", (3,))),
        (f"DELETE FROM entries WHERE id & {PLACE} > 16", ("CUT_TAIL", (18,))),
    ],
    ids=["truncated", "longer", "salt", "inner", "digest", "generation", "deleted", "blanked", "tail"],
)
def test_each_kind_of_damage_is_told_apart_with_its_rows(damage: Any, statement: str, expected: tuple[str, tuple[int, ...]]) -> None:
    """R61: reading alone; what is wrong is named and nothing is repaired or latched by a store that only looks."""
    store = damage(statement)
    reports = store.verify("agent")
    assert expected in [(r.verdict.name, r.seqs) for r in reports], list(reports)
    assert reports.damaged and store.verify("agent") == reports
    assert store.engine.latched("agent") is None


def test_damage_behind_the_state_is_found_although_opening_does_not_read_it(damage: Any, say: Any) -> None:
    """R59, R6: the view is sound, so it opens; verify reads everything and latches."""
    store = damage(f"UPDATE entries SET body = CAST(replace(body, 'part', 'tarp') AS BLOB) WHERE id & {PLACE} = 3")
    session = store.session("agent", summarizer=str)
    assert len(session.messages()) > 4
    assert session.verify().damaged and "ALTERED" in (session.status().latched or "")
    with pytest.raises(Refused):
        session.append(say.user(1))
    with pytest.raises(Corrupt):
        session.expand("g1")


def test_several_damages_are_all_named(damage: Any) -> None:
    store = damage(f"UPDATE entries SET body = CAST(body || ' ' AS BLOB) WHERE id & {PLACE} IN (3, 9)")
    (report,) = [r for r in store.verify("agent") if r.verdict.name == "ALTERED"]
    assert report.seqs == (3, 9) and "1 more" in report.detail


def test_what_still_verifies_can_be_salvaged(damage: Any) -> None:
    """R6: export of what can be vouched for, also when the session no longer opens."""
    store = damage(f"UPDATE entries SET body = CAST(replace(body, 'part', 'tarp') AS BLOB) WHERE id & {PLACE} > 17 AND id & {PLACE} < 21")
    with pytest.raises(Corrupt):
        store.session("agent", summarizer=str)
    assert [t.id for t in store.salvage("agent")] == [f"t{n}" for n in range(22) if n not in (16, 17)]
    altered = [r for r in store.verify() if r.verdict.name == "ALTERED"]
    assert sorted(seq for r in altered for seq in r.seqs) == [18, 19, 20], "by generation, with the rows of each"


def test_a_materialised_state_that_is_not_the_folds_is_found(session: Session, fill: Any) -> None:
    """It is an index; a wrong one is never taken when its digest is wrong, and found when it is not."""
    fill(session, 6)
    wrong = Lineage(session=session.name, digest=session.log.lineage.digest, head=6, tokens=1)
    session.engine.put_state(session.name, 6, pack(wrong))
    assert found(session)[0][0] == "ALTERED"


def test_a_state_beyond_the_head_is_a_cut_tail(session: Session, fill: Any) -> None:
    """R60: also without an anchor a state remembers that there was more."""
    fill(session, 6)
    session.log.keep_state()
    session.engine.delete(session.name, [5, 6])
    reports = Store(session.engine).verify(session.name)
    assert "CUT_TAIL" in [r.verdict.name for r in reports]


# --- while others write ----------------------------------------------------------------------------------------------------------


def test_a_verify_while_others_append_finds_nothing(file_house: Any, tmp_path: Path, fill: Any, say: Any) -> None:
    """R60: the anchor moves on while the log is read; that is no cut tail, and latches nothing."""
    anchor = tmp_path / "anchor.json"
    session = file_house.session(anchor=anchor)
    fill(session, 6)
    other = file_house.session(anchor=anchor)
    scan = session.engine.scan

    def slow(name: str, after: int = 0, until: int | None = None, kinds: Any = None) -> Any:
        yield from scan(name, after, until, kinds)
        if (after, until, kinds) == (0, None, None):
            other.append(say.user(50))
            other.log.keep_state()

    session.engine.scan = slow
    reports = session.verify()
    assert reports.clean, list(reports)
    assert session.status().latched is None


def test_a_store_is_verified_session_by_session(house: Any, fill: Any) -> None:
    store = house.open()
    for name in ("one", "other"):
        fill(store.session(name, summarizer=str), 4)
    assert store.verify().clean and store.verify("one").clean
    store.engine.delete("other", [2])
    assert store.verify("one").clean
    assert [r.verdict.name for r in store.verify()] == ["PHANTOM_DELETION"]


def test_clean_means_clean_after_everything(house: Any, session: Session, fill: Any, say: Any, brief: Any) -> None:
    """R61: compaction, spill, rollback, fork, prune, purge, effects: one verdict."""
    fill(session, 20)
    session.checkpoint()
    session.spill(["t0"])
    session.compact(brief)
    session.rollback(21)
    fill(session, 16, 30)
    with session.effect("deploy", {}, key="k") as effect:
        effect.settle("ok")
    assert isinstance(session.compact(brief), Compacted)
    session.purge(["t30"])
    session.fork("child")
    session.prune(keep_checkpoints=0)
    assert session.verify().clean and house.reopen(session).store.verify().clean


def test_an_entry_that_cannot_follow_is_told(session: Session, fill: Any) -> None:
    """R61: its digest and its link are right; what it says of the entries before it is not so."""
    fill(session, 4)
    lineage = session.log.lineage
    forged = EffectAttached(key="k", handle="job/9", before=(3,))
    row = codec.seal(bytes.fromhex(lineage.digest), lineage.head + 1, 0, forged, b"s" * 16, 0)
    session.engine.append("agent", lineage.head, [row])
    assert found(session) == [("ALTERED", (row.seq,))]


def test_a_state_that_a_purge_left_behind_is_a_purge_in_progress(session: Session, fill: Any, say: Any) -> None:
    """R54, R61: what it holds is to go; until it is gone the purge is not over, whatever its entries say."""
    session.append(say.user(0, "the word is hunter2"), id="secret")
    fill(session, 16)
    session.compact(lambda request: "The plan was read; the word that was given is hunter2.")
    seq, data = session.engine.state("agent")
    session.purge(["secret"])
    assert [verdict for verdict, _ in found(session)] == ["POST_COMPACTION_CLEAN"]
    session.engine.put_state("agent", seq, data)
    assert [verdict for verdict, _ in found(session)] == ["COMPACTION_IN_PROGRESS"]
    session.finish_removal()
    assert [verdict for verdict, _ in found(session)] == ["POST_COMPACTION_CLEAN"]


def test_a_row_that_was_rewritten_in_front_of_a_hole_is_named(session: Session, fill: Any, brief: Any) -> None:
    """R59: what the prune recorded of the row in front of the hole vouches for it, as the row behind it would."""
    fill(session, 4)
    with session.effect("deploy", {"n": 1}, key="k") as effect:
        effect.settle("ok")
    fill(session, 16, 4)
    session.compact(brief)
    session.prune()
    rows = list(session.engine.scan(session.name))
    kept = next(row for row in rows if row.kind == "effect_settled")
    assert kept.seq + 1 not in {row.seq for row in rows}
    body = kept.body.replace(b'"outcome":"ok"', b'"outcome":"no"')
    before = next(row.digest for row in rows if row.seq == kept.seq - 1)
    forged = replace(kept, body=body, inner=codec.digest(kept.salt, body))
    forged = replace(
        forged, digest=codec.link(before, kept.seq, kept.kind, kept.generation, kept.size, kept.unique, kept.keys, forged.inner)
    )
    memory = MemoryEngine()
    for row in rows:
        memory._logs.setdefault(session.name, _Log()).add(forged if row.seq == kept.seq else row)
    for seq in session.engine.states(session.name):
        memory.put_state(session.name, seq, (session.engine.state(session.name, seq) or (0, b""))[1])
    store = Store(memory)
    assert [(r.verdict, r.seqs) for r in store.verify(session.name)] == [(CompactionVerdict.CHAIN_BROKEN, (kept.seq,))]
    with pytest.raises(Corrupt, match="chain broken"):
        store.session(session.name, session.policy, brief).ledger()
    with pytest.raises(Corrupt, match="chain broken"):
        Store(memory).session(session.name, session.policy, brief).ledger("k")


def test_a_state_of_another_log_does_not_stand_in_for_what_was_pruned(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R61: behind a hole the fold goes on from a state; one that is of another chain is named, not gone on from."""
    other = house.session("other")
    for one in (session, other):
        fill(one, 16)
        one.compact(brief)
        one.prune()
    seq, _ = session.engine.state("agent")
    theirs = other.engine.state("other")
    assert theirs and theirs[0] == seq
    session.engine.put_state("agent", seq, theirs[1])
    assert [r.verdict.name for r in session.verify() if seq in r.seqs] == ["ALTERED"]
