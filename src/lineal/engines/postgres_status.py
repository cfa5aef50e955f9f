"""What the server says of a lineal schema: facts for people, and what it finds wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from lineal.engines.postgres_migrations import missing_parts
from lineal.engines.postgres_schema import INDEXES, TABLES, text
from lineal.engines.postgres_server import Address, Connection

SETTINGS = ("server_version", "fsync", "synchronous_commit", "full_page_writes", "synchronous_standby_names", "data_checksums")


def facts(db: Connection, address: Address) -> dict[str, Any]:
    """Size in bytes (tables, indexes and what is stored beside them), the settings that durability leans on, the role and its server."""
    name = sql.Identifier(address.schema)
    sizes = sql.SQL(" + ").join(
        sql.SQL("pg_total_relation_size({})").format(sql.Literal(sql.SQL("{}.{}").format(name, sql.Identifier(table)).as_string(db)))
        for table in TABLES
    )
    settings = sql.SQL(", ").join(sql.SQL("current_setting({})").format(setting) for setting in SETTINGS)
    found = db.execute(
        sql.SQL("SELECT {}, {}, current_user, pg_is_in_recovery(), (SELECT max(version) FROM {}.migrations)").format(sizes, settings, name)
    ).fetchone()
    assert found is not None
    told = dict(zip(("bytes", *SETTINGS, "role", "standby", "version"), found, strict=True))
    durable = told["fsync"] == "on" and told["synchronous_commit"] != "off"
    return {**told, "schema": address.schema, "host": f"{db.info.host}:{db.info.port}", "durable": durable, "amcheck": _amcheck(db)}


def found_wrong(db: Connection, schema: str, statements: Mapping[str, sql.Composed]) -> list[str]:
    """One sentence for each thing found wrong. Raises `psycopg.Error` for what the server cannot even read."""
    wrong = [f"{schema}.{part} is missing or not valid: run REINDEX, or restore a backup" for part in missing_parts(db, schema)]
    for name, head, standing, last, rows in db.execute(statements["miscounted"]):
        whose = "rows of no session" if name is None else f"session {text(name)!r}"
        wrong.append(f"{whose}: head {head} and {standing} rows were written down, the table has head {last} and {rows} rows")
    if _amcheck(db) == "used":
        wrong += _checked(db, schema)
    return wrong


def _amcheck(db: Connection) -> str:
    """`used`, or why it is not."""
    found = db.execute(
        """SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'amcheck'"""
    ).fetchone()
    if not found:
        return "not installed"
    may = db.execute(
        "SELECT has_function_privilege(format('%%I.bt_index_check(regclass, boolean)', %s::text), 'execute')"
        " AND has_function_privilege(format('%%I.verify_heapam(regclass, boolean, boolean, text, bigint, bigint)', %s::text), 'execute')",
        (found[0], found[0]),
    ).fetchone()
    return "used" if may and may[0] else "not permitted"


def _checked(db: Connection, schema: str) -> list[str]:
    found = db.execute("SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'amcheck'")
    place = sql.Identifier(str((found.fetchone() or ("public",))[0]))
    name, wrong = sql.Identifier(schema), []
    for index in INDEXES:
        relation = sql.Literal(sql.SQL("{}.{}").format(name, sql.Identifier(index)).as_string(db))
        try:
            db.execute(sql.SQL("SELECT {}.bt_index_check({}::regclass, true)").format(place, relation))
        except (psycopg.errors.IndexCorrupted, psycopg.errors.DataCorrupted) as e:
            wrong.append(f"index {schema}.{index}: {e.diag.message_primary}")
    for table in TABLES:
        relation = sql.Literal(sql.SQL("{}.{}").format(name, sql.Identifier(table)).as_string(db))
        for block, message in db.execute(sql.SQL("SELECT blkno, msg FROM {}.verify_heapam({}::regclass)").format(place, relation)):
            wrong.append(f"table {schema}.{table}, block {block}: {message}")
    return wrong
