"""The files under the Cassandra-format engine: which belong to the store, and that each is as it was written.

The library reads a `Data.db` that was cut short as an empty one, without an error, and drops damaged records of its commit
log in silence. So a manifest beside the tables names every file of every table with its size and checksum, and the
commit log is walked before the library may look at it.

| found at open | answer |
|---|---|
| a file of the manifest is gone, shorter, longer or altered | `Corrupt`, with the file and both sizes or checksums |
| the same while a merge was under way, and its outcome stands | the merge had finished: the outcome is checked by its own digest |
| a table that the manifest does not name | a flush or merge that was cut off behind it: checked by its own digest, then named |
| a record of the commit log that is damaged before its end | `Corrupt` |
| a last record that is cut off | an append that was cut off: no rows |
| no manifest, or no commit log, or no folder, where there was one | `Corrupt` |
| a folder that the manifest does not name | left by a rewriting that was cut off: removed |
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import zlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from lineal.engines.held import LOCK, replace_file, sync_directory
from lineal.errors import Corrupt, Unavailable

MANIFEST = "lineal.cassandra"
FORMAT = 1
TABLE = Path("data", "lineal", "log")  # inside a folder: keyspace and table, as Cassandra lays them out
COMMIT_LOG = Path("wal", "commitlog.wal")
_FRAME = struct.Struct("<II")  # bytes that follow, and their CRC-32
_FRAME_BEGINS = struct.pack("<Q", len("lineal")) + b"lineal"  # a record names its keyspace first


@dataclass(frozen=True)
class Manifest:
    """`folder` holds the tables; `files` of it: name to (bytes, CRC-32). `stamp`: no write has a higher timestamp than this."""

    folder: str = "t1"
    stamp: int = 0
    merging: bool = False
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    format: int = FORMAT

    def write(self, root: Path) -> Manifest:
        """Durable on return. Raises `OSError`."""
        said = json.dumps(asdict(self), sort_keys=True).encode()
        replace_file(str(root / MANIFEST), hashlib.sha256(said).hexdigest().encode() + b"\n" + said)
        return self

    def table(self, root: Path) -> Path:
        return root / self.folder / TABLE


def read(root: Path) -> Manifest:
    """Raises `Corrupt`; `Unavailable` for a newer format."""
    digest, _, said = (root / MANIFEST).read_bytes().partition(b"\n")
    if hashlib.sha256(said).hexdigest().encode() != digest:
        raise Corrupt("", 0, f"a manifest of digest {digest[:16]!r} in {root}", f"{len(said)} bytes of another", "altered manifest")
    found = json.loads(said)
    if found["format"] > FORMAT:
        raise Unavailable(f"store {root} of format {found['format']}", f"this version reads format {FORMAT}", "upgrade lineal")
    return Manifest(**{**found, "files": {name: tuple(facts) for name, facts in found["files"].items()}})


def begin(root: Path) -> Manifest:
    """The manifest of a new store. Nothing was ever acknowledged here, so that nothing may stand here but empty folders."""
    left = [path for path in root.rglob("*") if path.is_file() and path.name not in (LOCK, f"{MANIFEST}.new")]
    if left:
        raise Corrupt("", 0, f"the manifest {MANIFEST} beside the files in {root}", f"none, and {left[0]}", "lost file")
    make_folder(root / "t1")
    return Manifest().write(root)


def make_folder(folder: Path) -> None:
    """A folder that the library finds its table in: opened before it is there, the library would read none."""
    (folder / TABLE).mkdir(parents=True, exist_ok=True)
    (folder / "wal").mkdir(exist_ok=True)
    for made in (folder.parent, folder, folder / "data", folder / "data" / "lineal"):
        sync_directory(str(made))


def prove(root: Path, manifest: Manifest) -> Manifest:
    """Hold every file against the manifest, and drop what a rewriting left behind. The manifest as the files really are.

    Raises `Corrupt`.
    """
    for other in root.glob("t*"):
        if other.is_dir() and other.name != manifest.folder:
            shutil.rmtree(other)
    folder, table = root / manifest.folder, manifest.table(root)
    if not table.is_dir():
        raise Corrupt("", 0, f"the tables in {table}", "no folder", "lost file")
    there = {path.name: path for path in table.iterdir() if path.name.startswith("nb-")}
    news = {name: _facts(path) for name, path in there.items() if name not in manifest.files}
    outcome = {_generation(name) for name in news if name.endswith("-TOC.txt")}
    kept: dict[str, tuple[int, int]] = {}
    for name, facts in manifest.files.items():
        found = _facts(there[name]) if name in there else None
        if found == facts:
            kept[name] = facts
        elif found is not None or not (manifest.merging and outcome):
            raise Corrupt("", 0, f"{facts[0]} bytes of CRC-32 {facts[1]:#x} in {table / name}", _told(found), "damaged file")
    for generation in sorted(outcome):
        kept |= _whole(table, generation, news)
    walk_commit_log(folder / COMMIT_LOG, expected=bool(manifest.stamp))
    return replace(manifest, files=kept, merging=manifest.merging)


def _whole(table: Path, generation: str, news: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """The files of a table that the manifest does not know yet, by its own list and digest."""
    parts = [f"{generation}-{part}" for part in (table / f"{generation}-TOC.txt").read_text().split()]
    gone = [part for part in parts if part not in news]
    if gone:
        raise Corrupt("", 0, f"every part that {generation}-TOC.txt names in {table}", f"no {', '.join(gone)}", "lost file")
    told, data = (table / f"{generation}-Digest.crc32").read_text().strip(), news[f"{generation}-Data.db"]
    if told != str(data[1]):
        raise Corrupt("", 0, f"CRC-32 {told} of {table / generation}-Data.db", data[1], "damaged file")
    return {name: facts for name, facts in news.items() if _generation(name) == generation}


def current(root: Path, manifest: Manifest) -> dict[str, tuple[int, int]]:
    """The files of the table as they are now; one that the manifest knows with the same size is not read again."""
    found = {}
    for path in manifest.table(root).iterdir():
        if path.name.startswith("nb-"):
            known = manifest.files.get(path.name)
            found[path.name] = known if known and known[0] == path.stat().st_size else _facts(path)
    return found


def refuse_if_changed(root: Path, manifest: Manifest, session: str) -> None:
    """By size, before each reading. Raises `Corrupt`."""
    table = manifest.table(root)
    for name, (size, _) in manifest.files.items():
        try:
            found = os.stat(table / name).st_size
        except FileNotFoundError:
            raise Corrupt(session, 0, f"{size} bytes in {table / name}", "no file", "lost file") from None
        if found != size:
            raise Corrupt(session, 0, f"{size} bytes in {table / name}", found, "damaged file")


def walk_commit_log(path: Path, expected: bool) -> int:
    """How many records it holds whole. The library would drop a damaged one, and those behind it, in silence. Raises `Corrupt`."""
    if not path.exists():
        if expected:
            raise Corrupt("", 0, f"a commit log at {path}", "no file", "lost file")
        return 0
    data, at, records = path.read_bytes(), 0, 0
    while at < len(data):
        size, crc = _FRAME.unpack_from(data, at) if at + _FRAME.size <= len(data) else (0, 0)
        body = data[at + _FRAME.size : at + _FRAME.size + size]
        if at + _FRAME.size + size > len(data) or not size:
            rest = data[at:]
            if _FRAME_BEGINS in rest[_FRAME.size + 1 :]:  # a length that was altered: whole records lie behind it
                raise Corrupt("", 0, f"a record of {size} bytes at byte {at} of {path}", "one that others follow", "damaged commit log")
            return records
        if zlib.crc32(body) != crc:
            raise Corrupt("", 0, f"CRC-32 {crc:#x} of the record at byte {at} of {path}", f"{zlib.crc32(body):#x}", "damaged commit log")
        at, records = at + _FRAME.size + size, records + 1
    return records


def _generation(name: str) -> str:
    return name.rpartition("-")[0]


def _facts(path: Path) -> tuple[int, int]:
    size = crc = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            size, crc = size + len(chunk), zlib.crc32(chunk, crc)
    return size, crc


def _told(found: tuple[int, int] | None) -> str:
    return "no file" if found is None else f"{found[0]} bytes of CRC-32 {found[1]:#x}"
