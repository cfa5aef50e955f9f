"""A LangChain agent whose memory is a session: `LinealMiddleware`. Needs the extra `langchain`.

| moment | what is durable when it returns | killed right behind it |
|---|---|---|
| before the model: the session follows the state | every message of the state is a turn | the same messages are met again, by id |
| then compaction | a generation, or nothing of it; only then the state is replaced by the view | the next run replaces it |
| the model answered | the answer, before the graph has it | the state gets it from the log; the model is not asked again |
| before a tool | the intent | the outcome is *unknown*: not sent again until someone resolves it |
| behind a tool | the outcome | the recorded outcome is the tool's answer; it is not called again |

How the session follows the state, and the state shows the view: `following`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Literal

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest, ModelResponse, hook_config
from langchain.chat_models import init_chat_model
from langchain_core.messages import AIMessage, BaseMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import StructuredTool
from langgraph.config import get_config
from langgraph.constants import TAG_NOSTREAM
from langgraph.errors import GraphBubbleUp
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command

from lineal.adapters.following import as_messages, dump, follow, forget_answers, load, next_answer, record_answer
from lineal.errors import PolicyError, Refused, UnsafeEffectError, Verdict
from lineal.messages import text_of
from lineal.session import Session
from lineal.session.effects import Effect
from lineal.store import Store, connect
from lineal.summarizers import Summary, SummaryRequest

WAITING = "interrupted: it is called again when the run goes on"


def summarizer_of(given: Any) -> Any:
    """What LangChain takes for a summarizer (the name of a chat model, a chat model, a `Runnable`), or any of lineal's."""
    model = init_chat_model(given) if isinstance(given, str) else given
    if not isinstance(model, Runnable):
        return given

    def summarize(request: SummaryRequest) -> Any:
        answer = model.invoke(request.text, config={"tags": [TAG_NOSTREAM]})  # its tokens are no answer to who waits for one
        if not isinstance(answer, BaseMessage):
            return answer
        told = answer.response_metadata  # a summary that was cut off is refused (R15)
        return Summary(str(answer.text), stop_reason=told.get("stop_reason") or told.get("finish_reason"), id=answer.id)

    return summarize


