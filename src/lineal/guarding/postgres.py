"""A table in PostgreSQL: one REPEATABLE READ transaction that only reads, through a cursor of the server.

The table is locked against being dropped, truncated or rewritten (ACCESS SHARE, what any SELECT takes) before the snapshot
is made: a TRUNCATE, or an ALTER TABLE that rewrites, in between would show an empty table to a snapshot from before it.
VACUUM FULL and CLUSTER keep every reader out: while one of them has the table, there is nothing to be read, and the guard
says so instead of waiting for ever.

Every value is taken as the text that the server writes for it, under fixed settings; a column's type stands in the manifest.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from lineal.errors import Unavailable
from lineal.guarding.encoding import Record, content, id_bytes, shown
from lineal.guarding.manifest import ForeignDamage
from lineal.guarding.sources import Asked, Busy, Facts, Shape, chosen_columns, chosen_table, generation_of, shown_url, usage

PATIENCE_S = 10
LOCK_PATIENCE = "5s"
ROWS_A_FETCH = 2_000
_NATIVE = ("smallint", "integer", "bigint", "bytea")  # ids of these come as they are; their order is the guard's
_SETTINGS = {
    "DateStyle": "ISO, YMD",
    "TimeZone": "UTC",
    "IntervalStyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "3",
    "xmloption": "content",
    "lc_monetary": "C",
    "row_security": "off",  # an error where a policy would leave out rows in silence
    "lock_timeout": LOCK_PATIENCE,
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
_TABLES = """
SELECT CASE WHEN n.nspname = 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END, n.nspname, c.relname, c.oid
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname NOT IN ('pg_catalog', 'information_schema')
AND n.nspname NOT LIKE 'pg_toast%'
ORDER BY 1"""
_COLUMNS = """
SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
_KEY = """
SELECT a.attname FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(attnum, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum WHERE i.indrelid = %s AND i.indisprimary ORDER BY k.place"""
_PARTS = "SELECT %(oid)s::oid UNION SELECT relid::oid FROM pg_partition_tree(%(oid)s::oid)"
_RUNNING = f"""
SELECT CASE WHEN a.query ILIKE 'autovacuum%%' THEN 'autovacuum' ELSE 'VACUUM' END, v.pid, v.phase
FROM pg_stat_progress_vacuum v LEFT JOIN pg_stat_activity a USING (pid) WHERE v.datname = current_database() AND v.relid IN ({_PARTS})
UNION ALL SELECT command, pid, phase FROM pg_stat_progress_cluster WHERE datname = current_database() AND relid IN ({_PARTS})
UNION ALL SELECT command, pid, phase FROM pg_stat_progress_create_index WHERE datname = current_database() AND relid IN ({_PARTS})"""
_HIDDEN = """
SELECT count(*) FROM pg_stat_progress_vacuum WHERE datname = current_database() AND relid IS NULL
UNION ALL SELECT count(*) FROM pg_stat_progress_cluster WHERE datname = current_database() AND relid IS NULL
UNION ALL SELECT count(*) FROM pg_stat_progress_create_index WHERE datname = current_database() AND relid IS NULL"""
_POSITION = "SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END - '0/0'::pg_lsn"


@contextmanager
def source(url: str, asked: Asked) -> Iterator[PostgresSource]:
    """The table in the database that `url` names. Raises `Busy` while a rewrite of the table keeps every reader out."""
    asked.refuse("PostgreSQL", "prefix")
    try:
        with _connected(url) as asking, _connected(url) as reading:
            asking.autocommit = True
            yield PostgresSource(asking, reading, shown_url(url), asked)
            reading.rollback()
    except psycopg.Error as e:
        raise _failure(shown_url(url), e) from e


def _connected(url: str) -> psycopg.Connection[Any]:
    try:
        connection = psycopg.connect(url, connect_timeout=PATIENCE_S, client_encoding="utf8", fallback_application_name="lineal guard")
    except ValueError as e:  # a text that is no UTF-8, a port that is no number
        raise Unavailable(shown_url(url), e, "check the address") from e
    connection.read_only = True
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    return connection


