"""The primary is killed under load and its standby takes over: what was acknowledged, what was done, and how long nobody was served.

| step | |
|---|---|
| a primary, and a synchronous standby (`remote_apply`) | a commit is acknowledged when it stands on both |
| writers, each a process with a session of its own | append a turn, then do an effect: a line in a file outside |
| SIGKILL to the primary and all its processes | in the middle of whatever they do |
| the standby is promoted | writers go on by the list of hosts in their URL; nobody starts them anew |
| they stop | every acknowledged turn and effect must stand there, once; no line outside may stand twice |
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lineal.store import connect
from lineal.testing.postgres import USER, PostgresServer

WAIT = 60  # seconds for which a writer waits for a server


@dataclass(frozen=True)
class Failover:
    """What was found. `outage`: seconds from the kill to the first acknowledgement behind it; `promoted`: what of it promoting took."""

    writers: int
    acknowledged: int
    done: int
    lost: tuple[str, ...]
    repeated: tuple[str, ...]
    broken: tuple[str, ...]
    promoted: float
    outage: float

    @property
    def sound(self) -> bool:
        return not (self.lost or self.repeated or self.broken)


_WRITER = """
import json, sys, time
from pathlib import Path
from lineal.store import connect

url, name, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
session = connect(url).session(name)
told = open(folder / f"{name}.told", "a", buffering=1)
n = 0
while not (folder / "stop").exists():
    session.append({"role": "user", "content": f"step {n} of {name}"}, id=f"u{n}")
    print(json.dumps({"turn": f"u{n}", "at": time.monotonic()}), file=told)
    with session.effect("stamp", {"n": n}, key=f"stamp:{n}") as effect:
        if effect.pending:
            with open(folder / f"{name}.world", "a", buffering=1) as world:
                print(n, file=world)
            effect.settle(n)
    print(json.dumps({"effect": f"stamp:{n}", "at": time.monotonic()}), file=told)
    n += 1
print(json.dumps({"end": n, "at": time.monotonic()}), file=told)
"""


def failover(writers: int = 4, before: int = 40, after: int = 40) -> Failover:
    """Carry it out: each writer has at least `before` acknowledgements when the primary is killed, and gets `after` more."""
    with tempfile.TemporaryDirectory(prefix="lineal-failover-") as name, PostgresServer() as primary:
        folder = Path(name)
        standby = primary.standby()
        try:
            hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
            url = f"postgresql://{USER}@{hosts}/postgres?wait={WAIT}&connect_timeout=2"
            connect(url).close()
            words = [sys.executable, "-c", _WRITER, url]
            processes = [subprocess.Popen([*words, f"w{n}", str(folder)], stderr=subprocess.PIPE, text=True) for n in range(writers)]
            _wait_for(folder, processes, before)
            killed = time.monotonic()
            primary.kill9()
            standby.promote()
            promoted = time.monotonic() - killed
            _wait_for(folder, processes, [len(_told(folder, n)) + after for n in range(writers)])
            (folder / "stop").touch()
            said = [process.communicate(timeout=WAIT * 2)[1] for process in processes]
            errors = [text if process.returncode else "" for text, process in zip(said, processes, strict=True)]
            return _judged(folder, url, writers, errors, killed, promoted)
        finally:
            standby.__exit__(None, None, None)


def _told(folder: Path, writer: int) -> list[dict[str, object]]:
    path = folder / f"w{writer}.told"
    return [json.loads(line) for line in path.read_text().splitlines(True) if line.endswith("\n")] if path.exists() else []


def _wait_for(folder: Path, processes: list[subprocess.Popen[str]], wanted: int | list[int]) -> None:
    """Until every writer has been told so much; or one has ended, which is judged later."""
    counts = [wanted] * len(processes) if isinstance(wanted, int) else wanted
    while any(len(_told(folder, n)) < count for n, count in enumerate(counts)):
        if any(process.poll() is not None for process in processes):
            return
        time.sleep(0.02)


def _judged(folder: Path, url: str, writers: int, errors: list[str], killed: float, promoted: float) -> Failover:
    lost: list[str] = []
    repeated: list[str] = []
    broken = [f"w{n} ended: {text[-500:]}" for n, text in enumerate(errors) if text]
    acknowledged = done = 0
    first: list[float] = []
    with connect(url, create=False) as store:
        for n in range(writers):
            told, session = _told(folder, n), store.session(f"w{n}")
            turns, states = Counter(t.id for t in session.turns()), {row.key: row.state for row in session.ledger()}
            lost += [f"w{n} {line['turn']}" for line in told if "turn" in line and turns[str(line["turn"])] != 1]
            lost += [f"w{n} {line['effect']}" for line in told if "effect" in line and states.get(str(line["effect"])) != "done"]
            stamps = Counter((folder / f"w{n}.world").read_text().split())
            repeated += [f"w{n} stamp:{stamp}" for stamp, times in stamps.items() if times > 1]
            repeated += [f"w{n} seq {a.seq} and {b.seq}" for a, b in pairwise(session.turns()) if a.id == b.id]
            broken += [f"w{n}: {report}" for report in session.verify() if not report.clean]
            acknowledged, done = acknowledged + len(told), done + len(stamps)
            first += [min((float(str(line["at"])) for line in told if float(str(line["at"])) > killed + promoted), default=float("inf"))]
    return Failover(writers, acknowledged, done, tuple(lost), tuple(repeated), tuple(broken), promoted, min(first) - killed)


def told(found: Failover) -> str:
    lines = [
        f"{found.writers} writers, {found.acknowledged:,} acknowledgements, {found.done:,} effects",
        f"lost {len(found.lost)}, repeated {len(found.repeated)}, broken {len(found.broken)}",
        f"outage {found.outage:.2f} s, of which promoting took {found.promoted:.2f} s",
        *found.lost, *found.repeated, *found.broken,
    ]  # fmt: skip
    return "\n".join(lines)
