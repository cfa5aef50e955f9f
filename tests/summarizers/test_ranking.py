"""Which sentences say most."""

from __future__ import annotations

from lineal.summarizers.ranking import best, prose


def test_what_is_spoken_of_often_comes_before_what_is_said_once() -> None:
    sentences = [
        "The lease of the compaction runs out after five minutes.",
        "Lunch was pleasant and the weather stayed quite fine.",
        "A compaction holds its lease until the summarizer answers.",
        "Without a lease the compaction would block the next one.",
    ]
    order = best(sentences, [1.0] * 4)
    assert order.index(1) == 3


def test_near_repeats_are_told_once() -> None:
    sentences = [
        "The parser reads one line at a time.",
        "The parser reads one line at a time now.",
        "Tests cover the writer as well.",
    ]
    assert sorted(best(sentences, [1.0] * 3)) == [0, 2]


def test_weights_decide_between_equals() -> None:
    sentences = ["Alpha beta gamma delta runs.", "Omega sigma theta kappa runs."]
    assert best(sentences, [1.0, 1.5])[0] == 1


def test_code_and_fragments_are_no_prose() -> None:
    assert prose("The parser reads one line at a time.")
    assert not prose("ok then")
    assert not prose("if (x[i] == y[j]) { return f(x, y, 0x1f); } // {{}}")
    assert not prose("long " * 100)
