"""Where a story's store lies: in memory or in a SQLite file. It can be opened by several processes, copied, and damaged."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import apsw

from lineal.engines import Engine, Row
from lineal.engines.memory import MemoryEngine
from lineal.engines.sqlite import SqliteEngine
from lineal.engines.sqlite_rows import SEQ_BITS

_EDIT = "UPDATE entries SET kind = ?, generation = ?, size = ?, inner = ?, digest = ?, salt = ?, body = ? WHERE id = ?"


class Place(Protocol):
    """What a story needs of the ground below the engine. Own engines bring their own."""

    name: str

    def open(self) -> Engine:
        """The store, as one more process would open it."""

    def copy(self) -> Place:
        """The same store a second time. Nobody writes meanwhile."""

    def edit(self, session: str, seq: int, row: Row | None) -> None:
        """Put these fields in the place of the row at `seq`, or (None) take the row away, behind lineal's back. Nobody has it open."""


class _Lasting(MemoryEngine):
    """A memory engine that outlives its closing, as a file does."""

    def close(self) -> None:
        return


class InMemory:
    name = "memory"

    def __init__(self, engine: MemoryEngine | None = None):
        self._engine = engine or _Lasting()

    def open(self) -> Engine:
        return self._engine

    def copy(self) -> InMemory:
        other = _Lasting()
        other._logs = copy.deepcopy(self._engine._logs)
        return InMemory(other)

    def edit(self, session: str, seq: int, row: Row | None) -> None:
        log = self._engine._logs[session]
        if row is None:
            log.drop(seq)
        else:
            log.rows[seq] = replace(row, seq=seq)


class InFile:
    name = "sqlite"

    def __init__(self, path: Path):
        self.path = path
        self._copies = 0

    def open(self) -> Engine:
        return SqliteEngine.open(str(self.path))

    def copy(self) -> InFile:
        self._copies += 1
        other = self.path.with_name(f"{self.path.stem}-{self._copies}.db")
        with closing(apsw.Connection(str(self.path))) as here, closing(apsw.Connection(str(other))) as there:
            with there.backup("main", here, "main") as backup:
                backup.step()
            there.pragma("journal_mode", "wal")
        return InFile(other)

    def edit(self, session: str, seq: int, row: Row | None) -> None:
        with closing(apsw.Connection(str(self.path))) as db:
            number = next(iter(db.execute("SELECT id FROM sessions WHERE name = ?", (session.encode(),))))[0]
            at = int(str(number)) << SEQ_BITS | seq
            if row is None:
                db.execute("DELETE FROM entries WHERE id = ?", (at,)).fetchall()
            else:
                fields = (row.kind.encode(), row.generation, row.size, row.inner, row.digest, row.salt, row.body, at)
                db.execute(_EDIT, fields).fetchall()


PlaceMaker = Callable[[], Place]
