"""Keeping house: nothing needed is dropped, what is purged is gone, and every answer can be checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lineal
from lineal.rules import tables
from lineal.transcripts import Record, read, sample_path


def test_a_dry_prune_and_a_real_one_drop_the_same(run: Any, store: Path) -> None:
    """R43, R46: and the session reads as before."""
    context = run("context", store).stdout
    dry = json.loads(run("prune", store, "--dry-run", "--keep-checkpoints", 0, "--json").stdout)["pruned"]
    assert "dropped " in run("prune", store, "--keep-checkpoints", 0).stdout
    assert run("context", store).stdout == context and run("verify", store).exit_code == 0
    seqs = {int(line[:7]) for line in run("log", store).stdout.splitlines()}
    assert dry["entries"] > 0 and not any(first <= seq <= last for first, last in dry["ranges"] for seq in seqs)
    assert "nothing can go" in run("prune", store, "--before", 2).stdout


def test_a_pack_leaves_every_answer_as_it_was(run: Any, store: Path) -> None:
    """R43, R46: and the file is smaller."""
    asked = [("context",), ("log",), ("search", "commit"), ("expand", "g1"), ("ledger",), ("export",)]
    before = [run(verb, store, *rest).stdout for verb, *rest in asked if verb != "log"]
    lines, size = run("log", store).stdout.splitlines(), store.stat().st_size
    dry = json.loads(run("pack", store, "--dry-run", "--json").stdout)["packed"]
    real = json.loads(run("pack", store, "--json").stdout)["packed"]
    assert (dry["entries"], dry["runs"], dry["segments"]) == (real["entries"], real["runs"], real["segments"]) and real["entries"] > 20
    assert [run(verb, store, *rest).stdout for verb, *rest in asked if verb != "log"] == before
    assert run("log", store).stdout.splitlines()[: len(lines)] == lines and run("verify", store).exit_code == 0
    assert store.stat().st_size < size and "nothing to pack" in run("pack", store).stdout


def test_a_prune_goes_by_age_number_and_size(run: Any, store: Path) -> None:
    assert "nothing can go" in run("prune", store, "--older-than", "30d", "--keep-checkpoints", 0).stdout
    whole = json.loads(run("prune", store, "--dry-run", "--keep-checkpoints", 0, "--older-than", 0, "--json").stdout)["pruned"]["entries"]
    for bound, value in (("--keep-entries", 60), ("--max-bytes", 20_000)):
        found = json.loads(run("prune", store, "--dry-run", "--keep-checkpoints", 0, bound, value, "--json").stdout)["pruned"]["entries"]
        assert 0 < found <= whole
    odd = run("prune", store, "--older-than", "a month")
    assert odd.exit_code == 2 and "no span of time" in odd.stderr


def test_a_purge_asks_first_and_then_erases_for_good(run: Any, store: Path) -> None:
    """R54: the words are nowhere in the file any more."""
    with lineal.connect(store, create=False) as opened:
        turn = next(t for t in opened.session("agent").view().turns if t.author == "assistant" and not t.message.get("tool_calls"))
    words = turn.message["content"].splitlines()[0][:24].encode()
    assert any(words in path.read_bytes() for path in store.parent.iterdir())
    before = store.read_bytes()
    assert run("purge", store, turn.id, input="n\n").exit_code == 1
    assert run("purge", store, turn.id, "--json").exit_code == 2
    assert store.read_bytes() == before
    done = run("purge", store, turn.id, input="y\n")
    assert done.exit_code == 0 and "for good?" in done.stderr and "erased 1 turns in 1 rows" in done.stdout
    assert not any(words in path.read_bytes() for path in store.parent.iterdir())
    assert run("verify", store).exit_code == 0 and "[content erased]" in run("log", store).stdout


def test_an_export_is_a_transcript_again(run: Any, store: Path, tmp_path: Path) -> None:
    """R7: what was imported comes out as it was, line by line, and can be imported again."""
    out = tmp_path / "out.jsonl"
    assert f"wrote 113 messages to {out}" in run("export", store, "--output", out).stdout
    given = [r.message for r in read(sample_path()) if isinstance(r, Record)]
    assert [json.loads(line) for line in out.read_text().splitlines()] == given
    again = json.loads(run("import", out, tmp_path / "again.db", "--json").stdout)
    assert again["imported"]["turns"] == 113
    assert run("export", store, "--output", out).exit_code == 1


def test_an_export_of_the_view_speaks_the_dialect_asked_for(run: Any, either: Path) -> None:
    for dialect in ("openai", "anthropic", "responses"):
        lines = run("export", either, "--what", "view", "--dialect", dialect).stdout.splitlines()
        with lineal.connect(either, create=False) as opened:
            assert [json.loads(line) for line in lines] == opened.session("agent").messages(dialect)


def test_verify_answers_for_every_session_and_in_progress_is_no_damage(run: Any, store: Path) -> None:
    run("fork", store, "child")
    with lineal.connect(store, create=False) as other:
        session = other.session("child", policy=lineal.Policy(trigger=900, target=300, floor_turns=1))
        session.append([{"role": "user", "content": "word " * 300}, {"role": "assistant", "content": "ok"}])
        session.plan_compaction()
        result = run("verify", store, "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0 and not document["damaged"] and not document["clean"]
    assert {r["session"]: r["verdict"] for r in document["reports"]} == {
        "agent": "POST_COMPACTION_CLEAN",
        "child": "COMPACTION_IN_PROGRESS",
    }


def test_verify_sees_that_the_anchor_is_ahead(run: Any, store: Path, tmp_path: Path) -> None:
    """R60: a session that is gone, and one whose tail was cut."""
    anchor = tmp_path / "elsewhere.json"
    anchor.write_text(json.dumps({"agent": [9_999, "00" * 32, 0], "vanished": [5, "00" * 32, 0]}))
    result = run("verify", store, "--anchor", anchor, "--json")
    found = {r["session"]: r["verdict"] for r in json.loads(result.stdout)["reports"]}
    assert result.exit_code == 3 and found == {"agent": "CUT_TAIL", "vanished": "CUT_TAIL"}


def test_the_rules_are_printed_from_the_tables_that_decide(run: Any) -> None:
    """R64: every row, word for word."""
    known = json.loads(run("rules", "--json").stdout)["tables"]
    assert [(t["rule"], [r["name"] for r in t["rows"]]) for t in known] == [(t.rule, [r.name for r in t.rows]) for t in tables()]
    recovery = run("rules", "recovery").stdout
    assert recovery.startswith("**recovery** (record 000)") and "not_newer" in recovery and "unguarded" not in recovery
