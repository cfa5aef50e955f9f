"""RocksDB's integrity check: every pair is read, and names, numbers, seqs and index are held against each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lineal.engines.rocksdb_rows import Keys, carried, name_key, number, numbered, unpacked, unpacked_meta
from lineal.engines.standing import Expected
from lineal.errors import Corrupt


def check(snapshot: Any) -> list[str]:
    """One sentence for each thing found wrong. Stops at a block that cannot be read: what lies behind it is not known."""
    found: list[str] = []
    names: dict[bytes, bytes] = {}
    try:
        for key, value in _pairs(snapshot, b"N", b"O"):
            names[key] = value
        numbers = {numbered(value) for value in names.values()}
        for key, data in _pairs(snapshot, b"S", b"T"):
            if key[9:10] == b"m" and names.get(name_key(unpacked_meta(data)[0])) != key[1:9]:
                found.append(f"session number {numbered(key[:9])} has no name that leads to it")
            elif numbered(key[:9]) not in numbers:
                found.append(f"a pair of session number {numbered(key[:9])}, which has no name")
        for value in names.values():
            found += _session(snapshot, Keys(numbered(value)))
    except Corrupt as e:
        found.append(str(e))
    except Exception as e:
        if type(e) is not Exception:  # the library raises nothing more exact
            raise
        found.append(str(e))
    return found


def _session(snapshot: Any, keys: Keys) -> Iterator[str]:
    meta = dict(_pairs(snapshot, keys.meta, keys.meta + b"\0")).get(keys.meta)
    if meta is None:
        yield f"nothing is kept of session number {numbered(keys.prefix)}"
        return
    session, standing, _ = unpacked_meta(meta)
    expected, wanted = Expected(session, standing, 0, None), set[bytes]()
    try:
        for key, data in _pairs(snapshot, keys.entries, keys.entries_end):
            expected.came(numbered(key))
            row = unpacked(session, numbered(key), data)
            wanted |= {keys.lookup(name) + number(row.seq) + mark for name, mark in carried(row)}
        expected.ended()
    except Corrupt as e:
        yield str(e)
        return
    there = {key + mark for key, mark in _pairs(snapshot, keys.lookups, keys.prefix + b"l")}
    if there != wanted:
        yield f"session {session!r}: the index has {len(there - wanted)} keys too many and lacks {len(wanted - there)}"


def _pairs(snapshot: Any, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
    it = snapshot.iter()
    it.seek(first)
    while it.valid() and it.key() < end:
        yield it.key(), it.value()
        it.next()
    it.status()
