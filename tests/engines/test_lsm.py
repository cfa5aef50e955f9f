"""RocksDB and Cassandra's format under a live session: killed while they compact, and with every file of theirs damaged."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("rocksdict", reason="the extra `rocksdb` is not installed")
pytest.importorskip("cqlite", reason="the extra `cassandra` is not installed")

import lineal
from lineal.errors import LinealError

SCHEMES = ["rocksdb", "cassandra"]
LIFE = """
import sys, threading
import lineal
from lineal.errors import LinealError

url, told = sys.argv[1:]
store = lineal.connect(url)
policy = lineal.Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4, summary_max_tokens=200)
session = store.session("agent", policy, lambda request: "The plan was read part by part; nothing in it stood out.")
begun = len(session.turns())

def compacting():
    while True:
        store.engine.compact() if hasattr(store.engine, "compact") else store.engine.maintain(2)
        print("compacted", flush=True)

threading.Thread(target=compacting, daemon=True).start()
with open(told, "a", buffering=1) as acknowledged:
    for n in range(begun, begun + 10_000):
        session.append({"role": "user" if n % 2 == 0 else "assistant", "content": f"turn {n}: " + "and so on " * 20}, id=f"t{n}")
        acknowledged.write(f"t{n}\\n")
        if n % 10 == 9:
            session.maybe_compact()
            session.checkpoint(f"c{n}")
        print(n, flush=True)
"""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_killed_while_it_compacts_it_loses_nothing_that_was_acknowledged(scheme: str, tmp_path: Path) -> None:
    """R1, R30, R62, record 004: again and again; what is read afterwards is one generation, and whole."""
    url, told = f"{scheme}:///{tmp_path / 'store'}", tmp_path / "told"
    for life in range(5):
        words = [sys.executable, "-c", LIFE, url, str(told)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
            assert child.stdout and child.stderr
            lines = 0
            while lines < 25 + 7 * life and child.stdout.readline():
                lines += 1
            child.send_signal(signal.SIGKILL)
            child.stdout.read()
            wrong = child.stderr.read()
        assert child.returncode == -signal.SIGKILL, wrong
        acknowledged = told.read_text().split()
        with lineal.connect(url, create=False) as store:
            session = store.session("agent")
            ids = [turn.id for turn in session.turns()]
            assert ids == [f"t{n}" for n in range(len(ids))] and len(acknowledged) <= len(ids) <= len(acknowledged) + 1
            session.recover()
            assert session.verify().clean and not store.engine.check()
        told.write_text("".join(f"{id}\n" for id in ids))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def lived(url: str) -> list[str]:
    """A store that was flushed, compacted and goes on; returns what stands in it."""
    with lineal.connect(url) as store:
        session = store.session("agent")
        for n in range(60):
            session.append({"role": "user", "content": f"turn {n}: " + "and so on " * 30}, id=f"t{n}")
            if n % 20 == 19:
                session.checkpoint(f"c{n}")
                store.engine.compact() if hasattr(store.engine, "compact") else store.engine.maintain(200)
        return [turn.id for turn in session.turns()]


@pytest.mark.parametrize("harm", [flip, cut, Path.unlink], ids=["flipped bit", "cut short", "gone"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_whatever_file_is_damaged_nothing_is_read_as_whole_that_is_not(scheme: str, harm: Callable[[Path], None], tmp_path: Path) -> None:
    """R5, R59, R62: each file in turn. It is named, or it holds nothing that is needed; the anchor outside knows the tail."""
    first = tmp_path / "first"
    wanted = lived(f"{scheme}:///{first}")
    anchor = tmp_path / "anchor"
    with lineal.connect(f"{scheme}:///{first}", anchor=anchor) as store:
        store.session("agent").append({"role": "user", "content": "the last"}, id="last")
    wanted.append("last")
    files = sorted(p.relative_to(first) for p in first.rglob("*") if p.is_file() and p.stat().st_size)
    assert len(files) > 4
    named = 0
    for n, file in enumerate(files):
        place = tmp_path / f"copy{n}"
        shutil.copytree(first, place)
        harm(place / file)
        try:
            with lineal.connect(f"{scheme}:///{place}", anchor=shutil.copy(anchor, tmp_path / f"anchor{n}"), create=False) as store:
                whole = store.verify().clean
                ids = [turn.id for turn in store.session("agent").turns()]
        except LinealError as error:
            assert str(error)
            named += 1
            continue
        if whole:
            assert ids == wanted, f"{file}: {len(ids)} of {len(wanted)} turns, and nobody says so"
        named += not whole
        shutil.rmtree(place)
    assert named, "no file holds anything"
