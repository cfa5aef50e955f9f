"""What each step of a write is for: a story for every step that could be left out without anything else noticing."""

from __future__ import annotations

import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lineal import codec
from lineal.engines import Duplicate
from lineal.engines.memory import MemoryEngine
from lineal.entries import EffectAttached, EffectIntended
from lineal.errors import Corrupt, Unavailable
from lineal.holder import lease
from lineal.lineage import to_state
from lineal.policy import Policy
from lineal.session import Session
from lineal.session.states import pack, unpack
from lineal.store import Store
from lineal.testing.faults import FaultyEngine
from lineal.testing.lasting import Lasting

SMALL = Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4, summary_max_tokens=200)


def test_every_row_has_a_salt_of_its_own(session: Session, house: Any, say: Any) -> None:
    """R54: without it a guess of what was erased could be confirmed by its digest."""
    session.append([say.user(1), say.user(1)])
    house.session("other").append(say.user(1))
    salts = [row.salt for name in ("agent", "other") for row in session.engine.scan(name)]
    assert len(set(salts)) == 3 and {len(salt) for salt in salts} == {codec.SALT_BYTES}


def test_after_an_error_what_stands_is_read_before_anything_is_decided(say: Any) -> None:
    """R1: the answer was lost, the row was written."""
    engine = FaultyEngine(MemoryEngine())
    session = Store(engine).session("agent")
    engine.fail_at(len(engine.calls) + 1, when="after")
    with pytest.raises(Unavailable):
        session.append(say.user(1))
    seen: list[int] = []
    session.log.write(lambda lineage: seen.append(lineage.head) or [])
    assert seen == [1]


def test_an_attempt_of_an_effect_is_begun_once_in_a_log(session: Session) -> None:
    """R49: the log itself refuses a second one, whoever decided on it."""
    held = lease(session.holder, 60, session.clock)
    entry = EffectIntended(key="k", tool="rotate", arguments="aa", lease=held)
    session.log.write(lambda lineage: [entry])
    with pytest.raises(Duplicate):
        session.log.write(lambda lineage: [entry])


def test_saving_what_was_shown_earlier_adds_nothing(session: Session, say: Any) -> None:
    """R2: a loop that hands over an older list again is no conflict."""
    session.append(say.dialogue(4))
    assert session.save(say.dialogue(2)) == [] and session.status().head == 4


# --- reading: each check for itself --------------------------------------------------------------------------------------


def stored(say: Any, brief: Any, turns: int = 6) -> tuple[MemoryEngine, Session]:
    engine = MemoryEngine()
    session = Store(engine).session("agent", SMALL, brief)
    session.append(say.dialogue(turns), id=[f"t{n}" for n in range(turns)])
    return engine, session


def test_a_looked_up_row_whose_header_was_changed_is_refused(say: Any, brief: Any) -> None:
    """R59: its content is as it was, and the row behind it still follows from it."""
    engine, session = stored(say, brief)
    seq = session.checkpoint("here").seq
    session.append(say.user(9))
    rows = engine._logs["agent"].rows
    rows[seq] = replace(rows[seq], generation=7)
    with pytest.raises(Corrupt, match="chain broken"):
        session.checkpoints()


def test_a_looked_up_row_that_was_rewritten_with_all_its_digests_is_refused(say: Any, brief: Any) -> None:
    """R59: it follows from the row before it; the row behind it does not follow from it."""
    engine, session = stored(say, brief)
    seq = session.checkpoint("here").seq
    session.append(say.user(9))
    rows = engine._logs["agent"].rows
    forged = msgspec.structs.replace(codec.decode(rows[seq].body), label="elsewhere")  # type: ignore[type-var]
    rows[seq] = codec.seal(rows[seq - 1].digest, seq, 0, forged, rows[seq].salt, 0)
    with pytest.raises(Corrupt, match="chain broken"):
        session.checkpoints()


def test_behind_a_hole_the_chain_goes_on_with_what_the_prune_recorded(fill: Any, brief: Any) -> None:
    """R59: the first row behind it may not be another one."""
    engine = MemoryEngine()
    session = Store(engine).session("agent", SMALL, brief)
    fill(session, 16)
    session.compact(brief)
    ((_, last),) = session.prune().ranges[-1:]
    rows = engine._logs["agent"].rows
    rows[last + 1] = replace(rows[last + 1], generation=9)
    with pytest.raises(Corrupt, match="chain broken"):
        list(session.log.entries())


def test_an_entry_that_cannot_follow_is_damage(say: Any, brief: Any) -> None:
    """R59: whoever wrote it linked it well; what it says of the entries before it is not so."""
    engine, session = stored(say, brief)
    other = Store(engine).session("agent", SMALL, brief)
    head = session.log.lineage
    forged = EffectAttached(key="k", handle="job/9", before=(3,))
    engine.append("agent", head.head, [codec.seal(bytes.fromhex(head.digest), head.head + 1, 0, forged, b"s" * 16, 0)])
    with pytest.raises(Corrupt, match="misfit"):
        other.log.catch_up()
    assert other.log.latched


def test_a_row_that_is_missed_makes_the_session_read_only(say: Any, brief: Any) -> None:
    """R6: the first detection, by whatever read."""
    engine, session = stored(say, brief)
    engine.delete("agent", [3])
    with pytest.raises(Corrupt, match="missing entries"):
        list(session.log.entries())
    assert engine.latched("agent") and session.status().latched


