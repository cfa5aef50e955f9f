"""Looking: one axis, exact context, honest numbers; and nothing that was said can steer a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lineal
from lineal.transcripts import sample_path

ESC = "\x1b[2Jgone\x1b]0;title\x07 \u202egnp.exe \u200b"


@pytest.fixture
def hostile(store_path: Path) -> Path:
    """A session whose words would clear the screen, set the title, reorder the line, and break UTF-8."""
    with lineal.connect(store_path) as store:
        session = store.session("s")
        session.append({"role": "user", "content": ESC}, id=f"id{ESC}")
        session.append({"role": "assistant", "content": "half a pair: \ud83d and NUL: \0"})
        with session.effect("tool", {"x": ESC}, key=f"k{ESC}") as effect:
            effect.no_effect(ESC)
    return store_path


# --- log -----------------------------------------------------------------------------------------------------------------------


def test_the_log_is_one_axis_with_its_marks(run: Any, either: Path) -> None:
    """Every seq once, in order; the compaction framed, the checkpoints marked."""
    lines = run("log", either).stdout.splitlines()
    with lineal.connect(either, create=False) as store:
        head = store.session("agent").status().head
    assert [int(line[:7]) for line in lines] == list(range(1, head + 1))
    marks = [line[8] for line in lines if line[8] != " "]
    passes = (len(marks) - 2) // 2
    assert passes >= 1 and marks == ["●", *["┌", "└"] * passes, "●"]


def test_the_log_can_be_cut_to_a_stretch_and_to_kinds(run: Any, store: Path) -> None:
    seqs = [int(line[:7]) for line in run("log", store, "--after", 3, "--until", 6).stdout.splitlines()]
    assert seqs == [4, 5, 6]
    kinds = {e["kind"] for e in json.loads(run("log", store, "--kind", "compaction", "--kind", "checkpoint", "--json").stdout)["entries"]}
    assert kinds == {"compaction_begun", "compaction_committed", "checkpoint"}
    assert run("log", store, "--kind", "x.note").stdout == ""


def test_a_rollback_stands_on_the_same_axis(run: Any, store: Path) -> None:
    """Going back is going forward: one more line, nothing taken away."""
    run("pin", store, "one more thing")
    before = run("log", store).stdout
    assert run("rollback", store, "after").exit_code == 0
    after = run("log", store).stdout
    assert after.startswith(before) and "↶ rolled_back" in after


# --- context and status ----------------------------------------------------------------------------------------------------------


def test_the_raw_context_is_what_the_session_gives(run: Any, either: Path) -> None:
    """Exactly what the model would be shown, as given and in each dialect."""
    for dialect in (None, "openai", "anthropic", "responses"):
        with lineal.connect(either, create=False) as store:
            messages = store.session("agent").messages(dialect)
        given = run("context", either, "--raw", *(("--dialect", dialect) if dialect else ()))
        assert json.loads(given.stdout) == messages


def test_the_context_adds_up(run: Any, either: Path) -> None:
    document = json.loads(run("context", either, "--json").stdout)
    with lineal.connect(either, create=False) as store:
        session = store.session("agent")
        status, shown = session.status(), len(session.messages())
    assert len(document["messages"]) == shown
    assert sum(m["tokens"] for m in document["messages"] if m["what"] != "derived") == status.tokens
    assert {b["name"]: b["used"] for b in document["budgets"]} == {"tokens": status.tokens, "bytes": status.bytes, "items": status.items}
    assert all(m["why"] for m in document["messages"])


def test_the_policy_of_the_last_compaction_holds_and_options_override_it(run: Any, store: Path) -> None:
    def budget(*options: Any) -> dict[str, Any]:
        budgets: list[dict[str, Any]] = json.loads(run("context", store, *options, "--json").stdout)["budgets"]
        return budgets[0]

    assert budget()["trigger"] == 6_000
    assert budget("--trigger", 7_000)["trigger"] == 7_000
    assert (budget("--ceiling", 500)["trigger"], budget("--ceiling", 500)["ceiling"]) == (444, 500)


def test_reported_usage_is_said_beside_the_count(run: Any, store_path: Path) -> None:
    """R25: the counter was tightened; the numbers say by how much."""
    with lineal.connect(store_path) as store:
        session = store.session("s")
        session.append({"role": "user", "content": "word " * 6_000})
        session.record_usage(2 * session.status().tokens)
    assert "calibrated by what the provider reported (x 2.00" in run("context", store_path).stdout


def test_an_empty_view_is_said_to_be_empty(run: Any, store_path: Path) -> None:
    with lineal.connect(store_path) as store:
        store.session("s").record_usage(10)
    assert "shown nothing" in run("context", store_path).stdout
    assert "No effect is recorded." in run("ledger", store_path).stdout
    assert "No turn has these words." in run("search", store_path, "tide").stdout
    assert "There is no checkpoint." in run("checkpoint", store_path, "--list").stdout


def test_status_names_what_needs_attention(run: Any, store_path: Path) -> None:
    with lineal.connect(store_path) as store:
        session = store.session("s")
        session.append({"role": "user", "content": "hi"})
        with pytest.raises(OSError), session.effect("mail", "x", key="m1"):
            raise OSError("cable")
    text = run("status", store_path).stdout
    assert "  bad  effects: 1 of unknown outcome: m1; find out, then `effect resolve`" in text
    assert {h["state"] for h in json.loads(run("status", store_path, "--json").stdout)["health"]} == {"ok", "bad"}


# --- what was said cannot steer the terminal ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["log", "context", "ledger", "status", "sessions"])
def test_nothing_that_was_said_reaches_the_terminal_raw(run: Any, hostile: Path, command: str) -> None:
    """Escapes, direction marks and broken characters are shown as escapes."""
    text = run(command, hostile).stdout
    assert not set(text) & {"\x1b", "\x07", "\0", "\u202e", "\ud83d"}
    if command in ("log", "context"):
        assert "\\x1b[2Jgone" in text and "\\u202e" in text


def test_json_gives_it_back_exactly(run: Any, hostile: Path) -> None:
    """R7: what was said comes out of --json and of export as it went in, half a surrogate pair too."""
    said = [ESC, "half a pair: \ud83d and NUL: \0"]
    assert [t["message"]["content"] for t in json.loads(run("expand", hostile, f"id{ESC}", "--json").stdout)["turns"]] == said[:1]
    assert [json.loads(line)["content"] for line in run("export", hostile).stdout.splitlines()] == said
    assert [m["content"] for m in json.loads(run("context", hostile, "--raw").stdout)] == said


# --- search, expand, sessions, audit -------------------------------------------------------------------------------------------------


def test_what_left_the_view_is_found_and_read_again(run: Any, store: Path) -> None:
    """R53: a hit's handle gives the exact turn, though a summary stands for it."""
    (hit, *_) = json.loads(run("search", store, "tzdata", "2019.3", "--limit", 3, "--json").stdout)["hits"]
    (turn,) = json.loads(run("expand", store, hit["handle"], "--json").stdout)["turns"]
    assert turn["seq"] == hit["seq"] and "tzdata" in json.dumps(turn["message"])
    assert "tzdata" in run("expand", store, hit["handle"]).stdout


def test_a_summarys_handle_reads_every_turn_behind_it(run: Any, either: Path) -> None:
    turns = json.loads(run("expand", either, "g1", "--json").stdout)["turns"]
    with lineal.connect(either, create=False) as store:
        assert [t["id"] for t in turns] == [t.id for t in store.session("agent").expand("g1")]


def test_all_sessions_of_a_store_are_listed(run: Any, store: Path) -> None:
    run("fork", store, "what if")
    rows = json.loads(run("sessions", store, "--json").stdout)["sessions"]
    assert [r["session"] for r in rows] == ["agent", "what if"] and all(r["exit_code"] == 0 for r in rows)


def test_an_audit_writes_a_page_and_reads_directories(run: Any, tmp_path: Path) -> None:
    page = tmp_path / "audit.html"
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(sample_path().read_bytes())
    (folder / "b.jsonl").write_text("no transcript\n")
    result = run("audit", folder, "--html", page)
    assert result.exit_code == 0 and "1 read, 1 skipped" in result.stdout and "<html" in page.read_text()
    assert run("audit", folder / "b.jsonl").exit_code == 2
    assert run("audit", folder / "c.jsonl").exit_code == 5
