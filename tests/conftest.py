"""Fixtures for every test: where a store may lie, a store and a session to work on, and where the real transcripts are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

with suppress(ImportError):  # what it starts writes to the stderr that stands when it is imported: not to one of click's test runner
    import mcp.client.stdio  # noqa: F401

from lineal.engines.memory import MemoryEngine
from lineal.entries import Turn
from lineal.holder import release
from lineal.policy import Policy
from lineal.session import Session
from lineal.store import Store, connect
from lineal.summarizers import SummaryRequest

pytest.register_assert_rewrite("lineal.testing.engine", "lineal.testing.durable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-stories", action="store_true", help="write what the stories print into their files")


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Have a text printed at the end of the run, whichever worker the test ran in."""
    return lambda text: record_property("told", text)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for report in (r for reports in terminalreporter.stats.values() for r in reports):
        if getattr(report, "when", "") == "call":
            for name, text in report.user_properties:
                if name == "told":
                    terminalreporter.write_line(str(text))


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """A file that is not there yet."""
    return tmp_path / "agent.db"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The real transcripts, in `shared/data` beside the checkout."""
    found = Path(__file__).parents[2] / "shared" / "data"
    if not found.is_dir():
        pytest.skip(f"no transcripts at {found}: this test reads real ones")
    return found


# --- a small story -----------------------------------------------------------------------------------------------------


class Say:
    """Messages of about 60 tokens each, in the openai dialect."""

    @staticmethod
    def user(n: int, text: str = "") -> dict[str, Any]:
        return {"role": "user", "content": f"request {n}: " + (text or f"please look at part {n} of the plan, slowly; " * 4)}

    @staticmethod
    def answer(n: int, text: str = "") -> dict[str, Any]:
        return {"role": "assistant", "content": f"answer {n}: " + (text or f"part {n} was read, and it looks sound; " * 4)}

    @staticmethod
    def call(*ids: str, tool: str = "look", args: Any = None) -> dict[str, Any]:
        held = {"name": tool, "arguments": json.dumps({} if args is None else args)}
        return {"role": "assistant", "content": None, "tool_calls": [{"id": id, "type": "function", "function": held} for id in ids]}

    @staticmethod
    def result(id: str, text: str = "", **more: Any) -> dict[str, Any]:
        return {
            "role": "tool",
            "tool_call_id": id,
            "content": text or f"result of {id}: " + "one more line of what was found; " * 4,
            **more,
        }

    def dialogue(self, count: int, start: int = 0) -> list[dict[str, Any]]:
        """A user and an assistant in turn."""
        return [self.answer(n) if n % 2 else self.user(n) for n in range(start, start + count)]


@pytest.fixture(scope="session")
def say() -> Say:
    return Say()


@pytest.fixture(scope="session")
def brief() -> Callable[[SummaryRequest], str]:
    """An honest summarizer in one line."""

    def summarize(request: SummaryRequest) -> str:
        return f"The work up to {request.turns[-1].id} in brief: {len(request.turns)} turns, the plan was read part by part."

    return summarize


# --- stores ------------------------------------------------------------------------------------------------------------


class House:
    """One store that can be opened by several handles and opened again. `path` is None for one in memory."""

    def __init__(self, path: Path | None, summarizer: Any):
        self.path, self.summarizer = path, summarizer
        self.memory = MemoryEngine() if path is None else None
        self.policy = Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4, summary_max_tokens=200)
        self.stores: list[Store] = []

    def open(self, **options: Any) -> Store:
        """One more handle, as another process would have it."""
        store = connect(self.path, **options) if self.path else Store(self.memory, **options)
        self.stores.append(store)
        return store

    def session(self, name: str = "agent", policy: Policy | None = None, **options: Any) -> Session:
        """A session through a handle of its own."""
        return self.open(**options).session(name, policy or self.policy, self.summarizer)

    def close(self) -> None:
        """Close every handle; what is in memory stays there for the next."""
        for store in self.stores:
            if self.path:
                store.close()
            release(store.holder)
        self.stores.clear()

    def reopen(self, session: Session) -> Session:
        """The session as a new process would find it."""
        self.close()
        return self.session(session.name, session.policy)


@pytest.fixture(params=["memory", "sqlite"])
def house(request: pytest.FixtureRequest, tmp_path: Path, brief: Any) -> Iterator[House]:
    made = House(tmp_path / "house.db" if request.param == "sqlite" else None, brief)
    yield made
    made.close()


@pytest.fixture
def memory_house(brief: Any) -> Iterator[House]:
    """For what no engine can change."""
    made = House(None, brief)
    yield made
    made.close()


@pytest.fixture
def file_house(tmp_path: Path, brief: Any) -> Iterator[House]:
    """For what only a file can suffer."""
    made = House(tmp_path / "house.db", brief)
    yield made
    made.close()


@pytest.fixture
def session(house: House) -> Session:
    """An empty session of a small policy, on either engine."""
    return house.session()


@pytest.fixture
def fill(say: Say) -> Callable[..., list[Turn]]:
    """Append a dialogue of `count` turns with the ids `t0`, `t1`, ...; even ones are a user's."""

    def append(session: Session, count: int, start: int = 0) -> list[Turn]:
        return session.append(say.dialogue(count, start), id=[f"t{n}" for n in range(start, start + count)])

    return append
