"""The guard over a foreign RocksDB store: killed while it compacts, damaged, live in another process, open in this one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lineal.errors import PolicyError, Unavailable
from lineal.guarding import ForeignDamage, check, take
from lineal.rules.guard import CompactionVerdict

rocksdict = pytest.importorskip("rocksdict", reason="rocksdict is not installed")
V = CompactionVerdict
ROWS = 20_000


def store(folder: Path, bytes_a_second: int = 1 << 30) -> Any:
    """Open for writing; it compacts when it is told to, and no faster than that."""
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_disable_auto_compactions(True)
    options.set_ratelimiter(bytes_a_second, 100_000, 10)
    return rocksdict.Rdict(str(folder), options)


def key(n: int) -> bytes:
    return b"session:%07d" % n


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "db"
    with store(path) as db:
        for part in range(4):  # four files that overlap, each key written twice: something to compact
            for n in range(part % 2, ROWS, 2):
                db[key(n)] = b"value %d, " % n + b"x" * (n % 200)
            db.flush()
        db[b"other:1"] = b"nobody asks for it"
    return path


@pytest.fixture
def before(folder: Path, tmp_path: Path) -> Path:
    take(f"rocksdb:///{folder}", tmp_path / "before", prefix="session:")
    return tmp_path / "before"


def changed(folder: Path, change: Callable[[Any], Any]) -> None:
    with store(folder) as db:
        change(db)
        db.flush()


def test_a_compaction_leaves_it_clean_and_nothing_is_written_beside_it(folder: Path, before: Path) -> None:
    listed = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert check(f"rocksdb:{folder}", before).clean
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == listed
    changed(folder, lambda db: db.compact_range(None, None))
    checked = check(f"rocksdb:{folder}", before)
    assert checked.clean and checked.counts["found"] == ROWS


def test_what_was_changed_under_it_is_named(folder: Path, before: Path) -> None:
    def faults(db: Any) -> None:
        del db[key(7)]
        db[key(8)] = b"value 8, another"
        db[b"session:zombie"] = b"back again"
        db[b"other:2"] = b"still nobody asks"

    changed(folder, faults)
    checked = check(f"rocksdb:{folder}", before)
    assert checked.missing == ("session:0000007",) and checked.extra == ("session:zombie",)
    assert checked.altered + checked.truncated == ("session:0000008",)
    assert checked.verdict is V.PHANTOM_DELETION and V.LEFTOVER in checked.verdicts


COMPACTING = """
import os, signal, sys, threading, time
import rocksdict
options = rocksdict.Options(raw_mode=True)
options.set_disable_auto_compactions(True)
options.set_ratelimiter(200_000, 100_000, 10)
db = rocksdict.Rdict(sys.argv[1], options)
live = {file["name"].strip("/") for file in db.live_files()}
threading.Thread(target=lambda: db.compact_range(None, None), daemon=True).start()
while not {name for name in os.listdir(sys.argv[1]) if name.endswith(".sst")} - live:
    time.sleep(0.001)
