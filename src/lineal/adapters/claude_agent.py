"""Sessions of the Claude Agent SDK in a lineal store: `LinealSessionStore`. Needs the extra `claude-agent`.

A transcript (a session's own, or that of a sub-agent in it) is one session of the store: see `session_name`.

| a line of it | in the log |
|---|---|
| any | a record that `load` gives back as it came; a uuid that is there already is not written again |
| what the user, the model or a tool said | also a turn, its id is the uuid |
| `compact_boundary` | also a note of the turns that the host dropped: they leave the view |

Behind the lines of a batch stand the SDK's summary of the transcript so far, and the batch's mark: when it was written, the
parents of what it said, and where the newest boundary is. All of a batch is one transaction, turns too (R1).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast
from urllib.parse import quote, unquote

import anyio.to_thread
from claude_agent_sdk import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    fold_session_summary,
)

from lineal.errors import Conflict, PolicyError, Refused, Verdict, quoted
from lineal.policy import Policy
from lineal.session import Session
from lineal.session.outcomes import Kept, Record, Said
from lineal.store import Store, connect
from lineal.transcripts.claude_code import preserved, said

SPACE, LINES = "claude-agent", "lines"
LINKS = ("parentUuid", "logicalParentUuid", "leafUuid")  # fields of a line that name another one

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
        self._sessions: dict[str, Session] = {}  # those appended to: what a dead process left undone there is made up for

    def close(self) -> None:
        """Close the store, if it was opened here."""
        if self._owned:
            self.store.close()

    def session(self, key: SessionKey) -> Session:
        """The transcript as a session of lineal: to search, verify, go through the ledger."""
        return self.store.session(session_name(key), self.policy)

    # --- writing -----------------------------------------------------------------------------------------------------

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Keep these lines, all or none; durable on return. Raises `PolicyError` for a line that JSON cannot give back."""
        await _in_thread(self._append, key, entries)

    def _append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        name = session_name(key)
        known = self._sessions.get(name)
        session = known or self.session(key)
        fresh = self._keep(session, key, entries)
        if known is None or any(_is_boundary(line) for line in fresh):
            _follow_boundary(session)
        self._sessions[name] = session

    def _keep(self, session: Session, key: SessionKey, entries: list[SessionStoreEntry]) -> list[dict[str, Any]]:
        """Write what is new of them; returns that. Asked again if another process wrote meanwhile: the summary goes on from its lines."""
        while True:
            mark = _mark(session)
            fresh = list(_fresh(session, entries))
            if not fresh:
                return fresh
            records = [Record([line], key=_uuid(line), says=[Said(*one) for one in said(line)]) for line in fresh]
            try:
                session.keep(SPACE, LINES, [*records, *self._closing(session, key, mark, records)], after=mark.seq if mark else 0)
            except Conflict:
                if _mark(session) == mark:
                    raise
            else:
                return fresh

    def _closing(self, session: Session, key: SessionKey, mark: Kept | None, records: list[Record]) -> tuple[Record, Record]:
        """The summary and the mark that stand behind a batch. `told`: turns from which the summary may have taken something."""
        before: dict[str, Any] = mark.data if mark else {"at": 0, "told": [], "boundary": ""}
        told, boundary, summary = [*before["told"]], before["boundary"], None
        if "subpath" not in key:
            summary = _summary(session, key, mark) if mark else None
            for record in records:
                folded = fold_session_summary(summary, key, record.data)
                if summary is None or folded["data"] != summary["data"]:
                    told += [one.id for one in record.says]
                summary = folded
        for line in (record.data[0] for record in records if _is_boundary(record.data[0])):
            boundary = _uuid(line)
        at = max(int(self.store.clock.wall() * 1000), before["at"] + 1)
        parents = {record.key: record.data[0].get("parentUuid") for record in records if record.says}
        closing = {"at": at, "told": told, "boundary": boundary, "parents": parents}
        return Record({"summary": summary["data"] if summary else {}}, turns=told), Record(closing)

    async def delete(self, key: SessionKey) -> None:
        """Delete a transcript for good; a session's own takes those of its sub-agents with it. Nothing happens where there is none."""
        await _in_thread(self._delete, key)

    def _delete(self, key: SessionKey) -> None:
        name = session_name(key)
        below = [] if "subpath" in key else [n for n in self.store.sessions() if n.startswith(f"{name}/")]
        for going in [*below, name]:  # its own last: if this is cut off, the session is there to be deleted again
            self._sessions.pop(going, None)
            try:
                self.store.delete(going)
            except Refused as refused:
                if refused.verdict.reason != "unknown_session":
                    raise

    # --- reading -----------------------------------------------------------------------------------------------------

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Every line, in the order of the log; None for a key that was never written. Raises `Corrupt`, never gives fewer lines.

        Lines that a purge took are left out, and what named one as its parent names that one's own parent.
        """
        return await _in_thread(lambda: _lines(self.session(key).kept(SPACE, LINES)))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project, with the time of their newest batch (milliseconds)."""
        summaries = await _in_thread(self._summaries, project_key)
        return [{"session_id": summary["session_id"], "mtime": summary["mtime"]} for summary in summaries]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The SDK's summary of each session of a project, as it stood behind its newest batch."""
        return await _in_thread(self._summaries, project_key)

    def _summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        every = filter(None, map(session_key, self.store.sessions()))
        keys = [key for key in every if key["project_key"] == project_key and "subpath" not in key]
        found = ((key, session := self.session(key), _mark(session)) for key in keys)
        return [_summary(session, key, mark) for key, session, mark in found if mark]

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session: its sub-agents' transcripts."""
        below = f"{session_name(cast(SessionKey, key))}/"
        return [unquote(name.removeprefix(below)) for name in await _in_thread(self.store.sessions) if name.startswith(below)]


