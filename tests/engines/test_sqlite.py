"""The SQLite engine: the whole suite, then what only a file can suffer: locks, full disks, power cuts, flips, forks."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from lineal.engines import Row, open_engine
from lineal.engines import sqlite as module
from lineal.engines.sqlite import SqliteEngine
from lineal.errors import Conflict, Corrupt, LinealError, Unavailable
from lineal.testing.disk import FaultyDisk
from lineal.testing.durable import DurableEngineTests
from lineal.testing.engine import row, rows


class TestSqliteEngine(DurableEngineTests):
    @pytest.fixture(params=["", "?checksums=1"], ids=["plain", "checksums"])
    def engine_url(self, store_path: Path, request: pytest.FixtureRequest) -> str:
        return f"{store_path}{request.param}"

    @pytest.fixture
    def make_engine(self, engine_url: str) -> Iterator[Callable[[], SqliteEngine]]:
        handles: list[SqliteEngine] = []

        def make() -> SqliteEngine:
            handles.append(SqliteEngine.open(engine_url))
            return handles[-1]

        yield make
        for handle in handles:
            handle.close()


@pytest.fixture
def engine(store_path: Path) -> Iterator[SqliteEngine]:
    engine = SqliteEngine.open(f"{store_path}?wait=0.2")
    yield engine
    engine.close()


def test_append_is_one_insert_and_one_commit_and_reads_nothing(engine: SqliteEngine) -> None:
    """DESIGN section 6: no statement of an append is a SELECT of its own."""
    engine.append("s", 0, rows(1, 1))
    ran: list[str] = []
    engine._writer.set_exec_trace(lambda cursor, statement, bindings: ran.append(statement.split()[0]) or True)
    engine.append("s", 1, rows(2, 1))
    engine.append("s", 2, rows(3, 3))
    engine._writer.set_exec_trace(None)
    assert ran == ["BEGIN", "INSERT", "COMMIT"] + ["BEGIN", "INSERT", "INSERT", "INSERT", "COMMIT"]


def test_find_and_append_use_an_index(engine: SqliteEngine) -> None:
    """E5: no step of the lookups goes over a table."""
    sql = module.sql
    for statement, bound in ((sql.FIND, 3), (sql.APPEND, 12), (sql.HEAD, 1), (sql.HOLDER, 2), (sql.STATE, 2)):
        plan = [step for *_, step in engine._writer.execute(f"EXPLAIN QUERY PLAN {statement}", (None,) * bound)]
        assert plan and [step for step in plan if step.startswith("SCAN")] == []


def test_a_scan_holds_one_row_at_a_time(engine: SqliteEngine) -> None:
    """R37: memory is bounded by a row, not by the log."""
    for seq in range(1, 41):
        engine.append("s", seq - 1, [row(seq, os.urandom(1 << 19))])
    tracemalloc.start()
    assert sum(r.size for r in engine.scan("s")) == 40 << 19
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 << 19


# --- locks -----------------------------------------------------------------------------------------------------------


def test_a_lock_held_past_the_deadline_is_unavailable_and_says_how_long(engine: SqliteEngine, store_path: Path) -> None:
    """R37: reads go on meanwhile; afterwards the engine writes again; nothing of the refused append is there."""
    engine.append("s", 0, rows(1, 1))
    other = apsw.Connection(str(store_path))
    other.execute("BEGIN IMMEDIATE")
    for write in (lambda: engine.append("s", 1, rows(2, 1)), lambda: engine.latch("s", "why"), lambda: engine.delete("s", [1])):
        with pytest.raises(Unavailable, match=r"waited 0\.[2-9] s|waited [1-9]"):
            write()
    assert list(engine.scan("s")) == rows(1, 1)
    other.execute("ROLLBACK")
    engine.append("s", 1, rows(2, 1))
    assert list(engine.scan("s")) == rows(1, 2)


def test_a_thread_that_holds_the_writer_is_waited_for_until_the_deadline(engine: SqliteEngine) -> None:
    """R37."""
    with engine._writing("hold", "s"):
        failures: list[LinealError] = []

        def write() -> None:
            try:
                engine.append("s", 0, rows(1, 1))
            except LinealError as e:
                failures.append(e)

        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert [type(e) for e in failures] == [Unavailable] and "waited 0.2 s" in str(failures[0])
    engine.append("s", 0, rows(1, 1))


def test_others_append_while_many_rows_are_dropped(store_path: Path) -> None:
    """R37: a long delete is many short transactions, and lets a second process's handle in between them."""
    engine, other = SqliteEngine.open(str(store_path)), SqliteEngine.open(str(store_path))
    engine.append("old", 0, [row(n, bytes(500)) for n in range(1, 5001)])
    appended, appended_at_commit = 0, []

    def note() -> bool:
        appended_at_commit.append(appended)
        return False

    engine._writer.set_commit_hook(note)
    thread = threading.Thread(target=engine.delete, args=("old", range(1, 5000)))
    thread.start()
    while thread.is_alive():
        other.append("new", appended, rows(appended + 1, 1))
        appended += 1
    thread.join()
    assert len(appended_at_commit) >= 10
    assert len(set(appended_at_commit)) > len(appended_at_commit) / 2
    assert [r.seq for r in other.scan("old")] == [5000]
    engine.close()
    other.close()


