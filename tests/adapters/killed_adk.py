"""A Google ADK agent as a process that is killed with SIGKILL: run by `test_google_adk_killed.py`, one JSON line a life.

    {"what": "parcels" or "scopes", "folder": PATH, "url": URL, "change": N, "when": "before" or "after",
     "tool": null or "before" or "after"}

Each life is a child of this process, forked once everything is imported. It does all its work as if it knew nothing of
earlier lives, writes down what was acknowledged, and is killed at its N-th change of the store (0: never), or inside the
tool. The answer is the signal that ended it, or 0.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.adk.agents import Agent
from google.adk.apps import App, ResumabilityConfig
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.integrations.openai import OpenAIResponsesLlm
from google.adk.runners import Runner
from google.genai.types import Content, Part

from lineal.adapters.google_adk import LinealSessionService
from lineal.adapters.google_adk_guard import LinealEffectPlugin
from lineal.adapters.google_adk_runs import resume, say
from lineal.adapters.google_adk_view import LinealViewPlugin
from lineal.engines.sqlite import SqliteEngine
from lineal.policy import Policy
from lineal.store import Store
from lineal.testing.faults import FaultyEngine

PARCELS = ("books", "tea", "a lamp", "a map")
POLICY = Policy(trigger=300, ceiling=900, target=150, floor_turns=2, summary_max_tokens=80)
SCOPES = [(app, user, session) for app in ("post", "shop") for user in ("ann", "bob") for session in ("s1", "s2")]


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


def note(place: Path, line: str) -> None:
    with open(place, "a") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())


async def parcels(store: Store, order: dict[str, Any]) -> None:
    """Go on with what was cut off, then say everything, each message under its id."""
    folder = Path(order["folder"])

    def deliver(parcel: str) -> str:
        """Deliver a parcel."""
        if order["tool"] == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        note(folder / "parcels", parcel)
        if order["tool"] == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{parcel} was handed over"

    service = LinealSessionService(store, policy=POLICY)
    agent = Agent(name="post", model=OpenAIResponsesLlm(model="courier", base_url=order["url"], api_key="none"), tools=[deliver])
    plugins = [LinealEffectPlugin(service), LinealViewPlugin(service)]
    app = App(name="post", root_agent=agent, plugins=plugins, resumability_config=ResumabilityConfig(is_resumable=True))
    runner = Runner(app=app, session_service=service)
    async for _ in resume(runner, user_id="ann", session_id="s1"):
        pass
    for n, parcel in enumerate(PARCELS):
        text = f"deliver {parcel}. It stands by the door, and the owner was told. " + "Mind the step at the gate. " * 8
        async for _ in say(runner, text, user_id="ann", session_id="s1", id=f"u{n}"):
            pass
        note(folder / "acknowledged", f"u{n}")


async def scopes(store: Store, order: dict[str, Any]) -> None:
    """Set the same keys of each scope again and again, from all sessions of all users of two apps."""
    service = LinealSessionService(store)
    for n, (app, user, id) in enumerate(SCOPES * 2):
        who = {"app_name": app, "user_id": user, "session_id": id}
        session = await service.get_session(**who) or await service.create_session(**who)
        if all(event.id != f"e{n}" for event in session.events):
            delta = {"app:last": n, "user:last": n, "last": n, f"app:by {user}": n, "temp:no": n}
            content = Content(role="user", parts=[Part(text=f"word {n}")])
            await service.append_event(session, Event(id=f"e{n}", author="user", content=content, actions=EventActions(state_delta=delta)))
        note(Path(order["folder"]) / "acknowledged", str(n))


def life(order: dict[str, Any]) -> None:
    store = Store(Killed(SqliteEngine.open(str(Path(order["folder"]) / "post.db")), order["change"], order["when"]))
    asyncio.run(parcels(store, order) if order["what"] == "parcels" else scopes(store, order))
    store.close()


def main() -> None:
    warnings.simplefilter("ignore")  # ADK tells that its resumability is new
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
