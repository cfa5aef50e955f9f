"""A Pydantic AI agent with `LinealCapability` owes what every adapter owes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `pydantic-ai` is not installed")

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from lineal.adapters.pydantic_ai import LinealCapability
from lineal.session import Session
from lineal.store import Store
from lineal.testing.adapters import AdapterTests, Courier
from lineal.testing.model_server import ModelServer


class Post:
    """The agent, with a conversation that is its session."""

    def __init__(self, store: Store, url: str, deliver: Callable[[str], str], policy: Any):
        self.memory = LinealCapability(store, policy=policy)
        model = OpenAIChatModel("courier", provider=OpenAIProvider(base_url=url, api_key="none"))
        self.agent = Agent(model, tools=[deliver], capabilities=[self.memory])

    @property
    def session(self) -> Session:
        return self.memory.session("post")

    def say(self, text: str, id: str) -> str:
        return str(self.agent.run_sync(text, run_id=id, conversation_id="post").output)

    def resume(self) -> None:
        history = self.memory.history("post")
        if history:
            self.agent.run_sync(message_history=history, conversation_id="post")


class TestPydanticAgent(AdapterTests):
    @pytest.fixture(autouse=True)
    def server(self) -> Iterator[None]:
        with ModelServer(lambda messages: self.model(messages)) as server:
            self.url = server.url
            yield

    def agent(self, store: Store, courier: Courier, deliver: Callable[[str], str]) -> Post:
        self.model = courier
        return Post(store, self.url, deliver, self.policy)
