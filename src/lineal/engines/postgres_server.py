"""The server under the PostgreSQL engine: its address, connections that are made anew when they are lost, what its errors mean.

| the server says | answer |
|---|---|
| the connection is lost; it starts, stops, recovers, is read only | a new connection, until the deadline; then `Unavailable` |
| damaged data or index (`XX001`, `XX002`), no such file (`58P01`), no such table or column | `Corrupt` |
| not permitted, a lock past the deadline, disk full, anything else | `Unavailable`, with the way out |
| its timeline is older than one that was seen: a primary that was overtaken | the next host, until the deadline; then `Unavailable` |
| `fsync` or `synchronous_commit` is off | `Unavailable` at the first connection that finds it so, unless the URL says `durable=any` |

psycopg's pool is not used: it waits a second before it tries a lost server again, and keeps the cause for its log.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

import psycopg
from psycopg import conninfo

from lineal.errors import Corrupt, LinealError, Unavailable

T = TypeVar("T")
NAP_SECONDS = 0.05  # between two tries to reach a server
IDLE_CONNECTIONS = 8
# Ended by the administrator or a crash; not yet up; read only, so that another is the primary now; given up by the server for another.
_AGAIN = {"57P01", "57P02", "57P03", "57P05", "25006", "40001", "40P01"}
_DAMAGE = {"XX001", "XX002", "58P01", "42P01", "42703", "3F000"}
_REMEDIES = {
    "42501": "let the owner of the schema grant what a writer needs: PostgresEngine.grants(role)",
    "55P03": "try again when the lock is free: maintenance such as VACUUM FULL holds it",
    "53100": "free disk space on the server and try again; nothing of this was written",
    "57014": "try again; the statement was ended by a timeout or a person",
}
_SECRET = re.compile("password|secret|token")
_HOPELESS = re.compile("authentication failed|does not exist|no pg_hba.conf entry|permission denied|no password supplied|not permitted")

# Rows are read by their index alone: a heap that has lost its end is then an error, where a plain scan would be shorter in silence.
# An empty search path, because nobody's function or operator may stand in for the server's own.
GREETING = """
SELECT set_config('search_path', 'pg_catalog', false), set_config('enable_seqscan', 'off', false),
    set_config('enable_bitmapscan', 'off', false), set_config('jit', 'off', false),
    set_config('idle_in_transaction_session_timeout', '0', false), set_config('lock_timeout', %s, false),
    set_config('default_transaction_isolation', 'read committed', false)
"""
# Each promotion begins a timeline. A standby has none of its own to write on.
TIMELINE = "SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END"
DURABLE = "SELECT current_setting('fsync'), current_setting('synchronous_commit')"


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """`warned`: the server has warned on it. A commit that a person cut off from its wait for a standby is told in no other way."""

    warned = False


@dataclass(frozen=True)
class Address:
    """What a URL names. `parameters` goes to libpq and may hold a password; `shown` is for people and holds none."""

    shown: str
    parameters: dict[str, Any] = field(repr=False)
    schema: str = "lineal"
    wait: float = 10.0
    any_durability: bool = False

    def turned(self, by: int) -> dict[str, Any]:
        """The parameters with another of the hosts as the first."""
        listed = {name: str(self.parameters[name]).split(",") for name in ("host", "hostaddr", "port") if self.parameters.get(name)}
        return {**self.parameters, **{name: ",".join(one[by % len(one) :] + one[: by % len(one)]) for name, one in listed.items()}}

    def without_secrets(self, error: object) -> str:
        """The message of an error, in one line, with no password in it."""
        said = "; ".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__
        for secret in (self.parameters.get("password"), self.parameters.get("sslpassword")):
            if secret:
                said = said.replace(secret, "***").replace(quote(secret, safe=""), "***")
        return said


def address_of(url: str) -> Address:
    """Options of ours (`schema`, `wait`, `durable`) are taken out, the others are libpq's. Raises `Unavailable`."""
    try:
        parts = urlsplit(url)
        ours, theirs = _options(parts.query)
        given = conninfo.conninfo_to_dict(f"postgresql://{parts.netloc}{parts.path}?{_query(theirs)}")
        user = f"{quote(str(given['user']))}@" if given.get("user") else ""
        told = _query([(name, value) for name, value in [*theirs, *ours.items()] if not _SECRET.search(name)])
        shown = f"postgresql://{user}{parts.netloc.rpartition('@')[2]}{parts.path}" + (f"?{told}" if told else "")
        schema = ours.get("schema", "lineal")
        size = len(schema.encode())
    except (ValueError, psycopg.Error):
        # What they say may repeat the whole of it, with the password.
        raise _unusable("a postgresql: URL", "it cannot be read as one") from None
    try:
        wait = float(ours.get("wait", "10"))
    except ValueError:
        wait = -1.0
    if not 0 <= wait < 1e6:
        raise _unusable(shown, f"wait={ours['wait']!r} is no number of seconds")
    if not 0 < size < 64 or "\0" in schema or schema.startswith("pg_"):
        raise _unusable(shown, f"schema={schema!r} is no name that a schema can have")
    if ours.get("durable", "any") != "any":
        raise _unusable(shown, f"durable={ours['durable']!r}: it can only be `any`")
    return Address(shown, _with_defaults(given, wait), schema, wait, "durable" in ours)


