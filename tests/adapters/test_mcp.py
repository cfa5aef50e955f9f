"""The MCP server, met by the SDK's own client: a real process on stdio, a real port on loopback, killed with SIGKILL and started again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import lineal
from lineal.adapters.mcp import Server
from lineal.session import Session

LINEAL = [sys.executable, "-m", "lineal", "mcp"]
SMALL = lineal.Policy(trigger=900, target=300, floor_turns=2, summary_max_tokens=120)
READING = {"context_status", "context_search", "context_fetch", "context_expand", "compaction_explain", "effect_lookup", "rollback_plan"}
ACTING = {"effect_begin", "effect_settle", "pin"}
OPERATING = {"effect_resolve", "rollback", "prune", "purge"}
MAIL = {"tool": "send_mail", "args": {"to": "ops"}, "key": "mail:ops"}
ODD = {"role": "user", "content": 'lone \ud800, é, nul\0, "quoted" and a long tail ' + "of ropes " * 90}
DEEP = {"role": "assistant", "content": "a nest", "nest": json.loads("[" * 120 + "]" * 120)}


def summarize(request: lineal.SummaryRequest) -> str:
    return f"Goal: keep the harbour open. {len(request.turns)} turns were covered."


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store whose one session talked, was compacted once, and has a checkpoint, an odd turn and a dead effect behind it."""
    path = tmp_path / "agent.db"
    with lineal.connect(path) as store:
        session = store.session("agent", policy=SMALL, summarizer=summarize)
        for n in range(8):
            text = f"question {n}: when does the ferry MV-{n}04-KESTREL leave? " + "The tide is low. " * 9
            session.append({"role": "user", "content": text}, id=f"u{n}")
            session.append({"role": "assistant", "content": f"At {n + 9} sharp. " + "Low water then. " * 9}, id=f"a{n}")
        assert isinstance(session.compact(), lineal.Compacted)
        session.append(ODD, id="odd")
        session.append(DEEP, id="deep")
        session.append({"role": "user", "content": "my id is g77"}, id="g77")
        session.checkpoint("noon")
        with pytest.raises(TimeoutError), session.effect("ring", {"bell": 1}, key="bell"):
            raise TimeoutError("no answer")
    return path


@contextmanager
def opened(place: Path) -> Iterator[Session]:
    with lineal.connect(place, create=False) as store:
        yield store.session("agent", policy=SMALL)


# --- clients -----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def over_stdio(place: Path, *options: str, mode: str = "auto") -> AsyncIterator[Client]:
    started = StdioServerParameters(command=LINEAL[0], args=[*LINEAL[1:], str(place), *options], env=dict(os.environ))
    async with Client(stdio_client(started), mode=mode) as client:
        yield client


