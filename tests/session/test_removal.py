"""Prune and purge: what nothing needs may go; what was named is gone everywhere, for good."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest

from lineal.engines.memory import MemoryEngine
from lineal.errors import PolicyError, Refused, Unavailable
from lineal.policy import Policy
from lineal.session import Session
from lineal.session.outcomes import Compacted
from lineal.store import Store
from lineal.testing.faults import FaultyEngine

SECRET = "hunter2-very-secret"
POLICY = Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4, summary_max_tokens=200)


def seen(session: Session) -> tuple[Any, ...]:
    view = session.view()
    return session.messages(), view.watermark, view.pins, view.anchors, [(r.key, r.state, r.outcome) for r in session.ledger()]


def seqs(session: Session) -> list[int]:
    return [row.seq for row, _ in session.log.entries()]


# --- prune -------------------------------------------------------------------------------------------------------------------


def grown(session: Session, fill: Any, brief: Any) -> None:
    """A log of which much is needed no more."""
    fill(session, 16)
    with session.effect("deploy", {"n": 1}, key="k") as effect:
        effect.settle("ok")
    session.compact(brief)
    fill(session, 16, 16)
    session.compact(brief)
    fill(session, 2, 32)


def test_a_prune_drops_what_nothing_needs_and_changes_nothing_that_is_seen(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R46, R52: the view, the ledger, the handles' names and the chain stay; verify is clean over the hole."""
    grown(session, fill, brief)
    before, count = seen(session), len(seqs(session))
    pruned = session.prune()
    assert pruned.entries > 20 and not pruned.dry_run
    left = seqs(session)
    gone = {s for a, b in pruned.ranges for s in range(a, b + 1)}
    assert not gone & set(left) and len(left) == count - pruned.entries + 2
    assert seen(session) == before
    again = house.reopen(session)
    assert seen(again) == before and again.verify().clean
    fill(again, 12, 40)
    assert isinstance(again.compact(brief), Compacted) and again.verify().clean
    assert again.prune().entries > 0 and again.verify().clean
    assert house.reopen(again).verify().clean


def test_a_dry_run_gives_the_same_plan(session: Session, fill: Any, brief: Any) -> None:
    """R43."""
    grown(session, fill, brief)
    before = session.status()
    dry = session.prune(dry_run=True)
    assert session.status() == before and dry.dry_run
    real = session.prune()
    assert (real.ranges, real.entries, real.states) == (dry.ranges, dry.entries, dry.states)
    assert session.prune(dry_run=True).entries <= 2, "what a prune wrote about itself is all that is left to go"


