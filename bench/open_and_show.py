"""Does opening a session and showing its view depend on how long the history is? Prints the ratio of both times.

    python bench/open_and_show.py [TURNS]

Two sessions under one policy with automatic compaction, one of 1,000 turns and one of TURNS (100,000): each is opened
anew and its view rendered, alternately, and the rows that were read are counted. A ratio near 1.0 means that opening
reads the newest state and the tail behind it, never history.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lineal

POLICY = lineal.Policy(trigger=8_000, ceiling=10_000, target=2_000, floor_turns=12)
BATCH = 50
ROUNDS = 15


def summary(request: lineal.SummaryRequest) -> str:
    return f"The work went on as planned over {len(request.turns)} more turns up to {request.turns[-1].id}; nothing is open."


def build(path: Path, turns: int) -> None:
    """A session of so many turns, appended in batches, compacted whenever the policy asks for it."""
    with lineal.connect(path) as store:
        session = store.session("bench", POLICY)
        begun = time.perf_counter()
        for first in range(0, turns, BATCH):
            batch = [
                {"role": "user" if n % 10 == 0 else "assistant", "content": f"turn {n}: looked at file {n} and wrote down what it holds"}
                for n in range(first, min(turns, first + BATCH))
            ]
            session.append(batch)
            session.maybe_compact(summary)
        seconds = time.perf_counter() - begun
        print(f"built {turns:>7,} turns, {session.status().generation:,} generations, {turns / seconds:,.0f} turns/s", file=sys.stderr)


def open_and_show(path: Path) -> tuple[float, int, int]:
    """(seconds, rows read, messages shown) of opening the session and rendering its view once."""
    with lineal.connect(path) as store:
        rows = 0
        scan = store.engine.scan

        def counted(*args: Any, **kwargs: Any) -> Iterator[Any]:
            nonlocal rows
            for row in scan(*args, **kwargs):
                rows += 1
                yield row

        store.engine.scan = counted  # type: ignore[method-assign]
        begun = time.perf_counter()
        shown = store.session("bench", POLICY).messages()
        return time.perf_counter() - begun, rows, len(shown)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("turns", nargs="?", type=int, default=100_000)
    many = asked.parse_args().turns
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small.db", Path(folder) / "large.db"
        build(small, 1_000)
        build(large, many)
        found = {path: [open_and_show(path) for _ in range(ROUNDS)] for path in (small, large)}
        sizes = {path: path.stat().st_size for path in (small, large)}
    medians = {path: statistics.median(t for t, _, _ in runs) for path, runs in found.items()}
    for path, turns in ((small, 1_000), (large, many)):
        _, rows, shown = found[path][0]
        read = f"{rows:,} rows read, {shown} messages, {sizes[path]:,} bytes"
        print(f"{turns:>8,} turns: {medians[path] * 1e3:7.2f} ms to open and show, {read}")
    print(f"ratio of times: {medians[large] / medians[small]:.2f}   ratio of rows read: {found[large][0][1] / found[small][0][1]:.2f}")


if __name__ == "__main__":
    main()