# --- lines -------------------------------------------------------------------------------------------------------------


def _uuid(line: Any) -> str:
    uuid = line.get("uuid")
    return uuid if isinstance(uuid, str) else ""


def _fresh(session: Session, entries: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Those that the log does not have. Raises `PolicyError` for what is no line."""
    seen: set[str] = set()
    for entry in entries:
        if not isinstance(entry, dict):
            message, remedy = f"{quoted(entry)} is no line of a transcript.", "give JSON objects, one a line"
            raise PolicyError(Verdict("append", "no_line", message=message, remedy=remedy))
        uuid = _uuid(entry)
        if uuid and (uuid in seen or session.kept(SPACE, LINES, uuid, 1)):
            continue
        seen.add(uuid)
        yield entry


def _lines(found: list[Kept]) -> list[Any] | None:
    """The lines of these records, oldest first: those whose data is a list."""
    gone = {kept.key for kept in found if kept.data is None and kept.key}
    lines = [kept.data[0] for kept in reversed(found) if isinstance(kept.data, list)]
    if not gone:
        return lines if found else None
    parents = {uuid: parent for kept in found if isinstance(kept.data, dict) for uuid, parent in kept.data.get("parents", {}).items()}
    return [line | {link: _standing(line[link], gone, parents) for link in LINKS if line.get(link) in gone} for line in lines]


def _standing(uuid: Any, gone: set[str], parents: dict[str, Any]) -> Any:
    """The nearest line above that was not purged."""
    passed: set[str] = set()
    while uuid in gone - passed:
        passed.add(uuid)
        uuid = parents.get(uuid)
    return uuid


def _mark(session: Session) -> Kept | None:
    return next(iter(session.kept(SPACE, LINES, limit=1)), None)


def _summary(session: Session, key: SessionKey, mark: Kept) -> SessionSummaryEntry:
    """The summary that stands before a mark; made anew where a purge took it."""
    data = session.kept_at([mark.seq - 1])[0].data
    if data is None:
        return {**fold_session_summary(None, key, _lines(session.kept(SPACE, LINES)) or []), "mtime": mark.data["at"]}
    return {"session_id": key["session_id"], "mtime": mark.data["at"], "data": data["summary"]}


# --- the host's own compactions ------------------------------------------------------------------------------------------


def _is_boundary(line: dict[str, Any]) -> bool:
    return line.get("type") == "system" and line.get("subtype") == "compact_boundary" and bool(_uuid(line))


def _follow_boundary(session: Session) -> None:
    """What the host dropped at its newest compaction leaves the view, too. Nothing where that was noted already."""
    mark = _mark(session)
    boundaries = session.kept(SPACE, LINES, mark.data["boundary"], 1) if mark and mark.data["boundary"] else []
    for boundary in boundaries:
        before = [kept.key for kept in reversed(session.kept(SPACE, LINES)) if kept.seq < boundary.seq and kept.key]
        stay = {*preserved(boundary.data[0].get("compactMetadata"), before)}
        gone = [turn.id for turn in session.view().turns if turn.seq < boundary.seq and turn.id.removesuffix(":text") not in stay]
        if gone:
            session.note_eviction(gone, "claude-code")
