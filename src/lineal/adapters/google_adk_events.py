"""An event of Google ADK as turns of a session, and the way back from a turn to its event.

| an event | its turns |
|---|---|
| the user's message that begins an invocation | one, with the id of the *invocation*: whoever chooses that id has named the message (R2) |
| another message, an answer, calls of tools | one, with the event's id |
| results of tools | one each: the event's id, a colon, the place |
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from google.adk.events.event import Event
from google.genai.types import Part

from lineal.session import Session
from lineal.session.outcomes import Said

SPACE, EVENTS = "google-adk", "events"


def named(found: Session, event: Event) -> str:
    """The id of what an event says: a user's message has that of the invocation that it begins."""
    id = event.invocation_id
    begins = event.author == "user" and id and event.content and not event.get_function_responses()
    return id if begins and not found.kept(SPACE, EVENTS, key=id, limit=1) else event.id


def event_of(session: Session, turn: str) -> tuple[Event, int | None] | None:
    """The event that said this turn, and which of its tool results the turn is (None: the rest of it); None if no event did."""
    name, _, place = turn.rpartition(":")
    for key, n in ((turn, None), (name, int(place) if place.isdecimal() else None)):
        kept = session.kept(SPACE, EVENTS, key=key, limit=1) if key else []
        if kept and kept[0].data and turn in kept[0].turns:
            return Event.model_validate(kept[0].data["event"]), n
    return None


def said(event: Event, name: str) -> Iterator[Said]:
    """What the event says, as turns of the chat dialect under this name. Thoughts are in the record alone; a file is named."""
    parts = event.content.parts or [] if event.content else []
    text = "".join(_words(p) for p in parts if not p.thought)
    calls = [p.function_call for p in parts if p.function_call]
    if event.author == "user" and text:
        yield Said(name, {"role": "user", "content": text})
    elif text or calls:
        made = [
            {"id": c.id or f"{name}.{n}", "type": "function", "function": {"name": c.name or "", "arguments": json.dumps(c.args or {})}}
            for n, c in enumerate(calls)
        ]
        yield Said(name, {"role": "assistant", "content": text, **({"tool_calls": made} if made else {})})
    for n, back in enumerate(p.function_response for p in parts if p.function_response):
        content = json.dumps(back.response if back.response is not None else {}, default=str)
        yield Said(f"{name}:{n}", {"role": "tool", "tool_call_id": back.id or f"{name}.{n}", "content": content})


def _words(part: Part) -> str:
    if part.text or part.function_call or part.function_response:
        return part.text or ""
    blob, code, result = part.inline_data or part.file_data, part.executable_code, part.code_execution_result
    return f"[{blob.mime_type or 'file'}]" if blob else (code.code if code else result.output if result else "") or ""
