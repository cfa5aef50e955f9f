"""What the four records observed, told again with their own numbers, and how each story ends now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

import lineal
from lineal import CompactionVerdict as Verdict

SHA = "9f3c2ab41d07e6588aa0c1b2d3e4f5a6b7c8d9e0"


def said(n: int, tokens: int, author: str = "assistant") -> dict[str, Any]:
    """A turn of about so many tokens (3 bytes each)."""
    return {"role": author, "content": f"turn {n}: " + f"step {n} looked at one more file. " * (tokens * 3 // 32)}


def summary(request: lineal.SummaryRequest) -> str:
    return f"Earlier work: {len(request.turns)} turns about the migration; the files were read and the plan was written down."


# --- record 000: the checkpoint just before a compaction -----------------------------------------------------------------


@pytest.fixture
def compacted_after_checkpoint(tmp_path: Path) -> tuple[lineal.Session, lineal.Checkpoint]:
    """A 200k working set, a 12k budget; a checkpoint at T0-e, the compaction committed at T0."""
    store = lineal.connect(tmp_path / "agent.db")
    session = store.session("agent", lineal.Policy(trigger=190_000, ceiling=210_000, target=12_000, floor_turns=4))
    session.append({"role": "user", "content": f"Port the build from commit {SHA}. Never touch the staging bucket."})
    session.append({"role": "assistant", "content": "Patching the linker script did not work because the section is discarded."})
    session.append({"role": "user", "content": "Go on."})
    for n in range(98):
        session.append(said(n, 2_000))
    assert session.status().tokens > 190_000
    before = session.checkpoint("hourly")
    outcome = session.maybe_compact(summary)
    assert isinstance(outcome, lineal.Compacted) and outcome.tokens_after < 15_000
    return session, before


def test_record_000_the_checkpoint_before_a_compaction_is_never_restored(compacted_after_checkpoint: Any) -> None:
    """Then: recovery restored the newest checkpoint, the full 200k, and the summary lineage had no total order."""
    session, before = compacted_after_checkpoint
    view, generation = session.messages(), session.status().generation
    recovery = session.recover()
    assert recovery.target == "replay" and recovery.seq > before.seq
    assert [id for id, _ in recovery.passed_over] == [before.checkpoint_id]
    assert session.messages() == view and session.status().generation == generation
    assert session.status().tokens < 15_000, "the budget is not exceeded by what a rollback re-admits"


def test_record_000_what_the_summarizer_dropped_is_still_known(compacted_after_checkpoint: Any) -> None:
    """The SHA, the constraint and the failed approach are in no summary; once their turns are covered they are data beside it."""
    session, _ = compacted_after_checkpoint
    session.append({"role": "user", "content": "And now the docs."})
    for n in range(8):
        session.append(said(200 + n, 200))
    assert isinstance(session.compact(summary), lineal.Compacted)
    assert all(SHA not in node.text for node in session.view().summaries)
    values = " ".join(a.value for a in session.view().anchors)
    assert SHA in values and "staging bucket" in values and "linker script" in values
    assert SHA in str(session.messages())


def test_record_000_a_checkpoint_after_the_compaction_is_restored(compacted_after_checkpoint: Any) -> None:
    session, _ = compacted_after_checkpoint
    after = session.checkpoint("T1")
    session.append(said(99, 100))
    recovery = session.recover()
    assert (recovery.target, recovery.checkpoint) == ("checkpoint", after.checkpoint_id)


def test_record_000_every_generation_derives_from_the_one_before(compacted_after_checkpoint: Any) -> None:
    """Two compactions, a recovery between them: one order, and the second had the first one's summary as input."""
    session, _ = compacted_after_checkpoint
    session.recover()
    first = session.view().summaries[0]
    for n in range(20):
        session.append(said(100 + n, 500))
    asked: list[lineal.SummaryRequest] = []

    def second(request: lineal.SummaryRequest) -> str:
        asked.append(request)
        return "The migration goes on: twenty more files were read after the first plan, none of them surprising."

    outcome = session.compact(second)
    assert isinstance(outcome, lineal.Compacted)
    assert asked[0].previous == first.text
    (now,) = session.view().summaries
    assert now.generation > first.generation and now.ranges[0][0] == first.ranges[0][0]


# --- record 002: the floor was evicted before the compaction ----------------------------------------------------------------


