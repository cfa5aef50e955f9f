"""What each step of a write is for: a story for every step that could be left out without anything else noticing."""

from __future__ import annotations

from typing import Any

import pytest

from lineal import codec
from lineal.engines import Duplicate
from lineal.engines.memory import MemoryEngine
from lineal.entries import EffectIntended
from lineal.errors import Unavailable
from lineal.holder import lease
from lineal.session import Session
from lineal.store import Store
from lineal.testing.faults import FaultyEngine


def test_every_row_has_a_salt_of_its_own(session: Session, house: Any, say: Any) -> None:
    """R54: without it a guess of what was erased could be confirmed by its digest."""
    session.append([say.user(1), say.user(1)])
    house.session("other").append(say.user(1))
    salts = [row.salt for name in ("agent", "other") for row in session.engine.scan(name)]
    assert len(set(salts)) == 3 and {len(salt) for salt in salts} == {codec.SALT_BYTES}


def test_after_an_error_what_stands_is_read_before_anything_is_decided(say: Any) -> None:
    """R1: the answer was lost, the row was written."""
    engine = FaultyEngine(MemoryEngine())
    session = Store(engine).session("agent")
    engine.fail_at(len(engine.calls) + 1, when="after")
    with pytest.raises(Unavailable):
        session.append(say.user(1))
    seen: list[int] = []
    session.log.write(lambda lineage: seen.append(lineage.head) or [])
    assert seen == [1]


def test_an_attempt_of_an_effect_is_begun_once_in_a_log(session: Session) -> None:
    """R49: the log itself refuses a second one, whoever decided on it."""
    held = lease(session.holder, 60, session.clock)
    entry = EffectIntended(key="k", tool="rotate", arguments="aa", lease=held)
    session.log.write(lambda lineage: [entry])
    with pytest.raises(Duplicate):
        session.log.write(lambda lineage: [entry])


def test_saving_what_was_shown_earlier_adds_nothing(session: Session, say: Any) -> None:
    """R2: a loop that hands over an older list again is no conflict."""
    session.append(say.dialogue(4))
    assert session.save(say.dialogue(2)) == [] and session.status().head == 4
