"""A LangGraph agent as a process that is killed with SIGKILL: run by `test_langchain_killed.py`.

A life goes on with what an earlier one left, and delivers what was not delivered yet.
"""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from lineal.adapters.langchain import LinealMiddleware
from lineal.adapters.langgraph import LinealSaver
from lineal.policy import Policy
from lineal.store import Store
from lineal.testing.lives import PARCELS, Killed, courier, serve

POLICY = Policy(trigger=300, ceiling=900, target=150, floor_turns=2, summary_max_tokens=80)


class Model(BaseChatModel):
    @property
    def _llm_type(self) -> str:
        return "courier"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Model:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            answer = AIMessage(f"Done: {last.text}")
        else:
            parcel = str(last.text).removeprefix("deliver ").partition(".")[0]
            answer = AIMessage("", tool_calls=[{"name": "deliver", "args": {"parcel": parcel}, "id": f"call {parcel}"}])
        return ChatResult(generations=[ChatGeneration(message=answer)])


def life(order: dict[str, Any]) -> None:
    store = Store(Killed.of(order))
    saver = LinealSaver(store)
    graph = create_agent(Model(), [courier(order)], middleware=[LinealMiddleware(saver, policy=POLICY)], checkpointer=saver)
    config = {"configurable": {"thread_id": "post"}}
    state = graph.get_state(config)
    if state.next or state.tasks:
        graph.invoke(None, config, durability=order["durability"])
    said = {m.id for m in graph.get_state(config).values.get("messages", ())}
    for n, parcel in enumerate(PARCELS):
        if f"u{n}" not in said:
            text = f"deliver {parcel}. It stands by the door, and the owner was told. " + "Mind the step at the gate. " * 8
            graph.invoke({"messages": [HumanMessage(text, id=f"u{n}")]}, config, durability=order["durability"])
    store.close()


if __name__ == "__main__":
    serve(life)
