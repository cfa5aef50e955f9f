"""What lying engines, failing disks and cuts found in lineal: each went wrong once, and is told here without any chance."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from lineal.engines.memory import MemoryEngine
from lineal.engines.sqlite import SqliteEngine
from lineal.errors import Corrupt, Unavailable
from lineal.policy import Policy
from lineal.session import Session
from lineal.session.outcomes import Compacted, Nothing
from lineal.store import Store
from lineal.summarizers import SummaryRequest
from lineal.testing.faults import FaultyEngine
from lineal.testing.stories import POLICY, answer, summarize, user


def opened(engine: MemoryEngine | FaultyEngine, name: str = "agent") -> Session:
    return Store(engine).session(name, POLICY, summarize)


def talked(session: Session, rounds: int = 3, first: int = 1) -> Session:
    for n in range(first, first + rounds):
        session.append([user(n), answer(n)], id=[f"u{n}", f"a{n}"])
    return session


class Lazy(MemoryEngine):
    """Acknowledges what is named, and does not do it."""

    def __init__(self, *idle: str):
        super().__init__()
        self.idle = idle

    def delete(self, session: str, seqs: Iterable[int], content_only: bool = False) -> None:
        if "delete" not in self.idle:
            super().delete(session, seqs, content_only)

    def put_state(self, session: str, seq: int, data: bytes) -> None:
        if "put_state" not in self.idle:
            super().put_state(session, seq, data)

    def delete_states(self, session: str, seqs: Iterable[int]) -> None:
        if "delete_states" not in self.idle:
            super().delete_states(session, seqs)


# --- a log that became shorter ---------------------------------------------------------------------------------------------


def test_a_head_that_went_back_is_damage_at_once() -> None:
    """R59, R60: the engine lost an acknowledged entry. Waiting for a race to end (half a minute of it) would hide that."""
    engine = FaultyEngine(MemoryEngine())
    session = talked(opened(engine))
    engine.drop_at(len(engine.calls) + 1)
    session.append(user(8), id="u8")
    calls = len(engine.calls)
    with pytest.raises(Corrupt, match="cut tail") as damage:
        session.append(user(9), id="u9")
    assert damage.value.seq == 7 and session.status().latched
    assert len(engine.calls) < calls + 5, "it did not try again and again"


def test_a_session_that_was_deleted_under_a_writer_leaves_its_name_free() -> None:
    """The writer is told; nothing is latched, for there is nothing left to protect."""
    engine = MemoryEngine()
    session = talked(opened(engine))
    Store(engine).delete("agent")
    with pytest.raises(Corrupt, match="cut tail"):
        session.append(user(9))
    assert engine.latched("agent") is None
    talked(opened(engine))


def test_entries_missing_at_the_end_of_what_is_read_are_damage() -> None:
    """R59, E4: a range that ends early is no shorter range, and no `StopIteration` either."""
    engine = MemoryEngine()
    session = talked(opened(engine))
    engine.delete("agent", [5, 6])
    with pytest.raises(Corrupt, match="missing entries") as damage:
        session.turns()
    assert damage.value.seq == 5


def test_a_removal_whose_own_entry_vanished_is_damage() -> None:
    engine = FaultyEngine(MemoryEngine())
    session = talked(opened(engine))
    purge_begins = _calls_until(lambda e: opened(e).purge(["a1"]), "append")
    engine.drop_at(len(engine.calls) + purge_begins)
    with pytest.raises(Corrupt):
        session.purge(["a1"])


def _calls_until(act: object, method: str) -> int:
    """How many calls a purge makes up to its first `method`."""
    engine = FaultyEngine(MemoryEngine())
    session = talked(opened(engine))
    before = len(engine.calls)
    session.purge(["a1"])
    return next(k for k, made in engine.calls if k > before and made == method) - before


# --- a removal that was not carried out ------------------------------------------------------------------------------------


def test_a_purge_is_not_called_finished_on_the_engines_word() -> None:
    """R54: the content is still there; it is said so, the purge stays open, and goes on when the engine works again."""
    engine = Lazy("delete")
    session = talked(opened(engine))
    with pytest.raises(Unavailable, match="stand there still"):
        session.purge(["a1"])
    assert session.verify()[0].verdict.name == "COMPACTION_IN_PROGRESS"
    engine.idle = ()
    session.recover()
    assert session.verify().clean and not any(b"answer 1" in row.body for row in engine.scan("agent"))


def test_a_purge_whose_states_stay_is_not_finished_either() -> None:
    """R54: a state repeats what a summary says."""
    engine = Lazy("delete_states")
    session = talked(opened(engine), 8)
    session.compact()
    session.log.keep_state()
    session.append(user(30))
    with pytest.raises(Unavailable, match="1 states stand there still"):
        session.purge(["u1"])
    engine.idle = ()
    session.recover()
    assert session.verify().clean


def pruned(engine: MemoryEngine) -> Session:
    session = talked(opened(engine), 8)
    session.compact()
    return session


def test_a_prune_is_not_called_finished_on_the_engines_word() -> None:
    """R46."""
    engine = Lazy("delete")
    session = pruned(engine)
    with pytest.raises(Unavailable, match="stand there still"):
        session.prune(keep_checkpoints=0)
    engine.idle = ()
    session.recover()
    assert session.verify().clean and len([*engine.scan("agent")]) < session.status().head


def test_nothing_is_pruned_before_the_state_that_stands_for_it_was_read_back() -> None:
    """R46: without that state the log could not be folded any more."""
    engine = Lazy("put_state")
    session = pruned(engine)
    before = [row.seq for row in engine.scan("agent")]
    with pytest.raises(Unavailable, match="has it not"):
        session.prune(keep_checkpoints=0)
    assert [row.seq for row in engine.scan("agent")] == before and opened(engine).messages() == session.messages()


def test_a_session_is_not_called_deleted_on_the_engines_word() -> None:
    """The mark that it is being deleted stays until nothing is left."""
    engine = Lazy("delete")
    talked(opened(engine))
    with pytest.raises(Unavailable, match="stands there still"):
        Store(engine).delete("agent")
    assert engine.latched("agent") == "it is being deleted"
    engine.idle = ()
    Store(engine).delete("agent")
    assert engine.sessions() == [] and engine.latched("agent") is None


# --- a cut between two steps -----------------------------------------------------------------------------------------------


def test_a_purge_behind_a_prune_may_be_cut_off_before_its_state() -> None:
    """R30, R54: the only state in reach still has the content; folded on over the purge it gives the live view, and recovers."""
    engine = FaultyEngine(MemoryEngine())
    session = pruned_behind_a_rollback(engine)
    engine.fail_at(len(engine.calls) + _calls_until_a_purge_keeps_its_state())
    with pytest.raises(Unavailable):
        session.purge(["u1"])
    engine.heal()
    again = opened(engine)
    assert again.verify()[0].verdict.name == "COMPACTION_IN_PROGRESS"
    again.recover()
    assert again.verify().clean and "request 1" not in str(again.messages())


def pruned_behind_a_rollback(engine: FaultyEngine) -> Session:
    """What was done for the first request is told in every state since."""
    session = opened(engine)
    session.append(user(1), id="u1")
    with session.effect("deploy", {"to": "staging"}, key="deploy:1") as effect:
        effect.settle("done for request 1")
    session.append([answer(1), user(2), answer(2)], id=["a1", "u2", "a2"])
    target = session.checkpoint("before")
    talked(session, 5, first=4)
    session.compact()
    session.rollback(target)
    session.prune(keep_checkpoints=0)
    return session


def _calls_until_a_purge_keeps_its_state() -> int:
    engine = FaultyEngine(MemoryEngine())
    session = pruned_behind_a_rollback(engine)
    before = len(engine.calls)
    session.purge(["u1"])
    return next(k for k, made in engine.calls if k > before and made == "put_state") - before


# --- an error that somebody keeps ------------------------------------------------------------------------------------------


def test_an_error_of_a_read_that_somebody_keeps_holds_no_snapshot(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R54: its traceback must not keep a connection open that keeps erased bytes in the -wal file."""
    engine = SqliteEngine.open(str(store_path))
    talked(Store(engine).session("agent", POLICY, summarize))
    engine._readers.clear()
    made = []
    connect = type(engine._file).connect

    def watched(*arguments: object, **options: object) -> object:
        made.append(connect(*arguments, **options))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(type(engine._file), "connect", watched)
    with pytest.raises(Unavailable) as kept:
        engine._ask("find", "agent", "SELECT abs(-9223372036854775808)")  # fails in the middle of the statement
    assert kept.value.__cause__ is not None
    with pytest.raises(Exception, match="closed"):
        made[-1].execute("SELECT 1")
    engine.close()


