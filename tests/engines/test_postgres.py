"""PostgreSQL: the whole suite on a real server, then what only a server can do: restart, be killed, refuse a role, end a connection."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("psycopg_pool", reason="the extra `postgres` is not installed")

from lineal.engines.postgres import PostgresEngine
from lineal.testing.durable import DurableEngineTests
from lineal.testing.postgres import PostgresServer, programs

pytestmark = [
    pytest.mark.xdist_group("postgres"),
    pytest.mark.skipif(programs() is None, reason="no PostgreSQL server on this machine"),
]
NUMBER = itertools.count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def engine_url(server: PostgresServer) -> str:
    """A store of its own in the one server."""
    return server.url(schema=f"store_{next(NUMBER)}")


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
