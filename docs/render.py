"""Print the generated parts of the docs again, from the code.

    python docs/render.py            write them
    python docs/render.py --check    write nothing; exit 1 and name each part that is out of date

A generated part stands between `<!-- printed: NAME -->` and `<!-- end -->`. NAME is a kind and an argument:

| name | prints |
|---|---|
| `rule NAME` | the decision table of that rule |
| `table MODULE` | the first table in that module's docstring |
| `policy` | the knobs, with the defaults as they really are |
| `engine-promises`, `entry-kinds`, `errors` | the tables of these names |
| `commands` | every command of `lineal`, with its arguments and options |
| `house` | every file of the package, with the first line of its docstring |
| `findings` | every kind of finding of an audit, with its severity |
| `schema` | the SQL of the SQLite engine |
| `limits` | the constants of `LIMITS` below, as they are in the code |
| `example NAME` | the file `examples/NAME.py` |
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "lineal"
PART = re.compile(r"(?P<open><!-- printed: (?P<name>[^>]+?) -->\n)(?P<body>.*?)(?P<close><!-- end -->)", re.DOTALL)


def pages() -> list[Path]:
    """Every page that may have generated parts."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


# --- what can be printed ---------------------------------------------------------------------------------------------


def rule(name: str) -> str:
    from lineal.rules import tables

    return next(table for table in tables() if table.rule == name).markdown()


def table(module: str) -> str:
    """The first table of a docstring, as it stands there."""
    lines = (import_module(module).__doc__ or "").splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("|"))
    end = next((n for n, line in enumerate(lines) if n > start and not line.startswith("|")), len(lines))
    return "\n".join(lines[start:end])


def policy(_: str) -> str:
    """The table of `lineal.policy`, its second column held against the defaults of the class."""
    from lineal.policy import Policy

    printed = table("lineal.policy")
    told = {m[1]: m[2] for m in re.finditer(r"^\| `(\w+)` \| ([^|]+?) \|", printed, re.MULTILINE)}
    for name, value in vars(Policy()).items():
        first = told[name].split()[0].strip('`"').replace(",", "")
        assert first == ("off" if value is None else f"{value}".removesuffix(".0")), f"{name}: told as {told[name]!r}, is {value!r}"
    return printed


def findings(_: str) -> str:
    from lineal.audit import KINDS

    rows = [f"| `{name}` | {kind.severity} | {kind.says} |" for name, kind in KINDS.items()]
    return "\n".join(["| kind | severity | says |", "|---|---|---|", *rows])


def commands(_: str) -> str:
    """One row a command; a group's commands are named with it."""
    from lineal.cli import cli

    rows = [f"| `{usage}` | {said} |" for usage, said in _commands(cli, ())]
    return "\n".join(["| command | does |", "|---|---|", *rows])


