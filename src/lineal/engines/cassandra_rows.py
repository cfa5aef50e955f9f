"""What lineal keeps in Cassandra's format: the table, every statement that the engine writes, and rows to and fro.

One partition holds a session: its entries (part 0), its states (part 1), and, static, what stands of it. On a cluster an
append is one conditional batch on that partition; `CLUSTER` holds it as it would be prepared there. The library knows no
conditions and syncs each statement by itself, so that here the static row is written last: it is the commit, and rows
beyond its head are no rows.

Texts and bytes are blobs behind one byte 00: the library cannot parse an empty blob, and a name may hold what `text` cannot.
"""

from __future__ import annotations

from typing import Any

import msgspec

from lineal.engines import Row
from lineal.engines.sqlite_rows import blob, record_of, row_of, text
from lineal.engines.standing import Standing
from lineal.errors import Corrupt

TABLE = """
CREATE TABLE lineal.log (
    session blob, part int, seq bigint,
    kind blob, generation bigint, size bigint, salt blob, body blob, inner blob, digest blob, uniq blob, key1 blob, key2 blob,
    standing blob static, latched blob static,
    PRIMARY KEY (session, part, seq)
);
""".strip()
SCHEMA = "CREATE KEYSPACE lineal WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};\n" + TABLE + "\n"
CLUSTER = """
CREATE TABLE lineal.log (
    session blob, part int, seq bigint,
    kind blob, generation bigint, size bigint, salt blob, body blob, inner blob, digest blob, uniq blob, key1 blob, key2 blob,
    head bigint static, dropped blob static, latched blob static,
    PRIMARY KEY (session, part, seq)
);
CREATE INDEX ON lineal.log (uniq) USING 'sai';
CREATE INDEX ON lineal.log (key1) USING 'sai';
CREATE INDEX ON lineal.log (key2) USING 'sai';

BEGIN BATCH
    UPDATE lineal.log SET head = :last WHERE session = :session IF head = :expected;
    INSERT INTO lineal.log (session, part, seq, kind, generation, size, salt, body, inner, digest, uniq, key1, key2)
    VALUES (:session, 0, :seq, :kind, :generation, :size, :salt, :body, :inner, :digest, :uniq, :key1, :key2);
APPLY BATCH;
""".strip()
ENTRY, STATE = 0, 1
MOST = (1 << 63) - 1
COLUMNS = ("seq", "kind", "generation", "size", "salt", "body", "inner", "digest", "uniq", "key1", "key2")
_STANDING = msgspec.msgpack.Decoder(tuple[int, list[tuple[int, int]]])


def literal(value: object) -> str:
    """A value as CQL text. Bytes get the byte 00 before them."""
    if value is None:
        return "null"
    return f"0x00{value.hex()}" if isinstance(value, bytes) else str(value)


def plain(value: Any) -> Any:
    """What `literal` wrote, as it is read."""
    return value[1:] if isinstance(value, bytes) else value


def insert_entry(session: str, row: Row, stamp: int) -> str:
    name, *record = record_of(blob(session), row)
    values = ", ".join(map(literal, (name, ENTRY, *record)))
    return f"INSERT INTO lineal.log (session, part, {', '.join(COLUMNS)}) VALUES ({values}) USING TIMESTAMP {stamp}"


def erase_entry(session: str, seq: int, stamp: int) -> str:
    return f"DELETE salt, body FROM lineal.log USING TIMESTAMP {stamp} WHERE {_one(session, ENTRY, seq)}"


def insert_state(session: str, seq: int, data: bytes, stamp: int) -> str:
    values = ", ".join(map(literal, (blob(session), STATE, seq, data)))
    return f"INSERT INTO lineal.log (session, part, seq, body) VALUES ({values}) USING TIMESTAMP {stamp}"


def drop(session: str, part: int, seq: int, stamp: int) -> str:
    return f"DELETE FROM lineal.log USING TIMESTAMP {stamp} WHERE {_one(session, part, seq)}"


def commit(session: str, standing: Standing, latched: str | None, stamp: int) -> str:
    """What stands of the session from now on: the one statement that an append or a deletion is done by."""
    stands = literal(msgspec.msgpack.encode((standing.head, standing.dropped)))
    why = literal(None if latched is None else blob(latched))
    return f"UPDATE lineal.log USING TIMESTAMP {stamp} SET standing = {stands}, latched = {why} WHERE session = {literal(blob(session))}"


def select_entries(session: str, after: int, until: int) -> str:
    return f"SELECT {', '.join(COLUMNS)} FROM lineal.log WHERE {_part(session, ENTRY)} AND seq > {after} AND seq <= {until}"


def select_state(session: str, seq: int) -> str:
    return f"SELECT seq, body FROM lineal.log WHERE {_one(session, STATE, seq)}"


SELECT_ALL = "SELECT session, part, seq, uniq, key1, key2, standing, latched FROM lineal.log"


def _part(session: str, part: int) -> str:
    return f"session = {literal(blob(session))} AND part = {part}"


def _one(session: str, part: int, seq: int) -> str:
    return f"{_part(session, part)} AND seq = {seq}"


def row_in(session: str, seq: int, found: Any) -> Row:
    """Raises `Corrupt` at `seq` for what `insert_entry` cannot have written. An erased row has neither salt nor body."""
    record = {column: plain(found[column]) for column in COLUMNS}
    record["salt"], record["body"] = record["salt"] or b"", record["body"] or b""
    return row_of(session, seq, tuple(record.values()))


def standing_in(session: str, data: bytes | None) -> Standing:
    if data is None:
        return Standing()
    try:
        head, dropped = _STANDING.decode(plain(data))
    except msgspec.DecodeError as e:
        raise Corrupt(session, 0, "a head and what was dropped below it", f"{e}: {data[:40]!r}", "damaged session") from e
    return Standing(head, tuple(dropped))


def text_in(data: bytes, session: str = "") -> str:
    return text(plain(data), session)
