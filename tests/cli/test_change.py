"""Changing a log and its view: what a command reports is what the session then says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lineal
from lineal.session import summarizing
from lineal.transcripts import sample_path

EFFECTS = ("--changes-state", "deploy", "--changes-state", "send_*")


def chat(path: Path, *messages: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(m) + "\n" for m in messages))
    return path


# --- import ----------------------------------------------------------------------------------------------------------------------


def test_an_import_makes_the_store_and_names_the_session_after_the_file(run: Any, store_path: Path) -> None:
    first = run("import", sample_path(), store_path, *EFFECTS)
    assert first.exit_code == 0 and "session 'release-day': 113 turns added, 0 already there; 7 effects added" in first.stdout
    again = json.loads(run("import", sample_path(), store_path, *EFFECTS, "--json").stdout)
    assert again["session"] == "release-day" and (again["imported"]["turns"], again["imported"]["already_there"]) == (0, 113)
    with lineal.connect(store_path, create=False) as store:
        assert store.session("release-day").status().head == again["head"]


def test_what_was_not_taken_as_it_stood_is_told_line_by_line(run: Any, store_path: Path, tmp_path: Path) -> None:
    """Nothing is skipped in silence: damage, orphans, open calls."""
    file = chat(tmp_path / "t.jsonl", {"role": "user", "content": "go"}, {"role": "tool", "tool_call_id": "c0", "content": "late"})
    call = {"id": "c1", "type": "function", "function": {"name": "deploy", "arguments": "{}"}}
    with file.open("a") as f:
        f.write('{"role": "assis\n' + json.dumps({"role": "assistant", "content": None, "tool_calls": [call]}) + "\n\n")
    text = run("import", file, store_path, *EFFECTS).stdout
    assert "line 3: quarantined: torn line" in text and "line 2: a result of call c0" in text
    assert "effect @" in text and "has an unknown outcome" in text and "lines that no model saw: 1 blank line" in text


def test_a_conversation_of_many_is_a_session_of_its_own(run: Any, store_path: Path, data_dir: Path) -> None:
    file = data_dir / "tau_bench/gpt-4o-airline.json"
    for number in (0, 3):
        assert run("import", file, store_path, "--conversation", number).exit_code == 0
    names = [row["session"] for row in json.loads(run("sessions", store_path, "--json").stdout)["sessions"]]
    assert names == ["gpt-4o-airline-0", "gpt-4o-airline-3"]


def test_an_import_that_fails_makes_no_store(run: Any, store_path: Path, tmp_path: Path) -> None:
    for transcript in (tmp_path / "absent.jsonl", Path(__file__)):
        assert run("import", transcript, store_path).exit_code != 0
    assert run("import", sample_path(), store_path, "--trigger", -1).exit_code == 2
    assert not store_path.exists()


def test_an_import_can_compact_on_the_way(run: Any, store_path: Path) -> None:
    result = run("import", sample_path(), store_path, "--compact", "--trigger", 4_000, "--target", 1_500, "--floor-turns", 4)
    assert result.exit_code == 0 and "compacted " in result.stdout
    with lineal.connect(store_path, create=False) as store:
        session = store.session("release-day")
        assert session.status().generation > 0 and len(session.turns()) == 113


def test_the_anchor_moves_with_the_import(run: Any, store_path: Path, tmp_path: Path) -> None:
    """R60: the head is remembered outside; a copy from before is found out."""
    anchor = tmp_path / "elsewhere.json"
    run("import", sample_path(), store_path, "--anchor", anchor)
    assert json.loads(anchor.read_text())["release-day"][0] == 113
    assert run("verify", store_path, "--anchor", anchor).exit_code == 0


# --- compact ---------------------------------------------------------------------------------------------------------------------


def test_compact_uses_the_stored_policy_and_what_is_given(run: Any, store_path: Path) -> None:
    run("import", sample_path(), store_path)
    below = run("compact", store_path, "--if-needed")
    assert below.exit_code == 0 and "nothing to do: the view has " in below.stdout
    done = json.loads(run("compact", store_path, "--trigger", 5_000, "--target", 1_500, "--floor-turns", 4, "--json").stdout)
    assert done["outcome"] == "compacted" and done["tokens_after"] < done["tokens_before"] and len(done["kept"]) >= 4
    with lineal.connect(store_path, create=False) as store:
        stored = store.session("release-day").log.lineage.policy
    assert (stored["trigger"], stored["target"], stored["floor_turns"]) == (5_000, 1_500, 4)
    again = run("compact", store_path)
    assert again.exit_code == 0 and "nothing to do" in again.stdout


def test_a_repeat_with_the_same_request_id_gives_the_first_result(run: Any, store_path: Path) -> None:
    """R24: a script that is run twice compacts once."""
    run("import", sample_path(), store_path)
    options = ("compact", store_path, "--trigger", 5_000, "--target", 1_500, "--request-id", "nightly", "--json")
    first, second = json.loads(run(*options).stdout), json.loads(run(*options).stdout)
    assert (first["generation"], first["handle"]) == (second["generation"], second["handle"]) == (1, "g1")


def test_nothing_to_compact_is_exit_code_0_and_writes_nothing(run: Any, store_path: Path, tmp_path: Path) -> None:
    """R14: one indivisible unit."""
    run("import", chat(tmp_path / "t.jsonl", {"role": "user", "content": "x " * 50}), store_path)
    before = store_path.read_bytes()
    result = run("compact", store_path, "--floor-turns", 0)
    assert (result.exit_code, store_path.read_bytes()) == (0, before) and "nothing to do: nothing to cover" in result.stdout


def test_a_floor_that_was_evicted_is_refused_with_exit_code_1(run: Any, store_path: Path) -> None:
    """Record 002: the floor cannot be proven inside what the summarizer reads; the turn and its range are named."""
    run("import", sample_path(), store_path)
    with lineal.connect(store_path, create=False) as opened:
        session = opened.session("release-day")
        session.note_eviction([session.log.lineage.turns[-2].id], "host")
    before = store_path.read_bytes()
    result = run("compact", store_path, "--trigger", 5_000, "--target", 1_500)
    assert result.exit_code == 1 and "seq 112" in result.stderr and "way out: " in result.stderr
    error = json.loads(run("compact", store_path, "--trigger", 5_000, "--target", 1_500, "--json").stdout)["error"]
    assert (error["type"], error["reason"]) == ("UnrecoverableCompactionError", "floor_missing")
    assert store_path.read_bytes() == before


def test_while_another_compacts_the_command_is_refused(run: Any, store: Path) -> None:
    """R33: a live holder is waited for, not taken for dead; the refusal names it."""
    with lineal.connect(store, create=False) as other:
        session = other.session("agent", policy=lineal.Policy(trigger=900, target=300, floor_turns=1))
        session.append([{"role": "user", "content": "word " * 200}, {"role": "assistant", "content": "word " * 200}])
        session.append({"role": "user", "content": "and now?"})
        session.plan_compaction()
        refused = run("compact", store)
        assert refused.exit_code == 1 and "way out: " in refused.stderr
        assert json.loads(run("compact", store, "--json").stdout)["error"]["rule"] == "compaction"
        assert run("checkpoint", store).exit_code == 1


def test_a_summarizer_that_fails_is_exit_code_1_and_the_view_stays(run: Any, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R16: whatever happens to the summarizer, the view is as it was."""
    with lineal.connect(store, create=False) as opened:
        opened.session("agent").append([{"role": "user", "content": "word " * 900}, {"role": "assistant", "content": "ok"}] * 4)

    def broken(*_: Any) -> str:
        raise OSError("no route to the model")

    before = json.loads(run("context", store, "--json").stdout)
    monkeypatch.setattr(summarizing, "ask", broken)
    result = run("compact", store)
    assert result.exit_code == 1 and "no route to the model" in result.stderr
    assert json.loads(run("compact", store, "--json").stdout)["error"]["type"] == "Failed"
    after = json.loads(run("context", store, "--json").stdout)
    assert (after["messages"], after["generation"]) == (before["messages"], before["generation"])


