"""`lineal demo`: a real process is killed three times, at three real points, and nothing is lost or done twice."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import lineal
from lineal import demo
from lineal.demo import acts, agent, killing, report, script
from lineal.demo.world import World
from lineal.errors import PolicyError, Refused, Unavailable
from lineal.transcripts import sample_path


@dataclass(frozen=True)
class Played:
    """One demo that was played: what it returned, what it printed, and the store that it left."""

    report: demo.DemoReport
    lines: tuple[str, ...]
    store: Path

    @property
    def text(self) -> str:
        """What was printed, without the line breaks inside a sentence."""
        return " ".join(" ".join(self.lines).split())

    @property
    def world(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in World(self.store).path.read_text().splitlines()]


def play(transcript: Path | None, store: Path, **more: Any) -> Played:
    lines: list[str] = []
    played = demo.run(transcript, store, out=lines.append, **more)
    return Played(played, tuple(lines), store)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The demo with its own sample, played once for all tests that only look."""
    return play(None, tmp_path_factory.mktemp("demo") / "demo.db")


def effects(store: Path) -> dict[str, Any]:
    with lineal.connect(store, create=False) as opened:
        return {row.key: row for row in opened.session("demo").ledger()}


# --- the sample --------------------------------------------------------------------------------------------------------


def test_the_sample_is_killed_three_times_and_everything_holds(played: Played) -> None:
    """R1, R30, R33, R47: every invariant that the demo names held, and it names them all."""
    assert played.report.checks == dict.fromkeys(played.report.checks, True)
    assert played.report.ok and len(played.report.checks) == 13
    assert played.report.kills == 3 and played.report.verdicts == ("POST_COMPACTION_CLEAN",) * 4


def test_each_kill_is_a_real_one_and_is_told(played: Played) -> None:
    """R30, R33, R47: SIGKILL ended each process, and the log that is shown ends where that process stood."""
    for title in acts.TITLES.values():
        assert any(f"Killed {title}" in line and "SIGKILL, return code -9" in line for line in played.lines)
    assert "is begun and its summary" in played.text and "aborted: its holder is gone" in played.text
    assert "as unknown; the world has 1 line for it" in played.text
    assert "bytes of the commit were in the -wal file; 0 of its 8 turns are in the log" in played.text


def test_the_rollback_is_refused_with_its_way_out_until_the_operator_has_looked(played: Played) -> None:
    """Record 003: a rollback over an unknown effect is refused; resolved, it passes and lists what it guards."""
    before, _, after = played.text.partition("resolve line-92:call_039:0 as happened")
    assert "rollback refused (unknown_outcome)" in before and "Way out: resolve each" in before
    assert "allowed: the view is again that of seq" in after and "guarded line-96:call_041:0, line-106:call_045:0" in after
    assert "rotate_key again, and the ledger answered: done" in after


def test_each_effect_was_done_exactly_once_if_at_all(played: Played) -> None:
    """R47, R49: the world has one line for each effect that the ledger calls done, and none for one that had no effect."""
    touched = Counter(line["key"] for line in played.world)
    states = {key: row.state for key, row in effects(played.store).items()}
    assert touched == Counter(key for key, state in states.items() if state == "done")
    assert sorted(states.values()) == ["done"] * 10 + ["no_effect"]
    assert len({line["process"] for line in played.world}) >= 3, "the effects were done by processes that were killed"


def test_the_interrupted_effect_was_begun_once_and_resolved(played: Played) -> None:
    """R47: nobody sent it again; an operator said what had become of it."""
    row = effects(played.store)["line-92:call_039:0"]
    assert (row.tool, row.attempt, row.state, row.resolved) == ("rotate_key", 1, "done", True)
    assert row.note == "demo.world.jsonl has 1 line for it"


def test_the_counts_are_those_of_the_store(played: Played) -> None:
    """The closing table against the rows of the SQLite file, counted without lineal's own reading."""
    with sqlite3.connect(played.store) as db:
        kinds = Counter({kind.decode(): n for kind, n in db.execute("SELECT kind, count(*) FROM entries GROUP BY kind")})
        bodies = [json.loads(body) for (body,) in db.execute("SELECT body FROM entries WHERE kind = ?", (b"compaction_committed",))]
    r = played.report
    assert r.entries == kinds.total() and r.turns + r.left_behind == kinds["turn"]
    assert (r.aborted, r.checkpoints, kinds["rolled_back"]) == (kinds["compaction_aborted"], kinds["checkpoint"], 1)
    assert (r.summaries, r.spills) == (sum(b["lossy"] for b in bodies), sum(not b["lossy"] for b in bodies))
    assert r.summaries >= 3 and r.checkpoints >= 3 and r.left_behind > 0
    assert r.effects == Counter(row.state for row in effects(played.store).values())
    assert (r.touched, r.touched_most) == (len(played.world), 1)


