"""Foreign history becomes turns and a ledger: everything, in order, once, and nothing lost in silence."""

from __future__ import annotations

import base64
import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lineal
from lineal import codec, transcripts
from lineal.engines.memory import MemoryEngine
from lineal.entries import EffectIntended, EffectSettled, Entry, TurnAppended, Unknown
from lineal.errors import Conflict, LinealError, PolicyError, Refused, Unavailable
from lineal.importing import HOST_COMPACTION, QUARANTINE, Imported, import_transcript, turn_id
from lineal.session import Session
from lineal.store import Store
from lineal.testing.faults import FaultyEngine
from lineal.transcripts import Damage, Record, sample_path

WORLD = ("git_commit", "deploy", "rotate_key", "send_email", "create_ticket")
SHELLS = ("Bash(git commit*)", "Bash(git push*)", "Edit", "Write", "exec_command(git *)", "apply_patch", "edit", "book_reservation")
FILES = [
    "claude_code/130d7b7e-torn-line.jsonl",
    "claude_code/47a78253-7d91-4be2-bfd3-f5ac53c9195b.jsonl",
    "claude_code/839b35f7-slice-microcompact-and-compact.jsonl",
    "claude_code/c010174c-a7cd-4bcc-b7d4-61258d6c463f.jsonl",
    "codex/rollout-2026-06-26T22-06-39-019f05f8-7f53-7492-a941-83098e16765c.jsonl",
    "pi/session-torn-line.jsonl",
    "tau_bench/gpt-4o-airline.json",
]
ROOMY = lineal.Policy(trigger=5_000_000, ceiling=6_000_000, ceiling_bytes=100_000_000)


@pytest.fixture(params=["the sample", *FILES])
def transcript(request: pytest.FixtureRequest) -> Path:
    if request.param == "the sample":
        return sample_path()
    data_dir: Path = request.getfixturevalue("data_dir")
    return data_dir / request.param


@pytest.fixture
def session() -> Iterator[Session]:
    with lineal.connect("memory:") as store:
        yield store.session("s", policy=ROOMY)


def chat(path: Path, *messages: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(m) + "\n" for m in messages))
    return path


def calls(id: str, tool: str = "deploy", **arguments: Any) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": id, "type": "function", "function": function}]}


