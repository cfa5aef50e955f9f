"""What lineal keeps in RocksDB: keys in byte order, values as msgpack, and rows to and fro.

| key | value |
|---|---|
| `F` | the format |
| `#` | the last number that was given to a session |
| `N` name | the session's number |
| `S` number `m` | the session's name, its head, the ranges dropped below the head, the reason of its latch |
| `S` number `e` seq | an entry |
| `S` number `k` length key seq | a carrier of a lookup key; the value is 1 where the row carries it as `unique` |
| `S` number `s` seq | a state |

Numbers, seqs and lengths are 8 bytes, the highest first, so that byte order is their order. A number is never used again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import msgspec

from lineal.engines import Row
from lineal.engines.sqlite_rows import blob, text
from lineal.engines.standing import Standing
from lineal.errors import Corrupt

FORMAT = 1
FORMAT_KEY, NUMBER_KEY = b"F", b"#"
MOST = (1 << 63) - 1  # no seq is higher
_NUMBER = struct.Struct(">Q")
_ROW = msgspec.msgpack.Decoder(tuple[bytes, int, int, bytes, bytes, bytes, bytes, bytes | None, list[bytes]])
_META = msgspec.msgpack.Decoder(tuple[bytes, int, list[tuple[int, int]], bytes | None])


def number(value: int) -> bytes:
    return _NUMBER.pack(value)


def numbered(data: bytes) -> int:
    """What `number` wrote at the end of a key, or as a value. Raises `Corrupt`."""
    if len(data) < _NUMBER.size:
        raise Corrupt("", 0, "a number of 8 bytes", data, "damaged index")
    found: int = _NUMBER.unpack(data[-_NUMBER.size :])[0]
    return found


def name_key(session: str) -> bytes:
    return b"N" + blob(session)


class Keys:
    """The keys of one session."""

    def __init__(self, session_number: int):
        self.prefix = b"S" + number(session_number)
        self.end = b"S" + number(session_number + 1)
        self.meta = self.prefix + b"m"
        self.entries, self.entries_end = self.prefix + b"e", self.prefix + b"f"
        self.states, self.states_end = self.prefix + b"s", self.prefix + b"t"
        self.lookups = self.prefix + b"k"

    def entry(self, seq: int) -> bytes:
        return self.entries + number(seq)

    def state(self, seq: int) -> bytes:
        return self.states + number(seq)

    def lookup(self, key: str) -> bytes:
        """What stands before the seqs of a key's carriers."""
        data = blob(key)
        return self.lookups + number(len(data)) + data


def carried(row: Row) -> Iterator[tuple[str, bytes]]:
    """Each key that the row carries, once, with what stands in the index for it."""
    if row.unique is not None:
        yield row.unique, b"1"
    for key in {*row.keys} - {row.unique}:
        yield key, b""


def packed(row: Row) -> bytes:
    unique = None if row.unique is None else blob(row.unique)
    keys = [*map(blob, row.keys)]
    return msgspec.msgpack.encode((blob(row.kind), row.generation, row.size, row.salt, row.body, row.inner, row.digest, unique, keys))


def unpacked(session: str, seq: int, data: bytes) -> Row:
    """Raises `Corrupt` at `seq` for what `packed` cannot have written."""
    kind, generation, size, salt, body, inner, digest, unique, keys = _decoded(_ROW, session, seq, data, "damaged row")
    taken = None if unique is None else text(unique, session, seq)
    carried = tuple(text(key, session, seq) for key in keys)
    return Row(seq, text(kind, session, seq), generation, size, salt, body, inner, digest, taken, carried)


def packed_meta(session: str, standing: Standing, latched: str | None) -> bytes:
    return msgspec.msgpack.encode((blob(session), standing.head, standing.dropped, None if latched is None else blob(latched)))


def unpacked_meta(data: bytes) -> tuple[str, Standing, str | None]:
    name, head, dropped, latched = _decoded(_META, "", 0, data, "damaged session")
    session = text(name)
    return session, Standing(head, tuple(dropped)), None if latched is None else text(latched, session)


def _decoded(decoder: msgspec.msgpack.Decoder[Any], session: str, seq: int, data: bytes, what: str) -> Any:
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as e:
        raise Corrupt(session, seq, "the fields of a row or session", f"{e}: {data[:40]!r}", what) from e
