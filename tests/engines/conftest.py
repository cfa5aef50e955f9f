from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lineal.engines.postgres import PostgresEngine
from lineal.errors import Unavailable
from lineal.testing.postgres import PostgresServer, programs


@pytest.fixture(scope="session")
def postgres_programs() -> None:
    """Skips where no PostgreSQL server can run."""
    try:
        programs()
    except Unavailable as e:
        pytest.skip(str(e))


@pytest.fixture(scope="session")
def server(postgres_programs: None) -> Iterator[PostgresServer]:
    """One server for all tests that leave it as they found it. It is durable: fsync is on."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="module")
def own_server(postgres_programs: None) -> Iterator[PostgresServer]:
    """A server of the module's own, to be killed and damaged."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def schema(request: pytest.FixtureRequest) -> str:
    """A name of the test's own."""
    return f"t{abs(hash(request.node.nodeid)):x}"


@pytest.fixture
def postgres_url(server: PostgresServer, schema: str) -> Iterator[str]:
    """A schema that is not there yet."""
    yield server.url(schema=schema)
    with server.connect() as admin:
        admin.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")  # type: ignore[call-overload]


@pytest.fixture
def open_postgres() -> Iterator[Callable[..., PostgresEngine]]:
    """`PostgresEngine.open`; what it opened is closed when the test ends."""
    handles: list[PostgresEngine] = []

    def make(url: str, create: bool = True) -> PostgresEngine:
        handles.append(PostgresEngine.open(url, create))
        return handles[-1]

    yield make
    for handle in handles:
        handle.close()
