"""The PostgreSQL engine when the server goes away: what was acknowledged stands once, and whoever writes goes on by himself."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lineal.engines import Row, open_engine, postgres_schema
from lineal.engines.postgres import PostgresEngine
from lineal.engines.postgres_server import Connections, address_of
from lineal.errors import Conflict, LinealError, Unavailable
from lineal.testing.engine import refusal, row, rows
from lineal.testing.failover import failover
from lineal.testing.postgres import PostgresServer, until
from lineal.testing.tally import Tally

Open = Callable[..., PostgresEngine]
OTHERS = "FROM pg_stat_activity WHERE application_name = 'lineal' AND datname = current_database()"


def end_all(server: PostgresServer, which: str = "true") -> int:
    """End the engine's connections that are in this state; how many there were."""
    with server.connect() as admin:
        return len(admin.execute(f"SELECT pg_terminate_backend(pid) {OTHERS} AND {which}").fetchall())  # type: ignore[call-overload]


def waits(server: PostgresServer, for_what: str) -> bool:
    with server.connect() as admin:
        return bool(admin.execute(f"SELECT pid {OTHERS} AND (wait_event_type = %s OR wait_event = %s)", (for_what,) * 2).fetchall())  # type: ignore[call-overload]


class Caller:
    """A call in a thread of its own, and how it ended."""

    def __init__(self, call: Callable[[], Any]):
        self.failure: LinealError | None = None
        self.thread = threading.Thread(target=self._run, args=(call,))
        self.thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            call()
        except LinealError as e:
            self.failure = e

    def ended(self) -> LinealError | None:
        self.thread.join()
        return self.failure


# --- a connection is lost --------------------------------------------------------------------------------------------


def test_a_connection_that_was_ended_is_made_anew(server: PostgresServer, postgres_url: str, open_postgres: Open) -> None:
    """E9, R30: every verb goes on, as if nothing had been."""
    engine = open_postgres(postgres_url)
    engine.append("s", 0, [row(1, keys=("k",)), row(2)])
    uses: list[Callable[[], Any]] = [
        lambda: engine.append("s", 2, rows(3, 1)),
        lambda: list(engine.scan("s")),
        lambda: engine.find("s", "k"),
        lambda: engine.put_state("s", 2, b"two"),
        lambda: engine.delete("s", [1], content_only=True),
        lambda: engine.latch("s", "why"),
        lambda: engine.sessions(),
        lambda: engine.status(),
        lambda: engine.check(),
    ]
    for use in uses:
        assert end_all(server) > 0
        use()
    assert [r.seq for r in engine.scan("s")] == [1, 2, 3] and engine.state("s") == (2, b"two") and engine.latched("s") == "why"


def test_a_scan_that_loses_its_snapshot_says_so(server: PostgresServer, postgres_url: str, open_postgres: Open) -> None:
    """E4, E9: it does not end early, and it does not go on in another snapshot."""
    engine = open_postgres(postgres_url)
    engine.append("s", 0, [row(n, b"x" * 4000) for n in range(1, 3001)])
    scan, seen = engine.scan("s"), []
    next(scan)
    end_all(server)
    refusal(Unavailable, lambda: seen.extend(scan))
    assert 0 < len(seen) < 2999
    assert len(list(engine.scan("s"))) == 3000


def test_a_server_that_stays_away_is_told_with_its_cause(own_server: PostgresServer, open_postgres: Open, schema: str) -> None:
    """E9: after the deadline, by open handles and by new ones; when it is back, the same handle goes on."""
    url = own_server.url(schema=schema, wait="0.2")
    engine = open_postgres(url)
    engine.append("s", 0, rows(1, 1))
    own_server.stop("immediate")
    for use in (lambda: engine.append("s", 1, rows(2, 1)), lambda: list(engine.scan("s")), lambda: open_postgres(url)):
        assert "refused" in str(refusal(Unavailable, use))
    own_server.start()
    assert list(engine.scan("s")) == rows(1, 1)
    engine.append("s", 1, rows(2, 1))
    own_server.stop("immediate")
    waiting = Caller(lambda: open_postgres(own_server.url(schema=schema)).append("s", 2, rows(3, 1)))
    own_server.start()
    assert waiting.ended() is None
    assert list(engine.scan("s")) == rows(1, 3)