# --- pin, spill ------------------------------------------------------------------------------------------------------------------


def test_a_turn_is_pinned_by_its_id_and_a_text_by_its_words(run: Any, store: Path) -> None:
    with lineal.connect(store, create=False) as opened:
        id = opened.session("agent").log.lineage.turns[-1].id
    assert f"pinned the turn '{id}'" in run("pin", store, id).stdout
    assert json.loads(run("pin", store, "by 17:30 UTC", "--json").stdout)["kind"] == "text"
    assert "by 17:30 UTC" in run("context", store, "--raw").stdout
    assert run("unpin", store, id).exit_code == run("unpin", store, "by 17:30 UTC").exit_code == 0
    with lineal.connect(store, create=False) as opened:
        assert opened.session("agent").view().pins == ()


def test_a_spill_shrinks_the_view_and_comes_back_exact(run: Any, store: Path) -> None:
    """R53: byte-exact through its handle."""
    with lineal.connect(store, create=False) as opened:
        turn = opened.session("agent").view().turns[-1]
    spilled = json.loads(run("spill", store, turn.id, "--json").stdout)
    (back,) = json.loads(run("expand", store, spilled["handle"], "--json").stdout)["turns"]
    assert back["message"] == turn.message and spilled["turns"] == 1


def test_the_demo_runs_and_leaves_its_store(run: Any, tmp_path: Path) -> None:
    """Killed three times, gone back once, nothing lost: and its store can be looked into."""
    place = tmp_path / "demo.db"
    result = run("demo", "--store", place, "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0 and document["ok"] and document["kills"] == 3
    assert run("verify", place).exit_code == 0
