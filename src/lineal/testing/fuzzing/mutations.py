"""Inputs that nobody would write: bytes and JSON values, changed or made up, all from one `random.Random`.

The same seed gives the same input on every machine and in every process; nothing here keeps any state of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Mutation = Callable[[bytes, Random], bytes]

# Pieces that parsers trip over: borders of JSON, of UTF-8, of numbers, of lines.
TOKENS: tuple[bytes, ...] = (
    b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\n", b"\r\n", b"\0", b"\xff", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xef\xbb\xbf",
    b"null", b"true", b"NaN", b"-Infinity", b"1e999", b"-0", b"0.1", b"9" * 20, b"9" * 5_000, b'"\\ud800"', b'"\\u0000"', b"{}", b"[]",
    b'{"a":', b'"v":2,', b'"kind":[],', b"[" * 300, b'{"a":' * 300, b"[" * 2_000 + b"]" * 2_000, b"\x1f\x8b\x08", b"SQLite format 3\0",
)  # fmt: skip
STRINGS: tuple[str, ...] = (
    "", " ", "a", "user", "assistant", "tool", "system", "text", "message", "\0", "\ud800", "\udc00\ud83d", "\u202e", "😀", "\\u0000", "\n",
    "\x1b[31m", "@1",
    "g1", "t:u1", "x.", "__proto__", "data:image/png;base64,", "2026-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59", "9" * 5_000,
)  # fmt: skip
NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2**31, 2**63, -(2**64), 10**400, -(10**400), 10**4_200, 10**5_000, 1.5, -0.0, 1e-320, 1e308,
   float("inf"), float("-inf"), float("nan"), True, False,
)  # fmt: skip
DEEPEST = 1_500  # levels of nesting in an odd value: more than any reader follows


# --- bytes -------------------------------------------------------------------------------------------------------------


def _flip(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _set(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + rng.randbytes(1) + data[at + 1 :]


def _cut(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _remove(data: bytes, rng: Random) -> bytes:
    first, last = _span(data, rng)
    return data[:first] + data[last:]


def _again(data: bytes, rng: Random) -> bytes:
    first, last = _span(data, rng)
    return data[:last] + data[first:last] * rng.choice((1, 1, 3)) + data[last:]


def _swap(data: bytes, rng: Random) -> bytes:
    (a, b), (c, d) = sorted((_span(data, rng), _span(data, rng)))
    return data if c < b else data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _insert(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(TOKENS) + data[at:]


def _blank(data: bytes, rng: Random) -> bytes:
    first, last = _span(data, rng)
    return data[:first] + bytes(last - first) + data[last:]


def _noise(data: bytes, rng: Random) -> bytes:
    first, last = _span(data, rng)
    return data[:first] + rng.randbytes(last - first) + data[last:]


def _span(data: bytes, rng: Random) -> tuple[int, int]:
    first = rng.randrange(len(data))
    return first, min(len(data), first + rng.choice((1, 2, 4, 16, 64, 512, 4096, len(data))))


MUTATIONS: dict[str, Mutation] = {
    "flip": _flip, "set": _set, "cut": _cut, "remove": _remove, "again": _again, "swap": _swap,
    "insert": _insert, "blank": _blank, "noise": _noise,
}  # fmt: skip


def mutated(data: bytes, rng: Random, most: int = 4) -> bytes:
    """`data` after one to `most` changes, at places and of kinds that `rng` chooses."""
    for _ in range(rng.randint(1, most)):
        if data:
            data = MUTATIONS[rng.choice([*MUTATIONS])](data, rng)
    return data


# --- JSON --------------------------------------------------------------------------------------------------------------


def odd(rng: Random) -> Any:
    """A value that is seldom where anybody expects it. Not all of them are JSON: infinities and NaN are among them."""
    match rng.randrange(12):
        case 0 | 1:
            return None
        case 2 | 3:
            return rng.choice(NUMBERS)
        case 4 | 5 | 6:
            return rng.choice(STRINGS)
        case 7:
            return [odd(rng) for _ in range(rng.randrange(4))]
        case 8:
            return {rng.choice(STRINGS): odd(rng) for _ in range(rng.randrange(4))}
        case 9:
            return [[rng.choice(STRINGS), odd(rng)]]
        case 10:
            return nested(rng.choice((3, 190, 199, 200, 201, 400, 900, 990, DEEPEST)), rng)
        case _:
            return rng.choice(STRINGS) * rng.choice((1, 1, 500))


def nested(depth: int, rng: Random) -> Any:
    """A value of `depth` levels: lists, or objects, or both in turn."""
    held: Any = rng.choice(STRINGS)
    for n in range(depth):
        held = [held] if rng.randrange(2) or n % 50 == 0 else {"a": held}
    return held


def changed(value: Any, rng: Random, rate: float = 0.08) -> Any:
    """A copy of a JSON value in which some places hold something odd, are gone, renamed, doubled, or changed places."""
    if rng.random() < rate:
        return odd(rng)
    if isinstance(value, dict):
        items = [(name, changed(held, rng, rate)) for name, held in value.items() if rng.random() >= rate / 2]
        if items and rng.random() < rate:
            items.append((rng.choice([*value, *STRINGS]), rng.choice(items)[1]))
        if rng.random() < rate:
            rng.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        held = [changed(item, rng, rate) for item in value if rng.random() >= rate / 2]
        if held and rng.random() < rate:
            held.insert(rng.randrange(len(held) + 1), rng.choice(held))
        if rng.random() < rate:
            rng.shuffle(held)
        return held
    return value


def as_bytes(value: Any) -> bytes:
    """The value as JSON bytes, also where it is none (infinities, NaN) or nested too deeply for Python's own encoder."""
    out: list[str] = []
    work: list[Any] = [value]
    while work:
        item = work.pop()
        if isinstance(item, _Text):
            out.append(item.text)
        elif isinstance(item, dict):
            inside = [part for name, held in item.items() for part in (_Text(f"{_scalar(str(name))}:"), held, _Text(","))]
            work += reversed([_Text("{"), *inside[:-1], _Text("}")])
        elif isinstance(item, list | tuple):
            inside = [part for held in item for part in (held, _Text(","))]
            work += reversed([_Text("["), *inside[:-1], _Text("]")])
        else:
            out.append(_scalar(item))
    return "".join(out).encode("utf-8", "surrogatepass")


class _Text:
    def __init__(self, text: str):
        self.text = text


def _scalar(item: Any) -> str:
    if isinstance(item, int) and not isinstance(item, bool):
        return digits_of(item)
    return json.dumps(item, ensure_ascii=not isinstance(item, str) or len(item) % 2 == 0)


def digits_of(number: int) -> str:
    """Decimal digits of a number of any size: Python refuses to write very long ones."""
    try:
        return str(number)
    except ValueError:
        return "9" * (number.bit_length() * 3 // 10)


def lines_of(values: Sequence[Any], rng: Random) -> bytes:
    """JSON lines with the ends of lines, marks and gaps that files really have."""
    end = rng.choice((b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"", b" ", b"\0\0\n"))
    head = rng.choice((b"", b"", b"", b"\xef\xbb\xbf", b"\n", b"\xff\xfe"))
    return head + end.join(as_bytes(value) for value in values) + rng.choice((end, b""))