@contextmanager
def on_a_port(place: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The server's address, and its process."""
    serving = subprocess.Popen([*LINEAL, str(place), "--http", "0", *options], stdout=subprocess.PIPE, text=True)
    assert serving.stdout is not None
    try:
        yield serving.stdout.readline().removeprefix("serving ").strip(), serving
    finally:
        serving.kill()
        serving.wait(60)
        serving.stdout.close()


@asynccontextmanager
async def over_http(place: Path, *options: str, mode: str = "auto") -> AsyncIterator[Client]:
    with on_a_port(place, *options) as (url, _):
        async with Client(url, mode=mode) as client:
            yield client


TRANSPORTS = {"stdio": over_stdio, "http": over_http}
Over = Callable[..., Any]
Act = Callable[[Client], Coroutine[Any, Any, Any]]


@pytest.fixture(params=TRANSPORTS)
def over(request: pytest.FixtureRequest) -> Over:
    return TRANSPORTS[request.param]


def meet(client: Any, act: Act) -> Any:
    """Whatever `act` gives, of a client that lives as long as it."""

    async def met() -> Any:
        async with client as one:
            return await act(one)

    return asyncio.run(met())


async def ask(client: Client, name: str, /, **arguments: Any) -> Any:
    """The structured answer; an error of the tool is a failure here."""
    answer = await client.call_tool(name, arguments)
    assert not answer.is_error, answer.content
    assert json.loads(answer.content[0].text) == answer.structured_content, "who cannot read structured output reads the same"
    return answer.structured_content


async def refusal(client: Client, name: str, /, **arguments: Any) -> str:
    """What a tool says that was refused."""
    answer = await client.call_tool(name, arguments)
    assert answer.is_error and answer.structured_content is None, answer
    return str(answer.content[0].text)


# --- what is offered ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("transport", "mode"), [("stdio", "auto"), ("http", "auto"), ("http", "legacy")])
def test_the_tools_say_what_they_do(place: Path, transport: str, mode: str) -> None:
    """Each has a title, a description, a schema of what it answers, and hints that are true; an operator's are not there."""

    async def act(client: Client) -> Any:
        assert client.server_info and client.server_info.version == lineal.__version__
        assert "effect_begin" in (client.instructions or "")
        for tool, arguments in (("effect_resolve", {"key": "bell", "finding": "happened"}), ("purge", {"ids": ["u0"], "dry_run": False})):
            assert "Unknown tool" in await refusal(client, tool, **arguments)
        return (await client.list_tools()).tools

    tools = meet(TRANSPORTS[transport](place, mode=mode), act)
    assert {t.name for t in tools} == READING | ACTING
    for tool in tools:
        assert tool.title and tool.description.endswith(".") and tool.output_schema["type"] == "object"
        assert "session" in tool.input_schema["properties"]
        hints = tool.annotations
        assert (hints.read_only_hint, hints.open_world_hint) == (tool.name in READING, False)
        assert (hints.destructive_hint, hints.idempotent_hint) == (False, True)
    with opened(place) as session:
        assert session.ledger("bell")[0].state == "unknown" and session.expand("u0")


# --- reading back ------------------------------------------------------------------------------------------------------


def test_what_left_the_view_is_found_and_read_back_exactly(over: Over, place: Path) -> None:
    """R3, R45, R53: search, list, explain, and read, to the byte, and page by page."""

    async def act(client: Client) -> None:
        memory = await ask(client, "context_status")
        assert memory["status"]["session"] == "agent" and memory["summaries"] == ["g1"]
        assert [row["state"] for row in memory["health"] if row["name"] == "effects"] == ["bad"]
        (hit,) = (await ask(client, "context_search", query="MV-304-KESTREL", limit=1))["hits"]
        assert hit["id"] == "u3"
        (turn,) = (await ask(client, "context_fetch", handle=hit["handle"]))["turns"]
        with opened(place) as session:
            assert turn["message"] == session.expand("u3")[0].message
            exact = [t.message for t in session.expand("g1")]
        listed = await ask(client, "context_expand", summary_id="g1")
        assert listed["kind"] == "summary" and "keep the harbour open" in listed["summary"]
        assert listed["count"] == len(exact) == len(listed["turns"]) and listed["next_seq"] == 0
        assert listed["turns"][3]["handle"] == "t:a1" and listed["turns"][3]["text"].startswith("At 10 sharp")
        told = await ask(client, "compaction_explain")
        made = told["generation"]
        assert (made["generation"], made["state"], made["how"], made["handle"]) == (1, "committed", "summary", "g1")
        assert "trigger 900" in made["why"] and made["view_tokens"] > 900
        assert "u0" in made["read"] and "a7" in made["kept"] and not set(made["read"]) & set(made["kept"])
        assert made["turns"] == made["read_count"] == told["readable"] and told["lost"] == ""
        assert ("MV-304", False) in {(one["value"], one["in_summary"]) for one in made["carried"]} and made["tokens"] < made[
            "source_tokens"
        ]
        (odd,) = (await ask(client, "context_expand", summary_id="g77"))["turns"]
        assert odd["handle"] == "t:g77", "a turn may have an id that looks like a handle"
        pages, read = await paged(client, "g1", 300)
        assert read == exact and pages > len(exact) / 2
        assert await paged(client, "g1", 20_000) == (1, exact)
        # A lone surrogate has no UTF-8, and a deep value breaks readers: such turns are read as their JSON.
        assert await paged(client, "odd", 200_000) == (1, [ODD]) and (await paged(client, "odd", 100))[1] == [ODD]
        assert (await paged(client, "deep", 100))[1] == [DEEP] and (await ask(client, "context_fetch", handle="deep"))["turns"][0]["text"]
        (hit,) = (await ask(client, "context_search", query="lone", limit=1))["hits"]
        assert hit["id"] == "odd" and "\\ud800" in hit["text"]

    meet(over(place), act)


async def paged(client: Client, handle: str, size: int) -> tuple[int, list[Any]]:
    """How many pages a handle took at this size, and the messages put together from them."""
    pages, texts = 0, dict[int, str]()
    go_on = {"from_seq": 0, "offset": 0}
    while pages == 0 or go_on["from_seq"]:
        page = await ask(client, "context_fetch", handle=handle, size=size, **go_on)
        assert sum(len(p["text"]) or p["of"] for p in page["turns"]) <= size
        for part in page["turns"]:
            text = part["text"] or json.dumps(part["message"])
            assert part["offset"] == (len(texts.get(part["seq"], "")))
            texts[part["seq"]] = texts.get(part["seq"], "") + text
        go_on = {"from_seq": page["next_seq"], "offset": page["next_offset"]}
        pages += 1
    return pages, [json.loads(texts[seq]) for seq in sorted(texts)]


# --- acting ------------------------------------------------------------------------------------------------------------


def test_an_effect_is_begun_in_one_call_and_settled_in_another(over: Over, place: Path) -> None:
    """R47, R49: done once; asked for again it answers what came of it. A lost answer to a settlement may be asked for again."""

    async def act(client: Client) -> None:
        assert await ask(client, "effect_lookup", key="mail:ops") == {"found": False, "effect": None}
        begun = await ask(client, "effect_begin", **MAIL)
        assert (begun["begun"], begun["state"], begun["attempt"]) == (True, "intended", 1)
        assert (await ask(client, "effect_lookup", key="mail:ops"))["effect"]["state"] == "intended"
        assert "busy" in await refusal(client, "effect_begin", **MAIL)
        settled = await ask(client, "effect_settle", key="mail:ops", state="done", outcome={"id": 71})
        assert (settled["state"], settled["outcome"]) == ("done", {"id": 71})
        assert await ask(client, "effect_settle", key="mail:ops", state="done", outcome={"id": 71}) == settled
        other = await refusal(client, "effect_settle", key="mail:ops", state="done", outcome={"id": 72})
        assert "not_pending" in other and "stands as done" in other
        again = await ask(client, "effect_begin", **MAIL)
        assert (again["begun"], again["state"], again["outcome"]) == (False, "done", {"id": 71})
        assert "not sent again" in again["why"] and "new key" in again["way_out"]
        assert "key_conflict" in await refusal(client, "effect_begin", **{**MAIL, "args": {"to": "sales"}})
        assert await ask(client, "pin", what="never on a Friday") == await ask(client, "pin", what="never on a Friday")
        assert await ask(client, "pin", what="a7") == {"pin": "a7", "turn": "a7", "text": ""}
        assert [p["text"] or p["turn"] for p in (await ask(client, "context_status"))["pins"]] == ["never on a Friday", "a7"]
        assert "not_in_view" in await refusal(client, "pin", what="u0")

    meet(over(place), act)
    with opened(place) as session:
        assert {p.text or p.turn for p in session.view().pins} == {"never on a Friday", "a7"}
        assert [(r.state, r.attempt) for r in session.ledger("mail:ops")] == [("done", 1)] and session.verify().clean


def test_what_surely_did_not_happen_may_be_begun_again_and_what_is_unknown_may_not(place: Path) -> None:
    """R47."""

    async def act(client: Client) -> None:
        await ask(client, "effect_begin", **MAIL)
        assert (await ask(client, "effect_settle", key="mail:ops", state="no_effect", why="no such address"))["state"] == "no_effect"
        assert (await ask(client, "effect_begin", **MAIL))["attempt"] == 2
        row = await ask(client, "effect_settle", key="mail:ops", state="unknown", why="no answer in 30 s")
        assert row["state"] == "unknown" and "no answer in 30 s" in row["note"]
        assert "unknown" in await refusal(client, "effect_begin", **MAIL)
        late = await refusal(client, "effect_settle", key="mail:ops", state="done", outcome="it came after all")
        assert "operator" in late
        await ask(client, "effect_begin", tool="poll", args={}, key="poll", idempotent=True)
        await ask(client, "effect_settle", key="poll", state="unknown")
        assert (await ask(client, "effect_begin", tool="poll", args={}, key="poll", idempotent=True))["begun"]

    meet(over_http(place), act)


def test_of_many_clients_that_begin_one_effect_one_does_it(place: Path) -> None:
    """R48: the others are told that somebody is at it."""

    async def one(url: str) -> bool:
        async with Client(url) as client:
            answer = await client.call_tool("effect_begin", MAIL)
            assert not answer.is_error or "busy" in answer.content[0].text
            return not answer.is_error and answer.structured_content["begun"]

    async def all_of(url: str) -> list[bool]:
        return await asyncio.gather(*(one(url) for _ in range(8)))

    with on_a_port(place) as (url, _):
        assert sorted(asyncio.run(all_of(url))) == [False] * 7 + [True]


def test_killed_between_begin_and_settle_the_outcome_is_unknown_to_the_next_server(over: Over, place: Path) -> None:
    """R47, record 003: SIGKILL. Another server says so, does not begin it again, and an operator finds out."""

    async def begin_and_die(client: Client) -> None:
        assert (await ask(client, "effect_begin", **MAIL))["begun"]
        with opened(place) as session:
            held = session.log.lineage.effect("mail:ops")
        assert held is not None and held.lease.holder.pid != os.getpid()
        os.kill(held.lease.holder.pid, signal.SIGKILL)

    async def next_server(client: Client) -> None:
        row = (await ask(client, "effect_lookup", key="mail:ops"))["effect"]
        assert (row["state"], row["note"]) == ("unknown", "its holder is gone")
        assert "mail:ops" in (await ask(client, "context_status"))["status"]["unknown_effects"]
        told = await refusal(client, "effect_begin", **MAIL)
        assert "emission refused (unknown)" in told and "Way out: find out" in told
        assert "not_pending" in await refusal(client, "effect_settle", key="mail:ops", state="done")

        plan = await ask(client, "rollback_plan", target="noon")
        assert not plan["verdict"]["allowed"] and set(plan["refused"]) == {"bell", "mail:ops"}
        row = await ask(client, "effect_resolve", key="mail:ops", finding="happened", note="it is in the outbox")
        assert (row["state"], row["resolved"]) == ("done", True)
        assert (await ask(client, "effect_begin", **MAIL))["begun"] is False

    meet(over(place), begin_and_die)
    meet(over(place, "--operator"), next_server)
    with opened(place) as session:
        assert session.ledger("mail:ops")[0].attempt == 1


def test_a_client_that_hangs_up_leaves_its_effect_unknown(place: Path) -> None:
    """R47: the server ends in order, and says in the log that nobody settled it."""

    async def act(client: Client) -> None:
        await ask(client, "effect_begin", **MAIL)

    meet(over_stdio(place), act)
    with opened(place) as session:
        assert [(r.state, r.note) for r in session.ledger("mail:ops")] == [("unknown", "left unsettled")]


def test_a_server_that_is_interrupted_leaves_its_effects_unknown_and_no_traceback(place: Path) -> None:
    async def act(url: str) -> None:
        async with Client(url) as client:
            await ask(client, "effect_begin", **MAIL)

    with on_a_port(place) as (url, serving):
        asyncio.run(act(url))
        serving.send_signal(signal.SIGINT)
        assert serving.wait(60) == 1
    with opened(place) as session:
        assert [(r.state, r.note) for r in session.ledger("mail:ops")] == [("unknown", "left unsettled")]


# --- an operator -------------------------------------------------------------------------------------------------------


def test_an_operator_goes_back_drops_and_erases(over: Over, place: Path) -> None:
    """Record 003, R57: a plan changes nothing; dry runs are the default; what is refused is refused with its reasons."""

    async def act(client: Client) -> None:
        hints = {t.name: t.annotations for t in (await client.list_tools()).tools}
        assert set(hints) == READING | ACTING | OPERATING and not any(hints[name].read_only_hint for name in OPERATING)
        assert {name for name, h in hints.items() if h.destructive_hint} == OPERATING - {"effect_resolve"}
        assert "UnsafeRollbackError" in await refusal(client, "rollback", target="noon")
        await ask(client, "effect_resolve", key="bell", finding="not_happened")
        head = (await ask(client, "context_status"))["status"]["head"]
        plan = await ask(client, "rollback_plan", target="noon")
        assert plan["dry_run"] and plan["verdict"]["allowed"] and plan["seq"] == head + 1
        assert "Conflict" in await refusal(client, "rollback", target="noon", expected_head=head - 1)
        assert (await ask(client, "context_status"))["status"]["head"] == head
        assert (await ask(client, "rollback", target="noon", expected_head=head))["target"] == plan["target"]
        dry = await ask(client, "prune", keep_checkpoints=0)
        assert dry["dry_run"] and dry["entries"] > 0
        planned = await ask(client, "purge", ids=["odd"])
        assert planned["turns"] == ["odd"] and len(await ask(client, "context_fetch", handle="odd")) > 0
        assert (await ask(client, "purge", ids=["odd"], dry_run=False))["finished_seq"] > 0
        assert "was purged" in await refusal(client, "context_fetch", handle="odd")
        await ask(client, "purge", ids=["u1"], dry_run=False)
        explained = await ask(client, "compaction_explain", generation=1)
        assert explained["readable"] == explained["generation"]["turns"] - 1 and explained["lost"].endswith("turns were purged")
        assert (await ask(client, "prune", keep_checkpoints=0, dry_run=False))["entries"] > 0
        told = await refusal(client, "context_fetch", handle="g1")
        assert "not_retained" in told and "was pruned" in told
        explained = await ask(client, "compaction_explain", generation=1)
        assert explained["readable"] == 0 and "was pruned" in explained["lost"] and "not retained" in explained["generation"]["why"]

    meet(over(place, "--operator"), act)
    with opened(place) as session:
        assert session.verify().clean


# --- which session, and errors -----------------------------------------------------------------------------------------


def test_each_tool_takes_the_session_by_its_name(place: Path) -> None:
    """The one that was given, the only one there, or the one that the server was started for; never a guess."""
    with opened(place) as session:
        session.fork("child").append({"role": "user", "content": "only the child knows of the lighthouse"}, id="light")

    async def unsaid(client: Client) -> None:
        told = await refusal(client, "context_status")
        assert "no_session" in told and "'agent', 'child'" in told
        assert (await ask(client, "context_status", session="child"))["status"]["session"] == "child"
        assert "unknown_session" in await refusal(client, "context_status", session="Child")
        assert (await ask(client, "effect_begin", **MAIL, session="child"))["begun"]
        assert (await ask(client, "effect_begin", **MAIL, session="agent"))["begun"], "another session, another ledger"
        assert (await ask(client, "effect_settle", key="mail:ops", state="done", session="child"))["state"] == "done"
        assert (await ask(client, "effect_lookup", key="mail:ops", session="agent"))["effect"]["state"] == "intended"

    async def given(client: Client) -> None:
        assert (await ask(client, "context_search", query="lighthouse"))["hits"][0]["id"] == "light"
        assert not (await ask(client, "context_search", query="lighthouse", session="agent"))["hits"]

    meet(over_http(place), unsaid)
    meet(over_stdio(place, "--session", "child"), given)


def test_an_error_is_readable_and_the_server_lives_on(place: Path) -> None:
    """Each family of errors, and arguments that cannot be meant: what was refused, and the way out, on one connection."""
    wrong = [
        ("context_fetch", {"handle": "g99"}, "Refused: retention refused (not_retained)", "Way out: "),
        ("context_expand", {"summary_id": ""}, "not_retained", "Way out: "),
        ("compaction_explain", {"generation": 7}, "unknown_generation", "generations run to 1"),
        ("effect_begin", {"tool": "", "args": {}, "key": "k"}, "PolicyError: emission refused (tool)", "Way out: "),
        ("effect_begin", {"tool": "t", "args": {}, "key": "@1.0"}, "is no key", "Way out: "),
        ("effect_settle", {"key": "never", "state": "done"}, "was never begun", "call effect_begin first"),
        ("rollback_plan", {"target": "nowhere"}, "unknown_target", "checkpoints are: cp"),
        ("pin", {"what": ""}, "PolicyError", "Way out: "),
        ("context_search", {"query": "x", "limit": 0}, "limit", "greater than or equal to 1"),
        ("context_fetch", {}, "handle", "required"),
    ]

    async def act(client: Client) -> None:
        for tool, arguments, *says in wrong:
            told = await refusal(client, tool, **arguments)
            assert all(part in told for part in says), told
        assert (await ask(client, "context_status"))["status"]["generation"] == 1

    meet(over_http(place), act)


def test_damage_is_an_error_of_the_tool(place: Path) -> None:
    """R59: what was altered at rest is said, not skipped; what is sound can still be asked for."""

    async def act(client: Client) -> None:
        assert (await ask(client, "context_fetch", handle="u2"))["turns"][0]["id"] == "u2"
        with sqlite3.connect(place) as db:
            forged = "CAST(replace(CAST(body AS TEXT), 'question 2', 'question 9') AS BLOB)"
            changed = db.execute(f"UPDATE entries SET body = {forged} WHERE instr(body, CAST('question 2' AS BLOB))")
            assert changed.rowcount > 0
        told = await refusal(client, "context_fetch", handle="u2")
        assert "Corrupt: altered" in told and "Way out: run `lineal verify`" in told
        health = (await ask(client, "context_status"))["health"]
        assert [row["state"] for row in health if row["name"] == "integrity"] == ["bad"]
        assert "Refused" in await refusal(client, "pin", what="a text")

    meet(over_stdio(place), act)


def test_a_server_of_ones_own_takes_the_policy_that_it_is_given(place: Path) -> None:
    """In one's own program: any transport of the SDK, here none at all; sessions as they are opened for it."""
    with lineal.connect(place) as store:
        roomy = lineal.Policy(trigger=5_000)
        with Server(store, operator=True, opened=lambda name: store.session(name, policy=roomy)) as server:

            async def act(client: Client) -> None:
                health = (await ask(client, "context_status"))["health"]
                assert "trigger 5,000" in health[0]["text"]
                await ask(client, "effect_begin", **MAIL)

            meet(Client(server.mcp), act)
            assert store.session("agent").ledger("mail:ops")[0].state == "intended"
        assert store.session("agent").ledger("mail:ops")[0].state == "unknown"
