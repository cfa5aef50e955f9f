"""A LangGraph agent with `LinealSaver` and `LinealMiddleware` owes what every adapter owes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("langchain.agents", reason="the extra `langchain` is not installed")

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, convert_to_messages, convert_to_openai_messages
from langchain_core.outputs import ChatGeneration, ChatResult

from lineal.adapters.langchain import LinealMiddleware
from lineal.adapters.langgraph import LinealSaver
from lineal.session import Session
from lineal.store import Store
from lineal.testing.adapters import AdapterTests, Courier


class Scripted(BaseChatModel):
    """A chat model that answers what a function of messages in the chat dialect says."""

    script: Callable[..., dict[str, Any]]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Scripted:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        (answer,) = convert_to_messages([self.script(convert_to_openai_messages(messages))])
        assert isinstance(answer, AIMessage)
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Post:
    """The agent, with a thread that is its session."""

    def __init__(self, store: Store, script: Courier, deliver: Callable[[str], str], policy: Any):
        saver = LinealSaver(store)
        self.middleware = LinealMiddleware(saver, policy=policy)
        self.graph = create_agent(Scripted(script=script), [deliver], middleware=[self.middleware], checkpointer=saver)
        self.config = {"configurable": {"thread_id": "post"}}

    @property
    def session(self) -> Session:
        return self.middleware.memory.session("post")

    def say(self, text: str, id: str) -> str:
        state = self.graph.get_state(self.config)
        if any(m.id == id for m in state.values.get("messages", ())):
            self.resume()  # it was said before; LangGraph knows whether it was answered
            return str(self.graph.get_state(self.config).values["messages"][-1].text)
        found = self.graph.invoke({"messages": [HumanMessage(text, id=id)]}, self.config, durability="sync")
        return str(found["messages"][-1].text)

    def resume(self) -> None:
        """`next` alone does not say it: a task that wrote before its checkpoint was kept is no longer next, and not done either."""
        state = self.graph.get_state(self.config)
        if state.next or state.tasks:
            self.graph.invoke(None, self.config, durability="sync")


class TestLangGraphAgent(AdapterTests):
    def agent(self, store: Store, courier: Courier, deliver: Callable[[str], str]) -> Post:
        return Post(store, courier, deliver, self.policy)
