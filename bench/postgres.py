"""What does lineal cost beside bare psycopg? Prints ratios; all sides run interleaved on one server, which this program starts.

    python bench/postgres.py [ROUNDS]

The bare side inserts the same bytes as one row into a table of two columns, one commit each. `engine.append` is the conditional
append of the engine alone, `session.append` all of lineal. A ratio of 1.0 means that what is more costs nothing beside a commit.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import psycopg

import lineal
from lineal.engines.postgres import PostgresEngine
from lineal.testing.engine import row
from lineal.testing.postgres import PostgresServer

PER_ROUND = 300
TEXT = "The build of region north is green; the image digest was checked against the manifest. " * 6


def bare(url: str) -> Callable[[int], None]:
    db = psycopg.connect(url, autocommit=True)
    db.execute("CREATE TABLE log(seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL)")

    def insert(n: int) -> None:
        db.execute("INSERT INTO log(body) VALUES (%b)", (f'{{"role":"user","content":"{n} {TEXT}"}}'.encode(),))

    return insert


def engine(url: str) -> Callable[[int], None]:
    opened = PostgresEngine.open(f"{url}?schema=engine")

    def append(n: int) -> None:
        opened.append("bench", n, [row(n + 1, f'{{"role":"user","content":"{n} {TEXT}"}}'.encode())])

    return append


def session(url: str) -> Callable[[int], None]:
    opened = lineal.connect(url).session("bench", lineal.Policy(trigger=40_000, ceiling=50_000, target=4_000))

    def append(n: int) -> None:
        opened.append({"role": "user", "content": f"{n} {TEXT}"}, id=f"m{n}")

    return append


def rate(act: Callable[[int], None], first: int) -> float:
    begun = time.perf_counter()
    for n in range(first, first + PER_ROUND):
        act(n)
    return PER_ROUND / (time.perf_counter() - begun)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    with PostgresServer() as server:
        sides = {"bare insert": bare(server.url()), "engine.append": engine(server.url()), "session.append": session(server.url())}
        rates: dict[str, list[float]] = {name: [] for name in sides}
        for r in range(rounds):
            for name, act in sides.items():
                rates[name].append(rate(act, r * PER_ROUND))
    for name, found in rates.items():
        ratios = [a / b for a, b in zip(found, rates["bare insert"], strict=True)]
        told = f"ratio {statistics.median(ratios):.2f} (rounds: {', '.join(f'{r:.2f}' for r in ratios)})"
        print(f"{name:16} {statistics.median(found):8,.0f} durable appends/s, {told}")


if __name__ == "__main__":
    main()
