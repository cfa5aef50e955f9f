"""Are these rows one generation, whole, and what they claim to be (record 004): a case for each row, then whole ranges."""

from dataclasses import replace

import pytest

from lineal.rules.integrity import (
    LISTED_MAX,
    TABLE,
    VERDICTS,
    AnchorSeen,
    CompactionVerdict,
    Finding,
    Gap,
    Mismatch,
    Report,
    RowFacts,
    RowSeen,
    conclude,
    judge_finding,
    judge_row,
    judge_rows,
)

V = CompactionVerdict
WHOLE = RowSeen(57, generation=3, expected_generation=3, size=100, found_size=100, id="t57")

CASES = [
    ("in_progress", Finding(in_flight=4)),
    ("truncated", Finding(row=replace(WHOLE, found_size=60, inner_ok=False))),
    ("altered", Finding(row=replace(WHOLE, inner_ok=False))),
    ("altered", Finding(row=replace(WHOLE, inner_ok=False, found_size=101))),
    ("altered", Finding(row=replace(WHOLE, found_size=60))),
    ("altered", Finding(row=replace(WHOLE, inner_ok=False, link_ok=False, generation=2))),
    ("phantom_deletion", Finding(gap=Gap(5, 7, ("t5", "t7"), 1))),
    ("phantom_deletion", Finding(row=replace(WHOLE, erased=True, found_size=0, inner_ok=False))),
    ("mixed_generation", Finding(row=replace(WHOLE, generation=2))),
    ("mixed_generation", Finding(row=replace(WHOLE, generation=2, link_ok=False))),
    ("leftover", Finding(leftover="g6")),
    ("chain_broken", Finding(row=replace(WHOLE, link_ok=False))),
    ("chain_broken", Finding(row=replace(WHOLE, erased=True, erased_declared=True, link_ok=False))),
    ("manifest_mismatch", Finding(mismatch=Mismatch(3, "post", 44))),
    ("manifest_mismatch", Finding(mismatch=Mismatch(3, "pre"))),
    ("cut_tail", Finding(anchor=AnchorSeen(60, True, 57))),
    ("cut_tail", Finding(anchor=AnchorSeen(57, False, 60))),
    ("clean", Finding()),
    ("clean", Finding(row=WHOLE)),
    ("clean", Finding(row=replace(WHOLE, expected_generation=None))),
    ("clean", Finding(row=replace(WHOLE, erased=True, erased_declared=True, found_size=0, inner_ok=False))),
    ("clean", Finding(anchor=AnchorSeen(57, True, 57))),
    ("clean", Finding(anchor=AnchorSeen(57, True, 60))),
]


@pytest.mark.parametrize(("row", "finding"), CASES, ids=[f"{row}-{i}" for i, (row, _) in enumerate(CASES)])
def test_row(row: str, finding: Finding) -> None:
    """R61, R64: each row decides its case; a report says what, where and why."""
    verdict = TABLE.decide(finding)
    assert verdict.reason == row
    assert verdict.message
    report = judge_finding(finding)
    if row == "clean":
        assert report is None
    else:
        assert report is not None
        assert report.verdict is VERDICTS[row]
        assert report.detail == verdict.message
        assert not report.clean


def test_every_row_has_a_case_and_a_verdict() -> None:
    names = {row.name for row in TABLE.rows}
    assert {row for row, _ in CASES} == names
    assert set(VERDICTS) == names


def test_every_verdict_can_be_found() -> None:
    assert set(VERDICTS.values()) == set(CompactionVerdict)


def test_a_report_names_seq_id_and_numbers() -> None:
    """R59: where, expected and found."""
    report = judge_row(replace(WHOLE, found_size=60, inner_ok=False))
    assert report is not None
    assert (report.generation, report.ids, report.seqs) == (3, ("t57",), (57,))
    assert "60 of its 100 bytes" in report.detail


# --- whole ranges ------------------------------------------------------------------------------------------------------


def rows(count: int) -> list[RowSeen]:
    return [replace(WHOLE, seq=n, id=f"t{n}") for n in range(1, count + 1)]


