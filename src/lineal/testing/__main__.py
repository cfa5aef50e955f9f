"""`python -m lineal.testing`: the campaigns of faults from the command line. Exit code 1 if anything was found wrong."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from lineal.testing import scripts
from lineal.testing.proof import CAMPAIGNS, prove
from lineal.testing.simulation import replay, simulate
from lineal.testing.tally import Tally, table

Engine = click.option("--engine", type=click.Choice(["memory", "sqlite"]), default="memory", show_default=True)
Workers = click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Processes at once.")
AsJson = click.option("--json", "as_json", is_flag=True, help="One JSON document instead of a table.")


class _Progress:
    """How far each campaign is: one line that is written over on a terminal, else only what ends."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()

    def __call__(self, name: str, how_far: str) -> None:
        ended = " in " in how_far
        if self.live:
            click.echo(f"\r\x1b[K{name}: {how_far}", nl=ended, err=True)
        elif ended:
            click.echo(f"{name}: {how_far}", err=True)


def _say(done: list[tuple[str, Tally]], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({name: asdict(tally) for name, tally in done}))
    else:
        click.echo(table(done))
    sys.exit(0 if all(tally.sound for _, tally in done) else 1)


@click.group(help=__doc__)
def main() -> None: ...


@main.command("prove")
@click.argument("names", nargs=-1, type=click.Choice([*CAMPAIGNS]))
@click.option("--scale", type=click.IntRange(min=1), default=1, show_default=True, help="How much of each: 1 takes minutes.")
@Workers
@AsJson
def prove_command(names: tuple[str, ...], scale: int, workers: int, as_json: bool) -> None:
    """Carry out all campaigns, or those named, and print one table."""
    _say(prove([*names], scale, workers, _Progress()), as_json)


@main.command("simulate")
@click.option("--seeds", type=click.IntRange(min=1), default=2_000, show_default=True, help="How many seeds to play.")
@click.option("--first", type=click.IntRange(min=0), default=0, show_default=True, help="The first of them.")
@Engine
@Workers
@AsJson
def simulate_command(seeds: int, first: int, engine: str, workers: int, as_json: bool) -> None:
    """Play seeds of the deterministic simulation."""
    told = _Progress()
    tally = simulate(range(first, first + seeds), engine, workers, lambda t: told("simulation", f"{t.runs:,} of {seeds:,} seeds"))  # type: ignore[arg-type]
    _say([(f"simulation on {engine}", tally)], as_json)


@main.command("replay")
@click.argument("seed", type=int)
@Engine
def replay_command(seed: int, engine: str) -> None:
    """Play one seed again and tell it as a story."""
    click.echo(replay(seed, engine))  # type: ignore[arg-type]


@main.command("story")
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--rewrite", is_flag=True, help="Write what is printed into the file; look at the diff.")
def story_command(path: Path, rewrite: bool) -> None:
    """Play a golden script on the memory engine."""
    try:
        scripts.run(path, scripts.InMemory(), rewrite)
    except scripts.ScriptError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{path.name}: as it says")


@main.command("failover")
@click.option("--writers", type=click.IntRange(min=1), default=4, show_default=True, help="Processes that append and do effects.")
@click.option("--each", type=click.IntRange(min=1), default=100, show_default=True, help="Turns of each before the kill, and after it.")
def failover_command(writers: int, each: int) -> None:
    """Kill a PostgreSQL primary under its writers and promote the standby."""
    from lineal.testing.failover import failover

    found = failover(writers, each)
    click.echo(str(found))
    sys.exit(0 if found.sound else 1)


@main.command("verbs")
def verbs_command() -> None:
    """What can be said in a golden script."""
    click.echo(scripts.table())


if __name__ == "__main__":
    main()
