"""What happens to the messages, the calls and the memory of a Pydantic AI agent, told by real agents over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `pydantic-ai` is not installed")

from pydantic import BaseModel
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelRetry, RunContext, ToolReturn
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.exceptions import ApprovalRequired
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider

import lineal
from lineal.adapters.pydantic_ai import LinealCapability
from lineal.errors import PolicyError, Refused, UnsafeEffectError
from lineal.messages import parse, text_of
from lineal.session import Session
from lineal.store import Store
from lineal.testing.model_server import ModelServer

SMALL = lineal.Policy(trigger=400, ceiling=900, target=200, floor_turns=2, summary_max_tokens=80)


def calling(*calls: tuple[str, dict[str, Any]], n: int = 0) -> dict[str, Any]:
    made = [
        {"id": f"call_{n + i}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for i, (name, args) in enumerate(calls)
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


@dataclass
class Model:
    """Answers what the test lines up, then in words. `asked`: what it was shown, each time."""

    answers: list[dict[str, Any]] = field(default_factory=list)
    asked: list[list[dict[str, Any]]] = field(default_factory=list)
    url: str = ""

    def __call__(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        self.asked.append(messages)
        return self.answers.pop(0) if self.answers else {"role": "assistant", "content": f"answer {len(self.asked)}"}

    def agent(self, memory: Any, *tools: Callable[..., Any], **options: Any) -> Agent[Any, Any]:
        model = OpenAIChatModel("post", provider=OpenAIProvider(base_url=self.url, api_key="none"))
        return Agent(model, tools=tools, capabilities=[memory], **options)


@pytest.fixture
def model() -> Iterator[Model]:
    found = Model()
    with ModelServer(found) as server:
        found.url = server.url
        yield found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with lineal.connect(tmp_path / "agent.db") as store:
        yield store


@pytest.fixture
def session(store: Store) -> Session:
    return store.session("post", policy=SMALL)


def said(session: Session) -> list[str]:
    return [text_of(t.message) for t in session.turns()]


def roles(messages: list[dict[str, Any]]) -> list[str]:
    return [m["role"] for m in messages]


def over_the_wire(messages: Any) -> Any:
    """As a host keeps them: JSON, and back."""
    return ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))


# --- messages that come again --------------------------------------------------------------------------------------------


def test_history_that_is_handed_over_stands_once(model: Model, session: Session) -> None:
    """R2: all of it, an older part, or nothing; by the same objects or through JSON. The session is the memory."""
    agent = model.agent(LinealCapability(session))
    first = agent.run_sync("one")
    second = agent.run_sync("two", message_history=first.all_messages())
    third = agent.run_sync("three", message_history=over_the_wire(second.all_messages()))
    agent.run_sync("four", message_history=over_the_wire(first.all_messages()))
    agent.run_sync("five")
    agent.run_sync("six", message_history=third.all_messages()[1:3])
    assert said(session) == [
        "one",
        "answer 1",
        "two",
        "answer 2",
        "three",
        "answer 3",
        "four",
        "answer 4",
        "five",
        "answer 5",
        "six",
        "answer 6",
    ]
    assert [text_of(m) for m in model.asked[-1]] == said(session)[:-1]


def test_another_process_recognises_them_too(model: Model, store: Store) -> None:
    """R2, R45."""
    first = model.agent(LinealCapability(store)).run_sync("one", conversation_id="post")
    again = LinealCapability(lineal.connect(store.engine.path))  # type: ignore[attr-defined]
    model.agent(again).run_sync("two", message_history=over_the_wire(first.all_messages()))
    assert said(again.session("post")) == ["one", "answer 1", "two", "answer 2"]


def test_equal_words_at_one_moment_are_two_turns(model: Model, session: Session) -> None:
    """R1: equal digests are told apart by their place."""
    same, ok = ModelRequest(parts=[UserPromptPart("go on")]), ModelResponse(parts=[TextPart("ok")], model_name="m")
    agent = model.agent(LinealCapability(session))
    result = agent.run_sync("stop", message_history=[same, ok, same, ok])
    agent.run_sync("thanks", message_history=over_the_wire(result.all_messages()))
    assert said(session) == ["go on", "ok", "go on", "ok", "stop", "answer 1", "thanks", "answer 2"]


def test_the_run_id_says_that_it_is_the_same_message(model: Model, session: Session) -> None:
    """R2, R31: the answer comes from the log; other words under the id are a conflict."""
    agent = model.agent(LinealCapability(session))
    assert agent.run_sync("one", run_id="u1").output == "answer 1"
    agent.run_sync("two", run_id="u2")
    again = agent.run_sync("one", run_id="u1")
    assert (again.output, len(model.asked), again.usage.input_tokens) == ("answer 1", 2, 0)
    agent.run_sync("three", message_history=over_the_wire(again.all_messages()))
    assert said(session) == ["one", "answer 1", "two", "answer 2", "three", "answer 3"]
    with pytest.raises(lineal.Conflict):
        agent.run_sync("something else", run_id="u1")


def test_a_history_from_before_the_log_becomes_its_beginning(model: Model, session: Session) -> None:
    """R7: with calls, and with all that only Pydantic AI knows: thinking is shown to the model again from the kept piece."""
    history = [
        ModelRequest(parts=[UserPromptPart("what is the time?")]),
        ModelResponse(parts=[ThinkingPart("a clock", signature="sig"), ToolCallPart("clock", {}, "c1")], model_name="m"),
        ModelRequest(parts=[ToolReturnPart("clock", {"h": 9}, "c1")]),
        ModelResponse(parts=[TextPart("nine")], model_name="m"),
    ]
    memory = LinealCapability(session)
    model.agent(memory).run_sync("thanks", message_history=history)
    assert [t.author for t in session.turns()] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert LinealCapability(session).history()[:4] == history
    assert session.verify().clean


def test_another_history_is_refused(model: Model, session: Session) -> None:
    """R31: edited, or of another conversation; nothing is written, and the error says where and what to do."""
    agent = model.agent(LinealCapability(session))
    messages = over_the_wire(agent.run_sync("one").all_messages())
    later = agent.run_sync("two", message_history=messages)
    head = session.status().head
    edited = [messages[0], ModelResponse(parts=[TextPart("what was never said")])]
    for history in (edited, [*edited, *over_the_wire(later.new_messages())]):
        with pytest.raises(Refused) as refused:
            agent.run_sync("three", message_history=history)
        assert refused.value.facts["piece"] == 1 and "no history" in str(refused.value)
    assert session.status().head == head


def test_what_another_capability_trims_stays_in_the_log(model: Model, session: Session) -> None:
    """R1: a history processor changes what the model sees and what the agent keeps, not what was said."""
    memory = LinealCapability(session)
    url = OpenAIProvider(base_url=model.url, api_key="none")
    agent = Agent(OpenAIChatModel("post", provider=url), capabilities=[ProcessHistory(lambda messages: messages[-1:]), memory])
    for text in ("one", "two", "three"):
        agent.run_sync(text)
    assert said(session) == ["one", "answer 1", "two", "answer 2", "three", "answer 3"]


def test_going_back_on_purpose(model: Model, session: Session) -> None:
    """Record 003: the host goes back by the session's own verb; a run may then be made again under its id."""
    agent = model.agent(LinealCapability(session))
    agent.run_sync("one", run_id="u1")
    target = session.status().head
    agent.run_sync("two", run_id="u2")
    session.rollback(target)
    assert agent.run_sync("two", run_id="u2").output == "answer 3"
    assert said(session) == ["one", "answer 1", "two", "answer 3"]


