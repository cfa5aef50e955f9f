"""Files of a stopped server that were damaged: what is read afterwards is whole, or named as damaged; never a shorter history."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lineal.engines.postgres import PostgresEngine
from lineal.errors import Corrupt, Unavailable
from lineal.testing.engine import row
from lineal.testing.postgres import PostgresServer

PAGE = 8192
WRITTEN = [row(n, b"x%d" % n * 60, unique=f"u{n}", keys=("k", f"k{n % 10}")) for n in range(1, 1501)]


@dataclass
class Store:
    """A server with one log, and the questions whose true answers are known."""

    server: PostgresServer
    url: str
    files: dict[str, Path]
    amcheck: bool  # without it a damaged page of an index that no question leads to is not found

    def answers(self, engine: PostgresEngine) -> Iterator[tuple[str, Callable[[], Any], Any]]:
        yield "scan", lambda: list(engine.scan("s")), WRITTEN
        yield "tail", lambda: list(engine.scan("s", 1400)), WRITTEN[1400:]
        yield "part", lambda: list(engine.scan("s", 100, 1200)), WRITTEN[100:1200]
        yield "kinds", lambda: [r.seq for r in engine.scan("s", kinds=["turn"])], [r.seq for r in WRITTEN]
        yield "find", lambda: [r.seq for r in engine.find("s", "k3")], list(range(1493, 0, -10))
        yield "sessions", lambda: engine.sessions(), [*sorted(f"other-{n}" for n in range(400)), "s"]
        yield "head", lambda: engine.append("s", 1500, []), None
        yield "state", lambda: engine.state("s"), (1500, b"state" * 4000)


@pytest.fixture(scope="module")
def damaged(own_server: PostgresServer) -> Store:
    url = own_server.url(wait="5")
    engine = PostgresEngine.open(url)
    engine.append("s", 0, WRITTEN)
    engine.put_state("s", 1500, b"state" * 4000)
    for n in range(400):
        engine.append(f"other-{n}", 0, [row(1)])
    engine.close()
    with own_server.connect() as admin:
        admin.execute("VACUUM FULL lineal.sessions")  # no room of old versions at its end
        amcheck = bool(admin.execute("SELECT FROM pg_available_extensions WHERE name = 'amcheck'").fetchall())
        if amcheck:
            admin.execute("CREATE EXTENSION amcheck")
        files = {
            str(name): own_server.data / str(path)
            for name, path in admin.execute(
                "SELECT relname, pg_relation_filepath(oid) FROM pg_class WHERE relnamespace = 'lineal'::regnamespace"
            ).fetchall()
        }
    return Store(own_server, url, files, amcheck)


def flip(path: Path) -> None:
    """One bit, in what stands in the middle page."""
    data = bytearray(path.read_bytes())
    data[len(data) // PAGE // 2 * PAGE + PAGE - 500] ^= 0x10
    path.write_bytes(data)


def cut(path: Path) -> None:
    """The second half of its pages, one at least."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // PAGE // 2 * PAGE])


def remove(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}.away"))


@pytest.mark.parametrize("how", [flip, cut, remove])
@pytest.mark.parametrize("relation", ["entries", "sessions", "entries_pkey", "entries_key1", "sessions_name", "states"])
def test_damage_is_named_and_no_history_is_shorter(damaged: Store, relation: str, how: Callable[[Path], None]) -> None:
    """R6, R30, E4, E9: a flipped bit, a cut file, a missing file; table and index. Whatever is answered is the truth."""
    path = damaged.files[relation]
    damaged.server.stop()
    whole, owner = path.read_bytes(), path.stat()
    try:
        how(path)
        damaged.server.start()
        named = _ask_all(damaged)
    finally:
        if damaged.server.postmaster:
            damaged.server.stop("immediate")
        path.write_bytes(whole)
        os.chown(path, owner.st_uid, owner.st_gid)
        damaged.server.start()
    assert named or (not damaged.amcheck and "_" in relation), f"nothing named the damage of {relation}"


def _ask_all(damaged: Store) -> list[str]:
    """Ask every question. What is not answered by the truth must be refused with a name; which were."""
    named = []
    try:
        engine = PostgresEngine.open(damaged.url, create=False)
    except (Corrupt, Unavailable) as e:
        return [str(e)]
    for what, ask, truth in damaged.answers(engine):
        try:
            found = ask()
        except (Corrupt, Unavailable) as e:
            named.append(f"{what}: {e}")
            continue
        assert found == truth, f"{what} answered something else than the truth"
    named += engine.check()
    engine.close()
    return named
