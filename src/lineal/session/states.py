"""Materialised states are an index beside the log, and they repeat what stands in it. Where a purge went, they must go too.

A state of an older head may be written by a process that has not heard of a purge yet. So whoever writes one looks for
purges afterwards: either it sees the purge and takes its state back, or the purge, which looks later, takes it (R54).
What a crash between the two leaves is swept by the next `finish_removal`, and is never read from.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from lineal import codec, ranges
from lineal.engines import Engine
from lineal.entries import PurgeBegun, Range
from lineal.errors import Refused, Verdict
from lineal.lineage import Lineage, from_state, to_state

MOST_STATE = 1 << 28  # bytes of a state, unpacked: what a few damaged bytes may claim must not fill the memory
IN_STATES = ("compaction_committed", "rolled_back", "effect_settled", "forked", "purge_finished")  # whose content a state repeats


def pack(lineage: Lineage) -> bytes:
    """A state as stored: 32 bytes of digest, then the compressed canonical JSON of the lineage."""
    body = codec.to_json(to_state(lineage))
    if len(body) > MOST_STATE:
        message = f"the state of session {lineage.session!r} at seq {lineage.head} has {len(body):,} bytes, {MOST_STATE:,} is the most."
        raise Refused(Verdict("state", "too_large", message=message, remedy="compact, lift pins, or lower ceiling_items"))
    return codec.digest(body) + zlib.compress(body, 1)


def unpack(data: bytes) -> Lineage | None:
    """The lineage in a stored state, or None if its bytes are not what was written."""
    try:
        unpacking = zlib.decompressobj()
        body = unpacking.decompress(data[32:], MOST_STATE)
        if not unpacking.eof or codec.digest(body) != data[:32]:
            return None
        state: dict[str, Any] = codec.from_json(body)
        return from_state(state)
    except (zlib.error, ValueError, msgspec.ValidationError):
        return None


def tainted_by(seq: int, begun: PurgeBegun) -> Range:
    """Seqs of states that may hold what the purge begun at `seq` erases; empty (the last below the first) if it erases none of it."""
    return min((int(s) for s, e in begun.stand_ins.items() if e["kind"] in IN_STATES), default=seq), seq - 1


def tainted(engine: Engine, session: str, behind: int = 0) -> tuple[Range, ...]:
    """The same of every purge begun behind seq `behind`. One that was itself purged has handed on what it declared."""
    rows = (row for row in engine.find(session, "purge") if row.seq > behind and row.kind == "purge_begun" and not row.erased)
    found = ((row.seq, codec.read(row, session)) for row in rows)
    return ranges.union(tainted_by(seq, e) for seq, e in found if isinstance(e, PurgeBegun))


def keep(engine: Engine, session: str, seq: int, data: bytes) -> None:
    """Keep the state of the fold at `seq`, unless a purge that was begun above it took what it repeats."""
    engine.put_state(session, seq, data)
    if ranges.contains(tainted(engine, session), seq):
        engine.delete_states(session, [seq])


def missing(engine: Engine, session: str, seq: int, data: bytes) -> bool:
    """Whether the engine acknowledged the state of the head `seq` and has it not. Where others wrote since, they may have removed it."""
    return engine.state(session, seq) != (seq, data) and next(iter(engine.scan(session, seq, seq + 1)), None) is None


def sweep(engine: Engine, session: str) -> Sequence[int]:
    """Delete the states that should be gone; returns their seqs."""
    gone = tainted(engine, session)
    left = [seq for seq in engine.states(session) if ranges.contains(gone, seq)] if gone else []
    if left:
        engine.delete_states(session, left)
    return left
