"""What a mutant is: one stretch of one source file replaced by another, or one row of one table changed."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = "src/lineal"


@dataclass(frozen=True)
class Mutant:
    """`name` is stable as long as the code says the same, so that an explanation stays with it.

    With `file` (below `src/lineal`): the characters `start` to `end` become `new`. With `rule`: the row `row` of that rule's
    table is removed, inverted, or swapped with the row behind it (`how`). `where`: qualified name of the function that is
    changed, empty for what stands outside of one. `tests`: beginnings of the names of tests to run, where `where` is empty.
    """

    name: str
    group: str
    what: str = ""
    file: str = ""
    start: int = 0
    end: int = 0
    new: str = ""
    where: str = ""
    rule: str = ""
    row: str = ""
    how: str = ""
    tests: tuple[str, ...] = ()

    def source(self, root: Path) -> str:
        """The whole file with the mutant in it."""
        text = (root / SRC / self.file).read_text()
        return text[: self.start] + self.new + text[self.end :]


def offsets(text: str) -> list[int]:
    """Where each line begins, in characters."""
    found = [0]
    for line in text.splitlines(keepends=True):
        found.append(found[-1] + len(line))
    return found


def position(text: str, lines: list[int], line: int, column: int) -> int:
    """A place as `ast` tells it (lines from 1, columns in bytes) as an offset in characters."""
    start = lines[line - 1]
    return start + len(text[start : lines[line]].encode()[:column].decode())


def functions(text: str) -> list[tuple[int, int, str]]:
    """(start, end, qualified name) of every function and lambda, as Python names their code; a lambda's has its line."""
    lines, found = offsets(text), list[tuple[int, int, str]]()

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                last = child.end_lineno or child.lineno
                span = position(text, lines, child.lineno, child.col_offset), position(text, lines, last, child.end_col_offset or 0)
                name = f"{prefix}<lambda>@{child.lineno}" if isinstance(child, ast.Lambda) else f"{prefix}{child.name}"
                found.append((*span, name))
                inner = f"{name.split('@')[0]}.<locals>."
            elif isinstance(child, ast.ClassDef):
                inner = f"{prefix}{child.name}."
            walk(child, inner)

    walk(ast.parse(text), "")
    return found


def enclosing(found: list[tuple[int, int, str]], start: int, end: int) -> str:
    """The innermost function around a stretch, or nothing."""
    around = [(b - a, name) for a, b, name in found if a <= start and end <= b]
    return min(around)[1] if around else ""