def test_a_purge_is_not_undone_by_a_history(model: Model, session: Session) -> None:
    """R55: the purged words are in no record, and a host that hands them over again does not bring them back."""
    agent = model.agent(LinealCapability(session))
    first = agent.run_sync("my number is 4711", run_id="u1")
    session.purge(["u1"])
    agent.run_sync("and now?", message_history=over_the_wire(first.all_messages()))
    agent.run_sync("my number is 4711", message_history=None)
    assert [text_of(t.message) for t in session.turns() if t.author == "user"] == ["and now?", "my number is 4711"]
    assert all(k.data is None or "4711" not in json.dumps(k.data) for k in session.kept("pydantic_ai") if "u1" in k.key)


def test_a_purged_end_of_a_history_is_not_undone_either(model: Model, session: Session) -> None:
    """R55: nothing that was said stands behind it to tell that it was said."""
    first = model.agent(LinealCapability(session)).run_sync("what is my number?", run_id="u1")
    session.purge([session.turns()[-1].id])
    model.agent(LinealCapability(session)).run_sync("and now?", message_history=over_the_wire(first.all_messages()))
    assert said(session) == ["what is my number?", "and now?", "answer 2"]
    assert "answer 1" not in json.dumps([k.data for k in session.kept("pydantic_ai")])