class LinealMiddleware(AgentMiddleware[Any, Any, Any]):
    """The memory of an agent. `memory`: a store (or what `connect` takes, or a `LinealSaver`), in which each thread is the
    session of its name; or one `Session`.

    `keys` gives tools a key of their own (a function of the arguments): equal keys are one effect. `reads` are tools that
    change nothing, `idempotent` those that may be repeated; each call of another one is done once (R48, R50). A call that may
    not be made now (its outcome is unknown, say) is answered in words. `options`: those of `Store.session`, as `policy`.
    """

    def __init__(
        self,
        memory: Any,
        *,
        keys: Mapping[str, Callable[[dict[str, Any]], str]] | None = None,
        reads: Collection[str] = (),
        idempotent: Collection[str] = (),
        recall: bool = True,
        **options: Any,
    ):
        super().__init__()
        found = memory if isinstance(memory, Session | Store) else getattr(memory, "store", None) or connect(memory)
        self.memory: Session | Store = found
        self.keys, self.reads, self.idempotent = dict(keys or {}), {*reads}, {*idempotent}
        self.options = options | {"summarizer": summarizer_of(options.get("summarizer"))}
        self._sessions: dict[str, Session] = {}
        self._going_on: set[str] = set()  # sessions whose run has not begun anew since its state was restored
        self.tools = [StructuredTool.from_function(f) for f in (self.recall_search, self.recall_expand)] if recall else []
        self.reads |= {tool.name for tool in self.tools}

    def session(self) -> Session:
        """The session of the thread that runs now. What a process that died left open is closed when it is first met."""
        if isinstance(self.memory, Session):
            return self.memory
        thread = get_config().get("configurable", {}).get("thread_id")
        if not thread:
            remedy = 'give {"configurable": {"thread_id": ...}}, or make the middleware with a session'
            raise PolicyError(Verdict("session", "no_thread", message="the run has no thread.", remedy=remedy))
        if str(thread) not in self._sessions:
            self._sessions[str(thread)] = self.memory.session(str(thread), **self.options)
            self._sessions[str(thread)].recover()
        return self._sessions[str(thread)]

    # --- the model -----------------------------------------------------------------------------------------------------

    def before_agent(self, state: Any, runtime: Any) -> None:
        self._going_on.discard(self.session().name)

    async def abefore_agent(self, state: Any, runtime: Any) -> None:
        await asyncio.to_thread(self.before_agent, state, runtime)

    @hook_config(can_jump_to=["tools", "end"])
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Follow the state, compact if it is time, and let the state show what the view shows."""
        session = self.session()
        if session.name not in self._going_on:
            self._going_on.add(session.name)
            forget_answers(session, state["messages"])
        follow(session, state["messages"])
        session.maybe_compact()
        shown = as_messages(session, state["messages"])
        if [m.id for m in shown] == [m.id for m in state["messages"]]:
            return None
        replaced = {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *shown]}
        if isinstance(last := shown[-1], AIMessage) and last.id != state["messages"][-1].id:
            return replaced | {"jump_to": "tools" if last.tool_calls else "end"}  # it was answered before a crash
        return replaced

    @hook_config(can_jump_to=["tools", "end"])
    async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return await asyncio.to_thread(self.before_model, state, runtime)

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]) -> Any:
        session = self.session()
        answered = next_answer(session, request.messages)
        return answered if answered is not None else record_answer(session, handler(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> Any:
        session = await asyncio.to_thread(self.session)
        answered = await asyncio.to_thread(next_answer, session, request.messages)
        return answered if answered is not None else await asyncio.to_thread(record_answer, session, await handler(request))

    def after_agent(self, state: Any, runtime: Any) -> None:
        follow(self.session(), state["messages"])

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        await asyncio.to_thread(self.after_agent, state, runtime)

    # --- tools -----------------------------------------------------------------------------------------------------------

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        if request.tool_call["name"] in self.reads:
            return handler(request)
        try:
            with self._effect(request) as effect:
                if not effect.pending:
                    return _repeated(effect, request)
                try:
                    answer = handler(request)
                except GraphBubbleUp:
                    effect.no_effect(WAITING)
                    raise
                return _settled(effect, request, answer)
        except UnsafeEffectError as refused:
            return _told(request, f"[lineal: not done. {refused}]", "error")

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]) -> Any:
        if request.tool_call["name"] in self.reads:
            return await handler(request)
        try:
            async with await asyncio.to_thread(self._effect, request) as effect:
                if not effect.pending:
                    return _repeated(effect, request)
                try:
                    answer = await handler(request)
                except GraphBubbleUp:
                    await asyncio.to_thread(effect.no_effect, WAITING)
                    raise
                return await asyncio.to_thread(_settled, effect, request, answer)
        except UnsafeEffectError as refused:
            return _told(request, f"[lineal: not done. {refused}]", "error")

    def _effect(self, request: ToolCallRequest) -> Effect:
        call, session = request.tool_call, self.session()
        key = self.keys[call["name"]](call["args"]) if call["name"] in self.keys else None
        return session.effect(call["name"], call["args"], key=key, idempotent=call["name"] in self.idempotent, call=call["id"])

    # --- reading back ----------------------------------------------------------------------------------------------------

    def recall_search(self, query: str, limit: int = 5) -> str:
        """Search everything that was said before, also what left the context. Gives handles for recall_expand."""
        hits = self.session().search(query, max(1, min(limit, 20)))
        return "\n".join(f"{hit.handle} (seq {hit.seq}): {hit.text}" for hit in hits) or "nothing that was said fits these words"

    def recall_expand(self, handle: str) -> str:
        """Read the exact turns behind a handle (g3 of a summary, t:ID of a turn)."""
        try:
            return "\n".join(f"[{t.author}, seq {t.seq}] {text_of(t.message)}" for t in self.session().expand(handle))
        except Refused as refused:
            return str(refused)


# --- calls through the ledger ------------------------------------------------------------------------------------------


def _settled(effect: Effect, request: ToolCallRequest, answer: Any) -> Any:
    """Record what came of a call. A tool that answers with an error says itself that nothing was done (R47); one that cannot
    know must raise."""
    messages = _results(answer)
    for message in messages:
        message.id = message.id or f"{_caller(request)}:{message.tool_call_id}"  # given again after a crash it is the same message
    says = "; ".join(str(m.text) for m in messages)
    if isinstance(answer, ToolMessage) and answer.status == "error":
        effect.no_effect(says)
    else:
        effect.settle({"says": says, "call": request.tool_call["id"], "answer": dump(answer)})
    return answer


def _repeated(effect: Effect, request: ToolCallRequest) -> Any:
    """The answer to a call that is not made again: as the tool gave it to this call, or in words to another one."""
    outcome = effect.result if isinstance(effect.result, dict) else {"says": effect.result}
    if outcome.get("call") == request.tool_call["id"]:
        return load(outcome["answer"])
    why = effect.verdict.message if effect.verdict is not None else ""  # a verdict that refuses is false
    return _told(request, f"[lineal: not done again. {why}]\n{outcome.get('says') or effect.state}")


def _told(request: ToolCallRequest, text: str, status: Literal["success", "error"] = "success") -> ToolMessage:
    call = request.tool_call
    return ToolMessage(text, name=call["name"], tool_call_id=call["id"] or "", status=status, id=f"{_caller(request)}:{call['id']}")


def _results(answer: Any) -> list[ToolMessage]:
    found = answer.update.get("messages", []) if isinstance(answer, Command) and isinstance(answer.update, dict) else [answer]
    return [m for m in found if isinstance(m, ToolMessage)]


def _caller(request: ToolCallRequest) -> str:
    """The id of the message that made the call: ids of calls alone may come again."""
    state = request.state["messages"] if isinstance(request.state, dict) else request.state
    made = (m for m in reversed(state) if isinstance(m, AIMessage) and any(c["id"] == request.tool_call["id"] for c in m.tool_calls))
    return str(next(made).id)