def test_a_hole_that_somebody_else_declared_since_is_looked_up(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R55: a reader who knows of no hole looks again before calling it damage."""
    fill(session, 16)
    session.compact(brief)
    assert session.log.holes() == []
    house.session().prune()
    assert len(list(session.log.entries())) < 16


def test_a_state_that_a_purge_took_is_not_read_from(house: Any, session: Session, fill: Any, say: Any) -> None:
    """R54: one that was written behind the purge's back holds a summary with the purged words still."""
    session.append(say.user(0, "the word is hunter2"), id="secret")
    fill(session, 16)
    session.compact(lambda request: "The plan was read; the word that was given is hunter2.")
    seq, data = session.engine.state("agent")
    session.purge(["secret"])
    session.engine.put_state("agent", seq, data)
    assert "hunter2" not in str(to_state(session.log.at(seq)))
    assert session.finish_removal() == 0 and seq not in session.engine.states("agent"), "and it is swept"


def test_a_state_that_was_altered_and_packed_again_is_passed_over(session: Session, fill: Any) -> None:
    """R59: its own checksum is right, its digest is not."""
    fill(session, 4)
    data = pack(session.log.lineage)
    assert unpack(data) == session.log.lineage
    assert unpack(data[:32] + zlib.compress(zlib.decompress(data[32:]).replace(b'"t1"', b'"t9"'), 1)) is None


def test_a_turn_that_the_view_claims_and_the_log_has_not_is_an_error(session: Session, fill: Any) -> None:
    """R45: never a shorter history."""
    fill(session, 4)
    seq = session.checkpoint().seq
    lineage = session.log.lineage
    item = msgspec.structs.replace(lineage.turns[-1], seq=seq, id="made-up")
    session.log.lineage = msgspec.structs.replace(lineage, items=(*lineage.items, item))
    with pytest.raises(Corrupt, match="missing turn"):
        session.messages()


def test_a_row_of_another_kind_than_its_entry_is_refused(session: Session, fill: Any) -> None:
    """R59: what is looked up by kind must be of that kind."""
    fill(session, 1)
    (row,) = session.engine.scan("agent")
    assert codec.kind_of(codec.read(row, "agent")) == row.kind == "turn"
    with pytest.raises(Corrupt, match="misfit"):
        codec.read(replace(row, kind="pinned"), "agent")


# --- opening: what is believed of a state and of an anchor -----------------------------------------------------------------


def test_the_anchor_does_not_lead_where_a_write_failed(tmp_path: Path, say: Any) -> None:
    """R60: a head that was never written would be a cut tail at the next open."""
    inner = Lasting()
    engine = FaultyEngine(inner)
    session = Store(engine, anchor=tmp_path / "anchor.json").session("agent", SMALL)
    session.append(say.user(1))
    engine.fail_at(len(engine.calls) + 1)
    with pytest.raises(Unavailable):
        session.append(say.user(2))
    again = Store(inner, anchor=tmp_path / "anchor.json").session("agent", SMALL)
    assert again.status().head == 1 and again.verify().clean


def test_a_log_that_ends_before_its_newest_state_is_a_cut_tail(say: Any, brief: Any) -> None:
    """R60: a state is only ever kept for what was acknowledged, so it stands for an anchor."""
    engine, session = stored(say, brief)
    session.log.keep_state()
    rows = engine._logs["agent"].rows
    del rows[6], rows[5]
    with pytest.raises(Corrupt, match="cut tail"):
        Store(engine).session("agent", SMALL, brief)


def test_a_state_that_stands_in_another_chain_is_passed_over(say: Any, brief: Any) -> None:
    """R59: its own digest is right, its session and seq are; it says of the log what the log does not say."""
    engine, session = stored(say, brief)
    forged = msgspec.structs.replace(session.log.lineage, digest="ab" * 32, items=())
    engine.put_state("agent", forged.head, pack(forged))
    assert len(Store(engine).session("agent", SMALL, brief).messages()) == 6


def test_behind_a_spill_the_next_open_folds_nothing(say: Any, brief: Any) -> None:
    """R58: like a compaction, a spill leaves a state behind it."""
    engine, session = stored(say, brief)
    session.spill(["t0", "t1"])
    newest = engine.state("agent")
    assert newest is not None and newest[0] == session.status().head


def test_a_misfit_is_told_by_an_interpreter_that_asserts_nothing(file_house: Any, fill: Any) -> None:
    """R59: `python -O` leaves assertions out; what stands between a forged row and the view is none of them."""
    session = file_house.session()
    fill(session, 4)
    head = session.log.lineage
    forged = EffectAttached(key="k", handle="job/9", before=(3,))
    session.engine.append("agent", head.head, [codec.seal(bytes.fromhex(head.digest), head.head + 1, 0, forged, b"s" * 16, 0)])
    program = "import sys, lineal; lineal.connect(sys.argv[1]).session('agent').messages()"
    done = subprocess.run([sys.executable, "-O", "-c", program, str(file_house.path)], capture_output=True, text=True)
    assert done.returncode == 1 and "misfit" in done.stderr
