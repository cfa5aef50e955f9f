"""Which policy holds: the one stored with the last compaction, with what was given on top."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lineal.cli.stores import policy_of
from lineal.errors import PolicyError
from lineal.policy import Policy

STORED = asdict(Policy(trigger=60_000, ceiling=80_000, target=9_000, floor_turns=8, min_gain=0.1))


def policy(stored: dict[str, Any], **given: Any) -> Policy:
    return policy_of(cast(Any, SimpleNamespace(log=SimpleNamespace(lineage=SimpleNamespace(policy=stored)))), given)


def test_without_a_stored_one_the_defaults_hold() -> None:
    assert policy({}) == Policy() and policy({}, trigger=4_000) == Policy(trigger=4_000)


def test_a_stored_policy_holds_whole_and_each_knob_can_be_overridden() -> None:
    assert policy(STORED) == Policy(**STORED)
    assert policy(STORED, floor_turns=3) == Policy(**{**STORED, "floor_turns": 3})
    assert policy({**STORED, "knob_of_a_later_version": 1}) == Policy(**STORED)


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ({"trigger": 70_000}, (70_000, 80_000, 9_000)),
        ({"trigger": 100_000}, (100_000, 180_000, 9_000)),
        ({"trigger": 5_000}, (5_000, 80_000, 2_500)),
        ({"ceiling": 45_000}, (40_000, 45_000, 9_000)),
        ({"ceiling": 4_500}, (4_000, 4_500, 2_000)),
        ({"target": 12_000}, (60_000, 80_000, 12_000)),
    ],
)
def test_a_stored_size_that_does_not_fit_beside_a_given_one_follows_from_it(given: dict[str, int], sizes: tuple[int, int, int]) -> None:
    found = policy(STORED, **given)
    assert (found.trigger, found.ceiling, found.target) == sizes and found.min_gain == 0.1


@pytest.mark.parametrize("given", [{"target": 60_000}, {"trigger": 900, "ceiling": 800}, {"trigger": 0}, {"floor_turns": -1}])
def test_what_was_given_against_itself_is_refused(given: dict[str, int]) -> None:
    with pytest.raises(PolicyError):
        policy(STORED, **given)
