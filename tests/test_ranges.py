"""Ranges of seqs, held against plain sets over everything that fits into six seqs."""

from itertools import product

from lineal.entries import Range
from lineal.ranges import contains, count, overlap, subtract, told, union

SEQS = range(1, 7)
SETS = [frozenset(s for s, used in zip(SEQS, bits, strict=True) if used) for bits in product((False, True), repeat=len(SEQS))]


def as_ranges(seqs: frozenset[int]) -> tuple[Range, ...]:
    """One range a seq, newest first: the least tidy way to say it."""
    return tuple((s, s) for s in sorted(seqs, reverse=True))


def as_set(ranges: tuple[Range, ...]) -> set[int]:
    return {s for first, last in ranges for s in range(first, last + 1)}


def in_normal_form(ranges: tuple[Range, ...]) -> bool:
    return all(a <= b for a, b in ranges) and all(x[1] + 1 < y[0] for x, y in zip(ranges, ranges[1:], strict=False))


def test_union_is_the_same_seqs_in_normal_form() -> None:
    for seqs in SETS:
        ranges = union(as_ranges(seqs))
        assert as_set(ranges) == seqs
        assert in_normal_form(ranges)
        assert count(as_ranges(seqs)) == len(seqs)
        assert all(contains(ranges, s) == (s in seqs) for s in SEQS)


def test_subtract_and_overlap_agree_with_sets() -> None:
    for mine, other in product(SETS, SETS):
        left, both = subtract(as_ranges(mine), as_ranges(other)), overlap(as_ranges(mine), union(as_ranges(other)))
        assert as_set(left) == mine - other
        assert as_set(both) == mine & other
        assert in_normal_form(left)
        assert in_normal_form(both)


def test_overlapping_and_nested_ranges_are_counted_once() -> None:
    assert union([(5, 9), (1, 3), (2, 6), (7, 7)]) == ((1, 9),)
    assert count([(5, 9), (1, 3), (2, 6), (7, 7)]) == 9
    assert subtract([(1, 1_000_000)], [(2, 999_999)]) == ((1, 1), (1_000_000, 1_000_000))


def test_a_range_whose_last_lies_below_its_first_is_empty() -> None:
    assert union([(5, 4)]) == ()
    assert subtract([(1, 3)], [(3, 2)]) == ((1, 3),)
    assert not contains([(5, 4)], 5)
    assert not contains([(5, 4)], 4)


def test_ranges_are_told_as_people_read_them() -> None:
    assert told([(9, 9), (3, 7)]) == "3..7, 9"
    assert told([]) == "none"
