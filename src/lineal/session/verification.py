"""Verify: read every retained row again and say what it is worth (record 004, R59-R61).

The whole log is folded a second time from nothing but the rows, and compared with what was recorded on the way: the
chain, each generation's digests of the view before and after, every materialised state, the anchor outside the file.
Memory is bounded by the view. A clean verdict lifts the latch; damage sets it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from lineal import codec, ranges
from lineal.engines import Row
from lineal.entries import CompactionCommitted, Entry, PackBegun, PackCommitted, Range, Run, TurnAppended
from lineal.errors import Corrupt, Refused, Unavailable
from lineal.fold import Misfit, fold
from lineal.lineage import Lineage, empty
from lineal.rules.integrity import AnchorSeen, CompactionVerdict, Finding, Gap, Mismatch, Report, RowSeen, conclude, judge_finding
from lineal.session.generation import view_digest
from lineal.session.log import Log
from lineal.session.segments import all_standing
from lineal.session.states import tainted, unpack

if TYPE_CHECKING:
    from lineal.anchor import HeadAnchor
    from lineal.engines import Engine
    from lineal.holder import Clock


class Reports(tuple[Report, ...]):
    """All that was found; `clean` if nothing is wrong (an open compaction is not wrong, it is in progress)."""

    @property
    def clean(self) -> bool:
        return all(r.clean for r in self)

    @property
    def damaged(self) -> bool:
        sound = (CompactionVerdict.POST_COMPACTION_CLEAN, CompactionVerdict.COMPACTION_IN_PROGRESS)
        return any(r.verdict not in sound for r in self)


class _Reader:
    """One pass over a session's rows. It trusts nothing that it has not read."""

    def __init__(self, engine: Engine, name: str, clock: Clock, anchor: HeadAnchor | None):
        self.engine, self.name = engine, name
        self.log = Log(engine, name, clock, read_ahead=False)
        self.before: bytes | None = codec.seed(name)
        self.lineage: Lineage | None = empty(name, codec.seed(name).hex())
        self.head = 0
        self.unswept = False
        # What is only ever behind the log is read before it: others may append while it is read.
        self.states = set(engine.states(name))
        self.anchored = anchor.read(name).get(name) if anchor else None
        self.full: set[int] = set()  # segments that have their content
        self.manifest: dict[int, tuple[Range, ...]] = {}
        self.emptied: tuple[Range, ...] = ()
        self.unpacked: dict[int, str] = {}  # digest at the begin of a pack, by seq
        self._packs()

    def findings(self) -> Iterator[Finding]:
        after: int | None = 0
        while after is not None:
            after = yield from self._rows(after)
        yield from self._end()

    def _rows(self, after: int) -> Generator[Finding, None, int | None]:
        """What is found behind seq `after`. Returns the seq of a row whose columns are no row's, None at the end."""
        try:
            for row in self.engine.scan(self.name, after):
                yield from self._cross(row)
                yield from self._row(row)
                self.head = row.seq
        except Corrupt as damage:
            if damage.what != "damaged row" or damage.seq <= self.head:
                raise
            self.before, self.lineage, self.head = None, None, damage.seq
            yield Finding(row=RowSeen(damage.seq, inner_ok=False, id=str(damage.found)[:80]))
            return damage.seq
        return None

    def _cross(self, row: Row) -> Iterator[Finding]:
        """What lies between the row before and this one: nothing, a declared hole, or rows that vanished."""
        seq = self.head + 1
        while seq < row.seq:
            run = next((r for r in self._holes() if r.first <= seq <= r.last), None)
            if run is None:
                ids = (*self._lost(seq, row.seq - 1), *self._lost_segments(seq, row.seq - 1))
                yield Finding(gap=Gap(seq, row.seq - 1, ids))
                self.before, self.lineage = None, None
                return
            if self.before is not None and run.first == seq and run.before not in ("", self.before.hex()):
                yield Finding(
                    row=RowSeen(seq - 1, link_ok=False, id=f"seq {seq - 1}")
                )  # not the row that stood there when the prune was begun
            inside = row.seq <= run.last
            self.before, self.lineage = (None if inside else bytes.fromhex(run.after)), None
            seq = row.seq if inside else run.last + 1

    def _holes(self) -> list[Run]:
        """Declared holes; none where what declares them is damaged itself, which is a finding of its own row."""
        try:
            return self.log.holes()
        except (Corrupt, Unavailable):
            return []

    def _declared(self, seq: int) -> bool:
        try:
            return seq in self.log.erased()
        except (Corrupt, Unavailable):
            return False

    def _tainted(self) -> tuple[Range, ...]:
        try:
            return tainted(self.engine, self.name)
        except (Corrupt, Unavailable):
            return ()

    def _lost(self, first: int, last: int) -> Iterator[str]:
        """Ids of vanished turns, as far as the newest state remembers them."""
        found = self.engine.state(self.name)
        lineage = unpack(found[1]) if found else None
        return (t.id for t in (lineage.turns if lineage else ()) if first <= t.seq <= last)

    def _row(self, row: Row) -> Iterator[Finding]:
        gone, header = row.kind == codec.PRUNED, row
        row = self._restored(row)
        inner_ok = row.erased or codec.digest(row.salt, row.body) == row.inner
        linked = self.before is None or row.digest == codec.link(
            self.before, row.seq, row.kind, row.generation, row.size, row.unique, row.keys, row.inner
        )
        declared = gone or (row.erased and (self._declared(row.seq) or self._may_be_empty(row)))
        expected = self.lineage.generation if self.lineage and not gone else row.generation
        seen = RowSeen(
            row.seq, row.generation, expected, row.size, len(row.body), inner_ok, linked, row.erased, declared, (row.unique or row.kind),
            self.manifest.get(row.seq, ()),
        )  # fmt: skip
        yield Finding(row=seen)
        self.before = row.digest
        self.full |= {row.seq} if row.kind == "segment" and not row.erased else set()
        entry = self._entry(row) if inner_ok and not gone and (declared or not row.erased) else None
        if entry is None:
            self.lineage = None
        elif self.lineage is not None:
            yield from self._step(header, entry)
        if row.seq in self.states:
            yield from self._state(row)

    # --- packed rows -------------------------------------------------------------------------------------------------

    def _packs(self) -> None:
        """What is declared of segments, as of now. Nothing where that is damaged itself."""
        try:
            entries = (self.log.look(row) for row in self.engine.find(self.name, "pack"))
            self.manifest = {p.seq: p.runs for e in entries if isinstance(e, PackCommitted) for p in e.segments}
            self.emptied = self.log.segments_gone()
        except Corrupt:
            self.emptied = ()

    def _may_be_empty(self, row: Row) -> bool:
        if row.kind != "segment":
            return False
        if not ranges.contains(self.emptied, row.seq):
            self._packs()
        return ranges.contains(self.emptied, row.seq)

    def _restored(self, row: Row) -> Row:
        """The row with its content, from its own place or a segment; empty if it has none any more, or the segment is damaged."""
        try:
            return self.log.restored(row)
        except Corrupt:
            return row

    def _lost_segments(self, first: int, last: int) -> Iterator[str]:
        return (f"segment of {ranges.told(runs)}" for seq, runs in self.manifest.items() if first <= seq <= last)

    def _leftovers(self) -> Iterator[Finding]:
        """Segments with content that no manifest and no purge names, or that others have taken the place of."""
        self._packs()
        purges = {row.seq for row in self.engine.find(self.name, "purge")}
        for place in all_standing(self.engine, self.name):
            named = place.seq in self.manifest or place.segment.begun in purges
            if place.seq in self.full and (not named or ranges.contains(self.emptied, place.seq)):
                yield Finding(leftover=f"segment at seq {place.seq}")

    # --- the fold and the states -------------------------------------------------------------------------------------

    def _entry(self, row: Row) -> Entry | None:
        try:
            return self.log.look(row)
        except (Corrupt, Unavailable):
            return None

    def _step(self, row: Row, entry: Entry) -> Iterator[Finding]:
        lineage = self.lineage
        assert lineage is not None
        if isinstance(entry, CompactionCommitted) and view_digest(lineage.items) != entry.pre_digest:
            yield Finding(mismatch=Mismatch(entry.generation, "pre", row.seq))
        if isinstance(entry, PackBegun):
            self.unpacked[row.seq] = entry.pre_digest
        if isinstance(entry, PackCommitted) and self.unpacked.get(entry.begun) != entry.post_digest:
            yield Finding(mismatch=Mismatch(row.generation, "post", row.seq))
        try:
            after = fold(lineage, row.seq, row.digest.hex(), row.inner.hex(), entry)
        except Misfit:
            self.lineage = None
            yield Finding(mismatch=Mismatch(lineage.generation, "post", row.seq))
            return
        if isinstance(entry, CompactionCommitted) and view_digest(after.items) != entry.post_digest:
            yield Finding(mismatch=Mismatch(entry.generation, "post", row.seq))
        self.lineage = after

    def _state(self, row: Row) -> Iterator[Finding]:
        """A materialised state beside this row: it must be what the fold gives, or (behind a hole) it is where the fold goes on."""
        found = self.engine.state(self.name, row.seq)
        if (found is None or found[0] != row.seq) and row.seq not in self.engine.states(self.name):
            return  # others removed it since the reading began: it is only an index
        state = unpack(found[1]) if found and found[0] == row.seq else None
        ours = state is not None and state.digest == row.digest.hex()
        if ranges.contains(self._tainted(), row.seq):
            # Written by one who had not heard of a purge, and cut off before it was taken back; or the purge has not come to it.
            # Its content may be other than the rows' by now, but what is open shows behind it: the purge is folded there.
            self.unswept = True
        elif not ours or (self.lineage is not None and state != self.lineage):
            yield Finding(mismatch=Mismatch(row.generation, "post", row.seq))
            return
        if self.lineage is None and ours:
            self.lineage = state

    def _end(self) -> Iterator[Finding]:
        beyond = [s for s in self.states if s > self.head]
        if beyond:
            # A state is kept only for an entry that was acknowledged: a log that ends before it has lost its tail.
            newest = self.engine.state(self.name, max(beyond))
            yield Finding(anchor=AnchorSeen(max(beyond), False, self.head)) if newest else Finding()
        if self.in_flight is None:
            yield from self._leftovers()
        if self.anchored:
            seq, digest, _ = self.anchored
            yield Finding(anchor=AnchorSeen(seq, self.log.digest_at(seq) == digest, self.head))

    @property
    def in_flight(self) -> int | None:
        lineage = self.lineage
        if lineage is None:
            return None
        if lineage.in_flight:
            return lineage.in_flight.generation
        return lineage.generation if lineage.pruning or lineage.purging or lineage.packing or self.unswept else None


