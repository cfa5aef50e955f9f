"""What an audit says of a LangGraph store in PostgreSQL: a server of the test's own, written by LangGraph's own checkpointer."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import psycopg
import pytest
from click.testing import CliRunner
from langchain_core.messages import AnyMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import _messages_delta_reducer

from lineal.audit import audit, audit_paths
from lineal.cli import cli
from lineal.errors import PolicyError, Unavailable
from lineal.testing.postgres import PostgresServer, programs
from lineal.transcripts import Boundary, Record, conversations, detect, read


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    try:
        programs()
    except Unavailable as e:
        pytest.skip(str(e))
    with PostgresServer(fsync=False) as server:
        yield server


@pytest.fixture
def url(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of an empty database, with a password that the server does not ask for."""
    name = f"t{abs(hash(request.node.name))}"
    with server.connect() as admin:
        admin.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
        yield f"postgresql://tester:secret-word@127.0.0.1:{server.port}/{name}"
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[call-overload]


@pytest.fixture
def agents(url: str, graphs_over: Callable[[Any], Any]) -> Iterator[Any]:
    with PostgresSaver.from_conn_string(url) as saver:
        saver.setup()
        yield graphs_over(saver)


def told(path: Any) -> list[Any]:
    """What a store says, without ids and times."""
    return [
        (i.line, i.author, i.message) if isinstance(i, Record) else (i.line, i.kind, i.summary, len(i.detail["view_ids"]))
        for i in read(path)
        if isinstance(i, Record | Boundary)
    ]


def test_the_same_talk_in_postgresql_and_in_sqlite_gives_the_same_report(agents: Any, graphs: Any, store: Path, url: str) -> None:
    for one in (agents, graphs):
        answers = [one.mail("c1"), "Done.", "Yes.", one.mail("c2"), "Sent."]
        one.run(answers, ["Never touch the staging bucket. Ticket OPS-12.", "And?", "Send it."], one.summaries())
    assert detect(url) == "langgraph" and conversations(url) == ["t"]
    assert told(url) == told(store)
    there, here = audit(url), audit(store)
    assert [f.kind for f in there.findings] == [f.kind for f in here.findings] and there.count("high") == 2
    assert len(there.compactions) == 3


def test_nothing_is_written_to_the_database_and_no_password_is_shown(agents: Any, url: str) -> None:
    agents.run([agents.mail("c1"), "Done."], ["Send it."])

    def contents() -> list[Any]:
        with psycopg.connect(url) as reader:
            tables = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations")
            writes = reader.execute("SELECT pg_current_wal_lsn(), txid_snapshot_xmax(txid_current_snapshot())").fetchall()
            rows = [reader.execute(f"SELECT * FROM {t} ORDER BY 1, 2, 3").fetchall() for t in tables[:3]]  # type: ignore[call-overload]
            return [writes, *rows]

    before = contents()
    said = [CliRunner().invoke(cli, ["audit", url, *more], catch_exceptions=False) for more in ([], ["--json"])]
    after = contents()
    assert after[1:] == before[1:] and after[0][0][1] == before[0][0][1], "a transaction was given a number: something was written"
    assert all(result.exit_code == 0 and "secret-word" not in result.output and "127.0.0.1" in result.output for result in said)


def test_a_graph_that_goes_on_meanwhile_is_read_as_of_one_moment(agents: Any, url: str) -> None:
    agent = agents.run(["One."], ["First."])
    items = read(url)
    first = next(items)
    agent.invoke({"messages": [("user", "Second.")]}, agents.CONFIG)
    assert len([first, *items]) == 2 and len(list(read(url))) == 4


@pytest.mark.parametrize(
    ("statement", "kind", "said"),
    [
        ("DELETE FROM checkpoint_blobs WHERE channel = 'messages' AND version LIKE '%00000003.%'", "damaged", "is not in the store"),
        (
            "UPDATE checkpoint_blobs SET blob = substr(blob, 1, 30) WHERE channel = 'messages' AND version LIKE '%00000003.%'",
            "damaged",
            "cannot be decoded",
        ),
        (
            "UPDATE checkpoint_blobs SET type = 'pickle' WHERE channel = 'messages' AND version LIKE '%00000003.%'",
            "damaged",
            "never opened",
        ),
        (
            "UPDATE checkpoints SET checkpoint = '[]' WHERE checkpoint ->> 'id' = (SELECT max(checkpoint_id) FROM checkpoints)",
            "damaged",
            "no checkpoint",
        ),
        ("DELETE FROM checkpoints WHERE metadata ->> 'step' = '1'", "lost_record", "the parent of this checkpoint"),
    ],
)
def test_what_is_gone_or_ruined_is_named(agents: Any, url: str, statement: str, kind: str, said: str) -> None:
    agents.run([agents.mail("c1"), "Done.", "Yes."], ["Send it.", "And?"])
    with psycopg.connect(url, autocommit=True) as owner:
        assert owner.execute(statement).rowcount > 0  # type: ignore[call-overload]
    found = [f for f in audit(url).findings if f.kind == kind]
    assert found and said in found[0].text and "Checkpoint" in found[0].text


def test_a_server_that_does_not_answer_and_a_database_of_somebody_else(url: str) -> None:
    with pytest.raises(PolicyError, match="lacks the tables checkpoints") as refused:
        audit(url)
    assert "secret-word" not in str(refused.value)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    nobody = f"postgresql://tester:secret-word@127.0.0.1:{port}/x"
    with pytest.raises(Unavailable) as down:
        audit(nobody)
    assert "secret-word" not in str(down.value)
    skipped = audit_paths([nobody, url])
    assert [a.skipped != "" for a in skipped] == [True, True] and "secret-word" not in str(skipped)


class Differences(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=4)]


def test_a_channel_that_stores_differences_is_put_together_from_the_writes(agents: Any, url: str) -> None:
    graph: Any = StateGraph(Differences)
    graph.add_node("answer", lambda state: {"messages": [("ai", f"Answer {len(state['messages'])}.")]})
    graph.add_edge(START, "answer")
    talk = graph.compile(checkpointer=agents.saver)
    for n in range(5):
        talk.invoke({"messages": [("user", f"Question {n}.")]}, agents.CONFIG)
    held = [m.content for m in talk.get_state(agents.CONFIG).values["messages"]]
    items = list(read(url))
    assert [i.message["content"][0]["text"] for i in items if isinstance(i, Record)] == held and len(items) == len(held) == 10