def answers(id: str, content: str = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def entries(session: Session) -> list[tuple[int, Entry]]:
    return [(row.seq, entry) for row, entry in session.log.entries()]


# --- real transcripts ------------------------------------------------------------------------------------------------------


def test_every_message_of_a_real_transcript_is_a_turn_byte_for_byte(session: Session, transcript: Path) -> None:
    """R7, R2: the log holds what the reader gave, in its order, under its ids."""
    done = import_transcript(session, transcript, changes_state=(*WORLD, *SHELLS))
    records = [item for item in transcripts.read(transcript) if isinstance(item, Record)]
    turns = session.turns()
    assert done.turns == len(records) > 0 and done.already_there == 0
    assert [codec.to_json(t.message) for t in turns] == [codec.to_json(r.message) for r in records]
    assert [t.id for t in turns] == [turn_id(r) for r in records]
    assert [t.author for t in turns if t.author == "user"] == [r.author for r in records if r.author == "user"]
    assert session.verify().clean


def test_a_second_import_adds_nothing_and_reports_the_same(session: Session, transcript: Path) -> None:
    """R2: idempotent by the records' ids; damage and boundaries are reported each time and kept once."""
    first = import_transcript(session, transcript, changes_state=(*WORLD, *SHELLS))
    head = session.status().head
    again = import_transcript(session, transcript, changes_state=(*WORLD, *SHELLS))
    assert session.status().head == head
    assert again == Imported(
        0, first.turns, 0, first.unknown_effects, first.quarantined, first.boundaries, first.skipped, first.orphans, first.compacted
    )


def test_damage_is_kept_with_its_bytes_and_never_skipped_in_silence(session: Session, transcript: Path) -> None:
    """R5, R57: each damage of the file is an annotation with the bytes as they stood; a boundary of the host too."""
    done = import_transcript(session, transcript)
    items = [*transcripts.read(transcript)]
    damage = [item for item in items if isinstance(item, Damage)]
    kept = [codec.from_json(e.raw) for _, e in entries(session) if isinstance(e, Unknown) and e.name == QUARANTINE]
    assert [(d.line, d.why) for d in damage] == list(done.quarantined) == [(k["line"], k["why"]) for k in kept]
    assert [d.raw for d in damage] == [base64.b64decode(k["raw_base64"]) for k in kept]
    noted = [codec.from_json(e.raw) for _, e in entries(session) if isinstance(e, Unknown) and e.name == HOST_COMPACTION]
    boundaries = [item for item in items if isinstance(item, transcripts.Boundary)]
    assert [(b.line, b.kind) for b in boundaries] == list(done.boundaries) == [(n["line"], n["what"]) for n in noted]
    assert [b.summary for b in boundaries] == [n["summary"] for n in noted]


def test_with_compact_the_view_stays_below_its_ceiling_and_the_log_keeps_all(transcript: Path) -> None:
    """R8, R31: compaction on the way changes the view, never the log."""
    policy = lineal.Policy(trigger=30_000, target=6_000)
    with lineal.connect("memory:") as store:
        session = store.session("s", policy=policy)
        done = import_transcript(session, transcript, changes_state=(*WORLD, *SHELLS), compact=True)
        status = session.status()
        assert status.tokens <= policy.ceiling and session.verify().clean
        assert len(session.turns()) == done.turns
        assert (status.generation > 0) == bool(done.compacted)


def test_what_a_host_dropped_is_still_read_whole(session: Session, data_dir: Path) -> None:
    """The transcript's own microcompaction and compaction are told, and nothing that they dropped is missing here."""
    done = import_transcript(session, data_dir / "claude_code/839b35f7-slice-microcompact-and-compact.jsonl")
    assert [kind for _, kind in done.boundaries] == ["eviction", "compaction"]
    assert done.turns == len(session.turns())


# --- effects -----------------------------------------------------------------------------------------------------------------


def test_effects_stand_right_behind_their_turns(session: Session) -> None:
    """R47, R50: intended behind the call's turn, settled behind the result's, keyed by turn and place, outside the gate."""
    import_transcript(session, sample_path(), changes_state=WORLD)
    log = dict(entries(session))
    rows = session.ledger()
    assert len(rows) == 11 and {r.tool for r in rows} == set(WORLD)
    for row in rows:
        intended = log[row.seq]
        assert isinstance(intended, EffectIntended) and row.key == f"@{row.turn}.0"
        assert not intended.guarded and not intended.keyed and not intended.idempotent
        turn = log[row.turn]
        assert isinstance(turn, TurnAppended) and turn.calls[0].tool == row.tool and row.seq == row.turn + 1
        settled = next(seq for seq, e in log.items() if isinstance(e, EffectSettled) and e.key == row.key)
        answer = log[settled - 1]
        assert isinstance(answer, TurnAppended) and answer.results[0].call == turn.calls[0].id


def test_a_refusing_tool_is_recorded_as_no_effect(session: Session) -> None:
    """R47: the deployment that was refused may be sent again; the ones that happened may not."""
    import_transcript(session, sample_path(), changes_state=WORLD)
    deployments = [
        (json.loads(r.shown)["region"] if isinstance(r.shown, str) else r.shown["region"], r.state)
        for r in session.ledger()
        if r.tool == "deploy"
    ]
    assert deployments == [("canary", "done"), ("north", "no_effect"), ("north", "done"), ("south", "done")]


def test_a_rollback_over_seen_effects_is_refused_until_they_are_resolved(session: Session) -> None:
    """Record 003: what was seen outside the gate is guarded by nothing."""
    import_transcript(session, sample_path(), changes_state=WORLD)
    last = session.ledger()[-1]
    with pytest.raises(lineal.UnsafeRollbackError):
        session.rollback(last.turn - 1)
    session.resolve_effect(last.key, "happened")
    assert session.rollback(last.turn - 1).verdict.allowed


def test_a_call_without_a_result_by_the_end_is_unknown(session: Session, tmp_path: Path) -> None:
    """R47: the file ends while the call runs."""
    done = import_transcript(session, chat(tmp_path / "t.jsonl", {"role": "user", "content": "go"}, calls("c1")), changes_state=["deploy"])
    assert done.unknown_effects == ("@2.0",) and done.effects == 1
    assert session.ledger()[0].state == "unknown" and session.status().unknown_effects == ("@2.0",)


def test_a_grown_file_brings_the_late_result(session: Session, tmp_path: Path) -> None:
    """R51: the result of a call that was open at the first import settles its effect at the second."""
    path = tmp_path / "t.jsonl"
    said = [{"role": "user", "content": "go"}, calls("c1", region="north")]
    import_transcript(session, chat(path, *said), changes_state=["deploy"])
    done = import_transcript(session, chat(path, *said, answers("c1"), {"role": "user", "content": "and?"}), changes_state=["deploy"])
    assert (done.turns, done.already_there, done.effects, done.unknown_effects) == (2, 2, 0, ())
    (row,) = session.ledger()
    assert row.state == "done" and row.outcome == "ok" and session.log.lineage.watermark == row.seq


def test_what_an_operator_found_out_is_not_overwritten(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    said = [{"role": "user", "content": "go"}, calls("c1")]
    import_transcript(session, chat(path, *said), changes_state=["deploy"])
    session.resolve_effect("@2.0", "not_happened", "looked")
    import_transcript(session, chat(path, *said, answers("c1")), changes_state=["deploy"])
    assert session.ledger()[0].state == "no_effect" and session.ledger()[0].resolved


def test_patterns_given_later_add_the_effects_of_turns_that_stand(session: Session) -> None:
    import_transcript(session, sample_path())
    assert session.ledger() == []
    done = import_transcript(session, sample_path(), changes_state=WORLD)
    assert (done.turns, done.effects) == (0, 11) and {r.state for r in session.ledger()} == {"done", "no_effect"}


def test_a_reused_call_id_is_two_effects(session: Session, tmp_path: Path) -> None:
    """R50: models use an id again; each emission is an effect of its own, and a result belongs to the newest open call."""
    said = [calls("c1", n=1), answers("c1", "Error: closed"), calls("c1", n=2), answers("c1", "fine")]
    import_transcript(session, chat(tmp_path / "t.jsonl", {"role": "user", "content": "go"}, *said), changes_state=["deploy"])
    assert [(r.state, r.outcome) for r in session.ledger()] == [("no_effect", "Error: closed"), ("done", "fine")]


def test_two_equal_bookings_of_a_real_transcript_are_two_effects(session: Session, data_dir: Path) -> None:
    """R50: tau-bench airline, task 0 trial 3: the same call with the same arguments took effect twice."""
    file = data_dir / "tau_bench/gpt-4o-airline.json"
    number = transcripts.conversations(file).index("task 0 trial 3")
    import_transcript(session, file, conversation=number, changes_state=["book_reservation"])
    done = [row for row in session.ledger() if row.state == "done"]
    ((twice, count),) = [(d, n) for d, n in Counter(row.arguments_digest for row in done).items() if n > 1]
    assert count == 2 and len({row.key for row in done if row.arguments_digest == twice}) == 2


# --- orphans, ids, limits ------------------------------------------------------------------------------------------------------


def test_a_result_without_its_call_is_a_late_turn_and_listed(session: Session, tmp_path: Path) -> None:
    """R4: an append of a dangling result is refused; history that was cut is taken, and says so."""
    path = chat(tmp_path / "t.jsonl", {"role": "user", "content": "go"}, answers("gone"))
    with pytest.raises(Refused, match="gone"):
        session.append(answers("gone"))
    done = import_transcript(session, path)
    assert done.orphans == ((2, "gone"),) and [why for _, why in done.quarantined] == [
        "lost call: this result answers gone, which no earlier line calls"
    ]
    assert session.log.lineage.turns[-1].late and "late result" in session.messages()[-1]["content"]


def test_ids_that_look_like_lineals_own_get_a_prefix(session: Session, tmp_path: Path) -> None:
    import_transcript(
        session, chat(tmp_path / "t.jsonl", {"role": "user", "content": "hi", "id": "@1"}, {"role": "assistant", "content": "ho"})
    )
    assert [t.id for t in session.turns()] == ["id:@1", "line-2"]


def test_above_the_ceiling_the_oldest_is_spilled_and_comes_back_exact(tmp_path: Path) -> None:
    """R10, R29: an import keeps the ceiling as an append does; nothing is dropped."""
    said = [{"role": r, "content": f"{n} " + "word " * 200} for n in range(300) for r in ("user", "assistant")]
    with lineal.connect("memory:") as store:
        session = store.session("s", policy=lineal.Policy(trigger=20_000, ceiling=22_500))
        done = import_transcript(session, chat(tmp_path / "t.jsonl", *said))
        assert session.status().tokens <= 22_500 and done.compacted and all(line.startswith("spilled") for line in done.compacted)
        handle = session.view().handles[0]
        assert [t.message for t in session.expand(handle)] == said[: len(session.expand(handle))]


def test_another_message_under_a_standing_id_is_a_conflict_and_the_log_stays(session: Session, tmp_path: Path) -> None:
    """R2: two files with the same ids do not mix in one session."""
    import_transcript(session, chat(tmp_path / "a.jsonl", {"role": "user", "content": "one"}))
    head = session.status().head
    with pytest.raises(Conflict):
        import_transcript(session, chat(tmp_path / "b.jsonl", {"role": "user", "content": "two"}))
    assert session.status().head == head


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"format": "papyrus"}, PolicyError),
        ({"conversation": 7}, PolicyError),
        ({"changes_state": ["Bash(git"]}, PolicyError),
        ({"path": "nowhere.jsonl"}, Unavailable),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_written(
    session: Session, arguments: dict[str, Any], error: type[LinealError]
) -> None:
    with pytest.raises(error):
        import_transcript(session, arguments.pop("path", sample_path()), **arguments)
    assert session.status().head == 0


