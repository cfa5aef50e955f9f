"""What the demo proves, counted in the store that it leaves behind: nothing here is remembered from the run but the kills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from lineal import codec
from lineal.demo.script import Script
from lineal.demo.world import World
from lineal.entries import Anchor, CompactionCommitted, RolledBack
from lineal.lineage import from_state
from lineal.session import Session


@dataclass(frozen=True)
class DemoReport:
    """Counts of one demo. `checks`: each invariant and whether it held; `ok` is all of them.

    Tokens are those of the counter bytes/3. `turns`: said on the branch that stands; `left_behind`: by the rollback.
    `effects`: how many in each state of the ledger. `touched_most`: how often the world was touched for one effect, at most.
    """

    transcript: str
    format: str
    conversation: str
    store: str
    world: str
    records: int
    transcript_tokens: int
    view_tokens: int
    entries: int
    turns: int
    left_behind: int
    summaries: int
    spills: int
    aborted: int
    checkpoints: int
    effects: dict[str, int]
    touched: int
    touched_most: int
    answered_by_ledger: int
    anchors: int
    pins: int
    kills: int
    verdicts: tuple[str, ...]
    checks: dict[str, bool] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return bool(self.checks) and all(self.checks.values())

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values, `ok` among them."""
        return {**asdict(self), "verdicts": list(self.verdicts), "ok": self.ok}


@dataclass
class Seen:
    """What only the run itself could see: the head at each kill, what was found there, and what was told on the way."""

    kills: list[int] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)
    checks: dict[str, bool] = field(default_factory=dict)

    def check(self, name: str, holds: bool) -> None:
        """A check may be made more than once; it holds if it always held."""
        self.checks[name] = self.checks.get(name, True) and holds


def count(session: Session, script: Script, store: Path, world: World, seen: Seen) -> DemoReport:
    """Read everything back and count it."""
    kinds = Counter(row.kind for row, _ in session.log.entries())
    commits = [e for _, e in session.log.entries(kinds=("compaction_committed",)) if isinstance(e, CompactionCommitted)]
    status, view, times = session.status(), session.view(), world.times()
    reports = session.verify()
    turns = {t.id: t for t in session.turns()}
    shown = {t.id for t in view.turns}
    same = sum(codec.to_json(turns[s.id].message) == codec.to_json(s.message) for s in script.steps if s.id in turns)
    checks = {
        "killed three times, recovered three times": len(seen.kills) == 3,
        **seen.checks,
        "each effect ran at most once": max(times.values(), default=0) <= 1,
        "every turn stands as it was given": same == len(script.steps) == len(turns),
        "users' exact values carried by every summary": not list(_lost(session)),
        "pins still shown": all(p.text or p.turn in shown for p in view.pins),
        "store verified clean": reports.clean,
    }
    return DemoReport(
        transcript=str(script.path),
        format=script.format,
        conversation=script.name,
        store=str(store),
        world=str(world.path),
        records=len(script.steps),
        transcript_tokens=script.tokens,
        view_tokens=status.tokens,
        entries=sum(kinds.values()),
        turns=len(turns),
        left_behind=kinds["turn"] - len(turns),
        summaries=sum(e.lossy for e in commits),
        spills=sum(not e.lossy for e in commits),
        aborted=kinds["compaction_aborted"],
        checkpoints=kinds["checkpoint"],
        effects=dict(sorted(Counter(row.state for row in session.ledger()).items())),
        touched=sum(times.values()),
        touched_most=max(times.values(), default=0),
        answered_by_ledger=len(seen.answered),
        anchors=len(view.anchors),
        pins=len(view.pins),
        kills=len(seen.kills),
        verdicts=(*seen.verdicts, reports[0].verdict.name),
        checks=checks,
    )


def _lost(session: Session) -> Iterator[Anchor]:
    """Exact values of a user that one generation carried and the next did not."""
    carried: set[Anchor] = set()
    for _, entry in session.log.entries(kinds=("compaction_committed", "rolled_back")):
        if isinstance(entry, RolledBack):
            carried = set(_of_users(from_state(entry.past).anchors))
        elif isinstance(entry, CompactionCommitted):
            yield from carried - set(entry.anchors)
            carried = set(_of_users(entry.anchors))


def _of_users(anchors: tuple[Anchor, ...]) -> Iterator[Anchor]:
    return (a for a in anchors if a.author == "user")


# --- as text ---------------------------------------------------------------------------------------------------------


def counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def table(report: DemoReport) -> Iterator[str]:
    """The closing table, one line a row."""
    r = report
    effects = ", ".join(f"{n} {state}" for state, n in r.effects.items()) or "none"
    rows = (
        ("turns", f"{r.turns:,} stand ({r.left_behind:,} more left behind by the rollback), {r.entries:,} entries"),
        ("generations", f"{r.summaries} summaries, {r.spills} spills, {r.aborted} aborted; {r.checkpoints} checkpoints"),
        ("effects", f"{effects}; the ledger answered for {r.answered_by_ledger}"),
        ("world", f"{r.touched} times touched, at most {r.touched_most} for one effect"),
        ("view now", f"{r.view_tokens:,} of {r.transcript_tokens:,} tokens"),
        ("carried as data", f"{counted(r.anchors, 'exact value')}, {counted(r.pins, 'pin')}"),
        ("kills survived", f"{r.kills}; verdicts {', '.join(dict.fromkeys(r.verdicts))}"),
    )
    yield from (f"  {name:<16}{text}" for name, text in rows)
    checks = [f"{name}: {'yes' if held else 'NO'}" for name, held in r.checks.items()]
    yield from (f"  {left:<58}{right}".rstrip() for left, right in zip_longest(checks[::2], checks[1::2], fillvalue=""))