def _options(query: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Read as libpq reads them: a `+` is a plus. Raises `ValueError` for what is no `name=value`."""
    pairs = []
    for part in query.split("&") if query else ():
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(name)
        pairs.append((unquote(name, errors="strict"), unquote(value, errors="strict")))
    ours = {name: value for name, value in pairs if name in ("schema", "wait", "durable")}
    return ours, [(name, value) for name, value in pairs if name not in ours]


def _query(pairs: Iterable[tuple[str, str]]) -> str:
    return "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs)


def _with_defaults(given: dict[str, Any], wait: float) -> dict[str, Any]:
    """A host that is gone without a word is noticed: nobody waits for it longer than for a lock."""
    patience = {
        "connect_timeout": str(max(2, int(wait))), "keepalives_idle": "5", "keepalives_interval": "2", "keepalives_count": "3",
        "tcp_user_timeout": str(int(max(wait, 2) * 1000)), "application_name": "lineal", "client_encoding": "UTF8",
    }  # fmt: skip
    if "," in str(given.get("host") or ""):
        patience |= {"target_session_attrs": "read-write", "connect_timeout": "2"}
    return {**patience, **given}


def _unusable(what: str, cause: str) -> Unavailable:
    return Unavailable(what, cause, "use postgresql://user@host:port/database?schema=lineal&wait=10")


def translated(error: psycopg.Error, address: Address, asked: str, session: str = "", seq: int = 0) -> LinealError:
    said, state = address.without_secrets(error), error.sqlstate or ""
    if state in _DAMAGE:
        return Corrupt(session, seq, "tables, indexes and pages as they were made", f"{said} ({asked})", "damaged store")
    return Unavailable(asked, said, _REMEDIES.get(state, "look into the server's log, then try again"))


class Connections:
    """Connections of one engine to one address: idle ones are used again, a lost one is replaced. Any thread may take one."""

    def __init__(self, address: Address):
        self.address = address
        self._idle: deque[Connection] = deque()
        self._process = os.getpid()
        self._timeline = ""
        self._turn = 0
        self.closed = False

    def _take(self, asked: str, deadline: float | None) -> Connection:
        """An idle connection or a new one. Tries until `deadline` (monotonic); then raises `Unavailable` with the last cause."""
        try:
            return self._idle.pop()
        except IndexError:
            deadline = time.monotonic() + self.address.wait if deadline is None else deadline
        while True:
            try:
                return self._made(asked)
            except psycopg.Error as e:
                said = self.address.without_secrets(e)
                left = deadline - time.monotonic()
                if left <= 0 or ("," not in str(self.address.parameters.get("host")) and _HOPELESS.search(said)):
                    remedy = "check the address, and that the server answers and lets this user in"
                    tried = f", tried for {self.address.wait:g} s" if left <= 0 else ""
                    raise Unavailable(asked, f"no connection{tried}: {said}", remedy) from None
                self._turn += 1
                time.sleep(min(NAP_SECONDS, left))

    def _made(self, asked: str) -> Connection:
        connection = Connection.connect(**self.address.turned(self._turn), autocommit=True)
        try:
            connection.execute(GREETING, (f"{int(max(self.address.wait, 0.001) * 1000)}ms",))
            self._refuse_overtaken(connection)
            if not self.address.any_durability:
                self._refuse_unless_durable(connection, asked)
        except BaseException:
            connection.close()
            raise
        connection.add_notice_handler(
            lambda said: setattr(connection, "warned", connection.warned or said.severity_nonlocalized == "WARNING")
        )
        return connection

    def _refuse_overtaken(self, connection: Connection) -> None:
        """A primary that came back after another was promoted in its place lacks what was written since: it is no server of ours."""
        found = str((connection.execute(TIMELINE).fetchone() or ("",))[0])
        if found and found < self._timeline:
            place = f"{connection.info.host}:{connection.info.port}"
            raise psycopg.OperationalError(f"{place} is on timeline {found}, {self._timeline} was seen: another was promoted in its place")
        self._timeline = max(found, self._timeline)

    def _refuse_unless_durable(self, connection: Connection, asked: str) -> None:
        found = connection.execute(DURABLE).fetchone()
        fsync, commit = found or ("off", "off")
        if fsync == "off" or commit == "off":
            cause = f"fsync is {fsync} and synchronous_commit is {commit}: what is acknowledged could be lost (E1)"
            raise Unavailable(asked, cause, "set both to on for this server and role, or say durable=any in the URL")

    def give_back(self, connection: Connection) -> None:
        if self.closed or connection.closed or len(self._idle) >= IDLE_CONNECTIONS:
            connection.close()
        else:
            self._idle.append(connection)

    def cut(self, connection: Connection) -> None:
        """End it without an answer and without a lock; not in a forked child, which would end its parent's."""
        if os.getpid() == self._process:
            connection.close()

    def forget_idle(self) -> None:
        """One connection was lost: the idle ones lead to the same server."""
        while self._idle:
            self._idle.pop().close()

    def close(self) -> None:
        """Idempotent. A forked child leaves its parent's connections alone: to end one would end it for both."""
        self.closed = True
        if os.getpid() == self._process:
            self.forget_idle()

    def carried_out(self, asked: str, work: Callable[[Connection, bool], T], session: str = "", keeps: bool = False) -> T:
        """Do `work(connection, again)`, again on a new connection when the connection is lost, until the deadline.

        With `keeps` the connection is the result's to give back. Raises what `work` raises, `Unavailable`, `Corrupt`.
        """
        lost_until: float | None = None
        while True:
            self._refuse_unless_usable(asked)
            connection = self._take(asked, lost_until)
            try:
                result = work(connection, lost_until is not None)
            except psycopg.Error as e:
                lost = connection.closed or e.sqlstate in _AGAIN
                connection.close()
                if lost and lost_until is None:
                    self.forget_idle()
                    lost_until = time.monotonic() + self.address.wait
                if not lost or lost_until is None or time.monotonic() >= lost_until:
                    raise translated(e, self.address, asked, session) from e
                time.sleep(NAP_SECONDS)
                continue
            except LinealError:
                self.give_back(connection)
                raise
            except BaseException:
                connection.close()
                raise
            if not keeps:
                self.give_back(connection)
            return result

    def _refuse_unless_usable(self, asked: str) -> None:
        if self.closed:
            raise Unavailable(asked, "the store was closed", "open it again")
        if os.getpid() != self._process:
            cause = f"it was opened by process {self._process}, this is its child {os.getpid()}"
            raise Unavailable(asked, cause, "open it again in the child")