def test_the_turns_that_stand_are_the_transcript(played: Played) -> None:
    """R2, R7: three kills and a rollback later each record stands once, in its order, as it was given."""
    said = [json.loads(line) for line in sample_path().read_text().splitlines()]
    with lineal.connect(played.store, create=False) as store:
        session = store.session("demo")
        assert [t.message for t in session.turns()] == said
        assert session.verify().clean and session.messages()
        assert session.status().tokens == played.report.view_tokens < played.report.transcript_tokens
        assert (len(session.view().anchors), len(session.view().pins)) == (played.report.anchors, played.report.pins) != (0, 0)


def test_what_is_printed_ends_with_the_verdict_and_what_to_try_next(played: Played) -> None:
    assert played.lines[-5:] == (
        "ok. The store stays; look into it:",
        f"  lineal log {played.store}",
        f"  lineal context {played.store}",
        f"  lineal recover {played.store} --explain",
        f"  lineal ledger {played.store}",
    )
    assert "each effect ran at most once: yes" in played.text
    assert len(played.lines) < 100 and all(line.isprintable() and len(line) <= 140 for line in played.lines)


def test_the_report_is_data(played: Played) -> None:
    data = json.loads(json.dumps(played.report.to_json()))
    assert data["ok"] is True and data["kills"] == 3 and data["checks"]["each effect ran at most once"] is True
    assert not replace(played.report, checks={**played.report.checks, "pins still shown": False}).ok
    assert not replace(played.report, checks={}).ok


def test_the_report_sees_what_does_not_hold(played: Played, tmp_path: Path) -> None:
    """The checks can fail: an effect that was done twice, turns of another transcript, kills that nobody saw."""
    store = tmp_path / "demo.db"
    shutil.copy(played.store, store)
    World(store).path.write_text("".join(json.dumps(line) + "\n" for line in (*played.world, played.world[0])))
    chosen = script.load(sample_path(), 0, limit=50)
    with agent.open_store(store) as opened:
        counted = report.count(agent.open_session(opened, chosen), chosen, store, World(store), report.Seen())
    assert not counted.ok and counted.touched_most == 2
    assert [name for name, held in counted.checks.items() if not held] == [
        "killed three times, recovered three times",
        "each effect ran at most once",
        "every turn stands as it was given",
    ]
    assert "  each effect ran at most once: NO" in "\n".join(report.table(counted))


# --- transcripts of every kind -----------------------------------------------------------------------------------------

KINDS = (
    ("claude_code/8b418ea5-895d-4ad5-abe8-4489d36e454f.jsonl", "claude_code"),
    ("codex/rollout-2026-06-26T22-06-39-019f05f8-7f53-7492-a941-83098e16765c.jsonl", "codex"),
    ("pi/session-torn-line.jsonl", "pi"),
    ("tau_bench/gpt-4o-airline.json", "openai_chat"),
    ("tau2_bench/gpt-4.1_retail_default_1trial.json", "openai_chat"),
)


@pytest.mark.data
@pytest.mark.parametrize(("file", "format"), KINDS, ids=[file.partition("/")[0] for file, _ in KINDS])
def test_transcripts_of_each_format_hold(data_dir: Path, tmp_path: Path, file: str, format: str) -> None:
    """R1, R30, R33, R47: real transcripts of four formats, the first 80 records of each."""
    played = play(data_dir / file, tmp_path / "demo.db", limit=80)
    assert played.report.checks == dict.fromkeys(played.report.checks, True) and played.report.ok
    assert played.report.format == format and 8 <= played.report.records <= 80
    assert Counter(line["key"] for line in played.world).most_common(1)[0][1] == 1


def chat(path: Path, messages: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))
    return path


def talk(turns: int) -> list[dict[str, Any]]:
    """A conversation without any tool."""
    words = "the tide tables of the harbour, once more from the beginning, with all heights in metres"
    return [{"role": ("user", "assistant")[n % 2], "content": f"{n}: {words} {n * 7919}. " * 4} for n in range(turns)]


