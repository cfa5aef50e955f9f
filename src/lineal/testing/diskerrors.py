"""A disk that fails while a session lives: no space, and I/O errors, at every operation (R1, R30, E9).

The story is played anew for each place, on SQLite with an anchor file, on a `FaultyDisk` that fails there once. Whoever works
is told by a named error, or was not harmed. Then the disk is sound again, and three things are asked: the store, read through
the system's own VFS, is one that the reference knows and not older than what was acknowledged; the *same* session goes on,
without being opened again; and after a failed sync a power cut takes nothing that was acknowledged, before the error or after.
"""

from __future__ import annotations

import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from lineal import anchor as anchor_module
from lineal.engines import open_engine
from lineal.errors import LinealError
from lineal.store import Store
from lineal.testing import stories
from lineal.testing.disk import FaultyDisk
from lineal.testing.faults import FaultyEngine
from lineal.testing.powercuts import ANCHOR, BLOCK, STORE, Progress, in_memory, in_processes
from lineal.testing.stories import NAME, POLICY, Found, Reference, Story, Tale, goes_on, look, reference, summarize, user
from lineal.testing.tally import Tally

Trouble = Literal["full", "read", "write", "sync", "truncate", "delete", "create", "rename"]
TROUBLES: tuple[Trouble, ...] = get_args(Trouble)
NOT_LIVING = ("open", "open again", "close")  # steps in which there is no session that could go on
BACK = "the disk is sound again"


def campaign(
    directory: Path | None = None,
    every: int = 1,
    progress: Progress | None = None,
    workers: int = 2,
    troubles: Sequence[Trouble] = TROUBLES,
    story: Story = "STORY",
) -> Tally:
    """Each of `troubles` at each operation of its kind (`every`: at each so-many-th). Each is a run of the whole story.

    `full`: no space from that write on until somebody is told; the others are one I/O error. `directory`: where stores are made
    (default: in memory, where the system has such a place).
    """
    with tempfile.TemporaryDirectory(dir=directory or in_memory(), prefix="lineal-errors-") as made:
        counted = _counted(Path(made), story)
        points = [(t, k) for t in troubles for k in range(1, counted["write" if t == "full" else t] + 1, every)]
        blocks = [tuple(points[first : first + BLOCK]) for first in range(0, len(points), BLOCK)]
        return sum(in_processes(partial(_block, made, story), blocks, workers, progress), Tally())


def _counted(folder: Path, story: Story) -> Counter[str]:
    """How many operations of each kind the story asks of a sound disk."""
    disk = FaultyDisk(f"counting-{uuid.uuid4().hex}")
    with tempfile.TemporaryDirectory(dir=folder) as place, disk.under(anchor_module):
        life = _Life(disk, Path(place))
        life.live(story)
    disk.unregister()
    assert not life.error, f"the story does not come to its end on a sound disk: {life.error}"
    return disk.done


def _block(folder: str, story: Story, points: Sequence[tuple[Trouble, int]]) -> Tally:
    tally, whole = Tally(), reference(getattr(stories, story))
    for trouble, k in points:
        disk = FaultyDisk(f"failing-{uuid.uuid4().hex}", keep=trouble == "sync")
        with tempfile.TemporaryDirectory(dir=folder) as place, disk.under(anchor_module):
            tally += _Life(disk, Path(place)).troubled(trouble, k, whole, story)
        disk.unregister()
    return tally


class _Life:
    """The story in this process, on a disk that fails, and what comes after it."""

    def __init__(self, disk: FaultyDisk, folder: Path):
        self.disk, self.folder = disk, folder
        self.url, self.anchor = f"{folder / STORE}?vfs={disk.vfs_name}", str(folder / ANCHOR)
        self.told: list[str] = []
        self.error = self.raw = ""  # what the caller was told, in words: an error that is kept holds open what its frames hold
        self.tale: Tale | None = None

    def live(self, story: Story) -> None:
        try:
            self.tale = Tale(FaultyEngine(open_engine(self.url)), lambda: open_engine(self.url), self.told.append, self.anchor)
            self.tale.play(getattr(stories, story))
        except Exception as error:  # whatever it is, a caller would see it
            self.error = f"{type(error).__name__}: {error}"
            self.raw = "" if isinstance(error, LinealError) else self.error

    def troubled(self, trouble: Trouble, k: int, whole: Reference, story: Story) -> Tally:
        if trouble == "full":
            self.disk.full_at = k
        else:
            self.disk.fail(trouble, k)
        self.live(story)
        self.disk.heal()
        step = next((name for name in whole.ends if name not in self.told), "")
        where = f"{trouble} {k} in step {step or 'none'!r}"
        tally = Tally(1, Counter({f"disk: {trouble}": 1}))
        tally.broken += [f"{where}: an error without a name of lineal's: {self.raw}"] * bool(self.raw)
        found = self._found(whole)
        tally.states[whole.outcome(step or [*whole.ends][-1], found, exact=False)] += 1
        tally.states["told" if self.error else "harmless"] += 1
        tally.torn += [f"{where}: {what}" for what in found.torn]
        tally.lost += [f"{where}: {what}" for what in found.lost]
        if self.error and step not in NOT_LIVING:
            tally.broken += [f"{where}: {what}" for what in self._goes_on_living()]
            if self.disk.trace is not None:
                tally.lost += [f"{where}: {what}" for what in self._after_a_cut()]
        tally.broken += [f"{where}: {what}" for what in self._goes_on_without()]
        return tally

    def _found(self, whole: Reference) -> Found:
        """The store as another process sees it."""
        try:
            engine = open_engine(str(self.folder / STORE))
        except LinealError as error:
            return Found(-1, torn=(f"it does not open: {error}",), opened=False)
        try:
            return look(engine, whole, self.told, whole.span(self.told), exact=False, anchor=self.anchor)
        finally:
            engine.close()

    def _goes_on_living(self) -> Iterator[str]:
        """The session that was told goes on as if nothing had been."""
        assert self.tale is not None
        session = self.tale.session
        try:
            shown = self.tale.store.session(NAME, POLICY, summarize).messages()
            if session.messages() != shown:
                yield "the live view is not the one that is read anew"
            again = session.append(user(98), id=BACK)
            if session.append(user(98), id=BACK) != again or session.turns()[-1] != again:
                yield "an append is not idempotent"
            if session.verify().damaged:
                yield f"verify() finds damage: {session.verify()[0].detail}"
        except LinealError as error:
            yield f"the live session does not go on: {type(error).__name__}: {error}"

    def _after_a_cut(self) -> Iterator[str]:
        """What the live session acknowledged behind a failed sync, after the power went."""
        for seed in range(2):
            place = self.folder / f"cut-{seed}"
            place.mkdir()
            self.disk.restore(place, seed)
            try:
                engine = open_engine(str(place / STORE), create=False)
                session = Store(engine, place / ANCHOR).session(NAME, POLICY, summarize)
                if BACK not in [turn.id for turn in session.turns()] or session.verify().damaged:
                    yield f"a power cut (seed {seed}) took what was acknowledged after the error: {session.verify()[0].detail}"
                engine.close()
            except LinealError as error:
                yield f"a power cut (seed {seed}) after the error: {type(error).__name__}: {error}"

    def _goes_on_without(self) -> Iterator[str]:
        """The process ends; the next one recovers and goes on."""
        if self.tale is not None and hasattr(self.tale, "store"):
            self.tale.store.close()
        engine = open_engine(str(self.folder / STORE))
        try:
            yield from goes_on(engine, self.anchor)
        finally:
            engine.close()
