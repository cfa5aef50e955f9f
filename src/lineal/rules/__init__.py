"""The heart: one question a file. A rule is a table of rows; the first row that holds decides.

A row is data (name, condition and verdict as text, a predicate over the rule's facts), so that the code that
decides, the test for each row and the printed docs are all drawn from the same table. Rules know no I/O, no
clock and no randomness: whatever they must know is in their facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from lineal.errors import Verdict

Facts = TypeVar("Facts")


@dataclass(frozen=True)
class Row(Generic[Facts]):
    """One line of a decision table.

    `when` and `then` are the sentences that the docs print; `holds` is the same condition as a predicate;
    `tell` renders the message with the numbers of the case; `allowed` says which way the row decides.
    """

    name: str
    when: str
    then: str
    holds: Callable[[Facts], bool]
    allowed: bool = False
    tell: Callable[[Facts], str] = field(default=lambda facts: "")
    remedy: str = ""


@dataclass(frozen=True)
class Table(Generic[Facts]):
    """A rule: its name, the record it keeps, the question it answers, and its rows in order."""

    rule: str
    record: str
    question: str
    rows: tuple[Row[Facts], ...]

    def decide(self, facts: Facts, shown: Mapping[str, Any] | None = None) -> Verdict:
        """The verdict of the first row that holds. `shown` goes into the verdict's facts."""
        for row in self.rows:
            if row.holds(facts):
                message = row.tell(facts) or row.when
                return Verdict(self.rule, row.name, row.allowed, message, row.remedy, dict(shown or {}))
        raise AssertionError(f"table {self.rule} has no last row that always holds")

    def row(self, name: str) -> Row[Facts]:
        return next(row for row in self.rows if row.name == name)

    def markdown(self) -> str:
        """The table as the docs print it."""
        lines = [
            f"**{self.rule}** ({self.record}): {self.question}",
            "",
            "| row | condition, first match wins | verdict |",
            "|---|---|---|",
        ]
        lines += [f"| `{row.name}` | {row.when} | {row.then} |" for row in self.rows]
        return "\n".join(lines)


def tables() -> Iterable[Table[Any]]:
    """Every rule's table, in the order the docs print them."""
    from lineal.rules import compaction, emission, guard, integrity, recovery, retention, rollback, summary

    return (
        compaction.TABLE,
        summary.TABLE,
        recovery.TABLE,
        rollback.TABLE,
        emission.TABLE,
        emission.LOOKALIKE,
        integrity.TABLE,
        guard.TABLE,
        retention.TABLE,
    )