def test_a_transcript_without_effects_gets_one_that_is_labelled(tmp_path: Path) -> None:
    played = play(chat(tmp_path / "talk.jsonl", talk(40)), tmp_path / "demo.db", seed=3)
    assert played.report.ok, played.report.checks
    assert "1 calls change it (the transcript has none; this one is the demo's own)" in played.text
    assert [(line["tool"], line["arguments"]["note"][:15]) for line in played.world] == [("demo_effect", "added by lineal")]


def test_what_a_transcript_says_cannot_command_the_terminal(tmp_path: Path) -> None:
    messages = talk(24)
    for message in messages:
        message["content"] = "\x1b[2J\x07" + message["content"]
    played = play(chat(tmp_path / "escape.jsonl", messages), tmp_path / "demo.db")
    assert played.report.ok, played.report.checks
    assert all(line.isprintable() for line in played.lines)


# --- what it refuses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "more", "error", "says"),
    (
        (None, {}, Unavailable, "cannot read"),
        ("no transcript at all\n", {}, PolicyError, "is not known"),
        ("".join(json.dumps(m) + "\n" for m in talk(7)), {}, PolicyError, "gives 7 records that can be replayed, the demo needs 8"),
        ("".join(json.dumps(m) + "\n" for m in talk(40)), {"conversation": 1}, PolicyError, "conversation 1"),
        ("".join(json.dumps(m) + "\n" for m in talk(40)), {"limit": 7}, PolicyError, "at most 7 records were asked for"),
    ),
    ids=["missing", "unknown format", "too small", "no such conversation", "limit"],
)
def test_a_transcript_that_cannot_be_played_is_refused(
    tmp_path: Path, content: str | None, more: dict[str, Any], error: type[Exception], says: str
) -> None:
    """It says what is wrong and the way out, and leaves no store behind."""
    transcript = tmp_path / "given.jsonl"
    if content is not None:
        transcript.write_text(content)
    with pytest.raises(error, match=says) as refused:
        demo.run(transcript, tmp_path / "demo.db", out=print, **more)
    assert "Way out:" in str(refused.value)
    assert not (tmp_path / "demo.db").exists()


def test_a_transcript_that_gives_nothing_to_compact_is_refused(tmp_path: Path) -> None:
    """One call with all its results is never split: no compaction is even begun (R11, R14)."""
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": "look", "arguments": "{}"}} for n in range(7)]
    asked: list[dict[str, Any]] = [{"role": "user", "content": "look"}, {"role": "assistant", "content": None, "tool_calls": calls}]
    answers = [{"role": "tool", "tool_call_id": f"c{n}", "content": "seen"} for n in range(7)]
    with pytest.raises(Unavailable, match="without standing at: compaction"):
        demo.run(chat(tmp_path / "short.jsonl", [*asked, *answers]), tmp_path / "demo.db", out=lambda line: None)


def _a_text(path: Path) -> None:
    path.write_text("a diary")


def _a_folder(path: Path) -> None:
    path.mkdir()


