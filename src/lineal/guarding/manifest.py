"""The manifest file: what a foreign table held, as ids, digests and generations in the order of the ids.

    file   = MAGIC, frame, frame ...
    frame  = kind (1 byte), length (4 bytes), payload, check (32 bytes);  check(n) = H(check(n-1), kind, payload)

| kind | payload | how often |
|---|---|---|
| `H` | header, JSON: what was asked for, and the columns that were read | once, first |
| `B` | block: up to 4,096 records, each id, digest, generation and size | any number |
| `F` | footer, JSON: count, state hash, records of each generation, what the engine said | once, last |

Blocks are synced as they are written. A file that ends before its footer is a `take` that was cut off: it is never read as
whole. The chain of checks shows a frame that was changed, left out or moved; a state hash kept elsewhere shows a file that
was replaced.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any

from lineal.codec import digest, sorted_json
from lineal.errors import Corrupt, Refused, Unavailable, Verdict
from lineal.guarding.encoding import Record
from lineal.guarding.sorting import all_unpacked, packed
from lineal.guarding.sources import stands

FORMAT = 1
MAGIC = b"lineal guard manifest\n"
BLOCK_RECORDS = 4_096
FRAME_MAX = 1 << 30
_SEED = digest(b"lineal guard")
_HEAD, _CHECK = 5, 32


class ForeignDamage(Corrupt):
    """Foreign records, or a manifest of them, cannot be read as they were written. Nothing was concluded from a part."""

    def __init__(self, what: str, expected: object, found: object, remedy: str):
        self.session, self.seq, self.expected, self.found, self.what = "", 0, expected, found, what
        RuntimeError.__init__(self, f"{what}: expected {expected}, found {found}. Way out: {remedy}")


class StateHash:
    """The state hash, record by record: root(n) = H(root(n-1), id, digest). Generations are counted apart, not hashed."""

    def __init__(self) -> None:
        self.root = _SEED
        self.count = 0
        self.generations: Counter[int] = Counter()

    def add(self, record: Record) -> None:
        self.root = digest(self.root, record.id, record.digest)
        self.count += 1
        self.generations[record.generation] += 1

    @property
    def told(self) -> dict[str, Any]:
        """As it stands in a footer."""
        return {"count": self.count, "state_hash": self.root.hex(), "generations": {str(g): n for g, n in sorted(self.generations.items())}}


# --- reading ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Manifest:
    """A whole manifest: `header` says what was asked, `footer` what was found. `records` streams the file anew."""

    path: Path
    header: dict[str, Any]
    footer: dict[str, Any]

    @property
    def state_hash(self) -> str:
        return str(self.footer["state_hash"])

    @property
    def count(self) -> int:
        return int(self.footer["count"])

    @property
    def generations(self) -> dict[int, int]:
        """Records by generation: the record's `per_generation_record_manifest`, counted."""
        return {int(g): n for g, n in self.footer["generations"].items()}

    def records(self) -> Iterator[Record]:
        """Every record in the order of ids. Raises `ForeignDamage`, `Unavailable`."""
        with _file(self.path) as file:
            for kind, payload, _ in _frames(file, self.path):
                if kind == b"B":
                    yield from _block(payload, self.path)


def opened(path: str | os.PathLike[str]) -> Manifest:
    """The manifest at `path`; every frame of it was checked.

    Raises `Unavailable` for a file that cannot be read, `ForeignDamage` for a damaged one or one that is no manifest,
    `Refused` for one that a `take` did not finish.
    """
    place = Path(path)
    header: dict[str, Any] = {}
    footer: dict[str, Any] = {}
    with _file(place) as file:
        for kind, payload, _ in _frames(file, place):
            if kind == b"H":
                header = _header(payload, place)
            elif kind == b"F":
                footer = _object(payload, place, "count", "state_hash", "generations", "position", "taken", "running", "notes")
        end = file.tell()
        if footer and end != os.fstat(file.fileno()).st_size:
            raise ForeignDamage(f"manifest {str(path)!r}", f"its end at byte {end:,}", "more behind it", _AGAIN)
    if not footer:
        message = f"manifest {str(path)!r} is not complete: it has no footer, so the `take` that wrote it was cut off."
        raise Refused(Verdict("guard", "incomplete", message=message, remedy="run the same `lineal guard take` again: it goes on"))
    return Manifest(place, header, footer)


