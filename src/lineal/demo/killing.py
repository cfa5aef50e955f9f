"""Starting the agent as a process of its own, hearing what it tells, and killing it where it stands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lineal.demo.agent import STOPS
from lineal.errors import Unavailable

PATIENCE = 180.0  # seconds that one run of the agent may take
Told = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One life of the agent process. `stopped`: what it told where it stood when it was killed, None if it came to its end."""

    pid: int
    returncode: int
    told: tuple[Told, ...]
    stopped: Told | None


@dataclass(frozen=True)
class Command:
    """How to start the agent."""

    transcript: Path
    store: Path
    conversation: int
    limit: int
    seed: int

    def line(self, stops: Iterable[str]) -> list[str]:
        given = [str(self.transcript.absolute()), str(self.store.absolute())]
        numbers = ["--conversation", str(self.conversation), "--limit", str(self.limit), "--seed", str(self.seed)]
        return [sys.executable, "-m", "lineal.demo", *given, *numbers, *(w for stop in stops for w in ("--stop", stop))]


def run(command: Command, stops: Iterable[str], hear: Callable[[Told], None]) -> Run:
    """Run the agent until it stands at one of `stops`, and kill it there; or until its end.

    `hear` is called with each line as it comes. Raises `Unavailable` if the process fails, or says nothing for too long.
    """
    if not hasattr(signal, "SIGKILL"):
        raise Unavailable("lineal demo", "this platform has no SIGKILL", "run it on Linux or macOS")
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command.line(stops), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8", errors="replace"
        )
        watchdog = threading.Timer(PATIENCE, process.send_signal, (signal.SIGALRM,))
        watchdog.daemon = True
        watchdog.start()
        try:
            told, stopped = _listen(process, hear)
        finally:
            watchdog.cancel()
            process.kill()
            process.communicate()
        expected = -signal.SIGKILL if stopped else 0
        if process.returncode != expected:
            errors.seek(0)
            raise _failed(process.returncode, expected, errors.read().decode("utf-8", "replace"))
    return Run(process.pid, process.returncode, tuple(told), stopped)


def _failed(returncode: int, expected: int, said: str) -> Unavailable:
    late = f"it came to no end within {PATIENCE:g} s" if returncode == -signal.SIGALRM else "it said nothing"
    return Unavailable(
        f"the demo's agent process ended with {returncode}, {expected} was expected",
        (said.strip().splitlines() or [late])[-1],
        "run it again; the store that it left behind can be read as it is",
    )


def _listen(process: subprocess.Popen[str], hear: Callable[[Told], None]) -> tuple[list[Told], Told | None]:
    told: list[Told] = []
    for line in process.stdout or ():
        fact = json.loads(line)
        if fact["at"] in STOPS:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            return told, fact
        told.append(fact)
        hear(fact)
    process.wait()
    return told, None