def test_a_sound_range_gives_the_one_clean_report() -> None:
    (report,) = judge_rows(RowFacts(rows(20), generation=3, anchor=AnchorSeen(20, True, 20)))
    assert report.clean
    assert report.verdict is V.POST_COMPACTION_CLEAN
    assert report.generation == 3


def test_an_empty_range_is_clean() -> None:
    assert [r.verdict for r in judge_rows(RowFacts())] == [V.POST_COMPACTION_CLEAN]


def test_all_that_is_wrong_is_told_apart_and_named() -> None:
    """R61."""
    seen = rows(9)
    seen[1] = replace(seen[1], found_size=4, inner_ok=False)
    seen[3] = replace(seen[3], inner_ok=False)
    seen[4] = replace(seen[4], inner_ok=False)
    seen[6] = replace(seen[6], generation=2)
    seen[8] = replace(seen[8], link_ok=False)
    reports = judge_rows(
        RowFacts(
            iter(seen),
            generation=3,
            in_flight=4,
            gaps=[Gap(10, 12, ("t10", "t11", "t12"))],
            leftovers=["g6", "g7"],
            mismatches=[Mismatch(2, "post", 30)],
            anchor=AnchorSeen(99, True, 12),
        )
    )
    assert [(r.verdict, r.generation, r.ids, r.seqs) for r in reports] == [
        (V.COMPACTION_IN_PROGRESS, 4, (), ()),
        (V.TRUNCATED, 3, ("t2",), (2,)),
        (V.ALTERED, 3, ("t4", "t5"), (4, 5)),
        (V.MIXED_GENERATION_DETECTED, 2, ("t7",), (7,)),
        (V.CHAIN_BROKEN, 3, ("t9",), (9,)),
        (V.PHANTOM_DELETION, 0, ("t10", "t11", "t12"), (10, 11, 12)),
        (V.LEFTOVER, 0, ("g6", "g7"), ()),
        (V.ALTERED, 2, (), (30,)),
        (V.CUT_TAIL, 0, (), (99,)),
    ]
    assert reports[2].detail.endswith("; and 1 more")
    assert "10..12" in reports[5].detail


def test_an_open_compaction_over_sound_rows_is_in_progress_and_not_clean() -> None:
    reports = judge_rows(RowFacts(rows(3), generation=3, in_flight=4))
    assert [(r.verdict, r.generation) for r in reports] == [(V.COMPACTION_IN_PROGRESS, 4)]


def test_each_strange_generation_gets_its_own_report() -> None:
    seen = [replace(r, generation=1 if r.seq % 3 == 0 else 2 if r.seq % 3 == 1 else 3) for r in rows(9)]
    reports = judge_rows(RowFacts(seen, generation=3))
    assert {(r.generation, r.seqs) for r in reports} == {(1, (3, 6, 9)), (2, (1, 4, 7))}


def test_streaming_gives_the_same_as_the_whole() -> None:
    seen = [replace(r, inner_ok=r.seq % 4 != 0) for r in rows(30)]
    streamed = conclude([report for row in seen if (report := judge_row(row))], None, 3)
    assert streamed == judge_rows(RowFacts(seen, generation=3))


def test_reports_stay_bounded_whatever_was_lost() -> None:
    """A hole of any size, or damage in every row, is named by its range and listed up to a limit."""
    (gap,) = judge_rows(RowFacts(gaps=[Gap(1, 10**15)]))
    assert len(gap.seqs) == LISTED_MAX
    assert f"1..{10**15}" in gap.detail
    (altered,) = judge_rows(RowFacts(replace(r, inner_ok=False) for r in rows(LISTED_MAX + 500)))
    assert len(altered.seqs) == len(altered.ids) == LISTED_MAX
    assert altered.detail.endswith(f"; and {LISTED_MAX + 499} more")


def test_a_report_lists_so_many_places_and_counts_the_rest() -> None:
    """R61: bounded, whichever of ids and seqs it has."""
    many = [Report(CompactionVerdict.ALTERED, 1, seqs=(n,), detail="altered") for n in range(LISTED_MAX + 5)]
    (report,) = conclude(many, None, 1)
    assert len(report.seqs) == LISTED_MAX and f"and {LISTED_MAX + 4} more" in report.detail