def begun(path: Path) -> dict[str, Any]:
    """The header of a manifest that is whole or not; empty where there is none yet. Raises as `opened` does."""
    if not stands(path):
        return {}
    with _file(path) as file:
        if MAGIC.startswith(file.read(len(MAGIC) - 1)) and os.fstat(file.fileno()).st_size < len(MAGIC):
            return {}
        file.seek(0)
        first = next(_frames(file, path), None)
        return _header(first[1], path) if first else {}


_AGAIN = "take a new manifest of a state that is known to be good"


def _header(payload: bytes, path: Path) -> dict[str, Any]:
    header = _object(payload, path)
    if header.get("format") != FORMAT:
        cause = f"it has format {header.get('format')!r}, this version reads {FORMAT}"
        raise Unavailable(f"manifest {str(path)!r}", cause, "upgrade lineal; the file was left as it is")
    return _object(payload, path, "store", "table", "ids", "columns", "generation", "where", "prefix", "place", "sorted")


def _object(payload: bytes, path: Path, *keys: str) -> dict[str, Any]:
    """A header or footer. Raises `ForeignDamage` for one that no `take` wrote."""
    try:
        found = json.loads(payload)
        missing = [key for key in keys if key not in found]
    except (ValueError, TypeError) as e:
        raise ForeignDamage(f"manifest {str(path)!r}", "a header or footer", str(e), _AGAIN) from e
    if missing or not isinstance(found, dict):
        raise ForeignDamage(f"manifest {str(path)!r}", "a header or footer", f"none that has {', '.join(missing)}", _AGAIN)
    return found


def _block(payload: bytes, path: Path) -> Iterator[Record]:
    try:
        yield from all_unpacked(payload)
    except ValueError as e:
        raise ForeignDamage(f"manifest {str(path)!r}", "records", str(e), _AGAIN) from e


def _file(path: Path) -> IO[bytes]:
    try:
        return open(path, "rb")
    except (OSError, ValueError) as e:
        raise Unavailable(f"manifest {str(path)!r}", e, "name a manifest that `lineal guard take` wrote") from e


