"""Cut a story off at every call of the engine, and look at what is left (R30).

Each run has a store of its own, given by `url_for`. Killing is real: the story is played in a child made by `fork`, which
sends itself SIGKILL at the k-th call, before the call or after it; another child then opens the store and examines it.
Call from a process with one thread that has opened no engine: what a child inherits must not be a connection.
"""

from __future__ import annotations

import os
import pickle
import signal
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from lineal.engines import open_engine, sqlite  # noqa: F401 - imported once here, not in every child
from lineal.errors import LinealError
from lineal.store import Store
from lineal.testing.faults import FaultyEngine, When
from lineal.testing.stories import CHANGES, NAME, POLICY, STORY, Found, Reference, Step, Tale, examine, summarize

Mode = Literal["kill", "error"]
UrlFor = Callable[[str], str]  # name of a run -> url of a store that is not there yet


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


def every_run(url_for: UrlFor, whole: Reference, mode: Mode, steps: Sequence[Step] = STORY, workers: int = 2) -> list[Run]:
    """Cut the story off before each call, and after each that changes something (after a read is before the next call)."""
    places: list[tuple[int, When]] = []
    for k, method in enumerate(whole.methods, 1):
        places += [(k, "before"), (k, "after")] if method in CHANGES else [(k, "before")]

    def some(first: int) -> list[Run]:
        return [_run(url_for, whole, mode, steps, k, when) for k, when in places[first::workers]]

    children = [_in_child(partial(some, first)) for first in range(workers)]
    return sorted((run for child in children for run in _answer_of(*child)), key=lambda run: (run.k, run.when == "after"))


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
