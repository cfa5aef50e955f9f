"""An SQLite file of somebody else, as it stands: not one byte of it, or beside it, is changed, also while its owner writes.

Every read goes to a copy in a directory of its own, for as long as it is read. How the copy is made:

| beside the file | the copy is |
|---|---|
| nothing, and it is not in WAL mode | a backup through a connection that only reads: SQLite's own lock keeps a writer out meanwhile |
| a -wal file, or the mode is WAL | bytes: the file, then the -wal, until no writer began the -wal anew meanwhile. Never the -shm |
| a -journal | bytes of both, until neither changed meanwhile; SQLite rolls the copy back |

A page that a checkpoint rewrites while the file is copied stands in the -wal, which is copied behind it: it wins.

A damaged file is read as far as it goes. What is wrong comes out as `Damage`: a cut file, a page that is none, rows that
cannot be reached (by their rowids), a -wal whose committed frames cannot be followed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from lineal.errors import Unavailable
from lineal.transcripts import lines
from lineal.transcripts.records import NOWHERE, Damage

MAGIC = b"SQLite format 3\0"
TRIES, NAP = 200, 0.01  # of a copy that a writer spoils, and seconds between them
PATIENCE_MS = 5_000
SHOWN = 20  # problems that the check of a damaged file names
PROBED = 2_000  # rowids in a row that are asked for in vain behind an unreadable page, where the last one is not known
FARTHEST = 1_000_000
_WAL_HEADER, _FRAME_HEADER = 32, 24

Row = tuple[int, tuple[Any, ...]]


def is_sqlite(path: Path) -> bool:
    """Raises `Unavailable` for a file that cannot be read."""
    with lines.opened(path) as file:
        return file.read(len(MAGIC)) == MAGIC


@dataclass
class Snapshot:
    """A copy that is open: `damage` is what was found of the file as a whole, and of rows asked for since."""

    connection: apsw.Connection
    damage: list[Damage] = field(default_factory=list)

    def columns(self) -> dict[str, list[str]]:
        """The tables, and the columns of each; what of the schema cannot be read is damage."""
        found: dict[str, list[str]] = {}
        try:
            names = [str(name) for (name,) in self.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid")]
            for name in names:
                found[name] = [str(row[0]) for row in self.connection.execute("SELECT name FROM pragma_table_info(?)", (name,))]
        except (apsw.Error, UnicodeDecodeError) as e:
            self._damaged(f"the schema cannot be read: {e}")
        return found

    def rows(self, table: str, columns: Sequence[str]) -> list[Row]:
        """(rowid, values) of every row that can be reached, by rowid. Texts are bytes: they may be no UTF-8."""
        found: list[Row] = []
        try:
            for row in self.connection.execute(f"{_select(table, columns)} ORDER BY rowid"):
                found.append((int(row[0]), tuple(row[1:])))
        except apsw.Error as e:
            self._probe(table, columns, found, e)
        return found

    def row(self, table: str, columns: Sequence[str], rowid: int) -> tuple[Any, ...]:
        """One row's values. Raises `ValueError` saying why it cannot be read."""
        try:
            found = self.connection.execute(f"{_select(table, columns)} WHERE rowid = ?", (rowid,)).fetchone()
        except apsw.Error as e:
            raise ValueError(f"the row cannot be read: {e}") from e
        if found is None:
            raise ValueError("the row is gone")
        return tuple(found[1:])

    def _probe(self, table: str, columns: Sequence[str], found: list[Row], error: apsw.Error) -> None:
        """Behind the first page that cannot be read: each rowid for itself."""
        first = rowid = found[-1][0] + 1 if found else 1
        last = self._last(table)
        lost: list[tuple[int, int]] = []
        missed = 0
        while rowid <= last if last is not None else missed < PROBED:
            try:
                row = self.connection.execute(f"{_select(table, columns)} WHERE rowid = ?", (rowid,)).fetchone()
                missed = 0 if row is not None else missed + 1
                found += [] if row is None else [(rowid, tuple(row[1:]))]
            except apsw.Error:
                missed += 1
                lost = [*lost[:-1], (lost[-1][0], rowid)] if lost and lost[-1][1] == rowid - 1 else [*lost, (rowid, rowid)]
            rowid += 1
        for begin, end in lost or [(first, rowid)]:
            which = f"{begin} and on" if last is None and end == rowid - 1 else f"{begin} to {end}"
            self._damaged(f"rows {which} of the table {table} cannot be read: {error}")

    def _last(self, table: str) -> int | None:
        """The last rowid; None where that cannot be read, or nobody would ask for each one up to it."""
        for way in (f"SELECT max(rowid) FROM {_name(table)}", f"SELECT seq FROM sqlite_sequence WHERE name = {_quoted(table)}"):
            try:
                row = self.connection.execute(way).fetchone()
            except apsw.Error:
                continue
            if row and isinstance(row[0], int) and row[0] < FARTHEST:
                return row[0]
        return None

    def _damaged(self, why: str, raw: bytes = b"", offset: int = NOWHERE) -> None:
        self.damage.append(Damage(0, why, raw, offset))


