"""A LangChain agent whose memory is a session: what it is shown, going back, other hands on the state, interrupts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

pytest.importorskip("langchain.agents", reason="the extra `langchain` is not installed")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

import lineal
from lineal.adapters.langchain import LinealMiddleware, summarizer_of
from lineal.adapters.langgraph import LinealSaver, StaleCheckpointError
from lineal.errors import CompactionLineageError, UnsafeRollbackError
from lineal.messages import text_of
from lineal.store import Store
from lineal.testing.adapters import Courier
from lineal.testing.model_server import ModelServer

POLICY = lineal.Policy(trigger=900, ceiling=1_600, target=300, floor_turns=4, summary_max_tokens=150)
LONG = "Mind the step at the gate, for it is higher than it looks. " * 8


class Model(BaseChatModel):
    """Says what the script says to the messages it is shown, and notes what it was shown."""

    script: Callable[[Sequence[BaseMessage]], AIMessage]
    seen: list[Any] = []

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Model:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self.seen.append(list(messages))
        return ChatResult(generations=[ChatGeneration(message=self.script(messages))])


def echo(messages: Sequence[BaseMessage]) -> AIMessage:
    last = messages[-1]
    if isinstance(last, HumanMessage) and last.text.startswith("call "):
        _, tool, word = last.text.split()
        return AIMessage("", tool_calls=[{"name": tool, "args": {"word": word}, "id": f"c-{len(messages)}"}])
    return AIMessage(f"heard: {last.text[:30]}", usage_metadata={"input_tokens": 50, "output_tokens": 5, "total_tokens": 55})


class Agent:
    def __init__(self, store: Store, tools: Sequence[Any] = (), checkpointer: Any = None, before: Sequence[Any] = (), **options: Any):
        self.model = Model(script=echo, seen=[])
        self.memory = LinealMiddleware(store, policy=POLICY, **options)
        saver = LinealSaver(store) if checkpointer is None else checkpointer or None
        self.graph = create_agent(self.model, [*tools], middleware=[*before, self.memory], checkpointer=saver)
        self.config: Any = {"configurable": {"thread_id": "t"}}
        self.session = store.session("t", POLICY)

    def say(self, text: str, id: str, config: Any = None) -> Any:
        return self.graph.invoke({"messages": [HumanMessage(text, id=id)]}, config or self.config)["messages"]

    def said(self) -> list[str]:
        return [t.id for t in self.session.turns() if t.author == "user"]


def people(messages: Sequence[BaseMessage]) -> list[str]:
    return [m.text for m in messages if m.type == "human" and not str(m.id).startswith("lineal:")]


@pytest.fixture
def store() -> Store:
    return lineal.connect("memory:")


# --- a real client ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["openai", "openai responses"])
def test_a_real_client_over_the_providers_protocol(store: Store, provider: str) -> None:
    """The view, with its summaries and pairs, is what a provider's API takes."""
    from langchain_openai import ChatOpenAI

    arrived: list[str] = []

    def deliver(parcel: str) -> str:
        """Deliver a parcel."""
        arrived.append(parcel)
        return f"{parcel} was handed over"

    with ModelServer(Courier()) as server:
        model = ChatOpenAI(model="m", base_url=server.url, api_key="none", use_responses_api=provider != "openai", max_retries=0)  # type: ignore[arg-type]
        memory = LinealMiddleware(store, policy=POLICY)
        graph = create_agent(model, [deliver], middleware=[memory], checkpointer=LinealSaver(store))
        for n in range(8):
            said = HumanMessage(f"deliver parcel {n}. {LONG}", id=f"u{n}")
            found = graph.invoke({"messages": [said]}, {"configurable": {"thread_id": "t"}})
        assert found["messages"][-1].text == "Done: parcel 7 was handed over"
    session = store.session("t", POLICY)
    assert arrived == [f"parcel {n}" for n in range(8)] and session.status().generation and session.verify().clean
    assert [row.state for row in session.ledger()] == ["done"] * 8


# --- what is shown ---------------------------------------------------------------------------------------------------


def test_the_state_shows_the_view_and_the_log_has_everything(store: Store) -> None:
    """R25: state and model stay small; every word is in the log."""
    agent = Agent(store)
    for n in range(14):
        messages = agent.say(f"{n}: {LONG}", f"u{n}")
    assert len(messages) < 14 and agent.session.status().generation > 0
    assert [m.id for m in messages if not m.id.startswith("lineal:")] == [t.id for t in agent.session.view().turns]
    assert agent.said() == [f"u{n}" for n in range(14)]
    assert max(map(len, agent.model.seen)) < 20 and any("[lineal summary" in m.text for m in agent.model.seen[-1])
    assert agent.session.verify().clean


