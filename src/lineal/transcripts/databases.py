"""Stores of agent frameworks: which one a database is, and every conversation in it.

| tables | the store is |
|---|---|
| `checkpoints` with `checkpoint_id` and `parent_checkpoint_id` | LangGraph |
| one with `id`, `session_id`, `message_data` | OpenAI Agents SDK |
| `events` with `app_name`, `session_id`, `invocation_id` | Google ADK |

A file is read from a copy (`lineal.transcripts.snapshot`), a PostgreSQL database in one transaction that only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

from lineal.errors import PolicyError, Verdict
from lineal.transcripts import google_adk, langgraph, langgraph_postgres, langgraph_sqlite, lines, openai_agents
from lineal.transcripts.records import Damage, Item, Tally
from lineal.transcripts.snapshot import MAGIC, Snapshot, is_sqlite, snapshot

ReadAll = Callable[[Snapshot, Path, Tally], Iterator[tuple[str, Iterator[Item]]]]
STORES: dict[str, ReadAll] = {
    langgraph.NAME: langgraph_sqlite.read_all,
    openai_agents.NAME: openai_agents.read_all,
    google_adk.NAME: google_adk.read_all,
}
PLACES = {langgraph.NAME: "checkpoint", openai_agents.NAME: "row", google_adk.NAME: "event"}
ENDS = (".db", ".db3", ".sqlite", ".sqlite3")  # names of files that are looked at where a directory is given
_NAMED = 12  # tables that a refusal names


def is_url(path: object) -> bool:
    return isinstance(path, str) and path.startswith(("postgresql://", "postgres://"))


def detect(path: Path) -> str:
    """Which store an SQLite file is. Raises `PolicyError` naming its tables where it is none, `Unavailable` for no file."""
    with snapshot(path, check=False) as found:
        columns = found.columns()
        name = _store(columns)
        if name:
            return name
        damage = f" It is damaged: {found.damage[0].why}." if found.damage else ""
    tables = ", ".join([*columns][:_NAMED]) or "none"
    message = f"the SQLite file {str(path)!r} is no store of an agent framework that is known: its tables are {tables}.{damage}"
    remedy = f"known are {', '.join(STORES)}; a store of lineal's own is read by `lineal log` and `lineal verify`"
    raise PolicyError(Verdict("transcript", "unknown_format", message=message, remedy=remedy))


def _store(columns: dict[str, list[str]]) -> str:
    if set(columns.get(langgraph_sqlite.TABLE, ())) >= langgraph_sqlite.COLUMNS:
        return langgraph.NAME
    if openai_agents.messages_table(columns):
        return openai_agents.NAME
    return google_adk.NAME if set(columns.get(google_adk.TABLE, ())) >= google_adk.COLUMNS else ""


def read_all(path: Path, name: str, tally: Tally) -> Iterator[tuple[str, Iterator[Item]]]:
    """Every conversation of the file, with what is wrong with the file as a whole in front of the first."""
    if not is_sqlite(path):
        with lines.opened(path) as file:
            head = file.read(len(MAGIC))
        yield path.stem, iter([Damage(1, f"no SQLite file: it does not begin with {MAGIC!r}", head, 0)])
        return
    with snapshot(path) as found:
        told = False
        columns = found.columns()
        if _store(columns) == name:
            for conversation, items in STORES[name](found, path, tally):
                yield conversation, items if told else chain(found.damage, items)
                told = True
        elif not found.damage:
            found.damage.append(Damage(1, f"no store of {name}: its tables are {', '.join([*columns][:_NAMED]) or 'none'}", b"", -1))
        if not told and found.damage:
            yield path.stem, iter(found.damage)


def read_url(url: str, tally: Tally) -> Iterator[tuple[str, Iterator[Item]]]:
    """Every conversation of the LangGraph store at a PostgreSQL address. Raises `Unavailable`, without the password."""
    with closing(langgraph_postgres.opened(url)) as connection:
        yield from langgraph_postgres.read_all(connection, tally)
