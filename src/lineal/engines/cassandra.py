"""Cassandra's own files in a directory: SSTables of Cassandra 5.0, written and read by cqlite; one process at a time.

There is no server here, and no cluster: a session's whole partition is on this disk. What is asked of the format is what a
cluster could do too, which is a conditional append to one partition (`cassandra_rows.CLUSTER` says how it reads in CQL).

| what | how |
|---|---|
| append | the rows, then the static row with the new head; each statement is synced into the commit log |
| a kill between two of them | rows beyond the head are no rows; the next append writes over them |
| a read | what stands in the tables, and over it what is only in the commit log yet (kept in memory, a few MB) |
| timestamps | a counter of the store's own, never the clock: a clock set back would let an older head win |
| lookups | an index in memory, built by one reading at open, which also counts every row |
| files | each is named in a manifest with size and checksum, because the library reads a cut one as empty (`cassandra_files`) |
| compaction | size-tiered, in slices of time: `maintain(budget_ms)`; it may stop half-way for as long as one likes |
| erasing for good (E6) | everything is written into a new folder without it, the manifest changes over, the old folder goes |
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lineal.engines import Duplicate, Row, refuse_unless_following
from lineal.engines import cassandra_rows as cql
from lineal.engines.cassandra_files import MANIFEST
from lineal.engines.cassandra_store import Tables, errors_of
from lineal.engines.held import Held, Place, hold, locate, ready, release
from lineal.engines.standing import Expected
from lineal.errors import Conflict, Corrupt, Unavailable

STEP_MS = 20  # of merging, after each flush
POINTS = 3  # rows up to which each is asked for by itself


class CassandraEngine:
    """A handle on one directory. Threads may share it."""

    name = "cassandra"

    def __init__(self, place: Place, held: Held[Tables]):
        self.path, self._held, self._closed = place.path, held, False

    @classmethod
    def open(cls, url: str, create: bool = True) -> CassandraEngine:
        """The store in the directory that `url` names: `cassandra:///relative` or `cassandra:////absolute`.

        Options after `?`: `wait=seconds` for another process that holds it (10), `mount=any`. Every file is read and
        checked. Raises `Unavailable` or `Corrupt`: see the table in `cassandra_files`.
        """
        place = locate(url, "cassandra", {})
        there = ready(place, MANIFEST, create)
        return cls(place, hold(place, lambda: Tables.open(Path(place.path), there)))

    # --- the port ----------------------------------------------------------------------------------------------------

    def append(self, session: str, expected_seq: int, rows: Sequence[Row]) -> None:
        refuse_unless_following(expected_seq, rows)
        with self._writing("append", session) as store:
            kept = store.session(session)
            if kept.standing.head != expected_seq:
                raise Conflict(session, expected_seq, kept.standing.head)
            if not rows:
                return
            batch: dict[str, int] = {}
            for row in rows:
                if row.unique is not None:
                    found = kept.uniques.get(row.unique) or batch.get(row.unique)
                    if found:
                        raise Duplicate(session, expected_seq, found, row.unique)
                    batch[row.unique] = row.seq
            standing, stamp = replace(kept.standing, head=rows[-1].seq), store.stamp()
            inserts = [cql.insert_entry(session, row, stamp) for row in rows]
            store.write(session, [*inserts, cql.commit(session, standing, kept.latched, stamp)])
            kept.standing = standing
            for row in rows:
                kept.add(row)
            store.written(session, sum(map(len, inserts)) // 2)
            if store.flush_if_due():
                store.maintain(STEP_MS)

    def scan(self, session: str, after: int = 0, until: int | None = None, kinds: Sequence[str] | None = None) -> Iterator[Row]:
        """One snapshot, taken now: the tables that stand, and a copy of what is only in the commit log."""
        with self._writing("scan", session) as store:
            kept = store.session(session)
            first, last = min(max(after, 0), cql.MOST), min(max(kept.standing.head if until is None else until, 0), kept.standing.head)
            expected = Expected(session, kept.standing, first, last)
            fresh = {seq: row for seq, row in kept.fresh.items() if first < seq <= last}
            flushed = any(seq not in fresh for seq in kept.standing.between(first, last))
            found = store.stream(session, cql.select_entries(session, first, last)) if flushed else iter(())
            rows = _Merged(session, found, fresh, expected, kept.standing, kinds, self._asked("scan", session), first)
            store.scans.add(rows)
            return rows

    def find(self, session: str, key: str, limit: int | None = None) -> list[Row]:
        with self._writing("find", session) as store:
            kept = store.session(session)
            wanted = kept.carriers.get(key, [])[::-1][:limit]
            missing = [seq for seq in wanted if seq not in kept.fresh]
            found = {seq: kept.fresh[seq] for seq in wanted if seq in kept.fresh} | self._rows(store, session, missing)
            return [found[seq] for seq in wanted]

    def _rows(self, store: Tables, session: str, seqs: Sequence[int]) -> dict[int, Row]:
        """These rows out of the tables. Raises `Corrupt` for one that is not there."""
        found: dict[int, Row] = {}
        spans = [(seq - 1, seq) for seq in seqs] if len(seqs) <= POINTS else [(min(seqs) - 1, max(seqs))]
        for first, last in spans:
            for record in store.stream(session, cql.select_entries(session, first, last)):
                if record["seq"] in seqs:
                    found[record["seq"]] = cql.row_in(session, record["seq"], record)
        for seq in seqs:
            if seq not in found:
                raise Corrupt(session, seq, "the row that stands there", "none", "missing row")
        return found

    def delete(self, session: str, seqs: Iterable[int], content_only: bool = False) -> None:
        named = list(seqs)
        with self._writing("erase" if content_only else "delete", session) as store:
            kept = store.session(session)
            going = [seq for seq in dict.fromkeys(named) if seq in kept.standing]
            stamp = store.stamp()
            if content_only:
                store.flush()
                rows = self._rows(store, session, going)
                store.write(session, [cql.erase_entry(session, seq, stamp) for seq in going])
                kept.fresh |= {seq: replace(row, salt=b"", body=b"") for seq, row in rows.items()}
                if kept:
                    store.rewrite()
            elif going:
                standing = kept.standing.without(going)
                drops = [cql.drop(session, cql.ENTRY, seq, stamp) for seq in going]
                store.write(session, [cql.commit(session, standing, kept.latched, stamp), *drops])
                kept.standing = standing
                kept.drop(going)
                store.forget_if_empty(session)

    def put_state(self, session: str, seq: int, data: bytes) -> None:
        with self._writing("put_state", session) as store:
            kept = store.session(session)
            store.write(session, [cql.insert_state(session, seq, data, store.stamp())])
            kept.states[seq] = data
            store.written(session, len(data))
            if store.flush_if_due():
                store.maintain(STEP_MS)

    def state(self, session: str, at: int | None = None) -> tuple[int, bytes] | None:
        with self._writing("state", session) as store:
            states = store.session(session).states
            seq = max((seq for seq in states if at is None or seq <= at), default=None)
            if seq is None:
                return None
            data = states[seq]
            if data is None:
                found = [cql.plain(record["body"]) for record in store.stream(session, cql.select_state(session, seq))]
                if len(found) != 1 or not isinstance(found[0], bytes):
                    raise Corrupt(session, seq, "the bytes of a state", f"{found!r:.60}", "damaged state")
                data = found[0]
            return seq, data

    def states(self, session: str) -> list[int]:
        with self._writing("states", session) as store:
            return sorted(store.session(session).states)

    def delete_states(self, session: str, seqs: Iterable[int]) -> None:
        named = list(seqs)
        with self._writing("delete_states", session) as store:
            states, stamp = store.session(session).states, store.stamp()
            going = [seq for seq in dict.fromkeys(named) if seq in states]
            store.write(session, [cql.drop(session, cql.STATE, seq, stamp) for seq in going])
            for seq in going:
                del states[seq]
            store.forget_if_empty(session)

    def latch(self, session: str, reason: str | None) -> None:
        with self._writing("latch", session) as store:
            kept = store.session(session)
            if kept or reason is not None:
                store.write(session, [cql.commit(session, kept.standing, reason, store.stamp())])
                kept.latched = reason
                store.written(session, 0)
                store.forget_if_empty(session)

    def latched(self, session: str) -> str | None:
        with self._writing("latched", session) as store:
            return store.session(session).latched

    def sessions(self) -> list[str]:
        with self._writing("sessions", "") as store:
            return sorted(name for name, kept in store.sessions.items() if kept.standing.head)

    def status(self) -> dict[str, Any]:
        with self._writing("status", "") as store:
            files = [path for path in Path(self.path).rglob("*") if path.is_file()]
            return {
                "engine": self.name,
                "path": self.path,
                "bytes": sum(os.stat(file).st_size for file in files),
                "durable": True,
                "tables": sum(name.endswith("-Data.db") for name in store.manifest.files),
                "unflushed_bytes": store.unflushed,
                "merging": store.manifest.merging,
                "handles": self._held.handles,
                "erasure": "complete",
            }

    def check(self) -> list[str]:
        """Every file against the manifest, every row against what must stand, every byte of it read."""
        with self._writing("check", "") as store:
            found = store.check()
            names = list(store.sessions)
        for name in names:
            try:
                for _ in self.scan(name):
                    pass
            except Corrupt as e:
                found.append(str(e))
        return found

    def maintain(self, budget_ms: int) -> bool:
        """Merge tables for about so many milliseconds; True while there is more to merge. For an operator.

        Between two calls the merge stays half done, for as long as one likes: reads, appends and kills in between are sound.
        """
        with self._writing("maintain", "") as store:
            store.flush()
            return store.maintain(budget_ms)

    def close(self) -> None:
        """Let go; the last handle of the process closes the tables. Idempotent. A forked child leaves its parent's open."""
        if not self._closed:
            self._closed = True
            with errors_of(self._asked("close", "")):
                release(self._held)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _asked(self, what: str, session: str) -> str:
        return f"{what} in session {session!r} of {self.path}" if session else f"{what} of {self.path}"

    @contextmanager
    def _writing(self, what: str, session: str) -> Iterator[Tables]:
        """Alone: also for reading, because a flush moves rows from memory into tables."""
        asked = self._asked(what, session)
        if self._closed:
            raise Unavailable(asked, "the store was closed", "open it again")
        self._held.refuse_if_forked(asked)
        with self._held.writing(asked) as store, errors_of(asked, session):
            yield store


