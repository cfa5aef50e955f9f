"""How calls ended, and which of them change the world."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lineal.errors import PolicyError
from lineal.transcripts import changes_state, outcome
from lineal.transcripts.effects import changing


def anthropic(text: str, is_error: bool | None = None) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "c1", "content": text, **({} if is_error is None else {"is_error": is_error})}
    return {"role": "user", "content": [block]}


def codex(text: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": "c1", "output": text}


def chat(text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "c1", "content": text}


def ran(state: str, output: str = "") -> str:
    return f"Chunk ID: 1\nWall time: 0.1 seconds\n{state}\nOriginal token count: 1\nOutput:\n{output}"


@pytest.mark.parametrize(
    ("format", "message", "expected"),
    [
        ("claude_code", anthropic("[main 1d97c3b] done"), "done"),
        ("claude_code", anthropic("The user doesn't want to proceed with this tool use.", True), "no_effect"),
        ("claude_code", anthropic("<tool_use_error>String to replace not found in file.</tool_use_error>", True), "no_effect"),
        ("claude_code", anthropic("Pre-commit validation failed", True), "no_effect"),
        ("claude_code", anthropic("Command timed out after 2m 0s", True), "unknown"),
        ("claude_code", anthropic("[Request interrupted by user for tool use]", True), "unknown"),
        ("claude_code", anthropic("Command running in background with ID: b1"), "unknown"),
        ("claude_code", anthropic("the log says: timed out", False), "done"),
        ("codex", codex(ran("Process exited with code 0")), "done"),
        ("codex", codex(ran("Process exited with code 1", "error: failed to push some refs")), "done"),
        ("codex", codex(ran("Process exited with code 0", "aborted by user, it says here")), "done"),
        ("codex", codex(ran("Process running with session ID 6593")), "unknown"),
        ("codex", codex("aborted by user after 5.0s"), "unknown"),
        ("codex", codex("Wall time: 5.0 seconds\naborted by user"), "unknown"),
        ("codex", codex("apply_patch verification failed: Failed to find expected lines in x"), "no_effect"),
        ("codex", codex("exec command rejected by user"), "no_effect"),
        ("pi", anthropic("Could not find the exact text in x", True), "no_effect"),
        ("pi", anthropic("2 files pushed, 1 failed\n\n\nCommand exited with code 1", True), "done"),
        ("pi", anthropic("some output\n\nCommand aborted", True), "unknown"),
        ("openai_chat", chat('{"id": "PLAT-2207"}'), "done"),
        ("openai_chat", chat("Error: region north is closed. Nothing was deployed."), "no_effect"),
        ("openai_chat", chat("Error: the gateway timed out"), "unknown"),
        ("openai_chat", chat("Errors were corrected in 3 rows"), "done"),
    ],
)
def test_a_result_says_how_its_call_ended(format: str, message: dict[str, Any], expected: str) -> None:
    """R47: only what never began may count as no effect."""
    assert outcome(message, "c1", format) == expected


def test_a_message_without_a_result_for_the_call_is_refused() -> None:
    with pytest.raises(PolicyError, match="c2"):
        outcome(chat("ok"), "c2")


GIT = ("Bash(git commit*)", "exec_command(git push*)")


@pytest.mark.parametrize(
    ("tool", "arguments", "patterns", "expected"),
    [
        ("Edit", {}, ["Edit"], True),
        ("NotebookEdit", {}, ["Edit"], False),
        ("mcp__linear__create_issue", {}, ["mcp__*__create*"], True),
        ("send_money", {}, ["Edit", "send_*"], True),
        ("send_money", {}, [], False),
        ("Bash", {"command": "git commit -m 'x'"}, GIT, True),
        ("Bash", {"command": "cd /src && git add -A && git commit -m 'x'"}, GIT, True),
        ("Bash", {"command": "ls; git   commit"}, GIT, True),
        ("Bash", {"command": "make\ngit commit"}, GIT, True),
        ("Bash", {"command": "sudo -u build env -i A=1 GIT_DIR=x /usr/bin/git commit"}, GIT, True),
        ("Bash", {"command": "timeout 60 git commit"}, GIT, True),
        ("Bash", {"command": "(git commit)"}, GIT, True),
        ("Bash", {"command": "echo 'git add && git commit'"}, GIT, False),
        ("Bash", {"command": 'grep -r "; git commit" .'}, GIT, False),
        ("Bash", {"command": "git log --grep commit"}, GIT, False),
        ("Bash", {"command": "git push"}, GIT, False),
        ("Read", {"command": "git commit"}, GIT, False),
        ("exec_command", json.dumps({"cmd": "git fetch && git push origin main"}), GIT, True),
        ("exec_command", {"command": ["bash", "-lc", "git push"]}, GIT, True),
        ("exec_command", {"command": ["git", "push"]}, GIT, True),
        ("exec_command", "git push", GIT, True),
        ("exec_command", {"path": "git push"}, GIT, False),
        ("exec_command", None, GIT, False),
        ("Bash", {"command": "./deploy.sh north"}, ["Bash(./deploy.sh*)"], True),
        ("Bash", {"command": "git commit -m 'a\nb' ; x"}, ["Bash(x)"], True),
        ("Bash", {"command": ""}, ["Bash(*)"], False),
    ],
)
def test_a_pattern_names_the_calls_that_change_the_world(tool: str, arguments: Any, patterns: list[str], expected: bool) -> None:
    assert changes_state(tool, arguments, patterns) is expected


def test_a_pattern_that_could_never_match_is_refused() -> None:
    with pytest.raises(PolicyError, match="does not close"):
        changes_state("Bash", {"command": "git commit"}, ["Bash(git commit*"])


def test_what_a_pattern_names_is_told() -> None:
    line = {"command": "cd /srv && git add . && git commit -m 'x; y'"}
    assert changing("Bash", line, ("Bash(git push*)", "Bash(git commit*)")) == "git commit -m 'x; y'"
    assert changing("send_mail", {}, ("send_*",)) == "send_mail"
    assert changing("Bash", line, ("Bash(git push*)",)) is None
