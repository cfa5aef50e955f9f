"""Google ADK on lineal: sessions, a summarizer under the compaction rule, and tools through the ledger. Extra `google-adk`.

| ADK | lineal |
|---|---|
| a session | a session named `adk:APP/USER/ID`, each part quoted |
| an event | a record (group `events`) with the state behind it; what it says are turns, in the same transaction |
| the user's message that begins an invocation | a turn with the id of the invocation: whoever chooses that id has named the message (R2) |
| state `app:`, `user:` | the newest record (group `state`) of a log of its own: `adk-state:APP`, `adk-state:APP/USER` |
| a rewind | a rollback of the session to before that invocation, through the gates of records 000 and 003 |

Order and staleness are those of the log, never of clocks (R3, R31). State that only lives for an invocation (`temp:`) is never written.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions import BaseSessionService
from google.adk.sessions import Session as AdkSession
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
from google.adk.sessions.state import State

from lineal.adapters.google_adk_events import EVENTS, SPACE, named, said
from lineal.errors import CompactionLineageError, Conflict
from lineal.session import Session
from lineal.session.outcomes import Kept, Record
from lineal.store import Store

STATE = "state"
KEPT_STATES = 2  # newest states of an app or a user; the older ones are released
SCOPES = {"app": State.APP_PREFIX, "user": State.USER_PREFIX, "temp": State.TEMP_PREFIX}


def name_of(app: str, user: str, id: str) -> str:
    """The session in which an ADK session stands. Blanks around the id are not part of it, as in ADK's own services."""
    return "adk:" + "/".join(quote(part, safe="") for part in (app, user, id.strip()))


