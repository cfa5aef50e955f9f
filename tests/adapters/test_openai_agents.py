"""The OpenAI Agents SDK on lineal: its session contract, real runs against a model on loopback, crashes, and its own compaction."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("agents", reason="the extra `openai-agents` is not installed")

from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, set_tracing_disabled
from agents.memory import OpenAIResponsesCompactionSession, Session, SessionSettings
from openai import AsyncOpenAI

import lineal
from lineal.adapters.openai_agents import LinealSession
from lineal.errors import Refused
from lineal.messages import text_of
from lineal.store import Store
from lineal.testing.adapters import SMALL, AdapterTests, Courier
from lineal.testing.model_server import ModelServer

set_tracing_disabled(True)
BRIEF = "They spoke of parcels, and each was handed over."


def run(act: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(act)


def say(n: int, text: str = "") -> Any:
    return {"role": "user" if n % 2 == 0 else "assistant", "content": text or f"item {n}"}


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return lineal.connect("memory:" if request.param == "memory" else tmp_path / "agent.db")


# --- what every adapter owes -----------------------------------------------------------------------------------------


class Post:
    """An agent whose model is asked over HTTP, by the SDK's own client."""

    def __init__(self, store: Store, courier: Courier, deliver: Callable[[str], str], policy: Any):
        self.courier = courier
        self.memory = LinealSession("post", store, policy=policy, summarizer=lambda request: BRIEF)
        self.session = self.memory.lineal
        self.tools = [self.memory.tool(deliver)]

    async def _run(self, url: str) -> str:
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            agent = Agent(name="post", tools=list(self.tools), model=OpenAIResponsesModel("m", client))
            found = await Runner.run(agent, [], session=self.memory, hooks=self.memory.hooks, run_config=RunConfig(tracing_disabled=True))
            return str(found.final_output)

    def answer(self) -> str:
        with ModelServer(self.courier) as server:
            return str(run(self._run(server.url)))

    def say(self, text: str, id: str) -> str:
        if not run(self.memory.say(text, id)) and not run(self.memory.resume()):
            return text_of(self.session.view().turns[-1].message)
        return self.answer()

    def resume(self) -> None:
        if run(self.memory.resume()):
            self.answer()


class TestOpenAIAgent(AdapterTests):
    def agent(self, store: Store, courier: Courier, deliver: Callable[[str], str]) -> Post:
        return Post(store, courier, deliver, self.policy)


# --- the session protocol --------------------------------------------------------------------------------------------


def test_it_is_a_session_and_compaction_aware(store: Store) -> None:
    from agents.memory import is_openai_responses_compaction_aware_session

    session = LinealSession("s", store)
    assert isinstance(session, Session) and is_openai_responses_compaction_aware_session(session)


