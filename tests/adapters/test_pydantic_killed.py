"""kill -9 of a real Pydantic AI agent, wherever it changes its store and in the middle of its tool: nothing lost, nothing sent twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra `pydantic-ai` is not installed")

import lineal
from lineal.messages import text_of
from lineal.testing.lives import KILLED, PARCELS, Lives, arrived, delivered
from lineal.testing.model_server import ModelServer

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
def lives() -> Iterator[Lives]:
    with Lives(Path(__file__).with_name("killed_pydantic.py")) as lives:
        yield lives


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(courier) as server:
        yield server


@pytest.fixture
def live(lives: Lives, server: ModelServer, tmp_path: Path) -> Life:
    places = {"store": str(tmp_path / "post.db"), "parcels": str(tmp_path / "parcels"), "url": server.url}

    def one(change: int = 0, when: str = "before", tool: str | None = None, history: bool = False) -> int:
        return lives({**places, "change": change, "when": when, "tool": tool, "history": history})[0]

    return one


def whole(folder: Path) -> dict[str, str]:
    """What the last life left; it was compacted on the way. Returns the ledger's states."""
    with lineal.connect(folder / "post.db", create=False) as store:
        session = store.session("post")
        assert session.status().generation > 0
        return delivered(session, folder / "parcels")


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
    assert arrived(tmp_path / "parcels") == list(PARCELS)
    whole(tmp_path)


@pytest.mark.parametrize("history", [False, True], ids=["said again", "gone on"])
@pytest.mark.parametrize("tool", ["before", "after"])
def test_killed_in_the_middle_of_the_tool(live: Life, tmp_path: Path, tool: str, history: bool) -> None:
    """R47: whether the parcel was handed over cannot be known, so it is not handed over again, and the ledger says so."""
    assert live(tool=tool) == KILLED
    assert arrived(tmp_path / "parcels") == (["books"] if tool == "after" else [])
    assert live(history=history) == 0
    assert whole(tmp_path)["books"] == "unknown"
    assert arrived(tmp_path / "parcels") == ([] if tool == "before" else ["books"]) + ["tea", "a lamp", "a map"]


def test_killed_again_and_again(live: Life, tmp_path: Path) -> None:
    """Seven lives, each cut off a little later in its own work than the one before."""
    ended = [live(change, "after") for change in (3, 4, 5, 6, 7, 8, 9)]
    assert ended == [KILLED] * 7
    assert live() == 0
    whole(tmp_path)
