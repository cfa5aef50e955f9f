"""The RocksDB engine: the whole suite, then what only a directory of one process can suffer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lineal.engines.rocksdb import RocksEngine
from lineal.testing.durable import DurableEngineTests


class TestRocksEngine(DurableEngineTests):
    shared = False

    @pytest.fixture
    def engine_url(self, tmp_path: Path) -> str:
        return f"rocksdb:///{tmp_path / 'store'}"

    @pytest.fixture
    def make_engine(self, engine_url: str) -> Iterator[Callable[[], RocksEngine]]:
        handles: list[RocksEngine] = []

        def make() -> RocksEngine:
            handles.append(RocksEngine.open(engine_url))
            return handles[-1]

        yield make
        for handle in handles:
            handle.close()