def test_a_turn_keeps_all_that_only_langchain_knows(store: Store) -> None:
    agent = Agent(store)
    first = HumanMessage("hello", id="u0", name="ann", additional_kwargs={"mood": "calm"})
    agent.graph.invoke({"messages": [first]}, agent.config)
    agent.say("more", "u1")
    assert agent.graph.get_state(agent.config).values["messages"][0] == first


def test_async_agents(store: Store) -> None:
    agent = Agent(store)

    async def talk() -> Any:
        for n in range(3):
            found = await agent.graph.ainvoke({"messages": [HumanMessage(f"say {n}", id=f"u{n}")]}, agent.config)
        return found["messages"]

    assert asyncio.run(talk())[-1].text == "heard: say 2" and agent.said() == ["u0", "u1", "u2"]


def test_an_agent_without_a_checkpointer_remembers(store: Store) -> None:
    """The session is the memory: what it has is shown, although the run was handed one message."""
    agent = Agent(store, checkpointer=False)
    agent.say("the key lies under the pot", "u0")
    agent.say("where is it?", "u1")
    assert [m.text for m in agent.model.seen[-1]][0] == "the key lies under the pot"
    assert agent.said() == ["u0", "u1"]


def test_recall_reads_back_what_left_the_view(store: Store) -> None:
    """R53."""
    agent = Agent(store)
    for n in range(14):
        agent.say(f"{n}: the code of day {n} is {n * 7919}. {LONG}", f"u{n}")
    tools = {tool.name: tool for tool in agent.memory.tools}
    session = LinealMiddleware(agent.session).tools
    assert {tool.name for tool in session} == {*tools} == {"recall_search", "recall_expand"}
    search, expand = ({tool.name: tool for tool in session}[name] for name in ("recall_search", "recall_expand"))
    assert "u3" in search.invoke({"query": "code of day 3 is 23757"})
    assert "23757" in expand.invoke({"handle": "t:u3"}) and "nothing" in search.invoke({"query": "zebra xylophone"})
    assert "no such" in expand.invoke({"handle": "g99"}) or "g99" in expand.invoke({"handle": "g99"})


# --- going back ------------------------------------------------------------------------------------------------------


def test_where_the_graph_goes_back_the_session_goes_back(store: Store) -> None:
    """L6: the turns that were left stay in the log; the view is that of the new branch."""
    agent = Agent(store)
    agent.say("one", "u0")
    there = agent.graph.get_state(agent.config).config
    agent.say("two", "u1")
    messages = agent.say("other", "u2", there)
    assert people(messages) == ["one", "other"] and agent.said() == ["u0", "u2"]
    assert any(row.kind == "rolled_back" for row, _ in agent.session.log.entries())
    assert people(agent.say("and on", "u3")) == ["one", "other", "and on"]


def test_an_edited_message_is_said_anew_on_a_new_branch(store: Store) -> None:
    agent = Agent(store)
    agent.say("one", "u0")
    agent.say("two", "u1")
    agent.graph.update_state(agent.config, {"messages": [HumanMessage("TWO", id="u1")]})
    agent.say("three", "u2")
    assert [text_of(t.message) for t in agent.session.turns() if t.author == "user"] == ["one", "TWO", "three"]


def test_going_back_over_an_effect_is_refused(store: Store) -> None:
    """Record 003."""
    sent: list[str] = []

    def send(word: str) -> str:
        """Send a word."""
        sent.append(word)
        return f"{word} was sent"

    agent = Agent(store, [send])
    agent.say("one", "u0")
    there = agent.graph.get_state(agent.config).config
    agent.say("call send hello", "u1")
    with pytest.raises(UnsafeRollbackError, match="nothing would keep 1 effects"):
        agent.say("other", "u2", there)
    assert sent == ["hello"] and agent.said() == ["u0", "u1"]


@pytest.mark.parametrize("saver", [None, InMemorySaver()], ids=["lineal", "another checkpointer"])
def test_going_back_over_a_compaction_is_refused(store: Store, saver: Any) -> None:
    """Record 000: the saver refuses the checkpoint; with another saver the middleware refuses the state."""
    agent = Agent(store, checkpointer=saver)
    agent.say(f"0: {LONG}", "u0")
    there = agent.graph.get_state(agent.config).config
    for n in range(1, 14):
        agent.say(f"{n}: {LONG}", f"u{n}")
    before = agent.session.status().head
    with pytest.raises(StaleCheckpointError if saver is None else CompactionLineageError):
        agent.say("other", "other", there)
    assert agent.said() == [f"u{n}" for n in range(14)] and agent.session.status().generation
    assert not any(row.kind == "rolled_back" for row, _ in agent.session.log.entries(before))


