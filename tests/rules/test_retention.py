"""May these rows go (record 004): a case for each row, then everything small against plain sets."""

from dataclasses import fields
from itertools import pairwise, product

import pytest

from lineal.rules.retention import TABLE, Needs, RetentionFacts, judge, prunable

RUN = (10, 20)
CASES = [
    ("empty_run", RetentionFacts((5, 4))),
    ("needed_by_view", RetentionFacts(RUN, Needs(view=((20, 25),), pins=((20, 20),)))),
    ("needed_by_generations", RetentionFacts(RUN, Needs(generations=((1, 10),)))),
    ("needed_by_checkpoints", RetentionFacts(RUN, Needs(checkpoints=((12, 14),)))),
    ("needed_by_forks", RetentionFacts(RUN, Needs(forks=((1, 30),)))),
    ("needed_by_effects", RetentionFacts(RUN, Needs(effects=((15, 15), (17, 17))))),
    ("needed_by_spills", RetentionFacts(RUN, Needs(spills=((11, 11),)))),
    ("needed_by_pins", RetentionFacts(RUN, Needs(pins=((10, 10),)))),
    ("needed_by_hosts", RetentionFacts(RUN, Needs(hosts=((18, 19),)))),
    ("needed_by_segments", RetentionFacts(RUN, Needs(segments=((18, 18),)))),
    ("free", RetentionFacts(RUN)),
    ("free", RetentionFacts(RUN, Needs(view=((21, 30),), checkpoints=((1, 9),)))),
]


@pytest.mark.parametrize(("row", "facts"), CASES, ids=[f"{row}-{i}" for i, (row, _) in enumerate(CASES)])
def test_row(row: str, facts: RetentionFacts) -> None:
    """R64: each row decides its case; a refusal says why and shows the way out."""
    verdict = judge(facts)
    assert verdict.reason == row
    assert verdict.allowed is TABLE.row(row).allowed
    assert verdict.message
    assert verdict.allowed or verdict.remedy


def test_every_row_has_a_case() -> None:
    assert {row for row, _ in CASES} == {row.name for row in TABLE.rows}


def test_every_need_has_a_row() -> None:
    assert [f"needed_by_{f.name}" for f in fields(Needs)] == [r.name for r in TABLE.rows if r.name.startswith("needed_by_")]


def test_of_two_needs_the_one_that_stands_first_is_told() -> None:
    for first, then in pairwise(f.name for f in fields(Needs)):
        assert judge(RetentionFacts(RUN, Needs(**{first: (RUN,), then: (RUN,)}))).reason == f"needed_by_{first}"


def test_a_refusal_names_every_need_and_its_rows() -> None:
    verdict = judge(RetentionFacts(RUN, Needs(effects=((15, 15), (17, 40)), spills=((1, 11),))))
    assert verdict.facts["needed_by"] == {"effects": ((15, 15), (17, 20)), "spills": ((10, 11),)}
    assert "15, 17..20" in verdict.message
    assert "10..20" in verdict.message


def test_rows_around_an_effect_go_and_the_effect_stays() -> None:
    """R52: the entry is its own tombstone."""
    assert prunable([RUN], Needs(effects=((13, 13), (14, 14), (20, 20)))) == ((10, 12), (15, 19))


SETS = [frozenset(n for n, used in enumerate(bits, 1) if used) for bits in product((False, True), repeat=4)]


def test_what_may_go_is_exactly_what_nothing_needs() -> None:
    for runs, view, effects in product(SETS, SETS, SETS):
        needs = Needs(view=tuple((s, s) for s in view), effects=tuple((s, s) for s in effects))
        gone = prunable([(s, s) for s in runs], needs)
        assert {s for a, b in gone for s in range(a, b + 1)} == runs - view - effects
        assert all(judge(RetentionFacts(run, needs)) for run in gone)
        assert all(not judge(RetentionFacts((s, s), needs)) for s in runs & (view | effects))
