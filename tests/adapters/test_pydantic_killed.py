"""kill -9 of a real Pydantic AI agent, wherever it changes its store and in the middle of its tool: nothing lost, nothing sent twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `pydantic-ai` is not installed")

import lineal
from lineal.messages import parse, text_of
from lineal.testing.model_server import ModelServer

PARCELS = ["books", "tea", "a lamp", "a map"]
KILLED = 9
Life = Callable[..., int]


def courier(messages: list[dict[str, Any]]) -> dict[str, Any]:
    last = messages[-1]
    if last["role"] == "tool":
        return {"role": "assistant", "content": f"Done: {text_of(last)}"}
    words = text_of(last)
    parcel = words[words.rindex("deliver ") + len("deliver ") :].partition(".")[0]
    function = {"name": "deliver", "arguments": json.dumps({"parcel": parcel})}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": f"call {parcel}", "type": "function", "function": function}]}


@pytest.fixture(scope="module")
def agents() -> Iterator[subprocess.Popen[str]]:
    """A process that has everything imported and forks one agent a life."""
    program = str(Path(__file__).with_name("killed_pydantic.py"))
    process = subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    assert process.stdin
    process.stdin.close()
    process.wait(30)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(courier) as server:
        yield server


@pytest.fixture
def live(agents: subprocess.Popen[str], server: ModelServer, tmp_path: Path) -> Life:
    def one(change: int = 0, when: str = "before", tool: str | None = None, history: bool = False) -> int:
        places = {"store": str(tmp_path / "post.db"), "parcels": str(tmp_path / "parcels"), "url": server.url}
        assert agents.stdin and agents.stdout
        agents.stdin.write(json.dumps({**places, "change": change, "when": when, "tool": tool, "history": history}) + "\n")
        agents.stdin.flush()
        return int(json.loads(agents.stdout.readline()))

    return one


def arrived(folder: Path) -> list[str]:
    path = folder / "parcels"
    return path.read_text().splitlines() if path.exists() else []


def whole(folder: Path) -> dict[str, Any]:
    """What the last life left: the log is sound, all was said once and answered, no parcel came twice. Returns the ledger's states."""
    with lineal.connect(folder / "post.db", create=False) as store:
        assert store.verify().clean
        session = store.session("post")
        turns = session.turns()
        assert [t.id for t in turns if t.author == "user"] == [f"u{n}" for n in range(len(PARCELS))]
        assert [t.author for t in turns] == ["user", "assistant", "tool", "assistant"] * len(PARCELS)
        calls = [c.id for t in turns for c in parse(t.message).calls]
        assert calls == [r.call for t in turns for r in parse(t.message).results] == [f"call {p}" for p in PARCELS]
        assert session.status().generation > 0, "it was compacted on the way"
        states = {row.shown["parcel"]: row.state for row in session.ledger()}
    came = arrived(folder)
    assert len(came) == len(set(came)), f"delivered twice: {came}"
    assert set(came) | {p for p, state in states.items() if state == "unknown"} == set(PARCELS)
    return states


AGAIN = [(change, False) for change in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 24, 33)]
GONE_ON = [(change, True) for change in (3, 4, 6, 8, 9)]


@pytest.mark.parametrize(("change", "history"), AGAIN + GONE_ON)
def test_killed_where_it_changes_its_store(live: Life, tmp_path: Path, change: int, history: bool) -> None:
    """R1, R2, R30, R47: each run is made again under its id; what was answered is not asked again, what was done not done again."""
    when = "after" if change % 2 else "before"
    assert live(change, when) == KILLED
    assert live(history=history) == 0
    states = whole(tmp_path)
    assert list(states.values()).count("unknown") <= 1


def test_what_was_answered_is_not_asked_again(live: Life, server: ModelServer, tmp_path: Path) -> None:
    """R2: every run is repeated in another process; it gets every answer from the log, also from behind a compaction."""
    assert live() == 0
    before = len(server.asked)
    assert live() == 0
    assert len(server.asked) == before
    assert arrived(tmp_path) == PARCELS
    whole(tmp_path)


@pytest.mark.parametrize("history", [False, True], ids=["said again", "gone on"])
@pytest.mark.parametrize("tool", ["before", "after"])
def test_killed_in_the_middle_of_the_tool(live: Life, tmp_path: Path, tool: str, history: bool) -> None:
    """R47: whether the parcel was handed over cannot be known, so it is not handed over again, and the ledger says so."""
    assert live(tool=tool) == KILLED
    assert arrived(tmp_path) == (["books"] if tool == "after" else [])
    assert live(history=history) == 0
    assert whole(tmp_path)["books"] == "unknown"
    assert arrived(tmp_path) == ([] if tool == "before" else ["books"]) + ["tea", "a lamp", "a map"]


def test_killed_again_and_again(live: Life, tmp_path: Path) -> None:
    """Seven lives, each cut off a little later in its own work than the one before."""
    ended = [live(change, "after") for change in (3, 4, 5, 6, 7, 8, 9)]
    assert ended == [KILLED] * 7
    assert live() == 0
    whole(tmp_path)
