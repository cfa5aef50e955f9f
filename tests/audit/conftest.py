"""Real stores of real frameworks: a LangGraph agent with LangChain's own summaries, and what a folder holds, byte by byte."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver


class Scripted(BaseChatModel):
    """A chat model that says what it was told to say, and keeps what it was shown."""

    answers: list[Any]
    shown: list[list[BaseMessage]] = []

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **more: Any) -> ChatResult:
        answer = self.answers[len(self.shown) % len(self.answers)]
        self.shown.append(list(messages))
        said = answer if isinstance(answer, AIMessage) else AIMessage(content=answer)
        return ChatResult(generations=[ChatGeneration(message=said.model_copy(deep=True))])


@tool
def send_mail(to: str, body: str) -> str:
    """Send a mail."""
    if to == "nobody":
        raise RuntimeError("the mail server is gone")
    return f"sent to {to}"


class Graphs:
    """LangGraph agents over one checkpointer, in one thread."""

    CONFIG: Any = {"configurable": {"thread_id": "t"}}

    def __init__(self, saver: Any):
        self.saver = saver

    @staticmethod
    def mail(*ids: str, to: str = "anna") -> AIMessage:
        """A model's answer that sends a mail for each call id."""
        return AIMessage(content="", tool_calls=[{"id": id, "name": "send_mail", "args": {"to": to, "body": "The report."}} for id in ids])

    @staticmethod
    def summaries(writer: Any = "They talked.", **more: Any) -> Any:
        """LangChain's middleware, with a summary or with the model that writes it."""
        model = writer if isinstance(writer, Scripted) else Scripted(answers=[writer])
        return SummarizationMiddleware(model, **{"trigger": ("messages", 5), "keep": ("messages", 2), **more})

    @staticmethod
    def writer(summary: str) -> Scripted:
        return Scripted(answers=[summary])

    def agent(self, answers: Sequence[Any], *middleware: Any) -> Any:
        return create_agent(Scripted(answers=list(answers)), [send_mail], middleware=list(middleware), checkpointer=self.saver)

    def run(self, answers: Sequence[Any], questions: Sequence[str], *middleware: Any) -> Any:
        agent = self.agent(answers, *middleware)
        for question in questions:
            agent.invoke({"messages": [HumanMessage(question)]}, self.CONFIG)
        return agent


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[Any]:
    (tmp_path / "store").mkdir()
    with SqliteSaver.from_conn_string(str(tmp_path / "store" / "graph.db")) as made:
        yield made


@pytest.fixture
def graphs(saver: Any) -> Graphs:
    """Agents on `store/graph.db`, which stays open: it has a -wal beside it."""
    return Graphs(saver)


@pytest.fixture
def graphs_over() -> Callable[[Any], Graphs]:
    return Graphs


@pytest.fixture(scope="session")
def long_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store of a hundred checkpoints and three compactions. Not to be changed: copy it."""
    path = tmp_path_factory.mktemp("long") / "graph.db"
    with SqliteSaver.from_conn_string(str(path)) as made:
        graphs = Graphs(made)
        words = "The harbour opens at nine and closes when the tide has turned. " * 12
        agent = graphs.agent([f"Answer {n}. {words}" for n in range(24)], graphs.summaries(trigger=("messages", 14), keep=("messages", 4)))
        for n in range(24):
            agent.invoke({"messages": [HumanMessage(f"Question {n} on ticket OPS-{100 + n}. {words}")]}, Graphs.CONFIG)
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store" / "graph.db"


@pytest.fixture
def bytes_in() -> Callable[[Path], dict[str, tuple[str, int]]]:
    """Every file of a folder: a digest of its bytes, and when it was written."""

    def digests(folder: Path) -> dict[str, tuple[str, int]]:
        return {
            str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }

    return digests
