"""The mutants' tables are about the code as it is now: every text stands where it is said to, every step and row is named."""

from __future__ import annotations

import ast
import importlib
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from lineal.rules import tables

SRC = Path(__file__).parents[2] / "src" / "lineal"
ROOMS = ("compaction", "effects", "removal", "packing", "travel", "log")


@pytest.fixture
def mutations(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The modules beside this file, as the script imports them."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    yield lambda name: importlib.import_module(f"mutations.{name}")


def first_cells(docstring: str) -> list[str]:
    """The steps of a protocol: the first cell of each row of the table in its room's docstring."""
    lines = [line for line in docstring.splitlines() if line.startswith("|")]
    return [line.split("|")[1].strip() for line in lines[2:]]


def test_every_step_stands_in_its_file_once_and_leaves_it_python(mutations: Any) -> None:
    mutants = list(mutations("steps").mutants())
    assert len(mutants) >= 60
    assert max(Counter(m.name for m in mutants).values()) == 1
    for mutant in mutants:
        source = mutant.source(SRC.parents[1])
        assert source != (SRC / mutant.file).read_text(), mutant.name
        ast.parse(source)


@pytest.mark.parametrize("room", ROOMS)
def test_every_step_of_a_protocol_has_a_mutant(mutations: Any, room: str) -> None:
    named = Counter(step.row for step in mutations("steps").steps() if step.protocol == room)
    wanted = first_cells(ast.get_docstring(ast.parse((SRC / "session" / f"{room}.py").read_text())) or "")
    assert wanted
    assert {row: named[row] > 0 for row in wanted} == dict.fromkeys(wanted, True)
    assert set(named) - {""} <= set(wanted)


def test_every_row_of_every_table_has_its_mutants(mutations: Any) -> None:
    rows = sum(len(table.rows) for table in tables())
    hows = Counter(m.how for m in mutations("rows").mutants())
    assert hows == {"removed": rows, "inverted": rows, "swapped": rows - len(list(tables()))}


def test_every_explanation_is_of_a_mutant_that_exists(mutations: Any) -> None:
    names = [m.name for source in ("steps", "rows", "expressions") for m in mutations(source).mutants()]
    unused = [pattern for pattern in mutations("explained").EXPLAINED if not any(n == pattern or fnmatchcase(n, pattern) for n in names)]
    assert not unused


def test_a_mutant_of_a_function_is_put_into_the_running_process(mutations: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions by their code; a constant of a module cannot be put there, and the script starts a process of its own for it."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))
    codes = mutations("codes")
    old = "LIMIT = 3\ndef least(a, b):\n    return a if a < b else b\n"
    space: dict[str, Any] = {}
    exec(compile(old, "/nowhere.py", "exec"), space)
    assert space["least"](1, 2) == 1
    codes.swap(codes.replaced(old, old.replace("<", ">"), "/nowhere.py"))
    assert space["least"](1, 2) == 2
    assert codes.replaced(old, old.replace("3", "4"), "/nowhere.py") is None
