"""What the guard asks of a foreign store: records as of one moment, and what the engine says of its own maintenance.

| a source | promises |
|---|---|
| `records` | every record of what was asked for, as of one moment; a read that cannot be finished raises, it never just ends |
| `in_order` | whether these come in the order of their ids' bytes; if not, the guard sorts |
| `isolated` | whether the engine itself holds the moment still while maintenance runs |
| `facts` | where the engine stands, which maintenance runs, what is wrong beside the records; may be asked at any time |

Not a byte of a foreign store is changed. The one thing that is left beside one: the -wal and -shm files that SQLite itself makes for
any reader of a file in WAL mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

from lineal.engines import scheme_of
from lineal.errors import PolicyError, Unavailable, Verdict
from lineal.guarding.encoding import Record


@dataclass(frozen=True)
class Asked:
    """What was asked for. `ids`: columns that name a record (none: the primary key). `where`: SQL of the caller's own."""

    table: str | None = None
    prefix: str | None = None
    ids: tuple[str, ...] = ()
    generation: str | None = None
    where: str | None = None

    def refuse(self, store: str, *names: str) -> None:
        """Raise `PolicyError` if one of these was asked of a store that has no such thing."""
        for name in names:
            if getattr(self, name):
                flag = {"ids": "id"}.get(name, name)
                raise usage("not_for_this_store", f"--{flag} means nothing for {store}.", f"leave --{flag} out")


@dataclass(frozen=True)
class Shape:
    """What will be read, as it stands in a manifest's header. `columns`: (name, type) of what is in the digest."""

    store: str
    place: str
    table: str
    ids: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    generation: str | None = None
    where: str | None = None
    prefix: str | None = None

    @property
    def told(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "store": self.store,
            "place": self.place,
            "table": self.table,
            "ids": [*self.ids],
            "columns": [[*column] for column in self.columns],
            "generation": self.generation,
            "where": self.where,
            "prefix": self.prefix,
        }


@dataclass(frozen=True)
class Facts:
    """`position`: where the engine stands on its own sequence. `running`: maintenance that has not ended. `notes`: what is worth
    saying. `damage`: what is wrong with the store's own files."""

    position: int = 0
    running: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    damage: tuple[str, ...] = field(default=())


class Source(Protocol):
    """One foreign table, keyspace or key prefix, open for reading. The table above says what it owes."""

    shape: Shape
    in_order: bool
    isolated: bool

    def records(self) -> Iterator[Record]: ...

    def facts(self) -> Facts: ...


class Busy(Exception):
    """The engine's own maintenance keeps every reader out: there is no moment that could be read."""

    def __init__(self, facts: Facts, shape: Shape):
        super().__init__("; ".join(facts.running))
        self.facts, self.shape = facts, shape


EXTRAS = {
    "postgresql": ("postgres", "postgres"),
    "postgres": ("postgres", "postgres"),
    "rocksdb": ("rocksdb", "rocksdb"),
    "cassandra": ("cassandra", "cassandra"),
}


def open_source(source: Any, asked: Asked) -> AbstractContextManager[Source]:
    """The store that a URL, a path, or an open `rocksdict.Rdict` names.

    Raises `PolicyError` for what cannot be meant, `Unavailable` where the store or its library is missing.
    """
    if not isinstance(source, str | Path):
        from lineal.guarding import rocksdb

        return rocksdb.in_process(source, asked)
    scheme = scheme_of(str(source))
    if scheme == "sqlite":
        from lineal.guarding import sqlite

        return sqlite.source(str(source), asked)
    if scheme not in EXTRAS:
        known = ", ".join(["a SQLite file", *(f"{name}://" for name in EXTRAS)])
        raise usage("unknown_store", f"{scheme!r} is no store that the guard can read; it reads {known}.", "name one of these")
    module, extra = EXTRAS[scheme]
    try:
        reader = import_module(f"lineal.guarding.{module}")
    except ModuleNotFoundError as missing:
        raise Unavailable(f"the guard of {scheme}:", f"{missing.name} is not installed", f"pip install 'lineal[{extra}]'") from missing
    found: AbstractContextManager[Source] = reader.source(str(source), asked)
    return found


def folder_of(url: str) -> tuple[Path, str]:
    """(folder, query) of `scheme:PATH`, `scheme:///relative` or `scheme:////absolute`. Raises `Unavailable` if there is none.

    Three slashes before a path that is there only when read as absolute mean that one.
    """
    try:
        parts = urlsplit(url)
    except ValueError as e:
        raise Unavailable(f"store {url!r}", e, "name the folder of a store") from e
    name = unquote(parts.netloc + parts.path)
    if url.partition(":")[2].startswith("//") and not parts.netloc:
        name = name.removeprefix("/")
        if not stands(Path(name), folder=True) and stands(Path(f"/{name}"), folder=True):
            name = f"/{name}"
    if not name or not stands(Path(name), folder=True):
        raise Unavailable(f"store {url!r}", f"there is no folder {name!r}", "name the folder of a store")
    return Path(name), parts.query


def stands(path: Path, folder: bool = False) -> bool:
    """Whether there is such a file or folder; a name that no file can have names none."""
    try:
        return path.is_dir() if folder else path.is_file()
    except OSError:
        return False


def shown_url(url: str) -> str:
    """The address without a password."""
    try:
        parts = urlsplit(url)
        user = f"{parts.username}@" if parts.username else ""
        return urlunsplit((parts.scheme, user + parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except ValueError:
        return f"{scheme_of(url)}:..."


def usage(reason: str, message: str, remedy: str) -> PolicyError:
    """A call that cannot be meant."""
    return PolicyError(Verdict("guard", reason, message=message, remedy=remedy))


def chosen_table(place: str, tables: list[str], table: str | None) -> str:
    """The table that is meant: the one named, or the only one. Raises `PolicyError` naming those that are there."""
    listed = ", ".join(tables[:12]) + (", ..." if len(tables) > 12 else "") or "none"
    if table is None and len(tables) == 1:
        return tables[0]
    if table is None:
        raise usage("no_table", f"{place} holds {len(tables)} tables: {listed}.", "name one with --table")
    if table not in tables:
        raise usage("no_such_table", f"{place} holds no table {table!r}; it holds {listed}.", "name one of these with --table")
    return table


def chosen_columns(
    table: str, columns: dict[str, str], key: tuple[str, ...], asked: Asked
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """(id columns, content columns with types): all that neither name a record nor are its
    generation, by name, so that their order in the table does not matter. Raises `PolicyError`."""
    ids = asked.ids or key
    if not ids:
        message = f"table {table!r} has no primary key: nothing names a record."
        raise usage("no_id", message, f"name the columns that do with --id; it has {', '.join(columns)}")
    unknown = [name for name in (*ids, *filter(None, [asked.generation])) if name not in columns]
    if unknown:
        raise usage("no_such_column", f"table {table!r} has no column {unknown[0]!r}; it has {', '.join(columns)}.", "name one of these")
    return ids, tuple((name, kind) for name, kind in sorted(columns.items()) if name not in ids and name != asked.generation)


def generation_of(value: Any, column: str | None) -> int:
    """A record's generation. Raises `PolicyError` for anything but a whole number of 64 bits."""
    if type(value) is int and -(1 << 63) <= value < 1 << 63:
        return value
    message = f"column {column!r} holds {value!r}, which is no generation."
    raise usage("no_generation", message, "name a column of whole numbers without NULLs with --generation")