def _frames(file: IO[bytes], path: Path) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(kind, payload, check) of each whole frame, checked. A torn last frame ends them; anything else wrong is damage."""
    try:
        if file.read(len(MAGIC)) != MAGIC:
            raise ForeignDamage(f"{str(path)!r}", "a manifest", "another file", "name a manifest that `lineal guard take` wrote")
        check, place = _SEED, len(MAGIC)
        while len(head := file.read(_HEAD)) == _HEAD:
            length = int.from_bytes(head[1:], "big")
            if head[:1] not in (b"H", b"B", b"F") or length > FRAME_MAX:
                raise ForeignDamage(f"manifest {str(path)!r}, byte {place:,}", "a frame", head.hex(), _AGAIN)
            payload, stored = file.read(length), file.read(_CHECK)
            if len(payload) < length or len(stored) < _CHECK:
                file.seek(place)
                return
            check = digest(check, head[:1], payload)
            if stored != check:
                raise ForeignDamage(f"manifest {str(path)!r}, byte {place:,}", f"check {check.hex()[:16]}", stored.hex()[:16], _AGAIN)
            yield head[:1], payload, check
            place = file.tell()
            if head[:1] == b"F":
                return
        file.seek(place)
    except OSError as e:
        raise Unavailable(f"manifest {str(path)!r}", e, "check the disk that it lies on") from e


# --- writing ---------------------------------------------------------------------------------------------------------


@dataclass
class Writer:
    """Writes a manifest; goes on with one that was cut off.

    Nobody can continue a snapshot that is gone. So the part that is there is computed again from the snapshot of now, and
    compared, before anything is added: a manifest is always of one state, whoever was killed on the way.
    """

    path: Path
    header: dict[str, Any]
    hash: StateHash = field(default_factory=StateHash)
    resumed: int = 0  # records that stood in the file already, and were the same

    def __enter__(self) -> Writer:
        try:
            self.file: IO[bytes] = open(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            self.file.close()
            raise Unavailable(f"manifest {str(self.path)!r}", "another process is writing it", "wait for it, or name another file") from e
        except (OSError, ValueError) as e:
            raise Unavailable(f"manifest {str(self.path)!r}", e, "name a place that can be written") from e
        self.block: list[bytes] = []
        self.check = _SEED
        try:
            self._begin()
        except BaseException:
            self.file.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if not self.blocks:
            self.path.unlink(missing_ok=True)
        self.file.close()

    def _begin(self) -> None:
        """A file without a block, whatever it was to be of, is begun anew: nothing is lost with it."""
        start = self.file.read(len(MAGIC))
        self.file.seek(0)
        self.standing: Iterator[tuple[bytes, bytes, bytes]] | None = None
        self.blocks = 0
        if not MAGIC.startswith(start[: len(MAGIC)]) and start:
            raise ForeignDamage(f"{str(self.path)!r}", "a manifest or no file", "another file", "name another file")
        if len(start) == len(MAGIC):
            standing = _frames(self.file, self.path)
            first, second = next(standing, None), next(standing, None)
            if first is not None and second is not None:
                if first[1] != sorted_json(self.header):
                    raise _exists(self.path, "of something else that was asked for")
                self.standing, self.check, self.blocks = chain((second,), standing), first[2], 1
                return
        self.file.seek(0)
        self.file.truncate()
        self.file.write(MAGIC)
        self._frame(b"H", sorted_json(self.header))
        self._synced()
        _sync_folder(self.path)

    def add(self, record: Record) -> None:
        """The next record, in the order of ids."""
        self.hash.add(record)
        self.block.append(packed(record))
        if len(self.block) == BLOCK_RECORDS:
            self._close_block()

    def finish(self, said: dict[str, Any]) -> dict[str, Any]:
        """Write the footer: from now on the manifest is whole. `said` is what the engine said of itself."""
        if self.block:
            self._close_block()
        if self.standing is not None:
            after = next(self.standing, None)
            if after is not None:
                raise _exists(self.path, "complete") if after[0] == b"F" else self._other_state()
            self._go_on()
        footer = self.hash.told | said
        self._frame(b"F", sorted_json(footer))
        self._synced()
        return footer

    def _close_block(self) -> None:
        payload, count = b"".join(self.block), len(self.block)
        self.block = []
        if self.standing is not None:
            after = next(self.standing, None)
            if after is not None:
                if after[0] == b"F":
                    raise _exists(self.path, "complete")
                if after[1] != payload:
                    raise self._other_state()
                self.resumed += count
                self.check = after[2]
                return
            self._go_on()
        self._frame(b"B", payload)
        self._synced()

    def _go_on(self) -> None:
        """The standing part is compared: what follows it (a torn frame) goes, new frames follow."""
        self.standing = None
        self.file.seek(self.file.tell())
        self.file.truncate()

    def _frame(self, kind: bytes, payload: bytes) -> None:
        self.blocks += kind != b"H"
        self.check = digest(self.check, kind, payload)
        try:
            self.file.write(b"".join((kind, len(payload).to_bytes(4, "big"), payload, self.check)))
        except OSError as e:
            raise self._unwritten(e) from e

    def _synced(self) -> None:
        try:
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as e:
            raise self._unwritten(e) from e

    def _unwritten(self, cause: OSError) -> Unavailable:
        return Unavailable(f"manifest {str(self.path)!r}", cause, "make room, then run the same command again: it goes on")

    def _other_state(self) -> Refused:
        message = (
            f"manifest {str(self.path)!r} was begun over another state: of the part that was written before, at most the first "
            f"{self.resumed:,} records are still what they were."
        )
        return Refused(Verdict("guard", "changed_meanwhile", message=message, remedy="remove the file and take a new manifest"))


def refuse_if_complete(path: Path) -> None:
    """Raise `Refused` where a whole manifest stands already, before anything long is begun."""
    try:
        if path.stat().st_size < len(MAGIC):
            return
        opened(path)
    except (OSError, ValueError, Refused):  # where none can be, the writer says so
        return
    raise _exists(path, "complete")


def _exists(path: Path, what: str) -> Refused:
    message = f"a manifest {what} stands in {str(path)!r} already."
    return Refused(Verdict("guard", "exists", message=message, remedy="name another file, or check against this one"))


def _sync_folder(path: Path) -> None:
    folder = os.open(path.absolute().parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