# --- a disk that fills up, a machine that stops ----------------------------------------------------------------------


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    disk = FaultyDisk()
    yield disk
    disk.unregister()


def test_a_full_disk_is_unavailable_and_leaves_no_hole(disk: FaultyDisk, store_path: Path) -> None:
    """R1: three appends fail, what stood is read, then there is space and the order goes on."""
    engine = SqliteEngine.open(f"{store_path}?vfs={disk.vfs_name}")
    engine.append("s", 0, rows(1, 5))
    disk.full_at = disk.writes + 1
    for _ in range(3):
        with pytest.raises(Unavailable, match="free disk space"):
            engine.append("s", 5, rows(6, 2))
        assert list(engine.scan("s")) == rows(1, 5)
    disk.full_at = None
    engine.append("s", 5, rows(6, 100))
    engine.close()
    assert list(SqliteEngine.open(str(store_path)).scan("s")) == rows(1, 105)


def _story(engine: SqliteEngine, told: list[str]) -> None:
    """A short life, with each acknowledgement told."""
    for seq in range(1, 13, 2):
        engine.append("s", seq - 1, [row(seq, bytes([seq]) * 3000, unique=f"u{seq}"), row(seq + 1, keys=("k",))])
        told.append(f"append {seq + 1}")
    engine.put_state("s", 12, b"state" * 2000)
    told.append("state")
    engine.delete("s", [1, 2], content_only=True)
    told.append("erase")
    engine.delete("s", [3, 4])
    told.append("drop")
    engine.append("s", 12, rows(13, 1))
    told.append("append 13")


@pytest.mark.parametrize("torn", [0.0, 0.6])
def test_the_machine_may_stop_at_any_write(disk: FaultyDisk, tmp_path: Path, torn: float) -> None:
    """E1, E6, E9, R1, R30, R35: at each third write, torn or not: what was told is there, the rest is whole or absent."""
    whole = SqliteEngine.open(f"{tmp_path / 'whole.db'}?vfs={disk.vfs_name}")
    begun, told = disk.writes, []
    _story(whole, told)
    writes, steps = disk.writes - begun, told
    whole.close()
    assert writes > 60
    for k in range(1, writes + 1, 3):
        path, told = tmp_path / f"{k}.db", []
        engine = SqliteEngine.open(f"{path}?vfs={disk.vfs_name}")
        disk.crash_at, disk.torn = disk.writes + k, torn
        with suppress(Unavailable):
            _story(engine, told)
            engine.close()
        assert disk.dead
        disk.restart()
        del engine
        _is_what_was_told(SqliteEngine.open(str(path), create=False), told, steps)
        for file in tmp_path.glob(f"{k}.db*"):
            file.unlink()


@pytest.mark.parametrize("torn", [0.0, 0.6])
def test_the_machine_may_stop_while_a_store_is_made(disk: FaultyDisk, tmp_path: Path, torn: float) -> None:
    """R30: at each write of it; what is left is made into a store by the next open."""
    SqliteEngine.open(f"{tmp_path / 'whole.db'}?vfs={disk.vfs_name}").close()
    writes = disk.writes
    assert writes > 10
    for k in range(1, writes + 1):
        disk.crash_at, disk.torn = disk.writes + k, torn
        with suppress(Unavailable):
            SqliteEngine.open(f"{tmp_path / f'{k}.db'}?vfs={disk.vfs_name}").close()
        assert disk.dead
        disk.restart()
        engine = SqliteEngine.open(str(tmp_path / f"{k}.db"))
        engine.append("s", 0, rows(1, 2))
        assert engine.check() == []
        engine.close()


