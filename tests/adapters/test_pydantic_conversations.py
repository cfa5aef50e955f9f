"""`LinealConversationStore` does what Pydantic AI's own store does, and another process finds it again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `pydantic-ai` is not installed")

from pydantic_ai import Agent, BinaryContent, DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationStore, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.test import TestModel

import lineal
from lineal.adapters.pydantic_conversations import LinealConversationStore

Make = Callable[[], ConversationStore]


@pytest.fixture(params=["of Pydantic AI", "of lineal"])
def make(request: Any, tmp_path: Path) -> Make:
    """The store that Pydantic AI ships is the contract: each story is told to both. Of lineal each call is another process's view."""
    if request.param == "of Pydantic AI":
        one = InMemoryConversationStore()
        return lambda: one
    return lambda: LinealConversationStore(lineal.connect(tmp_path / "agent.db"))


def asked(text: str) -> ModelRequest:
    return ModelRequest(parts=[UserPromptPart(text)])


def told(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def texts(conversation: Conversation | None) -> list[Any]:
    assert conversation is not None
    return [part.content for message in conversation.messages for part in message.parts]  # type: ignore[union-attr]


async def saved(store: ConversationStore, id: str, *messages: Any, scope: str | None = None) -> Conversation:
    conversation = Conversation(messages=list(messages), conversation_id=id)
    await store.save(conversation, scope=scope)
    return conversation


async def load(store: ConversationStore, id: str) -> Conversation:
    found = await store.load(id)
    assert found is not None
    return found


def test_what_was_saved_is_loaded_whole(make: Make) -> None:
    """R1, R7: messages, files, usage, and the calls that it waits for."""
    call = ToolCallPart("pay", {"to": "ann"}, "call_1")
    messages = [ModelRequest(parts=[UserPromptPart(["look", BinaryContent(b"\x00\xff", media_type="application/pdf")])]), told("é\0")]

    async def story() -> None:
        conversation = Conversation(messages=list(messages), conversation_id="c")
        conversation.deferred_tool_requests = DeferredToolRequests(approvals=[call])
        conversation.usage.details["odd"] = 3
        await make().save(conversation)
        found = await load(make(), "c")
        assert (found.messages, found.revision, found.usage) == (messages, conversation.revision, conversation.usage)
        assert found.deferred_tool_requests and found.deferred_tool_requests.approvals == [call]
        assert await make().load("another") is None

    asyncio.run(story())


def test_a_save_appends_and_a_rewritten_history_branches(make: Make) -> None:
    async def story() -> None:
        one, two, three = asked("1"), told("2"), asked("3")
        await saved(make(), "c", one, two)
        first = await make().load_entries("c")
        found = await load(make(), "c")
        found.messages.append(three)
        assert len(await make().save(found)) == 1
        again = await make().load_entries("c")
        assert first and again and [e.id for e in again[:2]] == [e.id for e in first]
        assert texts(await make().load("c", limit=2)) == ["2", "3"]
        back = await make().branch("c", at=1, expected_revision=(await load(make(), "c")).revision or "")
        back.messages.append(told("2 in other words"))
        await make().save(back)
        assert texts(await make().load("c")) == ["1", "2 in other words"]
        record = await make().read_record("c")
        assert record and record.branches == [again[2].id]
        assert [e.message for e in await make().read_history(again[2].id)] == [one, two, three]

    asyncio.run(story())


def test_who_saves_over_another_one_is_told(make: Make) -> None:
    """R31: stale saves, a second creation, a stale delete, and a head that nobody stored; nothing of a refused save stays."""

    async def story() -> None:
        await saved(make(), "c", asked("1"))
        mine, theirs = await load(make(), "c"), await load(make(), "c")
        theirs.messages.append(told("theirs"))
        await make().save(theirs)
        mine.messages.append(told("mine"))
        with pytest.raises(ConversationConflict) as refused:
            await make().save(mine)
        assert refused.value.conversation_id == "c"
        assert texts(await make().load("c")) == ["1", "theirs"]
        with pytest.raises(ConversationConflict):
            await saved(make(), "c", asked("anew"))
        record = await make().read_record("c")
        assert record
        with pytest.raises(ConversationConflict):
            await make().delete_record("c", expected_revision="an older one")
        record.head_id = "nobody stored this"
        with pytest.raises(ConversationConflict):
            await make().write_record(record, expected_revision=record.revision)
        with pytest.raises(LookupError):
            await make().read_entry("nobody stored this")

    asyncio.run(story())


def test_a_fork_lives_on_when_its_source_is_deleted(make: Make) -> None:
    async def story() -> None:
        await saved(make(), "c", asked("1"), told("2"), scope="ann")
        fork = await make().fork("c", at=1, new_conversation_id="f")
        fork.messages.append(told("2 of the fork"))
        await make().save(fork)
        await make().delete("c", scope="bob")
        assert texts(await make().load("c", scope="ann")) == ["1", "2"]
        await make().delete("c")
        assert await make().load("c") is None
        assert texts(await make().load("f")) == ["1", "2 of the fork"]
        with pytest.raises(UserError):
            await make().fork("c")
        await saved(make(), "c", asked("anew"))
        assert texts(await make().load("c")) == ["anew"]

    asyncio.run(story())


def test_conversations_are_listed_by_scope_the_last_saved_first(make: Make) -> None:
    async def story() -> None:
        for id, scope in (("a", "ann"), ("b", "bob"), ("c", "ann")):
            await saved(make(), id, asked(id), scope=scope)
        again = await load(make(), "a")
        again.messages.append(told("more"))
        await make().save(again)
        await make().delete("b")
        assert [r.conversation_id for r in await make().list_conversations()] == ["a", "c"]
        assert [r.conversation_id for r in await make().list_conversations(scope="ann", limit=1)] == ["a"]
        assert await make().list_conversations(scope="bob") == []

    asyncio.run(story())


def test_an_agent_goes_on_from_a_loaded_conversation(make: Make) -> None:
    async def story() -> None:
        agent = Agent(TestModel(custom_output_text="well"))
        await make().save(await agent.run("one", conversation=Conversation(conversation_id="c")))
        result = await agent.run("two", conversation=await load(make(), "c"))
        await make().save(result)
        found = await load(make(), "c")
        assert texts(found) == ["one", "well", "two", "well"]
        assert found.usage.requests == 2

    asyncio.run(story())


def test_of_two_writers_at_once_one_is_told(tmp_path: Path) -> None:
    """R31: the check of the revision and the write are one step, across stores."""

    async def story() -> list[Any]:
        stores = [LinealConversationStore(lineal.connect(tmp_path / "agent.db")) for _ in range(4)]
        await saved(stores[0], "c", asked("1"))
        loaded = [await load(store, "c") for store in stores]
        for n, conversation in enumerate(loaded):
            conversation.messages.append(told(f"of {n}"))
        done = await asyncio.gather(*(s.save(c) for s, c in zip(stores, loaded, strict=True)), return_exceptions=True)
        assert len(texts(await stores[3].load("c"))) == 2
        return done

    done = asyncio.run(story())
    assert sorted(isinstance(d, ConversationConflict) for d in done) == [False, True, True, True], done


def test_a_sweep_takes_what_no_conversation_reaches(tmp_path: Path) -> None:
    """R52: the entries of a deleted conversation stay until then; those of its fork, and of branches that were left, stay."""
    store = LinealConversationStore(lineal.connect(tmp_path / "agent.db"))

    async def story() -> None:
        await saved(store, "c", asked("1"), told("2"))
        entries = await store.load_entries("c")
        await store.fork("c", at=1, new_conversation_id="f")
        await saved(store, "b", asked("left"), told("for another"))
        await store.branch("b", at=1, expected_revision=(await load(store, "b")).revision or "")
        await store.delete("c")
        assert store.sweep() == 1
        record = await store.read_record("b")
        assert record and [e.message for e in await store.read_history(record.branches[0])][1:] != []
        assert texts(await store.load("f")) == ["1"]
        with pytest.raises(LookupError):
            await store.read_entry((entries or [])[1].id)

    asyncio.run(story())
    head = store.session.status().head
    assert store.session.prune().entries > 0
    assert store.session.verify().clean and store.session.status().head >= head
    assert texts(asyncio.run(store.load("f"))) == ["1"]
