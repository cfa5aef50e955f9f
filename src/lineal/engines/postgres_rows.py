"""What lineal keeps in PostgreSQL: the migrations, every statement that the engine runs, and rows to and fro.

Texts are `bytea`, because a name may hold what `text` cannot (R7), and are found by their SHA-256, because a b-tree takes no
key of more than 2,704 bytes. `{s}` in a statement stands for the schema.

A session's row carries its head. Whoever appends moves it from the seq that he expects, in the same statement that inserts the
entries: two writers meet at the lock of that one row, and the second finds a head that is not his.
"""

from __future__ import annotations

from typing import Any

from lineal.engines import Row
from lineal.errors import Corrupt

MIGRATIONS = (
    """
    CREATE TABLE {s}.sessions(
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name bytea NOT NULL, head bigint NOT NULL DEFAULT 0, latched bytea);
    CREATE UNIQUE INDEX sessions_name ON {s}.sessions(sha256(name));
    CREATE TABLE {s}.entries(
        session bigint NOT NULL, seq bigint NOT NULL, kind bytea NOT NULL, generation bigint NOT NULL, size bigint NOT NULL,
        salt bytea NOT NULL, body bytea NOT NULL, inner_digest bytea NOT NULL, digest bytea NOT NULL,
        unique_key bytea, key1 bytea, key2 bytea, PRIMARY KEY (session, seq));
    CREATE UNIQUE INDEX entries_unique ON {s}.entries(session, sha256(unique_key)) WHERE unique_key IS NOT NULL;
    CREATE INDEX entries_key1 ON {s}.entries(session, sha256(key1)) WHERE key1 IS NOT NULL;
    CREATE INDEX entries_key2 ON {s}.entries(session, sha256(key2)) WHERE key2 IS NOT NULL;
    CREATE TABLE {s}.states(session bigint NOT NULL, seq bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY (session, seq));
    """,
)
FORMAT = len(MIGRATIONS)
TABLES = ("sessions", "entries", "states")
INDEXES = ("sessions_pkey", "sessions_name", "entries_pkey", "entries_unique", "entries_key1", "entries_key2", "states_pkey")

MARK = """
CREATE SCHEMA IF NOT EXISTS {s};
CREATE TABLE IF NOT EXISTS {s}.migrations(version integer PRIMARY KEY, made timestamptz NOT NULL DEFAULT now());
"""
MIGRATED = "INSERT INTO {s}.migrations(version) VALUES (%s)"
THERE = "SELECT to_regclass(%s) IS NOT NULL"
VERSION = "SELECT coalesce(max(version), 0) FROM {s}.migrations"
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
GRANTS = (
    "GRANT USAGE ON SCHEMA {s} TO {role}",
    "GRANT SELECT ON {s}.migrations TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON {s}.sessions, {s}.entries, {s}.states TO {role}",
)

_BY_NAME = "sha256(name) = sha256(%(name)s) AND name = %(name)s"
_SESSION = f"(SELECT id FROM {{s}}.sessions WHERE {_BY_NAME})"
_COLUMNS = "e.seq, e.kind, e.generation, e.size, e.salt, e.body, e.inner_digest, e.digest, e.unique_key, e.key1, e.key2"
_COLUMN_TYPES = (int, bytes, int, int, bytes, bytes, bytes, bytes)

_MOVE = f"UPDATE {{s}}.sessions SET head = %(head)s WHERE {_BY_NAME} AND head = %(expected)s RETURNING id"
_BEGIN = """INSERT INTO {s}.sessions AS old (name, head) VALUES (%(name)s, %(head)s)
ON CONFLICT (sha256(name)) DO UPDATE SET head = excluded.head WHERE old.head = 0 RETURNING id"""
_APPEND = """WITH moved AS (%s)
INSERT INTO {s}.entries (session, seq, kind, generation, size, salt, body, inner_digest, digest, unique_key, key1, key2)
SELECT moved.id, r.* FROM moved, unnest(%%(seq)s::bigint[], %%(kind)s::bytea[], %%(generation)s::bigint[], %%(size)s::bigint[],
    %%(salt)b::bytea[], %%(body)b::bytea[], %%(inner)b::bytea[], %%(digest)b::bytea[],
    %%(unique)s::bytea[], %%(key1)s::bytea[], %%(key2)s::bytea[]) AS r"""
APPEND = _APPEND % _MOVE
APPEND_FIRST = _APPEND % _BEGIN
HEAD = f"SELECT head FROM {{s}}.sessions WHERE {_BY_NAME}"
HOLDERS = f"""SELECT seq, unique_key FROM {{s}}.entries
WHERE session = {_SESSION} AND sha256(unique_key) = ANY(SELECT sha256(k) FROM unnest(%(keys)s::bytea[]) k) AND unique_key = ANY(%(keys)s)"""
DIGESTS = f"SELECT seq, digest FROM {{s}}.entries WHERE session = {_SESSION} AND seq = ANY(%(seqs)s)"
SCAN = f"""SELECT {_COLUMNS} FROM {{s}}.entries e
WHERE e.session = {_SESSION} AND e.seq > %(after)s AND e.seq <= %(until)s
AND (%(kinds)s::bytea[] IS NULL OR e.kind = ANY(%(kinds)s)) ORDER BY e.seq"""
SCAN_SHORT = f"""SELECT s.head, e.* FROM {{s}}.sessions s LEFT JOIN LATERAL (
    SELECT {_COLUMNS} FROM {{s}}.entries e WHERE e.session = s.id AND e.seq > %(after)s AND e.seq <= %(until)s
    AND (%(kinds)s::bytea[] IS NULL OR e.kind = ANY(%(kinds)s)) ORDER BY e.seq LIMIT %(most)s) e ON true
WHERE {_BY_NAME} ORDER BY e.seq"""
FIND = f"""SELECT {_COLUMNS} FROM {{s}}.entries e WHERE e.session = {_SESSION} AND e.seq IN (
    SELECT seq FROM {{s}}.entries WHERE session = {_SESSION} AND sha256(unique_key) = sha256(%(key)s) AND unique_key = %(key)s UNION
    SELECT seq FROM {{s}}.entries WHERE session = {_SESSION} AND sha256(key1) = sha256(%(key)s) AND key1 = %(key)s UNION
    SELECT seq FROM {{s}}.entries WHERE session = {_SESSION} AND sha256(key2) = sha256(%(key)s) AND key2 = %(key)s
    ORDER BY 1 DESC LIMIT %(limit)s) ORDER BY e.seq DESC"""