class PostgresSource:
    """A table as of one snapshot. A second connection asks for progress, which is never seen as of a snapshot."""

    in_order = isolated = True

    def __init__(self, asking: psycopg.Connection[Any], reading: psycopg.Connection[Any], place: str, asked: Asked):
        self.asking, self.reading = asking, reading
        found = {str(label): (schema, name, oid) for label, schema, name, oid in asking.execute(_TABLES)}
        wanted = asked.table.removeprefix("public.") if asked.table else None
        table = chosen_table(place, [*found], wanted)
        schema, name, self.oid = found[table]
        self.table = sql.Identifier(schema, name)
        held = self._locked()
        self.types = {str(column): str(kind) for column, kind in asking.execute(_COLUMNS, (self.oid,))}
        key = tuple(str(column) for (column,) in asking.execute(_KEY, (self.oid,)))
        ids, columns = chosen_columns(table, self.types, key, asked)
        self.shape = Shape("postgresql", place, table, ids, columns, asked.generation, asked.where)
        if held is not None:
            raise self._held(held) from held

    def _held(self, error: psycopg.Error) -> Exception:
        """What to say of a lock that was not had in time: by maintenance, or by somebody's transaction."""
        facts = self.facts()
        if facts.running:
            return Busy(facts, self.shape)
        return Unavailable(f"table {self.shape.table!r}", _first_line(error), "another transaction keeps readers out: wait for it to end")

    def _locked(self) -> psycopg.errors.LockNotAvailable | None:
        """Lock the table for reading, before its columns are looked at and before the snapshot; what was in the way, if it is held."""
        for setting, value in _SETTINGS.items():
            self.reading.execute(sql.SQL("SET LOCAL {} = {}").format(sql.Identifier(setting), sql.Literal(value)))
        try:
            self.reading.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(self.table))
        except psycopg.errors.LockNotAvailable as e:
            return e
        return None

    def records(self) -> Iterator[Record]:
        shape = self.shape
        width = len(shape.ids)
        last = b""
        try:
            with self.reading.cursor(name="lineal_guard") as cursor:
                cursor.itersize = ROWS_A_FETCH
                for row in cursor.execute(self._select()):
                    key = id_bytes(row[:width])
                    digest, size = content(row[width + 1 :])
                    yield Record(key, digest, generation_of(row[width], shape.generation), size)
                    last = key
        except psycopg.errors.LockNotAvailable as e:  # a REINDEX keeps the indexes, and with them the query, out
            raise self._held(e) from e
        except (psycopg.errors.SyntaxError, psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedFunction) as e:
            raise usage(
                "not_sql", f"PostgreSQL says {_first_line(e)!r} of the query over {shape.table!r}.", "correct what --where says"
            ) from e
        except (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted, psycopg.errors.IoError) as e:
            where = f"behind id {shown(last)!r}" if last else "at the first record"
            raise ForeignDamage(f"table {shape.table!r}, {where}", "a record", _first_line(e), _RESTORE) from e

    def _select(self) -> sql.Composed:
        shape = self.shape
        ids = [self._id(column) for column in shape.ids]
        generation = sql.Identifier(shape.generation) if shape.generation else sql.SQL("0")
        cells = [sql.SQL("{}::text").format(sql.Identifier(column)) for column, _ in shape.columns]
        only = sql.SQL(" WHERE (" + shape.where + ")") if shape.where else sql.SQL("")
        order = sql.SQL(", ").join(self._order(column) for column in shape.ids)
        chosen = sql.SQL(", ").join([*ids, generation, *cells])
        return sql.SQL("SELECT {} FROM {}{} ORDER BY {}").format(chosen, self.table, only, order)

    def _id(self, column: str) -> sql.Composable:
        name = sql.Identifier(column)
        return name if self.types[column] in _NATIVE else sql.SQL("{}::text").format(name)

    def _order(self, column: str) -> sql.Composable:
        name = sql.Identifier(column)
        if self.types[column] in (*_NATIVE, "uuid"):  # as texts, uuids stand in the same order
            return sql.SQL("{} NULLS FIRST").format(name)
        return sql.SQL('{}::text COLLATE "C" NULLS FIRST').format(name)

    def facts(self) -> Facts:
        running = [f"{command} of process {pid}: {phase}" for command, pid, phase in self.asking.execute(_RUNNING, {"oid": self.oid})]
        row = self.asking.execute(_POSITION).fetchone()
        notes = [f"PostgreSQL {self.asking.info.server_version // 10_000}: read in one REPEATABLE READ transaction"]
        if any(hidden for (hidden,) in self.asking.execute(_HIDDEN)):
            notes.append("maintenance runs of which this user may not see the table: grant pg_read_all_stats to be told")
        return Facts(int(row[0] or 0) if row else 0, tuple(running), tuple(notes))


_RESTORE = "restore a backup, or a standby; pg_amcheck and pg_checksums say more"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def _failure(place: str, error: psycopg.Error) -> Exception:
    if isinstance(error, psycopg.errors.DataCorrupted | psycopg.errors.IndexCorrupted):
        return ForeignDamage(place, "a table", _first_line(error), _RESTORE)
    return Unavailable(place, _first_line(error), "check the address, that the server answers, and who may read the table")
