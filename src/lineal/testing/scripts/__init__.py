"""Golden scripts: stories about a store in a small language, played on any engine, that read as prose and are checked to the letter.

`play` carries a story out and gives what it prints; `run` compares that with what the file says, or writes it there. Three
things can fail it: a printed line that differs, a `must` (which no rewriting touches), and the oracle after each command.
`language` says how a file is written, `verbs.table()` what can be said in it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from lineal.errors import LinealError
from lineal.testing.scripts import breaking, compacting, doing, going, looking, must, saying, telling  # noqa: F401 - they register their verbs
from lineal.testing.scripts.language import Command, Script, ScriptError, read
from lineal.testing.scripts.places import InFile, InMemory, Place
from lineal.testing.scripts.verbs import VERBS, table
from lineal.testing.scripts.world import World

__all__ = ["InFile", "InMemory", "Place", "Script", "ScriptError", "play", "read", "run", "table"]


def carry_out(world: World, command: Command) -> list[str]:
    """What the command prints, behind what hooks and the summarizer did on the way. Errors of lineal are told, not raised.

    Raises `ScriptError` for a verb or an option that there is not, and whatever else its verb raises.
    """
    understood(command)
    try:
        lines = list(VERBS[command.verb].act(world, command))
    except LinealError as error:
        world.last = error
        lines = [telling.error(error)]
    aside, world.aside = world.aside, []
    return [*aside, *lines]


def understood(command: Command) -> None:
    """Raise `ScriptError` for a verb that there is not, or an option that the verb does not have."""
    if command.verb not in VERBS:
        raise ScriptError(f"no verb {command.verb!r}{nearest(command.verb, VERBS)}")
    known = VERBS[command.verb].options
    for name in command.options:
        if known is not None and name not in known:
            raise ScriptError(f"{command.verb} has no option {name!r}{nearest(name, known)}")


def nearest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(known)) or 'none'}"


def play(script: Script, place: Place, printed: dict[int, list[str]] | None = None) -> dict[int, list[str]]:
    """Carry the story out on this place: what each command prints, by its line; `printed` is filled as it goes.

    Raises `ScriptError` where a `must` or the oracle is not kept, or a command cannot be understood.
    """
    world = World(place, carry_out)
    printed = {} if printed is None else printed
    try:
        for command in script.commands:
            try:
                printed[command.line] = carry_out(world, command)
            except ScriptError as error:
                raise ScriptError(f"{script.at(command)}: {error}") from error
            except Exception as error:
                raise ScriptError(f"{script.at(command)}: {command.text!r} raised {type(error).__name__}: {error}") from error
            if command.verb != "must":
                world.told = printed[command.line]
                wrong = world.wrong()
                if wrong:
                    raise ScriptError(f"{script.at(command)}: after {command.text!r}: " + "; ".join(wrong))
    finally:
        world.leave_all()
    return printed


def run(path: Path, place: Place, rewrite: bool = False) -> None:
    """Play the story and hold it against its file; with `rewrite` write what it printed into the file, and look at the diff."""
    script, printed = read(path), dict[int, list[str]]()
    try:
        play(script, place, printed)
    finally:
        if rewrite:
            path.write_text(script.written(printed), encoding="utf-8")
    if rewrite:
        return
    wrong = [c for c in script.commands if printed[c.line] != c.expected]
    if wrong:
        expected, found = script.written({}).splitlines(), script.written(printed).splitlines()
        diff = "\n".join(difflib.unified_diff(expected, found, "as the story says", f"as it is on {place.name}", lineterm="", n=2))
        raise ScriptError(f"{script.at(wrong[0])}: {wrong[0].text!r} printed something else\n{diff}")
