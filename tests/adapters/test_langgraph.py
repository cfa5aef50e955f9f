"""LangGraph on lineal: its own conformance suite, and what only lineal says no to."""

from __future__ import annotations

import asyncio
import base64
import operator
import re
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

pytest.importorskip("langgraph.checkpoint.conformance", reason="the extra `langgraph` is not installed")

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import id as base
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

import lineal
from lineal.adapters.langgraph import LinealSaver, StaleCheckpointError
from lineal.store import Store

POLICY = lineal.Policy(trigger=900, ceiling=1_600, target=300, floor_turns=4, summary_max_tokens=150)


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    count: Annotated[int, operator.add]


def chat(saver: LinealSaver) -> Any:
    """A graph that answers, and counts."""

    def answer(state: Chat) -> dict[str, Any]:
        return {"messages": [AIMessage(f"You said: {state['messages'][-1].text}")], "count": 1}

    builder = StateGraph(Chat)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=saver)


def thread(name: str = "t", **more: str) -> Any:
    return {"configurable": {"thread_id": name, **more}}


def compacted(store: Store, name: str = "t") -> None:
    """The session of this thread says something and compacts, as a middleware would have it do."""
    session = store.session(name, POLICY, lambda request: "They talked about the weather and agreed on a walk.")
    session.append([{"role": "assistant" if n % 2 else "user", "content": f"turn {n} " + "word " * 30} for n in range(16)])
    assert isinstance(session.compact(), lineal.Compacted)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return lineal.connect("memory:" if request.param == "memory" else tmp_path / "agent.db")


# --- somebody else's suite -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_the_conformance_suite_of_langgraph_passes_with_every_capability(kind: str, tmp_path: Path) -> None:
    """Base, and copy, prune, delete_for_runs."""

    @checkpointer_test(name=f"lineal on {kind}")
    async def made() -> AsyncIterator[LinealSaver]:
        with LinealSaver("memory:" if kind == "memory" else tmp_path / "conformance.db") as saver:
            yield saver

    report = asyncio.run(validate(made))
    assert report.passed_all_base() and report.passed_all(), report.to_dict()
    missing = [name for name, result in report.results.items() if not result.tests_passed]
    assert not missing, f"not detected: {missing}"


# --- a real graph ----------------------------------------------------------------------------------------------------


def test_a_thread_is_remembered_by_another_process(tmp_path: Path) -> None:
    """R45."""
    with LinealSaver(tmp_path / "agent.db") as saver:
        chat(saver).invoke({"messages": [HumanMessage("hello", id="u1")], "count": 0}, thread())
    with LinealSaver(tmp_path / "agent.db") as saver:
        found = chat(saver).invoke({"messages": [HumanMessage("again", id="u2")], "count": 0}, thread())
        assert [m.text for m in found["messages"]] == ["hello", "You said: hello", "again", "You said: again"] and found["count"] == 2
        assert saver.store.verify().clean


def test_async_graphs_and_parallel_threads(store: Store) -> None:
    """R38: one session a thread; they do not wait for each other's logs."""

    async def talk() -> list[Any]:
        graph = chat(LinealSaver(store))
        asked = [{"messages": [HumanMessage(f"hello {n}")], "count": 0} for n in range(6)]
        return await asyncio.gather(*(graph.ainvoke(a, thread(f"t{n}")) for n, a in enumerate(asked)))

    assert [found["messages"][-1].text for found in asyncio.run(talk())] == [f"You said: hello {n}" for n in range(6)]
    assert store.verify().clean


def test_an_interrupt_is_resumed(store: Store) -> None:
    saver = LinealSaver(store)
    builder = StateGraph(Chat)
    builder.add_node("ask", lambda state: {"messages": [AIMessage(f"heard {interrupt('who?')}")], "count": 1})
    builder.add_edge(START, "ask")
    graph = builder.compile(checkpointer=saver)
    assert graph.invoke({"messages": [], "count": 0}, thread())["__interrupt__"][0].value == "who?"
    assert graph.invoke(Command(resume="ann"), thread())["messages"][-1].text == "heard ann"


def test_values_that_did_not_change_are_written_once(store: Store) -> None:
    """A long constant in the state costs its size once, not once a step."""
    saver = LinealSaver(store)
    graph = chat(saver)
    long = "x" * 50_000
    graph.invoke({"messages": [HumanMessage(long, id="u1")], "count": 0}, thread())
    config = graph.get_state(thread()).config
    for _ in range(5):
        config = graph.update_state(config, {"count": 1})
    size = sum(row.size for row in store.session("t").engine.scan("t"))
    assert graph.get_state(thread()).values["count"] == 6 and size < 12 * len(long)


# --- the gate --------------------------------------------------------------------------------------------------------


def test_a_checkpoint_from_before_a_lossy_compaction_is_refused_by_name(store: Store) -> None:
    """Record 000."""
    graph = chat(LinealSaver(store))
    graph.invoke({"messages": [HumanMessage("hello", id="u1")], "count": 0}, thread())
    old = graph.get_state(thread()).config
    compacted(store)
    assert graph.get_state(old).values["count"] == 1, "it is the newest still: it goes nowhere back"
    graph.invoke({"messages": [HumanMessage("again", id="u2")], "count": 0}, thread())
    with pytest.raises(StaleCheckpointError, match="compaction committed at seq") as refused:
        graph.invoke(None, old)
    assert "name no checkpoint" in str(refused.value) and refused.value.verdict.reason == "not_newer"
    assert len([*graph.get_state_history(thread())]) > 3, "it is listed all the same"
    assert graph.get_state(thread()).values["count"] == 2


