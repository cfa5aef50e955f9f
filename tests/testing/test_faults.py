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
from lineal.errors import Unavailable
from lineal.testing import EngineTests, FaultyEngine
from lineal.testing.engine import MakeEngine, rows


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
