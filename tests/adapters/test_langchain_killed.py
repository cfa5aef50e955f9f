"""kill -9 of a real LangGraph agent, wherever it changes its store and in the middle of its tool: nothing lost, nothing sent twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("langchain.agents", reason="the extra `langchain` is not installed")

import lineal
from lineal.messages import text_of
from lineal.testing.lives import KILLED, Lives, arrived, delivered

Life = Callable[..., int]


@pytest.fixture(scope="module")
def lives() -> Iterator[Lives]:
    with Lives(Path(__file__).with_name("killed_agent.py")) as lives:
        yield lives


@pytest.fixture
def live(lives: Lives, tmp_path: Path) -> Life:
    places = {"store": str(tmp_path / "post.db"), "parcels": str(tmp_path / "parcels")}

    def one(change: int = 0, when: str = "before", tool: str | None = None, durability: str = "sync") -> int:
        return lives({**places, "change": change, "when": when, "tool": tool, "durability": durability})[0]

    return one


def whole(folder: Path) -> dict[str, str]:
    """What the last life left; it was compacted on the way. Returns the ledger's states."""
    with lineal.connect(folder / "post.db", create=False) as store:
        session = store.session("post")
        assert session.status().generation > 0
        assert all(text_of(turn.message) for turn in session.turns())
        return delivered(session, folder / "parcels")


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
    assert arrived(tmp_path / "parcels") == (["books"] if tool == "after" else [])
    assert live() == 0
    assert whole(tmp_path)["books"] == "unknown"
    assert arrived(tmp_path / "parcels") == ([] if tool == "before" else ["books"]) + ["tea", "a lamp", "a map"]


def test_killed_again_and_again(live: Life, tmp_path: Path) -> None:
    """Seven lives, each cut off a little later in its own work than the one before."""
    ended = [live(change, "after") for change in (3, 5, 7, 9, 11, 13, 17)]
    assert ended == [KILLED] * 7
    assert live() == 0
    whole(tmp_path)
