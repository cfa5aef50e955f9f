"""Where a PostgreSQL store is: its URL, taken apart.

| option, after `?` | does |
|---|---|
| `schema=NAME` | the schema that holds the store (`lineal`) |
| `wait=SECONDS` | how long is waited for a lock, and for a server to come back (10) |
| `pool=N` | how many connections a handle holds at most, beside those of long scans (8) |
| `durable=any` | takes a server that acknowledges before it is durable |

Every other option is libpq's own, as `sslmode` or `application_name`. Where several hosts are named, the one that can be written
is meant (`target_session_attrs=read-write`), unless the URL says otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from psycopg import conninfo, sql
from psycopg import errors as pg

from lineal.errors import Unavailable


@dataclass(frozen=True)
class Place:
    """`conninfo` is what libpq takes, `shown` the URL without its password, `wait` in seconds."""

    conninfo: str = field(repr=False)
    shown: str
    schema: str = "lineal"
    wait: float = 10.0
    pool: int = 8
    durable: bool = True
    options: dict[str, Any] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def quoted(self) -> str:
        """The schema as it stands in a statement."""
        return sql.Identifier(self.schema).as_string()

    def without_password(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def located(url: str) -> Place:
    """The place that `url` names. Raises `Unavailable` for what is none, and names the option."""
    base, _, query = url.partition("?")
    given = parse_qsl(query, keep_blank_values=True)
    ours = {name: value for name, value in given if name in ("schema", "wait", "pool", "durable")}
    theirs = [(name, value) for name, value in given if name not in ours]
    hosts = base.partition("://")[2].rpartition("@")[2].partition("/")[0]
    if "," in hosts and "target_session_attrs" not in dict(theirs):
        theirs.append(("target_session_attrs", "read-write"))
    full = base.replace("postgres://", "postgresql://", 1) + (f"?{urlencode(theirs, quote_via=quote)}" if theirs else "")
    shown = re.sub(r"(://[^:@/]*):[^@/]*@", r"\1@", base)
    try:
        known = conninfo.conninfo_to_dict(full)
    except pg.ProgrammingError as wrong:
        raise Unavailable(
            f"store {shown}", f"it is no address of PostgreSQL: {wrong}", "say postgresql://user@host:5432/database"
        ) from wrong
    password = str(known.get("password") or "")
    return Place(
        full,
        shown,
        ours.get("schema") or "lineal",
        _number(shown, "wait", ours.get("wait", "10"), 0.0, 3_600.0),
        int(_number(shown, "pool", ours.get("pool", "8"), 1, 1_000)),
        _durable(shown, ours.get("durable", "")),
        {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3},
        tuple({password, quote(password, safe="")} - {""}),
    )


def _number(shown: str, name: str, value: str, least: float, most: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise Unavailable(f"store {shown}", f"{name}={value!r} is no number from {least:g} to {most:g}", f"say {name}=10")
    return number


def _durable(shown: str, value: str) -> bool:
    if value not in ("", "any"):
        raise Unavailable(f"store {shown}", f"durable={value!r} is not known", "leave it out, or say durable=any")
    return not value
