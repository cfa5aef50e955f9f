"""The verbs of a story: their names, how they are written, and what carries them out. Each room of `session` has a file here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lineal.session import Session
from lineal.testing.scripts.language import Command, ScriptError
from lineal.testing.scripts.world import World

_NAMED = re.compile(r"([a-z_]+)=")

Act = Callable[[World, Command], Iterable[str]]


@dataclass(frozen=True)
class Verb:
    """`usage` begins with the name; `does` says what it is for and what it prints."""

    name: str
    usage: str
    does: str
    act: Act

    @property
    def options(self) -> set[str] | None:
        """The names of its `key=value` pairs; None for a verb that hands what follows to another one, or to a policy."""
        return None if self.usage.endswith(("COMMAND", "KNOB=VALUE ...", "CHECK ...")) else set(_NAMED.findall(self.usage))


VERBS: dict[str, Verb] = {}


def verb(usage: str, does: str) -> Callable[[Act], Act]:
    """Make a function of the world and a command, which returns the lines to print, the verb that `usage` begins with."""

    def named(act: Act) -> Act:
        name = usage.split()[0]
        VERBS[name] = Verb(name, usage, does, act)
        return act

    return named


def table() -> str:
    """Every verb, as the docs print it."""
    lines = ["| verb | does |", "|---|---|"]
    return "\n".join(
        [*lines, *(f"| `{v.usage.replace('|', chr(92) + '|')}` | {v.does} |" for v in sorted(VERBS.values(), key=lambda v: v.name))]
    )


# --- what most verbs ask of their command ----------------------------------------------------------------------------


def session_of(world: World, command: Command) -> Session:
    return world.session(command.handle)


def word(command: Command, n: int, what: str) -> str:
    """The n-th word. Raises `ScriptError` where there is none."""
    if len(command.words) <= n:
        raise ScriptError(f"{command.text!r} names no {what}: {VERBS[command.verb].usage}")
    return command.words[n]


def number(command: Command, name: str, default: int) -> int:
    found = command.options.get(name)
    try:
        return default if found is None else int(found)
    except ValueError:
        raise ScriptError(f"{command.text!r}: {name}={found} is no whole number") from None


def flag(command: Command, name: str) -> bool:
    return command.options.get(name) == "yes" or name in command.words


def json_of(text: str | None) -> Any:
    """A JSON value, or the text itself where it is none."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


def rest_of(command: Command, words: int = 0) -> str:
    """The command's text behind its verb and so many words: a command of its own."""
    text = command.text.partition(": ")[2] if command.handle else command.text
    for _ in range(words + 1):
        text = text.partition(" ")[2].lstrip()
    return text
