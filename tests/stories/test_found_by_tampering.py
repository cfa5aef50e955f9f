"""Short stories of stores that were changed at rest: each gave a false answer once, without any error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lineal
from lineal import codec
from lineal.engines.memory import MemoryEngine
from lineal.entries import Entry
from lineal.session import Session
from lineal.session.log import Log
from lineal.store import Store
from lineal.testing.lived import Remembered
from lineal.testing.scripts.places import InMemory
from lineal.testing.spoiling import run
from lineal.testing.stories import POLICY, answer, summarize, user


def opened(engine: MemoryEngine, name: str = "agent") -> Session:
    return Store(engine).session(name, POLICY, summarize)


def mail(session: Session, n: int) -> bool:
    """Whether the mail is to be sent now; it is settled then."""
    with session.effect("mail", {"to": n}, key=f"mail-{n}") as effect:
        if sent := effect.pending:
            effect.settle(f"sent {n}")
    return sent


def after_many_mails() -> MemoryEngine:
    """More than the state tells of, and a state behind them all: opening reads none of them."""
    engine = MemoryEngine()
    session = opened(engine)
    session.append(user(1), id="u1")
    assert all(mail(session, n) for n in range(30))
    session.checkpoint("all sent")
    return engine


def rows_of(engine: MemoryEngine, *kinds: str) -> list[lineal.engines.Row]:
    return list(engine.scan("agent", 0, None, kinds))


@pytest.mark.parametrize("gone", ["both", "effect_intended", "effect_settled"])
def test_an_effect_whose_rows_were_taken_out_is_not_sent_again(gone: str) -> None:
    """R47, R59: the lookup finds nothing, or half of it; the entries themselves say that there was something."""
    engine = after_many_mails()
    first = [rows_of(engine, "effect_intended")[0], rows_of(engine, "effect_settled")[0]]
    engine.delete("agent", [row.seq for row in first if gone in ("both", row.kind)])
    with pytest.raises(lineal.Corrupt, match="missing entries"):
        mail(opened(engine), 0)
    assert not mail(opened(after_many_mails()), 0)


def test_the_newest_attempt_that_was_taken_out_does_not_leave_the_one_before() -> None:
    """R47: the first attempt had no effect, the second had; without its rows the key would look free."""
    engine = after_many_mails()
    session = opened(engine)
    for refused in (True, False):
        with session.effect("push", {"n": 1}, key="push") as effect:
            effect.no_effect("rejected") if refused else effect.settle("pushed")
    head = session.status().head
    session.checkpoint("pushed")
    engine.delete("agent", [head - 1, head])
    with pytest.raises(lineal.Corrupt), opened(engine).effect("push", {"n": 1}, key="push"):
        raise AssertionError("it was begun again")


def test_a_call_that_was_taken_out_is_still_missed_by_its_look_alike() -> None:
    """R50: without a key the equal call made before is the only warning."""
    engine = MemoryEngine()
    session = opened(engine)
    session.append(user(1), id="u1")
    with session.effect("reboot", {"host": "north"}) as effect:
        effect.settle("it is up again")
    session.checkpoint("up")
    engine.delete("agent", [row.seq for row in rows_of(engine, "effect_intended", "effect_settled")])
    with pytest.raises(lineal.Corrupt), opened(engine).effect("reboot", {"host": "north"}):
        raise AssertionError("it was done again")


def test_an_effect_that_was_taken_out_is_missed_by_a_fork_below_it() -> None:
    """R47, R59: what the parent did since is known to a fork; one that cannot know all of it is not made."""
    engine = after_many_mails()
    engine.delete("agent", [rows_of(engine, "effect_settled")[3].seq])
    with pytest.raises(lineal.Corrupt, match="an effect"):
        opened(engine).fork("what-if", at=1)
    assert opened(engine).store.sessions() == ["agent"]


def test_an_older_checkpoint_of_the_same_label_does_not_stand_in_for_one_that_was_taken_out() -> None:
    """R39, R59."""
    engine = MemoryEngine()
    session = opened(engine)
    for n in (1, 2, 3):
        session.append(user(n), id=f"u{n}")
        session.checkpoint("before deploy" if n < 3 else "after it")
    engine.delete("agent", [session.checkpoints()[1].seq])
    again = opened(engine)
    for ask in (again.checkpoints, lambda: again.rollback("before deploy")):
        with pytest.raises(lineal.Corrupt):
            ask()


def test_checkpoints_that_were_pruned_are_no_damage() -> None:
    """R55: also for those that are kept, and in a fork that has places without content for them."""
    engine = MemoryEngine()
    session = opened(engine)
    for n in range(6):
        session.append([user(n), answer(n)], id=[f"u{n}", f"a{n}"])
        session.checkpoint(f"cp {n}")
    session.compact()
    session.prune(keep_checkpoints=2)
    child = opened(engine).fork("child")
    for one in (opened(engine), child):
        assert [c.label for c in one.checkpoints()][:2] == ["cp 5", "cp 4"] and one.verify().clean


def test_a_turn_that_was_rewritten_with_all_its_digests_is_not_shown() -> None:
    """R59: it fits to the row before it; the row behind it, which the view does not read, is what it no longer fits to."""
    place = InMemory()
    engine = place.open()
    assert isinstance(engine, MemoryEngine)
    session = opened(engine)
    session.append([user(1), answer(1)], id=["u1", "a1"])
    session.checkpoint("here")
    before, row = engine.scan("agent", 0, 2)
    body = row.body.replace(b"answer 1", b"answer 9")
    inner = codec.digest(row.salt, body)
    digest = codec.link(before.digest, row.seq, row.kind, row.generation, len(body), row.unique, row.keys, inner)
    place.edit("agent", 2, replace(row, body=body, inner=inner, digest=digest))
    for read in (Session.messages, Session.view, Session.turns):
        with pytest.raises(lineal.Corrupt):
            read(opened(engine))


def test_without_a_state_behind_a_prune_the_store_is_damaged_not_pruned() -> None:
    """R36, R59: "choose another seq" is no way out for who only opens."""
    engine = MemoryEngine()
    session = opened(engine)
    for n in range(9):
        session.append([user(n), answer(n)], id=[f"u{n}", f"a{n}"])
    session.compact()
    session.prune(keep_checkpoints=0)
    engine.delete_states("agent", engine.states("agent"))
    with pytest.raises(lineal.Corrupt, match="damaged state"):
        opened(engine)


SCHEMA: dict[str, tuple[str, ...]] = {
    "an index gone": ("DROP INDEX entries_unique",),
    "an index that is no longer unique": ("DROP INDEX entries_unique", 'CREATE INDEX entries_unique ON entries(session, "unique")'),
    "an index of nothing": ("DROP INDEX entries_key1", "CREATE INDEX entries_key1 ON entries(key1) WHERE 0"),
}


@pytest.mark.parametrize("what", SCHEMA)
def test_a_store_with_another_index_is_not_opened(what: str, tmp_path: Path) -> None:
    """E3, E5: an id would be free again, or an effect not found."""
    with lineal.connect(tmp_path / "agent.db") as store:
        store.session("agent").append(user(1), id="u1")
    run(tmp_path / "agent.db", *SCHEMA[what])
    with pytest.raises(lineal.Corrupt, match="indexes missing: entries_"):
        lineal.connect(tmp_path / "agent.db")


def test_a_trigger_that_lies_in_the_file_does_not_fire(tmp_path: Path) -> None:
    """R1: else what was acknowledged would be gone at once."""
    path = tmp_path / "agent.db"
    lineal.connect(path).close()
    run(path, "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE id = new.id; END")
    with lineal.connect(path) as store:
        store.session("agent").append(user(1), id="u1")
    with lineal.connect(path) as store:
        assert [t.id for t in store.session("agent").turns()] == ["u1"]


def test_verify_says_which_rows_the_anchor_does_not_vouch_for() -> None:
    """R60: a crash between the append and the anchor leaves one; so does who chains a row to the end with lineal's own code."""
    engine, anchor = MemoryEngine(), Remembered()
    session = Store(engine, anchor).session("agent", POLICY, summarize)
    session.append(user(1), id="u1")
    assert "not vouched for" not in session.verify()[0].detail
    Log(engine, "agent", session.clock).write(lambda lineage: [msgspec.structs.replace(said(engine), id="forged")])
    reports = Store(engine, anchor).verify("agent")
    assert reports.clean and "the rows behind seq 1 are not vouched for by the anchor" in reports[0].detail