def tool_heavy(session: lineal.Session, calls: int, tokens: int) -> None:
    for n in range(calls):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "query", "arguments": f'{{"page":{n}}}'}}
        session.append({"role": "assistant", "content": None, "tool_calls": [call]}, id=f"call{n}")
        session.append({"role": "tool", "tool_call_id": f"c{n}", "content": '{"row": "value of a wide row"}' * (tokens // 10)}, id=f"r{n}")


def evicted_floor(path: Path, on_refusal: Any) -> lineal.Session:
    """12 turns verbatim are promised; the host drops 8 turns, 7 of them inside the floor's reach, to get under its ceiling."""
    policy = lineal.Policy(trigger=160_000, ceiling=200_000, target=40_000, floor_turns=12, on_refusal=on_refusal)
    session = lineal.connect(path).session("agent", policy)
    session.append({"role": "user", "content": "Audit every page."}, id="task")
    tool_heavy(session, calls=8, tokens=22_000)
    dropped = [f"{kind}{n}" for n in range(2, 6) for kind in ("call", "r")]
    session.note_eviction(dropped, by="host budget")
    return session


def test_record_002_compaction_is_refused_and_the_range_is_named(tmp_path: Path) -> None:
    """Then: the summary stood for turns it never saw. Now: refused, no summarizer is asked, nothing is removed."""
    session = evicted_floor(tmp_path / "agent.db", "halt")
    before, asked = session.messages(), []
    outcome = session.compact(lambda request: asked.append(request) or "never")
    assert isinstance(outcome, lineal.UnrecoverableCompactionError)
    assert outcome.reason == "floor_missing" and "seq 6..13" in str(outcome)
    assert asked == [] and session.messages() == before
    with pytest.raises(lineal.UnrecoverableCompactionError):
        session.plan_compaction()


def test_record_002_the_turns_come_back_from_the_log(tmp_path: Path) -> None:
    """What the host dropped was never lost: the log has it, byte for byte."""
    session = evicted_floor(tmp_path / "agent.db", "halt")
    assert len(session.turns()) == 17
    assert session.expand("call2")[0].message["tool_calls"][0]["id"] == "c2"


def test_record_002_with_spill_the_rest_is_put_aside_losslessly(tmp_path: Path) -> None:
    """The honest way on: what is older than the floor is spilled byte-exact, and the refusal is handed out with it."""
    session = evicted_floor(tmp_path / "agent.db", "spill")
    said_before = {t.id: t.message for t in session.turns()}
    session.policy = session.policy.with_(trigger=60_000, target=30_000)
    outcome = session.maybe_compact(summary)
    assert isinstance(outcome, lineal.Compacted) and not outcome.lossy
    assert outcome.because is not None and outcome.because.reason == "floor_missing"
    assert {t.id: t.message for t in session.expand(outcome.handle)} == {id: said_before[id] for id in outcome.spilled}
    assert {"call0", "r0", "call1", "r1"} <= set(outcome.spilled)
    assert session.verify().clean


# --- record 003: maintenance run twice ------------------------------------------------------------------------------------


class World:
    """What the agent does to the outside: credentials rotated, a table truncated, a cursor moved."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def run(self, session: lineal.Session, night: str) -> None:
        for step in ("rotate", "truncate", "advance"):
            with session.effect(step, {"night": night}, key=f"{step}:{night}") as effect:
                if effect.pending:
                    self.done.append(step)
                    effect.settle(f"{step} ok")


@pytest.fixture
def after_maintenance(tmp_path: Path) -> tuple[lineal.Session, World, lineal.Checkpoint]:
    store = lineal.connect(tmp_path / "agent.db")
    session = store.session("ops", lineal.Policy(trigger=4_000, ceiling=6_000, target=1_000, floor_turns=4))
    session.append({"role": "user", "content": "Run the nightly maintenance."})
    before = session.checkpoint("before maintenance")
    world = World()
    world.run(session, "2026-11-14")
    for level in range(2):
        for n in range(12):
            session.append(said(level * 100 + n, 400))
        vague = f"Level {level}: maintenance phase went by; the ingestion burst was taken in and the cursor was seen to move."
        assert isinstance(session.compact(lambda request, text=vague: text), lineal.Compacted)
    return session, world, before


def test_record_003_two_levels_of_compaction_keep_the_effects_as_data(after_maintenance: Any) -> None:
    session, _, _ = after_maintenance
    assert session.view().watermark > 0
    assert {d.key for d in session.view().done} == {f"{s}:2026-11-14" for s in ("rotate", "truncate", "advance")}
    shown = " ".join(str(m) for m in session.messages())
    assert "rotate:2026-11-14" in shown, "the machine's note tells it, whatever the summary says"


def test_record_003_going_back_does_not_run_the_maintenance_again(after_maintenance: Any) -> None:
    """Then: rolled back, re-run, credentials rotated twice. Now: allowed as guarded, and the ledger answers."""
    session, world, before = after_maintenance
    plan = session.rollback(before, dry_run=True)
    back = session.rollback(before)
    assert plan.guarded == back.guarded == tuple(f"{s}:2026-11-14" for s in ("rotate", "truncate", "advance"))
    world.run(session, "2026-11-14")
    assert world.done == ["rotate", "truncate", "advance"]
    world.run(session, "2026-11-15")
    assert len(world.done) == 6, "another night is another key"


def test_record_003_an_unknown_outcome_refuses_until_somebody_looked(after_maintenance: Any) -> None:
    session, world, before = after_maintenance
    with pytest.raises(ConnectionError), session.effect("drop", {"table": "scratch"}, key="drop:scratch") as effect:
        world.done.append("drop")
        raise ConnectionError("the answer was lost")
    with pytest.raises(lineal.UnsafeRollbackError) as refusal:
        session.rollback(before)
    assert refusal.value.facts["refused"] == ("drop:scratch",)
    session.resolve_effect("drop:scratch", "happened", note="the table is gone")
    session.rollback(before)
    with session.effect("drop", {"table": "scratch"}, key="drop:scratch") as effect:
        assert not effect.pending
    assert world.done.count("drop") == 1


# --- record 004: the three failures of an interrupted compaction -------------------------------------------------------------


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def filled(path: Path) -> lineal.Session:
    session = lineal.connect(path).session("agent", lineal.Policy(trigger=2_000, ceiling=4_000, target=500, floor_turns=4))
    for n in range(24):
        session.append(said(n, 60, "user" if n % 4 == 0 else "assistant"), id=f"t{n}")
    return session


def tampered(path: Path, statement: str, *arguments: Any) -> None:
    db = apsw.Connection(str(path))
    db.execute(statement, arguments).fetchall()
    db.close()


def test_record_004_mixed_format_reads_never_happen(store_path: Path) -> None:
    """A compaction is begun and its process ends: readers get the old generation, whole, and verify says so."""
    session = filled(store_path)
    view = session.messages()
    session.plan_compaction()
    assert [r.verdict for r in session.verify()] == [Verdict.COMPACTION_IN_PROGRESS]
    session.store.close()
    again = lineal.connect(store_path).session("agent", session.policy)
    assert again.messages() == view
    assert again.recover().aborted == 1
    assert again.verify().clean
    assert isinstance(again.compact(summary), lineal.Compacted)


def test_record_004_a_truncated_record_is_named_and_never_returned(store_path: Path) -> None:
    filled(store_path).store.close()
    tampered(store_path, "UPDATE entries SET body = substr(body, 1, length(body) / 2) WHERE seq = 20")
    with lineal.connect(store_path) as store:
        found = store.verify()
        assert (found[0].verdict, found[0].seqs) == (Verdict.TRUNCATED, (20,))
        with pytest.raises(lineal.Corrupt) as damage:
            store.session("agent").messages()
        assert damage.value.seq == 20
        assert [t.seq for t in store.salvage("agent")] == [n for n in range(1, 25) if n != 20]


def test_record_004_a_half_done_retention_never_looks_complete(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some old records deleted, others not: declared and resumable if lineal did it, phantom deletion if anyone else did."""
    session = filled(store_path)
    session.compact(summary)
    begun: list[int] = []
    delete = session.engine.delete

    def interrupted(name: str, seqs: Any, content_only: bool = False) -> None:
        half = list(seqs)[: len(list(seqs)) // 2]
        delete(name, half, content_only)
        begun.extend(half)
        raise lineal.Unavailable("interrupted", "power cut")

    monkeypatch.setattr(session.engine, "delete", interrupted)
    with pytest.raises(lineal.Unavailable):
        session.prune()
    assert begun
    monkeypatch.undo()
    assert [r.verdict for r in session.verify()] == [Verdict.COMPACTION_IN_PROGRESS]
    assert session.finish_removal() > 0
    assert session.verify().clean
    session.store.close()
    tampered(store_path, "DELETE FROM entries WHERE seq = 22")
    with lineal.connect(store_path) as store:
        (report,) = [r for r in store.verify() if r.verdict is Verdict.PHANTOM_DELETION]
        assert report.seqs == (22,)
