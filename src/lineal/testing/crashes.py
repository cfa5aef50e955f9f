"""Cut a story off at every call of the engine, or inside any system call, and look at what is left (R30).

Each run has a store of its own, given by `url_for`. Killing is real: the story is played in a child made by `fork`, which
sends itself SIGKILL at the k-th call, before the call or after it; another child then opens the store and examines it.
Call from a process with one thread that has opened no engine: what a child inherits must not be a connection.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from lineal.engines import open_engine, sqlite  # noqa: F401 - imported once here, not in every child
from lineal.errors import LinealError
from lineal.store import Store
from lineal.testing import stories
from lineal.testing.faults import CHANGES, FaultyEngine, When
from lineal.testing.stories import NAME, POLICY, STORY, Found, Reference, Step, Tale, examine, reference, summarize
from lineal.testing.tally import Tally

Mode = Literal["kill", "error"]
UrlFor = Callable[[str], str]  # name of a run -> url of a store that is not there yet
Progress = Callable[[int, int], None]  # runs done, runs in all
CHUNK = 16  # runs that one child makes before the next is started


@dataclass(frozen=True)
class Run:
    """One story cut off at call `k`, made by `step`. `reason`: what the caller was told, empty after a kill. `outcome`:

    | `outcome` | the store is |
    |---|---|
    | `old`, `new` | as before the step, as after it |
    | `between` | one that the step's own protocol knows: its begin stands, and recovery closes it |
    | `bad` | none of these |
    """

    k: int
    when: When
    mode: Mode
    method: str
    step: str
    outcome: str
    found: Found
    reason: str = ""


def every_call(
    url_for: UrlFor, mode: Mode, workers: int = 2, progress: Progress | None = None, steps: Sequence[Step] = STORY, every: int = 1
) -> Tally:
    """`every_run` (at each so-many-th place, with `every`) as a tally: for any engine that `url_for` gives urls of."""
    tally = Tally()
    for run in every_run(url_for, reference(steps), mode, steps, workers, progress, every):
        where = f"{run.mode} {run.when} call {run.k} ({run.method}) of step {run.step!r}"
        tally.runs += 1
        tally.faults["SIGKILL at an engine call" if run.mode == "kill" else "error at an engine call"] += 1
        tally.states[run.outcome] += 1
        tally.torn += [f"{where}: {what}" for what in run.found.torn]
        tally.lost += [f"{where}: {what}" for what in run.found.lost]
    return tally


def every_run(
    url_for: UrlFor,
    whole: Reference,
    mode: Mode,
    steps: Sequence[Step] = STORY,
    workers: int = 2,
    progress: Progress | None = None,
    every: int = 1,
) -> list[Run]:
    """Cut the story off before each call, and after each that changes something (after a read is before the next call)."""
    places: list[tuple[int, When]] = []
    for k, method in enumerate(whole.methods, 1):
        places += [(k, "before"), (k, "after")] if method in CHANGES else [(k, "before")]
    places, runs = places[::every], list[Run]()

    def some(chunk: Sequence[tuple[int, When]]) -> list[Run]:
        return [_run(url_for, whole, mode, steps, k, when) for k, when in chunk]

    for first in range(0, len(places), CHUNK * workers):
        chunk = places[first : first + CHUNK * workers]
        children = [_in_child(partial(some, chunk[n::workers])) for n in range(workers)]
        runs += [run for child in children for run in _answer_of(*child)]
        if progress:
            progress(len(runs), len(places))
    return sorted(runs, key=lambda run: (run.k, run.when == "after"))


def _run(url_for: UrlFor, whole: Reference, mode: Mode, steps: Sequence[Step], k: int, when: When) -> Run:
    url = url_for(f"{mode}-{k}-{when}")
    if mode == "kill":
        told, reason, odd = _killed(url, steps, k, when), "", ""
        allowed: Sequence[int] = [k if when == "after" else k - 1]
    else:
        told, reason, odd = _answer_of(*_in_child(lambda: _failed(url, steps, k, when)))
        allowed = whole.span(told)
    exact = mode == "kill"
    found: Found = _answer_of(*_in_child(lambda: examine(open_engine(url, create=False), whole, told, allowed, exact)))
    found = replace(found, torn=(*found.torn, odd)) if odd else found
    step = whole.step_of(k)
    return Run(k, when, mode, whole.methods[k - 1], step, whole.outcome(step, found, exact), found, reason)


# --- one story, cut off ----------------------------------------------------------------------------------------------


def play(url: str, steps: Sequence[Step], tell: Callable[[str], None], anchor: str | None = None) -> None:
    """The story on a new store at `url`, from its beginning, in this process."""
    Tale(FaultyEngine(open_engine(url)), lambda: open_engine(url), tell, anchor).play(steps)


def _killed(url: str, steps: Sequence[Step], k: int, when: When) -> list[str]:
    """What was acknowledged before the kill."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        faulty = FaultyEngine(open_engine(url))
        faulty.kill_at(k, when)
        Tale(faulty, lambda: open_engine(url), lambda name: _write(writing, name)).play(steps)
        os._exit(3)
    os.close(writing)
    with os.fdopen(reading) as lines:
        told = lines.read().split("\n")[:-1]
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, f"the story was not killed at call {k}: status {status}"
    return told


