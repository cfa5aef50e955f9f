"""Google ADK on lineal: the contract of its session services, a real runner, its compaction, and a process that is killed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="the extra `google-adk` is not installed")
pytest.importorskip("openai", reason="ADK's client of the Responses protocol needs `openai`")

from google.adk.agents import Agent, SequentialAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.integrations.openai import OpenAIResponsesLlm
from google.adk.runners import Runner
from google.adk.sessions import Session as AdkSession
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai.types import Content, FunctionCall, Part

import lineal
from lineal.adapters.google_adk import LinealSessionService
from lineal.adapters.google_adk_guard import LinealEffectPlugin, LinealSummarizer
from lineal.adapters.google_adk_runs import resume, say
from lineal.adapters.google_adk_view import LinealViewPlugin
from lineal.errors import Conflict, PolicyError, UnsafeRollbackError
from lineal.messages import text_of
from lineal.session import Session
from lineal.store import Store
from lineal.testing.adapters import SMALL, AdapterTests, Courier
from lineal.testing.model_server import ModelServer

WHO = {"app_name": "post", "user_id": "ann", "session_id": "s1"}
BRIEF = "They spoke of parcels, and each was handed over."


LOOP = asyncio.Runner()  # one for all: clients of models keep their connections in the loop in which they were made


def run(act: Coroutine[Any, Any, Any]) -> Any:
    return LOOP.run(act)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return lineal.connect("memory:" if request.param == "memory" else tmp_path / "agent.db")


def said(text: str, author: str = "user", invocation: str = "i1", **delta: Any) -> Event:
    content = Content(role="user" if author == "user" else "model", parts=[Part(text=text)])
    return Event(author=author, content=content, invocation_id=invocation, actions=EventActions(state_delta=delta))


# --- the contract of session services --------------------------------------------------------------------------------


def test_events_come_back_equal_and_in_order(store: Store) -> None:
    """R1, R3, R7."""

    async def act() -> None:
        service = LinealSessionService(store)
        session = await service.create_session(**WHO, state={"k": 1})
        events = [said("é\0\U0001f600"), said("hello", "post", n=2)]
        events.append(
            Event(author="post", content=Content(role="model", parts=[Part(inline_data={"mime_type": "image/png", "data": b"\x00\xff"})]))
        )
        for event in events:
            await service.append_event(session, event)
        again = await LinealSessionService(store).get_session(**WHO)
        assert again is not None and again.events == events == session.events
        assert again.state == session.state == {"k": 1, "n": 2}
        turns = service.lineal(**WHO).turns()
        assert [t.id for t in turns] == ["i1", *[e.id for e in events[1:]]], "the message that begins an invocation has its id"
        assert text_of(turns[-1].message) == "[image/png]"
        latest = await service.get_session(**WHO, config=GetSessionConfig(num_recent_events=1))
        assert latest is not None and latest.events == events[-1:] and latest.state == again.state
        none = await service.get_session(**WHO, config=GetSessionConfig(num_recent_events=0))
        assert none is not None and none.events == []
        after = await service.get_session(**WHO, config=GetSessionConfig(after_timestamp=events[1].timestamp))
        assert after is not None and after.events == events[1:]
        assert await service.get_session(app_name="post", user_id="ann", session_id="nobody") is None

    run(act())


def test_state_has_its_scopes_and_temporary_state_is_never_written(store: Store) -> None:
    async def act() -> None:
        service = LinealSessionService(store)
        first = await service.create_session(**WHO, state={"app:a": 1, "user:u": 2, "s": 3, "temp:t": 4})
        other = await service.create_session(app_name="post", user_id="bob", session_id="s2")
        assert other.state == {"app:a": 1}
        await service.append_event(first, said("x", **{"app:a": 10, "user:u": 20, "s": 30, "temp:t": 40}))
        assert first.state["temp:t"] == 40
        again = await service.get_session(**WHO)
        assert again is not None and again.state == {"app:a": 10, "user:u": 20, "s": 30}
        assert await service.get_user_state(app_name="post", user_id="ann") == {"u": 20}
        assert not any(b"temp:t" in row.body for name in store.sessions() for row in store.engine.scan(name))

    run(act())


def test_sessions_are_listed_as_they_were_used_and_deleted_for_good(store: Store) -> None:
    async def act() -> None:
        service = LinealSessionService(store)
        made = [await service.create_session(app_name="a/b", user_id="u:1", session_id=f"s {n}") for n in range(3)]
        await service.create_session(app_name="a", user_id="b/u:1", session_id="s")
        await service.append_event(made[0], said("now"))
        listed = await service.list_sessions(app_name="a/b", user_id="u:1")
        assert [s.id for s in listed.sessions] == ["s 1", "s 2", "s 0"] and not any(s.events for s in listed.sessions)
        await service.delete_session(app_name="a/b", user_id="u:1", session_id="s 0")
        await service.delete_session(app_name="a/b", user_id="u:1", session_id="never was")
        assert len((await service.list_sessions(app_name="a/b")).sessions) == 2
        with pytest.raises(AlreadyExistsError):
            await service.create_session(app_name="a/b", user_id="u:1", session_id="s 1")

    run(act())


def test_a_writer_that_read_an_older_session_is_told_so(store: Store) -> None:
    """R31: by the log's sequence; no clock is asked."""

    async def act() -> None:
        one, two = LinealSessionService(store), LinealSessionService(store)
        await one.create_session(**WHO)
        (first, second) = (await one.get_session(**WHO), await two.get_session(**WHO))
        assert first and second
        await one.append_event(first, said("one"))
        with pytest.raises(StaleSessionError, match="get it again"):
            await two.append_event(second, said("two"))
        fresh = await two.get_session(**WHO)
        assert fresh
        await two.append_event(fresh, said("two"))
        assert [t.message["content"] for t in one.lineal(**WHO).turns()] == ["one", "two"]

    run(act())