def _name(table: str) -> str:
    return '"' + table.replace('"', '""') + '"'


def _quoted(table: str) -> str:
    return "'" + table.replace("'", "''") + "'"


def _select(table: str, columns: Sequence[str]) -> str:
    """NOT INDEXED: an index may be damaged where the table is whole."""
    asked = "".join(f", {column}" for column in columns)
    return f"SELECT rowid{asked} FROM {_name(table)} NOT INDEXED"


def text(column: str) -> str:
    """A column of text as bytes, whatever was stored in it."""
    return f"CAST({_name(column)} AS BLOB)"


@contextmanager
def snapshot(path: Path, check: bool = True) -> Iterator[Snapshot]:
    """The file at `path` in a consistent state of its own, open; with `check` every page of it was looked at.

    Needs as much room for temporary files as the file is large. Raises `Unavailable` where it cannot be read or copied.
    """
    source = _resolved(path)
    with tempfile.TemporaryDirectory(prefix="lineal-audit-") as folder:
        copy = Path(folder) / "copy.db"
        try:
            _copy(source, copy)
        except OSError as e:
            raise Unavailable(f"cannot copy {str(path)!r} to read it", e, "free space for temporary files, or check who may read it") from e
        with closing(_opened(copy, path)) as connection:
            found = Snapshot(connection)
            _look(found, copy, check)
            yield found


def _resolved(path: Path) -> Path:
    try:
        return path.resolve(strict=True)
    except (OSError, ValueError, RuntimeError) as e:
        raise Unavailable(f"cannot read the transcript {str(path)!r}", e, "name a readable file") from e


def _opened(copy: Path, path: Path) -> apsw.Connection:
    try:
        connection = apsw.Connection(str(copy))
        # A file that is shorter than its header says is refused without it; only the copy is asked.
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
    except apsw.Error as e:
        raise Unavailable(f"cannot open a copy of {str(path)!r}", e, "check the disk for temporary files") from e
    return connection


# --- the copy --------------------------------------------------------------------------------------------------------


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _copy(source: Path, copy: Path) -> None:
    with open(source, "rb") as file:
        wal = file.read(20)[18:20] == b"\2\2" or _beside(source, "-wal").exists()
    if not wal and not _beside(source, "-journal").exists() and _backed_up(source, copy):
        return
    for _ in range(TRIES):
        before = _marks(source, wal)
        for end in ("", "-wal" if wal else "-journal"):
            _beside(copy, end).unlink(missing_ok=True)
            try:
                shutil.copyfile(_beside(source, end), _beside(copy, end))
            except FileNotFoundError:
                if not end:
                    raise
                _beside(copy, end).unlink(missing_ok=True)  # there is none, or its writer has just ended: then the marks tell
        if _marks(source, wal) == before:
            return
        time.sleep(NAP)
    raise OSError(f"another process wrote it anew {TRIES} times while it was copied")


