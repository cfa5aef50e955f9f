"""A store is cut off at every call it makes, and comes back as it was before the step or after it (R30).

The story of `lineal.testing.stories` uses every verb. It is cut off at each engine call by SIGKILL, at each engine call by
an I/O error, and, for its first half, inside the kernel at each write and sync. The tables are printed.
"""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from lineal.engines import open_engine
from lineal.testing.crashes import Run, strace_is_missing
from lineal.testing.stories import SHORT, STORY, Found, Reference, examine, reference
from lineal.testing.tally import Tally, table

WORKERS = 2
CUT_OFF = """
import sys, pickle
from lineal.testing.crashes import every_run
from lineal.testing.stories import reference
runs = every_run(lambda name: f"{sys.argv[2]}/{name}.db", reference(), sys.argv[1], workers=int(sys.argv[3]))
pickle.dump(runs, sys.stdout.buffer)
"""
IN_THE_KERNEL = """
import sys, pickle
from pathlib import Path
from lineal.testing.crashes import every_system_call
call, what, every, folder = sys.argv[1:]
tally = every_system_call(lambda name: f"{folder}/{name}.db", Path(folder), call, what, int(every))
pickle.dump(tally, sys.stdout.buffer)
"""
PLAY = """
import sys
from lineal.testing.crashes import play
from lineal.testing.stories import SHORT
play(sys.argv[1], SHORT, lambda name: print(name, flush=True), anchor=sys.argv[1] + ".anchor")
"""


@pytest.fixture(scope="module")
def whole() -> Reference:
    return reference()


@pytest.mark.parametrize("mode", ["kill", "error"])
def test_the_story_may_be_cut_off_at_every_engine_call(mode: str, whole: Reference, tmp_path: Path, tell: Callable[[str], None]) -> None:
    """R1, R16, R30, R33, R35, R36, R47, R54: what was acknowledged is there, the rest is whole or absent, and it goes on.

    In the kill runs the log must be, entry by entry, the one that the same call leaves on the memory engine.
    """
    runs = _cut_off(mode, tmp_path)
    tell(_table(mode, whole, runs))
    assert [run for run in runs if run.found.torn or run.found.lost or run.outcome == "bad"] == []
    assert {run.k for run in runs} == set(range(1, len(whole.methods) + 1)) and len(runs) > 200
    assert {run.step for run in runs} == {step.name for step in STORY}
    assert all(bool(run.reason) == (mode == "error") for run in runs)
    assert {"old", "new", "between"} == {run.outcome for run in runs}


def _cut_off(mode: str, directory: Path) -> list[Run]:
    """The runs, from a process of its own: one thread, no engine open, so that its forked children begin clean."""
    command = [sys.executable, "-c", CUT_OFF, mode, str(directory), str(WORKERS)]
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    runs: list[Run] = pickle.loads(done.stdout)
    return runs


def _table(mode: str, whole: Reference, runs: list[Run]) -> str:
    how = {"kill": "SIGKILL at every engine call", "error": "an I/O error at every engine call"}[mode]
    lines = ["", f"{how}: {len(runs)} runs of a story of {len(whole.ends)} steps and {len(whole.methods)} calls"]
    lines.append(
        f"{'step':<18}{'calls':>9}  {'runs':>4} {'old':>4} {'new':>4} {'between':>8} {'refused':>8} {'torn':>5} {'lost':>5}  methods"
    )
    for name, end in whole.ends.items():
        mine = [run for run in runs if run.step == name]
        lines.append(_line(name, f"{whole.begin_of(name) + 1}-{end}", mine, dict.fromkeys(run.method for run in mine)))
    lines.append(_line("all", f"1-{len(whole.methods)}", runs, []))
    reasons = sorted({run.reason.split(":")[0] for run in runs if run.reason})
    return "\n".join([*lines, f"refused with: {', '.join(reasons)}"] if reasons else lines)


def _line(name: str, calls: str, runs: list[Run], methods: Iterable[str]) -> str:
    old, new, between = (sum(run.outcome == outcome for run in runs) for outcome in ("old", "new", "between"))
    refused, torn, lost = sum(bool(r.reason) for r in runs), sum(bool(r.found.torn) for r in runs), sum(bool(r.found.lost) for r in runs)
    numbers = f"{len(runs):>4} {old:>4} {new:>4} {between:>8} {refused:>8} {torn:>5} {lost:>5}"
    return f"{name:<18}{calls:>9}  {numbers}  {' '.join(methods)}"


def test_the_comparison_can_fail(whole: Reference, tmp_path: Path) -> None:
    """A store that lost an acknowledged step, one that looks as it never did, and a ledger without an intent are all found."""
    url = str(tmp_path / "short.db")
    subprocess.run([sys.executable, "-c", PLAY, url], check=True, capture_output=True)
    told = [step.name for step in SHORT]

    def found(told: list[str], allowed: Iterable[int]) -> Found:
        copy = shutil.copy(url, tmp_path / "copy.db")
        with_engine = open_engine(str(copy))
        try:
            return examine(with_engine, whole, told, list(allowed), exact=True)
        finally:
            with_engine.close()

    assert found(told, whole.span(told)) == Found(whole.ends["commit"])
    assert found([*told, "pin a turn"], whole.span([*told, "pin a turn"])).lost == ("pin a turn",)
    assert found([*told, "intent:never:1"], whole.span(told)).torn == ("intent:never:1 was acknowledged and is not in the ledger",)
    engine = open_engine(url)
    engine.delete("agent", [2])
    engine.close()
    assert any("phantom deletion" in sentence for sentence in found(told, whole.span(told)).torn)


@pytest.mark.parametrize(("call", "every"), [("fdatasync,fsync", 4), ("pwrite64", 9)])
def test_the_story_may_be_cut_off_inside_the_kernel(call: str, every: int, tmp_path: Path, tell: Callable[[str], None]) -> None:
    """R1, R30, R35, R60: SIGKILL at the n-th sync or write of the process, with an anchor file beside the store."""
    tally = _in_the_kernel(call, "signal=KILL", every, tmp_path)
    tell(table([(f"SIGKILL inside {call}", tally)]))
    assert tally.wrong() == [] and tally.runs > 8 and len({*tally.states} & {"old", "new"}) == 2


@pytest.mark.parametrize(("call", "what"), [("fdatasync,fsync", "error=EIO"), ("pwrite64", "error=ENOSPC"), ("rename", "error=EIO")])
def test_the_kernel_may_refuse_any_call(call: str, what: str, tmp_path: Path) -> None:
    """R1, R30, R60: the process is told, ends, and what it had acknowledged is there."""
    tally = _in_the_kernel(call, what, 25 if call != "rename" else 7, tmp_path)
    assert tally.wrong() == [] and tally.runs >= 2


def _in_the_kernel(call: str, what: str, every: int, directory: Path) -> Tally:
    """From a process of its own, as in `_cut_off`."""
    if reason := strace_is_missing():
        pytest.skip(reason)
    done = subprocess.run([sys.executable, "-c", IN_THE_KERNEL, call, what, str(every), str(directory)], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    tally: Tally = pickle.loads(done.stdout)
    return tally
