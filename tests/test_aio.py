"""The same session for async callers: every verb, off the loop, and summarizers that are coroutines."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from typing import Any

import pytest

from lineal import aio
from lineal.aio import AsyncSession, AsyncStore
from lineal.errors import Refused
from lineal.session import Session
from lineal.session.outcomes import Compacted, Failed, Nothing
from lineal.store import Store

NOT_WAITING = {"read_turns", "sibling", "finish_removal", "salvage"}  # for the rooms behind, and a generator


def test_every_verb_has_its_twin() -> None:
    for sync, twin in ((Session, AsyncSession), (Store, AsyncStore)):
        for name, _ in inspect.getmembers(sync, inspect.isfunction):
            if name.startswith("_") or name in NOT_WAITING:
                continue
            assert hasattr(twin, name), f"{twin.__name__}.{name}"
            if name != "effect":
                assert inspect.iscoroutinefunction(getattr(twin, name)), name


def test_a_whole_story(house: Any, say: Any, brief: Any) -> None:
    """Every verb returns what its sync twin returns."""

    async def story() -> None:
        async with AsyncStore(house.open()) as store:
            session = await store.session("agent", house.policy, brief)
            turns = await session.append(say.dialogue(16))
            assert session.name == "agent" and await session.turns() == turns
            assert await session.messages() == say.dialogue(16) and len((await session.view()).turns) == 16
            pin = await session.pin("keep this")
            await session.unpin(pin)
            handle = await session.spill([turns[0].id])
            assert await session.expand(handle) == turns[:1]
            outcome = await session.compact()
            assert isinstance(outcome, Compacted) and isinstance(await session.maybe_compact(), Nothing)
            checkpoint = await session.checkpoint("cp")
            assert await session.checkpoints() == [checkpoint]
            async with session.effect("deploy", {}, key="k") as effect:
                effect.settle("ok")
            assert [row.state for row in await session.ledger()] == ["done"]
            child = await session.fork("child", at=checkpoint)
            assert isinstance(child, AsyncSession) and (await child.verify()).clean
            assert (await session.rollback(checkpoint)).guarded == ("k",)
            assert (await session.recover()).target == "replay"
            assert (await session.record_usage(5)).tokens > 0
            assert await session.search("plan") and (await session.prune(dry_run=True)).dry_run
            await session.purge([turns[2].id])
            with pytest.raises(Refused):
                await session.expand(turns[2].id)
            assert await store.sessions() == ["agent", "child"] and (await store.verify()).clean
            assert (await store.status())["engine"] == ("memory" if house.path is None else "sqlite")

    asyncio.run(story())


def test_a_slow_disk_does_not_stop_the_loop(house: Any, say: Any) -> None:
    async def story() -> list[str]:
        session = AsyncSession(house.session())
        order: list[str] = []
        go_on = threading.Event()
        append = session.sync.engine.append

        def slow(*args: Any) -> None:
            go_on.wait(30)
            append(*args)

        session.sync.engine.append = slow  # type: ignore[method-assign]

        async def appends() -> None:
            await session.append(say.user(1))
            order.append("appended")

        async def ticks() -> None:
            for _ in range(3):
                await asyncio.sleep(0)
            order.append("ticked")
            go_on.set()

        await asyncio.gather(appends(), ticks())
        return order

    assert asyncio.run(story()) == ["ticked", "appended"]


def test_a_coroutine_summarizer_runs_on_the_callers_loop(house: Any, say: Any, brief: Any) -> None:
    """It may await what belongs to that loop, and append to the very session that is being compacted."""

    async def story() -> None:
        session = AsyncSession(house.session())
        await session.append(say.dialogue(26))
        gate = asyncio.Event()
        loop = asyncio.get_running_loop()

        async def summarize(request: Any) -> str:
            assert asyncio.get_running_loop() is loop
            await session.append(say.user(99), id="meanwhile")
            await gate.wait()
            return brief(request)

        class Model:
            window = 8_000

            async def __call__(self, request: Any) -> str:
                return await summarize(request)

        task = asyncio.create_task(session.compact(Model()))
        while "meanwhile" not in {t.id for t in await session.turns()}:
            await asyncio.sleep(0)
        assert not task.done()
        gate.set()
        outcome = await task
        assert isinstance(outcome, Compacted) and "meanwhile" in outcome.kept

    asyncio.run(story())


def test_a_coroutine_summarizer_that_fails_or_hangs(house: Any, say: Any) -> None:
    """R16."""

    async def story() -> None:
        session = AsyncSession(house.session(policy=house.policy.with_(summary_timeout=0.05)))
        await session.append(say.dialogue(16))

        async def fails(request: Any) -> str:
            raise ConnectionError("429")

        async def hangs(request: Any) -> str:
            await asyncio.sleep(60)
            return "too late"

        before = await session.messages()
        outcome = await session.compact(fails)
        assert isinstance(outcome, Failed) and isinstance(outcome.error, ConnectionError)
        begun = time.monotonic()
        outcome = await session.compact(hangs)
        assert isinstance(outcome, Failed) and isinstance(outcome.error, TimeoutError)
        assert time.monotonic() - begun < 30
        assert await session.messages() == before and (await session.status()).in_flight is None

    asyncio.run(story())


def test_the_sessions_own_summarizer_may_be_a_coroutine_too(house: Any, say: Any, brief: Any) -> None:
    async def summarize(request: Any) -> str:
        await asyncio.sleep(0)
        return brief(request)

    async def story() -> None:
        session = AsyncSession(house.open().session("agent", house.policy, summarize))
        await session.append(say.dialogue(16))
        assert isinstance(await session.compact(), Compacted)

    asyncio.run(story())


def test_connecting_without_blocking(store_path: Any, say: Any) -> None:
    async def story() -> None:
        async with await aio.connect(store_path) as store:
            session = await store.session("a", summarizer=str)
            await session.append(say.user(1))
        async with await aio.connect(store_path, create=False) as store:
            assert await (await store.session("a", summarizer=str)).messages() == [say.user(1)]

    asyncio.run(story())


def test_many_tasks_share_one_session(house: Any, say: Any) -> None:
    """R1."""

    async def story() -> None:
        session = AsyncSession(house.session())
        await asyncio.gather(*(session.append(say.user(n), id=f"u{n}") for n in range(30)))
        assert {t.id for t in await session.turns()} == {f"u{n}" for n in range(30)}

    asyncio.run(story())
