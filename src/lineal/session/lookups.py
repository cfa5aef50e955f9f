"""Lookups that find nothing, or too little: is it really not there? Held against the chains of the log.

An index tells what is there, never what is missing. Where an absence decides (an effect that was never begun may be sent,
a checkpoint that was never taken is no target), the entries themselves say what there was: each names the one before it.
"""

from __future__ import annotations

from collections.abc import Mapping

from lineal import codec
from lineal.engines import Row
from lineal.entries import Entry
from lineal.errors import Corrupt
from lineal.lineage import Lineage, chains_of
from lineal.session.log import Log


def find_all(log: Log, lineage: Lineage, key: str, chain: str, limit: int | None = None) -> list[tuple[Row, Entry]]:
    """The entries that carry `key`, newest first (at most the newest `limit`); `Corrupt` where one of them is not found."""
    found = log.find(key, limit)
    since = found[-1][0].seq if found and len(found) == limit else 0
    refuse_unless_all(log, lineage, key, chain, {row.seq: entry for row, entry in found}, since)
    return found


def refuse_unless_all(log: Log, lineage: Lineage, key: str, chain: str, found: Mapping[int, Entry], since: int = 0) -> None:
    """Raise `Corrupt` unless `found` (by seq) has every entry behind seq `since` that carries `key`, which stands in `chain`.

    The chain is walked from its newest entry: a row that was taken out breaks it, one that the index lost is met in it.
    """
    seq = lineage.chains.get(chain, 0)
    while seq > since:
        entry = found[seq] if seq in found else next((e for _, e in log.entries(seq - 1, seq)), None)
        if entry is None or chain not in (names := chains_of(entry)) or not entry.before:
            return  # it was pruned: what stood before it is not known any more, and was free to go too
        if seq not in found and key in codec.keys_of(entry, 0)[1]:
            lost = Corrupt(log.session, seq, f"this entry under {key!r}", "none", "damaged index")
            log.latch(str(lost))
            raise lost
        seq = entry.before[names.index(chain)]
