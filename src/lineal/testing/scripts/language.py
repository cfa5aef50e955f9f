"""The script language: a story file read into commands with the output that is expected of each, and written back.

A file reads like a dialogue with a store. Lines that begin with `>` are commands; what stands below one is exactly what it
prints. Lines that begin with `#` are for people and are kept. A blank line belongs to the layout.

    # What is said while the summarizer works is not lost.
    > policy trigger=400 ceiling=900 target=150 floor=2
    > dialogue 1..6
    u1..a6 at 1..12
    > meanwhile user u7
    > compact
    meanwhile: u7 at 14
    g1 covers u1..a4, keeps u5..a6 and 1 more; 738 -> 316 tokens
    > must show u7

A command is a verb, words, and `key=value` pairs, quoted as in a shell: "a text", '{"json": 1}'. `B: append ...` is the same
verb through the handle of another process B. `verbs.table()` tells what there is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_OPTION = re.compile(r"^([a-z_]+)=(.*)$", re.DOTALL)
_HANDLE = re.compile(r"^([A-Z]): ?(.*)$")


class ScriptError(AssertionError):
    """A story that cannot be read, or that is not as it says: `path:line`, what, and what to do."""


@dataclass
class Command:
    """One command. `expected` are the lines below it, `handle` the process that is meant ("" for the first)."""

    line: int
    text: str
    verb: str
    words: list[str]
    options: dict[str, str]
    handle: str = ""
    expected: list[str] = field(default_factory=list)


@dataclass
class Script:
    """A whole file. `parts` holds commands and the lines between them, in order."""

    path: Path
    parts: list[Command | str]

    @property
    def commands(self) -> list[Command]:
        return [part for part in self.parts if isinstance(part, Command)]

    def at(self, command: Command) -> str:
        return f"{self.path.name}:{command.line}"

    def written(self, outputs: dict[int, list[str]]) -> str:
        """The file's text with these outputs (by line of their command) in place of what was expected."""
        lines: list[str] = []
        for part in self.parts:
            lines += [part] if isinstance(part, str) else [f"> {part.text}", *outputs.get(part.line, part.expected)]
        return "\n".join(lines).rstrip("\n") + "\n"


def read(path: Path) -> Script:
    """Raises `ScriptError` for a line that is neither a command nor below one."""
    parts: list[Command | str] = []
    last: Command | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith(">"):
            last = parse(line[1:].strip(), number, path.name)
            parts.append(last)
        elif not line.strip() or line.startswith("#"):
            parts.append(line.rstrip())
            last = None
        elif last is None:
            raise ScriptError(f"{path.name}:{number}: {line!r} stands below no command; begin it with > or #")
        else:
            last.expected.append(line.rstrip())
    return Script(path, parts)


def parse(text: str, line: int = 0, name: str = "script") -> Command:
    handle, rest = "", text
    if found := _HANDLE.match(text):
        handle, rest = found[1], found[2]
    try:
        words = shlex.split(rest)
    except ValueError as e:
        raise ScriptError(f"{name}:{line}: {text!r}: {e}") from e
    if not words:
        raise ScriptError(f"{name}:{line}: a command without a verb")
    options = {m[1]: m[2] for word in words[1:] if (m := _OPTION.match(word))}
    return Command(line, text, words[0], [w for w in words[1:] if not _OPTION.match(w)], options, handle)


# --- names in a row --------------------------------------------------------------------------------------------------


def spelled(words: Iterable[str]) -> list[str]:
    """`u1..u4` is u1 u2 u3 u4; every other word is itself."""
    names: list[str] = []
    for word in words:
        found = re.fullmatch(r"([A-Za-z]*)(\d+)\.\.([A-Za-z]*)(\d+)", word)
        if found and found[1] == found[3]:
            names += [f"{found[1]}{n}" for n in range(int(found[2]), int(found[4]) + 1)]
        else:
            names.append(word)
    return names


def shortened(names: Iterable[str]) -> str:
    """The names as they stand, a run of more than four as its first, its last and how many."""
    named = list(names)
    if len(named) <= 4:
        return " ".join(named) or "nothing"
    return f"{named[0]}..{named[-1]} ({len(named)})"


def rows_of_names(names: Iterable[str], most: int = 12) -> list[str]:
    """Each name as it stands; where more than `most` are numbered on and on (m1 m2 ...), their first, last and how many."""
    rows: list[list[str]] = []
    for name in names:
        found = re.fullmatch(r"(\D*)(\d+)", name)
        if rows and found and rows[-1][-1] == f"{found[1]}{int(found[2]) - 1}":
            rows[-1].append(name)
        else:
            rows.append([name])
    return [told for row in rows for told in ([shortened(row)] if len(row) > most else row)]