# --- an answer is lost -----------------------------------------------------------------------------------------------


@contextmanager
def no_standby(server: PostgresServer) -> Iterator[None]:
    """A server that waits with each commit for a standby that is not there."""
    with server.connect() as admin:
        admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'absent'")
        admin.execute("SELECT pg_reload_conf()")
        until(lambda: admin.execute("SHOW synchronous_standby_names").fetchone() == ("absent",), "the setting")
        try:
            yield
        finally:
            admin.execute("ALTER SYSTEM RESET synchronous_standby_names")
            admin.execute("SELECT pg_reload_conf()")


@pytest.mark.parametrize("how", ["pg_terminate_backend", "pg_cancel_backend"])
def test_an_append_that_was_written_and_not_confirmed_is_neither_repeated_nor_believed(
    own_server: PostgresServer, schema: str, open_postgres: Open, how: str
) -> None:
    """E1: cut off while it waits for its standby, the commit stands here only. It is acknowledged when the standby has it, once."""
    engine, other = (open_postgres(own_server.url(schema=schema)) for _ in range(2))
    engine.append("s", 0, rows(1, 1))
    with no_standby(own_server):
        caller = Caller(lambda: engine.append("s", 1, rows(2, 2)))
        for _ in range(3):
            until(lambda: waits(own_server, "SyncRep"), "a commit that waits")
            with own_server.connect() as admin:
                admin.execute(f"SELECT {how}(pid) {OTHERS} AND wait_event = 'SyncRep'")  # type: ignore[call-overload]
            until(lambda: len(list(other.scan("s"))) == 3, "the rows that stand here")
        until(lambda: waits(own_server, "SyncRep"), "a commit that waits")
        assert caller.thread.is_alive(), "it was acknowledged, and no standby has it"
    assert caller.ended() is None
    assert list(other.scan("s")) == rows(1, 3)


@pytest.mark.parametrize("others_write", [False, True])
def test_an_append_that_was_lost_before_it_was_written_is_tried_again(
    server: PostgresServer, schema: str, postgres_url: str, open_postgres: Open, others_write: bool
) -> None:
    """E1, E2: at the head that it expected, or it is a conflict with the row that others wrote there."""
    engine = open_postgres(postgres_url)
    engine.append("s", 0, rows(1, 1))
    theirs: list[Row] = [row(2, b"theirs")] if others_write else []
    with server.connect() as admin, admin.transaction():
        admin.execute(f"SELECT FROM {schema}.sessions FOR UPDATE")  # type: ignore[call-overload]
        caller = Caller(lambda: engine.append("s", 1, [row(2, b"mine")]))
        until(lambda: waits(server, "Lock"), "an append that waits for the session")
        assert end_all(server, "wait_event_type = 'Lock'") == 1
        until(lambda: waits(server, "Lock"), "an append that waits again")
        if theirs:
            admin.execute(postgres_schema.statements(schema)["append"], postgres_schema.batch("s", 1, theirs))
    failure = caller.ended()
    if others_write:
        assert type(failure) is Conflict and (failure.expected_seq, failure.found_seq) == (1, 2)
    else:
        assert failure is None
    assert [r.body for r in engine.scan("s")][1:] == [b"theirs" if others_write else b"mine"]


# --- the server is killed --------------------------------------------------------------------------------------------

WRITER = """
import os, sys
from lineal.engines import open_engine
from lineal.errors import Conflict
from lineal.testing.engine import row
url, me, told, stop = sys.argv[1:]
told = os.open(told, os.O_WRONLY | os.O_APPEND)
engine, head, n = open_engine(url), 0, 0
while not os.path.exists(stop):
    try:
        engine.append("s", head, [row(head + 1, b"%s %d" % (me.encode(), n))])
    except Conflict as e:
        head = e.found_seq
        continue
    head += 1
    n += 1
    os.write(told, b"%d\\n" % head)
"""


