"""Integrity: are these rows one generation, whole, and what they claim to be? (record 004)

Rows are judged one finding at a time, so that a log of any length is judged while it is read: `judge_row` for each row,
`judge_finding` for what lies around them, `conclude` at the end; `judge_rows` does all three. Nothing is skipped and
nothing is repaired here; a report names the verdict, the generation, the ids and the seqs.

The same question about a whole state set that has only hashes is in `guard.py`; its names are offered here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lineal.entries import Range
from lineal.errors import Verdict
from lineal.ranges import told
from lineal.rules import Row, Table
from lineal.rules.guard import CompactionGuard, CompactionManifest, CompactionPolicy, CompactionState, CompactionVerdict

__all__ = [
    "BEING_DELETED",
    "TABLE",
    "AnchorSeen",
    "CompactionGuard",
    "CompactionManifest",
    "CompactionPolicy",
    "CompactionState",
    "CompactionVerdict",
    "Finding",
    "Gap",
    "Mismatch",
    "Report",
    "RowFacts",
    "RowSeen",
    "conclude",
    "judge_finding",
    "judge_row",
    "judge_rows",
    "latched",
]

BEING_DELETED = "it is being deleted"  # the mark of a delete that is under way
LISTED_MAX = 1_000  # a report lists so many ids and seqs of a finding; its detail names the range in any case


@dataclass(frozen=True)
class RowSeen:
    """One row as it was read. `expected_generation`: what the manifest names (None: no manifest names this row).

    `size`, `found_size`: bytes, as the header says and as read. `inner_ok`: the content matches its digest. `link_ok`:
    header and content chain to the row before. `erased`: content is gone; `erased_declared`: a purge entry says so.
    `stands_for`: of a segment, the rows whose content it holds, as the manifest has them.
    """

    seq: int
    generation: int = 0
    expected_generation: int | None = None
    size: int = 0
    found_size: int = 0
    inner_ok: bool = True
    link_ok: bool = True
    erased: bool = False
    erased_declared: bool = False
    id: str = ""
    stands_for: tuple[Range, ...] = ()


@dataclass(frozen=True)
class Gap:
    """Rows `first`..`last` that a manifest or the sequence names, that are not there, and that no prune entry declares."""

    first: int
    last: int
    ids: tuple[str, ...] = ()
    generation: int = 0


@dataclass(frozen=True)
class Mismatch:
    """A generation whose view, folded again, does not give the digest that was committed: `which` is "pre" or "post"."""

    generation: int
    which: str
    seq: int = 0


@dataclass(frozen=True)
class AnchorSeen:
    """The anchor kept outside the data (`seq`, and whether the row there has its digest) beside the `head` that stands."""

    seq: int
    digest_ok: bool
    head: int


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: exactly one field is set. `in_flight`: a generation begun without commit or abort."""

    row: RowSeen | None = None
    in_flight: int | None = None
    gap: Gap | None = None
    leftover: str | None = None
    mismatch: Mismatch | None = None
    anchor: AnchorSeen | None = None


@dataclass(frozen=True)
class Report:
    """One verdict, with the ids and seqs it is about (at most `LISTED_MAX` each). `generation` is the one found, 0 if none."""

    verdict: CompactionVerdict
    generation: int
    ids: tuple[str, ...] = ()
    seqs: tuple[int, ...] = ()
    detail: str = ""

    @property
    def clean(self) -> bool:
        return self.verdict is CompactionVerdict.POST_COMPACTION_CLEAN


def _row(finding: Finding) -> RowSeen:
    assert finding.row is not None
    return finding.row


def _called(row: RowSeen) -> str:
    return f"row {row.seq}, the segment of rows {told(row.stands_for)}," if row.stands_for else f"row {row.seq}"


def _told_gap(finding: Finding) -> str:
    if finding.row is not None:
        return f"{_called(finding.row)} has lost its {finding.row.size} bytes and no purge entry says so"
    assert finding.gap is not None
    return f"rows {told([(finding.gap.first, finding.gap.last)])} are gone and no prune entry says so"


def _told_anchor(finding: Finding) -> str:
    assert finding.anchor is not None
    anchor = finding.anchor
    if anchor.head < anchor.seq:
        return f"the head is at seq {anchor.head}, the anchor outside at seq {anchor.seq}: the tail was cut or an old copy restored"
    return f"the row at seq {anchor.seq} is not the one that the anchor outside names: an old copy was restored"


