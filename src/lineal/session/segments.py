"""Segments: salts and bodies of old rows, compressed, and where a packed row's content is found again.

A row keeps its header when its content moves into a segment, so the chain, the keys and every lookup go on without it. A
segment holds rows of one block of 1,024 seqs and is found by that block's key. What it gives is believed only if it has
the row's own inner digest; which segment gave it is then no question of trust.

A frame (Zstandard) unpacks to three parts, for the n rows of the segment in order of seq:

| part | bytes |
|---|---|
| sizes of the bodies, big-endian | 4 n |
| salts | 16 n |
| bodies, one after the other | their sizes |

There is no dictionary trained on the session: it would be one more copy of content, shared by every segment, so that each
purge had to train it anew and rewrite them all. Small segments of a block are joined by the next pack instead, which saves more.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import msgspec

from lineal import codec, ranges
from lineal.engines import Engine, Row
from lineal.entries import Range, Segment
from lineal.errors import Corrupt, Unavailable

LEVEL = 17  # of 1 to 22: above it, twice the time for 1 % less
PLAIN_MAX = 3 << 19  # bytes of bodies in one segment of several rows
HEAD = 4 + codec.SALT_BYTES  # bytes that a row takes in a frame beside its body
MOST = PLAIN_MAX + (HEAD << codec.BLOCK_BITS)  # bytes that a segment of several rows unpacks to
KEPT = 8 << 20  # bytes of unpacked segments that a log keeps at hand
BLOCKS_KEPT = 64

Content = dict[int, tuple[bytes, bytes]]  # salt and body by seq


def pack(rows: Sequence[Row]) -> tuple[bytes, int]:
    """(the frame, bytes that it unpacks to) of these rows with their content, in order of seq. Raises `Unavailable`."""
    plain = b"".join(
        [*(len(row.body).to_bytes(4, "big") for row in rows), *(row.salt for row in rows), *(row.body for row in rows)],
    )
    frame: bytes = _zstandard("packing").ZstdCompressor(level=LEVEL).compress(plain)
    return frame, len(plain)


def unpack(segment: Segment, session: str, seq: int, most: int = MOST) -> Content:
    """The content in the segment at `seq`. Raises `Corrupt` for a frame that is not what the segment says, or unpacks to more than
    `most` bytes (of one row: what that row's header says); `Unavailable` without the library.
    """
    zstandard = _zstandard(f"segment at seq {seq} of session {session!r}")
    seqs = [seq for first, last in segment.runs for seq in range(first, min(last, first + (1 << codec.BLOCK_BITS)) + 1)]
    if not HEAD * len(seqs) <= segment.size <= most or len(seqs) > 1 << codec.BLOCK_BITS:
        raise _damaged(session, seq, f"at most {most:,} bytes in {len(seqs):,} rows", f"{segment.size:,} bytes")
    try:
        if (told := zstandard.frame_content_size(segment.packed)) != segment.size:
            raise _damaged(session, seq, f"a frame of {segment.size:,} bytes", f"one of {told:,}")
        plain: bytes = zstandard.ZstdDecompressor().decompress(segment.packed, allow_extra_data=False)
    except zstandard.ZstdError as e:
        raise _damaged(session, seq, "a sound frame", str(e)) from e
    sizes = [int.from_bytes(plain[at : at + 4], "big") for at in range(0, 4 * len(seqs), 4)]
    at = HEAD * len(seqs)
    if at + sum(sizes) != len(plain):
        raise _damaged(session, seq, f"bodies of {sum(sizes):,} bytes", f"{len(plain) - at:,} bytes")
    content: Content = {}
    for n, (member, size) in enumerate(zip(seqs, sizes, strict=True)):
        salt = 4 * len(seqs) + codec.SALT_BYTES * n
        content[member] = plain[salt : salt + codec.SALT_BYTES], plain[at : at + size]
        at += size
    return content


def refuse_unless_possible() -> None:
    """Raise `Unavailable` without the library, before anything is written."""
    _zstandard("packing")


def _zstandard(asked: str) -> Any:
    try:
        return import_module("zstandard")
    except ImportError as missing:
        raise Unavailable(f"{asked}:", "zstandard is not installed", "pip install 'lineal[pack]'") from missing


def _damaged(session: str, seq: int, expected: str, found: str) -> Corrupt:
    return Corrupt(session, seq, expected, found, "damaged segment")


@dataclass(frozen=True)
class Place:
    """A segment that stands: the seq of its row, what it says of itself (mostly without the frame), and the bytes that it takes."""

    seq: int
    segment: Segment
    bytes: int


class Segments:
    """The segments of one log, as far as they were asked for. Thread-safe. What is kept at hand is forgotten when others may have
    taken a segment away: a purged row must not come back from memory.
    """

    def __init__(self, engine: Engine, session: str):
        self.engine, self.session = engine, session
        self._lock = threading.Lock()
        self._blocks: OrderedDict[int, list[Place | Corrupt]] = OrderedDict()
        self._contents: OrderedDict[int, Content] = OrderedDict()

    def forget(self) -> None:
        with self._lock:
            self._blocks.clear()
            self._contents.clear()

    def whole(self, row: Row) -> Row | None:
        """The row with its content, or None if no segment has it. Raises `Corrupt` where one that may have it is damaged."""
        with self._lock:
            damage: Corrupt | None = None
            for fresh in (False, True):
                for place in self._block(row.seq >> codec.BLOCK_BITS, fresh):
                    try:
                        if isinstance(place, Corrupt):
                            raise place
                        if ranges.contains(place.segment.runs, row.seq) and (found := self._from(place, row)):
                            return found
                    except Corrupt as e:
                        damage = e
            if damage:
                expected = f"{row.size} bytes in the segment at seq {damage.seq}"
                raise Corrupt(self.session, row.seq, expected, str(damage.found), damage.what) from damage
            return None

    def _from(self, place: Place, row: Row) -> Row | None:
        """The row as this segment has it; None if the segment is gone since."""
        if place.seq not in self._contents:
            segment = next(iter(standing(self.engine, self.session, [place.seq])), None)
            if segment is None:
                return None
            one = place.segment.runs == ((row.seq, row.seq),)
            self._keep(place.seq, unpack(segment.segment, self.session, place.seq, row.size + HEAD if one else MOST))
        self._contents.move_to_end(place.seq)
        salt, body = self._contents[place.seq][row.seq]
        if codec.digest(salt, body) != row.inner:
            raise _damaged(self.session, place.seq, row.inner.hex()[:16], codec.digest(salt, body).hex()[:16])
        return replace(row, salt=salt, body=body)

    def _keep(self, seq: int, content: Content) -> None:
        self._contents[seq] = content
        while len(self._contents) > 1 and sum(len(body) for c in self._contents.values() for _, body in c.values()) > KEPT:
            self._contents.popitem(last=False)

    def _block(self, block: int, fresh: bool) -> list[Place | Corrupt]:
        """What stands for rows of this block, newest first; of a damaged segment the damage."""
        if fresh or block not in self._blocks:
            self._blocks[block] = [*_places(self.engine.find(self.session, codec.segment_key(block << codec.BLOCK_BITS)), self.session)]
            while len(self._blocks) > BLOCKS_KEPT:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(block)
        return self._blocks[block]

    def holding(self, seqs: Iterable[int]) -> list[Place]:
        """The segments that have content of any of these rows, older ones too, by seq. Raises `Corrupt` for a damaged one."""
        found: dict[int, Place] = {}
        wanted = ranges.union((seq, seq) for seq in seqs)
        for block in sorted({block for a, b in wanted for block in range(a >> codec.BLOCK_BITS, (b >> codec.BLOCK_BITS) + 1)}):
            for place in _places(self.engine.find(self.session, codec.segment_key(block << codec.BLOCK_BITS)), self.session):
                if isinstance(place, Corrupt):
                    raise place
                if ranges.overlap(place.segment.runs, wanted):
                    found[place.seq] = place
        return [found[seq] for seq in sorted(found)]


def standing(engine: Engine, session: str, seqs: Iterable[int]) -> Iterator[Place]:
    """Those of the segments at these seqs whose content is there, whole. Raises `Corrupt` for a damaged one."""
    for seq in seqs:
        for place in _places(engine.scan(session, seq - 1, seq), session, bare=False):
            if isinstance(place, Corrupt):
                raise place
            yield place


def all_standing(engine: Engine, session: str, after: int = 0, until: int | None = None) -> Iterator[Place]:
    """Every segment with content, by seq, without its frame. A damaged one is passed over: it is left to be named by `verify`."""
    rows = engine.scan(session, after, until, ("segment",))
    return (place for place in _places(rows, session) if isinstance(place, Place))


def _places(rows: Iterable[Row], session: str, bare: bool = True) -> Iterator[Place | Corrupt]:
    for row in rows:
        if row.kind != "segment" or row.erased:
            continue
        try:
            entry = codec.read(row, session)
        except Corrupt as damage:
            yield damage
            continue
        assert isinstance(entry, Segment)
        yield Place(row.seq, msgspec.structs.replace(entry, packed=b"") if bare else entry, row.size)


def members(runs: Iterable[Range]) -> Iterator[int]:
    return (seq for first, last in runs for seq in range(first, last + 1))
