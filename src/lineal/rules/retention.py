"""Retention: may these rows go, given what still reaches them? (record 004, R46, R52, R55)

A compaction changes the view, never the log. Dropping raw rows is another act, and it asks here first: a row may go
only if nothing that can still be reached needs it. What needs rows is given as ranges of seqs, so the answer is
arithmetic on ranges, and its cost does not grow with the log.

Rows of effects never go, settled or open. Such a row is small, and it is its own tombstone: key, digest, outcome, seq.
So the ledger is never shorter than the watermark of any checkpoint that can still be reached.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from lineal.entries import Range
from lineal.errors import Verdict
from lineal.ranges import count, overlap, subtract, told, union
from lineal.rules import Row, Table


@dataclass(frozen=True)
class Needs:
    """Rows that are still reached, by what reaches them. Field order is the order in which the table names them."""

    view: tuple[Range, ...] = ()
    generations: tuple[Range, ...] = ()
    checkpoints: tuple[Range, ...] = ()
    forks: tuple[Range, ...] = ()
    effects: tuple[Range, ...] = ()
    spills: tuple[Range, ...] = ()
    pins: tuple[Range, ...] = ()
    hosts: tuple[Range, ...] = ()
    segments: tuple[Range, ...] = ()

    def all(self) -> tuple[Range, ...]:
        return union(r for f in fields(self) for r in getattr(self, f.name))


@dataclass(frozen=True)
class RetentionFacts:
    """A run of rows that somebody wants to drop, and what is needed."""

    run: Range
    needs: Needs = Needs()

    def needed_by(self, what: str) -> tuple[Range, ...]:
        """The seqs of the run that `what` (a field of `Needs`) reaches."""
        return overlap((self.run,), getattr(self.needs, what))


def _needed(what: str, when: str, remedy: str) -> Row[RetentionFacts]:
    def tell(facts: RetentionFacts) -> str:
        ranges = facts.needed_by(what)
        return f"asked to drop rows {told((facts.run,))}, but {count(ranges)} of them are needed by {what}: {told(ranges)}."

    return Row(f"needed_by_{what}", when, "keep", lambda f: bool(f.needed_by(what)), tell=tell, remedy=remedy)


TABLE: Table[RetentionFacts] = Table(
    "retention",
    "record 004",
    "may these rows go, given what still reaches them?",
    (
        Row(
            "empty_run",
            "the run holds no row",
            "nothing to drop",
            lambda f: f.run[1] < f.run[0],
            tell=lambda f: f"rows {f.run[0]}..{f.run[1]} are no rows.",
            remedy="give first and last seq, both inside",
        ),
        _needed("view", "a turn of it stands verbatim in the view", "compact or spill these turns first"),
        _needed("generations", "a generation that can be reached, or a compaction in flight, is made of it", "drop the rows around these"),
        _needed("checkpoints", "a rollback to a checkpoint would have to fold it", "drop the rows around these"),
        _needed("forks", "a fork reads it from this log", "drop the rows around these, or purge the fork first"),
        _needed("effects", "it is an effect's row, open or settled: its own tombstone", "drop the rows around these; effect rows stay"),
        _needed("spills", "a spill handle answers with it", "drop the rows around these; a handle stays good"),
        _needed("pins", "a pin promises it verbatim", "unpin it first"),
        _needed("hosts", "a host keeps it, and has not released it", "release it first; `session.release`"),
        _needed("segments", "it is a segment, and holds the content of a row that stays", "drop what it stands for; it is emptied then"),
        Row(
            "free",
            "nothing that can be reached needs it",
            "may go",
            lambda f: True,
            allowed=True,
            tell=lambda f: f"nothing needs rows {told((f.run,))}",
        ),
    ),
)


def judge(facts: RetentionFacts) -> Verdict:
    """May this whole run go? The facts give, for each need that it meets, the ranges that must stay."""
    needed = {f.name: ranges for f in fields(facts.needs) if (ranges := facts.needed_by(f.name))}
    return TABLE.decide(facts, {"run": facts.run, "needed_by": needed})


def prunable(runs: Iterable[Range], needs: Needs) -> tuple[Range, ...]:
    """What of `runs` may go: `judge` allows each range of the answer, and each row left out is needed."""
    return subtract(runs, needs.all())