def _is_what_was_told(engine: SqliteEngine, told: list[str], steps: list[str]) -> None:
    found = list(engine.scan("s"))
    heads = [int(step.split()[1]) for step in told if step.startswith("append")]
    next_step = steps[len(told)] if len(told) < len(steps) else "close"
    allowed = {max(heads, default=0)} | ({int(next_step.split()[1])} if next_step.startswith("append") else set())
    head = found[-1].seq if found else 0
    assert head in allowed
    kept = [r.seq for r in found]
    assert kept == list(range(1, head + 1)) or ("erase" in told and kept == [1, 2, *range(5, head + 1)])
    assert ("drop" not in told) or kept == [1, 2, *range(5, head + 1)]
    assert ("erase" not in told) or (found[0].erased and found[1].erased)
    assert ("state" not in told) or engine.state("s") == (12, b"state" * 2000)
    assert engine.check() == []
    engine.append("s", head, rows(head + 1, 1))
    engine.close()


# --- damage ----------------------------------------------------------------------------------------------------------


def _some_life(engine: SqliteEngine) -> None:
    engine.append("s", 0, [row(n, os.urandom(300), unique=f"u{n}", keys=("k", f"k{n}")) for n in range(1, 60)])
    engine.put_state("s", 5, os.urandom(2500))
    engine.latch("t", "why")


def _everything(engine: SqliteEngine) -> list[Any]:
    return [list(engine.scan("s")), engine.find("s", "k"), engine.state("s"), engine.latched("t"), engine.sessions()]


@pytest.mark.parametrize("option", ["", "?checksums=1"], ids=["plain", "checksums"])
def test_a_flipped_bit_is_never_more_than_corrupt(store_path: Path, option: str) -> None:
    """E9, R59: anywhere in the file. With page checksums no altered byte is ever handed out; without, the chain above tells."""
    engine = SqliteEngine.open(f"{store_path}{option}")
    _some_life(engine)
    engine.close()
    good, chance, outcomes = store_path.read_bytes(), random.Random(7), []
    engine = SqliteEngine.open(str(store_path))
    whole = _everything(engine)
    engine.close()
    for place in range(0, len(good), 97):
        bad = bytearray(good)
        bad[place] ^= 1 << chance.randrange(8)
        store_path.write_bytes(bad)
        try:
            engine = SqliteEngine.open(str(store_path))
            outcomes.append("same" if _everything(engine) == whole else "other")
            engine.close()
        except Corrupt:
            outcomes.append("corrupt")
        except Unavailable as e:
            assert "format" in str(e) or "another program" in str(e)
        for beside in ("-wal", "-shm"):
            Path(f"{store_path}{beside}").unlink(missing_ok=True)
    assert outcomes.count("corrupt") > (len(outcomes) * 0.9 if option else 5)
    assert "other" not in outcomes if option else outcomes.count("same") > 100


def test_a_scan_over_a_damaged_page_names_the_seq_it_stopped_at(store_path: Path) -> None:
    """E4, R59: rows before the damage are yielded, then `Corrupt`; the log never just ends."""
    engine = SqliteEngine.open(f"{store_path}?checksums=1")
    engine.append("s", 0, [row(n, b"%04d" % n * 250) for n in range(1, 201)])
    engine.close()
    bad = bytearray(store_path.read_bytes())
    bad[bad.index(b"0150" * 250)] ^= 1
    store_path.write_bytes(bad)
    engine, seen = SqliteEngine.open(str(store_path)), []
    with pytest.raises(Corrupt) as failure:
        seen.extend(r.seq for r in engine.scan("s"))
    assert (failure.value.session, failure.value.seq) == ("s", seen[-1] + 1 if seen else 1)
    assert 140 < failure.value.seq <= 150
    assert [r.seq for r in engine.scan("s", after=160)] == list(range(161, 201))
    assert any("page" in finding for finding in engine.check())
    engine.close()


# --- other lives of a process ----------------------------------------------------------------------------------------


