"""Bytes -> whole JSON objects and damage, line by line. Nothing is skipped in silence, nothing is guessed.

A log is damaged in few ways, and a whole record beside the damage is still good:

| the line holds | comes out |
|---|---|
| one whole object | it |
| two whole objects | both, and damage `two records on one line` |
| a torn object, then a whole one | the whole one; the torn bytes as damage |
| a whole object, then torn bytes or NULs | the whole one; the rest as damage |
| anything else | damage, with its bytes |

A whole object behind torn bytes must end where the line ends, and must have what only a record of the format has at its
top: an object *inside* a torn record does not pass for one.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from lineal import codec
from lineal.errors import Unavailable
from lineal.transcripts.records import Damage, Tally

MAX_LINE = 64 * 1024 * 1024
KEPT_OF_LONG_LINE = 64 * 1024
MAX_STARTS = 2_000
MAX_WORK = 16  # times the length of a torn line that is read over in search of whole records in it
_BLANK = " \t\r\n"
_START = re.compile(r"\{\s*\"")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")


@dataclass(frozen=True)
class Found:
    """A whole object: its line (from 1), its place in that line (from 0), the byte where it begins, its bytes."""

    line: int
    place: int
    offset: int
    value: dict[str, Any]
    raw: bytes

    def damage(self, why: str) -> Damage:
        return Damage(self.line, why, self.raw, self.offset)


IsRecord = Callable[[dict[str, Any]], bool]
Span = tuple[int, int, dict[str, Any]]  # where an object begins and ends in the text of its line, and the object


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def decode(data: bytes) -> str:
    """Text of any bytes; what is not UTF-8 becomes marks that `whole` refuses and `encode` turns back."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def whole(text: str, at: int) -> tuple[Any, int]:
    """The JSON value that begins at `at`, and where it ends. Raises `ValueError` saying why there is none."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except RecursionError as e:
        raise ValueError("nested too deeply") from e
    except json.JSONDecodeError as e:
        raise Torn(f"{e.msg} at character {e.pos - at}", e.pos) from e
    if _NOT_UTF8.search(text, at, end):
        raise Torn("not UTF-8", end)
    if text.count("[", at, end) + text.count("{", at, end) > codec.ENTRY_DEPTH and codec.deeper_than(codec.ENTRY_DEPTH, value):
        raise Torn("nested too deeply", end)
    return value, end


class Torn(ValueError):
    """No whole value; `at` says how far it was read."""

    def __init__(self, why: str, at: int):
        super().__init__(why)
        self.at = at


def opened(path: Path) -> BinaryIO:
    """The file, open for reading. Raises `Unavailable` for what is missing, no file (a directory, a pipe), or not readable."""
    asked = f"cannot read the transcript {str(path)!r}"
    try:
        # Not waiting for a pipe's other end: a transcript is read more than once, and a pipe cannot be.
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    except (OSError, ValueError) as e:  # a text that no path can be is a ValueError
        raise Unavailable(asked, e, "name a readable file") from e
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise Unavailable(asked, "it is no file", "save it to a file first")
    return file


def scan(path: Path, is_record: IsRecord, tally: Tally) -> Iterator[Found | Damage]:
    """Every whole object of the file in order, and every damage. Memory: one line of at most `MAX_LINE` bytes."""
    offset = 0
    with opened(path) as file:
        for line, (raw, size) in enumerate(_lines(path, file), 1):
            if size > len(raw):
                yield Damage(line, f"line of {size} bytes, longer than {MAX_LINE}: only its first {len(raw)} bytes are here", raw, offset)
            else:
                bom = 3 if line == 1 and raw.startswith(b"\xef\xbb\xbf") else 0
                yield from split(raw[bom:], line, offset + bom, is_record, tally)
            offset += size
    if offset == 0:
        yield Damage(1, "empty file", b"", 0)


def _lines(path: Path, file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Each line and its true size; of a line over `MAX_LINE` only the beginning is kept."""
    try:
        while raw := file.readline(MAX_LINE):
            size, chunk = len(raw), raw
            while len(chunk) == MAX_LINE and not chunk.endswith(b"\n"):
                chunk = file.readline(MAX_LINE)
                size += len(chunk)
            yield (raw if size == len(raw) else raw[:KEPT_OF_LONG_LINE]), size
    except OSError as e:
        raise Unavailable(f"cannot read on in the transcript {str(path)!r}", e, "check the disk, then read again") from e


