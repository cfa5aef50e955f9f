"""Hooks go into a host's settings, and out again: what is not lineal's keeps its bytes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

import lineal
from lineal.errors import Conflict

FILES = {
    "four spaces, no newline at the end": '{\n    "model": "opus",\n    "permissions": {"allow": ["Read"], "deny": []},\n    "n": 1e5}',
    "tabs and other letters": '{\n\t"größe": "ü",\n\t"env": { "A":"1" , "B" : "2" }\n}\n',
    "line ends of Windows": '{\r\n  "model": "opus"\r\n}\r\n',
    "one line": '{"model":"opus","hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}}',
    "an empty object": "{}\n",
    "empty hooks": '{"hooks": {}}\n',
    "an empty event": '{\n  "hooks": {\n    "PreToolUse": [],\n    "PreCompact": []\n  }\n}\n',
    "hooks of others": """{
  "hooks": {
    "PreToolUse": [
      {"matcher": "Edit", "hooks": [{"type": "command", "command": "fmt 'unclosed"}]}
    ]
  },
  "theme": "dark"
}
""",
}
HOSTS = ("claude-code", "codex")


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    return tmp_path / "settings.json"


def put_in(run: Any, settings: Path, host: str = "claude-code", *more: Any) -> Any:
    return run("hook", "install", host, "--settings", settings, "--store", settings.parent / "hooks.db", "--yes", *more)


def take_out(run: Any, settings: Path, host: str = "claude-code", *more: Any) -> Any:
    return run("hook", "uninstall", host, "--settings", settings, "--yes", *more)


def handlers(settings: Path) -> list[tuple[str, str | None, dict[str, Any]]]:
    """(event, matcher, handler) of every hook in the file."""
    hooks = json.loads(settings.read_bytes()).get("hooks", {})
    return [(event, group.get("matcher"), one) for event, groups in hooks.items() for group in groups for one in group["hooks"]]


def own(settings: Path, host: str = "claude-code") -> list[tuple[str, str | None, dict[str, Any]]]:
    return [one for one in handlers(settings) if f"-m lineal hook {host} " in one[2]["command"]]


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("before", FILES.values(), ids=FILES)
def test_the_file_is_afterwards_what_it_was(run: Any, settings: Path, before: str, host: str) -> None:
    """Every line of others stands there still, in its order; taking the hooks out gives back every byte."""
    settings.write_bytes(before.encode())
    assert put_in(run, settings, host).exit_code == 0
    text = settings.read_bytes().decode()
    if "\n  " in before or "\t" in before:
        place = -1
        for line in before.splitlines():
            place = text.index(line.rstrip("[],{} "), place + 1)
    kept = json.loads(text)
    for event, groups in json.loads(before).get("hooks", {}).items():
        assert kept["hooks"][event][: len(groups)] == groups
    assert {k: v for k, v in kept.items() if k != "hooks"} == {k: v for k, v in json.loads(before).items() if k != "hooks"}
    events = {event for event, _, _ in own(settings, host)}
    assert events == {"PreCompact", "PostCompact", "SessionStart", "PreToolUse", "PostToolUse"} | (
        {"PostToolUseFailure"} if host == "claude-code" else set()
    )
    assert take_out(run, settings, host).exit_code == 0
    assert settings.read_bytes() == before.encode() and sorted(p.name for p in settings.parent.iterdir()) == ["settings.json"]


def test_a_file_that_was_not_there_is_gone_again(run: Any, tmp_path: Path) -> None:
    settings = tmp_path / "home" / ".codex" / "hooks.json"
    assert put_in(run, settings, "codex").exit_code == 0 and own(settings, "codex")
    assert take_out(run, settings, "codex").exit_code == 0 and not settings.exists()
    assert take_out(run, settings, "codex").exit_code == 0


def test_a_second_time_changes_nothing_and_other_options_replace_the_first(run: Any, settings: Path) -> None:
    before = FILES["hooks of others"]
    settings.write_text(before)
    put_in(run, settings)
    first, inode = settings.read_bytes(), settings.stat().st_ino
    again = put_in(run, settings)
    assert again.exit_code == 0 and "nothing to do" in again.stdout
    assert settings.read_bytes() == first and settings.stat().st_ino == inode
    count = len(own(settings))
    put_in(run, settings, "claude-code", "--effects", "mcp__mail__send", "--effects", "Bash(make deploy*)", "--on-lookalike", "warn")
    assert len(own(settings)) == count and all("--on-lookalike warn" in one["command"] for _, _, one in own(settings))
    assert {m for e, m, _ in own(settings) if e == "PreToolUse"} == {"Bash|mcp__mail__send"}
    assert {m for e, m, _ in own(settings) if e == "SessionStart"} == {"compact"}
    take_out(run, settings)
    assert settings.read_text() == before


def test_what_others_changed_meanwhile_stays(run: Any, settings: Path) -> None:
    """A setting added after the install, and a handler that somebody put into one of lineal's groups."""
    settings.write_text(FILES["hooks of others"])
    put_in(run, settings)
    edited = settings.read_text().replace('"theme": "dark"', '"theme": "light",  "added": [1,2]')
    at = edited.index('"hooks": [', edited.index('"PreCompact"')) + len('"hooks": [')
    edited = edited[:at] + '{"type": "command", "command": "backup"}, ' + edited[at:]
    settings.write_text(edited)
    assert take_out(run, settings).exit_code == 0
    assert '"theme": "light",  "added": [1,2]' in settings.read_text() and not own(settings)
    assert [(e, h["command"]) for e, _, h in handlers(settings)] == [("PreToolUse", "fmt 'unclosed"), ("PreCompact", "backup")]


