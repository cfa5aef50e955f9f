"""The database's own housekeeping, killed in the middle while a session lives on it: no entry is lost, no read is mixed (record 004)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

import lineal
from lineal.rules.integrity import CompactionVerdict
from lineal.session import Session
from lineal.testing.postgres import PostgresServer, kill, until

ROWS = 20_000
COMMANDS = {  # what is run, and where the server tells how far it is
    "VACUUM": ("VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) lineal.entries", "vacuum"),
    "VACUUM FULL": ("VACUUM FULL lineal.entries", "cluster"),
    "CLUSTER": ("CLUSTER lineal.entries USING entries_pkey", "cluster"),
    "REINDEX": ("REINDEX TABLE lineal.entries", "create_index"),
}


@dataclass
class Life:
    """A session beside a large log. `heads` holds what each read saw, in order."""

    server: PostgresServer
    store: lineal.Store
    session: Session
    ballast: Any


def ballast_of(server: PostgresServer) -> Any:
    """What the large log holds, whole."""
    with server.connect() as admin:
        return admin.execute(
            "SELECT count(*), sum(hashtextextended(seq || encode(salt || body || digest, 'hex'), 0)) FROM lineal.entries WHERE session = 1"
        ).fetchone()


@pytest.fixture(scope="module")
def life(own_server: PostgresServer) -> Iterator[Life]:
    """The large log is made by the server itself, with heads and counts as lineal would have them."""
    with lineal.connect(own_server.url(wait="60")) as store:
        with own_server.connect() as admin:
            admin.execute("INSERT INTO lineal.sessions(name, head, standing) VALUES ('ballast', %s, %s)", (ROWS, ROWS))
            admin.execute(
                """INSERT INTO lineal.entries SELECT 1, n, 'turn', 0, 320, sha256(n::text::bytea), sha256(n::text::bytea), n::text::bytea,
                    'k', NULL, '\\x00', decode(repeat(md5(n::text), 20), 'hex') FROM generate_series(1, %s) n""",
                (ROWS,),
            )
            admin.execute("CHECKPOINT")
        session = store.session("agent", lineal.Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4, summary_max_tokens=200))
        yield Life(own_server, store, session, ballast_of(own_server))


class Reader(threading.Thread):
    """Reads the session through a handle of its own, again and again, while others work. Each read must be whole and no shorter."""

    def __init__(self, url: str):
        super().__init__()
        self.url, self.stop, self.reads = url, threading.Event(), 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with lineal.connect(self.url) as store:
                longest = 0
                while not self.stop.is_set():
                    seqs = [r.seq for r in store.engine.scan("agent")]
                    assert seqs == list(range(1, len(seqs) + 1)) and len(seqs) >= longest, f"{len(seqs)} rows behind {longest}"
                    longest = len(seqs)
                    self.reads += 1
        except BaseException as e:
            self.failure = e

    def __enter__(self) -> Reader:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.join()
        assert self.failure is None, repr(self.failure)


class Maintenance(threading.Thread):
    """One command on a connection of its own, and the error that it ended with."""

    def __init__(self, server: PostgresServer, command: str):
        super().__init__()
        self.connection = server.connect()
        self.pid = self.connection.info.backend_pid
        self.command = command
        self.failure: psycopg.Error | None = None

    def run(self) -> None:
        try:
            self.connection.execute(self.command)  # type: ignore[call-overload]
        except psycopg.Error as e:
            self.failure = e


def stopped_in_the_middle(server: PostgresServer, name: str) -> Maintenance:
    """The command, caught at work and held there by SIGSTOP; begun again where it was too quick for us."""
    command, progress = COMMANDS[name]
    with server.connect() as admin:
        while True:
            running = Maintenance(server, command)
            running.start()
            question = f"SELECT FROM pg_stat_progress_{progress} WHERE pid = %s"
            while running.is_alive() and not admin.execute(question, (running.pid,)).fetchall():  # type: ignore[call-overload]
                continue
            if running.is_alive():
                kill(running.pid, signal.SIGSTOP)
                if admin.execute(question, (running.pid,)).fetchall():  # type: ignore[call-overload]
                    return running
                kill(running.pid, signal.SIGCONT)
            running.join()
            running.connection.close()


def terminate(server: PostgresServer, running: Maintenance) -> None:
    with server.connect() as admin:
        admin.execute("SELECT pg_terminate_backend(%s)", (running.pid,))
    kill(running.pid, signal.SIGCONT)


def kill_backend(server: PostgresServer, running: Maintenance) -> None:
    kill(running.pid)


def kill_server(server: PostgresServer, running: Maintenance) -> None:
    server.kill9()
    server.start()


@pytest.mark.parametrize("end", [terminate, kill_backend, kill_server])
@pytest.mark.parametrize("name", [*COMMANDS])
def test_killed_in_the_middle_it_leaves_the_log_as_it_was(
    life: Life, name: str, end: Callable[[PostgresServer, Maintenance], None], say: Any
) -> None:
    """R30, R45: the session reads and appends through it, verifies clean behind it, and the rest of the table is what it was."""
    server, session = life.server, life.session
    head = session.log.lineage.head
    with Reader(server.url(wait="60")) as reader:
        running = stopped_in_the_middle(server, name)
        end(server, running)
        session.append(say.dialogue(4))
        session.maybe_compact()
        running.join()
        assert isinstance(running.failure, psycopg.OperationalError), f"{name} was not ended in the middle"
        until(lambda: reader.reads > 0 or reader.failure, "a read")
    assert session.log.lineage.head >= head + 4
    assert [r.verdict for r in life.store.verify("agent")] == [CompactionVerdict.POST_COMPACTION_CLEAN]
    assert life.store.engine.check() == []
    assert ballast_of(server) == life.ballast
