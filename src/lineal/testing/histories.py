"""Histories of processes that write to one session at once: is there one order in which all that was acknowledged stands once?

Each process carries out verbs chosen by its seed, and writes down when it asked, when it was answered, and what; now and then
one is killed and another takes its place. What must hold of all their histories together stands in `orders`. Times are of
the machine's monotonic clock, which its processes share.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from lineal.errors import Conflict, LinealError, Refused
from lineal.policy import Policy
from lineal.session import Session
from lineal.store import Store, connect
from lineal.testing.orders import SHARED, Operation, lost, out_of_order, shown, unlike
from lineal.testing.summaries import honest
from lineal.testing.tally import Tally

POLICY = Policy(trigger=1_200, ceiling=2_400, target=500, floor_turns=4, summary_max_tokens=200)
KEYS = tuple(f"k{n}" for n in range(6))


# --- one process -----------------------------------------------------------------------------------------------------

Answer = tuple[int, str, bool]  # value, seen, pending
VERBS = {
    "append": 10,
    "shared": 4,
    "effect": 4,
    "head": 3,
    "read": 3,
    "compact": 1,
    "checkpoint": 1,
    "pin": 1,
    "rollback": 0.6,
    "fork": 0.1,
}


def _next(session: Session, chance: random.Random, process: int, n: int) -> tuple[str, str, Callable[[], Answer]]:
    """What to do next: the verb, the name of what it is about, and how."""
    verb, mine = chance.choices([*VERBS], [*VERBS.values()])[0], f"p{process}-{os.getpid()}-{n}"
    role = chance.choice(["user", "assistant"])
    if verb == "append":
        message = {"role": role, "content": f"{mine} says something about the work"}
        return "append", mine, lambda: (session.append(message, id=mine).seq, "", False)
    if verb == "shared":
        name = chance.choice(SHARED)
        said = {"role": "assistant", "content": f"{name} is said by whoever comes first"}
        return "append", name, lambda: (session.append(said, id=name).seq, "", False)
    if verb == "effect":
        key, settles = chance.choice(KEYS), chance.random() < 0.4
        return "effect", key, lambda: _effect(session, key, settles)
    told: dict[str, Callable[[], Answer]] = {
        "compact": lambda: _generation(session),
        "checkpoint": lambda: (session.checkpoint("of a history").seq, "", False),
        "pin": lambda: (0, session.pin(mine), False),
        "rollback": lambda: _rollback(session),
        "fork": lambda: (0, session.fork(mine).name, False),
        "read": lambda: _read_view(session),
        "head": lambda: (session.status().head, "", False),
    }
    return verb, mine if verb in ("pin", "fork") else "", told[verb]


def _effect(session: Session, key: str, settles: bool) -> Answer:
    effect = session.effect("send", {"to": key}, key=key)
    effect.__enter__()
    told = effect.pending
    if told and settles:
        effect.settle("sent")
    elif told:
        effect.no_effect("the other side was busy")
    return int(told and settles), "", told


def _generation(session: Session) -> Answer:
    outcome = session.maybe_compact(honest)
    if isinstance(outcome, Refused):
        raise outcome
    return session.status().generation, "", False


def _rollback(session: Session) -> Answer:
    """To the newest checkpoint, if nobody wrote since it was chosen."""
    known, head = session.checkpoints(), session.status().head
    if not known:
        return 0, "", False
    return session.rollback(known[0], expected_head=head).seq, str(head), False


def _read_view(session: Session) -> Answer:
    view = session.view()
    return view.seq, shown(view.generation, view.turns, view.summaries), False


def work(url: str, process: int, operations: int, seed: int, told: Callable[[str], None]) -> None:
    """What one process does. Each line that it tells is an operation: first as asked, then as answered."""
    chance = random.Random(seed)
    with connect(url) as store:
        session = store.session("agent", POLICY, honest)
        for n in range(operations):
            verb, name, act = _next(session, chance, process, n)
            asked = Operation(process, verb, name, time.monotonic())
            told(json.dumps(asdict(asked)))
            try:
                value, seen, pending = act()
                answer = {"ok": True, "value": value, "seen": seen, "pending": pending}
            except (Refused, Conflict):
                answer = {"ok": False}
            told(json.dumps({**asdict(asked), "answered": time.monotonic(), **answer}))


_CHILD = """
import os, sys
from lineal.testing.histories import work
url, process, operations, seed, path = sys.argv[1:]
out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
work(url, int(process), int(operations), int(seed), lambda line: os.write(out, (line + "\\n").encode()))
"""


# --- many processes --------------------------------------------------------------------------------------------------


def run(url: str, folder: Path, processes: int, operations: int, seed: int, kill: bool) -> tuple[list[Operation], int]:
    """Let them work; the operations of all, and how many were killed. Each that is killed is followed by a fresh one."""
    chance, kills = random.Random(seed), 0
    connect(url).close()

    def start(process: int, n: int) -> subprocess.Popen[bytes]:
        drawn = str(seed * 1000 + process * 10 + n)
        return subprocess.Popen([sys.executable, "-c", _CHILD, url, str(process), str(operations), drawn, str(_path(folder, process))])

    running = [start(process, 0) for process in range(processes)]
    for process in sorted(range(processes), key=lambda _: chance.random()) if kill else ():
        if chance.random() < 0.8 and _at_work(running[process], _path(folder, process), chance.randint(1, operations)):
            time.sleep(chance.uniform(0, 0.01))  # where exactly the kill strikes is the point of it
            running[process].kill()
            running[process].wait()
            running[process], kills = start(process, 1), kills + 1
    ended = [child.wait(timeout=300) for child in running]
    if any(ended):
        raise AssertionError(f"processes ended with {ended}: seed {seed}")
    return [operation for path in sorted(folder.glob("history-*.jsonl")) for operation in _read(path)], kills


def _path(folder: Path, process: int) -> Path:
    return folder / f"history-{process}.jsonl"


def _at_work(child: subprocess.Popen[bytes], path: Path, lines: int) -> bool:
    """Wait until it has written so many lines. False if it ends before."""
    while child.poll() is None:
        if path.exists() and path.read_bytes().count(b"\n") >= lines:
            return True
        time.sleep(0.002)
    return False


def _read(path: Path) -> Iterator[Operation]:
    """Each operation once: as answered, or as asked where no answer was written."""
    asked: Operation | None = None
    for line in path.read_text().splitlines():
        operation = Operation(**json.loads(line))
        if operation.answered:
            asked = None
            yield operation
        else:
            if asked is not None:
                yield asked
            asked = operation
    if asked is not None:
        yield asked


def campaign(
    url_for: Callable[[str], str],
    folder: Path,
    runs: int = 3,
    processes: int = 4,
    operations: int = 60,
    seed: int = 1,
    kill: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Tally:
    """So many runs, each on a store of its own (`url_for` of its name), each checked."""
    whole = Tally()
    for n in range(runs):
        place = folder / f"run-{n}"
        place.mkdir()
        history, kills = run(url_for(f"run-{n}"), place, processes, operations, seed + n, kill)
        with connect(url_for(f"run-{n}"), create=False) as store:
            whole += tallied(history, store, kills, f"seed {seed + n}")
        if progress:
            progress(n + 1, runs)
    return whole


def tallied(history: list[Operation], store: Store, kills: int, where: str) -> Tally:
    """What the history and the log say about each other, as a tally."""
    tally = Tally(runs=1)
    tally.faults["a process killed at work"] += kills
    for operation in history:
        answer = "answered" if operation.ok else "refused" if operation.answered else "never answered"
        tally.states[f"{operation.verb} {answer}"] += 1
    try:
        session = store.session("agent", POLICY, honest)
        rows = list(session.log.entries())
        log = [(row.seq, entry) for row, entry in rows]
        tally.lost += [f"{where}: {sentence}" for sentence in lost(history, log)]
        tally.broken += [f"{where}: {sentence}" for sentence in (*out_of_order(history, log), *unlike(history, rows))]
        forks = {o.name for o in history if o.verb == "fork" and o.ok}
        tally.lost += [f"{where}: the fork {name} was made and is not there" for name in forks - {*store.sessions()}]
        for one in (session, *(store.session(name, POLICY, honest) for name in forks & {*store.sessions()})):
            one.recover()
            if not one.verify().clean:
                tally.torn.append(f"{where}: verify() of {one.name} finds {[r.verdict.name for r in one.verify()]}")
    except LinealError as error:
        tally.torn.append(f"{where}: {error}")
    return tally
