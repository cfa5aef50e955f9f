"""Commands for stores of others: a manifest of a table before its engine compacts, and the table held against it after."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineal.cli.report import Out, as_json, counting
from lineal.cli.stores import answers
from lineal.errors import Corrupt, Refused, Unavailable

if TYPE_CHECKING:
    from lineal.guarding import Checked, Manifest

manifest_option = click.option(
    "--manifest", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="The manifest."
)


@click.group("guard", short_help="Guard a table of somebody else's store.")
def guard() -> None:
    """Guard a table of somebody else's store: what it held before its engine compacted, and whether it still does.

    URL is an SQLite file, postgresql://..., rocksdb:///folder, or cassandra:///folder?schema=FILE. It is only read.
    """


@guard.command("take", short_help="Write a manifest of what a foreign table holds.")
@answers
@click.argument("url", metavar="URL")
@manifest_option
@click.option("--table", metavar="TABLE", help="The table (default: the only one); with RocksDB a column family.")
@click.option("--prefix", metavar="PREFIX", help="RocksDB: only keys that begin so; a text, or 0x and hex digits.")
@click.option(
    "--id", "ids", multiple=True, metavar="COLUMN", help="A column that names a record (default: the primary key); may be repeated."
)
@click.option("--generation", metavar="COLUMN", help="The column of whole numbers that says of which generation a record is.")
@click.option("--where", metavar="SQL", help="SQL stores: only rows of which this condition holds.")
def take(out: Out, url: str, manifest: Path, ids: tuple[str, ...], **asked: Any) -> None:
    """Write a manifest of what a foreign table holds now: ids, digests and generations, as of one moment.

    A `take` that was cut off goes on when it is run again in the same way.
    """
    from lineal.guarding import take as take_manifest

    with counting(out, "records") as progress:
        taken = take_manifest(url, manifest, ids=ids, progress=progress, **asked)
    _say_manifest(out, taken)


@guard.command("check", short_help="Hold a foreign table against its manifest.")
@answers
@click.argument("url", metavar="URL")
@manifest_option
@click.option(
    "--post", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="A manifest of after a pass that changes contents."
)
@click.option("--expect-generation", "generation", type=int, metavar="N", help="The generation that the pass writes to every record.")
@click.option(
    "--ids", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write every id with a fault there, as JSON lines."
)
def check(out: Out, url: str, manifest: Path, post: Path | None, generation: int | None, ids: Path | None) -> None:
    """Hold a foreign table against its manifest and name what is missing, altered or extra.

    Exit code 0 if it is clean, 1 while maintenance runs, 3 if anything is not as it was.
    """
    from lineal.guarding import check as check_table

    with _told_to(ids) as tell, counting(out, "records") as progress:
        checked = check_table(url, manifest, post=post, generation=generation, tell=tell, progress=progress)
    out.give({"verdict": checked.verdict, "clean": checked.clean, "readable": checked.readable, "checked": checked})
    _say_checked(out, checked)
    if not checked.clean:
        click.get_current_context().exit(Refused.exit_code if checked.in_progress and not checked.damage else Corrupt.exit_code)


@guard.command("show", short_help="Show what a manifest says.")
@answers
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
def show(out: Out, file: Path) -> None:
    """Check a manifest to its last byte and show what it says."""
    from lineal.guarding import opened

    _say_manifest(out, opened(file))


def _say_manifest(out: Out, manifest: Manifest) -> None:
    header, footer = manifest.header, manifest.footer
    out.give({"manifest": str(manifest.path), "header": header, "footer": footer})
    only = f", where {header['where']}" if header["where"] else f", keys {header['prefix']}..." if header["prefix"] else ""
    out.say(f"{manifest.count:,} records of {header['table']!r} in {header['place']}{only}, named by {', '.join(header['ids'])}")
    out.say(f"state hash   {manifest.state_hash}")
    if header["generation"]:
        out.say("generations  " + ", ".join(f"{g}: {n:,} records" for g, n in manifest.generations.items()))
    out.say(f"taken        {footer['taken']}, engine at {footer['position']:,}")
    for line in (*footer["running"], *footer["notes"]):
        out.say(f"engine       {line}")


def _say_checked(out: Out, checked: Checked) -> None:
    from lineal.guarding import FAULTS

    counts = checked.counts
    colour = "green" if checked.clean else "yellow" if checked.in_progress else "red"
    found = f"{counts['found']:,} records, {counts['expected']:,} in the manifest" if checked.compared else "nothing could be read"
    out.say(f"{checked.verdict.name}: {found}", colour)
    rows = [
        (fault, counts[fault], _first(getattr(checked, fault), counts[fault])) for fault in FAULTS if checked.compared and counts[fault]
    ]
    if rows:
        out.table(("fault", "records", "ids"), rows)
    if len(checked.generations) > 1 or (checked.generations and 0 not in checked.generations):
        out.say("generations seen: " + ", ".join(f"{g}: {n:,}" for g, n in checked.generations.items()))
    for label, lines in (("running", checked.running), ("damage", checked.damage), ("engine", checked.notes)):
        for line in lines:
            out.say(f"{label}: {line}")
    if checked.in_progress and checked.readable:
        out.say("What was read is one snapshot, and as the manifest says.")
    out.say(checked.directive)


SHOWN = 8  # ids of a fault in the table for people


def _first(ids: tuple[Any, ...], count: int) -> str:
    return ", ".join(map(str, ids[:SHOWN])) + (", ..." if count > SHOWN else "")


@contextmanager
def _told_to(path: Path | None) -> Iterator[Callable[[str, Any], None] | None]:
    """What writes faults to a file, a JSON line each."""
    if path is None:
        yield None
        return
    try:
        with open(path, "w", encoding="utf-8") as file:

            def tell(fault: str, key: Any) -> None:
                if key is None:  # the records are read anew
                    file.seek(0)
                    file.truncate()
                else:
                    file.write(f"{as_json({'fault': fault, 'id': key}, indent=None)}\n")

            yield tell
    except (OSError, ValueError) as e:  # a text that no path can be is a ValueError
        raise Unavailable(f"file {str(path)!r}", e, "name a place that can be written") from e
