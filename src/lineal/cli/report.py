"""What a command says: lines and tables for people, or one JSON document; and how each error leaves.

| family | exit code |
|---|---|
| done | 0 |
| refused (also: the user said no, a summarizer failed) | 1 |
| usage | 2 |
| corrupt | 3 |
| conflict | 4 |
| unavailable | 5 |
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Any

import click

from lineal.errors import Conflict, Corrupt, LinealError, Refused, Unavailable, Verdict

FAMILIES = {0: "done", 1: "refused", 2: "usage", 3: "corrupt", 4: "conflict", 5: "unavailable"}
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")  # would move the cursor, colour, reorder or break the line


class Out:
    """Where a command's answer goes. In JSON mode only `give` prints; else everything but it."""

    def __init__(self, as_json: bool):
        self.json = as_json

    def say(self, text: str = "", colour: str | None = None) -> None:
        """One line. What a transcript put into it cannot steer the terminal."""
        if not self.json:
            line = printable(text)
            click.echo(click.style(line, fg=colour) if colour and coloured() else line)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], empty: str = "") -> None:
        """Rows under a heading; whole numbers to the right. `empty` is said instead of a table without rows."""
        if self.json:
            return
        kept = [*rows]
        cells = [[printable(f"{cell:,}" if _is_number(cell) else str(cell)) for cell in row] for row in kept]
        right = [all(_is_number(row[n]) for row in kept) for n in range(len(columns))]
        if not kept:
            self.say(empty)
        elif sys.stdout.isatty():
            _rich_table(columns, cells, right)
        else:
            _plain_table(columns, cells, right)

    def give(self, value: Any) -> None:
        """The answer as the one JSON document on stdout."""
        if self.json:
            click.echo(as_json(value))


def coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def printable(text: str) -> str:
    """The text with everything that a terminal would obey written out as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if unicodedata.category(c) not in _HIDDEN else c.encode("unicode_escape").decode("ascii") for c in text)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int) and not isinstance(cell, bool)


def _plain_table(columns: Sequence[str], cells: list[list[str]], right: list[bool]) -> None:
    widths = [max(len(row[n]) for row in [list(columns), *cells]) for n in range(len(columns))]
    for row in [list(columns), *cells]:
        aligned = (cell.rjust(width) if r else cell.ljust(width) for cell, width, r in zip(row, widths, right, strict=True))
        click.echo("  ".join(aligned).rstrip())


def _rich_table(columns: Sequence[str], cells: list[list[str]], right: list[bool]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, to_right in zip(columns, right, strict=True):
        table.add_column(name, justify="right" if to_right else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


# --- JSON --------------------------------------------------------------------------------------------------------------


def as_json(value: Any, indent: int | None = 2) -> str:
    """JSON as stdout can carry it: on a terminal, and where the encoding lacks something, all but ASCII is written as an escape."""
    text = json.dumps(value, ensure_ascii=sys.stdout.isatty(), indent=indent, default=_plain)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent, default=_plain)
    return text


def _plain(value: Any) -> Any:
    """One step from a value of lineal's towards JSON."""
    if isinstance(value, LinealError):
        return error_fields(value)
    if isinstance(value, Enum):
        return value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "__struct_fields__"):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


# --- progress ------------------------------------------------------------------------------------------------------------


@contextmanager
def counting(out: Out, what: str) -> Iterator[Callable[..., None] | None]:
    """A running count of `what`, with its rate, on stderr, where that is a terminal: called with how many are done (and of how many)."""
    if out.json or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn(f"{{task.completed:,}} {what}, {{task.fields[rate]:,.0f}}/s"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, rate=0.0)
        yield lambda done, of=None: bar.update(task, completed=done, total=of, rate=done / (bar.tasks[task].elapsed or 1.0))


# --- files ---------------------------------------------------------------------------------------------------------------


def written(path: Path, data: bytes, replace: bool) -> None:
    """Write a file whole or not at all. Raises `Refused` if it stands already and may not be replaced, `Unavailable`."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new") if path.name else path
    try:
        if not replace and path.exists():
            raise Refused(Verdict("export", "exists", message=f"{str(path)!r} exists.", remedy="name a file that is not there"))
        fresh.write_bytes(data)
        os.replace(fresh, path)
    except (OSError, ValueError) as e:  # a text that no path can be is a ValueError
        with suppress(OSError, ValueError):
            fresh.unlink(missing_ok=True)
        raise Unavailable(f"file {str(path)!r}", e, "name a place that can be written") from e


# --- errors ------------------------------------------------------------------------------------------------------------


def error_fields(error: LinealError) -> dict[str, Any]:
    """What programs read of an error: its family and the fields of that family."""
    fields: dict[str, Any] = {"type": type(error).__name__, "family": FAMILIES[error.exit_code], "exit_code": error.exit_code}
    fields["message"], _, fields["remedy"] = str(error).partition(" Way out: ")
    if isinstance(error, Refused):
        verdict = error.verdict
        fields |= {"rule": verdict.rule, "reason": verdict.reason, "message": verdict.message, "remedy": verdict.remedy}
        fields["facts"] = dict(verdict.facts)
    if isinstance(error, Conflict):
        fields |= {"session": error.session, "expected_seq": error.expected_seq, "found_seq": error.found_seq}
    if isinstance(error, Corrupt):
        fields |= {"session": error.session, "seq": error.seq, "what": error.what}
        fields |= {"expected": str(error.expected), "found": str(error.found)}
    if isinstance(error, Unavailable):
        fields["cause"] = str(error.cause)
    return fields


def tell_error(error: LinealError) -> None:
    """On stderr: what was refused, with the numbers, and the way out."""
    fields = error_fields(error)
    where = f" ({fields['rule']}, {fields['reason']})" if "rule" in fields else ""
    click.echo(printable(f"{fields['family']}{where}: {fields['message']}"), err=True)
    if fields["remedy"]:
        click.echo(printable(f"way out: {fields['remedy']}"), err=True)


def leave_with(error: LinealError | click.ClickException | click.Abort, as_json_document: bool) -> int:
    """Say the error where it belongs; returns the exit code."""
    if isinstance(error, LinealError):
        if as_json_document:
            Out(True).give({"error": error_fields(error)})
        else:
            tell_error(error)
        return error.exit_code
    code = error.exit_code if isinstance(error, click.ClickException) else 1
    if as_json_document:
        message = error.format_message() if isinstance(error, click.ClickException) else "aborted"
        kind = "Usage" if isinstance(error, click.UsageError) else type(error).__name__
        Out(True).give({"error": {"type": kind, "family": FAMILIES[code], "exit_code": code, "message": message}})
    elif isinstance(error, click.ClickException):
        error.show()
    else:
        click.echo("aborted", err=True)
    return code
