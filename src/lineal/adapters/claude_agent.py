"""The Claude Agent SDK on a lineal store: its sessions (`LinealSessionStore`) and its tool calls (`effect_hooks`). Needs the
extra `claude-agent`.

A transcript (a session's own, or that of a sub-agent in it) is one session of the store: see `session_name`. How its lines
stand in the log: `claude_lines`. What is done to the world goes through the ledger of the same session:

| moment | what is durable when it returns | killed right behind it |
|---|---|---|
| before a tool | the intent | the outcome is *unknown*: an equal call is denied until someone resolves it |
| behind it | the outcome | the call stands as done, or as without effect |
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote, unquote

import anyio.to_thread
from claude_agent_sdk import (
    HookContext,
    HookMatcher,
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)
from claude_agent_sdk.types import HookEvent

from lineal.adapters.claude_lines import SPACE, Transcript
from lineal.adapters.hook_effects import OUTCOME_CHARS, reported, results
from lineal.adapters.hook_event import EFFECTS, called
from lineal.errors import PolicyError, Refused, UnsafeEffectError, Verdict, quoted
from lineal.messages import parse, result_text
from lineal.policy import Policy
from lineal.session import Session
from lineal.session.effects import Effect
from lineal.store import Store, connect
from lineal.transcripts import changes_state, outcome
from lineal.transcripts.claude_code import NAME, said

T = TypeVar("T")


def session_name(key: SessionKey) -> str:
    """`claude-agent/PROJECT/SESSION` or `claude-agent/PROJECT/SESSION/SUBPATH`, each part percent-encoded: no two keys share one."""
    parts = [key["project_key"], key["session_id"], *([key["subpath"]] if "subpath" in key else [])]
    if not all(isinstance(part, str) and part for part in parts):
        remedy = "give each part a non-empty string; leave subpath out for a session's own transcript"
        raise PolicyError(Verdict("session", "key", message=f"{quoted(key)} is no key of a session.", remedy=remedy))
    return "/".join([SPACE, *(quote(part, safe="") for part in parts)])


def session_key(name: str) -> SessionKey | None:
    """The key whose name this is; None for a session that is none of the SDK's."""
    space, *parts = name.split("/")
    if space != SPACE or len(parts) not in (2, 3):
        return None
    return cast(SessionKey, dict(zip(("project_key", "session_id", "subpath"), map(unquote, parts), strict=False)))


async def _in_thread(verb: Callable[..., T], *args: Any) -> T:
    return await anyio.to_thread.run_sync(verb, *args)  # of anyio, since the SDK runs on trio, too


class LinealSessionStore(SessionStore):
    """For `ClaudeAgentOptions(session_store=...)`. `store`: a `Store`, or what `lineal.connect` takes (then `close` closes it, too).

    Thread-safe; other processes may append to the same transcript. `policy` is that of its sessions: it decides what their
    view and their ledger do, never what the SDK loads.
    """

    def __init__(self, store: Store | str | os.PathLike[str], *, policy: Policy | None = None):
        self._owned = not isinstance(store, Store)
        self.store = store if isinstance(store, Store) else connect(store)
        self.policy = policy
        self.listeners: list[Callable[[Sequence[Any]], None]] = []  # told of lines once they are durable
        self._appended: dict[str, Transcript] = {}

    def close(self) -> None:
        """Close the store, if it was opened here."""
        if self._owned:
            self.store.close()

    def session(self, key: SessionKey) -> Session:
        """The transcript as a session of lineal: to search, verify, go through the ledger."""
        return self.store.session(session_name(key), self.policy)

    def _transcript(self, key: SessionKey) -> Transcript:
        return Transcript(self.session(key), key)

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Keep these lines, all or none; durable on return. Raises `PolicyError` for a line that JSON cannot give back."""
        name = session_name(key)
        transcript = self._appended.get(name) or self._appended.setdefault(name, self._transcript(key))
        await _in_thread(transcript.append, entries)
        for listener in self.listeners:
            await _in_thread(listener, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Every line, in the order of the log; None for a key that was never written. Raises `Corrupt`, never gives fewer lines.

        Lines that a purge took are left out, and what named one as its parent names that one's own parent.
        """
        return await _in_thread(lambda: self._transcript(key).load())

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project, with the time of their newest batch (milliseconds)."""
        summaries = await _in_thread(self._summaries, project_key)
        return [{"session_id": summary["session_id"], "mtime": summary["mtime"]} for summary in summaries]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The SDK's summary of each session of a project, as it stood behind its newest batch."""
        return await _in_thread(self._summaries, project_key)

    def _summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        keys = filter(None, map(session_key, self.store.sessions()))
        own = [key for key in keys if key["project_key"] == project_key and "subpath" not in key]
        return [summary for key in own if (summary := self._transcript(key).summary())]

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session: its sub-agents' transcripts."""
        below = f"{session_name(cast(SessionKey, key))}/"
        return [unquote(name.removeprefix(below)) for name in await _in_thread(self.store.sessions) if name.startswith(below)]

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript for good; a session's own takes those of its sub-agents with it. Nothing happens where there is none."""
        await _in_thread(self._delete, key)

    def _delete(self, key: SessionKey) -> None:
        name = session_name(key)
        below = [] if "subpath" in key else [n for n in self.store.sessions() if n.startswith(f"{name}/")]
        for going in [*below, name]:  # its own last: if this is cut off, the session is there to be deleted again
            self._appended.pop(going, None)
            try:
                self.store.delete(going)
            except Refused as refused:
                if refused.verdict.reason != "unknown_session":
                    raise


