"""What lineal keeps in PostgreSQL: the tables as numbered migrations, every statement that the engine runs, rows to and fro.

Texts are `bytea`, because a name may hold what `text` cannot (R7); they are compared by their SHA-256 in the indexes, because an
index holds no value of more than some 2,700 bytes. `sessions.head` and `sessions.standing` are moved in the transaction that
moves rows: the head is what a conditional append compares, and both say how many rows a whole read must find.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, LiteralString, cast

from psycopg import sql
from psycopg.types.numeric import Int8

from lineal.engines import Row
from lineal.errors import Corrupt

LAST_SEQ = 2**63 - 1

MIGRATIONS: dict[int, LiteralString] = {  # number: what makes that version out of the one before; a number is never used again
    1: """
    CREATE TABLE {s}.sessions(
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name bytea NOT NULL, latched bytea,
        head bigint NOT NULL DEFAULT 0, standing bigint NOT NULL DEFAULT 0
    ) WITH (fillfactor = 50);
    CREATE UNIQUE INDEX sessions_name ON {s}.sessions(sha256(name));
    CREATE TABLE {s}.entries(
        session bigint NOT NULL, seq bigint NOT NULL,
        kind bytea NOT NULL, generation bigint NOT NULL, size bigint NOT NULL, inner_digest bytea NOT NULL, digest bytea NOT NULL,
        "unique" bytea, key1 bytea, key2 bytea, salt bytea NOT NULL, body bytea NOT NULL,
        PRIMARY KEY (session, seq)
    );
    CREATE UNIQUE INDEX entries_unique ON {s}.entries(session, sha256("unique")) WHERE "unique" IS NOT NULL;
    CREATE INDEX entries_key1 ON {s}.entries(session, sha256(key1)) WHERE key1 IS NOT NULL;
    CREATE INDEX entries_key2 ON {s}.entries(session, sha256(key2)) WHERE key2 IS NOT NULL;
    CREATE TABLE {s}.states(session bigint NOT NULL, seq bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY (session, seq));
    """,
}
VERSIONS: LiteralString = "CREATE TABLE {s}.migrations(version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())"
TABLES = ("migrations", "sessions", "entries", "states")
# Without these a key would be free again, a name twice there, or a row not be found.
INDEXES = ("sessions_pkey", "sessions_name", "entries_pkey", "entries_unique", "entries_key1", "entries_key2", "states_pkey")

_COLUMNS: LiteralString = 'seq, kind, generation, size, salt, body, inner_digest, digest, "unique", key1, key2'
_NAMED: LiteralString = "sha256(name) = sha256(%(name)b) AND name = %(name)b"
_ID: LiteralString = "(SELECT id FROM {s}.sessions WHERE " + _NAMED + ")"
_GIVEN: LiteralString = """
    INSERT INTO {s}.entries(session, seq, kind, generation, size, salt, body, inner_digest, digest, "unique", key1, key2)
    SELECT moved.id, %(expected)b + n, kind, generation, size, salt, body, inner_digest, digest,
        substr(nullif(u, ''), 2), substr(nullif(k1, ''), 2), substr(nullif(k2, ''), 2)
    FROM moved, unnest(%(kinds)b::bytea[], %(generations)b::bigint[], %(sizes)b::bigint[], %(salts)b::bytea[], %(bodies)b::bytea[],
        %(inners)b::bytea[], %(digests)b::bytea[], %(uniques)b::bytea[], %(keys1)b::bytea[], %(keys2)b::bytea[]) WITH ORDINALITY
        AS given(kind, generation, size, salt, body, inner_digest, digest, u, k1, k2, n)
    RETURNING 1
