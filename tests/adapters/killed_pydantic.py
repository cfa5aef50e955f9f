"""A Pydantic AI agent as a process that is killed with SIGKILL: run by `test_pydantic_killed.py`.

A life says what was not acknowledged yet, each with the id of its run, as if it knew nothing of earlier lives; or, with
`history` in its order, it first goes on where the log ends. `url` is where its model is.
"""

from __future__ import annotations

from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from lineal.adapters.pydantic_ai import LinealCapability
from lineal.policy import Policy
from lineal.store import Store
from lineal.testing.lives import PARCELS, Killed, courier, serve

POLICY = Policy(trigger=300, ceiling=900, target=150, floor_turns=2, summary_max_tokens=80)


def life(order: dict[str, Any]) -> None:
    store = Store(Killed.of(order))
    memory = LinealCapability(store, policy=POLICY)
    model = OpenAIChatModel("courier", provider=OpenAIProvider(base_url=order["url"], api_key="none"))
    agent = Agent(model, tools=[courier(order)], capabilities=[memory])
    if order["history"] and (history := memory.history("post")):
        agent.run_sync(message_history=history, conversation_id="post")
    for n, parcel in enumerate(PARCELS):
        text = f"deliver {parcel}. It stands by the door, and the owner was told. " + "Mind the step at the gate. " * 8
        agent.run_sync(text, run_id=f"u{n}", conversation_id="post")
    store.close()


def main() -> None:
    OpenAIChatModel("courier", provider=OpenAIProvider(base_url="http://127.0.0.1", api_key="none"))  # what it imports late, once
    serve(life)


if __name__ == "__main__":
    main()
