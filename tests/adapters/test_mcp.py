"""The MCP server, asked by the SDK's own client over both transports; and killed between the begin and the end of an effect."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from click.testing import CliRunner
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

import lineal
from lineal.cli import cli

POLICY = lineal.Policy(trigger=900, ceiling=1_600, target=300, floor_turns=4, summary_max_tokens=150)
READING = {
    "context_status", "context_search", "context_fetch", "context_expand", "compaction_explain", "effect_lookup", "rollback_plan",
}  # fmt: skip
WRITING = {"effect_begin", "effect_settle", "pin"}
DECIDING = {"effect_resolve", "rollback", "prune", "purge"}
SECRET = "the code of the safe is 4711"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A session that was compacted, with a checkpoint."""
    place = tmp_path / "agent.db"
    with lineal.connect(place) as store:
        session = store.session("agent", POLICY, lambda request: "They counted parcels, and the code was told.")
        session.append({"role": "user", "content": SECRET}, id="secret")
        turns = [{"role": "assistant" if n % 2 else "user", "content": f"turn {n} " + "and so on " * 20} for n in range(16)]
        session.append(turns, id=[f"t{n}" for n in range(16)])
        assert isinstance(session.compact(), lineal.Compacted)
        session.checkpoint("here")
        session.append({"role": "user", "content": "and now?"}, id="last")
    return place


Connect = Callable[..., Any]


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def over_stdio(path: Path, *options: str) -> AsyncIterator[Client]:
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "lineal", "mcp", str(path), *options], env={**os.environ})
    async with Client(parameters) as client:
        yield client


@asynccontextmanager
async def over_http(path: Path, *options: str) -> AsyncIterator[Client]:
    port = free_port()
    command = [sys.executable, "-m", "lineal", "mcp", str(path), "--http", str(port), *options]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_for(port, server)
            async with Client(f"http://127.0.0.1:{port}/mcp") as client:
                yield client
        finally:
            server.terminate()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and server.poll() is None:
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the server did not come up")