def said(engine: MemoryEngine) -> Any:
    return codec.read(next(iter(engine.scan("agent"))), "agent")


def test_entries_of_a_version_that_did_not_chain_them_are_found_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """R57: they stand in no chain; those that follow do."""
    engine = MemoryEngine()
    with monkeypatch.context() as patched:
        patched.setattr("lineal.session.log.links", unchained)
        session = opened(engine)
        assert mail(session, 1) and session.checkpoint("old").seq == 3
    again = opened(engine)
    assert not mail(again, 1) and mail(again, 2) and again.checkpoint("new").label == "new"
    assert [c.label for c in again.checkpoints()] == ["new", "old"]
    assert [r.key for r in again.ledger()] == ["mail-1", "mail-2"] and again.verify().clean
    assert not mail(opened(engine), 2) and not mail(opened(engine), 1)


unchained: Callable[[object, object], tuple[int, ...]] = lambda lineage, chains: ()  # noqa: E731


def test_an_entry_that_names_another_one_before_it_does_not_follow() -> None:
    """L6: it would hide what stood between."""
    engine = after_many_mails()
    session = opened(engine)
    settled: Entry = codec.read(rows_of(engine, "effect_settled")[3], "agent")
    lineage = session.log.lineage
    row = codec.seal(bytes.fromhex(lineage.digest), lineage.head + 1, 0, settled, b"s" * 16, 0)
    engine.append("agent", lineage.head, [row])
    with pytest.raises(lineal.Corrupt, match="L6"):
        opened(engine)