class _Merged:
    """An iterator over rows of the tables, in which rows that are only in the commit log stand instead or behind."""

    def __init__(
        self,
        session: str,
        found: Iterator[Any],
        fresh: dict[int, Row],
        expected: Expected,
        standing: Any,
        kinds: Sequence[str] | None,
        asked: str,
        seen: int,
    ):
        self._session, self._expected, self._standing, self._asked, self._seen = session, expected, standing, asked, seen
        self._kinds, self._fresh = kinds, fresh
        self._rows: Iterator[Row] | None = self._walk(found)

    def __iter__(self) -> _Merged:
        return self

    def __next__(self) -> Row:
        if self._rows is None:
            raise Unavailable(self._asked, "the scan was closed, or its store", "open the store and scan again")
        return next(self._rows)

    def close(self) -> None:
        self._rows = None

    def _walk(self, found: Iterator[Any]) -> Iterator[Row]:
        waiting = iter(sorted(self._fresh))
        due = next(waiting, None)
        with errors_of(self._asked, self._session):
            for record in found:
                seq = record["seq"]
                while due is not None and due < seq:
                    yield from self._one(self._fresh[due])
                    due = next(waiting, None)
                if due == seq or seq not in self._standing:  # written anew, or dropped, or left by an append that was cut off
                    continue
                yield from self._one(cql.row_in(self._session, seq, record))
            while due is not None:
                yield from self._one(self._fresh[due])
                due = next(waiting, None)
            self._expected.ended()

    def _one(self, row: Row) -> Iterator[Row]:
        self._expected.came(row.seq)
        if self._kinds is None or row.kind in self._kinds:
            yield row
