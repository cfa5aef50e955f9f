"""Entry <-> bytes: one canonical form, a digest chained to the entry before, a format version from day one.

    body      = canonical JSON of the entry, with "v" (format version) and "kind" first
    inner(n)  = H(salt(n), body(n))
    digest(n) = H(digest(n-1), header(n), inner(n))        digest(0) = H("lineal", session name)
    header(n) = seq, kind, generation, size of the body, unique key, lookup keys

A segment's body is that JSON, a newline (which canonical JSON never holds), and a compressed frame.

The chain runs over digests, not over bytes, so that a purge can drop salt and body while the chain still verifies;
without the random salt nobody can confirm a guess of what stood there. The header is in the chain, so that a changed
column is as visible as a changed body.

JSON is written without ASCII escapes and encoded with `surrogatepass`: a lone surrogate, two of them side by side,
NUL and a literal backslash-u0000 all come back as they went in (R7). Keys of a message keep the order they were given.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from lineal.engines import Row
from lineal.entries import (
    ENTRY_TYPES,
    CheckpointTaken,
    CompactionCommitted,
    EffectAttached,
    EffectIntended,
    EffectResolved,
    EffectSettled,
    Entry,
    Forked,
    HostRecord,
    PackAborted,
    PackCommitted,
    PruneBegun,
    PurgeBegun,
    RolledBack,
    Segment,
    TurnAppended,
    Unknown,
)
from lineal.errors import Corrupt, PolicyError, Unavailable, Verdict, quoted

FORMAT = 1
SALT_BYTES = 16
INT_BITS = 14_000  # a longer whole number has more digits than Python agrees to read
DEPTH = 200  # levels of nesting that a message may have
ENTRY_DEPTH = DEPTH + 50  # what an entry may have: a message, inside a stand-in, inside a purge
TYPES: dict[str, type[Entry]] = {str(t.__struct_config__.tag): t for t in ENTRY_TYPES}


def to_json(value: Any) -> bytes:
    """Canonical bytes of a JSON value. Raises `ValueError` for what JSON cannot hold."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "surrogatepass")


def from_json(data: bytes) -> Any:
    """The value in canonical bytes. Raises `ValueError` for what is no JSON: NaN and infinities too, which Python would read."""
    try:
        return _DECODER.decode(data.decode("utf-8", "surrogatepass"))
    except RecursionError as e:
        raise ValueError("it is nested too deeply") from e


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number that JSON can hold")


def _finite(digits: str) -> float:
    value = float(digits)
    return value if math.isfinite(value) else _no_number(digits)


_DECODER = json.JSONDecoder(parse_constant=_no_number, parse_float=_finite)


def deeper_than(levels: int, value: Any) -> bool:
    """Whether lists and objects stand in each other in `value` more than `levels` deep. Never recurses."""
    here = [value]
    for _ in range(levels):
        here = [c for v in here for c in (v.values() if isinstance(v, dict) else v if isinstance(v, list) else ())]
    return any(isinstance(v, dict | list) for v in here)


def sorted_json(value: Any) -> bytes:
    """Canonical bytes with sorted keys: for digests of what has no order of its own (a tool's arguments)."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=repr)
    return text.encode("utf-8", "surrogatepass")


def digest(*parts: bytes) -> bytes:
    """32 bytes over the parts; their borders are part of what is hashed."""
    h = hashlib.blake2b(digest_size=32)
    for part in parts:
        h.update(len(part).to_bytes(8, "big"))
        h.update(part)
    return h.digest()


def arguments_digest(arguments: Any) -> str:
    """32 hex digits over a tool's canonical arguments: equal for equal arguments in any key order."""
    return digest(sorted_json(arguments)).hex()[:32]


def refuse_unless_json(value: Any, where: str = "message") -> None:
    """Raise `PolicyError` naming the first place that JSON could not give back exactly (R7)."""
    stack = [(value, where, 0)]
    while stack:
        item, place, depth = stack.pop()
        if item is None or isinstance(item, str | bool):
            continue
        if isinstance(item, int):
            if item.bit_length() > INT_BITS:
                raise _not_json(place, f"is a number of {item.bit_length():,} bits, the most that reads back is {INT_BITS:,}")
            continue
        if isinstance(item, float) and item - item == 0:
            continue
        if depth >= DEPTH:
            raise _not_json(place, f"is nested deeper than {DEPTH} levels")
        if isinstance(item, dict):
            for key, child in item.items():
                if not isinstance(key, str):
                    raise _not_json(place, f"has the key {quoted(key)}, which is not a string")
                stack.append((child, f"{place}[{key!r}]", depth + 1))
        elif isinstance(item, list):
            stack.extend((child, f"{place}[{i}]", depth + 1) for i, child in enumerate(item))
        else:
            raise _not_json(place, f"is {quoted(item, 60)} of type {type(item).__name__}, which JSON cannot give back exactly")


