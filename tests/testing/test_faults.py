"""Faults strike where they were put, and nowhere else (R30)."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lineal.engines import Engine, open_engine
from lineal.engines.memory import MemoryEngine
from lineal.errors import Conflict, Unavailable
from lineal.testing import EngineTests, FaultyEngine
from lineal.testing.engine import MakeEngine, row, rows
from lineal.testing.faults import FAULTS, Fault
from lineal.testing.lasting import Lasting


class TestFaultyEngineWithoutFaults(EngineTests):
    """It is an engine like the one inside."""

    @pytest.fixture
    def make_engine(self) -> MakeEngine:
        engine = FaultyEngine(MemoryEngine())
        return lambda: engine


def test_every_call_is_counted() -> None:
    engine = FaultyEngine(MemoryEngine())
    engine.append("s", 0, rows(1, 2))
    list(engine.scan("s"))
    engine.put_state("s", 2, b"state")
    engine.close()
    assert engine.calls == [(1, "append"), (2, "scan"), (3, "put_state"), (4, "close")]


def test_a_call_fails_before_or_after_it_is_carried_out() -> None:
    """R30: after it, the rows are there and the answer is lost."""
    for when, there in (("before", []), ("after", rows(1, 2))):
        engine = FaultyEngine(MemoryEngine())
        engine.fail_at(1, when=when)  # type: ignore[arg-type]
        with pytest.raises(Unavailable, match="a fault was injected"):
            engine.append("s", 0, rows(1, 2))
        assert list(engine.scan("s")) == there


def test_only_the_chosen_call_fails_and_with_the_chosen_error() -> None:
    engine, error = FaultyEngine(MemoryEngine()), OSError(28, "No space left on device")
    engine.fail_at(2, error)
    engine.fail_at(4)
    engine.append("s", 0, rows(1, 1))
    with pytest.raises(OSError, match="No space left") as failure:
        engine.append("s", 1, rows(2, 1))
    assert failure.value is error
    engine.append("s", 1, rows(2, 1))
    engine.heal()
    engine.append("s", 2, rows(3, 1))
    assert list(engine.scan("s")) == rows(1, 3)


def test_a_scan_fails_at_its_beginning_or_after_its_last_row() -> None:
    """E9: whoever takes what came so far for the whole log is caught."""
    engine = FaultyEngine(MemoryEngine())
    engine.append("s", 0, rows(1, 3))
    engine.fail_at(2)
    engine.fail_at(3, when="after")
    with pytest.raises(Unavailable):
        engine.scan("s")
    seen = []
    with pytest.raises(Unavailable):
        for row in engine.scan("s"):
            seen.append(row)
    assert seen == rows(1, 3)


@pytest.mark.parametrize(("when", "there"), [("before", 1), ("after", 2)])
def test_the_process_is_killed_at_the_chosen_call(store_path: Path, when: str, there: int) -> None:
    """R30: by SIGKILL; what was carried out before it stands."""
    script = (
        "import sys\nfrom lineal.engines import open_engine\nfrom lineal.testing import FaultyEngine\n"
        "from lineal.testing.engine import rows\n"
        "engine = FaultyEngine(open_engine(sys.argv[1]))\nengine.kill_at(2, sys.argv[2])\n"
        "for seq in (1, 2, 3):\n engine.append('s', seq - 1, rows(seq, 1))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(store_path), when])
    assert done.returncode == -signal.SIGKILL
    engine: Engine = open_engine(str(store_path))
    assert list(engine.scan("s")) == rows(1, there)
    engine.close()


# --- lies ----------------------------------------------------------------------------------------------------------------


def test_a_torn_append_leaves_its_first_rows() -> None:
    """What an engine without E1 would do: told as a failure, or not told."""
    for acknowledged in (False, True):
        engine = FaultyEngine(MemoryEngine())
        engine.tear_at(1, 2, acknowledged=acknowledged)
        if acknowledged:
            engine.append("s", 0, rows(1, 3))
        else:
            with pytest.raises(Unavailable, match="torn"):
                engine.append("s", 0, rows(1, 3))
        assert list(engine.scan("s")) == rows(1, 2)


def test_a_torn_delete_and_a_torn_state() -> None:
    engine = FaultyEngine(MemoryEngine())
    engine.append("s", 0, rows(1, 4))
    engine.tear_at(2, acknowledged=True)
    engine.tear_at(3, 3, acknowledged=True)
    engine.delete("s", [1, 2, 3])
    engine.put_state("s", 4, b"a state")
    assert [row.seq for row in engine.scan("s")] == [2, 3, 4]
    assert engine.state("s") == (4, b"a s")


def test_a_dropped_call_is_acknowledged_and_never_carried_out() -> None:
    engine = FaultyEngine(Lasting())
    engine.drop_at(2)
    engine.append("s", 0, rows(1, 1))
    engine.put_state("s", 1, b"state")
    engine.close()
    assert engine.engine.states("s") == [] and list(engine.engine.scan("s")) == rows(1, 1)


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_delayed_call_is_carried_out_so_many_calls_later(calls: int) -> None:
    engine = FaultyEngine(MemoryEngine())
    engine.delay_at(1, calls)
    engine.append("s", 0, rows(1, 1))
    assert [list(engine.scan("s")) for _ in range(3)] == [rows(1, 1) if n >= calls else [] for n in (1, 2, 3)]


def test_a_delayed_call_is_carried_out_when_the_engine_is_closed_at_the_latest() -> None:
    engine = FaultyEngine(Lasting())
    engine.delay_at(1, 100)
    engine.append("s", 0, rows(1, 1))
    engine.close()
    assert list(engine.engine.scan("s")) == rows(1, 1)


def test_two_calls_that_change_something_change_places() -> None:
    engine = FaultyEngine(MemoryEngine())
    engine.append("s", 0, rows(1, 2))
    engine.reorder_at(2)
    engine.put_state("s", 1, b"first")
    assert engine.state("s") is None, "a read in between does not carry it out"
    engine.put_state("s", 1, b"second")
    assert engine.state("s") == (1, b"first")


def test_what_fails_after_it_was_acknowledged_is_heard_by_nobody() -> None:
    engine = FaultyEngine(MemoryEngine())
    engine.reorder_at(1)
    engine.append("s", 0, rows(1, 1))
    engine.append("s", 0, [row(1, b"another")])
    assert [type(error) for error in engine.unheard] == [Conflict]
    assert [r.body for r in engine.scan("s")] == [b"another"]


def test_a_repeated_call_is_answered_once() -> None:
    engine = FaultyEngine(MemoryEngine())
    engine.repeat_at(1)
    engine.append("s", 0, rows(1, 2))
    assert list(engine.scan("s")) == rows(1, 2) and len(engine.unheard) == 1


def test_lies_are_only_told_of_calls_that_change_something_and_can_be_healed() -> None:
    engine = FaultyEngine(MemoryEngine())
    engine.drop_at(1)
    engine.drop_at(2)
    assert list(engine.scan("s")) == []
    engine.heal()
    engine.append("s", 0, rows(1, 1))
    assert list(engine.scan("s")) == rows(1, 1)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_kind_of_fault_is_promised_something_and_strikes(fault: Fault) -> None:
    """The table says what the engine does and answers; here it does so. (What is promised: tests/testing/test_lies.py.)"""
    assert len({one.name for one in FAULTS}) == len(FAULTS)
    if fault.kills:
        return  # test_the_process_is_killed_at_the_chosen_call
    engine = FaultyEngine(MemoryEngine())
    engine.append("s", 0, rows(1, 1))
    fault.put(engine, 2)
    answer = "done"
    try:
        engine.append("s", 1, rows(2, 3))
    except Unavailable:
        answer = "an error"
    assert answer == fault.answers
    done = {"nothing": 1, "the first row, seq or byte": 2, "what was asked": 4, "what was asked, twice": 4}
    assert len(list(engine.engine.scan("s"))) == done.get(fault.does, 1), "the rest comes later"


def test_no_method_of_the_port_goes_uncounted() -> None:
    """A method that the port gets later must be wrapped here too."""
    engine: Any = FaultyEngine(MemoryEngine())
    calls = {
        "append": ("s", 0, []),
        "scan": ("s",),
        "find": ("s", "k"),
        "delete": ("s", []),
        "put_state": ("s", 1, b""),
        "state": ("s",),
        "states": ("s",),
        "delete_states": ("s", []),
        "latch": ("s", None),
        "latched": ("s",),
        "sessions": (),
        "status": (),
        "check": (),
        "close": (),
    }
    assert set(calls) == {name for name in vars(Engine) if callable(getattr(Engine, name)) and not name.startswith("_")}
    for name, arguments in calls.items():
        getattr(engine, name)(*arguments)
    assert [name for _, name in engine.calls] == list(calls)
