"""What a log declares about its own rows: which were pruned, which lost their content to a purge, whose content is in segments.

Read here without the fold, from what the declaring entries say, so that a damaged log can be read as far as it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from lineal import codec, ranges
from lineal.engines import Engine, Row
from lineal.entries import Entry, Forked, PackAborted, PackCommitted, PruneBegun, PurgeBegun, Range, Run, Segment, Unknown
from lineal.errors import Corrupt
from lineal.session.segments import Segments

Found = TypeVar("Found")


class Declared:
    """The declarations of one session's log. Others prune, purge and pack too: what is not found is looked up anew."""

    def __init__(self, engine: Engine, session: str):
        self.engine, self.session = engine, session
        self.segments = Segments(engine, session)
        self._runs: list[Run] | None = None
        self._stand_ins: dict[int, Entry] | None = None

    def look(self, row: Row) -> Entry:
        """The entry of one row, whose content may be in a segment or gone. Raises `Corrupt` and sets no latch: for who only looks."""
        if row.kind == codec.PRUNED:
            return Unknown(name="x.pruned")
        if not row.erased:
            return codec.read(row, self.session)
        if row.kind == "segment":
            return Segment()  # the fold passes over it; whether it may be gone is asked by who needs it, and by `verify`
        stand_in = self.erased().get(row.seq)
        whole = None if stand_in else self.segments.whole(row)
        stand_in = stand_in or (None if whole else self.fresh(lambda: self.erased().get(row.seq)))
        if whole:
            return codec.read(whole, self.session)
        if stand_in is None:
            raise Corrupt(self.session, row.seq, f"{row.size} bytes", "0 bytes, and no purge names it", "erased without a purge")
        return stand_in

    def restored(self, row: Row) -> Row:
        """The row with its content, where a segment has it; as it is, where it has its own or has none any more. Raises as `look`."""
        if not row.erased or row.kind in (codec.PRUNED, "segment") or row.seq in self.erased():
            return row
        return self.segments.whole(row) or row

    def holes(self) -> list[Run]:
        """The declared holes, newest declaration first: a later prune may join earlier ones."""
        if self._runs is None:
            found = [codec.read(row, self.session) for row in self.engine.find(self.session, "prune")]
            runs = [run for e in found if isinstance(e, PruneBegun) for run in e.runs]
            self._runs = sorted(runs, key=lambda run: run.last, reverse=True)
        return self._runs

    def hole_at(self, seq: int) -> Run | None:
        return next((r for r in self.holes() if r.first <= seq <= r.last), None)

    def erased(self) -> dict[int, Entry]:
        """Stand-ins for purged rows, by seq."""
        if self._stand_ins is None:
            found: dict[int, Entry] = {}
            for row in reversed(self.engine.find(self.session, "purge")):
                entry = codec.read(row, self.session) if not row.erased else None
                if isinstance(entry, PurgeBegun | Forked):
                    found.update(codec.stand_ins(entry.stand_ins, self.session, row.seq))
            self._stand_ins = found
        return self._stand_ins

    def declared_gone(self, seq: int) -> bool:
        """Whether a prune or a purge says that the row at `seq` is gone, or has lost its content."""
        return self.fresh(lambda: self.hole_at(seq) or self.erased().get(seq)) is not None

    def stand_ins(self, seqs: Iterable[int]) -> dict[str, Any]:
        """The stand-ins of erased rows as JSON values by seq, to be declared again in a fork."""
        return {str(seq): msgspec.to_builtins(self.erased()[seq]) for seq in seqs}

    def fresh(self, look: Callable[[], Found | None]) -> Found | None:
        """What `look` finds among the declared holes; looked up anew if it finds nothing, since others prune and purge too."""
        found = look()
        if found is None:
            self.forget_holes()
            found = look()
        return found

    def forget_holes(self) -> None:
        """Prunes, purges and packs are looked up anew at the next hole."""
        self._runs = self._stand_ins = None
        self.segments.forget()

    def segments_gone(self) -> tuple[Range, ...]:
        """Seqs of segments whose content may be gone: superseded, emptied by a prune or a purge, left over, or the parent's."""
        gone: list[Range] = []
        for key in ("pack", "prune", "purge"):
            for row in self.engine.find(self.session, key):
                entry = codec.read(row, self.session) if not row.erased else None
                if row.kind == "forked":
                    gone.append((1, row.seq))
                named = entry.segments if isinstance(entry, PruneBegun | PurgeBegun) else ()
                named = entry.replaced if isinstance(entry, PackCommitted) else entry.leftovers if isinstance(entry, PackAborted) else named
                gone += [(seq, seq) for seq in named]
        return ranges.union(gone)
