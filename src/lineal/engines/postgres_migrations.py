"""The schema of the PostgreSQL engine, as it is found at open and as it is made.

| found | answer |
|---|---|
| no schema, or one without lineal's tables | made, unless `create` is False: then `Unavailable` |
| an older version | migrated, one number after the other, in one transaction |
| the newest version | used as it is; a role that may create nothing is enough |
| a newer version | `Unavailable`, untouched |
| a table or an index that is missing or not valid | `Corrupt` |

Whoever makes or migrates holds an advisory lock and looks again under it: two that open an empty database make one schema.
"""

from __future__ import annotations

from psycopg import sql

from lineal.engines import postgres_schema as schema
from lineal.engines.postgres_server import Connection, Connections
from lineal.errors import Corrupt, Unavailable

_PARTS = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_index i ON i.indexrelid = c.oid
WHERE n.nspname = %s AND (i.indisvalid IS NULL OR i.indisvalid AND i.indisready)
"""


def open_schema(connections: Connections, create: bool) -> None:
    """By the table above. Raises `Unavailable`, `Corrupt`."""
    asked = f"schema {connections.address.schema!r} of {connections.address.shown}"
    connections.carried_out(f"open {asked}", lambda db, again: _opened(db, connections.address.schema, asked, create))


def _opened(db: Connection, name: str, asked: str, create: bool) -> None:
    found = version(db, name)
    if found == 0 and not create:
        raise Unavailable(asked, "there is no lineal store", "check the address and its schema= option, or open it with create=True")
    if found < max(schema.MIGRATIONS):
        _migrate(db, name)
        found = version(db, name)
    if found > max(schema.MIGRATIONS):
        cause = f"it is of version {found}, this lineal knows {max(schema.MIGRATIONS)}"
        raise Unavailable(asked, cause, "use the newer lineal; nothing was touched")
    missing = missing_parts(db, name)
    if missing:
        raise Corrupt("", 0, f"the tables and indexes of {asked}", f"no {', '.join(missing)} that can be used", "damaged store")


def version(db: Connection, name: str) -> int:
    """The newest migration that was carried out; 0 for none."""
    if "migrations" not in _relations(db, name):
        return 0
    found = db.execute(schema.composed(schema.STATEMENTS["version"], name)).fetchone()
    return int(found[0]) if found and found[0] is not None else 0


def missing_parts(db: Connection, name: str) -> list[str]:
    there = _relations(db, name)
    return [part for part in (*schema.TABLES, *schema.INDEXES) if part not in there]


def _relations(db: Connection, name: str) -> set[str]:
    return {str(relation) for (relation,) in db.execute(_PARTS, (name,))}


def _migrate(db: Connection, name: str) -> None:
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s)", (schema.lock_of(name),))
        found = version(db, name)
        if not db.execute("SELECT FROM pg_namespace WHERE nspname = %s", (name,)).fetchall():
            db.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        if found == 0:
            db.execute(schema.composed(schema.VERSIONS, name))
        for number in range(found + 1, max(schema.MIGRATIONS) + 1):
            db.execute(schema.composed(schema.MIGRATIONS[number], name))
            db.execute(sql.SQL("INSERT INTO {}.migrations(version) VALUES (%s)").format(sql.Identifier(name)), (number,))
