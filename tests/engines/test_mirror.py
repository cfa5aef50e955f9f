"""The same random life on the memory engine and on one that lasts: every answer and every refusal must be the same.

The memory engine is plain dicts, so that whatever the two disagree on is the other's mistake, or the port's silence.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from lineal.engines import Engine, open_engine
from lineal.engines.memory import MemoryEngine
from lineal.errors import Conflict, LinealError
from lineal.testing.engine import row
from lineal.testing.postgres import PostgresServer

SESSIONS = st.sampled_from(["a", "b", "\ud83d\0"])
KEYS = st.sampled_from(["k", "l", "m", ""])
KINDS = st.sampled_from(["turn", "usage", "x.odd"])
SEQS = st.integers(-1, 25)
DRAFTS = st.lists(
    st.tuples(st.binary(max_size=40), KINDS, st.none() | KEYS, st.lists(KEYS, max_size=2)),
    max_size=4,
)


def _outcome(call: Callable[[Engine], Any], engine: Engine) -> Any:
    """What a call answers, or refuses: as values that can be compared."""
    try:
        return call(engine)
    except Conflict as e:
        return type(e).__name__, e.session, e.expected_seq, e.found_seq, getattr(e, "key", None)
    except LinealError as e:
        return type(e).__name__, getattr(e, "reason", str(e))


class Mirror(RuleBasedStateMachine):
    """One log of calls, two engines. The lasting one is read through two handles in turn, and reopened now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.url = self.new_store()
        self.model = MemoryEngine()
        self.handles = [open_engine(self.url), open_engine(self.url)]

    def new_store(self) -> str:
        self.directory = tempfile.TemporaryDirectory()
        return str(Path(self.directory.name) / "agent.db")

    def remove_store(self) -> None:
        self.directory.cleanup()

    def same(self, call: Callable[[Engine], Any]) -> Any:
        self.handles.reverse()
        expected, found = _outcome(call, self.model), _outcome(call, self.handles[0])
        assert found == expected
        return expected

    def head(self, session: str) -> int:
        return max((r.seq for r in self.model.scan(session)), default=0)

    @rule(session=SESSIONS, drafts=DRAFTS, off=st.sampled_from([0, 0, 0, 0, 0, 1, -1, 5]))
    def append(self, session: str, drafts: list[tuple[bytes, str, str | None, list[str]]], off: int) -> None:
        expected = max(self.head(session) + off, 0)
        batch = [row(expected + n, body, kind, unique, keys) for n, (body, kind, unique, keys) in enumerate(drafts, 1)]
        self.same(lambda engine: engine.append(session, expected, batch))

    @rule(session=SESSIONS, seqs=st.lists(SEQS, max_size=6), content_only=st.booleans())
    def delete(self, session: str, seqs: list[int], content_only: bool) -> None:
        self.same(lambda engine: engine.delete(session, iter(seqs), content_only))

    @precondition(lambda self: self.head("a") > 0)
    @rule()
    def drop_a_whole_session(self) -> None:
        self.same(lambda engine: engine.delete("a", [r.seq for r in engine.scan("a")]))

    @rule(session=SESSIONS, seq=st.integers(0, 25), data=st.binary(max_size=200))
    def put_state(self, session: str, seq: int, data: bytes) -> None:
        self.same(lambda engine: engine.put_state(session, seq, data))

    @rule(session=SESSIONS, seqs=st.lists(SEQS, max_size=6))
    def delete_states(self, session: str, seqs: list[int]) -> None:
        self.same(lambda engine: engine.delete_states(session, seqs))

    @rule(session=SESSIONS, reason=st.none() | KEYS)
    def latch(self, session: str, reason: str | None) -> None:
        self.same(lambda engine: engine.latch(session, reason))

    @rule(session=SESSIONS, after=SEQS, until=st.none() | SEQS, kinds=st.none() | st.lists(KINDS, max_size=2))
    def scan(self, session: str, after: int, until: int | None, kinds: list[str] | None) -> None:
        self.same(lambda engine: list(engine.scan(session, after, until, kinds)))

    @rule(session=SESSIONS, key=KEYS, limit=st.none() | st.integers(0, 3))
    def find(self, session: str, key: str, limit: int | None) -> None:
        self.same(lambda engine: engine.find(session, key, limit))

    @rule(session=SESSIONS, at=st.none() | SEQS)
    def state(self, session: str, at: int | None) -> None:
        self.same(lambda engine: (engine.state(session, at), engine.states(session), engine.latched(session)))

    @rule(session=SESSIONS, drafts=DRAFTS)
    def append_behind_a_scan(self, session: str, drafts: list[tuple[bytes, str, str | None, list[str]]]) -> None:
        """A scan is of the moment of the call, also when not a row of it was read before the append."""
        scans = [self.model.scan(session), self.handles[1].scan(session)]
        self.append(session, drafts, 0)
        expected, found = map(list, scans)
        assert found == expected

    @rule()
    def reopen(self) -> None:
        self.handles[0].close()
        self.handles[0] = open_engine(self.url, create=False)

    @invariant()
    def the_sessions_are_the_same(self) -> None:
        self.same(lambda engine: engine.sessions())

    def teardown(self) -> None:
        for session in ("a", "b", "\ud83d\0"):
            self.same(lambda engine, s=session: (list(engine.scan(s)), engine.states(s), engine.latched(s)))  # type: ignore[misc]
        self.same(lambda engine: engine.check())
        for handle in self.handles:
            handle.close()
        self.remove_store()


class MirrorOfPostgres(Mirror):
    """A schema of its own for each life."""

    server: PostgresServer
    lives = 0

    def new_store(self) -> str:
        MirrorOfPostgres.lives += 1
        self.schema = f"mirror{self.lives}"
        return self.server.url(schema=self.schema)

    def remove_store(self) -> None:
        with self.server.connect() as admin:
            admin.execute(f"DROP SCHEMA {self.schema} CASCADE")  # type: ignore[call-overload]


ANY_HEALTH = list(HealthCheck)
Mirror.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=ANY_HEALTH)
TestMirror = Mirror.TestCase


class TestMirrorOfPostgres:
    def test_one_life(self, server: PostgresServer) -> None:
        """E1 to E9, without a kill."""
        MirrorOfPostgres.server = server
        run_state_machine_as_test(
            MirrorOfPostgres, settings=settings(max_examples=12, stateful_step_count=40, deadline=None, suppress_health_check=ANY_HEALTH)
        )


@pytest.mark.parametrize("scheme", ["rocksdb", "cassandra"])
def test_the_same_life_in_a_directory(scheme: str) -> None:
    """E2 to E9."""

    class InDirectory(Mirror):
        def new_store(self) -> str:
            self.directory = tempfile.TemporaryDirectory()
            return f"{scheme}:///{self.directory.name}/store"

    run_state_machine_as_test(
        InDirectory, settings=settings(max_examples=8, stateful_step_count=30, deadline=None, suppress_health_check=ANY_HEALTH)
    )
