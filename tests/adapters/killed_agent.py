"""A LangGraph agent as a process that is killed with SIGKILL: run by `test_langchain_killed.py`, one JSON line a life.

    {"store": PATH, "parcels": PATH, "change": N, "when": "before" or "after", "tool": null or "before" or "after", "durability": ...}

Each life is a child of this process, forked once everything is imported: it goes on with what an earlier one left, delivers
what was not delivered yet, and is killed at its N-th change of the store (0: never), or inside the tool. The answer is the
signal that ended it, or 0.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from lineal.adapters.langchain import LinealMiddleware
from lineal.adapters.langgraph import LinealSaver
from lineal.engines.sqlite import SqliteEngine
from lineal.policy import Policy
from lineal.store import Store
from lineal.testing.faults import FaultyEngine

PARCELS = ("books", "tea", "a lamp", "a map")
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


class Killed(FaultyEngine):
    """Kills its process at the n-th change of the store."""

    def __init__(self, engine: SqliteEngine, at: int, when: str):
        super().__init__(engine)
        self.left, self.when, self.counting = at, when, threading.Lock()

    def _change(self, method: str, carry_out: Callable[[int | None], None]) -> None:
        with self.counting:  # LangGraph keeps checkpoints in other threads
            self.left -= 1
            last = self.left == 0
        if last and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            super()._change(method, carry_out)
        finally:
            if last:
                os.kill(os.getpid(), signal.SIGKILL)


def life(order: dict[str, Any]) -> None:
    def deliver(parcel: str) -> str:
        """Deliver a parcel."""
        if order["tool"] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        with open(order["parcels"], "a") as arrived:
            arrived.write(f"{parcel}\n")
            arrived.flush()
            os.fsync(arrived.fileno())
        if order["tool"] == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{parcel} was handed over"

    store = Store(Killed(SqliteEngine.open(order["store"]), order["change"], order["when"]))
    saver = LinealSaver(store)
    graph = create_agent(Model(), [deliver], middleware=[LinealMiddleware(saver, policy=POLICY)], checkpointer=saver)
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


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                life(json.loads(line))
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        _, ended = os.waitpid(child, 0)
        print(json.dumps(os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else -os.WEXITSTATUS(ended)), flush=True)


if __name__ == "__main__":
    main()
