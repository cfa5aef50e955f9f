"""An engine that lies about one call of the story: what it acknowledged and did not do, or did in another order (R59, R60).

No memory can survive an engine that breaks its promises. What lineal owes then is that nobody takes the store for whole: see
`FAULTS` in `faults`. The story is played on the memory engine, with an anchor file, once for each fault and each call that
changes something; when it has ended (or was stopped by an error with a name) the store is opened again without the liar.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lineal.engines import Engine
from lineal.errors import LinealError
from lineal.holder import release
from lineal.store import Store
from lineal.testing.faults import CHANGES, FAULTS, Fault, FaultyEngine
from lineal.testing.lasting import Lasting
from lineal.testing.stories import POLICY, STORY, Reference, Step, Tale, portrait, reference, summarize
from lineal.testing.tally import Tally

Progress = Callable[[int, int], None]
QUIET = tuple(fault for fault in FAULTS if not fault.kills)


@dataclass
class Told:
    """One playing of the story on a lying engine: what was acknowledged, and the named error that stopped it, if one did."""

    steps: list[str] = field(default_factory=list)
    error: LinealError | None = None


def every_lie(faults: Iterable[Fault] = QUIET, every: int = 1, progress: Progress | None = None, steps: Sequence[Step] = STORY) -> Tally:
    """Each of `faults` at each call of the story that changes something (`every`: at each so-many-th of them).

    `undetected` holds every store that is no legal state and was taken for whole.
    """
    tally, whole = Tally(), reference(steps)
    with tempfile.TemporaryDirectory(prefix="lineal-lies-") as made:
        methods = _methods(steps, str(Path(made) / "counted.json"))
        places = [k for k, method in enumerate(methods, 1) if method in CHANGES][::every]
        points = [(fault, k) for fault in faults for k in places]
        for done, (fault, k) in enumerate(points, 1):
            outcome, what = run(fault, k, whole, steps, str(Path(made) / f"{done}.json"))
            tally.runs += 1
            tally.faults[fault.name] += 1
            tally.states[outcome] += 1
            if outcome == "undetected":
                tally.undetected.append(f"{fault.name} at call {k} ({methods[k - 1]}): {what}")
            if fault.promise == "survived" and outcome == "detected":
                tally.broken.append(f"{fault.name} at call {k} ({methods[k - 1]}) must be survived: {what}")
            if progress:
                progress(done, len(points))
    return tally


def _methods(steps: Sequence[Step], anchor: str) -> list[str]:
    """The calls of the story with an anchor beside the store."""
    lasting = Lasting()
    faulty = FaultyEngine(lasting)
    Tale(faulty, lambda: lasting, lambda name: None, anchor).play(steps)
    return [method for _, method in faulty.calls]


def run(fault: Fault, k: int, whole: Reference, steps: Sequence[Step], anchor: str) -> tuple[str, str]:
    """(`old`, `new`, `between`, `part`, `detected` or `undetected`; why, in words) for one fault at the k-th call."""
    lasting, told = Lasting(), Told()
    faulty = FaultyEngine(lasting)
    fault.put(faulty, k)
    tale = Tale(faulty, lambda: lasting, told.steps.append, anchor)
    try:
        tale.play(steps)
    except LinealError as error:
        told.error = error
    finally:
        release(tale.store.holder)
    return judged(lasting, whole, told, anchor)


def judged(engine: Engine, whole: Reference, told: Told, anchor: str) -> tuple[str, str]:
    """What a store is worth that a liar has left, read without it."""
    heard = f"the story was told {type(told.error).__name__}: {told.error}" if told.error else "nobody was told"
    try:
        store = Store(engine, anchor)
        reports = store.verify()
        release(store.holder)
        if reports.damaged:
            return "detected", f"{heard}; verify: {reports[0].verdict.name} {reports[0].detail}"
        found = portrait(engine, anchor)
    except LinealError as error:
        return "detected", f"{heard}; {type(error).__name__}: {error}"
    span = whole.span(told.steps)
    step = next((name for name in whole.ends if name not in told.steps), [*whole.ends][-1])
    for at in span:
        if whole.portraits[at]["seen"] == found["seen"] and _erased(whole.portraits[at]) == _erased(found):
            return ("old" if at == span[0] else "new" if at == whole.ends[step] else "between"), heard
    part = any(_part(found, whole.portraits[at]) for at in span)
    if told.error is not None and (part or (not reports.clean and _ends_well(engine, anchor))):
        return "part", heard
    return "undetected", f"after {told.steps[-1:]} {heard}, and the store, which is no state of the story, was taken for whole"


def _ends_well(engine: Engine, anchor: str) -> bool:
    """Whether what is declared as in progress can be gone on with, until nothing is open."""
    store = Store(engine, anchor)
    try:
        for name in store.sessions():
            store.session(name, POLICY, summarize).recover()
        return store.verify().clean
    finally:
        release(store.holder)


def _erased(seen: dict[str, Any]) -> dict[str, list[int]]:
    """What a purge has erased must be erased, whatever else stands in the log."""
    return {name: [seq for seq, _, erased, _ in log if erased] for name, log in seen["log"].items()}


def _part(found: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether the logs are beginnings of those that would have stood: a part of an operation that was told to have failed."""
    return all(log == after["log"].get(name, [])[: len(log)] for name, log in found["log"].items())
