"""Crashes and power cuts at every operation of the disk (R30, R35, R60).

The story of `stories` is played once, on SQLite with an anchor file beside it, on a disk that keeps its trace. Each place where
it could have been cut off is then made from the trace, opened as any process would open it, and examined: it must be one of the
stores that the reference knows, not older than what was acknowledged; it must verify, recover and go on; the anchor must agree
with it, and remember every head that was acknowledged. So a point costs no more than its examination.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from lineal import anchor as anchor_module
from lineal.anchor import AnchorFile
from lineal.engines import open_engine, sqlite_file
from lineal.entries import PurgeBegun
from lineal.errors import LinealError
from lineal.holder import release
from lineal.session import Session
from lineal.store import Store
from lineal.testing import stories
from lineal.testing.disk import FaultyDisk
from lineal.testing.faults import FaultyEngine
from lineal.testing.stories import Found, Reference, Step, Story, Tale, examine, reference
from lineal.testing.tally import Tally
from lineal.testing.trace import Image, Op, Trace, fingerprint, put

STORE, ANCHOR, RECORDING = "agent.db", "anchor.json", "recording.pickle"
PARTS = (0.0, 1 / 3, 2 / 3, 1.0)  # of a write that the end of the process cut off
BLOCK = 32  # operations that one worker takes at once: neighbours often leave the same image
Progress = Callable[[int, int], None]


@dataclass
class Recording:
    """The story as the disk saw it. `heads[n]`: the anchor's heads when the n-th thing was acknowledged."""

    trace: Trace
    whole: Reference
    heads: list[dict[str, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Point:
    """One cut: before operation `n` (counted from 0), or for a crash within it. `seed` is None for a crash, `part` None for a cut."""

    n: int
    op: Op | None
    part: float | None = None
    seed: int | None = None

    def __str__(self) -> str:
        where = f"operation {self.n} ({self.op or 'the end'})"
        return f"crash in {where}, {self.part:.2f} of it done" if self.seed is None else f"power cut before {where}, seed {self.seed}"


def record(folder: Path, story: Story = "STORY", synchronous: str = "FULL") -> Recording:
    """Play the story once on a new store in `folder`, in a process of its own: its holder must be dead when the cuts are examined.

    `synchronous` is SQLite's setting; anything but FULL loses what was acknowledged, and is there to show that it does.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_record, folder, story, synchronous).result()


def _record(folder: Path, story: Story, synchronous: str) -> Recording:
    sqlite_file.SETTINGS = (*sqlite_file.SETTINGS, ("synchronous", synchronous))
    steps: Sequence[Step] = getattr(stories, story)
    disk = FaultyDisk(f"recording-{uuid.uuid4().hex}", keep=True)
    assert disk.trace is not None
    recording, anchor = Recording(disk.trace, reference(steps)), AnchorFile(folder / ANCHOR)

    def tell(name: str) -> None:
        disk.told(name)
        recording.heads.append({session: seq for session, (seq, _, _) in anchor.read().items()})

    url = f"{folder / STORE}?vfs={disk.vfs_name}"
    try:
        with disk.under(anchor_module):
            Tale(FaultyEngine(open_engine(url)), lambda: open_engine(url), tell, str(anchor.path)).play(steps)
    finally:
        disk.unregister()
    return recording


# --- all points ------------------------------------------------------------------------------------------------------


def campaign(
    directory: Path | None = None,
    seeds: Iterable[int] = range(8),
    every: int = 1,
    progress: Progress | None = None,
    workers: int = 2,
    story: Story = "STORY",
    lying: bool = False,
    synchronous: str = "FULL",
) -> Tally:
    """Crash in each write, in each of `PARTS`; cut the power before each operation, for each of `seeds`.

    `directory` is where images are opened (default: in memory, where the system has such a place). `every`: take each so-many-th
    operation only. `lying`: the disk acknowledges syncs and does not carry them out; with it, or with less `synchronous` than
    FULL, the tally shows what that costs.
    States count every point; `images` in them says how many differed and were examined.
    """
    with tempfile.TemporaryDirectory(dir=directory or in_memory(), prefix="lineal-cuts-") as made:
        folder = Path(made)
        (folder / "played").mkdir()
        recording = record(folder / "played", story, synchronous)
        (folder / RECORDING).write_bytes(pickle.dumps(recording))
        blocks = range(0, len(recording.trace.ops) + 1, BLOCK)
        work = partial(_block, made, tuple(seeds), every, lying)
        return sum(in_processes(work, blocks, workers, progress), Tally())


def again(
    directory: Path | None = None,
    every: int = 20,
    cuts: int = 4,
    progress: Progress | None = None,
    workers: int = 2,
    story: Story = "STORY",
) -> Tally:
    """Cut the power before each so-many-th operation of the story, and again at `cuts` places while what is left recovers.

    Nothing that was said may be missing then (but for what a purge was erasing), and the store must still go on.
    """
    with tempfile.TemporaryDirectory(dir=directory or in_memory(), prefix="lineal-cuts-") as made:
        folder = Path(made)
        (folder / "played").mkdir()
        recording = record(folder / "played", story)
        (folder / RECORDING).write_bytes(pickle.dumps(recording))
        blocks = range(0, len(recording.trace.ops) + 1, BLOCK)
        return sum(in_processes(partial(_block_again, made, every, cuts), blocks, workers, progress), Tally())


def _block_again(folder: str, every: int, cuts: int, first: int) -> Tally:
    tally, place = Tally(), Path(tempfile.mkdtemp(dir=folder))
    for n, op, replay in _recording(folder).trace.replays(first, first + BLOCK):
        if op.kind != "told" and n % every == 0:
            image = replay.after_cut(f"first/{n}")
            recovery, said = _recovered(image, place)
            chance = random.Random(n)
            for at in chance.sample(range(len(recovery.ops) + 1), min(cuts, len(recovery.ops) + 1)):
                put(recovery.after(at).after_cut(f"second/{n}/{at}"), place)
                tally.runs += 1
                tally.faults["power cut in a recovery"] += 1
                where = f"power cut before operation {n} ({op}), and again before operation {at} of the recovery"
                tally.torn += [f"{where}: {what}" for what in _after_again(place, said)]
    return tally


def _recovered(image: Image, place: Path) -> tuple[Trace, dict[str, list[str]]]:
    """What the disk was asked for while the store in `image` was opened and recovered, and which turns it had, by session."""
    put(image, place)
    disk = FaultyDisk(f"again-{uuid.uuid4().hex}", keep=True)
    disk.trace = Trace(dict(image))
    engine = open_engine(f"{place / STORE}?vfs={disk.vfs_name}")
    with disk.under(anchor_module):
        store = Store(engine, place / ANCHOR)
        sessions = [store.session(name, stories.POLICY, stories.summarize) for name in store.sessions()]
        going = {id for session in sessions for id in _being_purged(session)}
        said = {session.name: [turn.id for turn in session.turns() if turn.id not in going] for session in sessions}
        for session in sessions:
            session.recover()
        store.close()
    disk.unregister()
    return disk.trace, said


def _being_purged(session: Session) -> tuple[str, ...]:
    begun = session.log.lineage.purging
    found = [entry for _, entry in session.log.entries(begun - 1, begun)] if begun else []
    return tuple(id for entry in found if isinstance(entry, PurgeBegun) for id in entry.turns)


def _after_again(place: Path, said: dict[str, list[str]]) -> Iterator[str]:
    try:
        engine = open_engine(str(place / STORE))
    except LinealError as error:
        yield f"it does not open: {error}"
        return
    try:
        store = Store(engine, place / ANCHOR)
        for name, ids in said.items():
            found = [turn.id for turn in store.session(name, stories.POLICY, stories.summarize).turns()]
            if not set(ids) <= set(found) or [id for id in found if id in ids] != ids:
                yield f"{name}: turns {ids} are now {found}"
        release(store.holder)
        yield from stories.goes_on(engine, str(place / ANCHOR))
    except LinealError as error:
        yield f"{type(error).__name__}: {error}"
    finally:
        engine.close()


def in_memory() -> str | None:
    """A folder that costs no disk, or None for the usual temporary one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def in_processes(work: Callable[[Any], Tally], blocks: Sequence[Any], workers: int, progress: Progress | None) -> Iterator[Tally]:
    """The tallies of all blocks, from new processes (which inherit no connection), or from this one if one worker is asked for."""
    told = progress or (lambda done, of: None)
    if workers <= 1:
        for done, block in enumerate(blocks, 1):
            yield work(block)
            told(done, len(blocks))
        return
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        for done, future in enumerate(as_completed([pool.submit(work, block) for block in blocks]), 1):
            yield future.result()
            told(done, len(blocks))


@lru_cache(maxsize=1)
def _recording(folder: str) -> Recording:
    found: Recording = pickle.loads((Path(folder) / RECORDING).read_bytes())
    return found


def _block(folder: str, seeds: Sequence[int], every: int, lying: bool, first: int) -> Tally:
    recording, tally = _recording(folder), Tally()
    judge = Judge(recording, Path(folder))
    for point, image in _points(recording.trace, first, first + BLOCK, seeds, every, lying):
        judge.judge(point, image, tally)
    return tally


def _points(trace: Trace, first: int, end: int, seeds: Sequence[int], every: int, lying: bool) -> Iterator[tuple[Point, Image]]:
    """The cuts before (and in) operations `first` to `end - 1`, each with what it leaves; the last of all is behind every operation."""
    for n, op, replay in trace.replays(first, end, lying):
        if op.kind != "told" and n % every == 0:
            if op.kind == "write":
                yield from ((Point(n, op, part=part), replay.after_end(op, part)) for part in PARTS)
            yield from ((Point(n, op, seed=seed), replay.after_cut(f"{seed}/{n}")) for seed in seeds)
    if first <= (n := len(trace.ops)) < end:
        replay = trace.after(lying=lying)
        yield Point(n, None, part=1.0), replay.after_end()
        yield from ((Point(n, None, seed=seed), replay.after_cut(f"{seed}/{n}")) for seed in seeds)


class Judge:
    """Examines images in a folder of its own. An image that was seen before, after the same was acknowledged, is not examined again."""

    def __init__(self, recording: Recording, folder: Path):
        self.recording = recording
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        self._seen: dict[tuple[bytes, int], tuple[Found, str, tuple[str, ...]]] = {}

    def judge(self, point: Point, image: Image, tally: Tally) -> None:
        told = self.recording.trace.told(point.n)
        key = (fingerprint(image), len(told))
        if key not in self._seen:
            self._seen[key] = self._examined(image, told)
            tally.states["images"] += 1
        found, outcome, behind = self._seen[key]
        tally.runs += 1
        tally.faults["crash in a write" if point.seed is None else "power cut"] += 1
        tally.states[outcome] += 1
        tally.torn += [f"{point}: {what}" for what in found.torn]
        tally.lost += [f"{point}: {what}" for what in (*found.lost, *behind)]

    def _examined(self, image: Image, told: list[str]) -> tuple[Found, str, tuple[str, ...]]:
        whole = self.recording.whole
        put(image, self.folder)
        behind = tuple(self._behind(image, told))
        try:
            engine = open_engine(str(self.folder / STORE))
        except Exception as error:  # whatever it is, it is what a user would see
            return Found(-1, torn=(f"it does not open: {type(error).__name__}: {error}",)), "bad", behind
        try:
            found = examine(engine, whole, told, whole.span(told), exact=True, anchor=str(self.folder / ANCHOR))
        finally:
            engine.close()
        step = next((name for name in whole.ends if name not in told), [*whole.ends][-1])
        return found, whole.outcome(step, found, exact=True), behind

    def _behind(self, image: Image, told: list[str]) -> Iterator[str]:
        """Acknowledged heads that the anchor does not remember. A torn anchor is found where the store is opened beside it."""
        known: dict[str, Any] = {}
        try:
            known = json.loads(image.get(ANCHOR, b"{}"))
        except ValueError:
            yield "the anchor is torn"
        for session, seq in (self.recording.heads[len(told) - 1] if told else {}).items():
            if known.get(session, [0])[0] < seq:
                yield f"the anchor of {session!r} is at {known.get(session)}, seq {seq} was acknowledged"


def kinds(trace: Trace) -> Counter[str]:
    """How many operations of each kind a trace has."""
    return Counter(op.kind for op in trace.ops)
