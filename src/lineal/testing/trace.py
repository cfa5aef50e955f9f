"""What a disk was asked to do, in order, and what of it is left when the machine stops. Pure: bytes in, bytes out.

A story is played once on a disk that keeps its trace; each place where it could have been cut off is then an *image*: files
by name, made from the trace without playing anything again.

| stopped by | what is left |
|---|---|
| the end of the process | every write so far; of the last one a part, in whole sectors |
| the end of power | what was synced; of everything else any part, sector by sector, in any order (see `Replay.after_cut`) |

A disk keeps 512-byte sectors whole. A file's sync makes its bytes and its size durable; a name (created, renamed, deleted) is
durable after a sync of the folder.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

SECTOR = 512
Kind = Literal["write", "truncate", "sync", "sync folder", "create", "delete", "rename", "told"]
Image = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Op:
    """One thing the disk was asked to do. `at`: where a write begins, or the size that a truncate leaves.

    `told` is no work of the disk: it stands in the trace where something was acknowledged to the caller.
    """

    kind: Kind
    name: str = ""
    at: int = 0
    data: bytes = b""
    to: str = ""

    def __str__(self) -> str:
        size = f" {len(self.data)} bytes at {self.at}" if self.kind == "write" else f" to {self.at}" if self.kind == "truncate" else ""
        return f"{self.kind} {self.name}{size}"


@dataclass
class Trace:
    """`base`: the files that stood there before the first operation."""

    base: Image = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)

    def add(self, kind: Kind, name: str = "", at: int = 0, data: bytes = b"", to: str = "") -> None:
        self.ops.append(Op(kind, name, at, data, to))

    def told(self, before: int) -> list[str]:
        """What was acknowledged before operation `before` (counted from 0)."""
        return [op.name for op in self.ops[:before] if op.kind == "told"]

    def replays(self, first: int, end: int, lying: bool = False) -> Iterator[tuple[int, Op, Replay]]:
        """Operations `first` to `end - 1`, each with the disk as it was just before it."""
        replay = Replay(self.base, lying)
        for n, op in enumerate(self.ops[:end]):
            if n >= first:
                yield n, op, replay
            replay.carry_out(op)

    def after(self, count: int | None = None, lying: bool = False) -> Replay:
        """The disk after the first `count` operations (None: after all)."""
        replay = Replay(self.base, lying)
        for op in self.ops[:count]:
            replay.carry_out(op)
        return replay


class _File:
    """A file's bytes as programs read them, as they are on the platter, and what lies between the two, in order."""

    def __init__(self, content: bytes = b""):
        self.cached = bytearray(content)
        self.durable = content
        self.pending: list[Op] = []

    def carry_out(self, op: Op) -> None:
        _apply(self.cached, op)
        self.pending.append(op)

    def sync(self) -> None:
        self.durable, self.pending = bytes(self.cached), []

    def survived(self, chance: random.Random, luck: float) -> bytes:
        content = bytearray(self.durable)
        for op in self.pending:
            if op.kind == "truncate":
                if chance.random() < luck:
                    _apply(content, op)
                continue
            for piece in _sectors(op):
                if chance.random() < luck:
                    _apply(content, piece)
        if chance.random() < 0.5 and len(content) < len(self.cached):
            content.extend(bytes(len(self.cached) - len(content)))  # the size came through, the bytes did not
        return bytes(content)


def _apply(content: bytearray, op: Op) -> None:
    end = op.at if op.kind == "truncate" else op.at + len(op.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if op.kind == "truncate":
        del content[op.at :]
    else:
        content[op.at : end] = op.data


def _sectors(op: Op) -> Iterator[Op]:
    """The write cut at the edges of sectors."""
    at, end = op.at, op.at + len(op.data)
    while at < end:
        edge = min(end, (at // SECTOR + 1) * SECTOR)
        yield Op("write", op.name, at, op.data[at - op.at : edge - op.at])
        at = edge


class Replay:
    """A disk that carries a trace out in memory. `lying`: a sync of a file is acknowledged and not carried out."""

    def __init__(self, base: Image, lying: bool = False):
        self.names: dict[str, _File | None] = {name: _File(content) for name, content in base.items()}
        self.durable_names = dict(self.names)
        self.changed_names: list[tuple[str, _File | None]] = []
        self.lying = lying

    def carry_out(self, op: Op) -> None:
        if op.kind in ("write", "truncate"):
            self._file(op.name).carry_out(op)
        elif op.kind == "sync" and not self.lying:
            self._file(op.name).sync()
        elif op.kind == "sync folder":
            self.durable_names, self.changed_names = dict(self.names), []
        elif op.kind == "create":
            self._rename(op.name, _File())
        elif op.kind == "delete":
            self._rename(op.name, None)
        elif op.kind == "rename":
            self._rename(op.to, self._file(op.name))
            self._rename(op.name, None)

    def _file(self, name: str) -> _File:
        found = self.names.get(name)
        assert found is not None, f"the trace works on {name}, which is not there"
        return found

    def _rename(self, name: str, file: _File | None) -> None:
        self.names[name] = file
        self.changed_names.append((name, file))

    def after_end(self, within: Op | None = None, part: float = 0.0) -> Image:
        """What the end of the process leaves. `within`: a write of which only `part` (0 to 1) came through, in whole sectors."""
        image = {name: bytes(file.cached) for name, file in self.names.items() if file is not None}
        if within is not None and within.kind == "write":
            content = bytearray(image[within.name])
            some = within.data if part >= 1 else within.data[: int(len(within.data) * part) // SECTOR * SECTOR]
            if some:
                _apply(content, Op("write", within.name, within.at, some))
            image[within.name] = bytes(content)
        return image

    def after_cut(self, seed: int | str) -> Image:
        """What the end of power leaves, one of many: the same `seed` gives the same image.

        Of the bytes that no sync covers each sector came through or not, for itself; so did each truncate, and the size. Of
        the changes of a name that no sync of the folder covers, the first few came through. How much luck there was is drawn
        once a cut, so that all and nothing come up too.
        """
        chance = random.Random(seed)
        luck = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        names = dict(self.durable_names)
        for name in dict.fromkeys(name for name, _ in self.changed_names):
            changes = [file for changed, file in self.changed_names if changed == name]
            came = chance.randint(0, len(changes))
            if came:
                names[name] = changes[came - 1]
        return {name: file.survived(chance, luck) for name, file in names.items() if file is not None}


def put(image: Image, folder: Path) -> None:
    """Write the files of an image into `folder`, and nothing else may be left in it: what stood there before is removed."""
    for old in folder.iterdir():
        old.unlink()
    for name, content in image.items():
        (folder / name).write_bytes(content)


def fingerprint(image: Image) -> bytes:
    """Equal for equal images."""
    made = hashlib.blake2b(digest_size=16)
    for name in sorted(image):
        made.update(f"{name}\0{len(image[name])}\0".encode(errors="surrogateescape"))
        made.update(image[name])
    return made.digest()


def base_name(path: str | os.PathLike[str]) -> str:
    return os.path.basename(os.fspath(path))
