"""The engine in Cassandra's format: the whole suite, then what only a directory of one process can suffer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lineal.engines.cassandra import CassandraEngine
from lineal.testing.durable import DurableEngineTests


class TestCassandraEngine(DurableEngineTests):
    shared = False

    @pytest.fixture
    def engine_url(self, tmp_path: Path) -> str:
        return f"cassandra:///{tmp_path / 'store'}"

    @pytest.fixture
    def make_engine(self, engine_url: str) -> Iterator[Callable[[], CassandraEngine]]:
        handles: list[CassandraEngine] = []

        def make() -> CassandraEngine:
            handles.append(CassandraEngine.open(engine_url))
            return handles[-1]

        yield make
        for handle in handles:
            handle.close()
