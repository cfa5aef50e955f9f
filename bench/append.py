"""How much does lineal's append cost beside the bare engine? Prints a ratio; both sides run interleaved on one disk.

    python bench/append.py [ROUNDS]

The bare side inserts the same bytes as one row into a one-table SQLite file with the same pragmas (WAL, FULL) and the
same library. A ratio of 1.0 means that encoding, digest, chain, fold and index cost nothing beside the disk. The third side
appends with an anchor file on the same disk (R60), and is held against the append without one.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import apsw

import lineal

PER_ROUND = 300
TEXT = "The build of region north is green; the image digest was checked against the manifest. " * 6


def bare(path: Path) -> Callable[[int], None]:
    db = apsw.Connection(str(path))
    db.pragma("journal_mode", "wal")
    db.pragma("synchronous", "full")
    db.execute("CREATE TABLE log(seq INTEGER PRIMARY KEY, body BLOB)").fetchall()

    def insert(n: int) -> None:
        db.execute("INSERT INTO log(body) VALUES (?)", (f'{{"role":"user","content":"{n} {TEXT}"}}'.encode(),))

    return insert


def ours(path: Path, anchor: Path | None = None) -> Callable[[int], None]:
    session = lineal.connect(path, anchor=anchor).session("bench", lineal.Policy(trigger=40_000, ceiling=50_000, target=4_000))

    def append(n: int) -> None:
        session.append({"role": "user", "content": f"{n} {TEXT}"}, id=f"m{n}")

    return append


def rate(act: Callable[[int], None], first: int) -> float:
    begun = time.perf_counter()
    for n in range(first, first + PER_ROUND):
        act(n)
    return PER_ROUND / (time.perf_counter() - begun)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("rounds", nargs="?", type=int, default=7)
    rounds = asked.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        sides = {
            "bare insert": bare(Path(folder) / "bare.db"),
            "session.append": ours(Path(folder) / "lineal.db"),
            "with an anchor": ours(Path(folder) / "anchored.db", Path(folder) / "anchor.json"),
        }
        rates: dict[str, list[float]] = {name: [] for name in sides}
        for r in range(rounds):
            for name, act in sides.items():
                rates[name].append(rate(act, r * PER_ROUND))
        ratios = [a / b for a, b in zip(rates["session.append"], rates["bare insert"], strict=True)]
        anchored = [a / b for a, b in zip(rates["with an anchor"], rates["session.append"], strict=True)]
    for name, found in rates.items():
        print(f"{name:16} {statistics.median(found):10,.0f} durable appends/s (median of {rounds} rounds of {PER_ROUND})")
    for name, found in (("ratio", ratios), ("anchor ratio", anchored)):
        print(f"{name:16} {statistics.median(found):10.2f} (rounds: {', '.join(f'{r:.2f}' for r in found)})")


if __name__ == "__main__":
    main()