def test_hosts_do_not_touch_each_others_entries(run: Any, settings: Path) -> None:
    put_in(run, settings, "claude-code")
    alone = own(settings, "claude-code")
    put_in(run, settings, "codex")
    take_out(run, settings, "codex")
    assert own(settings, "claude-code") == alone and not own(settings, "codex")


def test_the_change_is_shown_and_asked_for(run: Any, settings: Path) -> None:
    settings.write_text(FILES["an empty object"])
    refused = run("hook", "install", "claude-code", "--settings", settings, input="n\n")
    assert refused.exit_code == 1 and '+    "PreCompact": [' in refused.stdout and f"Put the hooks into {settings}?" in refused.stderr
    assert settings.read_text() == "{}\n" and len([*settings.parent.iterdir()]) == 1
    agreed = run("hook", "install", "claude-code", "--settings", settings, input="y\n")
    assert agreed.exit_code == 0 and own(settings)
    assert settings.with_name("settings.json.before-lineal").read_text() == "{}\n"
    assert run("hook", "uninstall", "claude-code", "--settings", settings, "--json").exit_code == 2 and own(settings)


@pytest.mark.parametrize(
    "text",
    ["", "{", "// a comment\n{}", "[]", '{"a": 1, "a": 2}', '{"hooks": []}', '{"hooks": {"Stop": {}}}', "\ufeff{}"],
)
@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_a_file_that_could_not_be_given_back_is_not_touched(run: Any, settings: Path, text: str, verb: str) -> None:
    settings.write_text(text)
    answer = run("hook", verb, "claude-code", "--settings", settings, "--yes")
    assert answer.exit_code == 2 and "nothing was changed" in answer.stderr
    assert settings.read_text() == text and len([*settings.parent.iterdir()]) == 1


def test_a_file_changed_while_the_question_stood_is_not_overwritten(run: Any, settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.write_text("{}\n")
    monkeypatch.setattr(click, "confirm", lambda *words, **more: settings.write_text('{"new": 1}\n'))
    assert run("hook", "install", "claude-code", "--settings", settings).exit_code == Conflict.exit_code
    assert settings.read_text() == '{"new": 1}\n'


def test_a_link_stays_a_link_and_the_mode_stays(run: Any, settings: Path) -> None:
    """Settings that are kept elsewhere and linked, and readable by their owner alone."""
    kept = settings.parent / "dotfiles" / "claude.json"
    kept.parent.mkdir()
    kept.write_text("{}\n")
    kept.chmod(0o600)
    settings.symlink_to(kept)
    put_in(run, settings)
    assert settings.is_symlink() and own(kept) and kept.stat().st_mode & 0o777 == 0o600
    assert settings.with_name("settings.json.before-lineal").stat().st_mode & 0o777 == 0o600
    take_out(run, settings)
    assert settings.is_symlink() and kept.read_text() == "{}\n"


def test_a_pattern_that_cannot_be_meant_is_refused(run: Any, settings: Path) -> None:
    assert put_in(run, settings, "claude-code", "--effects", "Bash(git push*").exit_code == 2 and not settings.exists()


def test_the_default_files_are_the_hosts_own(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "c"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "x"))
    for host, file in (("claude-code", tmp_path / "c" / "settings.json"), ("codex", tmp_path / "x" / "hooks.json")):
        assert run("hook", "install", host, "--yes", "--json").exit_code == 0 and own(file, host)


@pytest.mark.parametrize("host", HOSTS)
def test_what_was_installed_runs_from_any_folder(run: Any, tmp_path: Path, host: str) -> None:
    """The command as it stands in the file, through a shell, somewhere else, without a PATH of ours."""
    folder = tmp_path / "with a blank"
    folder.mkdir()
    put_in(run, folder / "hooks.json", host)
    command = next(one["command"] for event, _, one in own(folder / "hooks.json", host) if event == "PreCompact")
    event = {"session_id": "s1", "transcript_path": str(folder / "absent.jsonl"), "hook_event_name": "PreCompact", "trigger": "auto"}
    env = {"HOME": os.environ["HOME"], "PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(lineal.__file__).parents[1])}
    done = subprocess.run(command, shell=True, input=json.dumps(event).encode(), capture_output=True, cwd="/", env=env, timeout=120)
    assert "absent.jsonl" in json.loads(done.stdout)["reason" if host == "claude-code" else "stopReason"]
    assert done.returncode == (2 if host == "claude-code" else 0) and (folder / "hooks.db").exists()
