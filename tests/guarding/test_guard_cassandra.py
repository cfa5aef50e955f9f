"""The guard over SSTables of Cassandra's format: compaction left half way, rows that come back, files that were cut."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lineal.errors import PolicyError, Unavailable
from lineal.guarding import ForeignDamage, check, take
from lineal.rules.guard import CompactionVerdict

cqlite = pytest.importorskip("cqlite", reason="cqlite-py is not installed")
V = CompactionVerdict
SCHEMA = """
-- what an agent remembers, by session
CREATE TABLE app.memory (session text, n int, body text, generation int, tags frozen<set<text>>, PRIMARY KEY ((session), n))
  WITH comment = 'sessions';
"""
ROWS = 1_200


class Keyspace:
    """The folder of a foreign store, and its writer."""

    def __init__(self, folder: Path):
        self.folder, self.schema = folder, folder / "schema.cql"
        self.tables = folder / "data" / "app" / "memory"
        self.url = f"cassandra:///{folder}/data"
        folder.mkdir()
        self.schema.write_text(SCHEMA)

    def open(self) -> Any:
        return cqlite.open(str(self.folder), schema=str(self.schema), writable=True, write_dir=str(self.folder))

    def does(self, *statements: str) -> None:
        """Each flush makes one more SSTable."""
        with self.open() as db:
            for statement in statements:
                db.execute(statement)
            db.flush_run()

    @property
    def data_files(self) -> list[Path]:
        return sorted(self.tables.glob("*-Data.db"))


@pytest.fixture
def store(tmp_path: Path) -> Keyspace:
    """Five SSTables: half of the rows are in two of them, some in a third under a tombstone."""
    made = Keyspace(tmp_path / "store")
    with made.open() as db:
        for part in range(4):
            for n in range(ROWS // 4 * part, ROWS // 4 * part + ROWS // 2):
                if n < ROWS:
                    db.execute(_insert(n, f"body {n} of part {part}"))
            db.flush_run()
    made.does("DELETE FROM app.memory WHERE session = 's1' AND n = 8", "DELETE FROM app.memory WHERE session = 's2' AND n = 9")
    return made


def _insert(n: int, body: str) -> str:
    return f"INSERT INTO app.memory (session, n, body, generation, tags) VALUES ('s{n % 7}', {n}, '{body}', 1, {{'a', 'b'}})"


@pytest.fixture
def before(store: Keyspace, tmp_path: Path) -> Path:
    taken = take(store.url, tmp_path / "before", generation="generation")
    assert taken.count == ROWS - 2 and taken.header["table"] == "app.memory" and taken.header["ids"] == ["session", "n"]
    return tmp_path / "before"


def test_a_compaction_that_stays_half_done_reads_right_and_ends_clean(store: Keyspace, before: Path) -> None:
    """Record 004: the engine's own pass is paused between two slices of work; then it goes on to its end."""
    with store.open() as db:
        for _ in range(200):
            report = db.maintenance_step(1)
            checked = check(store.url, before)
            assert checked.clean or checked.in_progress and not checked.counts["missing"], checked
            if not report.pending_compaction:
                break
    checked = check(store.url, before)
    assert checked.clean and len(store.data_files) < 5 and checked.notes[0].startswith(f"{len(store.data_files)} SSTables together")


COMPACTING = """
import os, signal, sys, threading, time
import cqlite
folder = sys.argv[1]
db = cqlite.open(folder, schema=folder + "/schema.cql", writable=True, write_dir=folder)
threading.Timer(float(sys.argv[2]), lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
while True:
    db.maintenance_step(2)
"""


@pytest.mark.parametrize("after", [0.005, 0.02, 0.04])
def test_killed_while_it_compacts_old_and_new_together_are_read_as_one(store: Keyspace, before: Path, after: float) -> None:
    """Record 004: the compaction was interrupted, at whatever point; old and new SSTables may lie side by side."""
    done = subprocess.run([sys.executable, "-c", COMPACTING, str(store.folder), str(after)], check=False, stderr=subprocess.PIPE)
    assert done.returncode == -signal.SIGKILL, done.stderr
    checked = check(store.url, before)
    assert checked.clean or checked.in_progress, checked
    assert checked.counts["found"] == ROWS - 2 and not checked.missing and not checked.extra and not checked.altered


