"""Runs of a Google ADK runner that may be cut off anywhere: `say` a message under an id, `resume` what was cut off.

ADK takes up an invocation that it is given by its id. The id of the message is the id of its invocation, so:

| what stands in the session under the id | `say` |
|---|---|
| nothing | an ordinary run |
| the message, or calls without their results | ADK goes on there; `LinealEffectPlugin` answers in words what is *unknown* |
| an answer | gives what was said then; no model is asked |
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.events.event import Event
from google.adk.runners import Runner
from google.genai.types import Content, Part

from lineal.adapters.google_adk import name_of
from lineal.errors import Conflict, PolicyError, Verdict


async def say(
    runner: Runner, message: str | Content, *, user_id: str, session_id: str, id: str, **options: Any
) -> AsyncGenerator[Event, None]:
    """Say this under this id and run to the answer; the session is created if there is none. Gives the events that followed.

    Said again, in another process too, it is the same message (R2): what was cut off is gone on with, what was answered is
    given again. `options`: those of `Runner.run_async`. Raises `Conflict` if the id stands for another message or was rewound,
    `PolicyError` for an app that cannot be resumed where that is needed.
    """
    _refuse_unless_named(runner)
    app, service = runner.app_name, runner.session_service
    session = await service.get_session(app_name=app, user_id=user_id, session_id=session_id)
    session = session or await service.create_session(app_name=app, user_id=user_id, session_id=session_id)
    content = Content(role="user", parts=[Part(text=message)]) if isinstance(message, str) else message
    begun = _events_of(session.events, id)
    asked = next((event.content for event in begun if event.author == "user" and event.content), None)
    rewound = not begun and any(event.invocation_id == id for event in session.events)  # ADK would meet its calls of then
    if rewound or (asked is not None and asked.parts != content.parts):
        what = "was rewound" if rewound else "stands for another message"
        raise Conflict(name_of(app, user_id, session_id), 0, 0, f"the id {id!r} {what}; give this one an id of its own")
    for event in begun:
        if event.author != "user":
            yield event
    if not _finished(runner, begun):
        async with aclosing(_run(runner, begun, user_id, session_id, id, content, options)) as events:
            async for event in events:
                yield event


async def resume(runner: Runner, *, user_id: str, session_id: str, **options: Any) -> AsyncGenerator[Event, None]:
    """Go on with the newest invocation of the session if it was cut off; gives the events that follow, none if it was not.

    Raises `PolicyError` for an app that is not resumable if calls of tools wait for their results.
    """
    _refuse_unless_named(runner)
    session = await runner.session_service.get_session(app_name=runner.app_name, user_id=user_id, session_id=session_id)
    newest = next((event for event in reversed(session.events) if _says(event) or _rewinds(event)), None) if session else None
    if session is None or newest is None or _rewinds(newest):
        return
    begun = _events_of(session.events, newest.invocation_id)
    if not _finished(runner, begun):
        async with aclosing(_run(runner, begun, user_id, session_id, newest.invocation_id, None, options)) as events:
            async for event in events:
                yield event


async def _run(
    runner: Runner, begun: Sequence[Event], user: str, session: str, id: str, content: Content | None, options: dict[str, Any]
) -> AsyncGenerator[Event, None]:
    waiting = bool(begun) and any(event.get_function_calls() for event in [e for e in begun if _says(e)][-1:])
    if waiting and not (runner.resumability_config and runner.resumability_config.is_resumable):
        remedy = "make the runner of an App with resumability_config=ResumabilityConfig(is_resumable=True)"
        message = f"invocation {id!r} was cut off in a call of a tool, and the app {runner.app_name!r} is not resumable."
        raise PolicyError(Verdict("resume", "not_resumable", message=message, remedy=remedy))
    new = content if not begun else None
    async with aclosing(runner.run_async(user_id=user, session_id=session, invocation_id=id, new_message=new, **options)) as events:
        async for event in events:
            yield event


def _refuse_unless_named(runner: Runner) -> None:
    root = runner.agent
    if isinstance(root, BaseAgent) and not isinstance(root, LlmAgent):
        message = f"the root {root.name!r} is a {type(root).__name__}, whose invocations ADK names itself."
        raise PolicyError(Verdict("resume", "root", message=message, remedy="let an LlmAgent or a workflow be the root"))


def _says(event: Event) -> bool:
    return bool(event.content and event.content.parts) and not event.actions.compaction


def _rewinds(event: Event) -> bool:
    return bool(event.actions.rewind_before_invocation_id)


def _events_of(events: Sequence[Event], invocation: str) -> list[Event]:
    """The events of an invocation that no rewind took: behind the newest one that went back before it."""
    found: list[int] = []
    first: dict[str, int] = {}
    for n, event in enumerate(events):
        if _rewinds(event):
            back = first.get(event.actions.rewind_before_invocation_id or "", n)
            found = [m for m in found if m < back]
        elif event.invocation_id == invocation:
            found.append(n)
        first.setdefault(event.invocation_id, n)
    return [events[n] for n in found]


def _finished(runner: Runner, begun: Sequence[Event]) -> bool:
    """Whether there is nothing to go on with: it ended, or it waits for somebody."""
    said = [event for event in begun if _says(event)]
    if not said or not runner.agent:
        return False
    ended = any(event.actions.end_of_agent and event.author == runner.agent.name for event in begun)
    answered = isinstance(runner.agent, LlmAgent) and said[-1].author != "user" and said[-1].is_final_response() and not said[-1].error_code
    return ended or answered
