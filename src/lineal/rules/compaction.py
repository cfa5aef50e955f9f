"""May this cut be summarised away, or must we spill, or halt? (record 002)

Asked twice with the same table: when a compaction is planned, and again when it is committed, with the head of that
moment. Two proofs carry it:

- *floor coverage*: every turn of the floor stands in the window (covered + kept) and is kept;
- *removal coverage*: every turn that leaves the view was really received by the summarizer, or is spilled byte-exact.

`rules/cut.py` chooses what would be covered; this table says whether that may be done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from lineal.errors import PolicyError, UnrecoverableCompactionError, Verdict
from lineal.rules import Row, Table

INEFFECTIVE_MAX = 2  # passes without progress between two external inputs (R23)


# --- the table ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CompactionFacts:
    """What the rule must know. Every field's default is the harmless value, so that a phase fills in what it knows."""

    other_in_flight: str = ""  # who, and until when, when another compaction is in flight with a live holder
    overtaken: str = ""  # why the plan is no longer the compaction in flight
    suspended: bool = False
    automatic: bool = False
    unchanged: bool = False  # nothing was appended or changed since the last generation was committed
    coverable: int = 1  # items that nothing protects
    new_turns: int = 1  # turns among them
    held_by: tuple[str, ...] = ()
    over_window: tuple[str, ...] = ()  # the oldest coverable turn, where the summarizer's window cannot hold its unit
    floor_missing: tuple[str, ...] = ()
    floor_range: str = ""
    kept_tokens: int = 0
    ceiling: int = 0
    unpartitioned: tuple[str, ...] = ()
    protected_now: tuple[str, ...] = ()
    not_received: tuple[str, ...] = ()
    summary: Verdict = field(default=Verdict("summary", "accepted", True))
    anchors_lost: tuple[str, ...] = ()
    tokens: tuple[int, int] = (1, 0)
    bytes: tuple[int, int] = (1, 0)
    items: tuple[int, int] = (1, 0)  # counted only where the view was above its budget of items
    min_gain: float = 0.0


def _some(ids: Sequence[str]) -> str:
    return ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")


def _gains(f: CompactionFacts) -> bool:
    fewer = f.tokens[1] < f.tokens[0] and f.tokens[1] <= f.tokens[0] * (1 - f.min_gain)
    return fewer and f.bytes[1] < f.bytes[0] and f.items[1] < f.items[0]