# --- calls through the ledger --------------------------------------------------------------------------------------------


def effect_hooks(
    where: LinealSessionStore | Session,
    effects: Sequence[str] = EFFECTS,
    *,
    keys: Mapping[str, Callable[[dict[str, Any]], str]] | None = None,
    idempotent: Collection[str] = (),
) -> dict[HookEvent, list[HookMatcher]]:
    """For `ClaudeAgentOptions(hooks=...)`: the calls that a pattern of `effects` names go through the ledger (R47-R50).

    `where`: the store in which each session has its ledger, or one session. Patterns are those of
    `lineal.transcripts.changes_state`. `keys` gives a tool's calls a key of their own; `idempotent` names tools that may be
    repeated. A call that may not be made now is denied, with what the ledger knows; if the guard fails it is denied, too.
    """
    guard = _Guard(where, tuple(effects), dict(keys or {}), frozenset(idempotent))
    changes_state("", {}, guard.effects)  # a pattern that is none is refused here, not in the middle of a run
    if isinstance(where, LinealSessionStore):
        where.listeners.append(guard.hear)
    behind = [HookMatcher(hooks=[guard.behind])]
    return {
        "PreToolUse": [HookMatcher(hooks=[guard.before], on_failure="block")],
        "PostToolUse": behind,
        "PostToolUseFailure": behind,
    }


class _Guard:
    """`open`: the call's id -> the effect that this process began and has not heard the end of."""

    def __init__(
        self, where: LinealSessionStore | Session, effects: tuple[str, ...], keys: dict[str, Callable[..., str]], idempotent: frozenset[str]
    ):
        self.where, self.effects, self.keys, self.idempotent = where, effects, keys, idempotent
        self.open: dict[str, Effect] = {}

    async def before(self, event: Any, call: str | None, context: HookContext) -> Any:
        return await _in_thread(self._begin, event) if changes_state(event["tool_name"], event["tool_input"], self.effects) else {}

    async def behind(self, event: Any, call: str | None, context: HookContext) -> Any:
        return await _in_thread(self._end, event["tool_use_id"], *reported(event, event["tool_use_id"], NAME))

    def _session(self, event: Any) -> Session:
        if isinstance(self.where, Session):
            return self.where
        project = Path(event["transcript_path"]).parent.name
        return self.where.session({"project_key": project, "session_id": event["session_id"]})

    def _begin(self, event: Any) -> dict[str, Any]:
        tool, args, call = event["tool_name"], event["tool_input"], event["tool_use_id"]
        if call in self.open:
            return {}
        self._ask_transcript(event)
        key = self.keys[tool](args) if tool in self.keys else None
        effect = self._session(event).effect(tool, args, key=key, idempotent=tool in self.idempotent, call=call)
        try:
            effect.__enter__()  # its end is another call of ours
        except UnsafeEffectError as refusal:
            return called("deny", str(refusal)).output
        if effect.pending:
            self.open[call] = effect
            return {}
        assert effect.verdict is not None
        again = "Way out: use that outcome; to do it once more on purpose, make a call that says so (for a shell: with a comment)."
        return called("deny", f"{effect.verdict.message}\nRecorded outcome: {effect.result or effect.state}\n{again}").output

    def _end(self, call: str, state: str, text: str) -> dict[str, Any]:
        effect = self.open.pop(call, None)
        told = text if len(text) <= OUTCOME_CHARS else f"{text[:OUTCOME_CHARS]}… ({len(text):,} characters)"
        if effect and state == "done":
            effect.settle(told)
        elif effect and state == "no_effect":
            effect.no_effect(told)
        elif effect:
            effect.__exit__(None, None, None)
        return {}

    def hear(self, lines: Sequence[Any]) -> None:
        """A host says nothing when the user refuses a call, or breaks it off; but there is always a line with its result."""
        for message in (message for line in lines for _, message, _ in said(line)):
            for result in parse(message).results:
                self._hear(result.call, message)

    def _ask_transcript(self, event: Any) -> None:
        """The same, from the host's own file: it is there before the mirror, and where there is none."""
        if self.open and Path(event["transcript_path"]).is_file():
            for call, record in results(event["transcript_path"], NAME):
                self._hear(call, record.message)

    def _hear(self, call: str, message: dict[str, Any]) -> None:
        if call in self.open:
            self._end(call, outcome(message, call, NAME), result_text(message, call))
