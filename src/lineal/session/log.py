"""The log of one session: the only place that reads and writes rows.

| step of `write` | a crash here means |
|---|---|
| decide (pure, over the lineage) | nothing happened |
| seal: encode, salt, chain | nothing happened |
| engine.append (all or nothing, durable on return) | all entries of the decision are in, or none |
| fold them into the lineage | reopening folds them again |
| now and then: keep the materialised state | reopening folds a longer tail |

On `Conflict` the tail is read and folded, and the decision is asked *again* with the new lineage: a plain append
commutes and goes through, a rule may now refuse. Opening reads the newest state and the tail behind it, never history.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from lineal import codec, ranges
from lineal.anchor import HeadAnchor
from lineal.engines import Duplicate, Engine, Row
from lineal.entries import Entry, PackCommitted, PruneBegun, PurgeBegun
from lineal.errors import Conflict, Corrupt, LinealError, Refused, Unavailable, Verdict
from lineal.fold import Misfit, fold, links
from lineal.holder import Clock
from lineal.lineage import Lineage, chains_of, empty
from lineal.rules.integrity import BEING_DELETED, latched
from lineal.session import states
from lineal.session.declared import Declared
from lineal.session.states import pack, unpack

STATE_EVERY = 256  # entries; more where the view is large, so that states cost a constant share of the log
WRITE_DEADLINE = 30.0  # seconds of lost races after which a write gives up (R37)

Decide = Callable[[Lineage], Sequence[Entry]]


class Log(Declared):
    """One session's rows and their fold. Thread-safe; another process may write between any two calls.

    Without `read_ahead` nothing is folded at the start: for reading the rows of a log that may be damaged.
    """

    def __init__(self, engine: Engine, session: str, clock: Clock, anchor: HeadAnchor | None = None, read_ahead: bool = True):
        super().__init__(engine, session)
        self.clock, self.anchor = clock, anchor
        self.lock = threading.RLock()
        self._behind = False
        self._state_at = 0
        self.latched = engine.latched(session)
        self.lineage = self._open() if read_ahead else empty(session, codec.seed(session).hex())

    # --- reading -----------------------------------------------------------------------------------------------------

    def _open(self) -> Lineage:
        newest = self.engine.state(self.session)
        lineage = self._restore(None, newest)
        self._state_at = lineage.head
        try:
            lineage = self._fold_on(lineage, None)
        except Refused as pruned:
            if self.engine.state(self.session) != newest:
                return self._open()  # others pruned meanwhile, and left a newer state
            expected = "a sound state behind the pruned entries"
            raise self._damage(Corrupt(self.session, newest[0] if newest else 0, expected, "none", "damaged state")) from pruned
        if newest and newest[0] > lineage.head:
            # A state is kept only for an entry that was acknowledged (R60).
            found = f"head {lineage.head}"
            raise Corrupt(self.session, lineage.head + 1, f"a head at seq {newest[0]} or above", found, "cut tail or old copy restored")
        if self.anchor:
            self.anchor.check(self.session, lineage.head, self.digest_at)
        return lineage

    def _restore(self, at: int | None, newest: tuple[int, bytes] | None = None, until: int = 0) -> Lineage:
        """The newest sound state at or below `at`, for a fold on to `until` (default: `at`). A damaged state is passed over.

        So is one with content that a purge behind `until` took; a fold that goes on over the purge takes it out itself.
        """
        gone = () if at is None else states.tainted(self.engine, self.session, max(at, until))
        while found := newest or self.engine.state(self.session, at):
            newest = None
            seq, data = found
            lineage = unpack(data)
            sound = lineage is not None and lineage.session == self.session and lineage.head == seq
            if sound and lineage and self.digest_at(seq) == lineage.digest and not ranges.contains(gone, seq):
                return lineage
            if seq == 0:
                break
            at = seq - 1
        return empty(self.session, codec.seed(self.session).hex())

    def digest_at(self, seq: int) -> str | None:
        if seq == 0:
            return codec.seed(self.session).hex()
        row = next(iter(self.engine.scan(self.session, seq - 1, seq)), None)
        if row:
            return row.digest.hex()
        return next((run.after for run in self.holes() if run.last == seq), None)

    def catch_up(self) -> Lineage:
        """Fold what others have written since. Raises `Corrupt` if the chain does not go on from our head."""
        with self.lock:
            try:
                self.lineage = self._fold_on(self.lineage, None)
            except Refused:
                # Others pruned what was not read here yet; the state that a prune leaves behind it is where the fold goes on.
                self.lineage = self._fold_on(self._restore(None), None)
            self._behind = False
            return self.lineage

    def at(self, seq: int) -> Lineage:
        """The fold at `seq`: the nearest state below it and the entries behind that. Raises `Corrupt`, or `Refused` (pruned)."""
        with self.lock:
            return self._fold_on(self._restore(seq), seq)

    def at_from(self, base: int, seq: int) -> Lineage:
        """The fold at `seq`, rebuilt from the state at or below `base`: recovery's second opinion on the live state."""
        with self.lock:
            return self._fold_on(self._restore(base, until=seq), seq)

    def _fold_on(self, lineage: Lineage, until: int | None) -> Lineage:
        rows = self.engine.scan(self.session, lineage.head, until)
        for row, entry in self._verified(rows, lineage.head, bytes.fromhex(lineage.digest), whole=True):
            try:
                lineage = fold(lineage, row.seq, row.digest.hex(), row.inner.hex(), entry)
            except Misfit as e:
                raise self._damage(Corrupt(self.session, row.seq, "an entry that can follow", f"a {row.kind}: {e}", "misfit")) from e
            if isinstance(entry, PruneBegun | PurgeBegun | PackCommitted):
                self.forget_holes()
        if until is not None and lineage.head < until:
            self._cross(lineage.head + 1, until + 1, whole=True)  # refuses: what stood last was pruned, and no row behind it says so
        return lineage

    def entries(self, after: int = 0, until: int | None = None, kinds: Sequence[str] | None = None) -> Iterator[tuple[Row, Entry]]:
        """Verified entries with `after < seq <= until`, oldest first. Pruned ranges are passed over; damage raises `Corrupt`."""
        if kinds is not None:
            rows = self.engine.scan(self.session, after, until, kinds)
            return ((row, self.entry(row)) for row in rows)
        start, head = max(0, after - 1), self.lineage.head
        before = codec.seed(self.session) if start == 0 and after == 0 else None
        rows = self.engine.scan(self.session, start, until)
        last = head if until is None else min(until, head)
        return self._vouched(self._verified(rows, start, before, whole=False, last=last, above=after), after)

    def _vouched(self, pairs: Iterable[tuple[Row, Entry]], after: int) -> Iterator[tuple[Row, Entry]]:
        """What stands above `after`, and then a look at what follows the last of it."""
        last: Row | None = None
        for last, entry in pairs:
            if last.seq > after:
                yield last, entry
        if last is not None and last.seq > after:
            self._refuse_unless_followed(last)

    def rows(self, ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[Row, Entry]]:
        for first, last in ranges:
            yield from self.entries(first - 1, last)

    def find(self, key: str, limit: int | None = None) -> list[tuple[Row, Entry]]:
        """Entries that carry a lookup key, newest first, without a scan; each with its link to the row before it checked."""
        return [(row, self._linked(row)) for row in self.engine.find(self.session, key, limit)]

    def _linked(self, row: Row) -> Entry:
        before = self.digest_at(row.seq - 1)
        if before is not None:  # None: the row before it is gone, in the middle of a pruned run
            self._refuse_unless_linked(row, bytes.fromhex(before))
        self._refuse_unless_followed(row)
        return self.entry(row)

    def _refuse_unless_followed(self, row: Row) -> None:
        """What stands behind a row vouches for it: one that was rewritten with all its own digests does not fit there any more."""
        behind = next(iter(self.engine.scan(self.session, row.seq, row.seq + 1)), None)
        if behind is not None:
            self._refuse_unless_linked(behind, row.digest)
        elif row.seq == self.lineage.head and row.digest.hex() != self.lineage.digest:
            raise self._damage(Corrupt(self.session, row.seq, self.lineage.digest[:16], row.digest.hex()[:16], "chain broken"))
        elif (run := self.hole_at(row.seq + 1)) and run.first == row.seq + 1 and run.before not in ("", row.digest.hex()):
            raise self._damage(Corrupt(self.session, row.seq, run.before[:16], row.digest.hex()[:16], "chain broken"))

    def _refuse_unless_linked(self, row: Row, before: bytes) -> None:
        linked = codec.link(before, row.seq, row.kind, row.generation, row.size, row.unique, row.keys, row.inner)
        if linked != row.digest:
            raise self._damage(Corrupt(self.session, row.seq, linked.hex()[:16], row.digest.hex()[:16], "chain broken"))

    def _verified(
        self, rows: Iterable[Row], after: int, before: bytes | None, whole: bool, last: int = 0, above: int = 0
    ) -> Iterator[tuple[Row, Entry]]:
        """Each row with its entry, its place in the chain checked (R59). `whole`: a pruned range is refused, not passed over.

        `last`: the rows must reach at least so far, for so much was acknowledged or read before. `above`: what stands at or below
        it is only asked for its digest, and no segment is read for it.
        """
        expected = after + 1
        try:
            for row in rows:
                if whole and row.kind == codec.PRUNED:
                    raise Refused(_pruned(self.session, row.seq, row.seq))
                if row.seq != expected:
                    before = self._cross(expected, row.seq, whole, before)
                if before is not None:
                    self._refuse_unless_linked(row, before)
                if row.seq > above or not row.erased:
                    yield row, self.entry(row)
                before, expected = row.digest, row.seq + 1
            if expected <= last:
                self._cross(expected, last + 1, whole, before)
        except Corrupt as damage:
            self.latch(str(damage))
            raise

    def _cross(self, expected: int, found: int, whole: bool, digest: bytes | None = None) -> bytes | None:
        """Step over a declared hole; the chain goes on behind it with the digest the prune recorded.

        `digest`: of the row in front of it, which must be what stood there when the prune was begun.
        """
        seq, before = expected, ""
        while seq < found:
            run = self.fresh(partial(self.hole_at, seq))
            if run is None:
                raise Corrupt(self.session, seq, f"entry {seq}", f"none before entry {found}", "missing entries, phantom deletion")
            if digest is not None and run.first == expected and run.before and run.before != digest.hex():
                raise Corrupt(self.session, expected - 1, run.before[:16], digest.hex()[:16], "chain broken")
            if whole:
                raise Refused(_pruned(self.session, run.first, run.last))
            if found <= run.last:
                return None  # a prune is deleting here: what is left of the run can no longer be linked
            seq, before = run.last + 1, run.after
        return bytes.fromhex(before)

    def entry(self, row: Row) -> Entry:
        """The entry of one row, its bytes checked against its digest. Raises `Corrupt` and latches."""
        try:
            return self.look(row)
        except Corrupt as damage:
            raise self._damage(damage) from damage.__cause__

    # --- writing -----------------------------------------------------------------------------------------------------

    def write(self, decide: Decide) -> tuple[Lineage, list[Row]]:
        """Append what `decide` returns for the lineage of this moment; returns the new lineage and the rows written.

        `decide` may be asked again and may raise `Refused`. Raises `Conflict` when races are lost past the deadline, `Corrupt`
        when the log ends before what was read or acknowledged here: no other writer makes it shorter.
        """
        with self.lock:
            self._refuse_latched()
            until = self.clock.boot() + WRITE_DEADLINE
            while True:
                if self._behind:
                    self.catch_up()
                asked = self.lineage
                try:
                    entries = [*decide(asked)]
                except Refused:
                    if self.catch_up().head == asked.head:
                        raise
                    continue  # no compare-and-set confirms a refusal: others have written since, so it is asked again
                if not entries:
                    return self.lineage, []
                try:
                    return self._append(entries)
                except Duplicate:
                    raise
                except Conflict as lost:
                    if lost.found_seq < self.lineage.head:
                        raise self._cut_tail(lost.found_seq) from lost
                    if self.clock.boot() > until:
                        raise
                    self._behind = True

    def _cut_tail(self, head: int) -> Corrupt:
        cut = Corrupt(
            self.session, head + 1, f"a head at seq {self.lineage.head} or above", f"head {head}", "cut tail or old copy restored"
        )
        return self._damage(cut) if head else cut  # where nothing is left the session was deleted, and its name may be used again

    def _append(self, entries: Sequence[Entry]) -> tuple[Lineage, list[Row]]:
        lineage, rows, now = self.lineage, [], self.clock.wall()
        for entry in entries:
            stamped = msgspec.structs.replace(entry, at=round(now, 3), before=links(lineage, chains_of(entry)))
            before = bytes.fromhex(lineage.digest)
            row = codec.seal(before, lineage.head + 1, lineage.generation, stamped, os.urandom(codec.SALT_BYTES), lineage.branch)
            lineage = fold(lineage, row.seq, row.digest.hex(), row.inner.hex(), stamped)
            rows.append(row)
        try:
            self.engine.append(self.session, self.lineage.head, rows)
        except Conflict:
            raise
        except LinealError:
            # The write may or may not have reached the disk: what stands there is read before anything else is written.
            self._behind = True
            raise
        self.lineage = lineage
        if self.anchor:
            self.anchor.move(self.session, lineage.head, lineage.digest, lineage.epoch)
        if lineage.head - self._state_at >= max(STATE_EVERY, len(lineage.items)):
            with suppress(Refused):  # too large: opening folds a longer tail then
                self.keep_state()
        return lineage, rows

    def keep_state(self, read_back: bool = False) -> str:
        """Write the materialised state of the head; returns its digest (hex). `read_back`: before something goes that it stands for."""
        with self.lock:
            data = pack(self.lineage)
            states.keep(self.engine, self.session, self.lineage.head, data)
            if read_back and states.missing(self.engine, self.session, self.lineage.head, data):
                asked = f"state at seq {self.lineage.head} of session {self.session!r}"
                raise Unavailable(asked, "the engine acknowledged it and has it not", "check the engine; nothing was removed")
            self._state_at = self.lineage.head
            return data[:32].hex()

    # --- the latch ---------------------------------------------------------------------------------------------------

    def latch(self, reason: str | None) -> None:
        """Read-only from the first detection of damage until `verify` finds none, and the mark is really gone (R6).

        The mark of a delete that is under way stays, whatever is found: only the delete takes it away (R54).
        """
        if reason == self.latched:
            return
        try:
            if self.engine.latched(self.session) == BEING_DELETED:
                reason = BEING_DELETED
            else:
                self.engine.latch(self.session, reason)
        except (Unavailable, Corrupt):
            if reason is None:
                raise
            # A store too damaged to take the mark shows its damage again at the next open.
        self.latched = reason

    def _damage(self, found: Corrupt) -> Corrupt:
        """Latch because of what was found, and hand it back to be raised."""
        self.latch(str(found))
        return found

    def _refuse_latched(self) -> None:
        if self.latched:
            raise Refused(latched(self.session, self.latched))


def _pruned(session: str, first: int, last: int) -> Verdict:
    return Verdict(
        "retention",
        "raw_entries_gone",
        message=f"entries {first}-{last} of session {session!r} were pruned.",
        remedy="choose a seq above them; `lineal log` shows the oldest one",
        facts={"first": first, "last": last},
    )
