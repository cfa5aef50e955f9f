"""The memory engine is the specification: it passes the suite that it is the first to define."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lineal.engines import open_engine
from lineal.engines.memory import MemoryEngine
from lineal.testing.engine import EngineTests, rows


class TestMemoryEngine(EngineTests):
    @pytest.fixture
    def make_engine(self) -> Callable[[], MemoryEngine]:
        """A handle on memory is the engine itself."""
        engine = MemoryEngine()
        return lambda: engine


def test_each_memory_engine_is_a_store_of_its_own() -> None:
    one, two = MemoryEngine(), open_engine("memory:")
    one.append("s", 0, rows(1, 3))
    assert isinstance(two, MemoryEngine)
    assert two.sessions() == []