TABLE: Table[Finding] = Table(
    "integrity",
    "record 004",
    "are these rows one generation, whole, and what they claim to be?",
    (
        Row(
            "in_progress",
            "begun without commit or abort",
            "`COMPACTION_IN_PROGRESS`: read the old generation only",
            lambda f: f.in_flight is not None,
            tell=lambda f: f"generation {f.in_flight} is begun and neither committed nor aborted: read the generation before it only",
        ),
        Row(
            "truncated",
            "a row is shorter than its header says, and not what its digest says",
            "`TRUNCATED` at seq n",
            lambda f: f.row is not None and not f.row.erased and not f.row.inner_ok and f.row.found_size < f.row.size,
            tell=lambda f: f"{_called(_row(f))} has {_row(f).found_size} of its {_row(f).size} bytes",
        ),
        Row(
            "altered",
            "a row is other than its digest or its size says",
            "`ALTERED` at seq n",
            lambda f: f.row is not None and not f.row.erased and (not f.row.inner_ok or f.row.found_size != f.row.size),
            tell=lambda f: f"{_called(_row(f))} ({_row(f).found_size} bytes of {_row(f).size}) is not what its digest says",
        ),
        Row(
            "phantom_deletion",
            "a row in the manifest but not in the store, or without its content, and no prune or purge entry for it",
            "`PHANTOM_DELETION`, ids named",
            lambda f: f.gap is not None or (f.row is not None and f.row.erased and not f.row.erased_declared),
            tell=_told_gap,
        ),
        Row(
            "mixed_generation",
            "a row of another generation than the manifest names",
            "`MIXED_GENERATION_DETECTED`, with the ids of each",
            lambda f: f.row is not None and f.row.expected_generation not in (None, f.row.generation),
            tell=lambda f: f"row {_row(f).seq} is of generation {_row(f).generation}, its manifest names {_row(f).expected_generation}",
        ),
        Row(
            "leftover",
            "a row in the store that no manifest or entry names",
            "`LEFTOVER` of an aborted pass: quarantine",
            lambda f: f.leftover is not None,
            tell=lambda f: f"{f.leftover!r} is in the store and no manifest or entry names it: quarantined until it is removed",
        ),
        Row(
            "chain_broken",
            "a row does not chain to the row before",
            "`CHAIN_BROKEN` at seq n",
            lambda f: f.row is not None and not f.row.link_ok,
            tell=lambda f: f"row {_row(f).seq} does not follow from row {_row(f).seq - 1}: one of them is not what was written",
        ),
        Row(
            "manifest_mismatch",
            "a generation's rows are there, but its pre- or post-digest is another",
            "`ALTERED`, generation named",
            lambda f: f.mismatch is not None,
            tell=lambda f: f.mismatch and f"generation {f.mismatch.generation}: the {f.mismatch.which}-digest does not match" or "",
        ),
        Row(
            "cut_tail",
            "the head is behind the anchor outside, or another row stands at it",
            "`CUT_TAIL`: tail cut, or an old copy restored",
            lambda f: f.anchor is not None and (f.anchor.head < f.anchor.seq or not f.anchor.digest_ok),
            tell=_told_anchor,
        ),
        Row(
            "clean",
            "all match, one generation, post-digest equal",
            "`POST_COMPACTION_CLEAN`",
            lambda f: True,
            allowed=True,
            tell=lambda f: "every row is what was written, of one generation",
        ),
    ),
)

VERDICTS: dict[str, CompactionVerdict] = {
    "in_progress": CompactionVerdict.COMPACTION_IN_PROGRESS,
    "truncated": CompactionVerdict.TRUNCATED,
    "altered": CompactionVerdict.ALTERED,
    "phantom_deletion": CompactionVerdict.PHANTOM_DELETION,
    "mixed_generation": CompactionVerdict.MIXED_GENERATION_DETECTED,
    "leftover": CompactionVerdict.LEFTOVER,
    "chain_broken": CompactionVerdict.CHAIN_BROKEN,
    "manifest_mismatch": CompactionVerdict.ALTERED,
    "cut_tail": CompactionVerdict.CUT_TAIL,
    "clean": CompactionVerdict.POST_COMPACTION_CLEAN,
}