def test_one_that_is_newer_may_be_gone_back_to(store: Store) -> None:
    """A fork of the graph: what came after the compaction is not overtaken by it."""
    graph = chat(LinealSaver(store))
    compacted(store)
    graph.invoke({"messages": [HumanMessage("one", id="u1")], "count": 0}, thread())
    old = graph.get_state(thread()).config
    graph.invoke({"messages": [HumanMessage("two", id="u2")], "count": 0}, thread())
    found = graph.invoke({"messages": [HumanMessage("other", id="u3")], "count": 0}, old)
    assert [m.text for m in found["messages"]][-2:] == ["other", "You said: other"] and found["count"] == 2


def test_two_runs_that_go_on_from_one_checkpoint_are_told_of_each_other(store: Store) -> None:
    """R31: neither loses what the other said without a word. Asked for by its id it is a fork, as ever."""
    savers = [LinealSaver(store), LinealSaver(store)]
    chat(savers[0]).invoke({"messages": [HumanMessage("hello", id="u1")], "count": 0}, thread())
    (first, second) = (saver.get_tuple(thread()) for saver in savers)
    assert first and second
    for saver, tuple in zip(savers, (first, second), strict=True):
        going_on = {**tuple.checkpoint, "id": str(base.uuid6())}
        act = partial(saver.put, tuple.config, going_on, {"source": "loop", "step": 9, "parents": {}}, {})
        if saver is savers[0]:
            act()
            continue
        with pytest.raises(lineal.Conflict, match="another run went on"):
            act()
        saver.get_tuple(tuple.config)
        act()


# --- letting go ------------------------------------------------------------------------------------------------------


def test_what_is_let_go_is_pruned_and_the_newest_goes_on(store: Store) -> None:
    """R46: nothing that the newest one is put together from goes."""
    saver = LinealSaver(store)
    graph = chat(saver)
    for n in range(4):
        graph.invoke({"messages": [HumanMessage(f"say {n}", id=f"u{n}")], "count": 0}, thread())
    before = graph.get_state(thread()).values
    saver.prune(["t", "no such thread"])
    assert len([*saver.list(thread())]) == 1
    session = store.session("t")
    assert session.prune().entries > 10 and session.verify().clean
    assert graph.get_state(thread()).values == before
    graph.invoke({"messages": [HumanMessage("more", id="u9")], "count": 0}, thread())
    assert graph.get_state(thread()).values["count"] == 5


@pytest.mark.parametrize("every", [2, 100])
def test_channels_that_are_kept_as_changes_survive_letting_go(store: Store, every: int) -> None:
    """A delta channel is put together from the writes of older checkpoints: these go, what was written is kept."""

    def joined(state: list[str], writes: Sequence[list[str]]) -> list[str]:
        return [*state, *(line for lines in writes for line in lines)]

    lines_of: Any = Annotated[list[str], DeltaChannel(joined, snapshot_frequency=every)]
    saver = LinealSaver(store)
    builder = StateGraph(TypedDict("Log", {"lines": lines_of}))
    builder.add_node("add", lambda state: {"lines": [f"line {len(state['lines'])}"]})
    builder.add_edge(START, "add")
    graph = builder.compile(checkpointer=saver)
    for n in range(4):
        graph.invoke({"lines": [f"asked {n}"]}, thread())
    lines = graph.get_state(thread()).values["lines"]
    assert len(lines) == 8
    for _ in range(2):
        saver.prune(["t"])
        store.session("t").prune()
        assert graph.get_state(thread()).values["lines"] == lines and len([*saver.list(thread())]) == 1
    assert graph.invoke({"lines": ["asked 4"]}, thread())["lines"] == [*lines, "asked 4", "line 9"]
    assert graph.get_state(thread()).values["lines"][-1] == "line 9" and store.verify().clean


def test_a_purged_turn_is_in_no_checkpoint(store: Store) -> None:
    """R54: also in the writes of tasks."""
    saver = LinealSaver(store)
    graph = chat(saver)
    graph.update_state(thread(), {"messages": [HumanMessage("the word is hunter2", id="secret")], "count": 1})
    graph.update_state(thread(), {"count": 1})
    session = store.session("t")
    session.append({"role": "user", "content": "the word is hunter2"}, id="secret")
    assert "hunter2" in str([*saver.list(thread())])
    session.purge(["secret"])
    assert "hunter2" not in str([*saver.list(thread())]) and session.verify().clean
    kept = b"".join(row.body for row in session.engine.scan("t"))
    parts = [base64.b64decode(part) for part in re.findall(rb'"msgpack","([^"]+)"', kept)]
    assert parts and not any(b"hunter2" in part for part in [kept, *parts])
    assert graph.get_state(thread()).values == {"messages": [], "count": 2}


def test_a_copy_of_a_thread_is_a_thread_of_its_own(store: Store) -> None:
    saver = LinealSaver(store)
    graph = chat(saver)
    graph.invoke({"messages": [HumanMessage("hello", id="u1")], "count": 0}, thread())
    saver.copy_thread("t", "copy")
    graph.invoke({"messages": [HumanMessage("only here", id="u2")], "count": 0}, thread("copy"))
    saver.delete_thread("t")
    assert graph.get_state(thread()).values == {} and graph.get_state(thread("copy")).values["count"] == 2
    assert [*store.sessions()] == ["copy"]


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda saver: saver.get_tuple({"configurable": {}}), "names no thread"),
        (lambda saver: saver.prune(["t"], strategy="all"), "is no strategy"),
    ],
)
def test_bad_input_is_named(store: Store, act: Callable[[LinealSaver], Any], words: str) -> None:
    with pytest.raises(lineal.PolicyError, match=words):
        act(LinealSaver(store))
