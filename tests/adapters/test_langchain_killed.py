"""kill -9 of a real LangGraph agent, wherever it changes its store and in the middle of its tool: nothing lost, nothing sent twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain.agents", reason="the extra `langchain` is not installed")

import lineal
from lineal.messages import parse, text_of

PARCELS = ["books", "tea", "a lamp", "a map"]
KILLED = 9
Life = Callable[..., int]


@pytest.fixture(scope="module")
def agents() -> Iterator[subprocess.Popen[str]]:
    """A process that has everything imported and forks one agent a life."""
    program = str(Path(__file__).with_name("killed_agent.py"))
    process = subprocess.Popen([sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    assert process.stdin
    process.stdin.close()
    process.wait(30)


@pytest.fixture
def live(agents: subprocess.Popen[str], tmp_path: Path) -> Life:
    def one(change: int = 0, when: str = "before", tool: str | None = None, durability: str = "sync") -> int:
        places = {"store": str(tmp_path / "post.db"), "parcels": str(tmp_path / "parcels")}
        assert agents.stdin and agents.stdout
        agents.stdin.write(json.dumps({**places, "change": change, "when": when, "tool": tool, "durability": durability}) + "\n")
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
        assert all(text_of(t.message) for t in turns)
        assert session.status().generation > 0, "it was compacted on the way"
        states = {row.shown["parcel"]: row.state for row in session.ledger()}
    came = arrived(folder)
    assert len(came) == len(set(came)), f"delivered twice: {came}"
    assert set(came) | {p for p, state in states.items() if state == "unknown"} == set(PARCELS)
    return states


@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize("change", [1, 4, 6, 8, 9, 10, 12, 15, 22, 31, 40, 52])
def test_killed_where_it_changes_its_store(live: Life, tmp_path: Path, change: int, durability: str) -> None:
    """R1, R30, R47."""
    when = "after" if change % 2 else "before"
    assert live(change, when, durability=durability) == KILLED
    assert live(durability=durability) == 0
    states = whole(tmp_path)
    assert list(states.values()).count("unknown") <= 1


@pytest.mark.parametrize("tool", ["before", "after"])
def test_killed_in_the_middle_of_the_tool(live: Life, tmp_path: Path, tool: str) -> None:
    """R47: whether the parcel was handed over cannot be known, so it is not handed over again, and the ledger says so."""
    assert live(tool=tool) == KILLED
    assert arrived(tmp_path) == (["books"] if tool == "after" else [])
    assert live() == 0
    assert whole(tmp_path)["books"] == "unknown"
    assert arrived(tmp_path) == ([] if tool == "before" else ["books"]) + ["tea", "a lamp", "a map"]


def test_killed_again_and_again(live: Life, tmp_path: Path) -> None:
    """Seven lives, each cut off a little later in its own work than the one before."""
    ended = [live(change, "after") for change in (3, 5, 7, 9, 11, 13, 17)]
    assert ended == [KILLED] * 7
    assert live() == 0
    whole(tmp_path)
