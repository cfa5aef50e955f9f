"""The PostgreSQL engine: the whole suite on a real server, then what only a server can do: go away, come back, refuse, differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lineal.engines.postgres import PostgresEngine
from lineal.errors import Unavailable
from lineal.testing.durable import DurableEngineTests
from lineal.testing.postgres import PostgresServer


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    try:
        server = PostgresServer()
    except Unavailable as e:
        pytest.skip(str(e))
    with server:
        yield server


@pytest.fixture
def engine_url(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A schema that is not there yet."""
    name = f"t{abs(hash(request.node.nodeid)):x}"
    yield server.url(schema=name)
    with server.connect() as admin:
        admin.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")  # type: ignore[call-overload]


@pytest.fixture
def make_engine(engine_url: str) -> Iterator[Callable[[], PostgresEngine]]:
    handles: list[PostgresEngine] = []

    def make() -> PostgresEngine:
        handles.append(PostgresEngine.open(engine_url))
        return handles[-1]

    yield make
    for handle in handles:
        handle.close()


class TestPostgresEngine(DurableEngineTests):
    """E1 to E9."""
