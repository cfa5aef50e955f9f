"""What a campaign of faults did and found: one shape for crashes, power cuts, simulation, histories and tampering.

A campaign returns a `Tally`; tallies add up; `table` prints them. What was found wrong is kept as sentences that say how to
see it again, so that "0" in the table is a count of an empty list and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class Tally:
    """`faults`: how many were injected, by kind. `states`: how often each kind of state was reached.

    `torn`: stores that were neither old nor new; `lost`: acknowledged writes that are gone; `undetected`: damage that was
    read as sound; `broken`: any other promise. Each entry is one sentence, with the seed or place that shows it again.
    """

    runs: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    torn: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    undetected: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.runs + other.runs,
            self.faults + other.faults,
            self.states + other.states,
            self.torn + other.torn,
            self.lost + other.lost,
            self.undetected + other.undetected,
            self.broken + other.broken,
        )

    @property
    def sound(self) -> bool:
        return not (self.torn or self.lost or self.undetected or self.broken)

    def wrong(self) -> list[str]:
        """Everything that was found wrong, in words."""
        named = (("torn", self.torn), ("lost", self.lost), ("undetected", self.undetected), ("broken", self.broken))
        return [f"{name}: {sentence}" for name, found in named for sentence in found]


def table(campaigns: Iterable[tuple[str, Tally]]) -> str:
    """The tallies under their names, one line each, then the faults by kind and the states by kind."""
    named = list(campaigns)
    whole = sum((tally for _, tally in named), Tally())
    width = max([len(name) for name, _ in named] + [len("all")])
    lines = [f"{'campaign':<{width}}  {'runs':>7} {'faults':>8} {'torn':>5} {'lost':>5} {'undetected':>11} {'broken':>7}"]
    lines += [_line(name, tally, width) for name, tally in [*named, ("all", whole)]]
    for title, counted in (("faults injected", whole.faults), ("states reached", whole.states)):
        if counted:
            wide = max(len(kind) for kind in counted)
            lines += ["", title, *(f"  {kind:<{wide}}  {count:>8}" for kind, count in sorted(counted.items()))]
    return "\n".join(lines + [""] * (not whole.sound) + whole.wrong())


def _line(name: str, tally: Tally, width: int) -> str:
    found = f"{len(tally.torn):>5} {len(tally.lost):>5} {len(tally.undetected):>11} {len(tally.broken):>7}"
    return f"{name:<{width}}  {tally.runs:>7} {sum(tally.faults.values()):>8} {found}"