def test_every_checkpoint_stays_reachable_unless_it_is_given_up(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R46, R52: pruning never goes above what a kept checkpoint needs."""
    fill(session, 8)
    old = session.checkpoint("old")
    then = session.messages()
    fill(session, 8, 8)
    session.compact(brief)
    new = session.checkpoint("new")
    fill(session, 4, 16)
    session.prune()
    assert [c.checkpoint_id for c in session.checkpoints()] == [new.checkpoint_id, old.checkpoint_id]
    assert session.fork("look", at=old).messages() == then
    assert session.recover().checkpoint == new.checkpoint_id
    session.prune(keep_checkpoints=1)
    assert [c.checkpoint_id for c in session.checkpoints()] == [new.checkpoint_id]
    with pytest.raises(Refused):
        session.fork("again", at=old)
    again = house.reopen(session)
    assert again.rollback(new).target == new.seq and again.verify().clean


def test_what_is_pinned_spilled_open_or_an_effect_stays(session: Session, fill: Any, say: Any, brief: Any) -> None:
    """R52, R55."""
    fill(session, 4)
    session.append([say.call("open"), say.answer(50)], id=["call", "pinned"])
    session.pin("pinned")
    with session.effect("deploy", {"n": 1}, key="k") as effect:
        effect.settle({"version": 7})
    with session.effect("deploy", {"n": 2}, key="u"):
        pass
    fill(session, 12, 4)
    spill = session.spill(["t0", "t1"])
    session.compact(lambda request: brief(request))
    fill(session, 12, 20)
    kept_spill = session.spill(["t20"])
    session.prune()
    assert [t.id for t in session.expand(kept_spill)] == ["t20"]
    assert {"call", "pinned"} <= {t.id for t in session.view().turns}
    assert {r.key: r.state for r in session.ledger()} == {"k": "done", "u": "unknown"}
    assert session.ledger()[0].outcome == {"version": 7}
    with session.effect("deploy", {"n": 1}, key="k") as effect:
        assert not effect.pending and effect.result == {"version": 7}
    with pytest.raises(Refused):
        session.expand(spill), "its turns are summarised since, and gone"
    assert session.verify().clean


def test_a_prune_below_a_seq_leaves_the_rest(session: Session, fill: Any, brief: Any) -> None:
    grown(session, fill, brief)
    pruned = session.prune(before=10)
    assert pruned.ranges == ((1, 9),) and seqs(session)[0] == 10
    assert session.prune(before=10).entries == 0
    for bad in ({"before": 0}, {"keep_checkpoints": -1}):
        with pytest.raises(PolicyError):
            session.prune(**bad)


def test_nothing_to_prune_writes_nothing(session: Session, fill: Any) -> None:
    fill(session, 6)
    before = session.status()
    assert session.prune().entries == 0 and session.status() == before


def test_an_open_compaction_keeps_what_it_reads(session: Session, fill: Any, brief: Any) -> None:
    grown(session, fill, brief)
    fill(session, 8, 40)
    plan = session.plan_compaction()
    session.prune()
    assert session.commit_compaction(plan, brief(plan.request)).generation == plan.generation
    assert session.verify().clean


def test_other_handles_go_on_over_a_prune(house: Any, session: Session, fill: Any, say: Any, brief: Any) -> None:
    """R37: also one that had not read what went."""
    other = house.session()
    grown(session, fill, brief)
    session.prune()
    assert other.messages() == session.messages()
    assert other.append(say.user(90)).seq == session.status().head
    assert other.verify().clean


@pytest.mark.parametrize("verb", ["prune", "purge"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_removal_that_is_cut_off_anywhere_goes_on(fill: Any, say: Any, brief: Any, verb: str, when: Any) -> None:
    """R54: at each storage call: declared, never complete-looking before it is, finished by the next call; nothing comes back."""

    def made() -> tuple[FaultyEngine, Session]:
        engine = FaultyEngine(MemoryEngine())
        session = Store(engine).session("a", POLICY, brief)
        fill(session, 6)
        session.append(say.user(50, f"the password is {SECRET}"), id="secret")
        fill(session, 12, 6)
        session.compact()
        session.fork("child")
        fill(session, 4, 18)
        return engine, session

    def remove(session: Session) -> None:
        session.prune() if verb == "prune" else session.purge(["secret"])

    engine, session = made()
    first = len(engine.calls)
    remove(session)
    last, whole = len(engine.calls), session.messages()
    assert last - first >= 8
    for k in range(1, last - first + 1):
        engine, session = made()
        engine.fail_at(len(engine.calls) + k, when=when)
        try:
            remove(session)
        except Unavailable:
            engine.heal()
            again = Store(engine).session("a", POLICY, brief)
            assert not any(r.verdict.name not in ("POST_COMPACTION_CLEAN", "COMPACTION_IN_PROGRESS") for r in again.verify()), k
            begun = any(row.kind == f"{verb}_begun" for row, _ in again.log.entries())
            open_now = again.log.lineage.pruning or again.log.lineage.purging
            assert not open_now or not again.verify().clean, "an open removal is in progress, not clean"
            again.recover()
            if begun:
                assert again.finish_removal() == 0
            else:
                remove(again)
            session = again
        engine.heal()
        found = Store(engine).session("a", POLICY, brief)
        assert found.verify().clean and found.messages() == whole, k
        if verb == "purge":
            child = Store(engine).session("child", POLICY, brief)
            assert child.verify().clean
            assert all(SECRET not in str(s.messages()) + str(s.turns()) for s in (found, child)), k


# --- purge -------------------------------------------------------------------------------------------------------------------


def leaks(folder: Path) -> list[str]:
    """Files that hold the secret, as it is or inside a compressed state."""
    found = []
    needle = SECRET.encode()
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        if needle in data or any(needle in text for text in inflated(data)):
            found.append(path.name)
    return found


def inflated(data: bytes) -> list[bytes]:
    """Everything in `data` that unpacks, wherever it begins."""
    texts, at = [], data.find(b"\x78\x01")
    while at >= 0:
        unpacker = zlib.decompressobj()
        try:
            texts.append(unpacker.decompress(data[at:]))
        except zlib.error:
            texts.append(b"")
        at = data.find(b"\x78\x01", at + 2)
    return texts


def poisoned(session: Session, fill: Any, say: Any) -> None:
    """A secret in a turn, a call, its result, an effect's arguments and outcome, anchors, notes, a summary, states, a rollback."""
    fill(session, 2)
    session.append(say.user(50, f"The token must be {SECRET}. Never print `{SECRET}`."), id="said")
    session.append(say.call("c1", tool="login", args={"token": SECRET}), id="call")
    with session.effect("login", {"token": SECRET}, call="c1") as effect:
        effect.settle({"session": f"for {SECRET}"})
    session.append(say.result("c1", f"logged in with {SECRET}"), id="result")
    fill(session, 4, 2)
    session.checkpoint("with the secret")
    session.spill(["t0"])
    fill(session, 8, 6)
    assert isinstance(session.compact(lambda request: f"A login with {SECRET} was made, and the plan was read part by part."), Compacted)
    assert session.compact(lambda request: f"Error: {SECRET}").reason in ("unchanged", "summary_refused")
    fill(session, 6, 20)
    session.resolve_effect(session.ledger()[0].key, "happened")
    session.rollback(session.status().head - 3)
    fill(session, 8, 30)
    assert isinstance(session.compact(lambda request: f"The login with {SECRET}, and after it the plan, part by part."), Compacted)
    fill(session, 2, 40)


def test_a_purged_secret_is_in_no_file(file_house: Any, tmp_path: Path, fill: Any, say: Any) -> None:
    """R54: not in the rows, the -wal, the states, summaries, notes, anchors, the ledger, a rollback, nor in any fork."""
    session = file_house.session()
    poisoned(session, fill, say)
    session.fork("child")
    session.fork("early", at=9)
    assert leaks(tmp_path)
    receipt = session.purge(["said", "call", "result"])
    assert set(receipt.turns) == {"said", "call", "result"} and receipt.finished_seq > receipt.begun_seq > 0
    assert len(receipt.generations) == 2 and receipt.effects and receipt.erased
    assert leaks(tmp_path) == []
    for name in ("agent", "child", "early"):
        found = session.store.session(name, POLICY, str)
        assert found.verify().clean
        everything = str(found.messages()) + str(found.turns()) + str(found.ledger()) + str(found.view()) + str(found.search("login token"))
        assert SECRET not in everything
    file_house.close()
    assert leaks(tmp_path) == []
    again = file_house.session()
    assert again.verify().clean and SECRET not in str(again.messages())
    assert [(r.tool, r.state) for r in again.ledger()] == [("login", "done")], "that it was done is still known"


def test_a_second_purge_leaves_nothing_of_the_first_ones_neighbours(
    file_house: Any, tmp_path: Path, fill: Any, say: Any, brief: Any
) -> None:
    """R54: what the first purge wrote down about the rest must not keep the rest alive."""
    session = file_house.session()
    fill(session, 2)
    session.append(say.user(50, f"The token must be {SECRET}."), id="second")
    session.append(say.user(51, "The other must be something-else-4711."), id="first")
    fill(session, 12, 2)
    session.compact(brief)
    session.pin("remember the plan")
    session.purge(["first"])
    session.fork("child")
    fill(session, 8, 20)
    session.compact(brief)
    session.purge(["second"])
    assert leaks(tmp_path) == []
    for s in (session, session.sibling("child")):
        assert s.verify().clean and "4711" not in str(s.view()) and SECRET not in str(s.view())
    file_house.close()
    assert leaks(tmp_path) == []


def test_a_refusal_that_quoted_the_secret_is_erased_too(file_house: Any, tmp_path: Path, fill: Any, say: Any) -> None:
    """R54: why a compaction was aborted may repeat a turn."""
    session = file_house.session()
    fill(session, 4)
    session.append(say.user(50, SECRET), id="secret")
    fill(session, 12, 4)
    assert session.compact(lambda request: f"request 50: {SECRET}").reason == "summary_refused"
    assert session.compact(lambda request: (_ for _ in ()).throw(ValueError(SECRET))).reason == "ValueError"
    session.purge(["secret"])
    assert leaks(tmp_path) == [] and session.verify().clean


def test_a_purge_takes_whole_units_and_keeps_the_view_whole(house: Any, session: Session, fill: Any, say: Any) -> None:
    """R11, R54: no result is left without its call."""
    fill(session, 2)
    session.append([say.call("c1"), say.result("c1"), say.user(9)], id=["call", "res", "u"])
    session.pin("call")
    receipt = session.purge(["res"])
    assert set(receipt.turns) == {"call", "res"}
    assert [t.id for t in session.view().turns] == ["t0", "t1", "u"] and session.view().pins == ()
    again = house.reopen(session)
    assert again.messages() == session.messages() if house.path is None else again.messages()
    assert again.verify().clean


def test_a_purged_record_never_returns(house: Any, session: Session, fill: Any, say: Any, brief: Any) -> None:
    """R54: by no handle, rollback, fork, retry or recovery."""
    fill(session, 4)
    secret = say.user(50, SECRET)
    session.append(secret, id="secret")
    checkpoint = session.checkpoint()
    fill(session, 12, 4)
    session.compact(brief)
    session.purge(["secret"])
    session.rollback(checkpoint)
    assert "secret" not in {t.id for t in session.turns()} and SECRET not in str(session.messages())
    assert session.append(secret, id="secret").message is None, "it stands, without its content"
    ways = (lambda: session.fork("child"), lambda: session.fork("then", at=checkpoint), lambda: house.reopen(session))
    for way in ways:
        other = way()
        other.recover()
        assert SECRET not in str(other.messages()) + str(other.turns()) + str(other.search(SECRET))
        assert other.verify().clean


def test_a_purge_in_a_fork_leaves_the_parent_alone(session: Session, fill: Any, say: Any) -> None:
    """R55: content goes by reachability: the parent still says it; what the fork said under the same id is the fork's."""
    fill(session, 4)
    child = session.fork("child")
    child.append(say.user(60), id="own")
    session.append(say.user(61, SECRET), id="own")
    child.purge(["t1"])
    assert "t1" in {t.id for t in session.turns()} and "t1" not in {t.id for t in child.turns()}
    session.purge(["own"])
    assert [t.id for t in child.turns()][-1] == "own", "another turn that bears the same id"
    assert child.verify().clean and session.verify().clean


def test_a_dry_run_names_everything_and_touches_nothing(session: Session, fill: Any, say: Any) -> None:
    """R43."""
    poisoned(session, fill, say)
    session.fork("child")
    before = session.status()
    dry = session.purge(["said"], dry_run=True)
    assert session.status() == before and SECRET in str(session.turns())
    assert dry.kept_by == ("child",) and dry.finished_seq == 0
    real = session.purge(["said"])
    assert (real.turns, real.erased, real.generations, real.checkpoints, real.effects) == (
        dry.turns, dry.erased, dry.generations, dry.checkpoints, dry.effects,
    )  # fmt: skip


@pytest.mark.parametrize("ids", [["nobody"], [], ["t0", "nobody"]], ids=str)
def test_an_unknown_turn_is_refused_with_nothing_done(session: Session, fill: Any, ids: list[str]) -> None:
    fill(session, 4)
    with pytest.raises(Refused) as refusal:
        session.purge(ids)
    assert refusal.value.reason == "unknown_turn" and session.status().head == 4
    session.purge("t0")
    with pytest.raises(Refused):
        session.purge("t0")


def test_prune_and_purge_go_together(house: Any, session: Session, fill: Any, say: Any, brief: Any) -> None:
    """R54, R59: a hole and an erased row in one chain."""
    fill(session, 4)
    session.append(say.user(50, SECRET), id="secret")
    fill(session, 12, 4)
    session.purge(["secret"])
    session.compact(brief)
    fill(session, 12, 20)
    session.compact(brief)
    session.prune()
    session.purge(["t31"])
    for find in (lambda: session, lambda: house.reopen(session)):
        found = find()
        assert found.verify().clean and SECRET not in str(found.messages())
    again = house.session()
    assert again.fork("child").verify().clean