def test_blanks_around_an_id_are_not_part_of_it(store: Store) -> None:
    async def act() -> None:
        service = LinealSessionService(store)
        made = await service.create_session(app_name="post", user_id="ann", session_id=" s1 ")
        assert made.id == "s1"
        again = await service.get_session(app_name="post", user_id="ann", session_id="s1\t")
        assert again is not None and again.id == "s1"
        with pytest.raises(AlreadyExistsError):
            await service.create_session(app_name="post", user_id="ann", session_id="  s1")
        await service.delete_session(app_name="post", user_id="ann", session_id=" s1")
        assert await service.get_session(**WHO) is None

    run(act())


def test_an_event_does_not_bring_back_a_session_that_was_deleted(store: Store) -> None:
    """R54."""

    async def act() -> None:
        service = LinealSessionService(store)
        session = await service.create_session(**WHO)
        await service.append_event(session, said("one", **{"user:k": 1}))
        await service.delete_session(**WHO)
        with pytest.raises(SessionNotFoundError):
            await service.append_event(session, said("two", **{"user:k": 2}))
        never = AdkSession(app_name="post", user_id="ann", id="never was")
        with pytest.raises(SessionNotFoundError):
            await service.append_event(never, said("one"))
        assert (await service.list_sessions(app_name="post")).sessions == []
        assert await service.get_user_state(app_name="post", user_id="ann") == {"k": 1}

    run(act())


def test_a_message_whose_id_stands_for_another_one_is_refused(store: Store) -> None:
    """R2: also where the log was written by something else than ADK."""

    async def act() -> None:
        service = LinealSessionService(store)
        session = await service.create_session(**WHO)
        service.lineal(**WHO).append({"role": "user", "content": "another"}, id="i1")
        with pytest.raises(Conflict, match="stands for another message"):
            await service.append_event(session, said("one"))

    run(act())


def test_partial_events_are_not_kept(store: Store) -> None:
    async def act() -> None:
        service = LinealSessionService(store)
        session = await service.create_session(**WHO)
        event = said("half")
        event.partial = True
        await service.append_event(session, event)
        again = await service.get_session(**WHO)
        assert again is not None and again.events == []

    run(act())


Serve = Callable[[Callable[[list[dict[str, Any]]], dict[str, Any]]], str]


@pytest.fixture
def served() -> Iterator[Serve]:
    """Puts a model behind the wire; returns its address."""
    with ExitStack() as stack:
        yield lambda model: stack.enter_context(ModelServer(model)).url


# --- a real runner -----------------------------------------------------------------------------------------------------