def _commands(group: Any, above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name, command in group.commands.items():
        path = (*above, name)
        if hasattr(command, "commands"):
            yield from _commands(command, path)
        else:
            yield " ".join(["lineal", *path, *_words(command)]).replace("|", "\\|"), command.get_short_help_str(200)


EVERYWHERE = ("--json", "--anchor", "--session")  # the page tells of them once
SIZES = ("--trigger", "--ceiling", "--target", "--floor-turns")  # the policy's, told of as [SIZES]


def _words(command: Any) -> Iterator[str]:
    """The arguments of a command, then its options."""
    context = click.Context(command)
    for argument in (p for p in command.params if isinstance(p, click.Argument)):
        yield argument.make_metavar(context)
    options = {max(p.opts, key=len): p for p in command.params if isinstance(p, click.Option)}
    for flag, option in options.items():
        if flag not in (*EVERYWHERE, *SIZES):
            yield f"[{flag}]" if option.is_flag else f"[{flag} {option.make_metavar(context)}]"
    if options.keys() & set(SIZES):
        yield "[SIZES]"


def house(_: str) -> str:
    """Each file with the first line of its docstring; packages with their files below them."""
    rows = ["| file | what it is for |", "|---|---|"]
    packages = sorted(p for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__")
    for path in [*sorted(PACKAGE.glob("*.py")), *(f for p in packages for f in _files(p))]:
        rows.append(f"| `{path.relative_to(PACKAGE)}` | {_first_line(path)} |")
    return "\n".join(rows)


def _files(package: Path) -> list[Path]:
    return [p for p in sorted(package.rglob("*")) if p.is_file() and p.suffix in (".py", ".jsonl", ".html", ".css", ".js")]


def _first_line(path: Path) -> str:
    if path.suffix != ".py":
        return "Data that is shipped with the package."
    return (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n")[0].replace("|", "\\|")


def schema(_: str) -> str:
    from lineal.engines.sqlite_rows import SCHEMA

    return f"```sql\n{SCHEMA.strip()}\n```"


LIMITS = (  # module, constant, unit, what it bounds
    ("session.log", "STATE_EVERY", "entries", "between two materialised states; more where the view has more items"),
    ("session.log", "WRITE_DEADLINE", "s", "of lost races after which a write gives up with `Conflict`"),
    ("rules.compaction", "INEFFECTIVE_MAX", "passes", "without progress before a session is suspended"),
    ("rules.cut", "STUB_LIMIT", "bytes", "above which a block is put aside to make the floor fit under the ceiling"),
    ("fold", "CALIBRATION_FROM", "tokens", "of a view from which reported usage teaches a factor; below, a fixed overhead"),
    ("fold", "FACTOR_MAX", "", "the highest factor that reported usage can teach"),
    ("fold", "DONE_NOTED", "effects", "done and not to be repeated that the view carries; the ledger has all"),
    ("anchors", "ANCHORS_MAX", "anchors", "kept; beyond it tools' and then the assistant's oldest go, of a user's only plain numbers"),
    ("anchors", "LOOKED_AT", "characters", "at each end of a turn in which anchors are looked for"),
    ("tokens", "MEDIA_TOKENS", "tokens", "that an image or a sound counts"),
    ("rules.integrity", "LISTED_MAX", "ids and seqs", "that one report of `verify` lists"),
    ("session.segments", "PLAIN_MAX", "bytes", "of bodies in one segment, unless one row alone has more"),
    ("session.segments", "KEPT", "bytes", "of unpacked segments that a session keeps at hand"),
    ("session.packing", "SMALL", "bytes", "below which a segment is joined with what is packed next in its block"),
    ("engines.sqlite_rows", "SEQ_BITS", "bits", "of a seq in the SQLite engine"),
    ("engines.sqlite", "CHUNK_ROWS", "rows", "that one transaction of a deletion takes at most"),
    ("engines.sqlite", "REWRITE_LIMIT", "bytes", "of a file above which a purge does not rebuild it; `status()` tells"),
)


def limits(_: str) -> str:
    rows = ["| limit | is | bounds |", "|---|---|---|"]
    for module, name, unit, bounds in LIMITS:
        value = getattr(import_module(f"lineal.{module}"), name)
        rows.append(f"| `{module}.{name}` | {value:,} {unit} | {bounds} |".replace("  ", " "))
    return "\n".join(rows)


def example(name: str) -> str:
    return f"```python\n{(ROOT / 'examples' / f'{name}.py').read_text().strip()}\n```"


PRINTERS: dict[str, Callable[[str], str]] = {
    "rule": rule,
    "table": table,
    "policy": policy,
    "engine-promises": lambda _: table("lineal.engines"),
    "entry-kinds": lambda _: table("lineal.entries"),
    "errors": lambda _: table("lineal.errors"),
    "commands": commands,
    "findings": findings,
    "house": house,
    "schema": schema,
    "limits": limits,
    "example": example,
}


def printed(name: str) -> str:
    """What belongs into the part of this name. Raises `KeyError` for a kind that there is none of."""
    kind, _, argument = name.partition(" ")
    return PRINTERS[kind](argument)


# --- pages -----------------------------------------------------------------------------------------------------------


def rendered(text: str) -> str:
    """The page with each of its generated parts as it is now."""
    return PART.sub(lambda m: f"{m['open']}\n{printed(m['name'])}\n\n{m['close']}", text)


def stale(text: str) -> list[str]:
    """Names of the parts of a page that are not what the code prints."""
    return [m["name"] for m in PART.finditer(text) if m["body"] != f"\n{printed(m['name'])}\n\n"]


def main(given: list[str]) -> int:
    if given not in ([], ["--check"]):
        print("usage: python docs/render.py [--check]", file=sys.stderr)
        return 2
    out_of_date = [(page, name) for page in pages() for name in stale(page.read_text())]
    for page, name in out_of_date:
        print(f"{page.relative_to(ROOT)}: {name}: {'out of date' if given else 'printed again'}")
    if given:
        return 1 if out_of_date else 0
    for page in {page for page, _ in out_of_date}:
        page.write_text(rendered(page.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
