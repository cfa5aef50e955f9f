"""Every command, for people and as one JSON document, on the shipped sample and on a real transcript."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lineal
from lineal.cli import SECTIONS, cli
from lineal.rules.cut import units
from lineal.transcripts import sample_path


def loose_turn(store: Path) -> str:
    """The id of a turn that stands in the view and may leave it: whole, answered, and not the newest word of the user."""
    with lineal.connect(store, create=False) as opened:
        turns = opened.session("agent").log.lineage.turns
    newest = next(t.id for t in reversed(turns) if t.author == "user")
    return next(u.turns[0].id for u in reversed(units(turns)) if not u.open and newest not in {t.id for t in u.turns})


def effect_key(store: Path) -> str:
    with lineal.connect(store, create=False) as opened:
        return opened.session("agent").ledger()[0].key


Arguments = Callable[[Path], list[Any]]
# command -> arguments for a store, what a person reads, what a program finds
COMMANDS: dict[str, tuple[Arguments, str, str]] = {
    "import": (lambda s: [sample_path(), s, "-s", "other"], "113 turns added", "imported"),
    "audit": (lambda s: [sample_path()], "release-day.jsonl", "audits"),
    "log": (lambda s: [s], "compaction g1 committed", "entries"),
    "context": (lambda s: [s], "of the ceiling", "messages"),
    "status": (lambda s: [s], ", generation ", "health"),
    "ledger": (lambda s: [s], "done", "effects"),
    "search": (lambda s: [s, "commit"], "commit", "hits"),
    "expand": (lambda s: [s, "g1"], "--- seq ", "turns"),
    "sessions": (lambda s: [s], "agent", "sessions"),
    "compact": (lambda s: [s], "nothing to do", "outcome"),
    "spill": (lambda s: [s, loose_turn(s)], " into g", "handle"),
    "pin": (lambda s: [s, "never touch the staging bucket"], "pinned the text", "pin"),
    "unpin": (lambda s: [s, "held"], "unpinned 'held'", "unpinned"),
    "checkpoint": (lambda s: [s, "third"], "checkpoint cp", "checkpoint"),
    "recover": (lambda s: [s, "--explain"], "recovery would restore checkpoint", "checkpoints"),
    "rollback": (lambda s: [s, "after", "--dry-run"], "would go back to seq", "rollback"),
    "fork": (lambda s: [s, "child"], "session 'child' begins", "status"),
    "effect list": (lambda s: [s, "--state", "done"], "done", "effects"),
    "effect resolve": (lambda s: [s, effect_key(s), "compensated"], "is now compensated", "effect"),
    "hook install": (lambda s: ["codex", "--settings", s.parent / "hooks.json", "--yes"], "hooks of codex installed", "installed"),
    "hook uninstall": (lambda s: ["codex", "--settings", s.parent / "hooks.json", "--yes"], "are uninstalled", "uninstalled"),
    "verify": (lambda s: [s], "POST_COMPACTION_CLEAN", "reports"),
    "doctor": (lambda s: [s], "durability", "checks"),
    "prune": (lambda s: [s, "--dry-run", "--keep-checkpoints", 0], "would drop", "pruned"),
    "pack": (lambda s: [s, "--dry-run"], "would pack ", "packed"),
    "purge": (lambda s: [s, loose_turn(s), "--dry-run"], "would erase", "purged"),
    "export": (lambda s: [s], '"role"', "messages"),
    "guard take": (lambda s: [s, "--table", "entries", "--manifest", s.parent / "new.guard"], " records of 'entries'", "manifest"),
    "guard check": (lambda s: [s, "--manifest", s.parent / "rows.guard"], "POST_COMPACTION_CLEAN", "verdict"),
    "guard show": (lambda s: [s.parent / "rows.guard"], "state hash", "footer"),
    "rules": (lambda s: [], "| row | condition, first match wins | verdict |", "tables"),
}
LEFT_OUT = {"demo", "mcp"}  # have tests of their own: one is slow, one serves until it is stopped


def test_no_command_is_left_out() -> None:
    """A new command without a line above fails here; so does one that `--help` does not show."""
    listed = {str(c.name) for commands in SECTIONS.values() for c in commands}
    assert set(cli.commands) == listed == {name.split()[0] for name in COMMANDS} | LEFT_OUT


@pytest.mark.parametrize("command", COMMANDS)
def test_for_people(run: Any, either: Path, command: str) -> None:
    """A command answers in words, with nothing on stderr and exit code 0."""
    arguments, words, _ = COMMANDS[command]
    prepare(run, either, command)
    result = run(*command.split(), *arguments(either))
    assert result.exit_code == 0, result.output
    assert words in result.stdout and result.stderr == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_for_programs(run: Any, either: Path, command: str) -> None:
    """With --json: one document on stdout, nothing else anywhere."""
    arguments, _, key = COMMANDS[command]
    prepare(run, either, command)
    result = run(*command.split(), *arguments(either), "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document[key] and result.stderr == ""


def prepare(run: Any, store: Path, command: str) -> None:
    if command == "unpin":
        run("pin", store, "held")
    if command in ("guard check", "guard show"):
        run("guard", "take", store, "--table", "entries", "--manifest", store.parent / "rows.guard")
    if command == "rollback":
        with lineal.connect(store, create=False) as opened:
            session = opened.session("agent")
            for key in session.status().unknown_effects:
                session.resolve_effect(key, "happened")
            session.append({"role": "user", "content": "one more"})


READING = (
    "log",
    "context",
    "status",
    "ledger",
    "search",
    "expand",
    "sessions",
    "recover",
    "rollback",
    "effect list",
    "verify",
    "doctor",
    "prune",
    "purge",
    "export",
)


@pytest.mark.parametrize("command", READING)
def test_a_reading_command_changes_no_byte_and_leaves_no_file(run: Any, store: Path, command: str) -> None:
    """Looking, and trying out, leaves the directory as it was."""
    prepare(run, store, command)
    arguments = COMMANDS[command][0](store)
    before = {path.name: path.read_bytes() for path in store.parent.iterdir()}
    assert run(*command.split(), *arguments).exit_code == 0
    assert {path.name: path.read_bytes() for path in store.parent.iterdir()} == before
    elsewhere = store.parent / "absent.db"
    answer = run(*command.split(), *(elsewhere if a == store else a for a in arguments))
    assert not elsewhere.exists() and answer.exit_code == (0 if command == "doctor" else 5)


@pytest.mark.parametrize("command", [*COMMANDS, "demo", "mcp", "effect", "hook", "hook claude-code", "hook codex", ""])
def test_help_is_one_clear_text(run: Any, command: str) -> None:
    result = run(*command.split(), "--help")
    assert result.exit_code == 0 and result.stdout.startswith("Usage: ")


def test_help_groups_the_commands(run: Any) -> None:
    text = run("--help").stdout
    titles = ["See:", "Change:", "Go back:", "World:", "House:"]
    assert [line for line in text.splitlines() if line in titles] == titles
    assert all(len(line) <= 100 for line in text.splitlines())


def test_version(run: Any) -> None:
    assert run("--version").stdout.strip() == f"lineal, version {lineal.__version__}"