def _not_json(place: str, why: str) -> PolicyError:
    return PolicyError(
        Verdict("append", "not_json", message=f"{place} {why}.", remedy="pass plain dict, list, str, int, finite float, bool or None")
    )


def encode(entry: Entry) -> bytes:
    """The entry's bytes. Raises `PolicyError` for a field that `decode` would refuse: nothing unreadable is ever written."""
    if isinstance(entry, Unknown):
        return entry.raw
    try:
        fields = msgspec.to_builtins(entry, enc_hook=_plain)
        if not isinstance(entry, TurnAppended):  # a turn's fields were checked one by one when it was given
            msgspec.convert(fields, type(entry))
    except (msgspec.ValidationError, ValueError, TypeError, RecursionError) as e:  # a choice that is not even UTF-8 is a ValueError
        raise PolicyError(
            Verdict("append", "not_an_entry", message=f"{kind_of(entry)}: {e}.", remedy="correct the argument that is named")
        ) from e
    body = to_json({"v": FORMAT, "kind": fields.pop("kind"), **{name: value for name, value in fields.items() if name != "packed"}})
    return body + b"\n" + entry.packed if isinstance(entry, Segment) else body


def _plain(value: Any) -> Any:
    """A text or number of a class of its own, as frameworks hand them around, is written as the text or number that it is."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise TypeError(f"{quoted(value, 60)} of type {type(value).__name__} cannot be written")


def decode(data: bytes, session: str = "", seq: int = 0) -> Entry:
    """The entry in `data`. Raises `Corrupt` for bytes that are no entry, `Unavailable` for a newer format or an unknown kind."""
    whole, data = data, head(data)
    try:
        fields = from_json(data)
        version, kind = fields.pop("v"), fields["kind"]
        if data.count(b"[") + data.count(b"{") > ENTRY_DEPTH and deeper_than(ENTRY_DEPTH, fields):
            raise ValueError(f"it is nested deeper than {ENTRY_DEPTH} levels")
        if not isinstance(kind, str):
            raise TypeError(f"its kind is {quoted(kind, 60)}")
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise Corrupt(session, seq, "an entry", f"bytes that are none ({e})", "unreadable entry") from e
    if kind.startswith("x."):
        return Unknown(name=kind, raw=data)
    if type(version) is not int or version != FORMAT or kind not in TYPES:
        raise Unavailable(
            f"session {session!r}, seq {seq}: entry of kind {kind!r}, format {version}",
            f"this version reads format {FORMAT}",
            "upgrade lineal; the entry was left as it is",
        )
    entry = _converted(fields, session, seq)
    return msgspec.structs.replace(entry, packed=whole[len(data) + 1 :]) if isinstance(entry, Segment) else entry


def head(data: bytes) -> bytes:
    """The JSON of an entry's bytes: all of them, but for a segment, whose frame stands behind a newline."""
    return data.partition(b"\n")[0] if _SEGMENT.match(data) else data


_SEGMENT = re.compile(rb'\{"v":\d+,"kind":"segment"[,}]')  # of any version: what this one cannot read it must know by name


def _converted(fields: Any, session: str, seq: int) -> Entry:
    try:
        entry = msgspec.convert(fields, TYPES[fields["kind"]])
        if isinstance(entry, TurnAppended) and not isinstance(entry.message, dict | None):
            raise TypeError(f"its message is of type {type(entry.message).__name__}")
        return entry
    except (msgspec.ValidationError, ValueError, TypeError, KeyError) as e:  # a choice that is not even UTF-8 is a ValueError
        raise Corrupt(session, seq, "an entry with the fields of its kind", f"{type(e).__name__}: {e}", "unreadable entry") from e


def read(row: Row, session: str) -> Entry:
    """The entry of a row that has its content; never believed unless its bytes are those of its digest. Raises as `decode` does."""
    refuse_unless_sound(row, session)
    entry = decode(row.body, session, row.seq)
    if kind_of(entry) != row.kind:
        raise Corrupt(session, row.seq, f"an entry of kind {row.kind}", f"one of kind {kind_of(entry)}", "misfit")
    return entry


def refuse_unless_sound(row: Row, session: str) -> None:
    """Raise `Corrupt` unless the row's content is that of its digest."""
    if digest(row.salt, row.body) != row.inner:
        what = "truncated" if len(row.body) < row.size else "altered"
        expected = f"{row.size} bytes of digest {row.inner.hex()[:16]}"
        raise Corrupt(session, row.seq, expected, f"{len(row.body)} others", what)