class Post:
    """A resumable app with one agent, its memory in a store, its model behind a wire."""

    def __init__(self, store: Store, url: str, deliver: Callable[[str], str], policy: Any):
        self.service = LinealSessionService(store, policy=policy, summarizer=lambda request: BRIEF)
        model = OpenAIResponsesLlm(model="courier", base_url=url, api_key="none")
        agent = Agent(name="post", model=model, tools=[deliver])
        plugins = [LinealEffectPlugin(self.service), LinealViewPlugin(self.service)]
        app = App(name="post", root_agent=agent, plugins=plugins, resumability_config=ResumabilityConfig(is_resumable=True))
        self.runner = Runner(app=app, session_service=self.service)

    @property
    def session(self) -> Session:
        return self.service.lineal(**WHO)

    def say(self, text: str, id: str = "u0") -> str:
        return heard(say(self.runner, text, user_id="ann", session_id="s1", id=id))

    def resume(self) -> None:
        heard(resume(self.runner, user_id="ann", session_id="s1"))


def heard(events: AsyncGenerator[Event, None]) -> str:
    """The last words of a run."""

    async def all() -> str:
        found = [part.text async for event in events if event.content for part in event.content.parts or () if part.text]
        return found[-1] if found else ""

    return str(run(all()))


class TestGoogleAdkAgent(AdapterTests):
    @pytest.fixture(autouse=True)
    def server(self) -> Iterator[None]:
        with ModelServer(lambda messages: self.model(messages)) as server:
            self.url = server.url
            yield

    def agent(self, store: Store, courier: Courier, deliver: Callable[[str], str]) -> Post:
        self.model = courier
        return Post(store, self.url, deliver, self.policy)


def test_a_run_of_a_real_runner_stands_in_the_log(store: Store, served: Serve) -> None:
    """R1, R47: what is said in order, each call with its result, and the ledger."""
    arrived: list[str] = []

    def deliver(parcel: str) -> str:
        """Deliver a parcel."""
        arrived.append(parcel)
        return f"{parcel} was handed over"

    post = Post(store, served(Courier()), deliver, SMALL)
    assert "books was handed over" in post.say("deliver books.")
    assert [t.author for t in post.session.turns()] == ["user", "assistant", "tool", "assistant"]
    assert arrived == ["books"] and [(row.tool, row.state) for row in post.session.ledger()] == [("deliver", "done")]
    assert post.session.verify().clean and not post.session.status().open_calls


def test_a_tool_that_raises_is_unknown(store: Store, served: Serve) -> None:
    """R47."""

    def deliver(parcel: str) -> str:
        """Deliver a parcel."""
        raise TimeoutError("no answer")

    post = Post(store, served(Courier()), deliver, SMALL)
    with pytest.raises(TimeoutError):
        post.say("deliver books.")
    assert [row.state for row in post.session.ledger()] == ["unknown"]


# --- runs that are said again ------------------------------------------------------------------------------------------


def put(post: Post, *events: Event) -> None:
    """What an earlier process left of a session."""

    async def act() -> None:
        session = await post.service.create_session(**WHO)
        for event in events:
            await post.service.append_event(session, event)

    run(act())


def by_model(*parts: Part, **more: Any) -> Event:
    return Event(author="post", invocation_id="u0", content=Content(role="model", parts=list(parts)) if parts else None, **more)


def calling() -> Event:
    return by_model(Part(function_call=FunctionCall(id="c1", name="deliver", args={"parcel": "books"})))


def hand_over(parcel: str) -> str:
    """Deliver a parcel."""
    return f"{parcel} was handed over"


hand_over.__name__ = "deliver"


def test_another_message_under_a_taken_id_is_refused(store: Store, served: Serve) -> None:
    """R2."""
    post = Post(store, served(Courier()), hand_over, SMALL)
    post.say("Good morning.")
    with pytest.raises(Conflict, match="stands for another message"):
        post.say("Good evening.")
    assert len(post.session.turns()) == 2


def test_an_answer_that_was_an_error_is_asked_for_again(store: Store, served: Serve) -> None:
    post = Post(store, served(Courier()), hand_over, SMALL)
    put(post, said("Good morning.", invocation="u0"), by_model(error_code="503", error_message="busy"))
    assert post.say("Good morning.") == post.say("Good morning.") == "Done: Good morning."
    assert [t.author for t in post.session.turns()] == ["user", "assistant"]


