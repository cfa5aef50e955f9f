"""Lookups that find too little: an index that lost an entry is found out by the chain that the entry stands in."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lineal.codec import arguments_digest, lookalike_key
from lineal.engines.memory import MemoryEngine
from lineal.errors import Corrupt
from lineal.session import Session
from lineal.store import Store


@pytest.fixture
def told(say: Any) -> tuple[MemoryEngine, Session]:
    engine = MemoryEngine()
    session = Store(engine).session("agent")
    session.append(say.user(1))
    with session.effect("deploy", {"n": 1}) as effect:
        effect.settle("ok")
    session.checkpoint("one")
    session.checkpoint("two")
    return engine, session


def lose(engine: MemoryEngine, key: str) -> None:
    """The newest entry is in the log, and the index does not have it under `key` any more."""
    engine._logs["agent"].carriers[key].pop()


def test_a_checkpoint_that_the_index_lost_makes_the_session_read_only(told: tuple[MemoryEngine, Session]) -> None:
    """R6, R59: the one before it is no substitute."""
    engine, session = told
    lose(engine, "checkpoint")
    with pytest.raises(Corrupt, match="damaged index"):
        session.checkpoints()
    assert "damaged index" in str(engine.latched("agent"))


def test_an_equal_call_that_the_index_lost_is_not_made_again(told: tuple[MemoryEngine, Session], say: Any) -> None:
    """R50: without a key it is the only warning."""
    engine, session = told
    lose(engine, lookalike_key("deploy", arguments_digest({"n": 1})))
    with pytest.raises(Corrupt, match="damaged index"), session.effect("deploy", {"n": 1}):
        raise AssertionError("it was begun again")


def test_an_effect_of_a_log_without_chains_is_missed_by_the_view(told: tuple[MemoryEngine, Session]) -> None:
    """R57: entries of an earlier version name nothing before them; the view knows the effect all the same."""
    engine, session = told
    key = session.ledger()[0].key
    session.log.lineage = msgspec.structs.replace(session.log.lineage, chains={})
    engine._logs["agent"].carriers[f"effect:{key}"].clear()
    with pytest.raises(Corrupt, match="damaged index"):
        session.resolve_effect(key, "compensated")