print(db.property_int_value("rocksdb.num-running-compactions"), flush=True)
if sys.argv[2] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
sys.stdin.read()
"""


def in_compaction(folder: Path, what: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", COMPACTING, str(folder), what], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    if process.stdout.readline().strip() != "1":
        process.kill()
        process.wait()
        pytest.skip("the compaction was over before it could be seen")
    return process


def test_killed_in_the_middle_of_a_compaction_it_is_clean(folder: Path, before: Path) -> None:
    """Record 004: the compaction was interrupted. RocksDB makes its output part of the store in one step or not at all."""
    process = in_compaction(folder, "kill")
    assert process.wait() == -signal.SIGKILL
    checked = check(f"rocksdb:{folder}", before)
    assert checked.clean and any("its process died over it" in note for note in checked.notes), checked.notes
    changed(folder, lambda db: db.compact_range(None, None))
    assert check(f"rocksdb:{folder}", before).clean


def test_a_compaction_in_another_process_is_seen(folder: Path, before: Path) -> None:
    """Record 004: wait; or read a snapshot from before, which is what was read."""
    if not os.path.exists("/proc/locks"):
        pytest.skip("this system does not say who holds a lock")
    process = in_compaction(folder, "wait")
    os.kill(process.pid, signal.SIGSTOP)
    try:
        checked = check(f"rocksdb:{folder}", before)
        assert checked.verdict is V.COMPACTION_IN_PROGRESS and checked.readable and not checked.clean
        assert f"process {process.pid}" in checked.running[0] and checked.manifest.directive.startswith("WAIT")
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert check(f"rocksdb:{folder}", before).clean


def test_a_flipped_bit_is_refused_by_name_and_never_a_shorter_list(folder: Path, before: Path, tmp_path: Path) -> None:
    """The engine's own iterator just ends at such a block; only its status says why."""
    tables = sorted(folder.glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(tables[-1].read_bytes())
    data[len(data) // 3] ^= 1
    tables[-1].write_bytes(data)
    for call in (lambda: check(f"rocksdb:{folder}", before), lambda: take(f"rocksdb:{folder}", tmp_path / "new")):
        with pytest.raises(ForeignDamage) as caught:
            call()
        assert tables[-1].name in str(caught.value) and "behind key" in str(caught.value)


def test_a_store_that_is_open_here_is_read_through_a_snapshot(folder: Path, before: Path) -> None:
    with store(folder) as db:
        assert check(db, before).clean
        del db[key(3)]
        assert check(db, before).missing == ("session:0000003",)
        assert check(f"rocksdb:{folder}", before).missing == ("session:0000003",), "what is only in the write-ahead log is read, too"
        db[key(4)] = b"the lock is still ours"


def test_a_compaction_of_a_store_that_is_open_here_is_seen(folder: Path, before: Path) -> None:
    """Record 004: it is asked of the engine itself."""
    with store(folder, bytes_a_second=1_000_000) as db:
        work = threading.Thread(target=lambda: db.compact_range(None, None))
        work.start()
        while work.is_alive() and not db.property_int_value("rocksdb.num-running-compactions"):
            pass
        checked = check(db, before)
        work.join()
        while db.property_int_value("rocksdb.num-running-compactions"):  # it is counted a moment longer than it is waited for
            pass
        assert checked.verdict is V.COMPACTION_IN_PROGRESS and checked.readable and checked.running == ("1 running compactions",)
        assert check(db, before).clean


def test_what_cannot_be_meant_is_refused(folder: Path, before: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    for words, error in (
        ({"ids": ["key"]}, PolicyError),
        ({"where": "1"}, PolicyError),
        ({"table": "nope"}, PolicyError),
        ({"prefix": "0xz"}, PolicyError),
    ):
        with pytest.raises(error):
            take(f"rocksdb:{folder}", new, **words)  # type: ignore[arg-type]
    for url in (f"rocksdb:{tmp_path}", f"rocksdb:{tmp_path}/none"):
        with pytest.raises(Unavailable):
            take(url, new)
    assert not new.exists() and not (tmp_path / "none").exists()


def test_a_column_family_is_a_table(tmp_path: Path) -> None:
    with store(tmp_path / "db") as db:
        other = db.create_column_family("other", rocksdict.Options(raw_mode=True))
        db[b"a"], other[b"a"], other[b"\xff\x00"] = b"1", b"2", b"3"
        other.flush()
        other.close()
    taken = take(f"rocksdb:{tmp_path}/db", tmp_path / "m", table="other")
    assert taken.count == 2
    with rocksdict.Rdict(str(tmp_path / "db"), rocksdict.Options(raw_mode=True)) as db:
        del db.get_column_family("other")[b"\xff\x00"]
    assert check(f"rocksdb:{tmp_path}/db", tmp_path / "m").missing == ("0xff00",)
