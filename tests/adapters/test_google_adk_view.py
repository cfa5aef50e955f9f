"""What a model of Google ADK is really sent once `LinealViewPlugin` shows it the view, read at the other end of the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="the extra `google-adk` is not installed")
pytest.importorskip("openai", reason="ADK's client of the Responses protocol needs `openai`")

from google.adk.agents import Agent
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.integrations.openai import OpenAIResponsesLlm
from google.adk.runners import Runner
from google.adk.tools import FunctionTool
from google.genai.types import Content, FunctionCall, FunctionResponse, Part

import lineal
from lineal.adapters.google_adk import LinealSessionService
from lineal.adapters.google_adk_guard import LinealEffectPlugin
from lineal.adapters.google_adk_runs import say
from lineal.adapters.google_adk_view import LinealViewPlugin, contents
from lineal.messages import text_of
from lineal.session import Session
from lineal.testing.adapters import SMALL
from lineal.testing.model_server import ModelServer

Model = Callable[[list[dict[str, Any]]], dict[str, Any]]
LOOP = asyncio.Runner()  # one for all: clients of models keep their connections in the loop in which they were made


class Desk:
    """An app on a store in memory, its model behind a wire; `asked` holds what the model was sent."""

    def __init__(self, model: Model, **agent: Any):
        self.server = ModelServer(model)
        self.server.__enter__()
        self.service = LinealSessionService(lineal.connect("memory:"), policy=SMALL, summarizer=lambda request: "They spoke of parcels.")
        root = Agent(name="desk", model=self.llm(), **agent)
        plugins = [LinealEffectPlugin(self.service), LinealViewPlugin(self.service)]
        self.runner = Runner(app=App(name="desk", root_agent=root, plugins=plugins), session_service=self.service)

    def llm(self) -> OpenAIResponsesLlm:
        return OpenAIResponsesLlm(model="m", base_url=self.server.url, api_key="none")

    @property
    def session(self) -> Session:
        return self.service.lineal("desk", "ann", "s1")

    @property
    def asked(self) -> list[list[dict[str, Any]]]:
        return [body["input"] for body in self.server.asked]

    def say(self, message: str | Content, id: str = "u0") -> list[Event]:
        async def all() -> list[Event]:
            return [event async for event in say(self.runner, message, user_id="ann", session_id="s1", id=id)]

        return LOOP.run(all())


@pytest.fixture
def desk() -> Iterator[Callable[..., Desk]]:
    made: list[Desk] = []

    def one(model: Model, **agent: Any) -> Desk:
        made.append(Desk(model, **agent))
        return made[-1]

    yield one
    for each in made:
        each.server.__exit__(None, None, None)


def answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def call(name: str, id: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": id, "type": "function", "function": function}]}


def whole_pairs(asked: list[dict[str, Any]]) -> bool:
    calls = [item["call_id"] for item in asked if item.get("type") == "function_call"]
    return calls == [item["call_id"] for item in asked if item.get("type") == "function_call_output"]


def words(asked: list[dict[str, Any]]) -> str:
    return json.dumps(asked)


def test_what_the_model_is_sent_stays_within_the_ceiling(desk: Callable[..., Desk]) -> None:
    """R11, R25, R26, R53: results that are too large are put aside, and come back byte for byte."""

    def look(shelf: str) -> str:
        """Look what stands on a shelf."""
        return f"shelf {shelf}: " + "a parcel, " * 2_000

    def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        last = messages[-1]
        return (
            call("look", f"c{last['content'][-2:]}", shelf=text_of(last)[-2:]) if last["role"] == "user" else answer("There are parcels.")
        )

    one = desk(model, tools=[look])
    for n in range(10, 18):
        one.say(f"What stands on shelf {n}", id=f"u{n}")
    assert len(one.asked) == 16 and all(map(whole_pairs, one.asked))
    assert one.session.status().tokens <= SMALL.ceiling
    assert max(len(words(asked)) for asked in one.asked) < 3 * SMALL.ceiling + 2_000
    assert any("put aside byte-exact" in words(asked) for asked in one.asked)
    result = next(t for t in one.session.turns() if t.author == "tool")
    assert json.loads(text_of(one.session.expand(result.id)[0].message)) == {"result": look("10")}
    assert one.session.verify().clean


def test_instructions_that_adk_adds_stay_where_it_puts_them(desk: Callable[..., Desk]) -> None:
    """With a static instruction ADK sends the other one among the contents, before the newest words of the user."""
    one = desk(lambda messages: answer("Yes."), static_instruction="You are a desk.", instruction="Today is Friday.")
    for n in range(12):
        one.say(f"Is it day {n}? " + "And so on. " * 30, id=f"u{n}")
    assert one.session.status().generation > 0
    for n, asked in enumerate(one.asked):
        assert words(asked).count("Today is Friday.") == 1
        assert "Today is Friday." in words(asked[-2:-1]) and f"Is it day {n}?" in words(asked[-1:])
    assert "They spoke of parcels." in words(one.asked[-1]) and "Is it day 0?" not in words(one.asked[-1])


def test_files_reach_the_model_and_are_named_in_the_log(desk: Callable[..., Desk]) -> None:
    one = desk(lambda messages: answer("A cat."))
    one.say(Content(role="user", parts=[Part(text="What is this? "), Part(inline_data={"mime_type": "image/png", "data": b"\x89PNG"})]))
    one.say("Are you sure?", id="u1")
    assert [text_of(t.message) for t in one.session.turns()] == ["What is this? [image/png]", "A cat.", "Are you sure?", "A cat."]
    assert "data:image/png;base64,iVBORw==" in words(one.asked[1]) and "[image/png]" not in words(one.asked[1])


def test_an_agent_is_told_in_words_what_another_one_did(desk: Callable[..., Desk]) -> None:
    """R11: a model is sent calls of its own tools alone, each with its result."""

    def weigh(parcel: str) -> str:
        """Weigh a parcel."""
        return f"{parcel} weighs a pound"

    def told(messages: list[dict[str, Any]]) -> dict[str, Any]:
        system = text_of(messages[0])
        if "You are the front." in system:
            return call("transfer_to_agent", "t1", agent_name="scales")
        return answer("A pound.") if messages[-1]["role"] == "tool" else call("weigh", "w1", parcel="books")

    one = desk(told)
    scales = Agent(name="scales", model=one.llm(), tools=[weigh], instruction="You are the scales.")
    front = Agent(name="front", model=one.llm(), sub_agents=[scales], instruction="You are the front.")
    plugins = [LinealEffectPlugin(one.service, reads=["transfer_to_agent"]), LinealViewPlugin(one.service)]
    one.runner = Runner(app=App(name="desk", root_agent=front, plugins=plugins), session_service=one.service)
    one.say("What does it weigh?")
    by_front, first, second = one.asked
    assert "[front] called transfer_to_agent" in words(first) and "[front] was answered by transfer_to_agent" in words(first)
    assert [item["call_id"] for item in second if item.get("type") == "function_call"] == ["w1"] and whole_pairs(second)
    assert words(second).count("What does it weigh?") == 1 and "transfer" not in words(by_front)
    assert text_of(one.session.turns()[-1].message) == "A pound."


def test_a_tool_that_waits_for_a_confirmation_is_done_once_it_has_it(desk: Callable[..., Desk]) -> None:
    """R47: to ask first is no effect yet; the same call is made when the answer is there, once."""
    arrived: list[str] = []

    def deliver(parcel: str) -> str:
        """Deliver a parcel."""
        arrived.append(parcel)
        return f"{parcel} was handed over"

    def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        return call("deliver", "d1", parcel="books") if messages[-1]["role"] == "user" else answer("I see.")

    one = desk(model, tools=[FunctionTool(deliver, require_confirmation=True)])
    asking = next(c for event in one.say("deliver books.") for c in event.get_function_calls() if c.name == "adk_request_confirmation")
    assert not arrived and [(row.tool, row.state) for row in one.session.ledger()] == [("deliver", "no_effect")]
    given = FunctionResponse(id=asking.id, name=asking.name, response={"confirmed": True})

    async def confirm() -> None:
        message = Content(role="user", parts=[Part(function_response=given)])
        async for _ in one.runner.run_async(user_id="ann", session_id="s1", new_message=message):
            pass

    LOOP.run(confirm())
    assert arrived == ["books"] and [(row.tool, row.state) for row in one.session.ledger()] == [("deliver", "done")]
    assert whole_pairs(one.asked[-1]) and "adk_request_confirmation" not in words(one.asked[-1])
    assert one.asked[-1][-1]["output"] == "books was handed over", "not that it waits: that was the same call's earlier result"


def test_a_result_that_comes_after_more_was_said_is_told_at_the_end_too() -> None:
    """R11: it stands with its call, as the log shows it; nothing that was said since is dropped, and the news comes last."""

    async def act() -> None:
        service = LinealSessionService(lineal.connect("memory:"))
        session = await service.create_session(app_name="desk", user_id="ann", session_id="s1")
        calls = [Part(function_call=FunctionCall(id=id, name="ask_boss", args={"id": id})) for id in ("a", "b")]
        waits = [Part(function_response=FunctionResponse(id=id, name="ask_boss", response={"status": "asked"})) for id in ("a", "b")]
        came = Part(function_response=FunctionResponse(id="b", name="ask_boss", response={"result": "yes"}))
        for author, parts in [
            ("user", [Part(text="May I?")]),
            ("desk", calls),
            ("desk", waits),
            ("desk", [Part(text="We wait.")]),
            ("user", [came]),
        ]:
            await service.append_event(session, Event(author=author, invocation_id="i1", content=Content(role="user", parts=parts)))
        shown = contents(service.lineal("desk", "ann", "s1"), "desk")
        assert [content.role for content in shown] == ["user", "model", "user", "model", "user"]
        assert shown[1].parts == calls and shown[2].parts == [waits[0], came] and text(shown[3]) == "We wait."
        assert text(shown[4]) == '[lineal: the result of ask_boss has come]\n{"result": "yes"}'

    LOOP.run(act())


def text(content: Content) -> str:
    return "".join(part.text or "" for part in content.parts or ())
