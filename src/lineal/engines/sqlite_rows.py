"""What lineal keeps in SQLite: the tables, every statement that the engine runs, and rows to and fro.

A row's place is one integer, `session << 36 | seq`: the log is one b-tree that is read in order and, for each session,
written at its end, without an index beside it. Texts are blobs, because a name may hold what TEXT cannot (R7).
In every statement `?1` is the session's name and `?2` a seq, a limit or a key.
"""

from __future__ import annotations

from typing import Any

from lineal.engines import Row
from lineal.errors import Corrupt

FORMAT = 1  # PRAGMA user_version
APPLICATION_ID = int.from_bytes(b"linl", "big")
SEQ_BITS = 36
SEQ_MASK = (1 << SEQ_BITS) - 1

SCHEMA = f"""
CREATE TABLE sessions(id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, latched BLOB) STRICT;
CREATE TABLE entries(
    id INTEGER PRIMARY KEY,
    kind BLOB NOT NULL, generation INTEGER NOT NULL, size INTEGER NOT NULL, inner BLOB NOT NULL, digest BLOB NOT NULL,
    "unique" BLOB, key1 BLOB, key2 BLOB, salt BLOB NOT NULL, body BLOB NOT NULL,
    session INTEGER AS (id >> {SEQ_BITS}) VIRTUAL, seq INTEGER AS (id & {SEQ_MASK}) VIRTUAL
) STRICT;
CREATE UNIQUE INDEX entries_unique ON entries(session, "unique") WHERE "unique" IS NOT NULL;
CREATE INDEX entries_key1 ON entries(session, key1) WHERE key1 IS NOT NULL;
CREATE INDEX entries_key2 ON entries(session, key2) WHERE key2 IS NOT NULL;
CREATE TABLE states(id INTEGER PRIMARY KEY, data BLOB) STRICT;
"""
TABLES = {"sessions", "entries", "states"}
INDEXES = {"entries_unique", "entries_key1", "entries_key2"}  # without them a key would be free again, or not be found

_SESSION = "(SELECT id FROM sessions WHERE name = ?1)"
_PLACE = f"({_SESSION} << {SEQ_BITS} | ?2)"
_IN_SESSION = f"id > {_SESSION} << {SEQ_BITS} AND id <= ({_SESSION} << {SEQ_BITS}) + {SEQ_MASK}"
_COLUMNS = f'id & {SEQ_MASK}, kind, generation, size, salt, body, inner, digest, "unique", key1, key2'
_COLUMN_TYPES = (int, bytes, int, int, bytes, bytes, bytes, bytes)