def test_items_come_back_exactly_in_order_and_the_latest_with_a_limit(store: Store) -> None:
    """R3, R7."""
    odd = [say(n) for n in range(6)] + [
        {"role": "user", "content": [{"type": "input_text", "text": "é\u0000\\u0000 \U0001f600"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3BhcXVl"},
        {"type": "function_call", "call_id": "f1", "name": "date", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "f1", "output": "Thursday"},
    ]

    async def act() -> None:
        session = LinealSession("s", store)
        await session.add_items(odd)
        await session.add_items([])
        assert await session.get_items() == odd
        assert await session.get_items(limit=2) == odd[-2:] and await session.get_items(limit=0) == []
        assert await session.get_items(limit=99) == odd
        limited = LinealSession("s", store, SessionSettings(limit=3))
        assert await limited.get_items() == odd[-3:] and await limited.get_items(limit=1) == odd[-1:]
        taken = await session.get_items()
        cast_any(taken[0])["content"] = "changed by the caller"
        assert await session.get_items() == odd

    run(act())


def cast_any(value: Any) -> Any:
    return value


def test_popping_and_clearing_take_out_of_the_view_and_not_out_of_the_log(store: Store) -> None:
    """R1: the contract's two destructive verbs."""

    async def act() -> None:
        session = LinealSession("s", store)
        assert await session.pop_item() is None and await session.get_items() == []
        await session.add_items([say(n) for n in range(4)])
        assert await session.pop_item() == say(3) and await session.get_items() == [say(n) for n in range(3)]
        await session.clear_session()
        assert await session.get_items() == [] and await session.pop_item() is None
        await session.add_items([say(8)])
        assert await session.get_items() == [say(8)]
        assert [t.message for t in session.lineal.turns()] == [say(n) for n in (0, 1, 2, 3, 8)]
        assert session.lineal.verify().clean

    run(act())


def test_sessions_of_one_store_do_not_mix_and_many_may_write_at_once(store: Store) -> None:
    """R38: two handles on one session lose nothing of each other."""

    async def act() -> None:
        one, two, other = LinealSession("s", store), LinealSession("s", store), LinealSession("other", store)
        await asyncio.gather(*(handle.add_items([say(n)]) for n in range(20) for handle in (one, two, other)))
        assert len(await one.get_items()) == len(await two.get_items()) == 40 and len(await other.get_items()) == 20

    run(act())


def test_an_output_without_its_call_is_refused_and_nothing_of_the_batch_stands(store: Store) -> None:
    """R4."""

    async def act() -> None:
        session = LinealSession("s", store)
        with pytest.raises(Refused):
            await session.add_items([say(0), {"type": "function_call_output", "call_id": "nobody", "output": "x"}])
        assert await session.get_items() == []

    run(act())


def test_the_view_is_compacted_by_policy_and_the_log_is_whole(store: Store) -> None:
    """R25: after each turn the runner asks."""

    async def act() -> None:
        session = LinealSession("s", store, policy=SMALL, summarizer=lambda request: BRIEF)
        for n in range(40):
            await session.add_items([say(n, f"item {n} " + "and so on " * 20)])
            await session.run_compaction()
        items = await session.get_items()
        assert len(items) < 20 and BRIEF in str(items[0]) and session.lineal.status().generation
        assert len(session.lineal.turns()) == 40
        await session.run_compaction({"force": True})
        assert session.lineal.verify().clean

    run(act())


def test_clearing_a_compacted_session_shows_nothing_of_it_as_said(store: Store) -> None:
    async def act() -> None:
        session = LinealSession("s", store, policy=SMALL, summarizer=lambda request: BRIEF)
        await session.add_items([say(n, f"item {n} " + "and so on " * 20) for n in range(30)])
        await session.run_compaction({"force": True})
        await session.clear_session()
        assert await session.get_items() == []

    run(act())


# --- the SDK's own compaction round it -------------------------------------------------------------------------------


class Compacting:
    """The SDK's client, as far as its compaction uses it."""

    def __init__(self) -> None:
        self.responses, self.given = self, list[Any]()

    async def compact(self, **asked: Any) -> Any:
        self.given = asked["input"]
        return SimpleNamespace(output=[{"type": "compaction", "encrypted_content": "b3BhcXVl"}], usage=None)


def test_the_sdks_own_compaction_replaces_the_view_and_never_empties_it(store: Store) -> None:
    """Killed anywhere inside it, at least one of both histories is shown; the log has both."""

    async def act() -> None:
        session = LinealSession("s", store)
        await session.add_items([say(n) for n in range(20)])
        around = OpenAIResponsesCompactionSession("s", session, client=Compacting(), compaction_mode="input")  # type: ignore[arg-type]
        real, dies = session.lineal.note_eviction, True

        def note(*given: Any) -> Any:
            if dies:
                raise KeyboardInterrupt  # killed between its two writes
            return real(*given)

        session.lineal.note_eviction = note  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            await session._atomic_replace_items([{"type": "compaction", "encrypted_content": "b3BhcXVl"}])  # type: ignore[list-item]
        assert len(await session.get_items()) == 21
        dies = False
        await around.run_compaction({"force": True})
        assert [item.get("type") for item in await session.get_items()] == ["compaction"]
        assert len(session.lineal.turns()) == 22

    run(act())


# --- tools -----------------------------------------------------------------------------------------------------------


def test_a_tool_that_raises_is_unknown_and_its_error_is_told(store: Store) -> None:
    """R47: an exception says nothing about what was sent."""

    def deliver(parcel: str) -> str:
        raise TimeoutError("no answer")

    post = Post(store, Courier(), deliver, SMALL)
    assert "error" in post.say("deliver books.", "u0").lower()
    assert [row.state for row in post.session.ledger()] == ["unknown"]


def test_a_key_of_its_own_is_one_effect(store: Store) -> None:
    """R48."""
    arrived: list[str] = []

    def deliver(parcel: str) -> str:
        arrived.append(parcel)
        return f"{parcel} was handed over"

    post = Post(store, Courier(), deliver, SMALL)
    post.tools = [post.memory.tool(deliver, key=lambda args: str(args["parcel"]))]
    post.say("deliver books.", "u0")
    assert "handed over" in post.say("deliver books.", "u1")
    assert arrived == ["books"]


# --- kill -9 ---------------------------------------------------------------------------------------------------------

LIFE = """
import asyncio, json, os, signal, sys
from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
from openai import AsyncOpenAI
import lineal
from lineal.adapters.openai_agents import LinealSession
from lineal.testing.adapters import SMALL

set_tracing_disabled(True)
place, url, parcels, dies = sys.argv[1:]

def deliver(parcel: str) -> str:
    if dies == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    with open(parcels, "a") as arrived:
        arrived.write(parcel + "\\n")
        arrived.flush()
        os.fsync(arrived.fileno())
    if dies == "after":
        os.kill(os.getpid(), signal.SIGKILL)
    return parcel + " was handed over"

async def main():
    memory = LinealSession("post", lineal.connect(place), policy=SMALL)
    if dies == "recorded":
        real = memory.add_items
        async def add_items(items):
            if any(item.get("type") == "function_call_output" for item in items):
                os.kill(os.getpid(), signal.SIGKILL)
            await real(items)
        memory.add_items = add_items
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        agent = Agent(name="post", tools=[memory.tool(deliver)], model=OpenAIResponsesModel("m", client))
        fresh = await memory.say("deliver books.", "u0")
        if fresh or await memory.resume():
            await Runner.run(agent, [], session=memory, hooks=memory.hooks)

asyncio.run(main())
"""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(Courier()) as found:
        yield found


@pytest.mark.parametrize(("dies", "state", "arrived"), [("before", "unknown", 0), ("after", "unknown", 1), ("recorded", "done", 1)])
def test_killed_in_mid_run_and_resumed(tmp_path: Path, server: ModelServer, dies: str, state: str, arrived: int) -> None:
    """R30, R47: nothing that was said or done is lost, and the parcel is not sent twice."""
    parcels = tmp_path / "parcels"

    def life(dies: str) -> int:
        command = [sys.executable, "-c", LIFE, str(tmp_path / "post.db"), server.url, str(parcels), dies]
        return subprocess.run(command, env={**os.environ, "OPENAI_AGENTS_DISABLE_TRACING": "1"}, timeout=120).returncode

    assert life(dies) == -signal.SIGKILL
    assert life("") == 0
    assert len(parcels.read_text().splitlines() if parcels.exists() else []) == arrived
    with lineal.connect(tmp_path / "post.db") as store:
        session = store.session("post")
        assert [row.state for row in session.ledger()] == [state] and session.verify().clean
        assert [t.author for t in session.turns()] == ["user", "assistant", "tool", "assistant"]
        assert json.loads(session.turns()[1].message["arguments"]) == {"parcel": "books"}
