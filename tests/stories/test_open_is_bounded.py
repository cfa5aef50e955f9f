"""Opening never reads history: counted in rows read, not in seconds, so that a slow machine says the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lineal

POLICY = lineal.Policy(trigger=4_000, ceiling=6_000, target=1_000, floor_turns=8)


def grown(path: Path, turns: int) -> None:
    with lineal.connect(path) as store:
        session = store.session("agent", POLICY)
        for first in range(0, turns, 40):
            session.append(
                [{"role": "user" if n % 8 == 0 else "assistant", "content": f"turn {n} of many"} for n in range(first, first + 40)]
            )
            session.maybe_compact(
                lambda request: f"{len(request.turns)} more turns went by without an event, up to {request.turns[-1].id}."
            )


def rows_read(path: Path) -> int:
    """Rows that opening and showing the view asks the engine for."""
    with lineal.connect(path) as store:
        counted = 0
        scan, find = store.engine.scan, store.engine.find

        def counting_scan(*args: Any, **kwargs: Any) -> Iterator[Any]:
            nonlocal counted
            for row in scan(*args, **kwargs):
                counted += 1
                yield row

        def counting_find(*args: Any, **kwargs: Any) -> list[Any]:
            nonlocal counted
            found = find(*args, **kwargs)
            counted += len(found)
            return found

        store.engine.scan, store.engine.find = counting_scan, counting_find  # type: ignore[method-assign]
        assert store.session("agent", POLICY).messages()
        return counted


def test_twenty_times_the_history_is_not_more_to_read(tmp_path: Path) -> None:
    grown(tmp_path / "small.db", 1_000)
    grown(tmp_path / "large.db", 20_000)
    small, large = rows_read(tmp_path / "small.db"), rows_read(tmp_path / "large.db")
    assert large <= 2 * max(small, 256), (small, large)
    assert large < 20_000 / 20


def test_an_append_reads_nothing(tmp_path: Path) -> None:
    """One engine call: no read before it, none behind it."""
    with lineal.connect(tmp_path / "agent.db") as store:
        session = store.session("agent")
        session.append({"role": "user", "content": "first"}, id="u0")
        reads: list[str] = []
        for name in ("scan", "find", "state", "states", "latched", "sessions"):
            verb = getattr(store.engine, name)
            setattr(store.engine, name, lambda *a, _name=name, _verb=verb, **k: reads.append(_name) or _verb(*a, **k))
        for n in range(1, 60):
            session.append({"role": "user" if n % 2 else "assistant", "content": f"turn {n}"}, id=f"u{n}")
        assert reads == []
