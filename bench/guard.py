"""Does the guard find every planted fault in a large foreign store, how fast, and in how much memory?

    python bench/guard.py [ROWS] [--postgres URL]

A table in PostgreSQL and a RocksDB store, each of 100,000 and of ROWS (1,000,000) records of about 150 bytes. After a manifest
was taken, faults of every kind are planted; then each must be named by its id, and nothing else. Each `take` and `check` is a
process of its own, so that its peak memory is its own. Without a URL a server is started for the run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import rocksdict

from lineal.guarding import check, take
from lineal.testing.postgres import PostgresServer

SMALL = 100_000
PAD = "x" * 100


# --- the stores ------------------------------------------------------------------------------------------------------


class Postgres:
    name = "PostgreSQL"
    generation: str | None = "generation"

    def __init__(self, url: str, rows: int):
        self.url, self.rows = url, rows
        self._run("DROP TABLE IF EXISTS memory")
        self._run("CREATE TABLE memory (id bigint PRIMARY KEY, session text, body text, generation int NOT NULL)")
        self._run(f"INSERT INTO memory SELECT i, 's' || i % 1000, 'step ' || i || ' {PAD}', 1 FROM generate_series(1, {rows}) i")
        self._run("VACUUM ANALYZE memory")

    def _run(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[call-overload]

    def plant(self, ids: dict[str, list[int]]) -> None:
        for fault, statement in (
            ("missing", "DELETE FROM memory WHERE id = "),
            ("altered", "UPDATE memory SET body = body || '.' WHERE id = "),
            ("truncated", "UPDATE memory SET body = left(body, 20) WHERE id = "),
            ("moved", "UPDATE memory SET generation = 2 WHERE id = "),
            ("extra", "INSERT INTO memory VALUES ("),
        ):
            for n in ids[fault]:
                self._run(f"{statement}{n}" + (", 's', 'back again', 1)" if fault == "extra" else ""))

    def named(self, n: int) -> Any:
        return n


class RocksDB:
    name = "RocksDB"
    generation: str | None = None

    def __init__(self, folder: Path, rows: int):
        self.folder, self.url, self.rows = folder, f"rocksdb:{folder}", rows
        with self._open() as db:
            batch = rocksdict.WriteBatch(raw_mode=True)
            for n in range(1, rows + 1):
                batch.put(self.named(n).encode(), f"step {n} {PAD} of session {n % 1000}".encode())
                if n % 10_000 == 0:
                    db.write(batch)
                    batch = rocksdict.WriteBatch(raw_mode=True)
            db.write(batch)
            db.flush()

    def _open(self) -> Any:
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        return rocksdict.Rdict(str(self.folder), options)

    def plant(self, ids: dict[str, list[int]]) -> None:
        with self._open() as db:
            for n in ids["missing"]:
                del db[self.named(n).encode()]
            for n in ids["extra"]:
                db[self.named(n).encode()] = b"back again"
            for n in ids["altered"]:
                db[self.named(n).encode()] = db[self.named(n).encode()] + b"."
            for n in ids["truncated"]:
                db[self.named(n).encode()] = db[self.named(n).encode()][:20]

    def named(self, n: int) -> str:
        return f"memory:{n:09}"


# --- one run ---------------------------------------------------------------------------------------------------------


def step(verb: str, url: str, manifest: str, generation: str | None) -> dict[str, Any]:
    """`take` or `check` in this process: what it found, the seconds it took, and the peak memory of the process in MiB."""
    begun = time.perf_counter()
    found: dict[str, list[Any]] = {}
    if verb == "take":
        take(url, manifest, generation=generation)
    else:
        checked = check(url, manifest, tell=lambda fault, key: found.setdefault(fault, []).append(key))
        found["verdict"] = [checked.verdict.name]
    seconds = time.perf_counter() - begun
    return {"found": found, "seconds": seconds, "mib": peak_kib() / 1024}


def peak_kib() -> int:
    """Of this process alone: what `getrusage` tells begins with the memory of the process that started this one."""
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))


def in_process(verb: str, store: Postgres | RocksDB, manifest: Path) -> dict[str, Any]:
    words = [sys.executable, __file__, "--step", verb, store.url, str(manifest), store.generation or ""]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run(store: Postgres | RocksDB, folder: Path) -> None:
    manifest = folder / f"{store.name}-{store.rows}"
    places = (1, store.rows // 3, store.rows // 2, store.rows - 20)
    ids = {fault: [n + 2 * at for n in places] for at, fault in enumerate(("missing", "altered", "truncated", "moved"))}
    ids["extra"] = [0, store.rows + 1, store.rows + 7]
    if store.generation is None:
        ids["moved"] = []
    tells = [in_process("take", store, manifest), in_process("check", store, manifest)]
    assert tells[1]["found"] == {"verdict": ["POST_COMPACTION_CLEAN"]}, tells[1]["found"]
    store.plant(ids)
    tells.append(in_process("check", store, manifest))
    found = tells[2]["found"]
    verdict = found.pop("verdict")[0]
    wanted = {fault: sorted(map(store.named, planted)) for fault, planted in ids.items() if planted}
    assert {fault: sorted(keys) for fault, keys in found.items()} == wanted, (found, wanted)
    for what, told in zip(("take", "check, clean", f"check, {sum(map(len, ids.values()))} faults"), tells, strict=True):
        rate = store.rows / told["seconds"]
        print(f"{store.name:<11} {store.rows:>9,} {what:<17} {told['seconds']:>7.1f} {rate:>9,.0f} {told['mib']:>6.0f}", flush=True)
    size = manifest.stat().st_size / store.rows
    named = ", ".join(f"{len(keys)} {fault}" for fault, keys in sorted(found.items()))
    print(f"{'':<21} all named: {named}; {verdict}; {size:.0f} bytes of manifest a record")


@contextmanager
def server(url: str | None) -> Iterator[str]:
    """The address that was given, or that of a server which lives as long as the run."""
    if url:
        yield url
        return
    with PostgresServer(fsync=False, settings={"autovacuum": "off"}) as running:
        yield running.url()


def main() -> None:
    if sys.argv[1:2] == ["--step"]:
        verb, url, manifest, generation = sys.argv[2:]
        print(json.dumps(step(verb, url, manifest, generation or None)))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--postgres", metavar="URL", help="a database to make a table `memory` in")
    given = parser.parse_args()
    print(f"{'store':<11} {'records':>9} {'':<17} {'s':>7} {'records/s':>9} {'MiB':>6}")
    with tempfile.TemporaryDirectory(prefix="lineal-guard-") as name:
        folder = Path(name)
        for rows in (SMALL, given.rows):
            run(RocksDB(folder / f"db-{rows}", rows), folder)
        with server(given.postgres) as url:
            for rows in (SMALL, given.rows):
                run(Postgres(url, rows), folder)


if __name__ == "__main__":
    main()
