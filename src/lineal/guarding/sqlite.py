"""A table in an SQLite file of somebody else, read in one read transaction of a connection that cannot write.

While it is open, a writer in WAL mode goes on, and one in rollback mode waits with its commit. In WAL mode SQLite makes a -wal and
a -shm file for any reader, and leaves them. A file whose writer was killed in a commit is rolled back by whoever opens it for
writing: until then it is refused here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from lineal.errors import Unavailable
from lineal.guarding.encoding import Record, content, id_bytes, shown
from lineal.guarding.manifest import ForeignDamage
from lineal.guarding.sources import Asked, Facts, Shape, chosen_columns, chosen_table, generation_of, stands, usage

PATIENCE_MS = 10_000
_RESTORE = "restore a backup of the file; `PRAGMA integrity_check` says more"


@contextmanager
def source(url: str, asked: Asked) -> Iterator[SqliteSource]:
    """The table in the file that `url` names: a path, `sqlite:///relative.db` or `sqlite:////absolute.db`."""
    asked.refuse("an SQLite file", "prefix")
    path = Path(url.removeprefix("sqlite:///").removeprefix("sqlite:"))
    if not stands(path):
        raise Unavailable(f"store {url!r}", "it does not exist", "name an SQLite file, or a URL with postgresql:, rocksdb: or cassandra:")
    try:
        connection = apsw.Connection(path.absolute().as_uri() + "?mode=ro", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    except apsw.Error as e:
        raise _failure(path, e) from e
    try:
        connection.set_busy_timeout(PATIENCE_MS)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("BEGIN")
        yield SqliteSource(connection, path, asked)
    except apsw.Error as e:
        raise _failure(path, e) from e
    finally:
        connection.close()


class SqliteSource:
    """A table as of the beginning of its read transaction."""

    in_order = isolated = True

    def __init__(self, connection: apsw.Connection, path: Path, asked: Asked):
        self.connection = connection
        tables = [
            str(n)
            for (n,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
        ]
        table = chosen_table(f"{str(path)!r}", tables, asked.table)
        rows = [*connection.execute("SELECT name, type, pk FROM pragma_table_info(?)", (table,))]
        columns = {str(name): str(kind) for name, kind, _ in rows}
        key = tuple(str(name) for name, _, place in sorted(rows, key=lambda row: int(row[2])) if place)
        ids, content_columns = chosen_columns(table, columns, key, asked)
        self.shape = Shape("sqlite", str(path), table, ids, content_columns, asked.generation, asked.where)

    def records(self) -> Iterator[Record]:
        shape = self.shape
        width = len(shape.ids)
        last = b""
        try:
            for row in self.connection.execute(self._select()):
                key = id_bytes(row[:width])
                digest, size = content(row[width + 1 :])
                yield Record(key, digest, generation_of(row[width], shape.generation), size)
                last = key
        except apsw.SQLError as e:
            raise usage("not_sql", f"SQLite says {e} of the query over {shape.table!r}.", "correct what --where says") from e
        except (apsw.CorruptError, apsw.NotADBError, apsw.IOError, UnicodeDecodeError) as e:
            where = f"behind id {shown(last)!r}" if last else "at the first record"
            raise ForeignDamage(f"table {shape.table!r}, {where}", "a record", str(e), _RESTORE) from e

    def _select(self) -> str:
        shape = self.shape
        names = [_name(c) for c in shape.ids]
        names += [_name(shape.generation) if shape.generation else "0", *(_name(c) for c, _ in shape.columns)]
        only = f" WHERE ({shape.where})" if shape.where else ""
        order = ", ".join(f"{_name(c)} COLLATE BINARY" for c in shape.ids)
        return f"SELECT {', '.join(names)} FROM {_name(shape.table)}{only} ORDER BY {order}"

    def facts(self) -> Facts:
        """SQLite has no maintenance of its own that a reader could meet: a VACUUM is one transaction."""
        row: Any = self.connection.execute("PRAGMA journal_mode").fetchone()
        return Facts(notes=(f"SQLite {apsw.sqlite_lib_version()}, journal mode {row[0] if row else '?'}: read in one transaction",))


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _failure(path: Path, error: apsw.Error) -> Exception:
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return ForeignDamage(f"SQLite file {str(path)!r}", "a database", str(error), _RESTORE)
    remedy = "let its owner open it first, so that a cut off commit is rolled back; check who may read it"
    return Unavailable(f"SQLite file {str(path)!r}", error, remedy)
