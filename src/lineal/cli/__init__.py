"""The command line: windows onto a store. Every command takes STORE first and answers `--json`.

Exit codes: 0 done, 1 refused, 2 usage, 3 corrupt, 4 conflict, 5 unavailable.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from lineal import __version__
from lineal.cli import back, change, guard, hooks, house, look, serve, world
from lineal.cli.report import leave_with
from lineal.errors import LinealError

SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "See": (
        change.demo,
        look.log,
        look.context,
        look.status,
        look.ledger,
        look.search,
        look.expand,
        look.sessions,
        look.audit,
    ),
    "Change": (change.import_, change.compact, change.spill, change.pin, change.unpin),
    "Go back": (back.checkpoint, back.recover, back.rollback, back.fork),
    "World": (world.effect, hooks.hook, serve.mcp),
    "House": (house.verify, house.doctor, house.prune, house.pack, house.purge, house.export, house.rules),
    "Guard other stores": (guard.guard,),
}


class Cli(click.Group):
    """The group. Errors leave by their family, whoever calls: the shell, `python -m lineal`, or a test."""

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, standalone_mode: bool = True, **extra: Any
    ) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        if not standalone_mode:
            return super().main(given, prog_name, standalone_mode=False, **extra)
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        try:
            code = super().main(given, prog_name, standalone_mode=False, **extra)
        except (LinealError, click.ClickException, click.Abort) as error:
            code = leave_with(error, "--json" in given)
        sys.exit(code if isinstance(code, int) else 0)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(str(command.name), command.get_short_help_str(100)) for command in commands])


@click.group(cls=Cli, name="lineal", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lineal")
def cli() -> None:
    """The working memory of a long-lived agent: one append-only log, one sequence.

    STORE is a file path or a URL. Exit codes: 0 done, 1 refused, 2 usage, 3 corrupt, 4 conflict, 5 unavailable.
    """


for _commands in SECTIONS.values():
    for _command in _commands:
        cli.add_command(_command)


def main() -> None:
    """Entry point of the `lineal` script."""
    cli(prog_name="lineal")