# --- what the formal model and the golden scripts found --------------------------------------------------------------


def test_what_was_said_while_a_compaction_ran_is_a_change_since() -> None:
    """R24: a second pass is a no-op only if nothing came since the first one began."""
    session = talked(opened(MemoryEngine()), 4)
    plan = session.plan_compaction()
    talked(session, 3, first=5)
    session.commit_compaction(plan, summarize(plan.request))
    after = session.compact()
    assert isinstance(after, Compacted) and {"u5", "a5"} <= set(after.covered)
    assert isinstance(session.compact(), Nothing)


def test_what_was_done_before_anything_was_said_leaves_the_view_with_the_first_turn() -> None:
    """R50: an equal call under no key is a look-alike then, not a deliberate repeat."""
    session = opened(MemoryEngine())
    with session.effect("shell", {"run": "drop"}, key="e1") as effect:
        effect.settle("dropped")
    talked(session, 6)
    assert isinstance(session.compact(), Compacted)
    with session.effect("shell", {"run": "drop"}) as again:
        assert not again.pending and again.result == "dropped"
    assert again.verdict is not None and again.verdict.reason == "look_alike"


def test_a_small_window_gets_a_large_view_below_a_new_ceiling_part_by_part() -> None:
    """R27: turns that a later part will cover are not counted as what must stay."""
    store = Store(MemoryEngine())
    session = store.session("agent", Policy(trigger=9_000, ceiling=90_000, target=6_000, floor_turns=2), summarize)
    talked(session, 60)
    session.policy = Policy(trigger=600, ceiling=1_000, target=400, floor_turns=2, summary_max_tokens=150)

    def small(request: SummaryRequest) -> str:
        return summarize(request)

    small.window = 3_000  # type: ignore[attr-defined]
    outcome = session.maybe_compact(small)
    assert isinstance(outcome, Compacted) and outcome.lossy and session.status().tokens <= 1_000
