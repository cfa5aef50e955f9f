"""Which calls of a transcript change the world, and how they ended."""

from __future__ import annotations

import json
import re
import shlex
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate
from functools import cache
from itertools import islice
from typing import Any, Literal

from lineal.errors import PolicyError, Verdict
from lineal.messages import outcome_of, result_text

Outcome = Literal["done", "no_effect", "unknown"]

# What hosts write when a call never began; when it was stopped or is still running; and when it ran and failed.
_NEVER_BEGAN = re.compile(
    r"apply_patch verification failed|unsupported call|failed to parse function arguments"
    r"|.{0,200}(rejected by user|Rejected\()|exec_command failed for .{0,400}CreateProcess",
    re.DOTALL,
)
_END_UNKNOWN = re.compile(
    r"aborted\b|command aborted|operation aborted|.*?\b(aborted by user|process running with session|timed out|interrupted by user)",
    re.DOTALL | re.IGNORECASE,
)
_RAN_AND_FAILED = re.compile(r"\n?Command exited with code -?\d+\s*\Z")
_NOT_ALLOWED = re.compile(r"The user doesn't want to|Permission to use |.{0,80}\bpermission(s)? .{0,40}(denied|not granted)", re.DOTALL)
_HEAD = 600


def outcome(message: dict[str, Any], call_id: str, format: str | None = None) -> Outcome:
    """How the call with this id ended, as far as its result in `message` says.

    | the result says | outcome |
    |---|---|
    | the user or the host refused the call, it could not be parsed, a patch did not match: it never began | `no_effect` |
    | it was aborted, timed out, or still runs in the background | `unknown` |
    | Codex, pi: the command ran and its exit code is not 0 (a part of it may have happened) | `done` |
    | any other error flag, or a chat result that opens with "Error" | `no_effect` |
    | anything else | `done` |

    Raises `PolicyError` if the message holds no result for the call.
    """
    text, base = result_text(message, call_id), outcome_of(message, call_id)
    if format == "codex":
        return _codex(text, base)
    if base == "done":
        return "unknown" if format == "claude_code" and text.startswith("Command running in background") else "done"
    if _NOT_ALLOWED.match(text):
        return "no_effect"
    if _END_UNKNOWN.match(text[:_HEAD]) or (format == "pi" and re.search(r"(Command|Operation) aborted\s*\Z", text)):
        return "unknown"
    return "done" if format == "pi" and _RAN_AND_FAILED.search(text) else "no_effect"


def _codex(text: str, base: Outcome) -> Outcome:
    head = text.partition("\nOutput:\n")[0][:_HEAD]
    if _NEVER_BEGAN.match(head):
        return "no_effect"
    return "unknown" if _END_UNKNOWN.match(head) else base


# --- which calls change the world ------------------------------------------------------------------------------------

_SHELLS = ("bash", "sh", "zsh", "dash")
_WRAPPERS = frozenset({"sudo", "env", "time", "nohup", "command", "exec", "nice", "timeout", "then", "do", "else", "!", "(", "{"})
_TAKES_VALUE = frozenset({"-u", "-g"})


def changes_state(tool: str, arguments: Any, patterns: Sequence[str]) -> bool:
    """True if one of the patterns names this call.

    A pattern is a tool name with wildcards (`Edit`, `send_money`, `mcp__*`), or a shell's name with a command in brackets
    (`Bash(git commit*)`, `exec_command(git push*)`). A command pattern is held against each command of a line: split at
    `&&`, `||`, `;`, `|`, `&` and newline outside quotes, without leading assignments, `sudo`, `env` and the like;
    `/usr/bin/git` is also `git`. `arguments` is the object or its JSON text; the command is in `command`, `cmd` or `input`,
    or is the text itself. What runs inside quotes or `$(...)` is not looked into. Raises `PolicyError` for a pattern with
    an open bracket.
    """
    return changing(tool, arguments, patterns) is not None


def changing(tool: str, arguments: Any, patterns: Sequence[str]) -> str | None:
    """What a pattern names in this call: the tool, or the one command of its line; None where none does. See `changes_state`."""
    commands: list[str] | None = None
    for pattern in patterns:
        name, command = _parts(pattern)
        if not _glob(name)(tool):
            continue
        if command is None:
            return tool
        if commands is None:
            commands = list(_commands(_command_line(arguments)))
        if (named := next(filter(_glob(command), commands), None)) is not None:
            return named
    return None


@cache
def _glob(pattern: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(translate(pattern)).match


@cache
def _parts(pattern: str) -> tuple[str, str | None]:
    """The tool's name and, where there are brackets, the command in them."""
    name, bracket, command = pattern.partition("(")
    if not bracket:
        return pattern, None
    if not command.endswith(")"):
        raise PolicyError(
            Verdict(
                "transcript",
                "pattern",
                message=f"the pattern {pattern!r} opens a bracket and does not close it.",
                remedy="write Tool(command*)",
            )
        )
    return name, command[:-1]


def _command_line(arguments: Any) -> str:
    """The command in a shell call's arguments; empty where there is none."""
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
        return _command_line(parsed) if isinstance(parsed, dict) else arguments
    if isinstance(arguments, dict):
        return next((_command_line(arguments[key]) for key in ("command", "cmd", "input") if key in arguments), "")
    if isinstance(arguments, list) and all(isinstance(word, str) for word in arguments):
        script = len(arguments) >= 3 and arguments[0].rpartition("/")[2] in _SHELLS and arguments[1].startswith("-")
        return str(arguments[2]) if script else shlex.join(arguments)
    return ""


def _commands(line: str) -> Iterator[str]:
    for segment in _segments(line):
        words = deque(segment.split())
        after_wrapper = False
        while words and (words[0] in _WRAPPERS or _assigns(words[0]) or (after_wrapper and _option(words[0]))):
            word = words.popleft()
            after_wrapper = after_wrapper or word in _WRAPPERS
            if words and word in _TAKES_VALUE:
                words.popleft()
        if not words:
            continue
        words[0] = words[0].lstrip("({")
        yield " ".join(words)
        if words[0].startswith("/"):
            yield " ".join([words[0].rpartition("/")[2], *islice(words, 1, None)])


def _assigns(word: str) -> bool:
    return re.match(r"[A-Za-z_]\w*=", word) is not None


def _option(word: str) -> bool:
    return word.startswith("-") or word[:1].isdigit()


def _segments(line: str) -> Iterator[str]:
    """A command line cut at its separators, outside quotes."""
    quote, begin, at = "", 0, 0
    while at < len(line):
        char = line[at]
        if char == "\\" and quote != "'":
            at += 1
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in ";|&\n":
            yield line[begin:at]
            begin = at + 1
        at += 1
    yield line[begin:]