class LinealSessionService(BaseSessionService):
    """ADK sessions in a lineal store. `options` are those of `Store.session`, as `policy`."""

    def __init__(self, store: Store, **options: Any):
        self.store, self.options = store, options
        self._sessions: dict[str, Session] = {}

    def lineal(self, app_name: str, user_id: str, session_id: str) -> Session:
        """The session of lineal in which this ADK session stands."""
        return self._session(name_of(app_name, user_id, session_id))

    def _session(self, name: str) -> Session:
        if name not in self._sessions:
            self._sessions[name] = self.store.session(name, **self.options)
        return self._sessions[name]

    # --- the contract of BaseSessionService ------------------------------------------------------------------------------

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> AdkSession:
        """A new session. Raises `AlreadyExistsError` where there is one of this id."""
        id = (session_id or "").strip() or str(uuid.uuid4())
        return await asyncio.to_thread(self._create, app_name, user_id, id, state or {})

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> AdkSession | None:
        """The session with its events, or None. Raises `Corrupt` where an event is missing."""
        return await asyncio.to_thread(self._get, app_name, user_id, session_id.strip(), config or GetSessionConfig())

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """Sessions without events, the one that was used last at the end."""
        return ListSessionsResponse(sessions=await asyncio.to_thread(self._list, app_name, user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete it for good, with its turns and its ledger. Resumable (R54)."""
        await asyncio.to_thread(self._delete, name_of(app_name, user_id, session_id))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        return await asyncio.to_thread(self._shared, app_name, user_id)

    async def append_event(self, session: AdkSession, event: Event) -> Event:
        """Keep an event: durable on return. Raises `StaleSessionError` where another writer was faster, `SessionNotFoundError`
        for a session that was deleted or never created, `UnsafeRollbackError` or `CompactionLineageError` for a rewind that is
        not safe."""
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        seq = await asyncio.to_thread(self._append, session, event)
        self._commit_event_to_session(session, event)
        session.last_update_time, session._storage_update_marker = event.timestamp, str(seq)
        return event

    # --- on the log --------------------------------------------------------------------------------------------------------

    def _create(self, app: str, user: str, id: str, state: dict[str, Any]) -> AdkSession:
        found, own = self._session(name_of(app, user, id)), _scoped(state)
        data = {"event": None, "state": own["session"], "time": time.time()}
        try:
            (seq,) = found.keep(SPACE, EVENTS, [Record(data)], after=0)
        except Conflict as taken:
            raise AlreadyExistsError(f"Session with id {id} already exists.") from taken
        self._share(app, user, own)
        return self._adk(app, user, id, [Kept(seq, EVENTS, "", data, ())], [])

    def _get(self, app: str, user: str, id: str, config: GetSessionConfig) -> AdkSession | None:
        most = config.num_recent_events
        kept = self._session(name_of(app, user, id)).kept(SPACE, EVENTS, limit=None if most is None else max(1, most))
        if not kept:
            return None
        events = [Event.model_validate(one.data["event"]) for one in reversed(kept if most != 0 else []) if one.data and one.data["event"]]
        since = config.after_timestamp
        return self._adk(app, user, id, kept, [e for e in events if since is None or e.timestamp >= since])

    def _adk(self, app: str, user: str, id: str, kept: Sequence[Kept], events: list[Event]) -> AdkSession:
        data = kept[0].data or {"state": {}, "time": 0.0}  # purged: what it said is gone, and its state with it
        state = {
            **{State.APP_PREFIX + k: v for k, v in self._shared(app).items()},
            **{State.USER_PREFIX + k: v for k, v in self._shared(app, user).items()},
            **data["state"],
        }
        made = AdkSession(app_name=app, user_id=user, id=id, state=state, events=events, last_update_time=data["time"])
        made._storage_update_marker = str(kept[0].seq)
        return made

    def _list(self, app: str, user: str | None) -> list[AdkSession]:
        wanted = "adk:" + quote(app, safe="") + "/" + (quote(user, safe="") + "/" if user is not None else "")
        found: list[tuple[float, AdkSession]] = []
        for name in self.store.sessions():
            if name.startswith(wanted) and (kept := self._session(name).kept(SPACE, EVENTS, limit=1)):
                owner, id = (unquote(part) for part in name.split("/")[1:])
                found.append((kept[0].data["time"] if kept[0].data else 0.0, self._adk(app, owner, id, kept, [])))
        return [session for _, session in sorted(found, key=lambda one: (one[0], one[1].user_id, one[1].id))]

    def _delete(self, name: str) -> None:
        self._sessions.pop(name, None)
        if name in self.store.sessions():
            self.store.delete(name)

    def _append(self, session: AdkSession, event: Event) -> int:
        found, own = self.lineal(session.app_name, session.user_id, session.id), _scoped(event.actions.state_delta)
        newest = next(iter(found.kept(SPACE, EVENTS, limit=1)), None)
        if newest is None:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        after = int(session._storage_update_marker or newest.seq)
        if after != newest.seq:
            raise StaleSessionError(f"session {session.id!r} was read at seq {after} and stands at seq {newest.seq}: get it again")
        if event.actions.rewind_before_invocation_id:
            self._rewind(found, event.actions.rewind_before_invocation_id)
        self._share(session.app_name, session.user_id, own)
        state = {**(newest.data["state"] if newest.data else {}), **own["session"]}
        data = {"event": json.loads(event.model_dump_json(exclude_none=True)), "state": state, "time": event.timestamp}
        try:
            name = named(found, event)
            (seq,) = found.keep(SPACE, EVENTS, [Record(data, key=name, says=[*said(event, name)])], after=after)
        except Conflict as lost:
            if [one.seq for one in found.kept(SPACE, EVENTS, limit=1)] == [after]:
                raise  # nobody was faster: its id stands for another message
            raise StaleSessionError(f"session {session.id!r}: {lost}") from lost
        return seq

    def _rewind(self, found: Session, invocation: str) -> None:
        """Back to what stood before the first event of this invocation."""
        kept = found.kept(SPACE, EVENTS)[::-1]
        of_it = (n for n, one in enumerate(kept) if one.data and (one.data["event"] or {}).get("invocation_id") == invocation)
        first = next(of_it, None)
        if first:
            verdict = found.restorable(kept[first].seq, f"before invocation {invocation}")
            if not verdict:
                raise CompactionLineageError(verdict)
            found.rollback(kept[first - 1].seq)

    def _shared(self, app: str, user: str | None = None) -> dict[str, Any]:
        kept = self._session(_state_name(app, user)).kept(SPACE, STATE, limit=1)
        return dict(kept[0].data) if kept else {}

    def _share(self, app: str, user: str, delta: dict[str, dict[str, Any]]) -> None:
        """Before the event that sets it: whoever has the event's acknowledgement has the state."""
        for scope, log in (("app", self._session(_state_name(app))), ("user", self._session(_state_name(app, user)))):
            while delta[scope]:
                kept = log.kept(SPACE, STATE, limit=KEPT_STATES + 1)
                state = {**(kept[0].data if kept else {}), **delta[scope]}
                try:
                    log.keep(SPACE, STATE, [Record(state)], after=kept[0].seq if kept else 0)
                except Conflict:
                    continue  # somebody else set another key
                log.release(SPACE, [one.seq for one in kept[KEPT_STATES:]])
                break


def _state_name(app: str, user: str | None = None) -> str:
    return "adk-state:" + "/".join(quote(part, safe="") for part in (app, *([user] if user is not None else [])))


def _scoped(delta: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """State by its scope, without the prefixes; what is no JSON goes in as its text, as in ADK's own services."""
    found: dict[str, dict[str, Any]] = {"app": {}, "user": {}, "temp": {}, "session": {}}
    for key, value in json.loads(json.dumps(delta, default=str)).items():
        scope = next((scope for scope, prefix in SCOPES.items() if key.startswith(prefix)), "session")
        found[scope][key.removeprefix(SCOPES.get(scope, ""))] = value
    return found
