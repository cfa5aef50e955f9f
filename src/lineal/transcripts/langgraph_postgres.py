"""LangGraph checkpoints in PostgreSQL: the tables of langgraph-checkpoint-postgres, in one transaction that only reads.

A checkpoint holds plain values; a list stands in `checkpoint_blobs` under the version that the checkpoint names. A
version without a blob is a channel that stores differences, or damage where nothing was written either.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from lineal.errors import PolicyError, Unavailable, Verdict
from lineal.transcripts.langgraph import MESSAGES, Checkpoint, conversations, holds_messages, no_channel, time_of
from lineal.transcripts.packed import Decoder
from lineal.transcripts.records import Item, Tally

if TYPE_CHECKING:
    import psycopg

TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
PATIENCE_S = 10
PAGE = 64  # checkpoints in one answer of the server
_Thread = tuple[str, str]


def shown(url: str) -> str:
    """The address without a password."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        user = (parts.username or "") + "@" if parts.username else ""
        return urlunsplit((parts.scheme, user + host, parts.path, "", ""))
    except ValueError:
        return "postgresql://..."


def opened(url: str) -> psycopg.Connection[Any]:
    """A connection in a transaction that cannot write. Raises `Unavailable`; `PolicyError` for a database without the tables."""
    try:
        import psycopg
    except ImportError as e:
        raise Unavailable(f"cannot read {shown(url)}", "psycopg is not installed", "install psycopg[binary]") from e
    try:
        connection = psycopg.connect(url, connect_timeout=PATIENCE_S)
    except psycopg.Error as e:
        raise Unavailable(f"cannot read {shown(url)}", _first_line(e), "check the address, and that the server answers") from e
    connection.read_only = True
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    try:
        there = {
            str(row[0])
            for row in connection.execute("SELECT relname FROM pg_class WHERE pg_table_is_visible(oid) AND relkind IN ('r', 'p')")
        }
    except psycopg.Error as e:
        connection.close()
        raise Unavailable(f"cannot read {shown(url)}", _first_line(e), "check who may read the database") from e
    missing = [table for table in TABLES if table not in there]
    if missing:
        connection.close()
        own = sorted(name for name in there if not name.startswith(("pg_", "sql_")))[:12]
        message = f"{shown(url)} is no LangGraph store: it lacks the tables {', '.join(missing)}; it has {', '.join(own) or 'none'}."
        raise PolicyError(
            Verdict("transcript", "unknown_format", message=message, remedy="name the database that the checkpointer writes to")
        )
    return connection


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


def read_all(connection: psycopg.Connection[Any], tally: Tally) -> Iterator[tuple[str, Iterator[Item]]]:
    """Every conversation of the store: a channel of messages in a thread."""
    yield from conversations(_Server(connection))


class _Server:
    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.decoder = Decoder()
        self.whole: set[tuple[_Thread, str]] = set()  # channels that are stored whole
        self.newest: dict[tuple[_Thread, str], tuple[str, Any]] = {}  # the last blob of a channel, under its version

    def _rows(self, sql: str, *given: Any) -> list[Any]:
        import psycopg

        try:
            return self.connection.execute(sql, given).fetchall()
        except psycopg.Error as e:
            raise Unavailable("cannot read on in the PostgreSQL store", _first_line(e), "check the server, then read again") from e

    def threads(self) -> list[_Thread]:
        sql = "SELECT thread_id, checkpoint_ns FROM checkpoints GROUP BY thread_id, checkpoint_ns ORDER BY min(checkpoint_id)"
        return [(str(thread), str(space)) for thread, space in self._rows(sql)]

    def channels(self, thread: _Thread) -> list[str]:
        sql = "SELECT checkpoint FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s ORDER BY checkpoint_id DESC LIMIT 8"
        for (value,) in self._rows(sql, *thread):
            versions = _dict(value, "channel_versions")
            found = {MESSAGES} & set(versions)
            for name in versions:
                try:
                    held = None if name.startswith(("__", "branch:")) else self._channel(thread, value, name)
                except (KeyError, ValueError):
                    continue
                if holds_messages(name, held):
                    found.add(name)
            if found:
                return sorted(found)
        return []

    def checkpoints(self, thread: _Thread) -> Iterator[Checkpoint]:
        sql = (
            "SELECT checkpoint_id, parent_checkpoint_id, checkpoint, metadata ->> 'source' FROM checkpoints "
            f"WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id > %s ORDER BY checkpoint_id LIMIT {PAGE}"
        )
        last = ""
        while rows := self._rows(sql, *thread, last):
            for id, parent, value, source in rows:
                last = str(id)
                if not isinstance(value, dict):
                    yield Checkpoint(last, parent, no_channel, why="no checkpoint: no object")
                    continue
                versions = {name: str(version) for name, version in _dict(value, "channel_versions").items()}
                yield Checkpoint(last, parent, self._reader(thread, value), versions, time_of(value), str(source or ""))

    def writes(self, thread: _Thread, checkpoint: str, channel: str) -> list[Any]:
        sql = (
            "SELECT type, blob FROM checkpoint_writes WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s AND channel = %s "
            f"ORDER BY {'task_path, ' if self._has_task_path() else ''}task_id, idx"
        )
        return [self.decoder.value(str(kind or "null"), bytes(blob or b"")) for kind, blob in self._rows(sql, *thread, checkpoint, channel)]

    def _has_task_path(self) -> bool:
        """The column came with a later version of the schema."""
        sql = "SELECT 1 FROM information_schema.columns WHERE table_name = 'checkpoint_writes' AND column_name = 'task_path'"
        return bool(self._rows(sql))

    def _reader(self, thread: _Thread, checkpoint: dict[str, Any]) -> Any:
        return lambda channel: self._channel(thread, checkpoint, channel)

    def _channel(self, thread: _Thread, checkpoint: dict[str, Any], channel: str) -> Any:
        version = _dict(checkpoint, "channel_versions").get(channel)
        inline = _dict(checkpoint, "channel_values")
        if version is None and channel not in inline:
            raise KeyError(channel)
        known = self.newest.get((thread, channel))
        if known is not None and known[0] == str(version):
            return known[1]
        sql = "SELECT type, blob FROM checkpoint_blobs WHERE thread_id = %s AND checkpoint_ns = %s AND channel = %s AND version = %s"
        found = self._rows(sql, *thread, channel, str(version))
        if not found and channel in inline:
            return inline[channel]
        if not found and (thread, channel) in self.whole:
            raise ValueError(f"its version {version} is not in the store")
        if not found:
            raise KeyError(channel)
        if channel not in inline:  # a snapshot of one that stores differences has a mark there
            self.whole.add((thread, channel))
        value = self.decoder.value(str(found[0][0]), bytes(found[0][1] or b""))
        self.newest[thread, channel] = (str(version), value)
        return value


def _dict(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}