def test_killed_while_three_processes_append_it_loses_nothing(own_server: PostgresServer, schema: str, tmp_path: Path) -> None:
    """E1, R1, R30: every process of the server by SIGKILL, twice. Each acknowledged row stands, no row stands twice, writers go on."""
    url = own_server.url(schema=schema, wait="60")
    open_engine(url).close()
    stop, told = tmp_path / "stop", [tmp_path / f"told-{n}" for n in range(3)]
    for path in told:
        path.touch()
    children = [subprocess.Popen([sys.executable, "-c", WRITER, url, str(n), str(path), str(stop)]) for n, path in enumerate(told)]

    def each_tells(more: int) -> None:
        wanted = [len(path.read_text().splitlines()) + more for path in told]
        until(
            lambda: (
                all(len(path.read_text().splitlines()) >= n for path, n in zip(told, wanted, strict=True))
                or any(child.poll() is not None for child in children)
            ),
            "what each writer is told",
        )

    try:
        each_tells(20)
        for _ in range(2):
            own_server.kill9()
            own_server.start()
            each_tells(20)
    finally:
        stop.touch()
    assert [child.wait() for child in children] == [0, 0, 0]
    engine = open_engine(url, create=False)
    found = list(engine.scan("s"))
    assert [r.seq for r in found] == list(range(1, len(found) + 1)) and engine.check() == []
    for n, path in enumerate(told):
        mine = [r for r in found if r.body.startswith(b"%d " % n)]
        assert [r.body for r in mine] == [b"%d %d" % (n, k) for k in range(len(mine))]
        assert [r.seq for r in mine] == [int(line) for line in path.read_text().split()]
    engine.close()


EVERY_CALL = """
import pickle, sys
from lineal.engines import postgres
from lineal.testing.crashes import every_call
mode, url = sys.argv[1:]
pickle.dump(every_call(lambda name: url + "?schema=" + name.replace("-", "_")[:60], mode, workers=1, every=43), sys.stdout.buffer)
"""


@pytest.mark.parametrize("mode", ["kill", "error"])
def test_a_writer_that_is_cut_off_at_any_call_leaves_a_state_that_recovery_knows(server: PostgresServer, mode: str) -> None:
    """R30: the story of every engine call, on this engine: killed at it, or told that it failed."""
    done = subprocess.run([sys.executable, "-c", EVERY_CALL, mode, server.url()], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    tally: Tally = pickle.loads(done.stdout)
    assert tally.wrong() == [] and tally.runs > 5


def test_a_primary_that_comes_back_after_a_promotion_is_left_alone(postgres_programs: None, open_postgres: Open) -> None:
    """E1, E8: it lacks what was written since, though it takes writes and stands first in the list."""
    with PostgresServer() as old:
        new = old.standby()
        try:
            hosts = f"127.0.0.1:{old.port},127.0.0.1:{new.port}"
            engine = open_postgres(f"postgresql://{old.user}@{hosts}/postgres?wait=30")
            engine.append("s", 0, rows(1, 1))
            old.kill9()
            new.promote()
            engine.append("s", 1, rows(2, 1))
            old.start()
            for head in (2, 3, 4):
                assert end_all(new) > 0
                engine.append("s", head, rows(head + 1, 1))
            assert list(engine.scan("s")) == rows(1, 5) and engine.status()["host"].endswith(str(new.port))
            new.stop("immediate")
            alone = Connections(address_of(f"postgresql://{old.user}@{hosts}/postgres?wait=0.2"))
            alone._timeline = engine._connections._timeline
            e = refusal(Unavailable, lambda: alone.carried_out("append", lambda db, again: None))
            assert "another was promoted in its place" in str(e)
        finally:
            new.remove()


def test_a_failover_loses_no_acknowledged_turn_and_repeats_no_effect(
    postgres_programs: None, record_property: Callable[[str, object], None]
) -> None:
    """E1, R30, R47: the primary is killed, its synchronous standby promoted; the writers find it by the list of hosts."""
    begun = time.monotonic()
    found = failover(writers=4, each=10)
    record_property("told", f"failover: {found} ({time.monotonic() - begun:.0f} s in all)")
    assert found.sound, str(found)
    assert found.acknowledged >= 80 and found.effects >= 76