def _backed_up(source: Path, copy: Path) -> bool:
    """False where SQLite cannot do it: the file is damaged, or a writer holds it."""
    try:
        with (
            closing(apsw.Connection(source.as_uri() + "?mode=ro", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)) as reader,
            closing(apsw.Connection(str(copy))) as writer,
        ):
            reader.set_busy_timeout(PATIENCE_MS)
            with writer.backup("main", reader, "main") as backup:
                backup.step()
    except apsw.Error:
        copy.unlink(missing_ok=True)
        return False
    return True


def _marks(source: Path, wal: bool) -> tuple[Any, ...]:
    """What changes when a writer did something that spoils a copy."""
    if wal:
        try:
            with open(_beside(source, "-wal"), "rb") as file:
                head = file.read(_WAL_HEADER)
        except FileNotFoundError:
            head = b""
        if head:
            return ("wal", head)
    return tuple(_mark(_beside(source, end)) for end in ("", "-journal"))


def _mark(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_size, found.st_mtime_ns


# --- what is wrong with it -------------------------------------------------------------------------------------------


def _look(found: Snapshot, copy: Path, check: bool) -> None:
    wal = _beside(copy, "-wal")
    frames = wal.read_bytes() if wal.exists() else b""
    try:
        read = found.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone() if frames else None
        if read and isinstance(read[1], int):
            _behind(found, frames, read[1])
    except apsw.Error as e:
        found.damage.append(Damage(0, f"the write-ahead log cannot be followed: {e}", b"", NOWHERE))
    _cut(found, copy)
    if check:
        try:
            problems = [str(row[0]) for row in found.connection.execute(f"PRAGMA integrity_check({SHOWN})")]
        except (apsw.Error, UnicodeDecodeError) as e:
            problems = [f"the check of the file stopped: {e}"]
        said = [line for problem in problems if problem != "ok" for line in problem.splitlines()]
        found.damage += [
            Damage(0, f"a damaged file: {line.removeprefix('*** in database main ***').strip()}", b"", NOWHERE) for line in said
        ]


def _cut(found: Snapshot, copy: Path) -> None:
    """A file with fewer pages than its header counts, or with a part of one."""
    with open(copy, "rb") as file:
        head = file.read(100)
    size = copy.stat().st_size
    page = int.from_bytes(head[16:18], "big")
    page = 65_536 if page == 1 else page
    pages = int.from_bytes(head[28:32], "big")
    counted = head[24:28] == head[92:96]  # else an old writer did not keep the count
    if page >= 512 and counted and size < page * pages:
        why = f"torn tail: the file is cut at byte {size:,}; its header counts {pages:,} pages of {page:,} bytes, {page * pages:,} in all"
        found.damage.append(Damage(0, why, b"", NOWHERE))


def _behind(found: Snapshot, wal: bytes, read: int) -> None:
    """Commits in the write-ahead log that stand behind a frame which cannot be followed: SQLite drops them without a word."""
    size = int.from_bytes(wal[8:12], "big") + _FRAME_HEADER
    salts = wal[16:24]
    if size <= _FRAME_HEADER:
        return
    commits = []
    for number, at in enumerate(range(_WAL_HEADER, len(wal) - _FRAME_HEADER + 1, size), 1):
        if wal[at + 8 : at + 16] != salts:
            break
        if number > read and wal[at + 4 : at + 8] != bytes(4) and at + size <= len(wal):
            commits.append(number)
    if commits:
        at = _WAL_HEADER + read * size
        why = (
            f"the write-ahead log breaks behind frame {read:,} at its byte {at:,}: {len(commits)} committed transactions behind it are lost"
        )
        found.damage.append(Damage(0, why, b"", NOWHERE))