ADD_SESSION = "INSERT OR IGNORE INTO sessions(name) VALUES (?1)"
# No row goes in unless the head is the row before: a place that is no integer fails as a datatype mismatch.
APPEND = f"""
INSERT INTO entries(id, kind, generation, size, salt, body, inner, digest, "unique", key1, key2)
VALUES (coalesce((
    SELECT s.id << {SEQ_BITS} | ?2 FROM sessions s WHERE s.name = ?1 AND s.id << {SEQ_BITS} | (?2 - 1) = coalesce(
        (SELECT max(e.id) FROM entries e WHERE e.id > s.id << {SEQ_BITS} AND e.id <= (s.id << {SEQ_BITS}) + {SEQ_MASK}),
        s.id << {SEQ_BITS})), 'the head moved'), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
"""
HEAD = f"SELECT max(id) & {SEQ_MASK} FROM entries WHERE {_IN_SESSION}"
HOLDER = f'SELECT id & {SEQ_MASK} FROM entries WHERE session = {_SESSION} AND "unique" = ?2'
SCAN = f"""
SELECT {_COLUMNS} FROM entries
WHERE id > ({_SESSION} << {SEQ_BITS}) + ?2 AND id <= ({_SESSION} << {SEQ_BITS}) + ?3 %s ORDER BY id
"""
FIND = f"""
SELECT {_COLUMNS} FROM entries WHERE id IN (
    SELECT id FROM entries WHERE session = {_SESSION} AND "unique" = ?2 UNION
    SELECT id FROM entries WHERE session = {_SESSION} AND key1 = ?2 UNION
    SELECT id FROM entries WHERE session = {_SESSION} AND key2 = ?2 ORDER BY 1 DESC LIMIT ?3) ORDER BY id DESC
"""
DROP = f"DELETE FROM entries WHERE id = {_PLACE}"
ERASE = f"UPDATE entries SET salt = x'', body = x'' WHERE id = {_PLACE}"
PUT_STATE = f"INSERT OR REPLACE INTO states(id, data) VALUES ({_PLACE}, ?3)"
STATE = f"""
SELECT id & {SEQ_MASK}, data FROM states WHERE id >= {_SESSION} << {SEQ_BITS} AND id <= ({_SESSION} << {SEQ_BITS}) + ?2
AND data IS NOT NULL ORDER BY id DESC LIMIT 1
"""
STATES = f"""
SELECT id & {SEQ_MASK} FROM states WHERE id >= {_SESSION} << {SEQ_BITS} AND id <= ({_SESSION} << {SEQ_BITS}) + {SEQ_MASK}
AND data IS NOT NULL ORDER BY id
"""
BLANK_STATE = f"UPDATE states SET data = NULL WHERE id = {_PLACE}"
DROP_STATE = f"DELETE FROM states WHERE id = {_PLACE} AND data IS NULL"
# Every name is found through its index; one that the index has lost, or has as another, is looked for in the table itself.
NAMED = "SELECT 1 FROM sessions NOT INDEXED WHERE name = ?1"
MISNAMED = "SELECT id FROM sessions s NOT INDEXED WHERE id IS NOT (SELECT i.id FROM sessions i WHERE i.name = s.name) LIMIT 1"
LATCH = "UPDATE sessions SET latched = ?2 WHERE name = ?1"
LATCHED = "SELECT latched FROM sessions WHERE name = ?1"
SESSIONS = f"""
SELECT name FROM sessions s WHERE EXISTS (
    SELECT 1 FROM entries e WHERE e.id > s.id << {SEQ_BITS} AND e.id <= (s.id << {SEQ_BITS}) + {SEQ_MASK}) ORDER BY name
"""
FORGET = f"""
DELETE FROM sessions WHERE name = ?1 AND latched IS NULL AND NOT EXISTS (SELECT 1 FROM entries WHERE {_IN_SESSION})
AND NOT EXISTS (SELECT 1 FROM states WHERE id >= {_SESSION} << {SEQ_BITS} AND id <= ({_SESSION} << {SEQ_BITS}) + {SEQ_MASK})
"""


def blob(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def text(value: object, session: str = "", seq: int = 0) -> str:
    """What `blob` wrote. Raises `Corrupt` for what it cannot have written."""
    if not isinstance(value, bytes):
        raise Corrupt(session, seq, "a text", f"{value!r:.60}", "damaged row")
    try:
        return value.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as e:
        raise Corrupt(session, seq, "a text", e, "damaged row") from e


def record_of(name: bytes, row: Row) -> tuple[Any, ...]:
    unique = None if row.unique is None else blob(row.unique)
    keys = (*map(blob, row.keys), None, None)
    return (
        name, row.seq, blob(row.kind), row.generation, row.size, row.salt, row.body, row.inner, row.digest, unique, keys[0], keys[1]
    )  # fmt: skip


def row_of(session: str, seq: int, record: tuple[Any, ...]) -> Row:
    """The row in a record of `_COLUMNS`. Raises `Corrupt` at `seq` for what `record_of` cannot have written."""
    if tuple(map(type, record[:8])) != _COLUMN_TYPES:
        raise Corrupt(session, seq, "the columns of a row", [type(value).__name__ for value in record], "damaged row")
    found, kind, generation, size, salt, body, inner, digest, unique, key1, key2 = record
    keys = tuple(text(key, session, seq) for key in (key1, key2) if key is not None)
    taken = None if unique is None else text(unique, session, seq)
    return Row(found, text(kind, session, seq), generation, size, salt, body, inner, digest, taken, keys)
