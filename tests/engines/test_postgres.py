"""PostgreSQL: the whole suite on a real server, then what only a server can do: restart, be killed, refuse a role, end a connection."""

from __future__ import annotations

import itertools
import os
import random
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("psycopg_pool", reason="the extra `postgres` is not installed")

import psycopg

import lineal
from lineal.engines import open_engine
from lineal.engines.postgres import PostgresEngine
from lineal.errors import Conflict, Corrupt, Unavailable
from lineal.session.verification import Reports
from lineal.testing.durable import DurableEngineTests
from lineal.testing.engine import append_with_retries, is_one_order, refusal, row, rows
from lineal.testing.failover import failover, told
from lineal.testing.mirror import mirrored
from lineal.testing.postgres import PostgresServer, free_port, programs

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


def test_the_same_life_on_memory(server: PostgresServer) -> None:
    """E2 to E9."""
    mirrored(lambda: server.url(schema=f"store_{next(NUMBER)}"), lives=12, steps=30)


# --- what a URL may say ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["wait=soon", "wait=-1", "pool=0", "durable=no", "nonsense=1"])
def test_an_option_that_is_none_is_refused_by_name(server: PostgresServer, option: str) -> None:
    """E9: before anything is connected."""
    with pytest.raises(Unavailable, match=option.partition("=")[0]):
        open_engine(f"{server.url()}?{option}")


def test_the_password_is_in_nothing_that_is_said(server: PostgresServer) -> None:
    """Neither in a status, nor in an error, nor in a traceback's variables."""
    url = server.url(schema=f"store_{next(NUMBER)}").replace("tester@", "tester:s3cr%2Ft@")
    engine = PostgresEngine.open(url)
    assert "s3cr" not in f"{engine.status()} {engine.path} {engine._place!r}"
    engine.close()
    with pytest.raises(Unavailable) as refused:
        open_engine(f"{url.replace(str(server.port), str(free_port()))}&wait=0.2")
    assert "s3cr" not in str(refused.value) and "refused" in str(refused.value)


def test_a_server_that_is_not_there_is_waited_for_and_told() -> None:
    """E9, R37: by a deadline."""
    with pytest.raises(Unavailable, match="waited up to 0.3 s.*check that the server runs"):
        open_engine(f"postgresql://tester@127.0.0.1:{free_port()}/postgres?wait=0.3")


def test_a_server_that_acknowledges_too_early_is_refused() -> None:
    """E1: unless it is said that nothing needs to last."""
    with PostgresServer(fsync=False) as careless:
        with pytest.raises(Unavailable, match="fsync and full_page_writes off"):
            open_engine(careless.url())
        engine = open_engine(careless.url(durable="any"))
        assert engine.status()["fsync"] == "off"
        engine.close()


def test_a_role_that_commits_without_the_disk_is_made_to_wait_for_it(server: PostgresServer, engine_url: str) -> None:
    """E1: `synchronous_commit` is anybody's to set; what the role has as its default is not taken over."""
    with psycopg.connect(server.url(), autocommit=True) as db:
        db.execute("ALTER ROLE tester SET synchronous_commit = off")
        try:
            engine = PostgresEngine.open(engine_url)
            assert engine.status()["synchronous_commit"] == "on"
            engine.close()
        finally:
            db.execute("ALTER ROLE tester RESET synchronous_commit")


# --- the schema --------------------------------------------------------------------------------------------------------


def test_many_that_find_nothing_make_one_schema(engine_url: str) -> None:
    """E8: the migrations run once, under a lock."""
    with ThreadPoolExecutor(6) as pool:
        engines = list(pool.map(lambda _: PostgresEngine.open(engine_url), range(6)))
    engines[0].append("s", 0, rows(1, 2))
    assert [len(list(engine.scan("s"))) for engine in engines] == [2] * 6
    for engine in engines:
        engine.close()


def test_a_newer_format_is_left_alone(server: PostgresServer, engine_url: str) -> None:
    """R57."""
    PostgresEngine.open(engine_url).close()
    schema = engine_url.rpartition("=")[2]
    with psycopg.connect(server.url(), autocommit=True) as db:
        db.execute(f"INSERT INTO {schema}.migrations(version) VALUES (99)")
        with pytest.raises(Unavailable, match="its format is 99, this lineal knows"):
            open_engine(engine_url)


