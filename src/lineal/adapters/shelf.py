"""Checkpoints of a graph framework as records of a session: written in parts, found, put together, let go.

| record | group | key | data |
|---|---|---|---|
| the value of a channel | `cp:NS` | | as the framework's serialiser wrote it |
| a checkpoint | `cp:NS` | its id | parent, and where each channel's value stands: a seq, or how far before its own |
| what a task wrote | `w:NS:ID` | | task, path, and (index, channel, value) each |
| what a checkpoint was made of | `h:NS` | its id | the writes before it, once the checkpoints before it were let go |

A value that did not change is not written again. `turns` of a value are the ids of the messages in it: a purge of one of
these turns takes the value, too, and its channel is empty then. Order is that of the log, never of ids or clocks (R3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lineal.errors import Conflict
from lineal.session import Session
from lineal.session.outcomes import Kept, Record

Write = tuple[str, str, Any]  # task, channel, value


@dataclass(frozen=True)
class Saved:
    """A checkpoint where it stands. `data` is the framework's own."""

    seq: int
    ns: str
    id: str
    parent: str | None
    data: Any
    places: Mapping[str, int]


class Shelf:
    """The checkpoints of one session. `dump` and `load` turn the framework's values into JSON and back."""

    def __init__(self, session: Session, space: str, dump: Callable[[Any], Any], load: Callable[[Any], Any]):
        self.session, self.space, self.dump, self.load = session, space, dump, load

    # --- finding -----------------------------------------------------------------------------------------------------

    def find(self, ns: str, id: str | None = None) -> Saved | None:
        """The checkpoint of this id, or the last that was written. Raises `Corrupt` where it is missing."""
        return next(map(_saved, self.session.kept(self.space, f"cp:{ns}", id, 1)), None)

    def every(self, ns: str | None = None) -> Iterator[Saved]:
        """The checkpoints of a namespace, or of all, newest first; of one that was put twice the last."""
        seen: set[tuple[str, str]] = set()
        for kept in self.session.kept(self.space, None if ns is None else f"cp:{ns}"):
            if kept.key and kept.group.startswith("cp:") and (kept.group, kept.key) not in seen:
                seen.add((kept.group, kept.key))
                yield _saved(kept)

    def values(self, saved: Saved, channels: Iterable[str] | None = None) -> dict[str, Any]:
        """The values of these channels (default: all) that it has. Raises `Corrupt` for a part that is missing."""
        wanted = {c: saved.places[c] for c in (saved.places if channels is None else channels) if c in saved.places}
        data = {part.seq: part.data for part in self.session.kept_at(wanted.values())}
        return {channel: self.load(data[seq]) for channel, seq in wanted.items() if data[seq] is not None}

    def writes(self, ns: str, id: str) -> list[Write]:
        """What tasks wrote on it, in the order of (path, task, index). A task's special writes (index below 0) are replaced by
        its later ones, the others stay."""
        found: dict[tuple[str, str, int], Write] = {}
        for kept in reversed(self.session.kept(self.space, f"w:{ns}:{id}")):
            data = kept.data or {"task": "", "path": "", "writes": ()}  # purged: a message that it repeated is gone
            for index, channel, value in data["writes"]:
                place = data["path"], data["task"], index
                if index < 0 or place not in found:
                    found[place] = (data["task"], channel, self.load(value))
        return [found[place] for place in sorted(found)]

    def history(self, saved: Saved | None, channels: Iterable[str]) -> dict[str, tuple[list[Write], list[Any]]]:
        """For each channel the writes on the way to this checkpoint, oldest first, and the value that they began on (at most one)."""
        backwards: dict[str, list[Write]] = {channel: [] for channel in channels}
        seeds: dict[str, Any] = {}
        while saved is not None and (open_ones := backwards.keys() - seeds.keys()):
            parent = self.find(saved.ns, saved.parent) if saved.parent else None
            if parent is None:
                for channel, (writes, seed) in self._noted(saved).items():
                    if channel in open_ones:
                        backwards[channel] += [tuple(write) for write in reversed(writes)]
                        seeds.update(zip([channel], seed, strict=False))
                break
            for write in reversed(self.writes(parent.ns, parent.id)):
                if write[1] in open_ones:
                    backwards[write[1]].append(write)
            seeds |= self.values(parent, open_ones)
            saved = parent
        return {c: ([*reversed(writes)], [seeds[c]] if c in seeds else []) for c, writes in backwards.items()}

    def _noted(self, saved: Saved) -> dict[str, Any]:
        found = self.session.kept(self.space, f"h:{saved.ns}", saved.id, 1)
        return self.load(found[0].data) if found and found[0].data is not None else {}

    # --- writing -----------------------------------------------------------------------------------------------------

    def put(self, saved: Saved, values: Mapping[str, Any], changed: Iterable[str], turns: Any, fork: bool) -> None:
        """Keep a checkpoint, durable on return; its seq and places are given here. `turns(value)`: ids of the turns that a value repeats.

        Raises `Conflict` where somebody else went on from its parent meanwhile, unless it is to be a `fork`.
        """
        before = self.find(saved.ns, saved.parent) if saved.parent else None
        known = before.places if before else {}
        held = {c: known[c] for c in values if c in known and c not in set(changed)}
        fresh = [c for c in values if c not in held]
        places = held | {channel: n - len(fresh) for n, channel in enumerate(fresh)}
        parts = [Record(self.dump(values[channel]), turns=turns(values[channel])) for channel in fresh]
        whole = Record({"parent": saved.parent, "places": places, "data": saved.data}, key=saved.id)
        try:
            after = before.seq if before and not fork else None
            self.session.keep(self.space, f"cp:{saved.ns}", [*parts, whole], after=after)
        except Conflict as lost:
            said = f"another run went on from checkpoint {saved.parent!r}; take the thread up again where it stands now"
            raise Conflict(self.session.name, lost.expected_seq, lost.found_seq, said) from lost

    def put_writes(self, ns: str, id: str, task: str, path: str, writes: Sequence[tuple[int, str, Any]], turns: Any) -> None:
        """Keep what a task wrote on a checkpoint, which may itself come later."""
        rows = [[index, channel, self.dump(value)] for index, channel, value in writes]
        repeated = [turn for _, _, value in writes for turn in turns(value)]
        self.session.keep(self.space, f"w:{ns}:{id}", [Record({"task": task, "path": path, "writes": rows}, turns=repeated)])

    def let_go(self, going: Sequence[Saved], histories: Callable[[Saved], Iterable[str]]) -> None:
        """Release these checkpoints, and what no other one is put together from.

        One whose parent goes keeps the history of the channels that `histories` names: they are made of writes.
        """
        seqs, ids = {saved.seq for saved in going}, {(saved.ns, saved.id) for saved in going}
        staying = [saved for saved in self.every() if saved.seq not in seqs]
        for saved in staying:
            if (saved.ns, saved.parent) in ids:
                self.session.keep(self.space, f"h:{saved.ns}", [Record(self.dump(self.history(saved, histories(saved))), key=saved.id)])
        parts = {seq for saved in going for seq in saved.places.values()}
        needed = {seq for saved in staying for seq in saved.places.values()}
        writes = {kept.seq for ns, id in ids for kept in self.session.kept(self.space, f"w:{ns}:{id}")}
        notes = {kept.seq for ns, id in ids for kept in self.session.kept(self.space, f"h:{ns}", id)}
        self.session.release(self.space, seqs | (parts - needed) | writes | notes)


def _saved(kept: Kept) -> Saved:
    places = {channel: place if place > 0 else kept.seq + place for channel, place in kept.data["places"].items()}
    return Saved(kept.seq, kept.group.removeprefix("cp:"), kept.key, kept.data["parent"], kept.data["data"], places)