"""
_BORN: LiteralString = "INSERT INTO {s}.sessions AS s (name, head, standing) VALUES (%(name)b, %(count)b, %(count)b) "
_WRITTEN: LiteralString = "), written AS (" + _GIVEN + ") SELECT count(*) FROM written"
_MAKE: LiteralString = (
    "INSERT INTO {s}.sessions AS s (name) VALUES (%(name)b) ON CONFLICT (sha256(name)) DO UPDATE SET latched = s.latched "
)

STATEMENTS: dict[str, LiteralString] = {
    # The row of the session is locked by the update, so that writers of one session stand in line and no other check is needed.
    "append": "WITH moved AS (UPDATE {s}.sessions SET head = head + %(count)b, standing = standing + %(count)b WHERE "
    + _NAMED
    + " AND head = %(expected)b RETURNING id"
    + _WRITTEN,
    "begin": "WITH moved AS ("
    + _BORN
    + "ON CONFLICT (sha256(name)) DO UPDATE SET head = excluded.head, standing = excluded.standing WHERE s.head = 0 RETURNING id"
    + _WRITTEN,
    "head": "SELECT head, standing FROM {s}.sessions WHERE " + _NAMED,
    "lock": "SELECT head FROM {s}.sessions WHERE " + _NAMED + " FOR UPDATE",
    "digests": "SELECT digest FROM {s}.entries WHERE session = " + _ID + " AND seq > %(after)b AND seq <= %(until)b ORDER BY seq",
    "holder": "SELECT seq FROM {s}.entries WHERE session = " + _ID + ' AND sha256("unique") = sha256(%(key)b) AND "unique" = %(key)b',
    "scan": "DECLARE scan NO SCROLL CURSOR FOR SELECT "
    + _COLUMNS
    + " FROM {s}.entries WHERE session = "
    + _ID
    + " AND seq > %(after)b AND seq <= %(until)b AND (%(every)b OR kind = ANY(%(kinds)t::bytea[])) ORDER BY seq",
    "find": "SELECT "
    + _COLUMNS
    + " FROM {s}.entries WHERE session = "
    + _ID
    + """ AND seq IN (
        SELECT seq FROM {s}.entries WHERE session = """
    + _ID
    + """ AND sha256("unique") = sha256(%(key)b) AND "unique" = %(key)b
        UNION SELECT seq FROM {s}.entries WHERE session = """
    + _ID
    + """ AND sha256(key1) = sha256(%(key)b) AND key1 = %(key)b
        UNION SELECT seq FROM {s}.entries WHERE session = """
    + _ID
    + """ AND sha256(key2) = sha256(%(key)b) AND key2 = %(key)b
        ORDER BY seq DESC LIMIT %(limit)b) ORDER BY seq DESC""",
    "drop": "DELETE FROM {s}.entries WHERE session = " + _ID + " AND seq = ANY(%(seqs)b::bigint[])",
    "dropped": "UPDATE {s}.sessions s SET standing = standing - %(count)b, "
    "head = coalesce((SELECT max(seq) FROM {s}.entries WHERE session = s.id), 0) WHERE " + _NAMED,
    "erase": "UPDATE {s}.entries SET salt = '', body = '' WHERE session = " + _ID + " AND seq = ANY(%(seqs)b::bigint[])",
    "vacuum": "VACUUM {s}.entries",
    "forget": "DELETE FROM {s}.sessions s WHERE "
    + _NAMED
    + " AND head = 0 AND latched IS NULL AND NOT EXISTS (SELECT FROM {s}.states WHERE session = s.id)",
    "put_state": "WITH kept AS ("
    + _MAKE
    + """RETURNING id) INSERT INTO {s}.states(session, seq, data) SELECT id, %(seq)b, %(data)b FROM kept
        ON CONFLICT (session, seq) DO UPDATE SET data = excluded.data""",
    "state": "SELECT seq, data FROM {s}.states WHERE session = " + _ID + " AND seq <= %(until)b ORDER BY seq DESC LIMIT 1",
    "states": "SELECT seq FROM {s}.states WHERE session = " + _ID + " ORDER BY seq",
    "drop_states": "DELETE FROM {s}.states WHERE session = " + _ID + " AND seq = ANY(%(seqs)b::bigint[])",
    "latch": "INSERT INTO {s}.sessions(name, latched) VALUES (%(name)b, %(reason)b) "
    "ON CONFLICT (sha256(name)) DO UPDATE SET latched = excluded.latched",
    "unlatch": "UPDATE {s}.sessions SET latched = NULL WHERE " + _NAMED,
    "latched": "SELECT latched FROM {s}.sessions WHERE " + _NAMED,
    # By the index: a table whose file has lost its end is then an error, not a shorter list.
    "sessions": "SELECT name FROM {s}.sessions WHERE id > 0 AND head > 0",
    "miscounted": """
        SELECT s.name, coalesce(s.head, 0), coalesce(s.standing, 0), coalesce(e.head, 0), coalesce(e.standing, 0)
        FROM {s}.sessions s FULL JOIN (SELECT session, max(seq) AS head, count(*) AS standing FROM {s}.entries GROUP BY session) e
        ON s.id = e.session WHERE (coalesce(s.head, 0), coalesce(s.standing, 0)) <> (coalesce(e.head, 0), coalesce(e.standing, 0))""",
    "version": "SELECT max(version) FROM {s}.migrations",
}


def statements(schema: str) -> dict[str, sql.Composed]:
    """Every statement, over the tables of this schema."""
    return {name: composed(text, schema) for name, text in STATEMENTS.items()}


def composed(text: LiteralString, schema: str) -> sql.Composed:
    return sql.SQL(text).format(s=sql.Identifier(schema))


def lock_of(schema: str) -> int:
    """The number of the advisory lock under which this schema is migrated."""
    return int.from_bytes(hashlib.sha256(b"lineal schema " + blob(schema)).digest()[:8], "big", signed=True)


def grants(role: str, schema: str = "lineal", write: bool = True) -> str:
    """The SQL by which the owner of `schema` lets `role` append, delete and read (without `write`: only read), and no more."""
    s, r = _quoted(schema), _quoted(role)
    lines = [f"GRANT USAGE ON SCHEMA {s} TO {r};", *(f"GRANT SELECT ON {s}.{table} TO {r};" for table in TABLES)]
    if write:
        columns = {"sessions": "head, standing, latched", "entries": "salt, body", "states": "data"}
        lines += [f"GRANT INSERT, DELETE, UPDATE ({names}) ON {s}.{table} TO {r};" for table, names in columns.items()]
    return "\n".join(lines) + "\n"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# --- rows ------------------------------------------------------------------------------------------------------------


def blob(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def text(value: object, session: str = "", seq: int = 0) -> str:
    """What `blob` wrote. Raises `Corrupt` for what it cannot have written."""
    try:
        return cast(bytes, value).decode("utf-8", "surrogatepass")
    except (UnicodeDecodeError, AttributeError) as e:
        raise Corrupt(session, seq, "a text", e, "damaged row") from e


def _optional(text: str | None) -> bytes:
    """Nothing as no bytes, a text behind one byte: an array of one type, whatever stands in it."""
    return b"" if text is None else b"=" + blob(text)


def batch(session: str, expected_seq: int, rows: Sequence[Row]) -> dict[str, Any]:
    """The arguments of `append` and `begin`."""
    keys = [(*map(_optional, row.keys), b"", b"") for row in rows]
    return {
        "name": blob(session), "expected": Int8(expected_seq), "count": Int8(len(rows)), "kinds": [blob(row.kind) for row in rows],
        "generations": [Int8(row.generation) for row in rows], "sizes": [Int8(row.size) for row in rows],
        "salts": [row.salt for row in rows], "bodies": [row.body for row in rows], "inners": [row.inner for row in rows],
        "digests": [row.digest for row in rows], "uniques": [_optional(row.unique) for row in rows],
        "keys1": [two[0] for two in keys], "keys2": [two[1] for two in keys],
    }  # fmt: skip


def row_of(session: str, record: tuple[Any, ...]) -> Row:
    """The row in a record of `_COLUMNS`. Raises `Corrupt` for what `batch` cannot have written."""
    seq, kind, generation, size, salt, body, inner, digest, unique, key1, key2 = record
    keys = tuple(text(key, session, seq) for key in (key1, key2) if key is not None)
    taken = None if unique is None else text(unique, session, seq)
    return Row(seq, text(kind, session, seq), generation, size, salt, body, inner, digest, taken, keys)
