"""Foreign history, read as what the host's model saw. The port: `read` gives records, boundaries and damage.

A reader yields a `Record` for each message the model was shown, a `Boundary` where the host dropped history itself, and a
`Damage` for each thing that cannot be read or that must have stood there. Lines that no model saw (progress, snapshots,
screen events) are skipped and counted by type in `tally`: whole objects of the file = lines in records + boundaries + tally.
Files are read, never written. Databases of agent frameworks (`STORES`) are read through a copy, and a PostgreSQL store by its
address; for them `line` counts what `place` names: checkpoints, rows, events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.resources import files
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

from lineal.errors import PolicyError, Verdict
from lineal.transcripts import claude_code, codex, databases, langgraph, langgraph_postgres, lines, openai_chat, pairs, pi
from lineal.transcripts.databases import ENDS, STORES, is_url
from lineal.transcripts.effects import Outcome, changes_state, outcome
from lineal.transcripts.records import NOWHERE, Boundary, Damage, Item, Reader, Record, Tally
from lineal.transcripts.snapshot import is_sqlite

__all__ = [
    "ENDS",
    "FORMATS",
    "NOWHERE",
    "STORES",
    "Boundary",
    "Damage",
    "Item",
    "Outcome",
    "Reader",
    "Record",
    "changes_state",
    "conversations",
    "detect",
    "is_url",
    "outcome",
    "place",
    "read",
    "read_all",
    "sample_path",
    "shown",
]

FORMATS: dict[str, Reader] = {
    claude_code.NAME: claude_code.read,
    codex.NAME: codex.read,
    pi.NAME: pi.read,
    openai_chat.NAME: openai_chat.read,
}
_BEGINS = (
    (claude_code.NAME, claude_code.is_record),
    (codex.NAME, codex.is_record),
    (pi.NAME, pi.begins),
    (openai_chat.NAME, openai_chat.is_record),
)
_ANSWERED_AT_ONCE = (claude_code.NAME, openai_chat.NAME)  # the others leave calls of an aborted turn open
_LOOKED_AT = 64


def read(
    path: str | PathLike[str], format: str | None = None, conversation: int | None = None, tally: Tally | None = None
) -> Iterator[Item]:
    """What stands in the transcript at `path`, in the order the model saw it.

    `path` may be the address of a PostgreSQL database. `format` is a name in `FORMATS` or `STORES`; None looks at the file.
    `conversation` picks one of `conversations(path)`, from 0. Raises `PolicyError` for an unknown format or conversation,
    `Unavailable` for a file that cannot be read.
    """
    counted: Tally = Counter() if tally is None else tally
    chosen = conversation or 0
    if is_url(path):
        return _chosen(path, langgraph.NAME, chosen, counted)
    source = Path(path)
    name = _known(format) if format is not None else detect(source)
    lines.opened(source).close()
    if name in STORES:
        return _chosen(path, name, chosen, counted)
    if name != openai_chat.NAME and chosen != 0:
        raise openai_chat.no_conversation(source, chosen, 1)
    items = FORMATS[name](source, chosen, counted)
    return pairs.check(items, answered_at_once=name in _ANSWERED_AT_ONCE)


def _chosen(path: str | PathLike[str], name: str, chosen: int, tally: Tally) -> Iterator[Item]:
    """One conversation of a store; those in front of it are passed by unread."""
    number = -1
    for number, (_, items) in enumerate(read_all(path, name, tally)):
        if number == chosen:
            yield from items
            return
    if number >= 0 or chosen != 0:
        raise openai_chat.no_conversation(Path(shown(path)), chosen, number + 1)


def read_all(path: str | PathLike[str], format: str | None = None, tally: Tally | None = None) -> Iterator[tuple[str, Iterator[Item]]]:
    """Every conversation of the transcript at `path`: its name and its items, as `read` gives them, from one reading.

    Take the items of one conversation before asking for the next. Raises as `read` does.
    """
    counted: Tally = Counter() if tally is None else tally
    if is_url(path):
        return _checked(databases.read_url(str(path), counted), langgraph.NAME)
    source = Path(path)
    name = _known(format) if format is not None else detect(source)
    lines.opened(source).close()
    if name in STORES:
        return _checked(databases.read_all(source, name, counted), name)
    found = openai_chat.read_all(source, counted) if name == openai_chat.NAME else [(source.stem, FORMATS[name](source, 0, counted))]
    return _checked(found, name)


def _checked(found: Iterable[tuple[str, Iterator[Item]]], name: str) -> Iterator[tuple[str, Iterator[Item]]]:
    return ((chat, pairs.check(items, answered_at_once=name in _ANSWERED_AT_ONCE)) for chat, items in found)


def conversations(path: str | PathLike[str]) -> list[str]:
    """The names of the conversations in a file, in its order. All formats but `openai_chat` and the stores hold one."""
    if is_url(path):
        return [name for name, _ in databases.read_url(str(path), Counter())]
    source = Path(path)
    name = detect(source)
    if name in STORES:
        return [chat for chat, _ in databases.read_all(source, name, Counter())]
    return openai_chat.conversations(source) if name == openai_chat.NAME else [source.stem]


def place(format: str) -> str:
    """What `line` counts in a format: lines, or a store's checkpoints, rows, events."""
    return databases.PLACES.get(format, "line")


def shown(path: str | PathLike[str]) -> str:
    """A path or an address as it may be printed: without a password."""
    return langgraph_postgres.shown(str(path)) if is_url(path) else str(path)


def detect(path: str | PathLike[str]) -> str:
    """The format of a file, by its first whole objects. Raises `PolicyError` saying what was seen, `Unavailable` for no file."""
    if is_url(path):
        langgraph_postgres.opened(str(path)).close()
        return langgraph.NAME
    source = Path(path)
    if is_sqlite(source):
        return databases.detect(source)
    seen: list[str] = []
    for found in islice(lines.scan(source, lambda value: True, Counter()), _LOOKED_AT):
        if isinstance(found, Damage):
            seen.append(f"line {found.line}: {found.why}")
            continue
        for name, begins in _BEGINS:
            if begins(found.value):
                return name
        seen.append(f"line {found.line}: an object with the keys {', '.join(sorted(found.value)[:8]) or 'none'}")
    whole = openai_chat.document(source)
    first = whole[0] if whole else None
    if isinstance(first, lines.Found):
        if openai_chat.is_document(first.value):
            return openai_chat.NAME
        seen = [f"a JSON file whose first object has the keys {', '.join(sorted(first.value)[:8]) or 'none'}"]
    message = (
        f"the format of {str(source)!r} is not known. Seen: {'; '.join(seen[:3]) or 'nothing'}. Known: {', '.join((*FORMATS, *STORES))}."
    )
    raise PolicyError(Verdict("transcript", "unknown_format", message=message, remedy="pass one of these as `format`"))


def sample_path() -> Path:
    """A session that is shipped with the package: an agent prepares a release (OpenAI chat, JSONL)."""
    return Path(str(files("lineal"))) / "samples" / "release-day.jsonl"


def _known(format: Any) -> str:
    if format in FORMATS or format in STORES:
        return str(format)
    message = f"there is no transcript format {format!r}. Known: {', '.join((*FORMATS, *STORES))}."
    raise PolicyError(Verdict("transcript", "unknown_format", message=message, remedy="pass one of these, or None to look at the file"))