def test_work_that_has_not_ended_is_told(store: Keyspace, before: Path, tmp_path: Path) -> None:
    """There is no snapshot to fall back on: wait."""
    log = store.tables / "nb_txn_compaction_4d2c.log"
    log.write_text("ADD:[nb-9-big,0,8][1]\n")
    checked = check(store.url, before)
    assert checked.verdict is V.COMPACTION_IN_PROGRESS and not checked.readable and log.name in checked.running[0]
    with pytest.raises(Unavailable, match="has not ended"):
        take(store.url, tmp_path / "other")
    log.unlink()
    toc = store.tables / store.data_files[1].name.replace("Data.db", "TOC.txt")
    toc.unlink()
    assert "was not finished" in check(store.url, before).running[0]


def test_a_truncated_file_is_read_as_no_rows_and_every_id_is_named(store: Keyspace, before: Path, tmp_path: Path) -> None:
    """Record 004: a partial dataset that looks complete. The reader takes the empty file for an empty table; the manifest knows better."""
    os.truncate(store.data_files[0], 0)
    seen: list[tuple[str, Any]] = []
    checked = check(store.url, before, tell=lambda fault, key: seen.append((fault, key)))
    assert checked.verdict is V.PHANTOM_DELETION and checked.counts["missing"] == 300 - 2
    assert {n for fault, (_, n) in seen if fault == "missing"} == set(range(300)) - {8, 9}
    assert store.data_files[0].name in checked.damage[0] and not checked.readable
    with pytest.raises(ForeignDamage, match=store.data_files[0].name):
        take(store.url, tmp_path / "other")


def test_every_other_damage_is_refused_and_never_a_shorter_list(store: Keyspace, before: Path) -> None:
    whole = store.data_files[0].read_bytes()
    for changed in (
        whole[: len(whole) // 2],
        whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:],
        whole[:4096] + bytes(4096) + whole[8192:],
    ):
        store.data_files[0].write_bytes(changed)
        try:
            checked = check(store.url, before)
        except ForeignDamage as damage:
            assert "app.memory" in str(damage)
        else:
            assert checked.verdict is V.PHANTOM_DELETION and checked.damage


def test_rows_that_come_back_are_left_over(store: Keyspace, before: Path, tmp_path: Path) -> None:
    """A tombstone was purged while a file that it covers was away; the file comes back, and with it the rows."""
    with store.open() as db:
        db.execute("DELETE FROM app.memory WHERE session = 's3' AND n = 10")
        db.flush_run()
    taken = take(store.url, tmp_path / "now", generation="generation")
    assert taken.count == ROWS - 3
    covering = store.data_files[-1].name.split("-")[1]
    for path in store.tables.glob(f"nb-{covering}-*"):
        path.unlink()
    checked = check(store.url, tmp_path / "now")
    assert checked.verdict is V.LEFTOVER and checked.extra == (["s3", 10],)


def test_a_row_that_was_changed_or_deleted_under_it_is_named(store: Keyspace, before: Path) -> None:
    store.does(_insert(7, "another body that is longer"), "DELETE FROM app.memory WHERE session = 's4' AND n = 11")
    checked = check(store.url, before)
    assert checked.missing == (["s4", 11],) and checked.altered == (["s0", 7],)


def test_what_cannot_be_read_rightly_is_refused(store: Keyspace, before: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    for url, words in (
        (f"cassandra:{tmp_path}/none", {}),
        (f"cassandra:{store.folder}?schema={tmp_path}/none.cql", {}),
        (f"cassandra:{store.folder}", {}),  # the folder above: the reader alone would say 0 rows
    ):
        with pytest.raises(Unavailable):
            take(url, new, **words)
    for words in ({"table": "app.none"}, {"where": "n = 1"}, {"ids": ["none"]}):
        with pytest.raises(PolicyError):
            take(store.url, new, **words)  # type: ignore[arg-type]
    store.schema.write_text(SCHEMA.replace("frozen<set<text>>", "set<text>"))
    with pytest.raises(PolicyError, match="not frozen"):
        take(store.url, new)
    shutil.rmtree(store.tables)
    with pytest.raises(Unavailable, match="0 folders"):
        check(f"{store.url}", before)
