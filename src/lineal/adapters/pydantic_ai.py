"""A Pydantic AI agent whose memory is a session: `LinealCapability`. Needs the extra `pydantic-ai`.

| moment | what is durable when it returns | killed right behind it |
|---|---|---|
| before the model: the session follows the messages | each piece is a turn | it is recognised when it comes again |
| then compaction | a generation, or nothing of it; only then the request shows the view | the next request shows it |
| the model answered | the answer, before the agent acts on it | it is given again; the model is not asked again |
| before a tool | the intent | the outcome is *unknown*: not sent again until someone resolves it |
| behind a tool | the outcome | the recorded outcome is the tool's answer; it is not called again |

The agent's own history (`all_messages()`) stays as it is: only what the model is shown changes. How the messages are
followed and recognised: `pydantic_messages`. A `ConversationStore` on a log: `pydantic_conversations`.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Collection, Mapping
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai import messages as pm
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, SkipToolExecution, ToolFailedError, ToolRetryError
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import FunctionToolset

from lineal.adapters.pydantic_messages import Follower
from lineal.adapters.pydantic_pieces import REFUSED, dump, load
from lineal.errors import PolicyError, Refused, UnsafeEffectError, Verdict
from lineal.messages import text_of
from lineal.session import Session
from lineal.session.effects import Effect
from lineal.store import Store, connect

NOT_NOW = "not carried out: it waits for someone, or was skipped"


class LinealCapability(AbstractCapability[Any]):
    """The memory of an agent. `memory`: a store (or what `connect` takes), in which each conversation is the session of its
    `conversation_id`; or one `Session`.

    `keys` gives tools a key of their own (a function of the arguments): equal keys are one effect. `reads` are tools that
    change nothing, `idempotent` those that may be repeated; each call of another one is done once (R48, R50). A call that may
    not be made now (its outcome is unknown, say) is answered in words, or with `raising` by its `UnsafeEffectError`.
    `options`: those of `Store.session`, as `policy`.
    """

    def __init__(
        self,
        memory: Any,
        *,
        keys: Mapping[str, Callable[[dict[str, Any]], str]] | None = None,
        reads: Collection[str] = (),
        idempotent: Collection[str] = (),
        recall: bool = True,
        raising: bool = False,
        **options: Any,
    ):
        self.memory: Session | Store = memory if isinstance(memory, Session | Store) else connect(memory)
        self.keys, self.reads, self.idempotent = dict(keys or {}), {*reads}, {*idempotent}
        self.raising, self.options = raising, options
        self._toolset = FunctionToolset([self.recall_search, self.recall_expand]) if recall else None
        self.reads |= {*self._toolset.tools} if self._toolset else set()
        self._sessions: dict[str, Session] = {}
        self._run: Follower | None = None

    def session(self, conversation: str | None = None) -> Session:
        """The session of this conversation (default: of the run that this is part of). What a process that died left open is
        closed when the session is first met."""
        if conversation is None and self._run is not None:
            return self._run.session
        name = self.memory.name if isinstance(self.memory, Session) else conversation
        if not name:
            remedy = "name the conversation, or make the capability with a session"
            raise PolicyError(Verdict("session", "no_conversation", message="no conversation is named.", remedy=remedy))
        if name not in self._sessions:
            found = self.memory if isinstance(self.memory, Session) else self.memory.session(name, **self.options)
            found.recover()
            self._sessions[name] = found
        return self._sessions[name]

    def history(self, conversation: str | None = None) -> list[pm.ModelMessage]:
        """The session's view as messages: `agent.run(message_history=...)` without a prompt goes on where the log ends.

        Calls that a dead process left open are then made, each through the ledger.
        """
        return Follower(self.session(conversation), "").view()

    def compaction_transcript_handle(self) -> str | None:
        """The handle of the newest summary, once its exact turns were read back and verified; None if there is none to read."""
        session = self.session()
        for handle in reversed(session.view().handles):
            try:
                session.expand(handle)
            except Refused:  # pruned: no transcript stands behind it any more
                return None
            return handle
        return None

    # --- the run -------------------------------------------------------------------------------------------------------

    def get_ordering(self) -> CapabilityOrdering:
        """Outside the others: what is recorded is what the agent gets, and they see the view."""
        return CapabilityOrdering(position="outermost")

    async def for_run(self, ctx: RunContext[Any]) -> LinealCapability:
        found = copy.copy(self)
        session = await asyncio.to_thread(self.session, ctx.conversation_id)
        found._run = Follower(session, ctx.run_id or "")
        return found

    @property
    def _following(self) -> Follower:
        assert self._run is not None, "hooks are called on what `for_run` returned"
        return self._run

    async def wrap_model_request(self, ctx: RunContext[Any], *, request_context: ModelRequestContext, handler: Any) -> pm.ModelResponse:
        answered = await asyncio.to_thread(self._following.answered, ctx.messages, ctx.run_step)
        if answered is not None:
            return answered
        response: pm.ModelResponse = await handler(request_context)
        if response.state != "suspended":
            await asyncio.to_thread(self._following.record, ctx.messages, ctx.run_step, response)
        return response

    async def before_model_request(self, ctx: RunContext[Any], request_context: ModelRequestContext) -> ModelRequestContext:
        """Follow the messages, compact if it is time, and let the request show what the view shows."""
        unfinished = [m for m in request_context.messages[-1:] if isinstance(m, pm.ModelResponse)]  # the provider goes on with it
        request_context.messages = [*await asyncio.to_thread(self._view, ctx), *unfinished]
        return request_context

    def _view(self, ctx: RunContext[Any]) -> list[pm.ModelMessage]:
        following = self._following
        pieces, _ = following.follow(ctx.messages, ctx.run_step)
        following.session.maybe_compact()
        return following.view(pieces, ctx.messages)

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        await asyncio.to_thread(self._following.follow, result.all_messages(), ctx.run_step)
        return result

    # --- tools -----------------------------------------------------------------------------------------------------------

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: pm.ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any], handler: Any
    ) -> Any:
        if call.tool_name in self.reads:
            return await handler(args)
        try:
            async with await asyncio.to_thread(self._effect, ctx, call, args) as effect:
                if not effect.pending:
                    return _repeated(effect, call)
                try:
                    answer = await handler(args)
                except (ApprovalRequired, CallDeferred, SkipToolExecution):
                    await asyncio.to_thread(effect.no_effect, NOT_NOW)
                    raise
                except (ToolRetryError, ToolFailedError) as failed:
                    if not _timed_out(failed):  # the tool says itself that it did nothing (R47); one that timed out may go on
                        await asyncio.to_thread(effect.no_effect, str(failed))
                    raise
                await asyncio.to_thread(effect.settle, {"call": call.tool_call_id, "answer": _dumped(answer, call)})
                return answer
        except UnsafeEffectError as refused:
            if self.raising:
                raise
            return f"{REFUSED}. {refused}]"

    def _effect(self, ctx: RunContext[Any], call: pm.ToolCallPart, args: dict[str, Any]) -> Effect:
        session = self._following.session
        if call.tool_call_id not in session.status().open_calls:
            self._following.follow(ctx.messages, ctx.run_step)  # a run that begins with the calls of a history that was handed over
        key = self.keys[call.tool_name](args) if call.tool_name in self.keys else None
        return session.effect(call.tool_name, args, key=key, idempotent=call.tool_name in self.idempotent, call=call.tool_call_id)

    # --- reading back ----------------------------------------------------------------------------------------------------

    def get_toolset(self) -> FunctionToolset[Any] | None:
        return self._toolset

    def recall_search(self, ctx: RunContext[Any], query: str, limit: int = 5) -> str:
        """Search everything that was said before, also what left the context. Gives handles for recall_expand."""
        hits = self.session(ctx.conversation_id).search(query, max(1, min(limit, 20)))
        return "\n".join(f"{hit.handle} (seq {hit.seq}): {hit.text}" for hit in hits) or "nothing that was said fits these words"

    def recall_expand(self, ctx: RunContext[Any], handle: str) -> str:
        """Read the exact turns behind a handle (g3 of a summary, t:ID of a turn)."""
        try:
            turns = self.session(ctx.conversation_id).expand(handle)
        except Refused as refused:
            return str(refused)
        return "\n".join(f"[{t.author}, seq {t.seq}] {text_of(t.message)}" for t in turns)


# --- what tools answer ---------------------------------------------------------------------------------------------------


def _dumped(answer: Any, call: pm.ToolCallPart) -> Any:
    """The answer as a message of Pydantic AI, which knows how to keep files and values: (what is returned, what is said beside it)."""
    whole = answer if isinstance(answer, pm.ToolReturn) else pm.ToolReturn(answer)
    returned = pm.ToolReturnPart(call.tool_name, whole.return_value, call.tool_call_id, metadata=whole.metadata)
    beside = [] if whole.content is None else [pm.UserPromptPart(whole.content)]
    return dump(pm.ModelRequest(parts=[returned, *beside]))


def _repeated(effect: Effect, call: pm.ToolCallPart) -> Any:
    """The answer to a call that is not made again: as the tool gave it to this call, or in words to another one."""
    outcome = effect.result if isinstance(effect.result, dict) and "answer" in effect.result else None
    parts: Any = load(outcome["answer"]).parts if outcome else ()
    if outcome and outcome["call"] == call.tool_call_id:
        if len(parts) == 1 and parts[0].metadata is None:
            return parts[0].content
        return pm.ToolReturn(parts[0].content, content=parts[1].content if len(parts) > 1 else None, metadata=parts[0].metadata)
    why = effect.verdict.message if effect.verdict else ""
    return f"{REFUSED} again. {why}]\n{parts[0].model_response_str() if parts else effect.result or effect.state}"


def _timed_out(failed: BaseException | None) -> bool:
    while failed is not None and not isinstance(failed, TimeoutError):
        failed = failed.__cause__ or failed.__context__
    return failed is not None