def test_progress_is_told_in_messages_read_so_far(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lineal.importing.BATCH", 50)
    told: list[int] = []
    import_transcript(session, sample_path(), progress=told.append)
    assert told == [50, 100, 113]


# --- faults and races ------------------------------------------------------------------------------------------------------------


def whole(session: Session) -> tuple[list[Any], list[Any]]:
    return [(t.id, t.message) for t in session.turns()], [(r.tool, r.state, r.outcome) for r in session.ledger()]


@pytest.mark.parametrize("when", ["before", "after"])
def test_cut_off_at_any_write_a_repeat_makes_it_whole(when: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """R30: whatever engine write fails, done or not, the next import gives what an undisturbed one gives."""
    monkeypatch.setattr("lineal.importing.BATCH", 20)
    with lineal.connect("memory:") as store:
        calm = store.session("s")
        import_transcript(calm, sample_path(), changes_state=WORLD)
        expected = whole(calm)
    counted = FaultyEngine(MemoryEngine())
    import_transcript(Store(counted).session("s"), sample_path(), changes_state=WORLD)
    writes = [k for k, method in counted.calls if method == "append"]
    assert len(writes) == 6
    for k in writes:
        engine = FaultyEngine(MemoryEngine())
        engine.fail_at(k, when=when)
        with pytest.raises(Unavailable):
            import_transcript(Store(engine).session("s"), sample_path(), changes_state=WORLD)
        engine.heal()
        after = Store(engine).session("s")
        import_transcript(after, sample_path(), changes_state=WORLD)
        assert whole(after) == expected and after.verify().clean


def test_two_importers_of_one_file_write_it_once(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R2, R49: two at once, in stores of their own, on one file."""
    monkeypatch.setattr("lineal.importing.BATCH", 7)
    lineal.connect(store_path).close()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            with lineal.connect(store_path) as store:
                import_transcript(store.session("s"), sample_path(), changes_state=WORLD)
        except BaseException as error:
            failures.append(error)

    importers = [threading.Thread(target=run) for _ in range(2)]
    for importer in importers:
        importer.start()
    for importer in importers:
        importer.join()
    assert failures == []
    with lineal.connect(store_path) as store:
        session = store.session("s")
        assert len(session.turns()) == 113 and len(session.ledger()) == 11 and session.verify().clean
        intents = [e.key for _, e in entries(session) if isinstance(e, EffectIntended)]
        assert len(intents) == len(set(intents)) == 11
