"""A failover: writers are told two hosts, the primary is killed under them, its synchronous standby is promoted (R30, E1).

Each writer is a process that appends turns and does effects through a session, two of them in each session. It tells
what was acknowledged in a file of its own; an effect writes its line to a file outside. Nobody tells the writers of the kill.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from lineal.store import connect
from lineal.testing.postgres import PostgresServer, until


@dataclass(frozen=True)
class Failover:
    """What was found afterwards. `outage` is the longest time, in seconds, in which no writer was told of a written turn."""

    acknowledged: int
    effects: int
    outage: float
    lost: tuple[str, ...]  # ids that were acknowledged and are not there, or not as often as once
    repeated: tuple[str, ...]  # effects that were done twice, or acknowledged and not done
    wrong: tuple[str, ...]  # what verify() found, and writers that ended

    @property
    def sound(self) -> bool:
        return not (self.lost or self.repeated or self.wrong)

    def __str__(self) -> str:
        told = f"{self.acknowledged} turns and {self.effects} effects acknowledged; longest outage {self.outage:.2f} s; "
        told += f"{len(self.lost)} lost, {len(self.repeated)} effects repeated"
        return "\n".join([told, *self.lost, *self.repeated, *self.wrong])


def failover(writers: int = 4, each: int = 25) -> Failover:
    """`each` turns of every writer before the kill, and as many after it. Raises `Unavailable` where no server can run."""
    with PostgresServer() as primary:
        standby = primary.standby()
        try:
            url = f"postgresql://{primary.user}@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres?schema=failover&wait=30"
            with tempfile.TemporaryDirectory(prefix="lineal-failover-") as name:
                return _story(Path(name), url, primary, standby, writers, each)
        finally:
            standby.remove()


def _story(folder: Path, url: str, primary: PostgresServer, standby: PostgresServer, writers: int, each: int) -> Failover:
    told = [folder / f"told-{n}" for n in range(writers)]
    for path in told:
        path.touch()
    stop, done = folder / "stop", folder / "done"
    words = [(url, f"agent-{n // 2}", f"w{n}", str(path), str(done), str(stop)) for n, path in enumerate(told)]
    children = [subprocess.Popen([sys.executable, "-c", _WRITER, *one], stderr=subprocess.PIPE, text=True) for one in words]

    def have(count: list[int]) -> bool:
        return any(child.poll() is not None for child in children) or all(len(_turns(p)) >= n for p, n in zip(told, count, strict=True))

    try:
        until(lambda: have([each] * writers), "what the writers are told before the kill")
        primary.kill9()
        standby.promote()
        reached = [len(_turns(path)) + each for path in told]
        until(lambda: have(reached), "what the writers are told after the promotion")
    finally:
        stop.touch()
        ends = [child.communicate()[1] for child in children]
    wrong = [
        f"writer {n} ended: {said.strip()[-500:]}" for n, (child, said) in enumerate(zip(children, ends, strict=True)) if child.returncode
    ]
    return _found(url, told, done, wrong)


def _found(url: str, told: list[Path], done: Path, wrong: list[str]) -> Failover:
    turns = [line for path in told for line in _turns(path)]
    effects = [line[1] for path in told for line in _lines(path) if line[0] == "effect"]
    times = sorted(float(line[2]) for line in turns)
    lines = Counter(done.read_text().splitlines())
    with connect(url, create=False) as store:
        names = store.sessions()
        standing = Counter(turn.id for name in names for turn in store.session(name).turns())
        wrong += [str(report) for report in store.verify() if not report.clean]
    return Failover(
        acknowledged=len(turns),
        effects=len(effects),
        outage=max((b - a for a, b in zip(times, times[1:], strict=False)), default=0.0),
        lost=tuple(line[1] for line in turns if standing[line[1]] != 1),
        repeated=tuple(key for key in {*lines, *effects} if lines[key] != 1),
        wrong=tuple(wrong),
    )


def _lines(path: Path) -> list[list[str]]:
    """Lines that were written whole."""
    return [line.split() for line in path.read_text().rpartition("\n")[0].splitlines()]


def _turns(path: Path) -> list[list[str]]:
    return [line for line in _lines(path) if line[0] == "turn"]


_WRITER = """
import os, sys, time
import lineal
url, name, me, told, done, stop = sys.argv[1:]
told, done = (os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for path in (told, done))
n = 0
with lineal.connect(url) as store:
    session = store.session(name)
    while not os.path.exists(stop):
        n += 1
        session.append({"role": "user", "content": f"request {n} of {me}"}, id=f"{me}-{n}")
        os.write(told, f"turn {me}-{n} {time.monotonic()}\\n".encode())
        with session.effect("write_line", {"line": f"{me}-{n}"}, key=f"{me}-{n}") as effect:
            if effect.pending:
                os.write(done, f"{me}-{n}\\n".encode())
                effect.settle("written")
        os.write(told, f"effect {me}-{n}\\n".encode())
"""