def split(raw: bytes, line: int, offset: int, is_record: IsRecord, tally: Tally) -> Iterator[Found | Damage]:
    """The whole objects of one line, then its damage. `offset` is where the line begins in the file."""
    text = decode(raw)
    start, end = _trim(text, 0, len(text))
    if start == end:
        tally["blank line"] += 1
        return
    head, at = _heads(text, start, end)
    tail, torn_end = _tails(text, at, end, is_record)
    found = [*head, *tail]
    counted, passed = 0, offset  # character `counted` of the line stands at byte `passed` of the file
    for place, (begin, stop, value) in enumerate(found):
        counted, passed = begin, passed + len(encode(text[counted:begin]))
        piece = Found(line, place, passed, value, encode(text[begin:stop]))
        if is_record(value):
            yield piece
        else:
            yield piece.damage(f"no record of this format: an object with the keys {', '.join(sorted(value)[:8]) or 'none'}")
    if text[at:torn_end].strip(_BLANK):
        bad = encode(text[at:torn_end])
        last = not tail and not raw.endswith(b"\n")
        yield Damage(line, _why(text, at, torn_end, bad, last), bad, offset + len(encode(text[:at])))
    elif len(found) > 1:
        number = {2: "two", 3: "three"}.get(len(found), str(len(found)))
        yield Damage(line, f"{number} records on one line", raw, offset)


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start] in _BLANK:
        start += 1
    while end > start and text[end - 1] in _BLANK:
        end -= 1
    return start, end


def _heads(text: str, at: int, end: int) -> tuple[list[Span], int]:
    """Whole objects one after another from `at`, and where they stop."""
    found: list[Span] = []
    while at < end:
        try:
            value, after = whole(text, at)
        except ValueError:
            break
        if not isinstance(value, dict):
            break
        found.append((at, after, value))
        at = _trim(text, after, end)[0]
    return found, at


def _tails(text: str, at: int, end: int, is_record: IsRecord) -> tuple[list[Span], int]:
    """Whole records that end the line behind torn bytes, first to last, and where the torn bytes end."""
    found: list[Span] = []
    torn_end = len(text.rstrip("\r\n"))
    if at >= end or text[end - 1] != "}":
        return found, torn_end
    starts = deque((m.start() for m in _START.finditer(text, at, end)), MAX_STARTS)
    work = MAX_WORK * len(text)
    while starts and text[end - 1] == "}" and work > 0:
        start = starts.pop()
        if start >= end:
            continue
        try:
            value, after = whole(text, start)
        except Torn as e:
            work -= e.at - start
            continue
        except ValueError:
            continue
        work -= after - start
        if after == end and is_record(value):
            found.append((start, after, value))
            torn_end, end = start, _trim(text, at, start)[1]
    return found[::-1], torn_end


def _why(text: str, at: int, end: int, bad: bytes, last: bool) -> str:
    if not bad.strip(b"\0 \t\r\n"):
        return f"NUL run of {bad.count(0)} bytes"
    try:
        value, after = whole(text, at)
    except ValueError as e:
        if str(e) == "not UTF-8" or _NOT_UTF8.search(text, at, end):
            return "not UTF-8"
        return f"torn tail: {e}" if last else f"torn line: {e}"
    if _trim(text, after, end)[0] < end:
        return "torn line: text that is no object"
    return f"not an object, but {type(value).__name__}"
