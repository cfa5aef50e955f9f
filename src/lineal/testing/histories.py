"""Histories of processes that write to one session at once: is there one order in which all that was acknowledged stands once?

Each process carries out verbs chosen by its seed, and writes down when it asked, when it was answered, and what; now and then
one is killed and another takes its place. The log's own order is the candidate. It is held against every history:

| what is checked | by |
|---|---|
| an acknowledged append stands once, at the seq that was acknowledged | ids of the log |
| what was asked and never answered stands at most once | ids of the log |
| the same id gives the same seq to everybody who asks | answers |
| what was answered before something else was asked stands before it (real time) | answers and times |
| heads that are read never go back (real time, across processes) | answers and times |
| under one key one process at a time was told to send, and nobody after it was done | answers and times |
| generations are committed once each, each on the one before | entries of the log |

Times are of the machine's monotonic clock, which its processes share.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise, permutations
from pathlib import Path

from lineal.entries import CompactionCommitted, Entry, TurnAppended
from lineal.errors import Conflict, LinealError, Refused
from lineal.policy import Policy
from lineal.session import Session
from lineal.store import Store, connect
from lineal.testing.summaries import honest
from lineal.testing.tally import Tally

POLICY = Policy(trigger=1_200, ceiling=2_400, target=500, floor_turns=4, summary_max_tokens=200)
KEYS = tuple(f"k{n}" for n in range(6))
SHARED = tuple(f"shared{n}" for n in range(12))


@dataclass(frozen=True)
class Operation:
    """One verb of one process. `answered` is 0 where no answer came; `ok` False where it was refused, which changes nothing."""

    process: int
    verb: str
    name: str
    asked: float
    answered: float = 0.0
    ok: bool = False
    value: int = 0
    pending: bool = False


# --- one process -----------------------------------------------------------------------------------------------------


def _verbs(session: Session, chance: random.Random, process: int, n: int) -> tuple[str, str, Callable[[], tuple[int, bool]]]:
    """What to do next: the verb, the name of what it is about, and how."""
    verb = chance.choices(["append", "shared", "effect", "compact", "head", "checkpoint"], [10, 4, 4, 1, 4, 1])[0]
    if verb in ("append", "shared"):
        name = f"p{process}-{os.getpid()}-{n}" if verb == "append" else chance.choice(SHARED)
        message = {"role": chance.choice(["user", "assistant"]), "content": f"{name} says something about the work"}
        if verb == "shared":
            message = {"role": "assistant", "content": f"{name} is said by whoever comes first"}
        return "append", name, lambda: (session.append(message, id=name).seq, False)
    if verb == "effect":
        key = chance.choice(KEYS)
        return "effect", key, lambda: _effect(session, key, chance.random() < 0.7)
    if verb == "compact":
        return "compact", "", lambda: (_generation(session), False)
    if verb == "checkpoint":
        return "checkpoint", "", lambda: (session.checkpoint("of a history").seq, False)
    return "head", "", lambda: (session.status().head, False)


def _effect(session: Session, key: str, settles: bool) -> tuple[int, bool]:
    effect = session.effect("send", {"to": key}, key=key)
    effect.__enter__()
    told = effect.pending
    if told and settles:
        effect.settle("sent")
    elif told:
        effect.no_effect("the other side was busy")
    return int(settles), told


def _generation(session: Session) -> int:
    outcome = session.maybe_compact(honest)
    if isinstance(outcome, Refused):
        raise outcome
    return session.status().generation


def work(url: str, process: int, operations: int, seed: int, told: Callable[[str], None]) -> None:
    """What one process does. Each line that it tells is an operation: first as asked, then as answered."""
    chance = random.Random(seed)
    with connect(url) as store:
        session = store.session("agent", POLICY, honest)
        for n in range(operations):
            verb, name, act = _verbs(session, chance, process, n)
            asked = Operation(process, verb, name, time.monotonic())
            told(json.dumps(asdict(asked)))
            try:
                value, pending = act()
                answer = {"ok": True, "value": value, "pending": pending}
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
        path = str(folder / f"history-{process}.jsonl")
        return subprocess.Popen(
            [sys.executable, "-c", _CHILD, url, str(process), str(operations), str(seed * 1000 + process * 10 + n), path]
        )

    running = [start(process, 0) for process in range(processes)]
    if kill:
        time.sleep(0.5)  # until they are at work; where exactly the kill strikes is the point of it
        for process in range(processes):
            time.sleep(chance.uniform(0.02, 0.25))
            if running[process].poll() is None and chance.random() < 0.6:
                running[process].send_signal(signal.SIGKILL)
                running[process].wait()
                running[process], kills = start(process, 1), kills + 1
    ended = [child.wait(timeout=300) for child in running]
    if any(ended):
        raise AssertionError(f"processes ended with {ended}: seed {seed}")
    return [operation for path in sorted(folder.glob("history-*.jsonl")) for operation in _read(path)], kills


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
        log = [(row.seq, entry) for row, entry in session.log.entries()]
        tally.lost += [f"{where}: {sentence}" for sentence in lost(history, log)]
        tally.broken += [f"{where}: {sentence}" for sentence in out_of_order(history, log)]
        if not session.verify().clean:
            session.recover()
        if not session.verify().clean:
            tally.torn.append(f"{where}: verify() finds {[r.verdict.name for r in session.verify()]}")
    except LinealError as error:
        tally.torn.append(f"{where}: {error}")
    return tally


# --- the checker -----------------------------------------------------------------------------------------------------


def lost(history: Iterable[Operation], log: Iterable[tuple[int, Entry]]) -> Iterator[str]:
    """Appends that were acknowledged and do not stand where they were said to stand, or stand twice."""
    places = [(entry.id, seq) for seq, entry in log if isinstance(entry, TurnAppended)]
    at, count = dict(places), Counter(id for id, _ in places)
    yield from (f"{id} stands {n} times" for id, n in count.items() if n > 1)
    for operation in history:
        if operation.verb == "append" and operation.ok and at.get(operation.name) != operation.value:
            yield f"{operation.name} was acknowledged at seq {operation.value} and stands at {at.get(operation.name)}"
    asked = {operation.name for operation in history if operation.verb == "append"}
    yield from (f"{id} stands at seq {seq} and nobody said it" for id, seq in places if id not in asked)


def out_of_order(history: list[Operation], log: list[tuple[int, Entry]]) -> Iterator[str]:
    """Answers that no single order of the operations, true to real time, can give."""
    answered = sorted((o for o in history if o.ok), key=lambda o: o.answered)
    yield from _not_in_real_time([o for o in answered if o.verb in ("append", "head", "checkpoint")])
    yield from _sent_twice([o for o in history if o.verb == "effect"])
    generation = 0
    for seq, entry in log:
        if isinstance(entry, CompactionCommitted):
            if entry.parent != generation or entry.generation <= generation:
                yield f"generation {entry.generation} at seq {seq} follows {entry.parent}, the one before is {generation}"
            generation = entry.generation


def _not_in_real_time(answered: list[Operation]) -> Iterator[str]:
    """Whoever asks after an answer came must be told of a head at least so far; a fresh append must stand behind it."""
    first: dict[str, Operation] = {}
    for operation in answered:
        if operation.verb == "append":
            first.setdefault(operation.name, operation)
    for later in answered:
        before = [o for o in answered if o.answered < later.asked]
        newest = max((o.value for o in before), default=0)
        fresh = later.verb == "append" and later.name not in SHARED and first[later.name] is later
        if later.verb == "head" and later.value < newest or fresh and later.value <= newest:
            yield f"{later.verb} {later.name} of process {later.process} gave {later.value} after {newest} had been acknowledged"


def _sent_twice(effects: list[Operation]) -> Iterator[str]:
    """Two that were told to send under one key: the first must have ended without effect before the second was told."""
    for key in {o.name for o in effects}:
        told = sorted((o for o in effects if o.name == key and o.pending), key=lambda o: o.answered)
        for first, second in pairwise(told):
            if first.value:
                yield f"{key} was done by process {first.process}, and process {second.process} was told to send it again"


def an_order_of(appends: list[Operation]) -> tuple[Operation, ...] | None:
    """By brute force, for a few appends: an order that is true to real time and in which the seqs grow; None if there is none."""
    for order in permutations(appends):
        timely = all(later.answered >= earlier.asked for i, earlier in enumerate(order) for later in order[i + 1 :])
        if timely and all(one.value < next.value for one, next in pairwise(order)):
            return order
    return None
