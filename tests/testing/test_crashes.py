"""The crash campaigns as tallies (R30). The whole of them: tests/stories/test_kill_at_every_call.py."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from lineal.testing.tally import Tally

EVERY_CALL = """
import sys, pickle
from lineal.testing.crashes import every_call
heard = []
mode, folder = sys.argv[1:]
tally = every_call(lambda name: f"{folder}/{name}.db", mode, workers=1, progress=lambda *told: heard.append(told), every=23)
pickle.dump((tally, heard), sys.stdout.buffer)
"""


@pytest.mark.parametrize(("mode", "fault"), [("kill", "SIGKILL at an engine call"), ("error", "error at an engine call")])
def test_the_runs_add_up_to_a_tally(mode: str, fault: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", EVERY_CALL, mode, str(tmp_path)], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    tally: Tally
    tally, heard = pickle.loads(done.stdout)
    assert tally.wrong() == []
    assert tally.runs == tally.faults[fault] == sum(tally.states.values()) > 10
    assert set(tally.states) == {"old", "new", "between"}
    assert heard[-1] == (tally.runs, tally.runs)
