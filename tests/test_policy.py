"""The knobs: what is derived from what, and every relation that must hold."""

from dataclasses import FrozenInstanceError, asdict
from typing import Any

import pytest

from lineal import policy as module
from lineal.errors import PolicyError
from lineal.policy import Policy


def test_the_defaults_are_a_whole_policy() -> None:
    p = Policy()
    assert (p.trigger, p.ceiling, p.target, p.floor_turns) == (160_000, 180_000, 12_000, 12)
    assert (p.stub_bytes, p.ceiling_bytes, p.ceiling_items) == (262_144, 5_000_000, 10_000)
    assert (p.on_refusal, p.on_lookalike) == ("spill", "ask")


@pytest.mark.parametrize(
    "given",
    [
        {"trigger": 4_000},
        {"trigger": 1_000_000},
        {"ceiling": 9_000},
        {"trigger": 2},
        {"ceiling_items": 5},
        {"ceiling_bytes": 1_000},
        {"trigger": 200_000, "ceiling_bytes": 300},
    ],
    ids=str,
)
def test_what_is_not_given_follows_from_what_is(given: dict[str, Any]) -> None:
    """R28: engage and release levels differ, whatever was given."""
    p = Policy(**given)
    assert all(getattr(p, name) == value for name, value in given.items())
    assert 0 < p.target < p.trigger <= p.ceiling
    assert 0 <= p.floor_turns < p.ceiling_items
    assert p.stub_bytes <= p.ceiling_bytes


BROKEN: list[tuple[str, dict[str, Any]]] = [
    ("trigger", {"trigger": 0}),
    ("trigger", {"trigger": "many"}),
    ("trigger", {"trigger": True}),
    ("trigger", {"trigger": 1.5}),
    ("ceiling", {"trigger": 5_000, "ceiling": 4_999}),
    ("target", {"trigger": 5_000, "target": 5_000}),
    ("target", {"target": 0}),
    ("floor_turns", {"floor_turns": -1}),
    ("floor_turns", {"floor_turns": 20, "ceiling_items": 20}),
    ("floor_turns", {"floor_turns": 2.0}),
    ("ceiling_bytes", {"ceiling_bytes": -5}),
    ("ceiling_items", {"ceiling_items": 1, "floor_turns": 0}),
    ("stub_bytes", {"stub_bytes": 255}),
    ("stub_bytes", {"stub_bytes": 5_000, "ceiling_bytes": 4_999}),
    ("summary_max_tokens", {"summary_max_tokens": 0}),
    ("min_gain", {"min_gain": 1.0}),
    ("min_gain", {"min_gain": -0.1}),
    ("lease_seconds", {"lease_seconds": 0}),
    ("lease_seconds", {"lease_seconds": float("inf")}),
    ("summary_timeout", {"summary_timeout": -1}),
    ("summary_timeout", {"summary_timeout": float("nan")}),
    ("min_gain", {"min_gain": "some"}),
    ("lease_seconds", {"lease_seconds": None}),
    ("ceiling_bytes", {"ceiling_bytes": None}),
    ("checkpoint_every_entries", {"checkpoint_every_entries": 0}),
    ("checkpoint_every_entries", {"checkpoint_every_entries": 0.5}),
    ("checkpoint_every_minutes", {"checkpoint_every_minutes": -2}),
    ("on_refusal", {"on_refusal": "drop"}),
    ("on_lookalike", {"on_lookalike": "guess"}),
]


@pytest.mark.parametrize(("knob", "given"), BROKEN, ids=[f"{knob}-{i}" for i, (knob, _) in enumerate(BROKEN)])
def test_a_broken_relation_is_named(knob: str, given: dict[str, Any]) -> None:
    """A policy that cannot be meant is refused at once, with the knob and the way out."""
    with pytest.raises(PolicyError) as refusal:
        Policy(**given)
    assert isinstance(refusal.value, ValueError)
    assert refusal.value.reason == knob
    assert knob in str(refusal.value)
    assert refusal.value.remedy


def test_every_knob_has_a_case_and_a_line_in_the_table() -> None:
    knobs = set(asdict(Policy()))
    assert {knob for knob, _ in BROKEN} == knobs
    assert module.__doc__ and all(f"| `{knob}` |" in module.__doc__ for knob in knobs)


def test_several_broken_relations_are_told_at_once_with_both_numbers() -> None:
    with pytest.raises(PolicyError) as refusal:
        Policy(trigger=5_000, ceiling=4_000, target=6_000, min_gain=2)
    text = str(refusal.value)
    assert all(part in text for part in ("5,000", "4,000", "6,000", "min_gain"))
    assert refusal.value.facts["trigger"] == 5_000


def test_a_policy_is_frozen_and_changed_by_making_another() -> None:
    p = Policy(trigger=4_000)
    with pytest.raises(FrozenInstanceError):
        p.trigger = 5_000  # type: ignore[misc]
    other = p.with_(floor_turns=3)
    assert (other.floor_turns, other.trigger, p.floor_turns) == (3, 4_000, 12)
    with pytest.raises(PolicyError):
        p.with_(trigger=p.ceiling + 1)
    with pytest.raises(TypeError):
        Policy(4_000)  # type: ignore[misc]