def stand_ins(found: dict[str, Any], session: str, seq: int) -> dict[int, Entry]:
    """The entries that an entry at `seq` declares in place of erased ones, by their seq. Raises `Corrupt`."""
    try:
        return {int(place): _converted(fields, session, seq) for place, fields in found.items()}
    except ValueError as e:
        raise Corrupt(session, seq, "stand-ins by seq", str(e), "unreadable entry") from e


def kind_of(entry: Entry) -> str:
    """The name under which an entry stands in a row."""
    return entry.name if isinstance(entry, Unknown) else str(entry.__struct_config__.tag)


# --- rows ------------------------------------------------------------------------------------------------------------


def keys_of(entry: Entry, branch: int) -> tuple[str | None, tuple[str, ...]]:
    """(unique key, lookup keys). `branch` counts the rollbacks before: a turn left behind may be said again."""
    match entry:
        case TurnAppended():
            # On the first branch the unique key is the lookup key, too: an id that stands four times in a row costs more than its text.
            return (f"turn@{branch}:{entry.id}", (f"turn:{entry.id}",)) if branch else (f"turn:{entry.id}", ())
        case EffectIntended():
            return f"intent:{entry.key}:{entry.attempt}", (f"effect:{entry.key}", lookalike_key(entry.tool, entry.arguments))
        case EffectSettled() | EffectResolved() | EffectAttached():
            return None, (f"effect:{entry.key}",)
        case CheckpointTaken():
            return f"checkpoint:{entry.id}", ("checkpoint",)
        case CompactionCommitted():
            return f"request:{entry.request_id}", ("compaction", f"generation:{entry.generation}")
        case RolledBack():
            return None, ("rollback",)
        case Forked():
            return None, ("purge",)
        case PruneBegun():
            return None, ("prune",)
        case PurgeBegun():
            return None, ("purge",)
        case Segment():
            return None, tuple(segment_key(seq) for seq, _ in entry.runs[:1])
        case PackCommitted() | PackAborted():
            return None, ("pack",)
        case HostRecord():
            group = host_group(entry.space, entry.group)
            return None, (group, host_key(entry.space, entry.group, entry.key)) if entry.key else (group,)
        case _:
            return None, ()


def host_group(space: str, group: str) -> str:
    return f"hosts:{len(space)}:{space}:{group}"


def host_key(space: str, group: str, key: str) -> str:
    return f"host:{len(space)}:{len(group)}:{space}:{group}:{key}"


BLOCK_BITS = 10  # rows whose content is in one segment have seqs of one block of 1,024


def segment_key(seq: int) -> str:
    """Under which the segments of a row's block are found."""
    return f"segment:{seq >> BLOCK_BITS}"


def lookalike_key(tool: str, arguments: str) -> str:
    return f"call:{tool}:{arguments}"


def seed(session: str) -> bytes:
    """digest(0) of a session's chain: a row of another session cannot link to it."""
    return digest(b"lineal", session.encode("utf-8", "surrogatepass"))


def seal(before: bytes, seq: int, generation: int, entry: Entry, salt: bytes, branch: int) -> Row:
    """The row of `entry` at `seq`, chained to the digest `before`."""
    body = encode(entry)
    kind = kind_of(entry)
    unique, keys = keys_of(entry, branch)
    inner = digest(salt, body)
    return Row(
        seq,
        kind,
        generation,
        len(body),
        salt,
        body,
        inner,
        link(before, seq, kind, generation, len(body), unique, keys, inner),
        unique,
        keys,
    )


def link(before: bytes, seq: int, kind: str, generation: int, size: int, unique: str | None, keys: Sequence[str], inner: bytes) -> bytes:
    header = to_json([seq, kind, generation, size, unique, list(keys)])
    return digest(before, header, inner)


PRUNED = "pruned"  # kind of the row that a fork has where its parent's entry was pruned: a place in the chain, no content


def relink(rows: Iterable[Row], before: bytes, head: int) -> list[Row]:
    """The rows of 1..`head` chained to another beginning (a fork's copy): bodies, salts and inner digests stay.

    Where an entry was pruned stands an empty row, so that the copy's chain has no hole of its own.
    """
    out: list[Row] = []
    for r in _filled(rows, head):
        chained = link(before, r.seq, r.kind, r.generation, r.size, r.unique, r.keys, r.inner)
        out.append(Row(r.seq, r.kind, r.generation, r.size, r.salt, r.body, r.inner, chained, r.unique, r.keys))
        before = chained
    return out


def _filled(rows: Iterable[Row], head: int) -> Iterator[Row]:
    expected = 1
    for row in rows:
        yield from (_nothing(seq) for seq in range(expected, row.seq))
        yield row
        expected = row.seq + 1
    yield from (_nothing(seq) for seq in range(expected, head + 1))


def _nothing(seq: int) -> Row:
    return Row(seq, PRUNED, 0, 0, b"", b"", digest(b"", b""), b"")
