"""The port's own words: which engine a URL names, and what every engine refuses before it looks at its store."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import pytest

from lineal.engines import Engine, open_engine, refuse_unless_following
from lineal.engines.memory import MemoryEngine
from lineal.engines.sqlite import SqliteEngine
from lineal.errors import PolicyError, Unavailable
from lineal.testing.engine import row, rows


def test_a_url_names_its_engine(store_path: Path) -> None:
    assert isinstance(open_engine("memory:"), MemoryEngine)
    for url in (str(store_path), f"sqlite:///{store_path}", f"file://{store_path}"):
        engine = open_engine(url)
        assert isinstance(engine, SqliteEngine) and isinstance(engine, Engine)
        engine.close()


def test_an_unknown_scheme_is_unavailable_and_lists_what_there_is() -> None:
    with pytest.raises(Unavailable, match="unknown scheme 'postgresq'.*use a file path, memory:"):
        open_engine("postgresq://host/db")


def test_an_installed_engine_is_found_by_its_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third party's engine needs an entry point and nothing else."""
    opened: list[tuple[str, bool]] = []

    class Point:
        name = "mine"

        @staticmethod
        def load() -> Any:
            def open_mine(url: str, create: bool) -> Engine:
                opened.append((url, create))
                return MemoryEngine()

            return open_mine

    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [Point] if group == "lineal.engines" else [])
    assert isinstance(open_engine("mine://place", create=False), MemoryEngine)
    assert opened == [("mine://place", False)]


def test_a_batch_follows_the_head_it_names() -> None:
    """E2: told with both numbers."""
    refuse_unless_following(7, rows(8, 3))
    refuse_unless_following(7, [])
    with pytest.raises(PolicyError, match="seq 9 stands where seq 8 must follow"):
        refuse_unless_following(7, rows(9, 1))
    with pytest.raises(PolicyError, match="3 lookup keys, 2 is the most"):
        refuse_unless_following(0, [row(1, keys=("a", "b", "c"))])
