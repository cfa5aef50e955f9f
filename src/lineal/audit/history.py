"""The items of a transcript as one history: who said what, which calls were made and how they ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lineal.anchors import clipped
from lineal.audit.findings import CallSeen
from lineal.codec import arguments_digest
from lineal.entries import Call, Result
from lineal.messages import arguments_of, parse, result_text, text_of
from lineal.messages.blocks import compact
from lineal.tokens import BytesCounter, measure
from lineal.transcripts import Boundary, Damage, Item, Record, outcome, place
from lineal.transcripts.effects import changing

SHOWN = 160  # characters of a call's arguments or of its result
_COUNTER = BytesCounter()

_SHELLS = ("[Bb]ash", "exec_command", "shell", "local_shell", "run_shell_command", "execute_bash", "run_command", "run_terminal_cmd")
_COMMANDS = (
    *("git commit*", "git push*", "git merge*", "git rebase*", "git reset*", "git revert*", "git cherry-pick*", "git am *"),
    *("git -C * commit *", "git -C * push*"),
    *("git tag *", "git stash*", "git checkout -- *", "git restore*", "git clean*", "rm *", "mv *", "kill *", "pkill *"),
    *("gh pr create*", "gh pr merge*", "gh pr comment*", "gh pr close*", "gh pr review*", "gh release create*"),
    *("gh issue create*", "gh issue comment*", "gh issue close*", "gh workflow run*", "bd create*", "bd close*", "bd update*"),
    *("npm publish*", "cargo publish*", "twine upload*", "docker push*", "kubectl apply*", "kubectl delete*", "kubectl create*"),
    *("kubectl rollout*", "terraform apply*", "terraform destroy*", "helm install*", "helm upgrade*", "systemctl *start*"),
    *("curl *-X POST*", "curl *-X PUT*", "curl *-X PATCH*", "curl *-X DELETE*", "curl *--data*", "curl * -d *"),
)
_VERBS = (
    *("add", "book", "buy", "cancel", "charge", "close", "create", "delete", "deploy", "disable", "enable", "exchange", "merge", "modify"),
    *("pay", "post", "publish", "purchase", "reboot", "refund", "remove", "reopen", "reserve", "return", "rotate", "schedule", "send"),
    *("submit", "toggle", "transfer", "update"),
)
DEFAULT: tuple[str, ...] = (
    *("Edit", "MultiEdit", "NotebookEdit", "edit", "apply_patch", "git_commit", "git_push"),
    *(f"{shell}({command})" for shell in _SHELLS for command in _COMMANDS),
    *(pattern for verb in _VERBS for pattern in (verb, f"{verb}_*", f"_{verb}_*", f"*__{verb}_*", f"*.{verb}_*")),
)
"""Calls that change the world, where nobody says otherwise: shell commands, edits in place, tools named by such a verb.

A heuristic for reading foreign logs, never a rule for sending: the ledger stores the class with the effect (R48).
Writing a whole file is left out: doing it twice changes nothing."""

_ABOUT_THE_CALL = frozenset(
    {"description", "timeout", "timeout_ms", "yield_time_ms", "max_output_tokens", "justification", "run_in_background"}
)


@dataclass(frozen=True)
class Said:
    """A record and what it holds. `seq` is its place in the conversation, from 1; `tokens` an estimate."""

    seq: int
    line: int
    id: str | None
    author: str
    message: dict[str, Any]
    text: str
    tokens: int
    calls: tuple[Call, ...]
    results: tuple[Result, ...]
    at: float | None = None


@dataclass(frozen=True)
class History:
    """One conversation. Boundaries and damage carry how many records stand before them; `orphans` are results without a call."""

    format: str
    said: tuple[Said, ...]
    boundaries: tuple[tuple[int, Boundary], ...]
    damage: tuple[tuple[int, Damage], ...]
    calls: tuple[CallSeen, ...]
    orphans: tuple[tuple[Said, str], ...]

    @property
    def place(self) -> str:
        """What a line number counts."""
        return place(self.format)


def history(items: Iterable[Item], format: str, patterns: Sequence[str] = DEFAULT) -> History:
    said: list[Said] = []
    boundaries: list[tuple[int, Boundary]] = []
    damage: list[tuple[int, Damage]] = []
    for item in items:
        if isinstance(item, Record):
            said.append(_said(len(said) + 1, item))
        elif isinstance(item, Boundary):
            boundaries.append((len(said), item))
        else:
            damage.append((len(said), item))
    calls, orphans = _paired(said, format, patterns)
    return History(format, tuple(said), tuple(boundaries), tuple(damage), calls, orphans)


def _said(seq: int, record: Record) -> Said:
    parsed = parse(record.message, record.author)
    tokens = measure(record.message, _COUNTER)[0]
    text = text_of(record.message)
    return Said(seq, record.line, record.id, parsed.author, record.message, text, tokens, parsed.calls, parsed.results, record.at)


def tokens_of(text: str) -> int:
    return _COUNTER.count(text)


def shown(text: str, size: int = SHOWN) -> str:
    """`text` on one line, at most `size` characters."""
    line = " ".join(text[: 4 * size].split())
    cut = clipped(line, size - 2)
    return line if line == cut and len(text) <= 4 * size else f"{cut} …"


# --- calls and their results -----------------------------------------------------------------------------------------


def _paired(said: Iterable[Said], format: str, patterns: Sequence[str]) -> tuple[tuple[CallSeen, ...], tuple[tuple[Said, str], ...]]:
    """Every call with its final result. A result answers the newest call of its id: models reuse ids.

    A message that was written over (its record has the same id and `~`) takes its open calls with it.
    """
    calls: list[CallSeen] = []
    over: set[int] = set()
    ids: dict[int, str | None] = {}
    newest: dict[str, int] = {}
    orphans: list[tuple[Said, str]] = []
    for s in said:
        for result in s.results:
            at = newest.get(result.call)
            if at is None:
                orphans.append((s, result.call))
            elif result.final:
                calls[at] = _answered(calls[at], s, format)
        ids[s.seq] = s.id
        for call in s.calls:
            at = newest.get(call.id)
            if at is not None and calls[at].result_seq is None and s.id == f"{ids[calls[at].seq]}~":
                over.add(at)
            newest[call.id] = len(calls)
            calls.append(_call(s, call, patterns))
    return tuple(call for at, call in enumerate(calls) if at not in over), tuple(orphans)


def _call(said: Said, call: Call, patterns: Sequence[str]) -> CallSeen:
    arguments = arguments_of(said.message, call.id)
    command = arguments
    if isinstance(arguments, dict):
        meant = {k: v for k, v in arguments.items() if k not in _ABOUT_THE_CALL}
        command = next((arguments[k] for k in ("command", "cmd") if k in arguments), meant)
    else:
        meant = arguments
    key = f"{call.tool}:{arguments_digest(meant)}"
    part, readable = changing(call.tool, arguments, patterns), shown(compact(command))
    if part is not None and part != call.tool and shown(part, SHOWN // 4).rstrip(" …") not in readable:
        readable = f"… {shown(part)}"
    return CallSeen(said.seq, said.line, call.id, call.tool, readable, key, part is not None)


def _answered(call: CallSeen, said: Said, format: str) -> CallSeen:
    text = shown(result_text(said.message, call.id))
    return replace(call, outcome=outcome(said.message, call.id, format), result=text, result_seq=said.seq, result_line=said.line)