def test_a_forked_child_is_told_to_open_the_store_again(engine: SqliteEngine, store_path: Path) -> None:
    """E9: in the child every use is `Unavailable`; opened again there, the store works; the parent's handle goes on."""
    engine.append("s", 0, rows(1, 1))
    child = os.fork()
    if child == 0:
        try:
            with pytest.raises(Unavailable, match="open it again in the child"):
                engine.append("s", 1, rows(2, 1))
            with pytest.raises(Unavailable, match="open it again in the child"):
                list(engine.scan("s"))
            engine.close()
            SqliteEngine.open(str(store_path)).append("s", 1, rows(2, 1))
            os._exit(0)
        except BaseException:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(Conflict):
        engine.append("s", 1, rows(2, 1))
    engine.append("s", 2, rows(3, 1))


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_file_that_is_gone_from_its_path_is_not_written_to(engine: SqliteEngine, store_path: Path, how: str) -> None:
    """R1: a row in a file that nobody can open again would be acknowledged and lost."""
    engine.append("s", 0, rows(1, 1))
    store_path.rename(store_path.with_name("moved.db"))
    if how == "replaced":
        store_path.write_bytes(b"")
    for use in (lambda: engine.append("s", 1, rows(2, 1)), lambda: list(engine.scan("s"))):
        with pytest.raises(Unavailable, match="moved, deleted or replaced"):
            use()


def test_a_kill_at_any_sync_loses_nothing_told(store_path: Path) -> None:
    """E1: SIGKILL by the kernel in the n-th fdatasync of another process, where strace can do it."""
    script = (
        "import sys\nfrom lineal.engines import open_engine\nfrom lineal.testing.engine import row\n"
        "engine = open_engine(sys.argv[1])\n"
        "for seq in range(1, 30):\n engine.append('s', seq - 1, [row(seq)])\n print(seq, flush=True)\n"
    )
    try:
        subprocess.run(["strace", "-o", "/dev/null", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("strace cannot trace here")
    for n in (3, 9, 21):
        inject = f"inject=fdatasync,fsync:signal=KILL:when={n}"
        command = ["strace", "-f", "-q", "-o", "/dev/null", "-e", inject, sys.executable, "-c", script, f"{store_path}{n}"]
        told = [int(line) for line in subprocess.run(command, capture_output=True, text=True).stdout.split()]
        assert len(told) < 29
        engine = open_engine(f"{store_path}{n}")
        found = list(engine.scan("s"))
        assert found[: len(told)] == [row(seq) for seq in told] and len(found) - len(told) in (0, 1)
        engine.close()


def test_many_readers_leave_few_connections(store_path: Path) -> None:
    """R37: hundreds of scans half read, from many threads, leave a bounded number of connections open."""
    engine = SqliteEngine.open(str(store_path))
    engine.append("s", 0, rows(1, 50))

    def look() -> None:
        for _ in range(30):
            scan: Iterator[Row] = engine.scan("s")
            next(scan)
            engine.find("s", "k")

    threads = [threading.Thread(target=look) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 < len(engine._readers) <= module.IDLE_READERS
    engine.close()


def test_a_long_delete_lets_others_write_between_its_chunks(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R37: a chunk ends when its time is up, however few rows it took; the lock is free until the next."""
    engine, other = SqliteEngine.open(str(store_path)), SqliteEngine.open(f"{store_path}?wait=0")
    engine.append("s", 0, rows(1, 6))
    written = 0

    def nap(seconds: float) -> None:
        nonlocal written
        other.append("other", written, [row(written + 1)])
        written += 1

    monkeypatch.setattr(module, "CHUNK_SECONDS", -1.0)
    monkeypatch.setattr(module.time, "sleep", nap)
    engine.delete("s", range(1, 6))
    assert written == 4 and [r.seq for r in engine.scan("s")] == [6]
    engine.close()
    other.close()


def test_a_session_that_another_process_begins_meanwhile_is_not_taken_for_damage(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E8: its name is asked for in the index and then in the table; between the two it may have been made."""
    engine, other = SqliteEngine.open(str(store_path)), SqliteEngine.open(str(store_path))
    asked = engine._ask

    def ask(*arguments: Any) -> list[Any]:
        found = asked(*arguments)
        if not other.sessions():
            other.append("s", 0, rows(1, 1))
        return found

    monkeypatch.setattr(engine, "_ask", ask)
    assert engine.latched("s") is None and other.sessions() == ["s"]
    engine.close()
    other.close()