def judge_finding(finding: Finding) -> Report | None:
    """What is wrong with one thing that was looked at; None if nothing is."""
    verdict = TABLE.decide(finding)
    if verdict:
        return None
    generation, ids, seqs = _about(finding)
    return Report(VERDICTS[verdict.reason], generation, ids, seqs, verdict.message)


def judge_row(row: RowSeen) -> Report | None:
    """What is wrong with this row; None if nothing is. Rows are judged alone, so a log is judged while it is read."""
    return judge_finding(Finding(row=row))


def _about(finding: Finding) -> tuple[int, tuple[str, ...], tuple[int, ...]]:
    """(generation, ids, seqs) that a report on the finding names."""
    if finding.row is not None:
        return finding.row.generation, (finding.row.id,) if finding.row.id else (), (finding.row.seq,)
    if finding.gap is not None:
        last = min(finding.gap.last, finding.gap.first + LISTED_MAX - 1)
        return finding.gap.generation, finding.gap.ids[:LISTED_MAX], tuple(range(finding.gap.first, last + 1))
    if finding.mismatch is not None:
        return finding.mismatch.generation, (), (finding.mismatch.seq,) if finding.mismatch.seq else ()
    if finding.anchor is not None:
        return 0, (), (finding.anchor.seq,)
    return finding.in_flight or 0, (finding.leftover,) if finding.leftover else (), ()


@dataclass(frozen=True)
class RowFacts:
    """A whole range of rows and what was found around it. `generation`: the one that is the truth now."""

    rows: Iterable[RowSeen] = ()
    generation: int = 0
    in_flight: int | None = None
    gaps: Iterable[Gap] = ()
    leftovers: Iterable[str] = ()
    mismatches: Iterable[Mismatch] = ()
    anchor: AnchorSeen | None = None


def judge_rows(facts: RowFacts) -> tuple[Report, ...]:
    """Everything that is wrong, or the one report `POST_COMPACTION_CLEAN`. `facts.rows` is read once, in order."""
    return conclude((r for f in _findings(facts) if (r := judge_finding(f))), facts.in_flight, facts.generation)


def _findings(facts: RowFacts) -> Iterator[Finding]:
    yield from (Finding(row=row) for row in facts.rows)
    yield from (Finding(gap=gap) for gap in facts.gaps)
    yield from (Finding(leftover=id) for id in facts.leftovers)
    yield from (Finding(mismatch=mismatch) for mismatch in facts.mismatches)
    yield Finding(anchor=facts.anchor)


def conclude(reports: Iterable[Report], in_flight: int | None, generation: int) -> tuple[Report, ...]:
    """The end of an examination: one report for each verdict and generation found, an open compaction first.

    `in_flight`: a generation begun without commit or abort. `generation`: the one that is the truth now. If nothing
    was found and nothing is open, the one report is `POST_COMPACTION_CLEAN`.
    """
    merged: dict[tuple[CompactionVerdict, int], Report] = {}
    more: dict[tuple[CompactionVerdict, int], int] = {}
    open_pass = judge_finding(Finding(in_flight=in_flight))
    for report in (*((open_pass,) if open_pass else ()), *reports):
        at = (report.verdict, report.generation)
        first = merged.get(at)
        if first is None:
            merged[at], more[at] = report, 0
            continue
        more[at] += 1
        if max(len(first.ids), len(first.seqs)) < LISTED_MAX:
            merged[at] = replace(first, ids=(first.ids + report.ids)[:LISTED_MAX], seqs=(first.seqs + report.seqs)[:LISTED_MAX])
    found = tuple(replace(r, detail=f"{r.detail}; and {more[at]} more") if more[at] else r for at, r in merged.items())
    return found or (Report(CompactionVerdict.POST_COMPACTION_CLEAN, generation, detail=TABLE.decide(Finding()).message),)


def latched(session: str, why: str) -> Verdict:
    """The answer to every write into a session that carries a mark (R6, R54)."""
    verified = "run verify(); it lifts the latch once nothing is wrong. Undamaged entries can be read and exported"
    return Verdict(
        "integrity",
        "latched",
        message=f"session {session!r} is read-only: {why}",
        remedy="call delete() of the store again; it goes on where it stopped" if why == BEING_DELETED else verified,
        facts={"damage": why},
    )