def _another_program(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE diary(day TEXT)")


def _an_agents_store(path: Path) -> None:
    with lineal.connect(path) as store:
        store.session("demo").append({"role": "user", "content": "mine"})


@pytest.mark.parametrize("make", (_a_text, _a_folder, _another_program, _an_agents_store))
def test_a_file_that_is_not_its_own_is_left_alone(tmp_path: Path, make: Any) -> None:
    store = tmp_path / "demo.db"
    make(store)
    before = store.read_bytes() if store.is_file() else sorted(store.iterdir())
    with pytest.raises(Refused, match="not a store that the demo made") as refused:
        demo.run(None, store, out=print)
    assert refused.value.reason == "not_ours" and refused.value.remedy
    assert (store.read_bytes() if store.is_file() else sorted(store.iterdir())) == before


def test_a_world_file_that_is_not_its_own_is_left_alone(tmp_path: Path) -> None:
    world = tmp_path / "demo.world.jsonl"
    world.write_text('{"by": "somebody"}\n')
    with pytest.raises(Refused, match="was not written by the demo"):
        demo.run(None, tmp_path / "demo.db", out=print)
    assert world.read_text() == '{"by": "somebody"}\n'


def test_a_store_without_a_directory_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no directory"):
        demo.run(None, tmp_path / "nowhere" / "demo.db", out=print)


def test_its_own_store_is_replaced(played: Played, tmp_path: Path) -> None:
    """What is found at the end is one demo, not two: the log and the world begin anew."""
    store = tmp_path / "demo.db"
    shutil.copy(played.store, store)
    shutil.copy(World(played.store).path, World(store).path)
    again = play(None, store)
    assert again.report.ok
    assert (again.report.touched, again.report.touched_most) == (played.report.touched, 1)
    assert again.report.turns == played.report.turns


# --- the parts ---------------------------------------------------------------------------------------------------------


def test_an_agent_that_is_started_twice_says_and_does_nothing_twice(tmp_path: Path) -> None:
    """R2, R49: the second life finds everything in its log, and writes nothing."""
    command = killing.Command(sample_path(), tmp_path / "demo.db", 0, 60, 0)
    first = killing.run(command, (), print)
    times = World(command.store).times()
    second = killing.run(command, (), print)
    assert first.told[-1] == second.told[-1] == {**first.told[-1], "at": "end"}
    assert World(command.store).times() == times and max(times.values()) == 1


def test_an_agent_that_fails_is_reported_with_its_reason(tmp_path: Path) -> None:
    command = killing.Command(tmp_path / "missing.jsonl", tmp_path / "demo.db", 0, 60, 0)
    with pytest.raises(Unavailable, match="ended with 1, 0 was expected: .*missing.jsonl"):
        killing.run(command, (), print)


def test_an_agent_that_comes_to_no_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(killing, "PATIENCE", 0.01)
    with pytest.raises(Unavailable, match=r"came to no end within 0.01 s"):
        killing.run(killing.Command(sample_path(), tmp_path / "demo.db", 0, 60, 0), (), print)


def test_the_script_of_the_sample(played: Played) -> None:
    """The calls that change the world, by their keys; the one that is interrupted; the batch that is torn."""
    chosen = script.load(sample_path(), 0, demo.LIMIT)
    tools = Counter(call.tool for call in chosen.effects)
    assert tools == {"deploy": 4, "send_email": 3, "git_commit": 2, "create_ticket": 1, "rotate_key": 1}
    assert Counter(call.outcome for call in chosen.effects) == {"done": 10, "no_effect": 1}
    assert chosen.victim == "line-92:call_039:0" and not chosen.own_effect
    torn = chosen.steps[chosen.batch.start : chosen.batch.stop]
    assert len(torn) == script.BATCH and not any(step.calls or step.answers for step in torn)


@pytest.mark.parametrize("limit", range(88, 100))
def test_a_shortened_script_leaves_no_call_unanswered(limit: int) -> None:
    """A replay ends before a call whose result lies behind the limit, not between the two."""
    chosen = script.load(sample_path(), 0, limit)
    assert all(call.result is not None for call in chosen.effects)
    assert limit - 2 <= len(chosen.steps) <= limit
    assert chosen.passed_over[f"records behind the first {len(chosen.steps)}"] == 113 - len(chosen.steps)


def test_a_call_with_an_id_that_is_used_again_has_its_own_key(tmp_path: Path) -> None:
    """R50: models use ids again; the key names the turn, and each result goes to the call that waits for it."""
    call = {"id": "c1", "type": "function", "function": {"name": "send_email", "arguments": '{"to": "a"}'}}
    once: list[dict[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "sent"},
    ]
    chosen = script.load(chat(tmp_path / "again.jsonl", [*talk(4), *once, *talk(2), *once, *talk(4)]), 0, 50)
    assert [(c.key, c.result, c.outcome) for c in chosen.effects] == [("line-5:c1:0", 5, "done"), ("line-9:c1:0", 9, "done")]


def test_planning_and_reading_change_nothing(tmp_path: Path) -> None:
    names = ("update_plan", "read_file", "search_updates")
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": "{}"}} for n, name in enumerate(names)]
    answers = [{"role": "tool", "tool_call_id": f"c{n}", "content": "ok"} for n in range(len(names))]
    messages = [*talk(6), {"role": "assistant", "content": None, "tool_calls": calls}, *answers, *talk(6)]
    chosen = script.load(chat(tmp_path / "plan.jsonl", messages), 0, 50)
    assert chosen.own_effect and [call.tool for call in chosen.effects] == ["demo_effect"]
