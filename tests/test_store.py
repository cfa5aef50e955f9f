"""The store: deleting a whole session for good, and asking the engine itself whether it is sound."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from lineal.engines.memory import MemoryEngine
from lineal.errors import Refused, Unavailable
from lineal.holder import alive, lease
from lineal.rules.integrity import CompactionVerdict
from lineal.store import Store
from lineal.testing.faults import FaultyEngine

SECRET = "hunter2-very-secret"


def filled(store: Store, name: str = "agent") -> None:
    session = store.session(name)
    for n in range(4):
        session.append({"role": "user", "content": f"{n}: the password is {SECRET}"})
    session.checkpoint()


class Keeping(MemoryEngine):
    """Acknowledges that rows, or states, are gone and has them still."""

    def __init__(self, what: str):
        super().__init__()
        self.what = what

    def delete(self, session: str, seqs: Iterable[int], content_only: bool = False) -> None:
        if self.what != "rows":
            super().delete(session, seqs, content_only)

    def delete_states(self, session: str, seqs: Iterable[int]) -> None:
        if self.what != "states":
            super().delete_states(session, seqs)


def test_a_deleted_session_leaves_nothing(house: Any) -> None:
    store = house.open()
    filled(store)
    store.session("agent").fork("child")
    assert store.delete("agent") == ("child",), "forks that keep copies are named"
    assert store.sessions() == ["child"]
    assert list(store.engine.scan("agent")) == [] and store.engine.states("agent") == [] and store.engine.latched("agent") is None
    assert store.session("agent").append({"role": "user", "content": "a new life"}).seq == 1
    with pytest.raises(Refused):
        store.delete("nobody")


def test_a_delete_that_is_cut_off_anywhere_never_leaves_what_reads_as_whole(brief: Any) -> None:
    """R54: marked first, so that nobody writes to what is going; erased, then dropped; finished by the next call."""
    k, whole = 0, False
    while not whole:
        k += 1
        engine = FaultyEngine(MemoryEngine())
        filled(Store(engine))
        engine.fail_at(len(engine.calls) + k)
        try:
            Store(engine).delete("agent")
            whole = True
        except Unavailable:
            engine.heal()
            marked = engine.latched("agent") is not None
            intact = [row.seq for row in engine.scan("agent") if SECRET.encode() in row.body] == [1, 2, 3, 4]
            assert marked or intact and engine.states("agent"), f"call {k}: something went before the mark"
            rows = list(engine.scan("agent"))
            assert len(rows) == 5 or not any(SECRET.encode() in row.body for row in rows), f"call {k}: rows went before their content"
            if marked:
                Store(engine).delete("agent")
        engine.heal()
    assert k > 6
    assert engine.sessions() == [] and engine.latched("agent") is None


def test_content_is_erased_before_its_rows_are_dropped() -> None:
    """R54: dropping alone may leave bytes in an engine's gaps; erasing is what promises that none are left (E6)."""
    told: list[tuple[int, bool]] = []

    class Telling(MemoryEngine):
        def delete(self, session: str, seqs: Iterable[int], content_only: bool = False) -> None:
            named = list(seqs)
            told.append((len(named), content_only))
            super().delete(session, named, content_only)

    store = Store(Telling())
    filled(store)
    store.delete("agent")
    assert told == [(5, True), (5, False)]


@pytest.mark.parametrize("what", ["rows", "states"])
def test_what_an_engine_keeps_is_not_called_deleted(what: str) -> None:
    store = Store(Keeping(what))
    filled(store)
    with pytest.raises(Unavailable, match="stand"):
        store.delete("agent")
    assert store.engine.latched("agent"), "and the mark stays"


def test_what_the_engine_finds_wrong_is_told(house: Any) -> None:
    """R61."""
    store = house.open()
    filled(store)
    assert store.verify().clean
    store.engine.check = lambda: ["page 7 is torn"]
    found = store.verify()
    assert [(r.verdict, r.detail) for r in found] == [(CompactionVerdict.ALTERED, "engine: page 7 is torn")]


def test_a_session_that_only_the_anchor_knows_is_missed(tmp_path: Path) -> None:
    """R60: whoever took the whole log away left the anchor."""
    engine = MemoryEngine()
    store = Store(engine, anchor=tmp_path / "anchor.json")
    filled(store)
    engine._logs.clear()
    assert [r.verdict for r in store.verify()] == [CompactionVerdict.CUT_TAIL]


def test_who_closes_a_store_holds_nothing_any_more() -> None:
    """R33."""
    store = Store(MemoryEngine())
    held = lease(store.holder, 60, store.clock)
    assert alive(held, store.clock)
    store.close()
    assert not alive(held, store.clock)
