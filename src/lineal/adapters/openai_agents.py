"""An agent of the OpenAI Agents SDK whose memory is a session: `LinealSession`. Needs the extra `openai-agents`.

| call | what is durable when it returns | killed right behind it |
|---|---|---|
| `say` | what the user said, under your id | said again it stands once; `resume` and a run without input go on |
| the model answered (`hooks`) | every item of the answer, in its order | `resume` makes its calls, or answers them from the ledger |
| before a guarded tool | the intent | the outcome is *unknown*: not sent again until someone resolves it |
| behind it | the outcome | `resume` makes it the call's output |
| `add_items` | the rest of the items; what `hooks` wrote is not written twice | |
| `run_compaction` (the runner calls it after each turn) | a generation, or nothing of it | the view is the new one, or the old one |

Nothing is ever taken out of the log: `pop_item` and `clear_session` take items out of the view, and the ledger of effects
stays. What erases is the store's `delete` and the session's `purge`.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any, cast

from agents import FunctionTool, RunContextWrapper, RunHooks, TResponseInputItem, function_tool
from agents.items import ModelResponse
from agents.memory import SessionSettings
from agents.tool import default_tool_error_function
from agents.tool_context import ToolContext

from lineal.codec import sorted_json
from lineal.errors import UnsafeEffectError
from lineal.messages import convert
from lineal.session import Session
from lineal.session.effects import Effect
from lineal.session.outcomes import Shown
from lineal.store import Store

BY = "openai-agents"
Key = Callable[[dict[str, Any]], str]


class LinealSession:
    """The SDK's session protocol on one session of a store; compaction-aware. Pass it as `session=` and `hooks` as `hooks=`.

    `options` are those of `Store.session`, as `policy`. What the model is shown is the view: `get_items` gives each item as it
    was added, and what lineal says in the place of older ones.
    """

    def __init__(self, session_id: str, store: Store, session_settings: SessionSettings | dict[str, Any] | None = None, **options: Any):
        self.session_id = session_id
        self.session_settings = SessionSettings(**session_settings) if isinstance(session_settings, dict) else session_settings
        self.lineal: Session = store.session(session_id, **options)
        self.hooks: RunHooks[Any] = _Hooks(self)
        self._tools: dict[str, FunctionTool] = {}
        self._written: list[bytes] = []  # items that the hooks wrote, and that the runner will hand over, too

    # --- the protocol --------------------------------------------------------------------------------------------------

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items to show, oldest first; with `limit` (default: of the settings) the latest so many."""
        most = limit if limit is not None else self.session_settings.limit if self.session_settings else None
        items = await asyncio.to_thread(self._items)
        return items if most is None else items[len(items) - most :] if 0 < most < len(items) else items if most > 0 else []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append, all or none; durable on return."""
        fresh: list[Any] = []
        for item in items:
            mark = _mark(item)
            if mark in self._written:
                self._written.remove(mark)
            else:
                fresh.append(copy.deepcopy(item))
        if fresh:
            await asyncio.to_thread(self.lineal.append, fresh)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the latest item out of the view, and give it back. A call goes with its output, so that pairs stay whole."""
        return await asyncio.to_thread(self._pop)

    async def clear_session(self) -> None:
        """Begin anew: no item is shown any more. Raises `UnsafeRollbackError` where a summary would have to go back over effects
        that nothing else guards."""
        await asyncio.to_thread(self._clear)

    async def run_compaction(self, args: Any = None) -> None:
        """Compact if the policy says so, or (`{"force": True}`) now. A refusal changes nothing, and stands in the log."""
        force = bool(args and args.get("force"))
        await asyncio.to_thread(self.lineal.compact if force else self.lineal.maybe_compact)

    async def _atomic_replace_items(self, items: list[TResponseInputItem]) -> bool:
        """What the SDK's own compaction calls, where it is wrapped round this session: first the new items stand, then the old
        ones leave the view, so that there is no moment at which less is shown. The log keeps both."""
        old = [shown.turn for shown in await asyncio.to_thread(self.lineal.shown) if shown.turn]
        await self.add_items(items)
        if old:
            await asyncio.to_thread(self.lineal.note_eviction, old, BY)
        return True

    # --- going on after a crash ------------------------------------------------------------------------------------------

    async def say(self, text: str, id: str) -> bool:
        """Say what a user said, under an id of your own; then run without input: `Runner.run(agent, [], session=session)`.

        Returns False if it stands already: after a crash `resume()` and, if it was not answered, the same run go on.
        """
        before = self.lineal.status().head
        await asyncio.to_thread(self.lineal.append, {"role": "user", "content": text}, id)
        return self.lineal.status().head > before

    async def resume(self) -> bool:
        """Settle the calls that a process which died left open; returns whether the model owes an answer.

        A call goes through its tool's guard, so it is made now if it never was, and answered from the ledger if it was.
        """
        self._written.clear()
        await asyncio.to_thread(self.lineal.recover)
        view = await asyncio.to_thread(self.lineal.view)
        for item in [turn.message for turn in view.turns]:
            if item.get("type") == "function_call" and item["call_id"] in view.open_calls:
                output = await self._settled(item)
                settled = {"type": "function_call_output", "call_id": item["call_id"], "output": output}
                await asyncio.to_thread(self.lineal.append, settled)
        turns = (await asyncio.to_thread(self.lineal.view)).turns
        return bool(turns) and turns[-1].author != "assistant"

    async def _settled(self, call: dict[str, Any]) -> str:
        name, id, arguments = call["name"], call["call_id"], call["arguments"]
        if name not in self._tools:
            return "[lineal: whether this was called is not known: the process ended, and the tool is not guarded here]"
        context = ToolContext(None, tool_name=name, tool_call_id=id, tool_arguments=arguments)
        return str(await self._tools[name].on_invoke_tool(context, arguments))

    # --- tools -----------------------------------------------------------------------------------------------------------

    def tool(self, function: Callable[..., Any], *, key: Key | None = None, idempotent: bool = False, **options: Any) -> FunctionTool:
        """`function_tool(function, **options)` whose calls go through the ledger (R47): each is done once.

        `key` gives it a key of its own: equal keys are one effect, whoever calls. A call that may not be made now (its outcome
        is unknown, say) is answered in words. An exception makes the outcome unknown; only then `failure_error_function`
        puts it into words.
        """
        tell = options.pop("failure_error_function", default_tool_error_function)
        made = function_tool(function, failure_error_function=None, **options)
        invoke = made.on_invoke_tool

        async def guarded(context: ToolContext[Any], arguments: str) -> Any:
            given = json.loads(arguments or "{}")
            try:
                effect = self.lineal.effect(made.name, given, key=key and key(given), idempotent=idempotent, call=context.tool_call_id)
                async with effect:
                    if effect.pending:
                        value = await invoke(context, arguments)
                        await asyncio.to_thread(effect.settle, value)
                return _answer(effect)
            except UnsafeEffectError as refused:
                return f"[lineal: not done. {refused}]"
            except Exception as error:
                if tell is None:
                    raise
                said = tell(context, error)
                return await said if asyncio.iscoroutine(said) else said

        made.on_invoke_tool = guarded
        self._tools[made.name] = made
        return made

    # --- the session's side ----------------------------------------------------------------------------------------------

    def _items(self) -> list[TResponseInputItem]:
        shown = self.lineal.shown()
        if not any(one.turn for one in shown) and not self.lineal.view().summaries:
            return []  # notes alone are about what is shown no more
        return [item for one in shown for item in _as_items(one)]

    def _pop(self) -> TResponseInputItem | None:
        last = next((one for one in reversed(self.lineal.shown()) if one.turn), None)
        if last is None:
            return None
        self.lineal.note_eviction([last.turn], BY)
        return cast(TResponseInputItem, last.message)

    def _clear(self) -> None:
        self._written.clear()
        if self.lineal.view().summaries:
            self.lineal.rollback(0)
        if turns := [one.turn for one in self.lineal.shown() if one.turn]:
            self.lineal.note_eviction(turns, BY)


class _Hooks(RunHooks[Any]):
    """Writes what the model answered before anything is done with it."""

    def __init__(self, session: LinealSession):
        self._session = session

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Any, response: ModelResponse) -> None:
        items = response.to_input_items()
        await self._session.add_items(items)
        self._session._written += [_mark(item) for item in items]
        used = response.usage
        if used.input_tokens:
            await asyncio.to_thread(self._session.lineal.record_usage, used.input_tokens, used.output_tokens)


def _mark(item: Any) -> bytes:
    """By what an item is known again when the runner hands it over: its call or its id; else all of it."""
    kind = item.get("type", "message")
    known = item.get("call_id") or item.get("id")
    return sorted_json([kind, known] if known else item)


def _as_items(shown: Shown) -> Iterator[TResponseInputItem]:
    if shown.whole:
        yield copy.deepcopy(shown.message)
    else:
        yield from convert([shown.message], "responses")


def _answer(effect: Effect) -> Any:
    if effect.verdict is None or effect.verdict.allowed or effect.verdict.reason == "recorded":
        return effect.result
    return f"[lineal: not done again. {effect.verdict.message}]\n{effect.result if effect.result is not None else effect.state}"
