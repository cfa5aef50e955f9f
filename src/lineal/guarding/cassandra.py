"""A table in SSTables of Cassandra's format, read from its folder by cqlite: live rows, tombstones applied.

URL: `cassandra:///folder?schema=FILE`, where the folder holds `keyspace/table/` or `keyspace/table-id/`, and FILE the CQL of the
table (if left out: `schema.cql` in the folder or above it). The table is `keyspace.table`.

The format has no snapshot. What is read is the set of SSTables that stood there at the beginning; if it is another at the
end, a compaction ran meanwhile. Partitions come in the order of their tokens, so the guard sorts.

The reader takes a Data.db without bytes for one without rows. So each Data.db is held against its Digest.crc32 first: a
manifest is never taken of a damaged table, and a check says which file is damaged beside the rows that are missing.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import cqlite

from lineal.errors import Unavailable
from lineal.guarding.encoding import Record, content, id_bytes
from lineal.guarding.manifest import ForeignDamage
from lineal.guarding.sources import Asked, Facts, Shape, chosen_columns, chosen_table, folder_of, generation_of, usage

_RESTORE = "restore the SSTable from a replica or a snapshot"
_CHUNK = 1 << 20
_GENERATION = re.compile(r"[a-z]{2}-(?P<generation>\w+)-\w+-(?P<component>[\w.]+)")
_UNFINISHED = re.compile(r".*(tmp|_txn_.*\.log$).*")  # Cassandra's transaction logs and temporary components


@contextmanager
def source(url: str, asked: Asked) -> Iterator[CassandraSource]:
    """The table in the folder that `url` names. Raises `Unavailable` where the folder, the schema or the table is not there."""
    asked.refuse("Cassandra's format", "prefix", "where")
    folder, query = folder_of(url)
    schema = _schema(url, folder, parse_qs(query).get("schema", [None])[0])
    tables = {
        f"{keyspace}.{table}": body for keyspace, table, body in _TABLE.findall(_without_comments(schema.read_text(errors="replace")))
    }
    table = chosen_table(f"schema {str(schema)!r}", [*tables], asked.table)
    try:
        db = cqlite.open(str(folder), schema=str(schema), config=_settings())
    except (cqlite.CqliteError, OSError) as e:
        raise Unavailable(f"store {url!r}", e, "check the folder and the schema") from e
    try:
        yield CassandraSource(db, folder, table, tables[table], asked)
    finally:
        db.close()


def _settings() -> dict[str, Any]:
    """Little memory, and no end of time: a long read is not a stuck one."""
    settings = cqlite.memory_optimized()
    settings["query"] |= {"max_execution_time": {"secs": 0, "nanos": 0}, "max_result_rows": (1 << 63) - 1}
    return settings


class CassandraSource:
    """The live rows of a table, as its SSTables have them."""

    in_order = isolated = False

    def __init__(self, db: Any, folder: Path, table: str, body: str, asked: Asked):
        self.db = db
        self.folder = _table_folder(folder, table)
        columns, key = _columns(body)
        ids, content_columns = chosen_columns(table, columns, key, asked)
        for name, kind in columns.items():
            if re.match(r"(set|list|map)\s*<", kind):
                message = f"column {name!r} of {table} is {kind}, not frozen: the reader gives one of its elements."
                raise usage("not_exact", message, "guard tables whose collections are frozen")
        self.shape = Shape("cassandra", str(folder), table, ids, content_columns, asked.generation)
        self.begun_with = self._data_files()

    def records(self) -> Iterator[Record]:
        shape = self.shape
        names = [name for name, _ in shape.columns]
        try:
            for row in self.db.execute_streaming(f"SELECT * FROM {shape.table}"):
                values = row.to_dict()
                generation = generation_of(values.get(shape.generation), shape.generation) if shape.generation else 0
                digest, size = content(values.get(name) for name in names)
                yield Record(id_bytes(values[name] for name in shape.ids), digest, generation, size)
        except cqlite.CqliteError as e:
            raise ForeignDamage(f"table {shape.table}, in {str(self.folder)!r}", "a record", str(e), _RESTORE) from e
        except (KeyError, TypeError) as e:
            raise Unavailable(f"table {shape.table}", e, "check the schema against the table's own") from e

    def facts(self) -> Facts:
        found = self._data_files()
        running = [
            f"{path.name} belongs to work that has not ended" for path in sorted(self.folder.iterdir()) if _UNFINISHED.fullmatch(path.name)
        ]
        running += [
            f"SSTable {g} has no TOC.txt: it was not finished" for g, path in found.items() if not _beside(path, "TOC.txt").exists()
        ]
        if found != self.begun_with:
            running.append("the SSTables changed while they were read")
        note = f"{len(found)} SSTables together: generations {', '.join(found) or 'none'}"
        numbers = [int(g) for g in found if g.isdigit()]
        return Facts(max(numbers, default=0), tuple(running), (note,), tuple(_damaged(found)))

    def _data_files(self) -> dict[str, Path]:
        """Data.db of each SSTable, by its generation."""
        found: dict[str, Path] = {}
        for path in sorted(self.folder.iterdir()):
            m = _GENERATION.fullmatch(path.name)
            if m and m["component"] == "Data.db":
                found[m["generation"]] = path
        return found


def _damaged(files: dict[str, Path]) -> Iterator[str]:
    for path in files.values():
        digest = _beside(path, "Digest.crc32")
        if not digest.exists():
            yield f"{path.name} has no Digest.crc32: it cannot be told whether it is whole"
            continue
        wanted, found = digest.read_text(errors="replace").strip(), str(_crc(path))
        if wanted != found:
            size = f"{path.stat().st_size:,} bytes"
            yield f"{path.name} ({size}) has the checksum {found}, its Digest.crc32 says {wanted}: it was cut or changed"


def _crc(path: Path) -> int:
    value = 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            value = zlib.crc32(chunk, value)
    return value


def _beside(data: Path, component: str) -> Path:
    return data.with_name(data.name.removesuffix("Data.db") + component)


def _table_folder(folder: Path, table: str) -> Path:
    keyspace, _, name = table.partition(".")
    found = [path for path in [folder / keyspace / name, *sorted((folder / keyspace).glob(f"{name}-*"))] if path.is_dir()]
    if len(found) == 1:
        return found[0]
    cause = f"{str(folder / keyspace)!r} holds {len(found)} folders of table {name!r}"
    raise Unavailable(f"table {table}", cause, "name the folder that holds keyspace/table; remove what a dropped table left")


# --- the schema ------------------------------------------------------------------------------------------------------

_TABLE = re.compile(
    r"CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?\"?(\w+)\"?\s*\.\s*\"?(\w+)\"?\s*\((.*?)\)\s*(?:WITH\b[^;]*)?;", re.IGNORECASE | re.DOTALL
)


def _schema(url: str, folder: Path, given: str | None) -> Path:
    places = [Path(given)] if given else [folder / "schema.cql", folder.parent / "schema.cql"]
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        where = " or ".join(repr(str(path)) for path in places)
        raise Unavailable(
            f"store {url!r}", f"there is no schema in {where}", "name the file with the table's CQL: cassandra:///folder?schema=FILE"
        )
    return found


def _without_comments(text: str) -> str:
    return re.sub(r"--[^\n]*|//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


def _columns(body: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """(columns with their types, primary key) of what stands between the brackets of a CREATE TABLE."""
    columns: dict[str, str] = {}
    key: tuple[str, ...] = ()
    for part in _parts(body):
        m = re.fullmatch(r"PRIMARY\s+KEY\s*\((.*)\)", part, re.IGNORECASE | re.DOTALL)
        if m:
            key = tuple(_bare(name) for name in re.split(r"[\s(),]+", m[1]) if name)
            continue
        name, _, kind = part.partition(" ")
        if re.search(r"\s+PRIMARY\s+KEY$", kind, re.IGNORECASE):
            kind, key = re.sub(r"\s+PRIMARY\s+KEY$", "", kind, flags=re.IGNORECASE), (_bare(name),)
        columns[_bare(name)] = kind.strip().lower()
    return columns, key


def _bare(name: str) -> str:
    return name.strip('"') if name.startswith('"') else name.lower()


def _parts(body: str) -> list[str]:
    """The text cut at commas that stand in no brackets."""
    parts, depth = [""], 0
    for c in body:
        depth += (c in "(<") - (c in ")>")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [" ".join(part.split()) for part in parts if part.strip()]