def test_a_history_with_pruned_turns_stands_once(model: Model, session: Session) -> None:
    """R46: what a prune took is met again in the host's whole history, and is no news."""
    history: Any = None
    for n in range(8):
        result = model.agent(LinealCapability(session)).run_sync(f"{n}: mind the step. " * 20, message_history=history)
        history = over_the_wire(result.all_messages())
    assert session.prune().entries > 0 and len(session.turns()) < 16
    before = said(session)
    model.agent(LinealCapability(session)).run_sync("and now?", message_history=history)
    assert said(session) == [*before, "and now?", "answer 9"]


def test_what_a_run_says_again_after_a_rollback_is_said_again(model: Model, session: Session) -> None:
    """R2: an id stands for one turn of a branch; on the branch that was left it stood for another."""
    agent = model.agent(LinealCapability(session))
    answers: list[str] = []

    @agent.output_validator
    def twice(output: str) -> str:
        answers.append(output)
        if len(answers) % 2:
            raise ModelRetry("say it better")
        return output

    session.append({"role": "user", "content": "hello"})
    target = session.status().head
    agent.run_sync("tell", run_id="u1")
    before = said(session)
    session.rollback(target)
    agent.run_sync("tell", run_id="u1")
    assert len(before) == len(said(session)) == 5 and said(session)[3] == before[3]


def test_a_redacting_session_keeps_no_original(model: Model, store: Store) -> None:
    """R56: neither log nor model gets what is redacted, and the piece is recognised all the same."""

    def redact(message: Any) -> Any:
        return json.loads(json.dumps(message).replace("4711", "[number]"))

    session = store.session("post", redact=redact)
    agent = model.agent(LinealCapability(session), lambda: None)
    first = agent.run_sync("my number is 4711", run_id="u1")
    agent.run_sync("and now?", message_history=over_the_wire(first.all_messages()))
    assert said(session) == ["my number is [number]", "answer 1", "and now?", "answer 2"]
    assert "4711" not in json.dumps([k.data for k in session.kept("pydantic_ai")]) + json.dumps(model.asked)


# --- what the model is shown ---------------------------------------------------------------------------------------------


def test_the_system_prompt_leads_every_request_once(model: Model, session: Session) -> None:
    """It configures the agent, and is no turn; instructions are sent as ever."""
    agent = model.agent(LinealCapability(session), system_prompt="You are the post.", instructions="Be brief.")
    first = agent.run_sync("one")
    agent.run_sync("two")
    agent.run_sync("three", message_history=over_the_wire(first.all_messages()))
    for asked in model.asked:
        heads = [text_of(m) for m in asked if m["role"] == "system"]
        assert sorted(heads) == ["Be brief.", "You are the post."] and roles(asked)[:2] == ["system", "system"]
    assert said(session) == ["one", "answer 1", "two", "answer 2", "three", "answer 3"]


def test_a_long_conversation_is_compacted_and_can_be_read_back(model: Model, store: Store) -> None:
    """R11, R20, R53: the request shows the view; the agent's own history stays whole; the handle is verified."""
    memory = LinealCapability(store, policy=SMALL)
    agent = model.agent(memory)
    history: Any = None
    for n in range(8):
        result = agent.run_sync(
            f"The code of door {n} is {n}{n}. " + "Mind the step. " * 20, message_history=history, conversation_id="post"
        )
        history = over_the_wire(result.all_messages())
    session = memory.session("post")
    assert session.status().generation > 0 and len(history) == 16
    assert max(map(len, model.asked)) < 16
    model.answers = [calling(("recall_search", {"query": "door 0"})), calling(("recall_expand", {"handle": "t:nothing"}), n=1)]
    handles: list[Any] = []

    def handle(ctx: RunContext[None]) -> str:
        """Read the handle of the transcript."""
        handles.extend(cap.compaction_transcript_handle() for cap in ctx.capabilities.values() if isinstance(cap, LinealCapability))
        return "read"

    model.answers.append(calling(("handle", {}), n=2))
    answers = model.agent(memory, handle).run_sync("What is the code of door 0?", conversation_id="post").all_messages()
    results = [part.content for message in answers for part in message.parts if isinstance(part, ToolReturnPart)]
    assert "is 00" in results[0] and "no handle" in results[1]
    assert handles == [session.view().handles[-1]] and session.expand(handles[0])
    assert [row.tool for row in session.ledger()] == ["handle"], "recall is no effect"


