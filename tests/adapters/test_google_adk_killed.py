"""kill -9 of a real Google ADK runner, wherever it changes its store and in the middle of its tool: nothing lost, nothing sent twice."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="the extra `google-adk` is not installed")
pytest.importorskip("openai", reason="ADK's client of the Responses protocol needs `openai`")

import lineal
from lineal.adapters.google_adk import LinealSessionService, name_of
from lineal.messages import parse, text_of
from lineal.testing.model_server import ModelServer

PARCELS = ["books", "tea", "a lamp", "a map"]
SCOPES = [(app, user, session) for app in ("post", "shop") for user in ("ann", "bob") for session in ("s1", "s2")] * 2
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
    program = str(Path(__file__).with_name("killed_adk.py"))
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
    def one(change: int = 0, when: str = "before", tool: str | None = None, what: str = "parcels") -> int:
        assert agents.stdin and agents.stdout
        order = {"what": what, "folder": str(tmp_path), "url": server.url, "change": change, "when": when, "tool": tool}
        agents.stdin.write(json.dumps(order) + "\n")
        agents.stdin.flush()
        return int(json.loads(agents.stdout.readline()))

    return one


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def said_until_the_kill(folder: Path) -> set[str]:
    with lineal.connect(folder / "post.db") as store:
        return {turn.id for turn in store.session(name_of("post", "ann", "s1")).turns()}


def whole(folder: Path) -> dict[str, Any]:
    """What the last life left: the log is sound, all was said once and answered, no parcel came twice. Returns the ledger's states."""
    with lineal.connect(folder / "post.db", create=False) as store:
        assert store.verify().clean
        session = store.session(name_of("post", "ann", "s1"))
        turns = session.turns()
        assert [t.id for t in turns if t.author == "user"] == [f"u{n}" for n in range(len(PARCELS))]
        assert [t.author for t in turns] == ["user", "assistant", "tool", "assistant"] * len(PARCELS)
        calls = [c.id for t in turns for c in parse(t.message).calls]
        assert calls == [r.call for t in turns for r in parse(t.message).results] == [f"call {p}" for p in PARCELS]
        assert session.status().generation > 0, "it was compacted on the way"
        states = {row.shown["parcel"]: row.state for row in session.ledger()}
    came = lines(folder / "parcels")
    assert len(came) == len(set(came)), f"delivered twice: {came}"
    assert set(came) | {p for p, state in states.items() if state == "unknown"} == set(PARCELS)
    return states


@pytest.mark.parametrize("change", [1, 2, 3, 4, 5, 6, 7, 8, 16, 27])
def test_killed_where_it_changes_its_store(live: Life, tmp_path: Path, change: int) -> None:
    """R1, R2, R30, R47: another process goes on with the invocation; what was answered is not asked again, what was done not done again."""
    assert live(change, "after" if change % 2 else "before") == KILLED
    assert said_until_the_kill(tmp_path).issuperset(lines(tmp_path / "acknowledged"))
    assert live() == 0
    assert list(whole(tmp_path).values()).count("unknown") <= 1


def test_what_was_answered_is_not_asked_again(live: Life, server: ModelServer, tmp_path: Path) -> None:
    """R2: every message is said again in another process; it is given every answer from the log, also from behind a compaction."""
    assert live() == 0
    before = len(server.asked)
    assert live() == 0
    assert len(server.asked) == before
    assert lines(tmp_path / "parcels") == PARCELS
    whole(tmp_path)


@pytest.mark.parametrize("tool", ["before", "after"])
def test_killed_in_the_middle_of_the_tool(live: Life, server: ModelServer, tmp_path: Path, tool: str) -> None:
    """R47: whether the parcel was handed over cannot be known: it is not handed over again, the ledger and the model are told so."""
    assert live(tool=tool) == KILLED
    assert lines(tmp_path / "parcels") == (["books"] if tool == "after" else [])
    before = len(server.asked)
    assert live() == 0
    assert whole(tmp_path)["books"] == "unknown"
    assert lines(tmp_path / "parcels") == ([] if tool == "before" else ["books"]) + PARCELS[1:]
    told = server.asked[before]["input"][-1]
    assert told["type"] == "function_call_output" and "lineal: not done" in told["output"] and "unknown" in told["output"]


def test_killed_again_and_again(live: Life, tmp_path: Path) -> None:
    """Five lives, each cut off a little later in its own work than the one before."""
    assert [live(change, "after") for change in (2, 3, 4, 5, 6)] == [KILLED] * 5
    assert live() == 0
    whole(tmp_path)


# --- state of apps and users ---------------------------------------------------------------------------------------------


def states(folder: Path) -> tuple[list[set[str]], list[dict[str, Any]]]:
    """Of each session: the ids of its events, and its state. Read by another process than the one that wrote them."""

    async def read() -> tuple[list[set[str]], list[dict[str, Any]]]:
        with lineal.connect(folder / "post.db") as store:
            service = LinealSessionService(store)
            found = [await service.get_session(app_name=a, user_id=u, session_id=s) for a, u, s in SCOPES[:8]]
        return [{event.id for event in one.events} if one else set() for one in found], [dict(one.state) if one else {} for one in found]

    return asyncio.run(read())


def newest(numbers: list[int], wanted: Callable[[tuple[str, str, str]], bool]) -> int | None:
    return max((n for n in numbers if wanted(SCOPES[n])), default=None)


@pytest.mark.parametrize("change", [1, 2, 3, 4, 6, 7, 23, 40, 41, 42, 43, 44, 45])
def test_state_that_was_acknowledged_with_its_event_stands(live: Life, tmp_path: Path, change: int) -> None:
    """R30: in each of three scopes. What was not acknowledged may have set the state of its app and user already, and nothing else."""
    assert live(change, "after" if change % 2 else "before", what="scopes") == KILLED
    known = [int(n) for n in lines(tmp_path / "acknowledged")]
    cut_off = len(known)
    events, state = states(tmp_path)
    for place, (app, user, session) in enumerate(SCOPES[:8]):
        mine = {f"e{n}" for n in known if SCOPES[n] == (app, user, session)}
        assert mine <= events[place] <= {*mine, f"e{cut_off}"}
        if not state[place]:
            assert not mine
            continue
        app_has, user_has = newest(known, lambda s: s[0] == app), newest(known, lambda s: s[:2] == (app, user))  # noqa: B023
        assert state[place].get("app:last") in {app_has, *([cut_off] if SCOPES[cut_off][0] == app else [])}
        assert state[place].get("user:last") in {user_has, *([cut_off] if SCOPES[cut_off][:2] == (app, user) else [])}
        assert state[place].get("last") == max((int(e[1:]) for e in events[place]), default=None), "of one transaction with its event"
    assert live(what="scopes") == 0
    events, state = states(tmp_path)
    assert [len(each) for each in events] == [2] * 8
    expected = [(newest([*range(16)], lambda s: s[0] == a), newest([*range(16)], lambda s: s[:2] == (a, u))) for a, u, _ in SCOPES[:8]]  # noqa: B023
    assert [(one["app:last"], one["user:last"]) for one in state] == expected
    assert [one["last"] for one in state] == [*range(8, 16)] and not any("temp:no" in one for one in state)
