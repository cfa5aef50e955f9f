"""One canonical form for foreign ids and contents: ids as bytes that sort as the ids do, contents as a digest.

| value | in an id | in a content |
|---|---|---|
| NULL | below everything | `n`, never the same as an empty text |
| whole number (64 bits) | by value | `i` and its digits |
| text | by code point | `t` and UTF-8 |
| bytes | by byte, above all texts | `b` and the bytes |
| anything else | above all bytes, by kind and text | its kind and an exact text or parts of it |

Two values of different kinds never have one form: the number 1, the text "1" and the byte 0x31 are three contents.
Pure: the readers bring the values.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from typing import Any, NamedTuple
from uuid import UUID

from lineal.codec import digest

_NULL, _NUMBER, _TEXT, _BYTES, _OTHER = b"\x05", b"\x10", b"\x20", b"\x30", b"\x40"
_BIAS = 1 << 63
_PLAIN = (Decimal, UUID, IPv4Address, IPv6Address)  # `str` of these is exact
_TIMES = (datetime, date, time)


class Record(NamedTuple):
    """What the guard knows of one foreign record. `size` is the length of its canonical content in bytes."""

    id: bytes
    digest: bytes
    generation: int
    size: int


# --- ids -------------------------------------------------------------------------------------------------------------


def id_bytes(values: Iterable[Any]) -> bytes:
    """The id of these column values as bytes: two ids compare as their bytes do, column by column."""
    return b"".join([_sortable(value) for value in values])


def _sortable(value: Any) -> bytes:
    if value is None:
        return _NULL
    if type(value) is int and -_BIAS <= value < _BIAS:
        return _NUMBER + (value + _BIAS).to_bytes(8, "big")
    if isinstance(value, str):
        return _TEXT + _closed(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, bytes | bytearray | memoryview):
        return _BYTES + _closed(bytes(value))
    return _OTHER + _closed(cell(value))


def _closed(data: bytes) -> bytes:
    """With an end mark that sorts below any byte that could follow, so that "a" stands before "ab"."""
    return data.replace(b"\0", b"\0\xff") + b"\0\0"


def id_values(data: bytes) -> tuple[Any, ...]:
    """The column values of an id, for people; a value of the last kind as the text of its form. Raises `ValueError`."""
    found: list[Any] = []
    at = 0
    while at < len(data):
        mark, at = data[at : at + 1], at + 1
        if mark == _NULL:
            found.append(None)
        elif mark == _NUMBER and at + 8 <= len(data):
            found.append(int.from_bytes(data[at : at + 8], "big") - _BIAS)
            at += 8
        elif mark in (_TEXT, _BYTES, _OTHER):
            raw, at = _opened(data, at)
            found.append(
                raw.decode("utf-8", "surrogatepass") if mark == _TEXT else raw if mark == _BYTES else raw[1:].decode("utf-8", "replace")
            )
        else:
            raise ValueError(f"no id: byte {at - 1} is {mark.hex() or 'missing'}")
    return tuple(found)


def _opened(data: bytes, at: int) -> tuple[bytes, int]:
    end = at
    while (end := data.find(b"\0", end)) >= 0:
        if data[end + 1 : end + 2] == b"\0":
            return data[at:end].replace(b"\0\xff", b"\0"), end + 2
        end += 2
    raise ValueError("no id: a text or bytes without an end")


def shown(data: bytes) -> Any:
    """An id as a report names it: its one value, or the list of them; bytes as the text that they are, else as 0x..."""
    values = [_readable(value) for value in id_values(data)]
    return values[0] if len(values) == 1 else values


def _readable(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
    return text if text.isprintable() else f"0x{value.hex()}"


# --- contents --------------------------------------------------------------------------------------------------------


def content(values: Iterable[Any]) -> tuple[bytes, int]:
    """(digest, size) of column values in their order. Raises `TypeError` for a value that has no exact form."""
    cells = [cell(value) for value in values]
    return digest(*cells), sum(map(len, cells))


def cell(value: Any) -> bytes:
    """The canonical form of one value."""
    if value is None:
        return b"n"
    if isinstance(value, str):
        return b"t" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, bytes | bytearray | memoryview):
        return b"b" + bytes(value)
    if isinstance(value, bool):
        return b"?1" if value else b"?0"
    if isinstance(value, int):
        return b"i" + str(value).encode()
    if isinstance(value, float):
        return b"f" + struct.pack(">d", value)
    return _other(value)


def _other(value: Any) -> bytes:
    name = type(value).__name__
    if isinstance(value, _PLAIN):
        return f"v{name}:{value}".encode()
    if isinstance(value, _TIMES):
        return f"v{name}:{value.isoformat()}".encode()
    if isinstance(value, timedelta):
        return f"v{name}:{value.days},{value.seconds},{value.microseconds}".encode()
    if isinstance(value, set | frozenset):
        return b"s" + _parts(sorted(cell(v) for v in value))
    if isinstance(value, Mapping):
        return b"m" + _parts(sorted(_parts((cell(k), cell(v))) for k, v in value.items()))
    if isinstance(value, Sequence):
        return b"l" + _parts(cell(v) for v in value)
    if isinstance(fields := getattr(value, "fields", None), Mapping):  # a user-defined type of CQL
        return b"u" + _parts(_parts((cell(k), cell(v))) for k, v in fields.items())
    if all(hasattr(value, part) for part in ("months", "days", "nanos")):  # a duration of CQL
        return f"v{name}:{value.months},{value.days},{value.nanos}".encode()
    raise TypeError(f"a value of type {name} has no exact form")


def _parts(cells: Iterable[bytes]) -> bytes:
    return b"".join(len(c).to_bytes(8, "big") + c for c in cells)
