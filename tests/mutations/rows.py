"""Mutants of the decision tables: each row removed, inverted, and swapped with the row behind it.

They are made at run time in the table itself. A removed row keeps its place and its name and never holds, so that what
fails is behaviour and not a count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mutations.mutant import Mutant

from lineal.rules import Table, tables

HOWS = {
    "removed": "it never holds",
    "inverted": "it allows what it refused, or refuses what it allowed",
    "swapped": "it is asked after the row behind it",
}


def mutants() -> Iterator[Mutant]:
    for table in tables():
        for n, row in enumerate(table.rows):
            for how, what in HOWS.items():
                if how != "swapped" or n + 1 < len(table.rows):
                    name = f"{table.rule}.{row.name}: {how}"
                    yield Mutant(name, f"rule {table.rule}", what, rule=table.rule, row=row.name, how=how)


def apply(mutant: Mutant) -> None:
    """Change the table for good: in a process that ends afterwards."""
    table = next(t for t in tables() if t.rule == mutant.rule)
    object.__setattr__(table, "rows", changed(table, mutant.row, mutant.how))


def changed(table: Table[Any], row: str, how: str) -> tuple[Any, ...]:
    rows = list(table.rows)
    n = next(n for n, r in enumerate(rows) if r.name == row)
    if how == "removed":
        rows[n] = replace(rows[n], holds=lambda facts: False)
    elif how == "inverted":
        rows[n] = replace(rows[n], allowed=not rows[n].allowed)
    else:
        rows[n], rows[n + 1] = rows[n + 1], rows[n]
    return tuple(rows)