def _write(pipe: int, name: str) -> None:
    os.write(pipe, f"{name}\n".encode())


def _failed(url: str, steps: Sequence[Step], k: int, when: When) -> tuple[list[str], str, str]:
    """The story with an I/O error at call `k`: what was acknowledged before, what the caller was told, and what is odd after it.

    The process ends behind this without closing anything, as one that gave up would.
    """
    told: list[str] = []
    faulty = FaultyEngine(open_engine(url))
    faulty.fail_at(k, when=when)
    tale = Tale(faulty, lambda: open_engine(url), told.append)
    reason, odd = "", ""
    try:
        tale.play(steps)
        odd = "nobody was told of the error"
    except LinealError as error:
        reason = f"{type(error).__name__}: {error}"
    faulty.heal()
    if reason and hasattr(tale, "session"):
        live, reopened = tale.session.messages(), Store(faulty).session(NAME, POLICY, summarize).messages()
        odd = "" if live == reopened else "the live view is not the reopened one"
    return told, reason, odd


# --- children --------------------------------------------------------------------------------------------------------


def _in_child(work: Callable[[], Any]) -> tuple[int, int]:
    """Start `work` in a forked child; (its process id, where its answer can be read)."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(work(), pipe)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(writing)
    return child, reading


def _answer_of(child: int, reading: int) -> Any:
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    status = os.waitpid(child, 0)[1]
    assert status == 0, f"a child ended with status {status}"
    return pickle.loads(answer)


# --- inside the kernel -----------------------------------------------------------------------------------------------

PLAY = """
import sys
from lineal.testing import crashes, stories
crashes.play(sys.argv[1], getattr(stories, sys.argv[2]), lambda name: print(name, flush=True), anchor=sys.argv[3])
"""


def strace_is_missing() -> str:
    """Why nothing can be killed inside a system call here; empty if it can."""
    try:
        subprocess.run(["strace", "-o", "/dev/null", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as e:
        return f"strace cannot trace here: {e}"
    return ""


def every_system_call(
    url_for: UrlFor,
    folder: Path,
    call: str = "fdatasync,fsync",
    what: str = "signal=KILL",
    every: int = 1,
    progress: Progress | None = None,
    story: stories.Story = "SHORT",
) -> Tally:
    """Play the story with `what` injected into the n-th `call` of the process, for n = 1, 1 + `every`, ... up to the last there is.

    `call` and `what` are strace's: `fdatasync,fsync`, `pwrite64`, `rename`; `signal=KILL`, `error=EIO`, `error=ENOSPC`. Any
    engine that works in the process which opens it. Anchors and counts are kept in `folder`. Without strace the tally is empty.
    """
    tally = Tally()
    if strace_is_missing():
        return tally
    whole, counted = reference(getattr(stories, story)), folder / f"{call}-{what}.counted"
    url, anchor = url_for(f"{call}-{what}-counted"), folder / f"{call}-{what}-counted.anchor"
    _played_under_strace(url, anchor, story, "-o", str(counted), "-e", f"trace={call}")
    lines = counted.read_text().splitlines()
    places = range(1, sum(f"{name}(" in line for line in lines for name in call.split(",")) + 1, every)
    for run, n in enumerate(places, 1):
        url, anchor, inject = url_for(f"{call}-{what}-{n}"), folder / f"{call}-{what}-{n}.anchor", f"inject={call}:{what}:when={n}"
        told = _played_under_strace(url, anchor, story, "-o", "/dev/null", "-e", f"trace={call}", "-e", inject)
        found = _answer_of(*_in_child(partial(_examined, url, anchor, whole, told, "signal" in what)))
        step = next((name for name in whole.ends if name not in told), [*whole.ends][-1])
        tally.runs += 1
        tally.faults[f"{what} in {call}"] += 1
        tally.states[whole.outcome(step, found, "signal" in what)] += 1
        tally.torn += [f"{what} in {call} number {n}: {sentence}" for sentence in found.torn]
        tally.lost += [f"{what} in {call} number {n}: {sentence}" for sentence in found.lost]
        if progress:
            progress(run, len(places))
    return tally


def _played_under_strace(url: str, anchor: Path, story: str, *options: str) -> list[str]:
    """What was acknowledged until the story ended or was ended."""
    command = ["strace", "-f", "-q", *options, sys.executable, "-c", PLAY, url, story, str(anchor)]
    return subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[:-1]


def _examined(url: str, anchor: Path, whole: Reference, told: Sequence[str], exact: bool) -> Found:
    return examine(open_engine(url), whole, told, whole.span(told), exact, anchor=str(anchor))
