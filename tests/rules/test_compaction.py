"""May these turns be summarised away (record 002): a case for each row, the order of the rows, and the record's names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineal.errors import PolicyError, UnrecoverableCompactionError, Verdict
from lineal.rules.compaction import INEFFECTIVE_MAX, TABLE, CompactionFacts, assert_compaction_safe, judge, maybe_auto_compact

SAFE = CompactionFacts(coverable=9, new_turns=9, kept_tokens=400, ceiling=2_500, tokens=(1_600, 500), bytes=(5_000, 1_500), min_gain=0.02)
SHORT = Verdict("summary", "empty", message="the summary is empty")

CASES = [
    ("in_flight", replace(SAFE, other_in_flight="process 7 on host, lease ends in 90 s")),
    ("overtaken", replace(SAFE, overtaken="the session was reset (epoch 0 -> 1)")),
    ("suspended", replace(SAFE, suspended=True, automatic=True)),
    ("floor_missing", replace(SAFE, floor_missing=("t3", "t4"), floor_range="seq 3..4")),
    ("floor_over_budget", replace(SAFE, kept_tokens=2_501)),
    ("floor_over_budget", replace(SAFE, kept_tokens=2_501, new_turns=0, held_by=("pinned",))),
    ("over_window", replace(SAFE, over_window=("t7",))),
    ("unchanged", replace(SAFE, unchanged=True)),
    ("nothing_to_cover", replace(SAFE, coverable=0, new_turns=0)),
    ("nothing_to_cover", replace(SAFE, coverable=1, new_turns=0, held_by=("newest user turn", "pinned"))),
    ("indivisible", replace(SAFE, new_turns=0, held_by=("newest user turn", "open call"))),
    ("not_partition", replace(SAFE, unpartitioned=("t5",))),
    ("not_partition", replace(SAFE, protected_now=("t5",))),
    ("not_received", replace(SAFE, not_received=("t5", "t6"))),
    ("summary_refused", replace(SAFE, summary=SHORT)),
    ("anchor_lost", replace(SAFE, anchors_lost=("port 8443",))),
    ("no_gain", replace(SAFE, tokens=(1_600, 1_569))),
    ("no_gain", replace(SAFE, tokens=(1_600, 1_600), min_gain=0.0)),
    ("no_gain", replace(SAFE, tokens=(1_600, 1_700))),
    ("no_gain", replace(SAFE, bytes=(5_000, 5_000))),
    ("no_gain", replace(SAFE, items=(12, 12))),
    ("safe", SAFE),
    ("safe", replace(SAFE, tokens=(1_600, 1_568))),
    ("safe", replace(SAFE, suspended=True)),
    ("safe", replace(SAFE, kept_tokens=2_500)),
    ("safe", replace(SAFE, held_by=("open call",))),
]


@pytest.mark.parametrize(("row", "facts"), CASES, ids=[f"{row}-{i}" for i, (row, _) in enumerate(CASES)])
def test_row(row: str, facts: CompactionFacts) -> None:
    """R64: each row decides its case, and a refusal says why and shows the way out."""
    verdict = judge(facts)
    assert verdict.reason == row
    assert verdict.allowed is TABLE.row(row).allowed
    assert verdict.message
    assert verdict.allowed or verdict.remedy


def test_every_row_has_a_case() -> None:
    assert {row for row, _ in CASES} == {row.name for row in TABLE.rows}


# --- one case for each row alone: switched on together, the first in the table decides -----------------------------------

TROUBLE: dict[str, dict[str, Any]] = {
    "in_flight": {"other_in_flight": "process 7"},
    "overtaken": {"overtaken": "reset"},
    "suspended": {"suspended": True, "automatic": True},
    "floor_missing": {"floor_missing": ("t3",)},
    "floor_over_budget": {"kept_tokens": 2_501},
    "over_window": {"over_window": ("t7",)},
    "unchanged": {"unchanged": True},
    "nothing_to_cover": {"new_turns": 0},
    "not_partition": {"unpartitioned": ("t5",)},
    "not_received": {"not_received": ("t5",)},
    "summary_refused": {"summary": SHORT},
    "anchor_lost": {"anchors_lost": ("x",)},
    "no_gain": {"tokens": (10, 10)},
}


@given(rows=st.sets(st.sampled_from(sorted(TROUBLE)), min_size=1))
def test_of_several_troubles_the_first_in_the_table_decides(rows: set[str]) -> None:
    facts = replace(SAFE, **{k: v for row in rows for k, v in TROUBLE[row].items()})
    first = next(row.name for row in TABLE.rows if row.name in rows)
    assert judge(facts).reason == first


def test_only_the_last_row_allows() -> None:
    assert [row.name for row in TABLE.rows if row.allowed] == ["safe"]


def test_a_refusal_names_the_range_and_both_numbers() -> None:
    text = judge(replace(SAFE, floor_missing=tuple(f"t{n}" for n in range(3, 11)), floor_range="seq 3..10")).message
    assert "seq 3..10" in text and "8 floor turns" in text and "and 3 more" in text
    text = judge(replace(SAFE, kept_tokens=2_501)).message
    assert "2,501" in text and "2,500" in text
    verdict = judge(replace(SAFE, tokens=(1_600, 1_700)))
    assert "1,600 -> 1,700" in verdict.message
    assert verdict.facts["tokens"] == (1_600, 1_700)


def test_two_passes_without_progress_are_the_most() -> None:
    """R23."""
    assert INEFFECTIVE_MAX == 2


# --- the record's names --------------------------------------------------------------------------------------------------


@given(floor=st.sets(st.integers(0, 9)), window=st.sets(st.integers(0, 9)), evicted=st.sets(st.integers(0, 9)))
def test_the_floor_must_be_inside_the_window_and_never_evicted(floor: set[int], window: set[int], evicted: set[int]) -> None:
    """A superset is asked for, not an overlap."""
    if floor <= window - evicted:
        assert_compaction_safe(floor, window, evicted)
        return
    with pytest.raises(UnrecoverableCompactionError) as refusal:
        assert_compaction_safe(floor, window, evicted)
    missing = sorted(floor - (window - evicted))
    assert refusal.value.facts["floor_missing"] == tuple(map(str, missing))
    assert f"{missing[0]}..{missing[-1]}" in str(refusal.value)


def answering(what: str, calls: list[str]) -> Callable[[], str]:
    def called() -> str:
        calls.append(what)
        return what

    return called


@pytest.mark.parametrize(
    ("occupancy", "window", "spill", "expected"),
    [(159_999, range(9, 13), True, []), (160_000, range(1, 13), True, ["compact"]), (160_000, range(9, 13), True, ["spill"])],
    ids=["below the trigger", "proven", "not proven"],
)
def test_exactly_one_thing_is_done(occupancy: int, window: range, spill: bool, expected: list[str]) -> None:
    calls: list[str] = []
    found = maybe_auto_compact(occupancy, 160_000, range(1, 13), window, [], answering("compact", calls), answering("spill", calls))
    assert calls == expected
    assert found == (expected[0] if expected else None)


def test_without_a_spill_it_halts_before_anything_is_called() -> None:
    calls: list[str] = []
    with pytest.raises(UnrecoverableCompactionError, match=r"1\.\.8"):
        maybe_auto_compact(161_000, 160_000, range(1, 13), range(9, 13), range(1, 9), answering("compact", calls))
    assert calls == []


def test_a_failure_of_the_compaction_is_not_answered_by_a_spill() -> None:
    calls: list[str] = []

    def fails() -> str:
        raise OSError("disk gone")

    with pytest.raises(OSError, match="disk gone"):
        maybe_auto_compact(161_000, 160_000, [1], [1], [], fails, answering("spill", calls))
    assert calls == []


@pytest.mark.parametrize(("occupancy", "trigger"), [(-1, 100), (10, 0), (10, -5)])
def test_numbers_that_cannot_be_meant_are_refused(occupancy: int, trigger: int) -> None:
    with pytest.raises(PolicyError):
        maybe_auto_compact(occupancy, trigger, [], [], [], lambda: None)
