"""What a model of Google ADK is shown: the view of the session, within the ceiling, with whole pairs. `LinealViewPlugin`.

| in the view | what the model is shown |
|---|---|
| a turn as it was said | the parts of its event: files, signatures and all, without thoughts |
| a summary, a note, a turn whose large parts were put aside | text, labelled as lineal's |
| a second result of a call (it was confirmed, a long run ended) | the call's result, and text at the end if more was said before it |
| what another agent said, called or was answered | text with that agent's name in front: its tools are not this agent's |
| what ADK added to the request for itself (instructions) | as ADK has it, where ADK has it |

An agent that is shown only a part of the session (a branch, a task of its own, no contents) keeps what ADK shows it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.genai.types import Content, FunctionCall, FunctionResponse, Part

from lineal.adapters.google_adk import LinealSessionService
from lineal.adapters.google_adk_events import event_of
from lineal.messages import text_of
from lineal.session import Session
from lineal.session.outcomes import Shown

OWN = "adk_"  # how the names of calls begin that ADK makes for itself: no model is shown them
ID = "adk-"  # how the ids begin that ADK gives to calls that came without one


class LinealViewPlugin(BasePlugin):
    """Before each request: compact if it is time (records 001 and 002), then let the request show what the view shows."""

    def __init__(self, service: LinealSessionService):
        super().__init__(name="lineal_view")
        self.service = service

    async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> None:
        asked = callback_context.get_invocation_context()
        own = asked.branch or asked.isolation_scope or getattr(asked.agent, "include_contents", "default") != "default"
        if own or llm_request.previous_interaction_id:
            return
        adk = asked.session
        session = self.service.lineal(adk.app_name, adk.user_id, adk.id)
        shown = await asyncio.to_thread(_show, session, asked.agent.name)
        if not any(id.startswith(ID) for id in _ids(llm_request.contents)):
            _forget_ids(shown)
        llm_request.contents = _with_added(shown, llm_request.contents, adk.events)


def _show(session: Session, agent: str) -> list[Content]:
    session.maybe_compact()
    return contents(session, agent)


def contents(session: Session, agent: str) -> list[Content]:
    """The view of the session as this agent is shown it, oldest first. Raises `Corrupt`; never a shorter history."""
    showing = _Showing(session, agent)
    made = [(one.seq, showing.content(one)) for one in session.shown()]
    for _, content in made:
        showing.add(content)
    last = next((seq for seq, content in reversed(made) if seq and content.parts), 0)
    for back in (part.function_response for seq, content in made if seq > last for part in content.parts or ()):
        if back:  # it stands with its call, above what was said before it came: the model must not be left to find it there
            words = f"[lineal: the result of {back.name} has come]\n{json.dumps(back.response, default=str)}"
            showing.add(Content(role="user", parts=[Part(text=words)]))
    return showing.found


@dataclass
class _Showing:
    """`found`: what is shown so far; `names`: of the tool of each call; `told`: calls that were shown as text, so that their
    results are text too."""

    session: Session
    agent: str
    found: list[Content] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)

    def add(self, content: Content) -> None:
        """Behind what is shown. Results of calls that were made at once are one content; of two results of a call, the later."""
        before = self.found[-1].parts or [] if self.found else []
        places = {back.id: n for n, p in enumerate(before) if (back := p.function_response)}
        parts: list[Part] = []
        for part in content.parts or ():
            back = part.function_response
            if back and back.id and back.id in places:
                before[places[back.id]] = part
            else:
                parts.append(part)
        if parts and places and all(part.function_response for part in parts):
            before += parts
        elif parts:
            self.found.append(Content(role=content.role, parts=parts))

    def content(self, one: Shown) -> Content:
        found = event_of(self.session, one.turn) if one.turn else None
        event, place = found or (None, None)
        if event and event.isolation_scope:
            return Content(parts=[])
        parts = _said(event, place) if event and one.whole else self._parts(one.message)
        parts = [p for p in parts if not _name(p).startswith(OWN)]
        self.names |= {c.id: c.name or "" for p in parts if (c := p.function_call) and c.id}
        author = event.author if event else self.agent
        told = author not in ("user", self.agent)
        if told:
            self.told |= {c.id for p in parts if (c := p.function_call) and c.id}
        parts = [self._as_text(p, author) if told or self._of_told(p) else p for p in parts]
        by_model = one.message.get("role") == "assistant" and not told
        return Content(role="model" if by_model else "user", parts=parts)

    def _of_told(self, part: Part) -> bool:
        return bool(part.function_response and part.function_response.id in self.told)

    def _as_text(self, part: Part, author: str) -> Part:
        if call := part.function_call:
            return Part(text=f"[{author}] called {call.name} with {json.dumps(call.args or {})}")
        if back := part.function_response:
            return Part(text=f"[{author}] was answered by {back.name}: {json.dumps(back.response, default=str)}")
        return Part(text=f"[{author}] said: {part.text}") if part.text else part

    def _parts(self, message: dict[str, Any]) -> list[Part]:
        """A message of the chat dialect, which is not as it was said."""
        text = text_of(message)
        if message.get("role") == "tool":
            id = message["tool_call_id"]
            return [Part(function_response=FunctionResponse(id=id, name=self.names.get(id, ""), response={"result": text}))]
        made = [(call["id"], call["function"]) for call in message.get("tool_calls", ())]
        calls = [Part(function_call=FunctionCall(id=id, name=f["name"], args=json.loads(f["arguments"]))) for id, f in made]
        return [*([Part(text=text)] if text else []), *calls]


def _said(event: Event, place: int | None) -> list[Part]:
    """What the event says in this turn of it."""
    parts = event.content.parts or [] if event.content else []
    if place is not None:
        return [p for p in parts if p.function_response][place : place + 1]
    return [p for p in parts if not p.function_response and (not p.thought or p.function_call or p.thought_signature)]


def _name(part: Part) -> str:
    held = part.function_call or part.function_response
    return held.name or "" if held else ""


def _answers(content: Content) -> bool:
    return bool(content.parts) and all(part.function_response for part in content.parts or ())


# --- what ADK had in the request ---------------------------------------------------------------------------------------


def _with_added(shown: list[Content], asked: Sequence[Content], events: Iterable[Event]) -> list[Content]:
    """The view, with those contents of the request that say nothing of the session: at its beginning, or before the newest
    words of the user, as ADK had them."""
    known = {_bare(part) for event in events for content in _contents(event) for part in content.parts or ()}
    others = tuple({f"[{event.author}] " for event in events if event.author != "user"})
    of_session = [any(_bare(p) in known or (p.text or "").startswith(others) for p in content.parts or ()) for content in asked]
    first = next((n for n, known_one in enumerate(of_session) if known_one), len(asked))
    added = [content for content, known_one in zip(asked[first:], of_session[first:], strict=True) if not known_one]
    at = len(shown)
    while at and shown[at - 1].role == "user" and not _answers(shown[at - 1]):
        at -= 1
    return [*asked[:first], *shown[:at], *added, *shown[at:]]


def _contents(event: Event) -> list[Content]:
    compaction = event.actions.compaction
    return [content for content in (event.content, compaction.compacted_content if compaction else None) if content]


def _bare(part: Part) -> str:
    """A part without the ids of calls: ADK takes them off for some models."""
    held = part.model_copy(deep=True)
    for one in (held.function_call, held.function_response):
        if one:
            one.id = None
    return held.model_dump_json(exclude_none=True)


def _ids(contents: Iterable[Content]) -> Iterable[str]:
    return (held.id or "" for c in contents for p in c.parts or () if (held := p.function_call or p.function_response))


def _forget_ids(contents: Iterable[Content]) -> None:
    """Models that pair by position are not shown the ids that ADK made up."""
    for held in (p.function_call or p.function_response for c in contents for p in c.parts or ()):
        if held and (held.id or "").startswith(ID):
            held.id = None