def test_a_role_needs_no_more_than_it_is_granted(server: PostgresServer, engine_url: str) -> None:
    """A writer that owns nothing: it appends, reads, erases and deletes; it cannot make a store, and says what would let it in."""
    schema = engine_url.rpartition("=")[2]
    PostgresEngine.open(engine_url).close()
    theirs = engine_url.replace("tester@", f"writer_{schema}@")
    with psycopg.connect(server.url(), autocommit=True) as db:
        db.execute(f"CREATE ROLE writer_{schema} LOGIN")
        with pytest.raises(Unavailable, match="PostgresEngine.grants"):
            open_engine(theirs)
        for statement in PostgresEngine.grants(schema, f"writer_{schema}"):
            db.execute(statement)
    with lineal.connect(theirs) as store:
        session = store.session("agent")
        session.append([{"role": "user", "content": f"turn {n}"} for n in range(4)], id=[f"u{n}" for n in range(4)])
        session.checkpoint("here")
        session.purge(["u1"])
        assert session.verify().clean and store.sessions() == ["agent"]
        store.delete("agent")
        assert store.sessions() == []
    with pytest.raises(Unavailable, match="permission denied"):
        open_engine(theirs.replace(schema, "elsewhere").replace("writer_elsewhere", f"writer_{schema}"))


# --- connections that end ----------------------------------------------------------------------------------------------


def end_all_others(server: PostgresServer) -> None:
    with psycopg.connect(server.url(), autocommit=True) as db:
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


def test_a_connection_that_was_ended_is_made_anew(server: PostgresServer, engine_url: str) -> None:
    """R1, E9: for every verb; nothing is lost, nothing twice."""
    with lineal.connect(engine_url) as store:
        session = store.session("agent")
        for n in range(6):
            session.append({"role": "user", "content": f"turn {n}"}, id=f"u{n}")
            end_all_others(server)
            assert [t.id for t in session.turns()] == [f"u{k}" for k in range(n + 1)]
            end_all_others(server)
        assert session.verify().clean


def test_a_server_that_was_restarted_is_waited_for(engine_url: str) -> None:
    """R37: whoever appends meanwhile waits, and is served."""
    with PostgresServer() as server, lineal.connect(server.url(wait=60)) as store:
        session = store.session("agent")
        session.append({"role": "user", "content": "before"}, id="u0")
        server.kill9()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(session.append, {"role": "user", "content": "meanwhile"}, id="u1")
            server.start()
            waiting.result()
        assert [t.id for t in session.turns()] == ["u0", "u1"] and session.verify().clean


