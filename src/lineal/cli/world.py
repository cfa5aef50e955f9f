"""Commands about effects: what was done to the world, and what was found out about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lineal.cli.look import show_ledger
from lineal.cli.report import Out
from lineal.cli.stores import on_session

if TYPE_CHECKING:
    from lineal.session import Session

STATES = ("intended", "done", "no_effect", "unknown", "compensated")


@click.group("effect", short_help="List effects, or say what was found out about one.")
def effect() -> None:
    """List effects, or say what was found out about one."""


@effect.command("list", short_help="List effects, all or those in a state.")
@on_session
@click.option("--state", "states", type=click.Choice(STATES), multiple=True, help="Only effects in this state.")
def list_(out: Out, session: Session, states: tuple[str, ...]) -> None:
    """List the effects of the log, all or those in a state."""
    show_ledger(out, session, states)


@effect.command("resolve", short_help="Record what was found out about an effect.")
@on_session
@click.argument("key")
@click.argument("finding", type=click.Choice(["happened", "not_happened", "compensated"]))
@click.option("--note", default="", metavar="TEXT", help="How it was found out.")
def resolve(out: Out, session: Session, key: str, finding: str, note: str) -> None:
    """Record what was found out about the effect KEY in the world."""
    row = session.resolve_effect(key, finding, note)
    out.give({"session": session.name, "effect": row})
    out.say(f"effect {row.key} ({row.tool}, seq {row.seq}) is now {row.state}")
