"""Google ADK's compaction under lineal's rule, and its tools through the ledger: what stands beside the session service."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any

from google.adk.apps.base_events_summarizer import BaseEventsSummarizer
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.plugins.base_plugin import BasePlugin
from google.genai.types import Content, Part

from lineal.adapters.google_adk import LinealSessionService
from lineal.adapters.google_adk_events import said
from lineal.errors import UnsafeEffectError
from lineal.session import Session
from lineal.session.effects import Effect
from lineal.session.outcomes import Compacted


class LinealSummarizer(BaseEventsSummarizer):
    """ADK's summarizer for one session: the compaction is committed in the log before ADK hears of it, or refused (002).

    `session` is `service.lineal(app_name, user_id, session_id)`. After a refusal nothing is compacted; `refused` says why.
    """

    def __init__(self, session: Session):
        self.session = session
        self.refused: str = ""

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
        """The event that stands for the oldest of these that the compaction covered; None if it covered none."""
        outcome = await asyncio.to_thread(self.session.compact)
        if not isinstance(outcome, Compacted):
            self.refused = str(outcome)
            return None
        view = self.session.view()
        through = _before_view(events, {turn.id for turn in view.turns})
        text = "\n".join(node.text for node in view.summaries if node.kind == "summary")
        if not through or not text:
            return None
        content = Content(role="model", parts=[Part(text=text)])
        span = EventCompaction(start_timestamp=events[0].timestamp, end_timestamp=events[through - 1].timestamp, compacted_content=content)
        known = {"lineal_generation": outcome.generation, "lineal_session": self.session.name}
        actions = EventActions(compaction=span)
        return Event(author="user", actions=actions, invocation_id=str(uuid.uuid4()), custom_metadata=known)


def _before_view(events: list[Event], view: set[str]) -> int:
    """How many of the oldest events say nothing that stands in the view."""
    for n, event in enumerate(events):
        names = {event.id, event.invocation_id} if event.author == "user" else {event.id}
        if any(one.id in view for name in names for one in said(event, name)):
            return n
    return len(events)


class LinealEffectPlugin(BasePlugin):
    """Each call of a tool is one effect (R47): its intent is durable before, its outcome behind it.

    `keys` gives tools a key of their own (a function of the arguments): equal keys are one effect. `reads` are tools that
    change nothing, `idempotent` those that may be repeated. A call that may not be made now is answered in words. A tool that
    raises makes the outcome unknown; one that asks for a confirmation or a credential first has done nothing yet.
    """

    def __init__(
        self,
        service: LinealSessionService,
        reads: Collection[str] = (),
        idempotent: Collection[str] = (),
        keys: Mapping[str, Callable[[dict[str, Any]], str]] | None = None,
    ):
        super().__init__(name="lineal_effects")
        self.service, self.reads, self.idempotent, self.keys = service, {*reads}, {*idempotent}, dict(keys or {})
        self._open: dict[tuple[str, str], Effect] = {}

    async def before_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any) -> dict[str, Any] | None:
        if tool.name in self.reads:
            return None
        session, call = self._session(tool_context), tool_context.function_call_id
        key = self.keys[tool.name](tool_args) if tool.name in self.keys else None
        effect = session.effect(tool.name, tool_args, key=key, idempotent=tool.name in self.idempotent, call=call)
        try:
            await effect.__aenter__()
        except UnsafeEffectError as refused:
            return {"error": f"[lineal: not done. {refused}]"}
        if effect.pending:
            self._open[session.name, call] = effect
            return None
        known = effect.verdict is None or effect.verdict.reason == "recorded"
        told = {} if known or effect.verdict is None else {"lineal": f"not done again. {effect.verdict.message}"}
        return {**(effect.result if isinstance(effect.result, dict) else {"result": effect.result}), **told}

    async def after_tool_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, result: Any) -> dict[str, Any] | None:
        if effect := self._begun(tool_context):
            asked = tool_context.actions
            waits = tool_context.function_call_id in {*asked.requested_tool_confirmations, *asked.requested_auth_configs}
            if waits:  # ADK calls it again, under the same id, once it has the answer
                await asyncio.to_thread(effect.no_effect, "it waits for a confirmation or a credential")
            else:
                await asyncio.to_thread(effect.settle, result)
        return None

    async def on_tool_error_callback(self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any, error: Exception) -> None:
        if effect := self._begun(tool_context):
            await effect.__aexit__(type(error), error, error.__traceback__)

    def _session(self, tool_context: Any) -> Session:
        adk = tool_context.session
        return self.service.lineal(adk.app_name, adk.user_id, adk.id)

    def _begun(self, tool_context: Any) -> Effect | None:
        return self._open.pop((self._session(tool_context).name, tool_context.function_call_id), None)