class Proxy:
    """Stands between an engine and its server; `deaf`: the next answer is not handed on, and the connection ends."""

    def __init__(self, port: int):
        self.port, self.deaf, self._to = free_port(), False, port
        self._server = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                threading.Thread(target=self._pump, args=(near, far, False), daemon=True).start()
                threading.Thread(target=self._pump, args=(far, near, True), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if answers and self.deaf:
                    self.deaf = False
                    break
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.close()


@pytest.mark.parametrize("expected", [0, 3])
def test_an_append_whose_answer_was_lost_is_looked_for_not_repeated(server: PostgresServer, engine_url: str, expected: int) -> None:
    """R1, E1, E2: it was carried out; who asked hears so, and not of a conflict with himself."""
    proxy = Proxy(server.port)
    engine = PostgresEngine.open(engine_url.replace(str(server.port), str(proxy.port)))
    engine.append("s", 0, rows(1, expected))
    proxy.deaf = True
    engine.append("s", expected, rows(expected + 1, 2))
    assert not proxy.deaf, "an answer was lost"
    assert list(engine.scan("s")) == rows(1, expected + 2)
    proxy.deaf = True
    batch = [replace(one, digest=b"x" * 32) for one in rows(expected + 1, 2)]
    assert refusal(Conflict, lambda: engine.append("s", expected, batch)).found_seq == expected + 2
    engine.close()
    proxy.close()


def test_killed_under_load_nothing_acknowledged_is_lost(engine_url: str) -> None:
    """R1, R30, E2: the postmaster and all its processes, in the middle of what three writers do; they go on by themselves."""
    with PostgresServer() as server:
        url = server.url(wait=60)
        engine = PostgresEngine.open(url)
        with ThreadPoolExecutor(3) as pool:
            writing = [pool.submit(append_with_retries, engine, "s", [b"%d %d" % (n, k) for k in range(60)]) for n in range(3)]
            while len(list(engine.scan("s"))) < 40:
                pass
            server.kill9()
            server.start()
            for one in writing:
                one.result()
        is_one_order(engine, 3, 60)
        engine.close()


def test_a_standby_takes_over_and_nobody_notices_but_by_waiting() -> None:
    """R1, R47: nothing acknowledged is lost, no effect is repeated."""
    found = failover(writers=4, before=20, after=20)
    print(told(found))
    assert found.sound, told(found)
    assert found.acknowledged >= 160


# --- maintenance that is cut off -----------------------------------------------------------------------------------------

MAINTENANCE = {
    "VACUUM": ("VACUUM (FREEZE, INDEX_CLEANUP ON) {table}", "pg_stat_progress_vacuum"),
    "VACUUM FULL": ("VACUUM FULL {table}", "pg_stat_progress_cluster"),
    "CLUSTER": ("CLUSTER {table} USING entries_pkey", "pg_stat_progress_cluster"),
    "REINDEX": ("REINDEX TABLE {table}", "pg_stat_progress_create_index"),
}


@pytest.fixture(scope="module")
def busy() -> Iterator[tuple[PostgresServer, str]]:
    """A server with a log that is large enough for its maintenance to be caught in the middle."""
    with PostgresServer() as server:
        url = server.url(wait=60)
        engine = PostgresEngine.open(url)
        filler = random.Random(1).randbytes(1 << 14)
        for first in range(1, 2_401, 200):
            engine.append("filler", first - 1, [row(n, filler) for n in range(first, first + 200)])
        engine.delete("filler", range(1, 1_200), content_only=True)
        with lineal.connect(url) as store:
            store.session("agent").append([{"role": "user", "content": f"turn {n}"} for n in range(8)], id=[f"u{n}" for n in range(8)])
        engine.close()
        yield server, url


def caught(server: PostgresServer, statement: str, progress: str) -> tuple[int, Future[None]]:
    """Begin the statement elsewhere and come back with its process as soon as the server says that it is at work."""

    def begin() -> None:
        with suppress(psycopg.Error), psycopg.connect(server.url(), autocommit=True) as db:
            db.execute("SET vacuum_cost_delay = '5ms'")
            db.execute("SET vacuum_cost_limit = 20")
            db.execute(statement)

    pool = ThreadPoolExecutor(1)
    running = pool.submit(begin)
    pool.shutdown(wait=False)
    with psycopg.connect(server.url(), autocommit=True) as db:
        while not running.done():
            if found := db.execute(f"SELECT pid FROM {progress}").fetchone():
                return int(found[0]), running
    return 0, running


@pytest.mark.parametrize("how", ["terminate", "kill -9 the backend", "kill -9 the server"])
@pytest.mark.parametrize("what", MAINTENANCE)
def test_maintenance_that_is_cut_off_changes_nothing(busy: tuple[PostgresServer, str], what: str, how: str) -> None:
    """R62, record 004: while it runs and after it was killed the same rows are read, and `verify` is clean."""
    server, url = busy
    statement, progress = MAINTENANCE[what]
    with lineal.connect(url) as store:
        session = store.session("agent")
        before = [(t.seq, t.id, t.message) for t in session.turns()]
        pid, running = caught(server, statement.format(table="lineal.entries"), progress)
        assert pid, "it was over before it could be caught"
        if how == "terminate":
            with psycopg.connect(server.url(), autocommit=True) as db:
                db.execute("SELECT pg_terminate_backend(%s)", [pid])
        elif how == "kill -9 the backend":
            os.kill(pid, signal.SIGKILL)
        else:
            server.kill9()
            server.start()
        running.result()
        assert [(t.seq, t.id, t.message) for t in session.turns()] == before
        session.append({"role": "user", "content": what}, id=f"{what} {how}")
        assert [r.verdict.name for r in session.verify()] == ["POST_COMPACTION_CLEAN"] and not store.engine.check()
        assert len(list(store.engine.scan("filler"))) == 2_400


# --- damage --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fragile() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 + 100] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 // 8_192 * 8_192)


@pytest.mark.parametrize("relation", ["entries", "sessions"])
@pytest.mark.parametrize("harm", [flip, cut, Path.unlink], ids=["flipped bit", "cut short", "gone"])
def test_a_damaged_table_is_named(fragile: PostgresServer, harm: Callable[[Path], None], relation: str) -> None:
    """R5, R59, E4: never a shorter history, and not one without it."""
    url = fragile.url(schema=f"store_{next(NUMBER)}", wait=2)
    with lineal.connect(url) as store:
        session = store.session("agent")
        for _ in range(4):
            session.append([{"role": "user", "content": f"turn {n} " + "and so on " * 40} for n in range(30)])
        with psycopg.connect(fragile.url(), autocommit=True) as db:
            db.execute("CHECKPOINT")
            (place,) = db.execute(f"SELECT pg_relation_filepath('{store.engine._place.schema}.{relation}')").fetchone()
    fragile.stop()
    harm(fragile.data / place)
    fragile.start()
    told = []
    for look in (lambda s: s.session("agent").turns(), lambda s: s.verify()):
        try:
            with lineal.connect(url, create=False) as store:
                found = look(store)
                told.append(isinstance(found, Reports) and found.damaged)
                if relation == "sessions" and not found:
                    told[-1] = False
        except (Corrupt, Unavailable) as error:
            told.append(bool(str(error)))
    assert all(told), told