def verify(engine: Engine, name: str, clock: Clock, anchor: HeadAnchor | None = None) -> Reports:
    """Every finding about one session, or the one report that it is clean. Reads all rows; changes nothing."""
    reader = _Reader(engine, name, clock, anchor)
    reports = [r for finding in reader.findings() if (r := judge_finding(finding))]
    generation = reader.lineage.generation if reader.lineage else 0
    found = conclude(reports, reader.in_flight, generation)
    if reader.anchored and found[0].clean and reader.head > reader.anchored[0]:
        # A crash leaves it so, until the next append moves the anchor; a row that somebody else chained to the end does, too.
        beyond = f"{found[0].detail}; the rows behind seq {reader.anchored[0]} are not vouched for by the anchor"
        found = (replace(found[0], detail=beyond),)
    return Reports(found)


def salvage(engine: Engine, name: str, clock: Clock) -> Iterator[tuple[Row, TurnAppended]]:
    """Every turn that still verifies by itself, damage or not: for export when a session no longer opens."""
    log = Log(engine, name, clock, read_ahead=False)
    for row in engine.scan(name, 0, None, ("turn",)):
        try:
            entry = log.entry(row)
        except (Corrupt, Unavailable, Refused):
            continue  # named by verify(); what is salvaged here is only what can be vouched for
        if isinstance(entry, TurnAppended) and entry.message is not None:
            yield row, entry
