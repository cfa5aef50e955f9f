"""A pytest plugin: collect the tests once, then run any choice of them in a fork with one mutant in place.

A fork costs milliseconds where a new process with all its imports costs seconds, so that a thousand mutants can be tried.
Whatever functions of the mutated file are alive get the mutant's code; what is no function's code (a constant, a statement
of SQL) cannot be changed in a running process and is answered with `fresh`: the caller then starts a process of its own.

Talks JSON, a line a message, over the socket whose number is in `LINEAL_MUTANTS`. Loaded with `-p mutations.forks`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from hypothesis import settings
from mutations import codes, rows
from mutations.mutant import SRC, Mutant

SLOW = 6.0  # seconds, while it is traced
ENDLESS = 60.0  # seconds for one test, beside others: a mutant may well go round for ever

settings.register_profile("mutants", deadline=None, database=None, derandomize=True)
settings.load_profile("mutants")


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Serve jobs until the other end hangs up, instead of running what was collected."""
    with socket.socket(fileno=int(os.environ["LINEAL_MUTANTS"])) as line, line.makefile("rw") as talk:
        items = {item.nodeid: item for item in session.items}
        print(json.dumps(list(items)), file=talk, flush=True)
        for job in talk:
            print(json.dumps(_answer(session, items, json.loads(job))), file=talk, flush=True)
    return True


def _answer(session: pytest.Session, items: dict[str, pytest.Item], job: dict[str, Any]) -> dict[str, Any]:
    mutant = Mutant(**job["mutant"]) if job["mutant"] else None
    if job.get("record"):
        return _in_fork(lambda: {"seen": [_record(session, items[t]) for t in job["tests"]]}, job["seconds"])
    changed = {}
    if mutant and mutant.file and not job.get("fresh"):
        path = Path.cwd() / SRC / mutant.file
        found = codes.replaced(job["old"], job["new"], str(path))
        if found is None:
            return {"fresh": True}
        changed = found

    def run() -> dict[str, Any]:
        if mutant and mutant.rule:
            rows.apply(mutant)
        if changed:
            codes.swap(changed)
        return _first_failure(session, [items[t] for t in job["tests"] if t in items])

    return _in_fork(run, job["seconds"])


# --- in the fork -------------------------------------------------------------------------------------------------------


def _in_fork(run: Any, seconds: float) -> dict[str, Any]:
    """What `run` returns in a child of its own session; the child and all that it started end before this returns."""
    folder = tempfile.mkdtemp(prefix="fork-")
    answer = Path(folder) / "answer.json"
    child = os.fork()
    if not child:
        os.setsid()
        silent = os.open(os.devnull, os.O_RDWR)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
        try:
            answer.write_text(json.dumps(run()))
        except BaseException:
            answer.write_text(json.dumps({"error": traceback.format_exc()}))
        finally:
            os._exit(0)
    until = time.monotonic() + seconds
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    found = json.loads(answer.read_text()) if answer.exists() else {"killed_by": "it does not end, or ends the process"}
    shutil.rmtree(folder, ignore_errors=True)
    return dict(found)


def _first_failure(session: pytest.Session, items: list[pytest.Item]) -> dict[str, Any]:
    for n, item in enumerate(items):
        with _at_most(ENDLESS):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=items[n + 1] if n + 1 < len(items) else None)
        if session.testsfailed:
            return {"killed_by": item.nodeid, "ran": n + 1}
    return {"killed_by": "", "ran": len(items)}


# --- what a test runs --------------------------------------------------------------------------------------------------


def _record(session: pytest.Session, item: pytest.Item) -> dict[str, Any]:
    """Which functions of lineal the test calls, which rows decide in it, how long it takes, and whether it passes."""
    seen, decided = set[str](), set[str]()
    before, begun = session.testsfailed, time.monotonic()
    with _traced(seen), _deciding(decided), _at_most(SLOW):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    skipped = item.stash.get(_SKIPPED, False)
    return {
        "test": item.nodeid,
        "seconds": round(time.monotonic() - begun, 3),
        "passed": session.testsfailed == before and not skipped,
        "functions": sorted(seen),
        "rows": sorted(decided),
    }


class _Endless(BaseException):
    """Nobody catches it on the way, as they may a timeout."""


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """A test that takes longer fails, and is left out."""

    def over(number: int, frame: FrameType | None) -> None:
        raise _Endless(f"longer than {seconds} s")

    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


_SKIPPED = pytest.StashKey[bool]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome: Any = yield
    if outcome.get_result().skipped:
        item.stash[_SKIPPED] = True


@contextlib.contextmanager
def _traced(seen: set[str]) -> Iterator[None]:
    src = f"{Path.cwd() / SRC}{os.sep}"
    known: dict[CodeType, str] = {}

    def called(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code not in known:
            known[code] = _named(code, src)
            seen.add(known[code])

    threading.settrace(called)
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        seen.discard("")


def _named(code: CodeType, src: str) -> str:
    if not code.co_filename.startswith(src) or code.co_name == "<module>":
        return ""
    name = code.co_qualname
    if code.co_name in ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>"):
        return ""
    line = f"@{code.co_firstlineno}" if code.co_name == "<lambda>" else ""
    return f"{code.co_filename.removeprefix(src)}::{name}{line}"


@contextlib.contextmanager
def _deciding(decided: set[str]) -> Iterator[None]:
    from lineal.rules import Table

    decide = Table.decide

    def noted(self: Any, facts: Any, shown: Any = None) -> Any:
        verdict = decide(self, facts, shown)
        decided.add(f"{verdict.rule}.{verdict.reason}")
        return verdict

    Table.decide = noted  # type: ignore[method-assign]
    try:
        yield
    finally:
        Table.decide = decide  # type: ignore[method-assign]
