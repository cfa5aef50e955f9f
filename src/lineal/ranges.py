"""Ranges of seqs: pairs (first, last), both inside. A pair whose last lies below its first is empty.

Coverage, retention and holes are kept as ranges, so that what is remembered about a log is bounded by how often it was
cut, not by how long it is. Results are in normal form: sorted, not touching each other, none empty.
"""

from __future__ import annotations

from collections.abc import Iterable

from lineal.entries import Range


def union(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same seqs in normal form."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if last < first:
            continue
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def subtract(ranges: Iterable[Range], taken: Iterable[Range]) -> tuple[Range, ...]:
    """The seqs of `ranges` that are not in `taken`."""
    holes = union(taken)
    left: list[Range] = []
    at = 0
    for first, last in union(ranges):
        while at < len(holes) and holes[at][1] < first:
            at += 1
        index = at
        while index < len(holes) and holes[index][0] <= last:
            if first < holes[index][0]:
                left.append((first, holes[index][0] - 1))
            first = holes[index][1] + 1
            index += 1
        if first <= last:
            left.append((first, last))
    return tuple(left)


def overlap(ranges: Iterable[Range], others: Iterable[Range]) -> tuple[Range, ...]:
    """The seqs that are in both."""
    mine = union(ranges)
    return subtract(mine, subtract(mine, others))


def contains(ranges: Iterable[Range], seq: int) -> bool:
    return any(first <= seq <= last for first, last in ranges)


def count(ranges: Iterable[Range]) -> int:
    """How many different seqs these are."""
    return sum(last - first + 1 for first, last in union(ranges))


def told(ranges: Iterable[Range]) -> str:
    """The ranges as people read them: `3..7, 9`."""
    return ", ".join(str(first) if first == last else f"{first}..{last}" for first, last in union(ranges)) or "none"