def test_a_conversation_without_a_summary_has_no_handle(session: Session) -> None:
    assert LinealCapability(session).compaction_transcript_handle() is None


# --- calls through the ledger --------------------------------------------------------------------------------------------


def test_calls_side_by_side_are_one_effect_each(model: Model, session: Session) -> None:
    """R50."""
    sent: list[str] = []

    async def mail(to: str) -> dict[str, str]:
        sent.append(to)
        return {"sent": to}

    model.answers = [calling(("mail", {"to": "ann"}), ("mail", {"to": "bob"}))]
    model.agent(LinealCapability(session), mail).run_sync("mail both", run_id="u1")
    assert sorted(sent) == ["ann", "bob"]
    assert [row.state for row in session.ledger()] == ["done", "done"]
    assert roles(model.asked[-1]) == ["user", "assistant", "tool", "tool"]


def test_equal_keys_are_one_effect(model: Model, session: Session) -> None:
    """R48: the second call is answered in words by what came of the first; a read is no effect at all."""
    paid: list[str] = []

    def pay(invoice: str, note: str) -> str:
        paid.append(invoice)
        return f"paid {invoice}"

    def balance() -> int:
        return 7

    memory = LinealCapability(session, keys={"pay": lambda args: f"pay:{args['invoice']}"}, reads=["balance"])
    model.answers = [
        calling(("pay", {"invoice": "17", "note": "a"})),
        calling(("pay", {"invoice": "17", "note": "a"}), ("balance", {}), n=1),
    ]
    model.agent(memory, pay, balance).run_sync("pay 17")
    assert paid == ["17"] and [row.tool for row in session.ledger()] == ["pay"]
    again = next(m for m in model.asked[-1] if m.get("tool_call_id") == "call_1")
    assert "not done again" in again["content"] and "paid 17" in again["content"]


def test_a_recorded_answer_comes_back_as_the_tool_gave_it(model: Model, session: Session) -> None:
    """R47: values, and what a `ToolReturn` says beside them, also when the run is made again."""
    made: list[int] = []

    def draw() -> ToolReturn:
        made.append(1)
        return ToolReturn({"picture": 1}, content=["look at this"], metadata={"for": "the host"})

    model.answers = [calling(("draw", {}))]
    agent = model.agent(LinealCapability(session), draw)
    first = agent.run_sync("draw", run_id="u1")
    again = agent.run_sync("draw", run_id="u1")
    assert made == [1] and len(model.asked) == 2

    def told(result: Any) -> list[Any]:
        return [
            (p.content, getattr(p, "metadata", None))
            for m in result.all_messages()
            for p in m.parts
            if p.part_kind in ("tool-return", "user-prompt")
        ]

    assert told(first) == told(again) and "look at this" in str(told(again))


def test_a_tool_that_asks_for_a_retry_did_nothing(model: Model, session: Session) -> None:
    """R47: and is called again; one that timed out, or broke, may have done it, and is not."""
    tries: list[str] = []

    def mail(to: str) -> str:
        tries.append(to)
        if to == "nobody":
            raise ModelRetry("there is no nobody")
        return "sent"

    async def slow(to: str) -> str:
        await asyncio.sleep(30)
        return "sent"

    agent = model.agent(LinealCapability(session), mail)
    agent.tool_plain(slow, timeout=0.01)
    model.answers = [calling(("mail", {"to": "nobody"})), calling(("mail", {"to": "ann"}), n=1), calling(("slow", {"to": "x"}), n=2)]
    agent.run_sync("mail nobody")
    assert tries == ["nobody", "ann"]
    assert [row.state for row in session.ledger()] == ["no_effect", "done", "unknown"]


