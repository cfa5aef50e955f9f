"""Packing: the content of old rows moves into compressed segments, and nothing that anybody sees changes."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from lineal.engines.memory import MemoryEngine
from lineal.entries import PackBegun
from lineal.errors import Corrupt, LinealError, Refused, Unavailable
from lineal.holder import lease
from lineal.policy import Policy
from lineal.rules.integrity import CompactionVerdict
from lineal.session import Session, segments
from lineal.session.log import Log
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
    assert session.pack(before=8).runs == ((1, 7),)
    assert session.pack(before=9).runs == ((8, 8),)


def test_opening_appending_and_showing_read_no_segment(
    house: Any, session: Session, fill: Any, brief: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What decides is never behind a segment: also without the library the session opens, goes on, recovers and compacts."""
    grown(session, fill, brief)
    session.checkpoint("here")
    session.pack()

    def refuse(asked: str) -> Any:
        raise Unavailable(f"{asked}:", "zstandard is not installed", "pip install 'lineal[pack]'")

    monkeypatch.setattr(segments, "_zstandard", refuse)
    again = house.reopen(session)
    fill(again, 2, 60)
    again.messages(), again.view(), again.status(), again.recover(), again.checkpoints()
    with again.effect("deploy", {"n": 2}, key="new") as effect:
        effect.settle("ok")
    with again.effect("deploy", {"n": 1}, key="k") as effect:
        assert not effect.pending and effect.result == {"version": 7}
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


def test_a_pinned_turn_stays_raw_and_is_packed_when_asked_for(session: Session, fill: Any, brief: Any) -> None:
    """By default nothing that is shown, and nothing that is not covered; a segment that reaches above the bound is left alone."""
    fill(session, 4)
    session.pin("t2")
    fill(session, 16, 4)
    session.keep("graph", "g", [Record({"n": 1})])
    session.compact(brief)
    before, covered = seen(session), session.log.lineage.covered_through
    packed = session.pack()
    assert packed.runs[0] == (1, 2) and packed.runs[1][0] > 3 and packed.runs[-1][1] <= covered
    assert session.pack(before=4).runs == ((3, 3),)
    assert seen(session) == before and session.verify().clean


def test_a_joined_segment_brings_along_what_is_shown_now(session: Session, fill: Any, brief: Any) -> None:
    """Packed at rest, gone on with, packed again: what the first pack took may be shown still."""
    fill(session, 6)
    session.pack(before=session.status().head + 1)
    fill(session, 20, 6)
    session.compact(brief)
    session.rollback(6)
    fill(session, 2, 40)
    session.append([{"role": "user", "content": "more"}])
    before = seen(session)
    assert len(session.view().turns) == 9 and session.pack(before=9).entries == 0
    session.pack(before=12)
    assert seen(session) == before and session.verify().clean


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


