"""SQLite and memory: one random life after the other, and every answer and every refusal the same (E2 to E9)."""

from __future__ import annotations

from lineal.testing.mirror import mirrored


def test_the_same_life_on_memory() -> None:
    mirrored(lambda: "")