HOLD = f"SELECT id FROM {{s}}.sessions WHERE {_BY_NAME} FOR UPDATE"
DROP = "DELETE FROM {s}.entries WHERE session = %(id)s AND seq = ANY(%(seqs)s)"
ERASE = "UPDATE {s}.entries SET salt = '', body = '' WHERE session = %(id)s AND seq = ANY(%(seqs)s) AND (salt <> '' OR body <> '')"
SET_HEAD = """UPDATE {s}.sessions SET head = coalesce((SELECT max(seq) FROM {s}.entries WHERE session = %(id)s), 0) WHERE id = %(id)s"""
ADD_SESSION = "INSERT INTO {s}.sessions (name) VALUES (%(name)s) ON CONFLICT (sha256(name)) DO NOTHING"
PUT_STATE = """INSERT INTO {s}.states (session, seq, data) VALUES (%(id)s, %(seq)s, %(data)b)
ON CONFLICT (session, seq) DO UPDATE SET data = excluded.data"""
STATE = f"SELECT seq, data FROM {{s}}.states WHERE session = {_SESSION} AND seq <= %(at)s ORDER BY seq DESC LIMIT 1"
STATES = f"SELECT seq FROM {{s}}.states WHERE session = {_SESSION} ORDER BY seq"
DROP_STATES = f"DELETE FROM {{s}}.states WHERE session = {_SESSION} AND seq = ANY(%(seqs)s)"
LATCH = f"UPDATE {{s}}.sessions SET latched = %(reason)s WHERE {_BY_NAME}"
LATCHED = f"SELECT latched FROM {{s}}.sessions WHERE {_BY_NAME}"
SESSIONS = "SELECT name FROM {s}.sessions WHERE head > 0"
FORGET = f"""DELETE FROM {{s}}.sessions s WHERE {_BY_NAME} AND head = 0 AND latched IS NULL
AND NOT EXISTS (SELECT 1 FROM {{s}}.states t WHERE t.session = s.id)"""
BYTES = "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r'"
SETTINGS = """SELECT name, setting FROM pg_settings WHERE name IN ('server_version', 'fsync', 'full_page_writes', 'synchronous_commit',
'synchronous_standby_names', 'data_checksums', 'transaction_read_only')"""
OWNS = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = %s::regclass"
# --- the check: each session's head is its newest entry; no entry or state without a session; every index whole ---
MISPLACED = """SELECT s.name, s.head, coalesce(max(e.seq), 0) FROM {s}.sessions s LEFT JOIN {s}.entries e ON e.session = s.id
GROUP BY s.id, s.name, s.head HAVING s.head <> coalesce(max(e.seq), 0)"""
ORPHANS = """SELECT DISTINCT session FROM (SELECT session FROM {s}.entries UNION SELECT session FROM {s}.states) held
WHERE NOT EXISTS (SELECT 1 FROM {s}.sessions s WHERE s.id = held.session)"""
INVALID = """SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = %s::regnamespace AND NOT (i.indisvalid AND i.indisready)"""
NAMED_INDEXES = "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'i'"
AMCHECK = "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'amcheck'"


def blob(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def text(value: object, session: str = "", seq: int = 0) -> str:
    """What `blob` wrote. Raises `Corrupt` for what it cannot have written."""
    try:
        return bytes(value).decode("utf-8", "surrogatepass")  # type: ignore[call-overload, no-any-return]
    except (UnicodeDecodeError, TypeError) as e:
        raise Corrupt(session, seq, "a text", e, "damaged row") from e


def columns_of(rows: list[Row]) -> dict[str, list[Any]]:
    """The rows as one array a column, as `APPEND` takes them."""
    keys = [(*map(blob, row.keys), None, None) for row in rows]
    return {
        "seq": [row.seq for row in rows],
        "kind": [blob(row.kind) for row in rows],
        "generation": [row.generation for row in rows],
        "size": [row.size for row in rows],
        "salt": [row.salt for row in rows],
        "body": [row.body for row in rows],
        "inner": [row.inner for row in rows],
        "digest": [row.digest for row in rows],
        "unique": [None if row.unique is None else blob(row.unique) for row in rows],
        "key1": [key[0] for key in keys],
        "key2": [key[1] for key in keys],
    }


def row_of(session: str, record: tuple[Any, ...]) -> Row:
    """The row in a record of the columns. Raises `Corrupt` for what `columns_of` cannot have written."""
    if tuple(map(type, record[:8])) != _COLUMN_TYPES:
        raise Corrupt(session, 0, "the columns of a row", [type(value).__name__ for value in record], "damaged row")
    seq, kind, generation, size, salt, body, inner, digest, unique, key1, key2 = record
    keys = tuple(text(key, session, seq) for key in (key1, key2) if key is not None)
    taken = None if unique is None else text(unique, session, seq)
    return Row(seq, text(kind, session, seq), generation, size, salt, body, inner, digest, taken, keys)
