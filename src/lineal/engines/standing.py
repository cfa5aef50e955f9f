"""Which seqs of a session stand, as an engine keeps it beside the rows: the head, and the ranges that were dropped below it.

With it a reader knows each seq that must come next. A file that was cut short, and that the library reads as an empty
one, is then a missing row with its seq, and not a shorter history (E4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lineal import ranges
from lineal.entries import Range
from lineal.errors import Corrupt


@dataclass(frozen=True, slots=True)
class Standing:
    """Seqs 1 to `head` without those `dropped` (in normal form, all below the head). The head itself stands; 0 for none."""

    head: int = 0
    dropped: tuple[Range, ...] = ()

    def __contains__(self, seq: int) -> bool:
        return 0 < seq <= self.head and not ranges.contains(self.dropped, seq)

    def without(self, seqs: Iterable[int]) -> Standing:
        """After these were dropped. Those that do not stand change nothing; the head falls to the highest that is left."""
        gone = ranges.union((*self.dropped, *((seq, seq) for seq in seqs if 0 < seq <= self.head)))
        left = ranges.subtract([(1, self.head)], gone)
        head = left[-1][1] if left else 0
        return Standing(head, ranges.overlap(gone, [(1, head)]))

    def between(self, after: int, until: int | None) -> Iterator[int]:
        """The seqs that stand with `after < seq <= until`, in order."""
        last = self.head if until is None else min(until, self.head)
        for first, end in ranges.subtract([(max(after, 0) + 1, last)], self.dropped):
            yield from range(first, end + 1)


class Expected:
    """Asked with each row that is read: is it the one that must come? Raises `Corrupt` with the first seq that is missing."""

    def __init__(self, session: str, standing: Standing, after: int, until: int | None):
        self.session, self.standing = session, standing
        self._due = standing.between(after, until)
        self._until = until

    def came(self, seq: int) -> None:
        due = next(self._due, None)
        if due != seq:
            raise self._missing(due, f"the row of seq {seq}")

    def ended(self) -> None:
        due = next(self._due, None)
        if due is not None:
            raise self._missing(due, "the end of the rows")

    def _missing(self, due: int | None, found: str) -> Corrupt:
        if due is None:
            return Corrupt(self.session, self.standing.head, f"no row behind seq {self.standing.head}", found, "a row too many")
        expected = f"the row of seq {due} (the rows to seq {self.standing.head} stand, but {ranges.told(self.standing.dropped)})"
        return Corrupt(self.session, due, expected, found, "missing row")
