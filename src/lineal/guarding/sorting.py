"""Records in the order of their ids, in flat memory: as they come where the store sorts as the guard does, else by runs on disk."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import IO

from lineal.errors import Refused, Unavailable, Verdict
from lineal.guarding.encoding import Record, shown

RUN_RECORDS = 20_000  # that are sorted in memory at once
FAN_IN = 256  # runs that are merged at once: more are merged into one first
_HEAD = 4 + 32 + 8 + 8


class Disorder(Exception):
    """The store's order is not that of the ids' bytes: the records must be sorted here."""


def ascending(records: Iterable[Record]) -> Iterator[Record]:
    """The records as they come. Raises `Disorder` at the first that stands too late, `Refused` for an id that comes twice."""
    last = b""
    for record in records:
        if record.id <= last:
            if record.id == last:
                raise _twice(record.id)
            raise Disorder(shown(record.id))
        last = record.id
        yield record


def by_runs(records: Iterable[Record]) -> Iterator[Record]:
    """The records sorted by id. Needs room for temporary files: about 60 bytes and an id for each record.

    Raises `Refused` for an id that comes twice, `Unavailable` where there is no room.
    """
    with ExitStack() as files:
        try:
            runs: list[IO[bytes]] = []
            kept: list[Record] = []
            for record in records:
                kept.append(record)
                if len(kept) == RUN_RECORDS:
                    runs.append(_written(sorted(kept), files))
                    kept = []
                    if len(runs) == FAN_IN:
                        runs = [_merged(runs, files)]
            merged = heapq.merge(sorted(kept), *map(_read, runs))
            yield from ascending(merged)
        except OSError as e:
            raise Unavailable("cannot sort the records", e, "make room for temporary files, or name another place with TMPDIR") from e


def _merged(runs: list[IO[bytes]], files: ExitStack) -> IO[bytes]:
    one = _written(heapq.merge(*map(_read, runs)), files)
    for run in runs:
        run.close()
    return one


def _written(records: Iterable[Record], files: ExitStack) -> IO[bytes]:
    file: IO[bytes] = files.enter_context(tempfile.TemporaryFile(prefix="lineal-guard-"))  # noqa: SIM115
    for record in records:
        file.write(packed(record))
    return file


def _read(file: IO[bytes]) -> Iterator[Record]:
    file.seek(0)
    while head := file.read(_HEAD):
        size = int.from_bytes(head[:4], "big")
        yield unpacked(head, file.read(size))


def packed(record: Record) -> bytes:
    """One record as bytes: lengths and numbers first, the id last."""
    key, digest, generation, size = record
    return b"".join((len(key).to_bytes(4, "big"), digest, generation.to_bytes(8, "big", signed=True), size.to_bytes(8, "big"), key))


def unpacked(head: bytes, key: bytes) -> Record:
    return Record(key, head[4:36], int.from_bytes(head[36:44], "big", signed=True), int.from_bytes(head[44:52], "big"))


def all_unpacked(data: bytes) -> Iterator[Record]:
    """Every record of a block. Raises `ValueError` for bytes that are none."""
    at = 0
    while at < len(data):
        head = data[at : at + _HEAD]
        end = at + _HEAD + int.from_bytes(head[:4], "big")
        if end > len(data):
            raise ValueError(f"a record at byte {at} runs over the end of its block")
        yield unpacked(head, data[at + _HEAD : end])
        at = end


def _twice(key: bytes) -> Refused:
    message = f"two records have the id {shown(key)!r}: by these columns no record can be named."
    return Refused(Verdict("guard", "id_not_unique", message=message, remedy="name the columns that tell records apart with --id"))
