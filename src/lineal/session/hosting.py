"""What a host keeps in the log beside the conversation: a framework's checkpoints, its events, the lines of its transcript.

One sequence holds both, so "was this kept before or after the last compaction?" compares two seqs. Records are chained,
verified, forked and purged as every other entry is. No view shows them and no rollback takes them away: where the host
stands is the host's to say. A prune takes them once the host has released them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lineal import codec, ranges
from lineal.entries import Entry, HostRecord, Range
from lineal.errors import Conflict, Corrupt, PolicyError, Verdict, quoted
from lineal.lineage import Lineage, host_chain
from lineal.session import appending
from lineal.session.lookups import find_all, refuse_unless_all
from lineal.session.outcomes import Kept, Record, Said

if TYPE_CHECKING:
    from lineal.session import Session

RELEASED = ""  # the group of the records that release others: no host may use it


def keep(session: Session, space: str, group: str, records: Sequence[Record], after: int | None, once: bool) -> list[int]:
    """Append these and what they say, all or none; returns the records' seqs. See `Session.keep`."""
    _refuse_unless_records(records)
    session.log.catch_up()
    first, said = _by_turns(records)
    seqs: list[int] = []
    place = 0

    def entries(some: Sequence[Record]) -> list[Entry]:
        nonlocal place
        fresh: list[Entry] = []
        for record in some:
            known = kept(session, space, group, record.key, 1) if once and record.key else []
            seqs.append(known[0].seq if known else place + len(fresh) + 1)
            if not known:
                turns = (*record.turns, *(one.id for one in record.says))
                fresh.append(HostRecord(space=space, group=group, key=record.key, data=record.data, turns=turns))
        place += len(fresh)
        return fresh

    def ahead(lineage: Lineage) -> Sequence[Entry]:
        nonlocal place
        seqs.clear()
        place = lineage.head
        if after is not None:
            _refuse_unless_newest(session, lineage, space, group, after)
        return entries(first)

    def beside(lineage: Lineage, n: int, seq: int) -> Sequence[Entry]:
        nonlocal place
        place = max(place, seq)  # a turn that stands already has its seq far below
        return entries(said[n][1])

    if said:
        turns = [one for one, _ in said]
        messages, ids, authors = [t.message for t in turns], [t.id for t in turns], [t.author for t in turns]
        appending.append(session, messages, ids, authors, orphans=True, beside=beside, ahead=ahead)
    else:
        session.log.write(ahead)
    return seqs


def _by_turns(records: Sequence[Record]) -> tuple[list[Record], list[tuple[Said, list[Record]]]]:
    """The records before the first message, and each message with those that stand behind its turn: the one that says it comes last."""
    first: list[Record] = []
    said: list[tuple[Said, list[Record]]] = []
    for record in records:
        said += [(one, []) for one in record.says]
        (said[-1][1] if said else first).append(record)
    return first, said


def _refuse_unless_records(records: Sequence[Record]) -> None:
    for record in records:
        if not isinstance(record, Record):
            raise PolicyError(Verdict("keep", "no_record", message=f"{quoted(record)} is no Record.", remedy="give lineal.Record(data)"))
        codec.refuse_unless_json(record.data, "record")
    keys = [record.key for record in records if record.key]
    if len(set(keys)) < len(keys):
        raise PolicyError(Verdict("keep", "same_key", message="two of these records have one key.", remedy="keep one after the other"))


def _refuse_unless_newest(session: Session, lineage: Lineage, space: str, group: str, after: int) -> None:
    newest = kept(session, space, group, None, 1)
    found = newest[0].seq if newest else 0
    if found != after:
        raise Conflict(session.name, after, found, f"group {group!r} of {space!r} has a newer record; read it and ask again")


def kept(session: Session, space: str, group: str | None, key: str | None, limit: int | None) -> list[Kept]:
    """The records of a group (with this key) that were not released, newest first. See `Session.kept`."""
    log = session.log
    lineage, chain = log.catch_up(), host_chain(space, group or RELEASED)
    if group is None:
        found = [*reversed([(row, e) for row, e in log.entries(kinds=("host",)) if _asked(e, space, key)])]
    elif key is None:
        found = find_all(log, lineage, codec.host_group(space, group), chain, limit)
    else:
        name = codec.host_key(space, group, key)
        found = log.find(name, limit)
        if not found:
            refuse_unless_all(log, lineage, name, chain, {})
    gone = _released(session, lineage, space) if found else frozenset()
    live = [_kept(row.seq, e) for row, e in found if isinstance(e, HostRecord) and row.seq not in gone]
    if limit is not None and len(live) < limit == len(found):
        live = kept(session, space, group, key, None)
    return live[:limit]


def kept_at(session: Session, seqs: Iterable[int]) -> list[Kept]:
    """The records at these seqs, each verified. Raises `Corrupt` for one that is not there: whoever needs it is not whole."""
    wanted = sorted(set(seqs))
    found = {row.seq: _kept(row.seq, e) for row, e in session.log.rows(ranges.union((s, s) for s in wanted)) if isinstance(e, HostRecord)}
    if lost := [seq for seq in wanted if seq not in found]:
        raise Corrupt(session.name, lost[0], "a record of a host that another one needs", "none", "missing entries, phantom deletion")
    return [found[seq] for seq in wanted]


def release(session: Session, space: str, seqs: Iterable[int]) -> None:
    """Let go of these records at once. Their rows stay until a prune takes them."""
    going = tuple(sorted(set(seqs)))
    if going:
        session.log.catch_up()
        session.log.write(lambda lineage: [HostRecord(space=space, group=RELEASED, releases=going)])


def _asked(e: Entry, space: str, key: str | None) -> bool:
    return isinstance(e, HostRecord) and e.space == space and not e.releases and key in (None, e.key)


def _kept(seq: int, e: HostRecord) -> Kept:
    return Kept(seq, e.group, e.key, e.data, e.turns)


def _released(session: Session, lineage: Lineage, space: str) -> frozenset[int]:
    found = find_all(session.log, lineage, codec.host_group(space, RELEASED), host_chain(space, RELEASED))
    return frozenset(seq for _, e in found if isinstance(e, HostRecord) for seq in e.releases)


def retained(session: Session) -> tuple[Range, ...]:
    """Rows that no prune may take: what hosts keep and have not released, and what says which ones were."""
    rows = [(row.seq, e) for row, e in session.log.entries(kinds=("host",)) if isinstance(e, HostRecord)]
    gone = {(e.space, seq) for _, e in rows for seq in e.releases}
    return ranges.union((seq, seq) for seq, e in rows if (e.space, seq) not in gone)