def test_an_app_that_is_not_resumable_does_not_go_on_in_a_call(store: Store, served: Serve) -> None:
    """R47: ADK would ask the model anew, and a call nobody settled would be made by another name."""
    post = Post(store, served(Courier()), hand_over, SMALL)
    put(post, said("deliver books.", invocation="u0"), calling())
    post.runner.resumability_config = None
    with pytest.raises(PolicyError, match="not resumable"):
        post.resume()
    assert not post.session.ledger()
    post.runner.resumability_config = ResumabilityConfig(is_resumable=True)
    post.resume()
    assert [(row.tool, row.state) for row in post.session.ledger()] == [("deliver", "done")]
    assert [t.author for t in post.session.turns()] == ["user", "assistant", "tool", "assistant"]


def test_what_was_rewound_is_not_gone_on_with(store: Store, served: Serve) -> None:
    """A rewind ends the invocation, and its id: ADK would meet the calls of then in it."""
    post = Post(store, served(Courier()), hand_over, SMALL)
    back = Event(author="user", invocation_id="back", actions=EventActions(rewind_before_invocation_id="u0"))
    put(post, said("Good day.", "post", "first"), said("deliver books.", invocation="u0"), calling(), back)
    post.resume()
    assert [t.id for t in post.session.turns()] == [post.session.turns()[0].id] and not post.session.ledger()
    with pytest.raises(Conflict, match="was rewound"):
        post.say("deliver books.")
    assert post.say("Good evening.", "u1") == "Done: Good evening."
    assert [text_of(t.message) for t in post.session.turns()] == ["Good day.", "Good evening.", "Done: Good evening."]


def test_invocations_that_adk_names_itself_cannot_be_said_again(store: Store) -> None:
    runner = Runner(
        app=App(name="post", root_agent=SequentialAgent(name="row", sub_agents=[])), session_service=LinealSessionService(store)
    )
    with pytest.raises(PolicyError, match="whose invocations ADK names itself"):
        heard(say(runner, "Good morning.", user_id="ann", session_id="s1", id="u0"))


# --- compaction and rewind ---------------------------------------------------------------------------------------------


def test_a_compaction_is_committed_before_adk_hears_of_it(store: Store) -> None:
    """Record 002: ADK's event stands for what the rule let lineal cover, and for nothing more."""

    async def act() -> None:
        service = LinealSessionService(store, policy=SMALL, summarizer=lambda request: BRIEF)
        session = await service.create_session(**WHO)
        for n in range(20):
            await service.append_event(session, said(f"turn {n} " + "and so on " * 20, "post" if n % 2 else "user"))
        summarizer = LinealSummarizer(service.lineal(**WHO))
        event = await summarizer.maybe_summarize_events(events=session.events)
        assert event is not None and event.actions.compaction is not None
        span, log = event.actions.compaction, service.lineal(**WHO)
        assert span.compacted_content.parts and span.compacted_content.parts[0].text == BRIEF
        covered = {e.id for e in session.events if span.start_timestamp <= e.timestamp <= span.end_timestamp}
        assert covered and not covered & {t.id for t in log.view().turns}
        assert (event.custom_metadata or {})["lineal_generation"] == log.status().generation == 1
        assert await summarizer.maybe_summarize_events(events=session.events[-2:]) is None and summarizer.refused

    run(act())


def test_a_rewind_goes_back_through_the_gates(store: Store) -> None:
    """Record 003: not over an effect that nothing else guards."""

    async def act() -> None:
        service = LinealSessionService(store)
        session = await service.create_session(**WHO)
        for n in range(3):
            await service.append_event(session, said(f"ask {n}", invocation=f"i{n}"))
            await service.append_event(session, said(f"answer {n}", "post", invocation=f"i{n}"))
        rewind = Event(author="user", invocation_id="back", actions=EventActions(rewind_before_invocation_id="i2"))
        await service.append_event(session, rewind)
        log = service.lineal(**WHO)
        assert [t.message["content"] for t in log.turns()] == ["ask 0", "answer 0", "ask 1", "answer 1"]
        with log.effect("mail", {"to": "bob"}) as effect:
            effect.settle("sent")
        refused = Event(author="user", invocation_id="back", actions=EventActions(rewind_before_invocation_id="i1"))
        with pytest.raises(UnsafeRollbackError):
            await service.append_event(session, refused)
        again = await service.get_session(**WHO)
        assert again is not None and again.events[-1] == rewind

    run(act())