@pytest.fixture(params=[over_stdio, over_http], ids=["stdio", "streamable HTTP"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    yield request.param


async def call(client: Client, name: str, **arguments: Any) -> Any:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def refused(client: Client, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    assert result.is_error
    return " ".join(getattr(part, "text", "") for part in result.content)


def test_every_tool_is_listed_with_what_it_may_do_and_can_be_called(path: Path, connect: Connect) -> None:
    async def act() -> None:
        async with connect(path, "--operator") as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert {*tools} == READING | WRITING | DECIDING
            assert {name for name, tool in tools.items() if tool.annotations.read_only_hint} == READING
            assert {name for name, tool in tools.items() if tool.annotations.destructive_hint} == DECIDING
            assert all(tool.description and tool.title and tool.output_schema for tool in tools.values())

            status = await call(client, "context_status")
            assert status["session"] == "agent" and status["handles"] == ["g1"] and {look["state"] for look in status["looks"]} == {"ok"}
            (hit, *_) = (await call(client, "context_search", query="code of the safe"))["hits"]
            assert (await call(client, "context_fetch", handle=hit["handle"]))["turns"][0]["text"] == SECRET
            expanded = await call(client, "context_expand", summary="g1")
            assert expanded["kind"] == "summary" and expanded["turns"] > 3
            steps = (await call(client, "compaction_explain", generation=1))["steps"]
            assert [step["kind"] for step in steps] == ["compaction_begun", "compaction_committed"]
            assert not (await call(client, "effect_lookup", key="mail:1"))["known"]
            assert (await call(client, "effect_begin", tool="mail", args={"to": "ann"}, key="mail:1"))["go"]
            assert (await call(client, "effect_settle", key="mail:1", outcome="sent"))["state"] == "done"
            again = await call(client, "effect_begin", tool="mail", args={"to": "ann"}, key="mail:1")
            assert again == {"go": False, "key": "mail:1", "state": "done", "outcome": "sent"}
            assert (await call(client, "effect_lookup", key="mail:1"))["outcome"] == "sent"
            assert (await call(client, "pin", text_or_turn="never on a Friday"))["pin"]
            plan = await call(client, "rollback_plan", target="here")
            assert plan["dry_run"]
            assert (await call(client, "effect_resolve", key="mail:1", finding="compensated"))["state"] == "compensated"
            assert (await call(client, "prune"))["dry_run"]
            assert (await call(client, "purge", turns=["secret"]))["dry_run"]
            head = (await call(client, "context_status"))["head"]
            assert (await call(client, "rollback", target="here", expected_head=head))["seq"]

    asyncio.run(act())
    with lineal.connect(path) as store:
        assert store.verify().clean and store.session("agent").ledger()[0].state == "compensated"


def test_what_an_operator_decides_is_off(path: Path) -> None:
    async def act() -> None:
        async with over_stdio(path) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == READING | WRITING

    asyncio.run(act())


def test_refusals_are_told_with_the_way_out_and_the_server_goes_on(path: Path) -> None:
    async def act() -> None:
        async with over_stdio(path) as client:
            assert "generations are 1..1" in await refused(client, "compaction_explain", generation=9)
            assert "Way out" in await refused(client, "context_fetch", handle="g9")
            assert "begin it first" in await refused(client, "effect_settle", key="nobody")
            assert "name one: agent" in await refused(client, "context_status", session="other")
            assert "see context_status" in await refused(client, "context_expand", summary="g7")
            assert (await call(client, "context_status"))["session"] == "agent"

    asyncio.run(act())


def test_a_long_answer_comes_in_pages(path: Path) -> None:
    with lineal.connect(path) as store:
        session = store.session("agent", POLICY.with_(ceiling=1_000_000, ceiling_bytes=10_000_000))
        session.append([{"role": "user", "content": f"{n}: " + "word " * 1_000} for n in range(10)], id=[f"w{n}" for n in range(10)])
        session.append([{"role": "assistant", "content": "yes"}, {"role": "user", "content": "more"}])
        handle = session.spill([f"w{n}" for n in range(10)])

    async def act() -> list[str]:
        async with over_stdio(path) as client:
            found: list[str] = []
            page = await call(client, "context_fetch", handle=handle)
            while True:
                found += [turn["id"] for turn in page["turns"]]
                if "next" not in page:
                    return found
                page = await call(client, "context_fetch", handle=handle, after=page["next"])

    assert asyncio.run(act()) == [f"w{n}" for n in range(10)]


def test_killed_between_begin_and_settle_it_is_unknown_and_not_begun_again(path: Path) -> None:
    """R47: another server says so; a person resolves it."""

    async def begin() -> None:
        port = free_port()
        command = [sys.executable, "-m", "lineal", "mcp", str(path), "--http", str(port)]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as server:
            _wait_for(port, server)
            async with Client(f"http://127.0.0.1:{port}/mcp") as client:
                assert (await call(client, "effect_begin", tool="pay", args={"eur": 90}, key="pay:1"))["go"]
                server.send_signal(signal.SIGKILL)
                server.wait()

    async def again() -> None:
        async with over_stdio(path) as client:
            assert "unknown" in await refused(client, "effect_begin", tool="pay", args={"eur": 90}, key="pay:1")
            assert (await call(client, "effect_lookup", key="pay:1"))["state"] == "unknown"

    try:
        asyncio.run(begin())
    except BaseExceptionGroup as gone:  # the client hears that its server is gone
        assert gone.split(AssertionError)[0] is None
    asyncio.run(again())


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [(["--http", "nowhere"], 2, "no HOST:PORT"), (["-s", "other"], 1, "no session 'other'")],
)
def test_the_command_refuses_what_it_cannot_serve(path: Path, arguments: list[str], code: int, words: str) -> None:
    result = CliRunner().invoke(cli, ["mcp", str(path), *arguments])
    assert result.exit_code == code and words in result.output


def test_without_the_extra_it_says_what_to_install(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "mcp" or name.startswith(("mcp.", "lineal.adapters.mcp"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    result = CliRunner().invoke(cli, ["mcp", str(path)])
    assert result.exit_code == 5 and "pip install 'lineal[mcp]'" in result.output