def test_a_dead_packers_work_is_thrown_away_and_a_live_one_is_waited_for(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R3, R16: two packers do not take each other's work for their own."""
    grown(session, fill, brief)
    before, other = seen(session), house.session()
    packing_meanwhile: list[Any] = []

    def meanwhile(done: int, of: int) -> None:
        for act in (other.pack, other.finish_removal, other.recover):
            try:
                packing_meanwhile.append(act())
            except Refused as refusal:
                packing_meanwhile.append(refusal.reason)

    assert session.pack(progress=meanwhile).entries
    assert packing_meanwhile[0] == "in_flight" and packing_meanwhile[1] == 0
    assert other.pack().entries == 0 and seen(other) == before and other.verify().clean


@pytest.mark.parametrize("verb", ["purge", "prune"])
def test_a_removal_does_not_wait_for_a_packer(house: Any, session: Session, fill: Any, brief: Any, verb: str) -> None:
    """R54: the packer finds its pack aborted and begins again, without what is gone."""
    grown(session, fill, brief)
    other, told = house.session(), list[int]()

    def meanwhile(done: int, of: int) -> None:
        told.append(done)
        if len(told) == 1:
            other.purge(["t3"]) if verb == "purge" else other.prune(keep_checkpoints=0)

    packed = session.pack(progress=meanwhile)
    assert len(told) == 2 and packed.entries and session.verify().clean
    assert "t3" not in {t.id for t in session.turns()}
    assert [e for _, e in session.log.entries(kinds=("pack_aborted",))]
    assert house.reopen(session).verify().clean


def test_two_packs_that_begin_at_once_are_told_apart(house: Any, session: Session, fill: Any, brief: Any, monkeypatch: Any) -> None:
    """R33: who finds a pack open behind its own look at the log does not begin a second one."""
    grown(session, fill, brief)
    other = house.session()
    told: list[Any] = []

    def write(decide: Any) -> Any:
        if not told:
            mark = PackBegun(runs=((1, 2),), entries=2, bytes=9, pre_digest="", lease=lease(other.holder, 60, other.clock))
            told.append(other.log.write(lambda lineage: [mark]))
        return Log.write(session.log, decide)

    monkeypatch.setattr(session.log, "write", write)
    with pytest.raises(Refused, match="in flight"):
        session.pack()
    assert len(rows_of(session, "pack_begun")) == 1


def test_appends_go_on_beside_a_pack(house: Any, session: Session, fill: Any, say: Any, brief: Any) -> None:
    """R37: an append that comes between is a lost race for the packer, never for the agent."""
    grown(session, fill, brief)
    other = house.session()

    def meanwhile(done: int, of: int) -> None:
        other.append(say.user(70), id="meanwhile")
        other.rollback(other.status().head - 1) if house.path is None else None

    assert session.pack(progress=meanwhile).entries
    assert session.verify().clean and house.reopen(session).verify().clean


# --- purge and prune -----------------------------------------------------------------------------------------------------


def holds(session: Session, secret: str) -> list[int]:
    """Seqs of rows of the engine that have the secret, as it is or in a segment."""
    found = [row.seq for row in session.engine.scan(session.name) if secret.encode() in row.body]
    for row in rows_of(session, "segment"):
        if not row.erased:
            frame = row.body.partition(b"\n")[2]
            found += [row.seq] if secret.encode() in zstandard.ZstdDecompressor().decompress(frame) else []
    return found


def test_a_purge_takes_packed_content_too(house: Any, session: Session, fill: Any, say: Any, brief: Any) -> None:
    """R54: the segment is written anew without it; the rest of it reads as before."""
    fill(session, 8)
    session.append(say.user(50, f"the password is {SECRET}"), id="secret")
    fill(session, 12, 8)
    session.compact(brief)
    session.pack()
    before = [(t.id, t.message) for t in session.turns() if t.id != "secret"]
    assert holds(session, SECRET)
    receipt = session.purge(["secret"])
    assert receipt.turns == ("secret",) and not holds(session, SECRET)
    for find in (lambda: session, lambda: house.reopen(session)):
        again = find()
        assert [(t.id, t.message) for t in again.turns()] == before and again.verify().clean
        assert len([row for row in rows_of(again, "segment") if not row.erased]) == 1
    fill(again, 20, 40)
    again.compact(brief)
    again.pack()
    assert again.verify().clean and not holds(again, SECRET) and [t.id for t in again.turns()][:8] == [f"t{n}" for n in range(8)]
    again.purge([t.id for t in again.turns()][:20])
    assert again.verify().clean and house.reopen(again).verify().clean


def test_what_a_purged_purge_said_of_segments_still_holds(session: Session, fill: Any, say: Any, brief: Any) -> None:
    """R54: the second purge takes over what the first one declared."""
    fill(session, 2)
    session.append(say.user(50, f"The token must be {SECRET}."), id="second")
    session.append(say.user(51, "The other must be something-else-4711."), id="first")
    fill(session, 12, 2)
    session.compact(brief)
    session.pack(before=session.status().head)
    session.purge(["first"])
    fill(session, 8, 20)
    session.compact(brief)
    session.purge(["second"])
    assert [row for row in rows_of(session, "purge_begun") if row.erased], "the first purge was purged itself"
    assert session.verify().clean and not holds(session, SECRET) and not holds(session, "4711")


def test_a_purge_reaches_a_packed_fork_and_what_it_packed(house: Any, session: Session, fill: Any, say: Any, brief: Any) -> None:
    """R54: through the parent, whichever of the two has packed it."""
    fill(session, 8)
    session.append(say.user(50, f"the password is {SECRET}"), id="secret")
    fill(session, 12, 8)
    session.compact(brief)
    child = session.fork("child")
    child.pack()
    session.pack()
    grandchild = session.fork("grandchild")
    session.purge(["secret"])
    for one in (session, child, grandchild):
        assert not holds(one, SECRET) and one.verify().clean and SECRET not in str(one.turns())


def test_a_purged_secret_is_in_no_file(file_house: Any, tmp_path: Path, fill: Any, say: Any) -> None:
    """R54: every frame and every state that stands anywhere in the files is unpacked and searched."""
    session = file_house.session()
    fill(session, 4)
    session.append(say.user(50, f"The token must be {SECRET}. Never print `{SECRET}`."), id="said")
    session.append(say.call("c1", tool="login", args={"token": SECRET}), id="call")
    with session.effect("login", {"token": SECRET}, call="c1") as effect:
        effect.settle({"session": f"for {SECRET}"})
    session.append(say.result("c1", f"logged in with {SECRET}"), id="result")
    fill(session, 12, 4)
    assert isinstance(session.compact(lambda request: f"A login with {SECRET} was made; the plan was read."), Compacted)
    fill(session, 12, 20)
    assert isinstance(session.compact(lambda request: f"The login with {SECRET}, and the plan, part by part."), Compacted)
    session.pack(before=15)
    session.pack(before=session.status().head)
    session.fork("child").pack(before=30)
    assert leaks(tmp_path)
    session.purge(["said", "call", "result"])
    assert leaks(tmp_path) == []
    for name in ("agent", "child"):
        one = session.sibling(name)
        assert one.verify().clean and SECRET not in str(one.turns()) + str(one.ledger()) + str(one.view()) + str(one.search("login"))
    file_house.close()
    assert leaks(tmp_path) == []


def leaks(folder: Path) -> list[str]:
    found = []
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        if any(SECRET.encode() in text for text in (data, *_frames(data), *_inflated(data))):
            found.append(path.name)
    return found


def _frames(data: bytes) -> Iterator[bytes]:
    """What each Zstandard frame in `data` gives, wherever it begins, as far as it unpacks."""
    at = data.find(b"\x28\xb5\x2f\xfd")
    while at >= 0:
        out = io.BytesIO()
        with suppress(zstandard.ZstdError):
            zstandard.ZstdDecompressor().copy_stream(io.BytesIO(data[at : at + (1 << 20)]), out)
        yield out.getvalue()
        at = data.find(b"\x28\xb5\x2f\xfd", at + 4)


def _inflated(data: bytes) -> Iterator[bytes]:
    at = data.find(b"\x78\x01")
    while at >= 0:
        with suppress(zlib.error):
            yield zlib.decompressobj().decompress(data[at:])
        at = data.find(b"\x78\x01", at + 2)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("verb", ["purge", "prune"])
def test_a_removal_of_packed_rows_that_is_cut_off_anywhere_goes_on(fill: Any, say: Any, brief: Any, verb: str, when: Any) -> None:
    """R54: no partial set that looks complete; nothing comes back."""

    def made() -> tuple[FaultyEngine, Session]:
        engine = FaultyEngine(MemoryEngine())
        session = Store(engine).session("agent", POLICY, brief)
        fill(session, 6)
        session.append(say.user(50, f"the password is {SECRET}"), id="secret")
        fill(session, 12, 6)
        session.compact()
        fill(session, 8, 18)
        session.pack(before=9)
        return engine, session

    def remove(session: Session) -> None:
        session.purge(["secret"]) if verb == "purge" else session.prune()

    engine, session = made()
    first = len(engine.calls)
    remove(session)
    calls, whole = len(engine.calls) - first, ([(t.seq, t.id, t.message) for t in session.turns()], session.messages())
    for k in range(1, calls + 1):
        engine, session = made()
        engine.fail_at(len(engine.calls) + k, when=when)
        with suppress(Unavailable):
            remove(session)
        engine.heal()
        again = Store(engine).session("agent", POLICY, brief)
        assert all(r.verdict.name in SOUND for r in again.verify()), k
        again.recover()
        if not any(row.kind == f"{verb}_begun" for row in engine.scan("agent")):
            remove(again)
        again.finish_removal()
        again = Store(engine).session("agent", POLICY, brief)
        assert again.verify().clean and ([(t.seq, t.id, t.message) for t in again.turns()], again.messages()) == whole, k
        assert verb == "prune" or not holds(again, SECRET), k
        assert len([row for row in rows_of(again, "segment") if not row.erased]) == (verb == "purge"), k


def test_a_prune_takes_a_segment_when_nothing_is_left_of_what_it_stands_for(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R46, R52, R55: until then it stays, with its row."""
    grown(session, fill, brief)
    session.pack(before=8)
    first = rows_of(session, "segment")[0].seq
    session.pack()
    before = seen(session)
    part = session.prune(before=5, keep_checkpoints=0)
    assert part.entries and session.verify().clean
    full = [row for row in rows_of(session, "segment") if not row.erased]
    assert [row.seq for row in full] != [first] and len(full) == 1
    dry = session.prune(dry_run=True, keep_checkpoints=0)
    real = session.prune(keep_checkpoints=0)
    assert (dry.ranges, dry.entries) == (real.ranges, real.entries) and full[0].seq not in {s for a, b in real.ranges for s in range(a, b)}
    again = house.reopen(session)
    assert again.verify().clean and again.messages() == before["messages"] and again.ledger() == before["ledger"]
    assert [t.seq for t in again.turns()] == [s for s, *_ in before["turns"] if s in {t.seq for t in again.turns()}]


def test_a_segment_of_pruned_rows_alone_goes(house: Any, session: Session, fill: Any, brief: Any) -> None:
    fill(session, 20)
    session.compact(brief)
    fill(session, 16, 20)
    session.compact(brief)
    session.pack(before=10)
    assert [row for row in rows_of(session, "segment") if not row.erased]
    session.prune(before=12)
    assert not [row for row in rows_of(session, "segment") if not row.erased] and session.verify().clean
    session.prune()
    assert session.verify().clean and house.reopen(session).verify().clean


def test_a_packed_session_can_be_deleted(house: Any, session: Session, fill: Any, brief: Any) -> None:
    grown(session, fill, brief)
    session.pack()
    session.store.delete("agent")
    assert session.store.sessions() == [] and house.session().status().head == 0


# --- damage --------------------------------------------------------------------------------------------------------------


def damaged(session: Session, change: Any) -> Session:
    """The newest segment's row is changed behind lineal's back."""
    row = [row for row in rows_of(session, "segment") if not row.erased][-1]
    logs = session.engine._logs[session.name]  # type: ignore[attr-defined]
    changed = change(row)
    if changed is None:
        logs.drop(row.seq)
    else:
        logs.rows[row.seq] = changed
    return Store(session.engine).session(session.name, POLICY, session.summarizer)


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda row: replace(row, body=row.body[:-1] + bytes([row.body[-1] ^ 1])), CompactionVerdict.ALTERED),
        (lambda row: replace(row, body=b"{" + row.body[1:20][::-1] + row.body[20:]), CompactionVerdict.ALTERED),
        (lambda row: replace(row, body=row.body[:-40]), CompactionVerdict.TRUNCATED),
        (lambda row: replace(row, body=b"", salt=b""), CompactionVerdict.PHANTOM_DELETION),
        (lambda row: None, CompactionVerdict.PHANTOM_DELETION),
    ],
    ids=["a bit", "its head", "cut short", "emptied", "gone"],
)
def test_a_damaged_segment_is_named_with_what_it_stood_for(
    memory_house: Any, fill: Any, brief: Any, change: Any, verdict: CompactionVerdict
) -> None:
    """R59, R61: and what was never in it still reads."""
    session = memory_house.session()
    grown(session, fill, brief)
    packed = session.pack()
    broken = damaged(session, change)
    reports = broken.verify()
    gone = {seq for r in reports if r.verdict is CompactionVerdict.PHANTOM_DELETION for seq in r.seqs}
    named = [r for r in reports if r.verdict is verdict and packed.seqs[0] in r.seqs]
    assert {s for a, b in packed.runs for s in range(a, b + 1)} <= gone and named, reports
    first, told = packed.runs[0][0], f"{reports}"
    assert verdict is CompactionVerdict.PHANTOM_DELETION or "the segment of rows 1.." in named[0].detail, told
    assert broken.messages(), "what is shown does not lie there"
    with pytest.raises(Corrupt) as damage:
        broken.turns()
    assert damage.value.seq == first and Store(session.engine).session("agent", POLICY).status().latched
    salvaged = {t.seq for t in Store(session.engine).salvage("agent")}
    assert salvaged == {t.seq for t in broken.view().turns}


def test_a_damaged_row_is_left_raw_and_the_rest_is_packed(memory_house: Any, fill: Any, brief: Any) -> None:
    """R56: one bad row never blocks the passes; verify names it."""
    session = memory_house.session()
    grown(session, fill, brief)
    log = session.engine._logs["agent"]
    log.rows[3] = replace(log.rows[3], body=log.rows[3].body[:-1] + b"?")
    packed = session.pack()
    assert packed.damaged == (3,) and packed.entries > 20
    fill(session, 16, 40)
    session.compact(brief)
    assert session.pack().damaged == (3,)
    assert [r.seqs for r in session.verify()] == [(3,)]


def test_a_bomb_is_refused(memory_house: Any, fill: Any, brief: Any) -> None:
    """What a frame claims is held against what the segment, and the rows it stands for, may have, before anything is unpacked."""
    session = memory_house.session()
    grown(session, fill, brief)
    session.pack()
    place = next(segments.standing(session.engine, "agent", [rows_of(session, "segment")[0].seq]))
    bomb = zstandard.ZstdCompressor().compress(b"\0" * (1 << 28))
    many, one = place.segment, msgspec.structs.replace(place.segment, runs=((1, 1),))
    for segment, most in (
        (msgspec.structs.replace(many, packed=bomb), segments.MOST),
        (msgspec.structs.replace(many, packed=bomb, size=1 << 28), segments.MOST),
        (msgspec.structs.replace(one, packed=bomb, size=1 << 28), 500 + segments.HEAD),
        (msgspec.structs.replace(many, packed=many.packed + b"more"), segments.MOST),
        (msgspec.structs.replace(many, packed=b"no frame at all"), segments.MOST),
        (msgspec.structs.replace(many, runs=((1, 1 << 40),)), segments.MOST),
        (msgspec.structs.replace(many, runs=many.runs[:1]), segments.MOST),
    ):
        with pytest.raises(Corrupt, match="damaged segment"):
            segments.unpack(segment, "agent", 40, most)


def test_an_engine_that_lost_a_segment_loses_no_row(fill: Any, brief: Any) -> None:
    """R35, R54: what was acknowledged is read again before anything is dropped."""
    engine = FaultyEngine(MemoryEngine())
    session = Store(engine).session("agent", POLICY, brief)
    grown(session, fill, brief)
    before = session.turns()

    def lose(done: int, of: int) -> None:
        row = rows_of(session, "segment")[-1]
        engine.engine._logs["agent"].rows[row.seq] = replace(row, body=row.body[:-1] + bytes([row.body[-1] ^ 1]))  # type: ignore[attr-defined]

    with pytest.raises(LinealError):
        session.pack(progress=lose)
    assert not [row for row in engine.scan("agent") if row.erased]
    assert [*Store(engine).salvage("agent")] == before
