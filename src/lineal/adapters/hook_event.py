"""One event of a host's hook, and the answers that hosts understand.

To stop a compaction Claude Code wants exit code 2 and reads stderr; Codex wants exit code 0 and `continue: false`, and goes on
after any other code. A denied call is written alike for both; `ask` is Claude Code's alone.

A host's session is one session of the store, of the same name; the transcript of a sub-agent is `NAME.agent-ID`; what all
of them did to the world is `NAME.effects`.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lineal.errors import PolicyError, Verdict, quoted

if TYPE_CHECKING:
    from lineal.store import Store

HOSTS = {"claude-code": "claude_code", "codex": "codex"}  # host -> format of its transcripts
CONTEXT_CHARS = 10_000  # longer context is put into a file by the host, and the model is shown only its beginning

COMMANDS = (
    *(
        "git push*",
        "git -C * push*",
        "gh pr create*",
        "gh pr merge*",
        "gh pr close*",
        "gh pr comment*",
        "gh pr review*",
        "gh release create*",
    ),
    *("gh issue create*", "gh issue close*", "gh issue comment*", "gh workflow run*", "npm publish*", "cargo publish*"),
    *("twine upload*", "docker push*", "kubectl apply*", "kubectl create*", "kubectl delete*", "kubectl rollout*"),
    *("terraform apply*", "terraform destroy*", "helm install*", "helm upgrade*", "helm uninstall*"),
    *("curl *-X POST*", "curl *-X PUT*", "curl *-X PATCH*", "curl *-X DELETE*", "curl *--data*", "curl * -d *"),
)
VERBS = ("book", "buy", "cancel", "charge", "create", "delete", "deploy", "merge", "pay", "publish", "refund", "send", "submit", "transfer")
EFFECTS = (*(f"Bash({c})" for c in COMMANDS), *(p for v in VERBS for p in (f"mcp__*__{v}", f"mcp__*__{v}_*")))
"""What leaves this machine. Reading is none of it, and files that the agent edits are its own work, which it sees and repeats."""


@dataclass(frozen=True)
class Answer:
    """What the command prints on stdout, says on stderr, and its exit code."""

    output: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    code: int = 0


@dataclass(frozen=True)
class Hook:
    """One call of the command: the host, its event, the store, and what the operator set.

    `effects`: patterns as `lineal.transcripts.changes_state` takes them. `on_lookalike` is the policy's knob. `on_damage`:
    "block" stops a compaction over a damaged transcript, "tell" only says so.
    """

    host: str
    event: dict[str, Any]
    store: str
    effects: tuple[str, ...] = EFFECTS
    on_lookalike: str = "ask"
    on_damage: str = "block"
    anchor: str | None = None

    @property
    def format(self) -> str:
        return HOSTS[self.host]

    @property
    def transcript(self) -> str:
        return self.text("transcript_path")

    @property
    def archive(self) -> str:
        agent = self.event.get("agent_id")
        return f"{self.text('session_id')}.agent-{agent}" if agent else self.text("session_id")

    @property
    def ledger(self) -> str:
        return f"{self.text('session_id')}.effects"

    def text(self, name: str) -> str:
        """A field of the event that must be there. Raises `PolicyError`."""
        value = self.event.get(name)
        if isinstance(value, str) and value:
            return value
        message = f"the event {self.event.get('hook_event_name')!r} of {self.host} has {quoted(value)} as {name}, which must be a text."
        raise PolicyError(Verdict("hook", "event", message=message, remedy="update the host, or report its version"))

    def open(self, create: bool = False) -> Store:
        from lineal.store import connect  # most calls of a tool are no effect, and need no store

        return connect(self.store, self.anchor, create)

    def command(self, verb: str, argument: str, session: str) -> str:
        """A `lineal` command on a session of this store, as a person types it."""
        return f"lineal {verb} {shlex.quote(self.store)} {argument} -s {shlex.quote(session)}"


def read_event(raw: bytes) -> dict[str, Any]:
    """The event on stdin. Raises `PolicyError` for what is none."""
    try:
        event = json.loads(raw)
    except (ValueError, RecursionError) as e:
        event = f"{type(e).__name__}: {e}"
    if not isinstance(event, dict) or not isinstance(event.get("hook_event_name"), str):
        message = f"stdin holds no hook event: {quoted(event)} ({len(raw)} bytes)."
        raise PolicyError(Verdict("hook", "event", message=message, remedy="give one JSON object with hook_event_name, as the host does"))
    return event


def stopped(host: str, reason: str) -> Answer:
    """The compaction must not go on."""
    if host == "codex":
        return Answer({"continue": False, "stopReason": reason})
    return Answer({"decision": "block", "reason": reason}, reason, 2)


def told(message: str) -> Answer:
    return Answer({"systemMessage": f"lineal: {message}"[:CONTEXT_CHARS]})


def called(decision: str, reason: str) -> Answer:
    """A call that is not to be sent now: `deny`, or `ask` for the user to decide."""
    decided = {"hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": f"lineal: {reason}"}
    return Answer({"hookSpecificOutput": decided})


def added(event: str, context: str) -> Answer:
    """Text that the model is shown."""
    return Answer({"hookSpecificOutput": {"hookEventName": event, "additionalContext": context[:CONTEXT_CHARS]}})
