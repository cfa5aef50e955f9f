"""A Pydantic AI agent as a process that is killed with SIGKILL: run by `test_pydantic_killed.py`, one JSON line a life.

    {"store": PATH, "parcels": PATH, "url": URL, "change": N, "when": "before" or "after",
     "tool": null or "before" or "after", "history": true or false}

Each life is a child of this process, forked once everything is imported. It says what was not acknowledged yet, each with the
id of its run, as if it knew nothing of earlier lives (or, with `history`, it first goes on where the log ends), and is killed
at its N-th change of the store (0: never), or inside the tool. The answer is the signal that ended it, or 0.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from lineal.adapters.pydantic_ai import LinealCapability
from lineal.engines.sqlite import SqliteEngine
from lineal.policy import Policy
from lineal.store import Store
from lineal.testing.faults import FaultyEngine

PARCELS = ("books", "tea", "a lamp", "a map")
POLICY = Policy(trigger=300, ceiling=900, target=150, floor_turns=2, summary_max_tokens=80)


class Killed(FaultyEngine):
    """Kills its process at the n-th change of the store."""

    def __init__(self, engine: SqliteEngine, at: int, when: str):
        super().__init__(engine)
        self.left, self.when, self.counting = at, when, threading.Lock()

    def _change(self, method: str, carry_out: Callable[[int | None], None]) -> None:
        with self.counting:
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
    memory = LinealCapability(store, policy=POLICY)
    model = OpenAIChatModel("courier", provider=OpenAIProvider(base_url=order["url"], api_key="none"))
    agent = Agent(model, tools=[deliver], capabilities=[memory])
    if order["history"] and (history := memory.history("post")):
        agent.run_sync(message_history=history, conversation_id="post")
    for n, parcel in enumerate(PARCELS):
        text = f"deliver {parcel}. It stands by the door, and the owner was told. " + "Mind the step at the gate. " * 8
        agent.run_sync(text, run_id=f"u{n}", conversation_id="post")
    store.close()


def main() -> None:
    OpenAIChatModel("courier", provider=OpenAIProvider(base_url="http://127.0.0.1", api_key="none"))  # what it imports late, once
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