def test_a_call_of_unknown_outcome_is_refused_in_words_or_raised(model: Model, session: Session) -> None:
    """R47: the tool broke after it may have sent something."""

    def mail(to: str) -> str:
        raise OSError("the line is dead")

    model.answers = [calling(("mail", {"to": "ann"}))]
    with pytest.raises(OSError):
        model.agent(LinealCapability(session), mail).run_sync("mail ann", run_id="u1")
    raising = LinealCapability(session, raising=True)
    with pytest.raises(UnsafeEffectError):
        model.agent(raising, mail).run_sync(message_history=raising.history())
    memory = LinealCapability(session)
    model.agent(memory, mail).run_sync(message_history=memory.history())
    assert "not done" in model.asked[-1][-1]["content"]
    assert [row.state for row in session.ledger()] == ["unknown"]


def test_a_call_that_waits_for_approval_is_made_once_it_has_it(model: Model, session: Session) -> None:
    """R47: until then nothing happened."""
    paid: list[str] = []

    def pay(ctx: RunContext[None], invoice: str) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        paid.append(invoice)
        return "paid"

    model.answers = [calling(("pay", {"invoice": "17"}))]
    agent = model.agent(LinealCapability(session), pay, output_type=[str, DeferredToolRequests])
    asked = agent.run_sync("pay 17")
    assert isinstance(asked.output, DeferredToolRequests) and session.ledger()[0].state == "no_effect"
    approved = DeferredToolResults(approvals={"call_0": True})
    agent.run_sync(message_history=over_the_wire(asked.all_messages()), deferred_tool_results=approved)
    assert paid == ["17"] and [row.state for row in session.ledger()] == ["done"]
    assert [t.author for t in session.turns()] == ["user", "assistant", "tool", "assistant"]


def test_a_result_for_a_call_that_was_closed_is_refused(model: Model, session: Session) -> None:
    """R4: the conversation went on without it, and said that its outcome is unknown."""

    def pay(ctx: RunContext[None], invoice: str) -> str:
        raise ApprovalRequired

    model.answers = [calling(("pay", {"invoice": "17"}))]
    agent = model.agent(LinealCapability(session), pay, output_type=[str, DeferredToolRequests])
    asked = agent.run_sync("pay 17")
    agent.run_sync("never mind")
    with pytest.raises(Refused) as refused:
        results = DeferredToolResults(calls={"call_0": "paid by hand"})
        agent.run_sync(message_history=asked.all_messages(), deferred_tool_results=results)
    assert refused.value.facts["call"] == "call_0"


def test_a_new_message_closes_what_a_dead_process_left(model: Model, session: Session) -> None:
    """R33: a call that was done by its recorded answer, another one as unknown; then the new message."""

    def mail(to: str) -> str:
        return f"sent to {to}"

    model.answers = [calling(("mail", {"to": "ann"}), ("mail", {"to": "bob"}))]
    agent = model.agent(LinealCapability(session), mail)
    agent.run_sync("mail both", run_id="u1")
    dead = lineal.connect("memory:").session("dead")  # what the log of a process looks like that died between the two
    turns = session.turns()[:2]
    dead.append([t.message for t in turns], id=[t.id for t in turns])
    first = next(row for row in session.ledger() if row.shown == {"to": "ann"})  # they were made side by side
    with dead.effect("mail", {"to": "ann"}, call="call_0") as effect:
        effect.settle(first.outcome)
    model.agent(LinealCapability(dead), mail).run_sync("are you there?")
    assert roles(model.asked[-1]) == ["user", "assistant", "tool", "tool", "user"]
    answers = [text_of(m) for m in model.asked[-1] if m["role"] == "tool"]
    assert answers[0] == "sent to ann" and "unknown" in answers[1]


# --- other ways to run ---------------------------------------------------------------------------------------------------


class Parcel(BaseModel):
    to: str


def test_structured_output_is_closed_in_the_log(model: Model, session: Session) -> None:
    """R11: the output tool's call has its result; the next run begins on a whole log."""
    model.answers = [calling(("final_result", {"to": "ann"})), calling(("final_result", {"to": "bob"}), n=1)]
    agent = model.agent(LinealCapability(session), output_type=Parcel)
    first = agent.run_sync("whom?", run_id="u1")
    second = agent.run_sync("and then?")
    assert (first.output, second.output) == (Parcel(to="ann"), Parcel(to="bob"))
    assert not session.status().open_calls and session.ledger() == []
    assert agent.run_sync("whom?", run_id="u1").output == Parcel(to="ann") and len(model.asked) == 2


