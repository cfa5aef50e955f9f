"""How much a prune leaves: by seq, by age, by number, by size. Each only says below which seq rows may go; retention decides what does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineal import ranges
from lineal.entries import Range
from lineal.lineage import Lineage

if TYPE_CHECKING:
    from lineal.engines import Row
    from lineal.session import Session


@dataclass(frozen=True)
class Bound:
    """Of several the most careful holds. `since`: entries recorded before this time (seconds since 1970) may go.

    `keep_entries`: the newest so many stay. `max_bytes`: the oldest go until bodies of so many bytes are left.
    """

    before: int | None = None
    since: float | None = None
    keep_entries: int | None = None
    max_bytes: int | None = None


def until(session: Session, lineage: Lineage, bound: Bound) -> int:
    """The last seq that may go by seq, age and number; 0 if none."""
    limits = [lineage.head]
    if bound.before is not None:
        limits.append(bound.before - 1)
    if bound.since is not None:
        limits.append(_younger(session, lineage, bound.since) - 1)
    if bound.keep_entries:
        newest = [row.seq for row in session.engine.scan(session.name, 0, lineage.head)][-bound.keep_entries :]
        limits.append(newest[0] - 1)
    return max(0, min(limits))


def _younger(session: Session, lineage: Lineage, since: float) -> int:
    """The seq of the first entry that was recorded at `since` or later. An annotation of others bears no time of ours."""
    return next((row.seq for row, e in session.log.entries() if e.at >= since), lineage.head + 1)


def fitting(session: Session, lineage: Lineage, bound: Bound, runs: Sequence[Range]) -> tuple[Range, ...]:
    """Of `runs`, which may go, the oldest that must go for the retained bodies to fit; all of them where no size is set."""
    if bound.max_bytes is None:
        return tuple(runs)
    sizes = {row.seq: _retained(session, row) for row in session.engine.scan(session.name, 0, lineage.head)}
    excess = sum(sizes.values()) - bound.max_bytes
    going: list[Range] = []
    for seq in (seq for first, last in runs for seq in range(first, last + 1) if seq in sizes):
        if excess <= 0:
            break
        excess -= sizes[seq]
        going.append((seq, seq))
    return ranges.union(going)


def _retained(session: Session, row: Row) -> int:
    """Bytes of the body, as it was written, if it is retained, raw or packed. A segment is a way to keep bodies, not one of them."""
    return 0 if row.kind == "segment" or row.seq in session.log.erased() else row.size
