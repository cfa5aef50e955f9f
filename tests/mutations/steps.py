"""Mutants of the protocols, written by hand in `steps/`: each step left out, done too late, or not checked.

A file is a protocol. A block of it is one mutant: what the step is then, the row of its room's own table (the first cell of a
row in the docstring) where it has one, the file, and what stands there before and after:

    ## nothing is committed
    row: append `CompactionCommitted`, read it back
    @ session/compaction.py
    - return [entry]
    + return []

What stands after `- ` must stand in the file exactly once: this table cannot rot while the code moves on. What stands in no
function (a constant, a statement of SQL) names in `tests:` how the tests begin that know of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mutations.mutant import ROOT, SRC, Mutant, enclosing, functions

HERE = Path(__file__).parent / "steps"


@dataclass(frozen=True)
class Step:
    protocol: str
    what: str
    file: str
    old: str
    new: str
    row: str = ""
    tests: tuple[str, ...] = ()


def steps() -> Iterator[Step]:
    for path in sorted(HERE.glob("*.steps")):
        for block in path.read_text().split("## ")[1:]:
            what, *lines = block.rstrip().splitlines()
            found = {mark: [line[len(mark) :].removeprefix(" ") for line in lines if line.startswith(mark)] for mark in MARKS}
            known = sum(map(len, found.values()))
            if known != len([line for line in lines if line]) or len(found["@"]) != 1:
                raise ValueError(f"{path.name}: {what!r} has a line of no known kind, or not one file")
            yield Step(
                path.stem.replace("_", " "),
                what,
                found["@"][0],
                "\n".join(found["-"]),
                "\n".join(found["+"]),
                "".join(found["row:"]),
                tuple(" ".join(found["tests:"]).split()),
            )


MARKS = ("@", "-", "+", "row:", "tests:")


def mutants(root: Path = ROOT) -> Iterator[Mutant]:
    known: dict[str, tuple[str, list[tuple[int, int, str]]]] = {}
    for step in steps():
        if step.file not in known:
            text = (root / SRC / step.file).read_text()
            known[step.file] = text, functions(text)
        text, inside = known[step.file]
        if text.count(step.old) != 1:
            told = f"{text.count(step.old)} places read {step.old!r}"
            raise LookupError(f"{step.file}: {told}; correct steps/{step.protocol.replace(' ', '_')}.steps ({step.what})")
        start = text.index(step.old)
        first = start + len(step.old) - len(step.old.lstrip())
        where = enclosing(inside, first, first + 1)
        if not where and not step.tests:
            raise LookupError(f"{step.file}: {step.what!r} stands in no function; say which tests know of it")
        name = f"{step.protocol}: {step.what}"
        yield Mutant(name, step.protocol, step.row, step.file, start, start + len(step.old), step.new, where, tests=step.tests)