def test_an_answer_that_does_not_fit_is_asked_for_again(model: Model, session: Session) -> None:
    model.answers = [calling(("final_result", {"whom": "ann"})), calling(("final_result", {"to": "ann"}), n=1)]
    agent = model.agent(LinealCapability(session), output_type=Parcel)
    assert agent.run_sync("whom?", run_id="u1").output == Parcel(to="ann")
    assert agent.run_sync("whom?", run_id="u1").output == Parcel(to="ann") and len(model.asked) == 2
    assert [bool(parse(t.message).results) for t in session.turns()] == [False, False, True, False, True]


def test_a_stream_is_recorded_and_repeated(session: Session) -> None:
    """R2: Pydantic AI's own model streams; when the run is made again the log's answer is streamed."""
    agent = Agent(TestModel(call_tools=[], custom_output_text="word by word"), capabilities=[LinealCapability(session)])

    async def stream() -> str:
        async with agent.run_stream("tell", run_id="u1") as result:
            return str(await result.get_output())

    assert asyncio.run(stream()) == asyncio.run(stream()) == "word by word"
    assert said(session) == ["tell", "word by word"]


def test_without_a_prompt_it_goes_on_where_the_log_ends(model: Model, session: Session) -> None:
    """R30: what was said and never answered is answered; what was answered is not asked again."""
    session.append({"role": "user", "content": "are you there?"}, id="u1")
    agent = model.agent(LinealCapability(session), instructions="Be brief.")
    assert agent.run_sync().output == "answer 1"
    assert agent.run_sync().output == "answer 1"
    assert said(session) == ["are you there?", "answer 1"]


def test_a_store_needs_to_know_the_conversation(store: Store) -> None:
    with pytest.raises(PolicyError):
        LinealCapability(store).history()


def test_two_conversations_of_one_agent_are_two_sessions(model: Model, store: Store) -> None:
    memory = LinealCapability(store)
    agent = model.agent(memory)

    async def both() -> None:
        await asyncio.gather(*(agent.run(id, run_id=f"of {id}", conversation_id=id) for id in ("ann", "bob")))

    asyncio.run(both())
    assert [said(memory.session(id))[0] for id in ("ann", "bob")] == ["ann", "bob"]
    assert store.sessions() == ["ann", "bob"]


@pytest.mark.parametrize("wire", ["responses", "anthropic"])
def test_whatever_the_provider_speaks(wire: str, model: Model, session: Session) -> None:
    """R7: the log is in one dialect, and each provider is shown its own; a run that is made again asks nobody."""
    if wire == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        speaking: Any = AnthropicModel("post", provider=AnthropicProvider(base_url=model.url.removesuffix("/v1"), api_key="none"))
    else:
        from pydantic_ai.models.openai import OpenAIResponsesModel

        speaking = OpenAIResponsesModel("post", provider=OpenAIProvider(base_url=model.url, api_key="none"))
    model.answers = [calling(("mail", {"to": "ann"}))]
    agent = Agent(speaking, capabilities=[LinealCapability(session)])

    @agent.tool_plain
    def mail(to: str) -> str:
        return f"sent to {to}"

    for _ in range(2):
        assert agent.run_sync("mail ann", run_id="u1").output == "answer 2"
    agent.run_sync("thanks")
    assert said(session)[2:] == ["sent to ann", "answer 2", "thanks", "answer 3"]
    assert [row.state for row in session.ledger()] == ["done"]


def test_an_answer_that_the_provider_paused_is_finished(session: Session) -> None:
    """R1: a paused answer is no turn until it is whole; the request that goes on with it ends in it."""
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    asked: list[list[Any]] = []

    def finish(messages: list[Any], info: AgentInfo) -> ModelResponse:
        asked.append(messages)
        return ModelResponse(parts=[TextPart("and done")])

    paused = ModelResponse(parts=[TextPart("half")], state="suspended", model_name="m")
    agent = Agent(FunctionModel(finish), capabilities=[LinealCapability(session)])
    result = agent.run_sync(message_history=[ModelRequest(parts=[UserPromptPart("count")]), paused])
    assert len(asked) == 1 and asked[0][0].parts[0].content == "count"
    assert said(session) == ["count", text_of({"role": "assistant", "content": result.output})]
