"""Every knob, its limit, and the relations between the knobs. Frozen; checked at once.

A knob in the first five rows or `stub_bytes` that is not given follows from those that are, so that
`Policy(trigger=4_000)` is a whole policy; the defaults are the ones below.

| knob | default | must hold |
|---|---|---|
| `trigger` | 160,000 tokens | `0 < target < trigger` |
| `ceiling` | 180,000 tokens | `trigger <= ceiling`: engage and release levels differ (R28) |
| `target` | 12,000 tokens | what an automatic compaction aims at |
| `floor_turns` | 12 turns | `0 <= floor_turns < ceiling_items`: the floor must fit under the ceiling |
| `ceiling_bytes` | 5,000,000 bytes | `stub_bytes <= ceiling_bytes` |
| `ceiling_items` | 10,000 items | at least 2 |
| `stub_bytes` | 262,144 bytes | at least 256; a larger block is shown as stub plus byte-exact handle (R26) |
| `summary_max_tokens` | 2,000 tokens | `> 0`; capped to `target` |
| `min_gain` | 0.02 of the view | `0 <= min_gain < 1` |
| `lease_seconds` | 300 s | `> 0`: after it a compaction's holder may be fenced |
| `summary_timeout` | 120 s | `> 0` |
| `checkpoint_every_entries` | off | `> 0` or None |
| `checkpoint_every_minutes` | off | `> 0` or None |
| `on_refusal` | `"spill"` | or `"halt"` |
| `on_lookalike` | `"ask"` | or `"warn"`, `"allow"` |
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lineal.errors import PolicyError, Verdict, quoted

UNSET: Any = None  # "not given": the knob follows from the ones that were


@dataclass(frozen=True, kw_only=True)
class Policy:
    """How much is shown, how much stays verbatim, and what to do when that cannot be had.

    Raises `PolicyError` (a `Refused` and a `ValueError`) that names each broken relation with both numbers.
    """

    trigger: int = UNSET
    ceiling: int = UNSET
    target: int = UNSET
    floor_turns: int = UNSET
    ceiling_bytes: int = 5_000_000
    ceiling_items: int = 10_000
    stub_bytes: int = UNSET
    summary_max_tokens: int = 2_000
    min_gain: float = 0.02
    lease_seconds: float = 300.0
    summary_timeout: float = 120.0
    checkpoint_every_entries: int | None = None
    checkpoint_every_minutes: float | None = None
    on_refusal: Literal["spill", "halt"] = "spill"
    on_lookalike: Literal["ask", "warn", "allow"] = "ask"

    def __post_init__(self) -> None:
        broken = list(_mistyped(self))
        if not broken:
            for name, value in _derived(self):
                object.__setattr__(self, name, value)
            broken = list(_broken(self))
        if broken:
            raise PolicyError(
                Verdict(
                    "policy",
                    broken[0][0],
                    message="; ".join(text for _, text in broken) + ".",
                    remedy="change the numbers named; the defaults are a consistent set",
                    facts=asdict(self),
                )
            )

    def with_(self, **changes: Any) -> Policy:
        """The same policy with some knobs changed, checked again."""
        return Policy(**{**asdict(self), **changes})


def _derived(p: Policy) -> Iterator[tuple[str, int]]:
    """A knob that was not given takes its default, or what the given ones leave room for. Lazy: order matters."""
    if p.trigger is None:
        yield "trigger", 160_000 if p.ceiling is None else min(160_000, p.ceiling * 8 // 9)
    if p.ceiling is None:
        yield "ceiling", max(180_000, p.trigger * 9 // 8)
    if p.target is None:
        yield "target", min(12_000, p.trigger // 2)
    if p.floor_turns is None:
        yield "floor_turns", min(12, p.ceiling_items - 1)
    if p.stub_bytes is None:
        yield "stub_bytes", min(262_144, p.ceiling_bytes)


_COUNTS = ("trigger", "ceiling", "target", "ceiling_bytes", "ceiling_items", "stub_bytes", "summary_max_tokens")
_CHOICES = {"on_refusal": ("spill", "halt"), "on_lookalike": ("ask", "warn", "allow")}


def _mistyped(p: Policy) -> Iterator[tuple[str, str]]:
    """Each knob that is no number: (knob, sentence)."""
    for name in (*_COUNTS, "floor_turns", "checkpoint_every_entries"):
        value = getattr(p, name)
        if value is None and name not in ("ceiling_bytes", "ceiling_items", "summary_max_tokens"):
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            yield name, f"{name} must be a whole number, not {quoted(value)}"
    for name in ("min_gain", "lease_seconds", "summary_timeout", "checkpoint_every_minutes"):
        value = getattr(p, name)
        if isinstance(value, bool) or not isinstance(value, int | float) and not (value is None and name.startswith("checkpoint")):
            yield name, f"{name} must be a number, not {quoted(value)}"


def _broken(p: Policy) -> Iterator[tuple[str, str]]:
    """Each relation that does not hold: (knob, sentence with both numbers)."""
    for name in _COUNTS:
        if getattr(p, name) <= 0:
            yield name, f"{name} must be above 0, not {getattr(p, name):,}"
    if p.floor_turns < 0:
        yield "floor_turns", f"floor_turns must not be negative, is {p.floor_turns:,}"
    if p.floor_turns >= p.ceiling_items:
        yield "floor_turns", f"the floor of {p.floor_turns:,} turns lies above the ceiling of {p.ceiling_items:,} items"
    if p.trigger > p.ceiling:
        yield "ceiling", f"trigger {p.trigger:,} lies above ceiling {p.ceiling:,}"
    if p.target >= p.trigger:
        yield "target", f"target {p.target:,} must lie below trigger {p.trigger:,}"
    if p.stub_bytes < 256:
        yield "stub_bytes", f"stub_bytes must be at least 256, is {p.stub_bytes:,}"
    if p.stub_bytes > p.ceiling_bytes:
        yield "stub_bytes", f"stub_bytes {p.stub_bytes:,} lies above ceiling_bytes {p.ceiling_bytes:,}"
    if p.ceiling_items < 2:
        yield "ceiling_items", f"ceiling_items must be at least 2, is {p.ceiling_items}"
    if not 0 <= p.min_gain < 1:
        yield "min_gain", f"min_gain must lie in [0, 1), is {p.min_gain}"
    for name in ("lease_seconds", "summary_timeout", "checkpoint_every_entries", "checkpoint_every_minutes"):
        value = getattr(p, name)
        if value is not None and not (value > 0 and math.isfinite(value)):
            yield name, f"{name} must be above 0, not {value}"
    for name, allowed in _CHOICES.items():
        if getattr(p, name) not in allowed:
            yield name, f"{name} must be one of {', '.join(allowed)}, not {quoted(getattr(p, name))}"
