"""The guard for other people's data: a manifest of a foreign table before its engine compacts, held against it after (record 004).

For session state that lies in somebody else's PostgreSQL, SQLite, RocksDB or Cassandra-format store, with no log of lineal's
around it. `take` writes down ids, digests and generations; `check` says what of them is still so, and which ids are not.

    lineal.guarding.take("postgresql://host/agents", "before.guard", table="sessions")
    ...                                            # the engine vacuums, compacts, is killed, is restored
    checked = lineal.guarding.check("postgresql://host/agents", "before.guard")
    if not checked.clean: print(checked.verdict.name, checked.missing, checked.altered, checked.extra)

Both read as one stream in flat memory, whatever the table holds, and write nothing to the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lineal.errors import Unavailable, quoted
from lineal.guarding.comparing import FAULTS, Comparison, Tell, compare
from lineal.guarding.encoding import Record
from lineal.guarding.manifest import FORMAT, ForeignDamage, Manifest, Writer, begun, opened, refuse_if_complete
from lineal.guarding.sorting import Disorder, ascending, by_runs
from lineal.guarding.sources import Asked, Busy, Facts, Shape, Source, open_source, usage
from lineal.guarding.verdicts import Checked, judge, unread

__all__ = ["FAULTS", "Checked", "Comparison", "ForeignDamage", "Manifest", "check", "opened", "take"]

Progress = Callable[[int], None]  # is told how many records were read, now and then
PROGRESS_EVERY = 2_048


def take(
    source: Any,
    manifest: str | Path,
    *,
    table: str | None = None,
    prefix: str | None = None,
    ids: Sequence[str] = (),
    generation: str | None = None,
    where: str | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Write a manifest of what `source` holds now: a path, a URL, or an open `rocksdict.Rdict`.

    `ids` names a record where no primary key does; `generation` is a column of whole numbers. A `take` that was cut off goes
    on when it is called again in the same way, if the state is still the same.

    Raises `PolicyError` for what cannot be meant, `Refused` for ids that are not unique, a file that is complete already or a
    state that changed since it was begun, `ForeignDamage` for a store that is damaged, `Unavailable`.
    """
    path = Path(manifest)
    refuse_if_complete(path)
    asked = Asked(table, prefix, tuple(ids), generation, where)
    with _opened_or_busy(source, asked) as store:
        _refuse_damaged(store.facts())
        try:
            return _taken(store, path, progress, sort=not store.in_order or bool(begun(path).get("sorted")))
        except Disorder:
            path.unlink(missing_ok=True)  # what was written of it is in the store's order
            return _taken(store, path, progress, sort=True)


def check(
    source: Any,
    manifest: str | Path,
    *,
    post: str | Path | None = None,
    generation: int | None = None,
    tell: Tell | None = None,
    progress: Progress | None = None,
) -> Checked:
    """Hold what `source` holds now against the manifest. What to read, the manifest says.

    `post`: a manifest that was taken after a pass which changes contents on purpose; the store must then be as that one says.
    `generation`: the generation that the pass writes; a record of any other is mixed state. `tell` is told of every fault.

    Raises `Refused` for a manifest that is not complete, `PolicyError` for one of something else, `ForeignDamage` for records
    or a manifest that cannot be read as they were written, `Unavailable`.
    """
    before = opened(manifest)
    after = opened(post) if post is not None else None
    header = (after or before).header
    if after is not None:
        _refuse_other(before, after)
    if generation is not None and header["generation"] is None:
        raise usage("no_generation", "the manifest was taken without a generation column.", "take one with --generation COLUMN")
    try:
        with open_source(source, _asked_in(header)) as store:
            _refuse_other_shape(after or before, store.shape)
            first = store.facts()
            found = _compared(store, after or before, progress, tell)
            return judge(before, after, found, _both(first, store.facts()), store.isolated, generation)
    except Busy as busy:
        _refuse_other_shape(after or before, busy.shape)
        return unread(before, after, busy.facts, generation)


def _taken(store: Source, path: Path, progress: Progress | None, sort: bool) -> Manifest:
    with Writer(path, {"format": FORMAT, "sorted": sort, **store.shape.told}) as writer:
        first = store.facts()
        for record in _counted(_ordered(store, sort), progress):
            writer.add(record)
        facts = _both(first, store.facts())
        _refuse_damaged(facts)
        if facts.running and not store.isolated:
            raise Unavailable(f"table {store.shape.table}", "; ".join(facts.running), "take the manifest when that has ended")
        said = {"position": facts.position, "running": facts.running, "notes": facts.notes, "taken": _now()}
        writer.finish(said)
    return opened(path)


def _compared(store: Source, expected: Manifest, progress: Progress | None, tell: Tell | None) -> Comparison:
    sort = not store.in_order or bool(expected.header["sorted"])
    try:
        return compare(expected.records(), _counted(_ordered(store, sort), progress), tell)
    except Disorder:
        if tell is not None:
            tell(AGAIN, None)
        return compare(expected.records(), _counted(_ordered(store, True), progress), tell)


AGAIN = "again"  # told instead of a fault: what was told before does not count, the records are read anew in another order


def _ordered(store: Source, sort: bool) -> Iterator[Record]:
    return by_runs(store.records()) if sort else ascending(store.records())


def _counted(records: Iterator[Record], progress: Progress | None) -> Iterator[Record]:
    if progress is None:
        yield from records
        return
    count = 0
    for count, record in enumerate(records, 1):
        if count % PROGRESS_EVERY == 0:
            progress(count)
        yield record
    progress(count)


def _both(first: Facts, last: Facts) -> Facts:
    """What was so at the beginning of a read or at its end. The position is that of the beginning, where the snapshot is."""
    running = tuple(dict.fromkeys((*first.running, *last.running)))
    return Facts(first.position, running, first.notes, tuple(dict.fromkeys((*first.damage, *last.damage))))


@contextmanager
def _opened_or_busy(source: Any, asked: Asked) -> Iterator[Source]:
    try:
        with open_source(source, asked) as store:
            yield store
    except Busy as busy:
        raise Unavailable(f"table {busy.shape.table}", str(busy), "take the manifest when that has ended: it keeps readers out") from busy


def _refuse_damaged(facts: Facts) -> None:
    if facts.damage:
        raise ForeignDamage("the store", "files that are whole", "; ".join(facts.damage), "restore what is damaged, then take the manifest")


def _asked_in(header: dict[str, Any]) -> Asked:
    """What was asked for when the manifest was taken."""
    ids = () if header["store"] == "rocksdb" else tuple(header["ids"])
    return Asked(header["table"], header["prefix"], ids, header["generation"], header["where"])


_SAME = {
    "store": "store",
    "table": "table",
    "ids": "ids",
    "columns": "columns",
    "generation": "generation column",
    "where": "rows",
    "prefix": "prefix",
}


def _refuse_other_shape(expected: Manifest, shape: Shape) -> None:
    _refuse_difference(expected.header, shape.told, "the store")


def _refuse_other(before: Manifest, after: Manifest) -> None:
    _refuse_difference(before.header, after.header, "the manifest of after the pass")


def _refuse_difference(wanted: dict[str, Any], found: dict[str, Any], where: str) -> None:
    other = next((name for name in _SAME if wanted[name] != found[name]), None)
    if other is not None:
        message = f"the manifest is of another {_SAME[other]} than {where}: {quoted(wanted[other], 200)}, not {quoted(found[other], 200)}."
        raise usage("other_shape", message, "check against the store that it was taken of; after a change of columns, take a new manifest")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