TABLE: Table[CompactionFacts] = Table(
    "compaction",
    "record 002",
    "may these turns be summarised away?",
    (
        Row(
            "in_flight",
            "another compaction of this session is in flight with a live holder",
            "refuse: wait or fence",
            lambda f: bool(f.other_in_flight),
            tell=lambda f: f"another compaction is in flight ({f.other_in_flight}).",
            remedy="wait for it, or let its lease run out and call recover()",
        ),
        Row(
            "overtaken",
            "at commit: the plan is no longer the one in flight, or the head epoch moved (rollback, purge, abort)",
            "refuse: the newer state wins (R32)",
            lambda f: bool(f.overtaken),
            tell=lambda f: f"{f.overtaken}.",
            remedy="plan again from what stands now",
        ),
        Row(
            "suspended",
            f"automatic pass, and {INEFFECTIVE_MAX} passes made no progress since the last external input",
            "refuse until a user turn comes, or the policy or pins change (R23)",
            lambda f: f.suspended and f.automatic,
            tell=lambda f: f"suspended: kept turns take {f.kept_tokens:,} tokens under a ceiling of {f.ceiling:,}.",
            remedy="raise the budget, lower floor_turns, unpin, or call compact() yourself",
        ),
        Row(
            "floor_missing",
            "a floor turn is missing from the window (evicted, pruned, unreadable)",
            "refuse; spill what is left; halt naming the evicted range",
            lambda f: bool(f.floor_missing),
            tell=lambda f: f"{len(f.floor_missing)} floor turns are not in the window: {_some(f.floor_missing)} ({f.floor_range}).",
            remedy="append them again, or go on once the floor has moved past them; nothing was removed",
        ),
        Row(
            "floor_over_budget",
            "what must stay verbatim is above the ceiling even with its oversized blocks as stubs",
            "refuse with the numbers; never drop a pin or the floor to fit",
            lambda f: f.kept_tokens > f.ceiling > 0,
            tell=lambda f: f"what must stay takes {f.kept_tokens:,} tokens, the ceiling is {f.ceiling:,}.",
            remedy="raise ceiling, lower floor_turns, or unpin",
        ),
        Row(
            "over_window",
            "a unit that would be covered is larger than the summarizer's window",
            "refuse; spill that unit, then go on with the rest (R27)",
            lambda f: bool(f.over_window),
            tell=lambda f: f"the unit of {_some(f.over_window)} is larger than what the summarizer can read in one call.",
            remedy="spill it, or use a summarizer with a larger window",
        ),
        Row(
            "unchanged",
            "nothing was appended, pinned, unpinned or set otherwise since the last generation",
            "no-op, zero summarizer calls (R24)",
            lambda f: f.unchanged,
            tell=lambda f: "nothing has changed since the last compaction.",
            remedy="append more, lower floor_turns, or unpin",
        ),
        Row(
            "nothing_to_cover",
            "range empty: everything is floor, pinned or already covered",
            "no-op, zero summarizer calls (R14)",
            lambda f: f.new_turns == 0 and not set(f.held_by) & {"open call"},
            tell=lambda f: "nothing to cover: every turn of the view is protected or already stood for.",
            remedy="append more, lower floor_turns, or unpin",
        ),
        Row(
            "indivisible",
            "every turn that could be covered belongs to an open call, or to a unit that must stay",
            "shrink the cut to the unit's edge; nothing left: refuse, zero summarizer calls (R11, R14)",
            lambda f: f.new_turns == 0,
            tell=lambda f: f"the view is held together by {', '.join(f.held_by)}.",
            remedy="append the missing result (or one that says the outcome is unknown), then compact",
        ),
        Row(
            "not_partition",
            "covered and kept are not exactly the window, or a covered turn was pinned meanwhile",
            "refuse: a bug or a race (R8)",
            lambda f: bool(f.unpartitioned or f.protected_now),
            tell=lambda f: f"not in exactly one of covered and kept: {_some(f.unpartitioned + f.protected_now)}.",
            remedy="plan again from what stands now",
        ),
        Row(
            "not_received",
            "covered is not inside what the summarizer received (a retry trimmed, a chunk failed)",
            "cover only what it received, else refuse (R9)",
            lambda f: bool(f.not_received),
            tell=lambda f: f"the summarizer did not receive {len(f.not_received)} covered turns: {_some(f.not_received)}.",
            remedy="give it the whole request, or a smaller window so that it is asked in chunks",
        ),
        Row(
            "summary_refused",
            "the summary is not acceptable (table *summary*)",
            "refuse; log and generation stay as they are",
            lambda f: not f.summary.allowed,
            tell=lambda f: f"{f.summary.message} (summary: {f.summary.reason}).",
            remedy="summarise again; nothing was removed",
        ),
        Row(
            "anchor_lost",
            "an anchor (pin, constraint, exact value marked load-bearing) would not be carried as data",
            "carry it, or refuse (R18)",
            lambda f: bool(f.anchors_lost),
            tell=lambda f: f"{len(f.anchors_lost)} anchors would be lost: {_some(f.anchors_lost)}.",
            remedy="pin fewer texts, or purge what is no longer needed",
        ),
        Row(
            "no_gain",
            "the view does not shrink by the minimum gain in tokens, and in bytes (and in items, if these were the trouble)",
            f"refuse; after {INEFFECTIVE_MAX} such passes a durable *suspended* with the numbers (R22, R23)",
            lambda f: not _gains(f),
            tell=lambda f: f"tokens {f.tokens[0]:,} -> {f.tokens[1]:,}, bytes {f.bytes[0]:,} -> {f.bytes[1]:,}: not worth it.",
            remedy="use a shorter summary, or wait until there is more to cover",
        ),
        Row("safe", "otherwise", "commit, compare-and-set on parent generation and head epoch", lambda f: True, allowed=True),
    ),
)


def judge(facts: CompactionFacts) -> Verdict:
    """The verdict for a plan or a commit, with its numbers as facts."""
    shown = {
        "kept_tokens": facts.kept_tokens,
        "ceiling": facts.ceiling,
        "floor_missing": facts.floor_missing,
        "not_received": facts.not_received,
        "over_window": facts.over_window,
        "tokens": facts.tokens,
        "bytes": facts.bytes,
        "summary": facts.summary.reason,
    }
    return TABLE.decide(facts, shown)


# --- the names of record 002 -------------------------------------------------------------------------------------------

T = TypeVar("T")


def assert_compaction_safe(floor: Iterable[int], window: Iterable[int], evicted: Iterable[int] = ()) -> None:
    """Raise `UnrecoverableCompactionError` unless every turn of `floor` is in `window` and none was evicted before.

    All three are seqs (or offsets) of turns. A superset is asked for, not an overlap; an empty floor promises nothing.
    """
    promised, read, dropped = sorted(set(floor)), set(window), set(evicted)
    missing = [n for n in promised if n not in read or n in dropped]
    if missing:
        facts = CompactionFacts(floor_missing=tuple(map(str, missing)), floor_range=f"{missing[0]}..{missing[-1]}")
        raise UnrecoverableCompactionError(judge(facts))


def maybe_auto_compact(
    occupancy: int,
    trigger: int,
    floor: Iterable[int],
    window: Iterable[int],
    evicted: Iterable[int],
    compact: Callable[[], T],
    spill: Callable[[], T] | None = None,
) -> T | None:
    """Below `trigger` tokens nothing; else `compact()` if the floor is proven, else `spill()`, else halt.

    Halting raises `UnrecoverableCompactionError`, which names the range. The decision is made before anything is called.
    """
    if trigger <= 0 or occupancy < 0:
        raise PolicyError(Verdict("compaction", "numbers", message=f"occupancy {occupancy}, trigger {trigger}.", remedy="give tokens"))
    if occupancy < trigger:
        return None
    try:
        assert_compaction_safe(floor, window, evicted)
    except UnrecoverableCompactionError:
        if spill is None:
            raise
        return spill()
    return compact()
