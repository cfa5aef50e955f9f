"""Two streams of records in the order of their ids, side by side: what is missing, altered, extra, of another generation.

Memory is flat whatever the streams hold: two records at a time, and of each fault the first few ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from lineal.guarding.encoding import Record, shown
from lineal.guarding.manifest import StateHash

LISTED_MAX = 100  # ids of a fault that a report names; `tell` is told all

FAULTS = {  # fault: what it says of an id
    "missing": "in the manifest, not in the store",
    "truncated": "shorter than its content was",
    "altered": "another content",
    "extra": "in the store, not in the manifest",
    "moved": "another generation, whatever its content",
}


@dataclass
class Comparison:
    """`ids` and `counts` by fault (a key of `FAULTS`); `found` is the state hash of the store, with its generations.

    `moved` may name a record that is altered, too. `strangers`: generations of records that are moved or extra.
    """

    found: StateHash = field(default_factory=StateHash)
    ids: dict[str, list[Any]] = field(default_factory=lambda: {fault: [] for fault in FAULTS})
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FAULTS, 0))

    @property
    def contents_differ(self) -> bool:
        return any(self.counts[fault] for fault in FAULTS if fault != "moved")


Tell = Callable[[str, Any], None]  # a fault and an id, for each that is found


def compare(expected: Iterable[Record], found: Iterable[Record], tell: Tell | None = None) -> Comparison:
    """The merge join. Both must ascend strictly by id. What either stream raises goes through: nothing is concluded from a part."""
    result = Comparison()
    left, right = iter(expected), iter(found)
    wanted, there = next(left, None), next(right, None)
    while wanted is not None or there is not None:
        if there is None or (wanted is not None and wanted.id < there.id):
            assert wanted is not None
            _note(result, "missing", wanted.id, tell)
            wanted = next(left, None)
            continue
        result.found.add(there)
        if wanted is None or there.id < wanted.id:
            _note(result, "extra", there.id, tell)
        else:
            _judge(result, wanted, there, tell)
            wanted = next(left, None)
        there = next(right, None)
    return result


def _judge(result: Comparison, wanted: Record, there: Record, tell: Tell | None) -> None:
    if there.digest != wanted.digest:
        _note(result, "truncated" if there.size < wanted.size else "altered", there.id, tell)
    if there.generation != wanted.generation:
        _note(result, "moved", there.id, tell)


def _note(result: Comparison, fault: str, key: bytes, tell: Tell | None) -> None:
    result.counts[fault] += 1
    if result.counts[fault] <= LISTED_MAX:
        result.ids[fault].append(shown(key))
    if tell is not None:
        tell(fault, shown(key))