# --- other hands on the state ----------------------------------------------------------------------------------------


class Dropping(AgentMiddleware[Any, Any, Any]):
    """Another middleware, which removes one message."""

    def __init__(self, id: str):
        super().__init__()
        self.id = id

    def before_model(self, state: Any, runtime: Any) -> Any:
        ids = [m.id for m in state["messages"]]
        return {"messages": [RemoveMessage(self.id)]} if self.id in ids and ids[-1] != self.id else None


def test_what_another_middleware_dropped_is_noted(store: Store) -> None:
    """The floor rule knows (002): it is in the log, and in no view."""
    agent = Agent(store, before=[Dropping("u1")])
    for n in range(3):
        agent.say(f"say {n}", f"u{n}")
    assert agent.said() == ["u0", "u1", "u2"]
    assert "u1" not in [t.id for t in agent.session.view().turns]
    assert any(row.kind == "evicted" for row, _ in agent.session.log.entries())


def test_what_another_middleware_put_in_between_is_said(store: Store) -> None:
    agent = Agent(store)
    agent.say("one", "u0")
    agent.say("two", "u1")
    state = agent.graph.get_state(agent.config).values["messages"]
    everything = [RemoveMessage("__remove_all__"), state[0], HumanMessage("by the way", id="between"), *state[1:]]
    agent.graph.update_state(agent.config, {"messages": everything})
    agent.say("three", "u2")
    assert "between" in agent.said()


# --- effects ---------------------------------------------------------------------------------------------------------


def ask(word: str) -> str:
    """Ask a person before it is sent."""
    return f"{word}: {interrupt('may I?')}"


def test_an_interrupted_tool_is_called_when_the_run_goes_on(store: Store) -> None:
    """R47: waiting for a person is no effect."""
    agent = Agent(store, [ask])
    assert agent.graph.invoke({"messages": [HumanMessage("call ask hello", id="u0")]}, agent.config)["__interrupt__"]
    assert [row.state for row in agent.session.ledger()] == ["no_effect"]
    found = agent.graph.invoke(Command(resume="yes"), agent.config)
    assert [m.text for m in found["messages"] if isinstance(m, ToolMessage)] == ["hello: yes"]
    assert [row.state for row in agent.session.ledger()] == ["done"]


def test_a_tool_with_a_key_is_done_once_whoever_asks(store: Store) -> None:
    """R48: another call, equal key: the recorded outcome, in words."""
    sent: list[str] = []

    def pay(word: str) -> str:
        """Pay an invoice."""
        sent.append(word)
        return f"paid {word}"

    agent = Agent(store, [pay], keys={"pay": lambda args: f"invoice {args['word']}"})
    agent.say("call pay 17", "u0")
    again = agent.say("call pay 17", "u1")
    assert sent == ["17"]
    assert "not done again" in again[-2].text and "as done: it is not sent again" in again[-2].text and "paid 17" in again[-2].text


def test_a_tool_that_fails_is_unknown_and_its_error_is_the_callers(store: Store) -> None:
    """R47: an exception says nothing about what was sent."""

    def send(word: str) -> str:
        """Send a word."""
        raise TimeoutError("no answer")

    agent = Agent(store, [send])
    with pytest.raises(TimeoutError):
        agent.say("call send hello", "u0")
    assert [row.state for row in agent.session.ledger()] == ["unknown"]
    messages = agent.graph.invoke(None, agent.config)["messages"]
    assert "not done" in messages[-2].text and [row.state for row in agent.session.ledger()] == ["unknown"]


def test_tools_that_only_read_stand_in_no_ledger(store: Store) -> None:
    def look(word: str) -> str:
        """Look up a word."""
        return word.upper()

    agent = Agent(store, [look], reads=["look"])
    assert agent.say("call look tea", "u0")[-2].text == "TEA" and agent.session.ledger() == []


# --- summarizers and settings ----------------------------------------------------------------------------------------


def test_a_chat_model_is_a_summarizer(store: Store) -> None:
    """R15: one that was cut off is told by its stop reason."""
    model = Model(script=lambda messages: AIMessage("They spoke of a step.", response_metadata={"finish_reason": "length"}))
    session = store.session("t", POLICY, summarizer_of(model))
    session.append([{"role": "user", "content": f"{n}: {LONG}"} for n in range(14)])
    outcome = session.compact()
    assert isinstance(outcome, lineal.Refused) and "length" in str(outcome)
    assert summarizer_of(str.upper) is str.upper and summarizer_of(None) is None


def test_a_run_without_a_thread_is_refused(store: Store) -> None:
    agent = Agent(store, checkpointer=False)
    with pytest.raises(lineal.PolicyError, match="no thread"):
        agent.graph.invoke({"messages": [HumanMessage("hello")]})
