"""The anchor outside the data file: what was acknowledged cannot be taken back unseen (R60)."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import lineal
from lineal.anchor import AnchorFile, AnchorPlace
from lineal.engines.memory import MemoryEngine
from lineal.errors import Corrupt, Unavailable
from lineal.store import Store
from lineal.testing.faults import FaultyEngine


@pytest.fixture
def anchor(tmp_path: Path) -> AnchorFile:
    return AnchorFile(tmp_path / "elsewhere" / "anchor.json")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()


# --- the file ------------------------------------------------------------------------------------------------------------


def test_heads_are_remembered_by_session(anchor: AnchorFile) -> None:
    assert anchor.read() == {}
    anchor.move("a", 3, "aa", 0)
    anchor.move("b\ud800", 1, "bb", 2)
    anchor.move("a", 4, "ab", 1)
    assert AnchorFile(anchor.path).read() == {"a": (4, "ab", 1), "b\ud800": (1, "bb", 2)}
    assert [p.name for p in anchor.path.parent.iterdir() if p.name.endswith(".new")] == []


def test_an_older_head_does_not_set_back_a_newer_one(anchor: AnchorFile) -> None:
    """R41."""
    anchor.move("a", 9, "nine", 0)
    anchor.move("a", 8, "eight", 0)
    assert anchor.read()["a"] == (9, "nine", 0)


def test_the_file_is_durable_before_it_takes_its_name_and_the_name_before_the_return(
    anchor: AnchorFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R60: a power cut leaves the old anchor or the new one, and after the return the new one."""
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(number: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(number).st_mode) else "file")
        fsync(number)

    def renamed(old: Any, new: Any) -> None:
        steps.append("rename")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    anchor.move("a", 3, "aa", 0)
    assert steps == ["file", "rename", "folder"]


def test_who_moves_the_anchor_waits_for_another_process(anchor: AnchorFile) -> None:
    """R41: between its reading and its writing nobody else writes."""
    with open(f"{anchor.path}.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        mover = threading.Thread(target=anchor.move, args=("a", 3, "aa", 0), daemon=True)
        mover.start()
        mover.join(0.3)
        assert mover.is_alive() and anchor.read() == {}
    mover.join()
    assert anchor.read() == {"a": (3, "aa", 0)}


def test_the_anchor_never_leads(anchor: AnchorFile) -> None:
    """R60: an append that failed is not anchored, so that the next open does not miss it."""
    engine = FaultyEngine(MemoryEngine())
    session = Store(engine, anchor=anchor.path).session("agent")
    session.append({"role": "user", "content": "said"})
    engine.fail_at(len(engine.calls) + 1)
    with pytest.raises(Unavailable):
        session.append({"role": "user", "content": "not said"})
    assert anchor.read()["agent"][0] == 1
    assert len(Store(engine, anchor=anchor.path).session("agent").messages()) == 1


def test_a_head_at_or_above_the_anchor_with_its_digest_is_sound(anchor: AnchorFile) -> None:
    anchor.check("a", 0, lambda seq: None)
    anchor.move("a", 3, "aa", 0)
    anchor.check("a", 3, lambda seq: {3: "aa"}[seq])
    anchor.check("a", 7, lambda seq: {3: "aa"}[seq])
    with pytest.raises(Corrupt) as damage:
        anchor.check("a", 2, lambda seq: "aa")
    assert damage.value.seq == 3 and "cut tail" in str(damage.value)
    with pytest.raises(Corrupt, match="other history"):
        anchor.check("a", 3, lambda seq: "bb")
    with pytest.raises(Corrupt, match="other history"):
        anchor.check("a", 7, lambda seq: None)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 3}', '{"a": ["x", "aa", 0]}', '{"a": [3, "aa"]}', "null"])
def test_a_file_that_is_no_anchor_is_corrupt(anchor: AnchorFile, text: str) -> None:
    anchor.path.write_text(text)
    with pytest.raises(Corrupt, match="anchor"):
        anchor.read()


def test_a_file_that_cannot_be_read_or_written_is_unavailable(anchor: AnchorFile) -> None:
    anchor.path.mkdir()
    with pytest.raises(Unavailable, match="anchor"):
        anchor.read()
    absent = AnchorFile(anchor.path / "no folder" / "anchor.json")
    with pytest.raises(Unavailable, match="anchor"):
        absent.move("a", 1, "aa", 0)


APPEND_MANY = """
import sys, lineal
path, anchor, name = sys.argv[1:]
session = lineal.connect(path, anchor=anchor).session(name, summarizer=str)
for n in range(25):
    session.append({"role": "user", "content": f"turn {n}"})
"""


def test_processes_that_share_an_anchor_lose_no_head(tmp_path: Path, anchor: AnchorFile) -> None:
    """Each process moves its own session's head; none may write back an older head of another's."""
    path = str(tmp_path / "agent.db")
    lineal.connect(path).close()
    workers = [subprocess.Popen([sys.executable, "-c", APPEND_MANY, path, str(anchor.path), f"s{n}"]) for n in range(3)]
    assert [worker.wait(60) for worker in workers] == [0, 0, 0]
    assert {name: seq for name, (seq, _, _) in anchor.read().items()} == {"s0": 25, "s1": 25, "s2": 25}


# --- stores --------------------------------------------------------------------------------------------------------------


def turn(n: int) -> dict[str, Any]:
    return {"role": "user", "content": f"turn {n}"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


def filled(path: Path, anchor: AnchorFile, count: int = 6) -> None:
    with lineal.connect(path, anchor=anchor.path) as store:
        session = store.session("a", summarizer=str)
        for n in range(count):
            session.append(turn(n))


def cut_tail(path: Path, above: int) -> None:
    """What a copy that lost its last rows looks like: every row that is left still verifies."""
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM entries WHERE id & ((1 << 36) - 1) > ?", (above,))
    db.close()


def test_the_anchor_follows_each_append(path: Path, anchor: AnchorFile) -> None:
    filled(path, anchor)
    with lineal.connect(path, anchor=anchor.path) as store:
        session = store.session("a", summarizer=str)
        assert anchor.read()["a"] == (6, session.status().digest, 0)
        session.rollback(3)
        assert anchor.read()["a"] == (7, session.status().digest, 1)


def test_a_cut_tail_is_seen_at_the_next_open_and_verified(path: Path, anchor: AnchorFile) -> None:
    """R60: not only in an audit. Without the anchor the shorter log would look whole."""
    filled(path, anchor)
    cut_tail(path, 4)
    with lineal.connect(path) as store:
        assert len(store.session("a", summarizer=str).messages()) == 4
        assert store.verify("a").clean
    with lineal.connect(path, anchor=anchor.path) as store:
        with pytest.raises(Corrupt) as damage:
            store.session("a", summarizer=str)
        assert damage.value.seq == 5 and "cut tail" in str(damage.value)
        assert [(r.verdict.name, r.seqs) for r in store.verify("a")] == [("CUT_TAIL", (6,))]
        assert [t.seq for t in store.salvage("a")] == [1, 2, 3, 4]


def test_an_older_copy_of_the_file_is_seen(path: Path, anchor: AnchorFile, tmp_path: Path) -> None:
    """R60: also one that went on by itself since."""
    filled(path, anchor, 3)
    shutil.copy(path, tmp_path / "backup.db")
    filled(path, anchor, 3)
    with lineal.connect(tmp_path / "backup.db", anchor=anchor.path) as store, pytest.raises(Corrupt):
        store.session("a", summarizer=str)
    with lineal.connect(tmp_path / "backup.db") as store:
        session = store.session("a", summarizer=str)
        for n in range(8):
            session.append(turn(n + 50))
    with lineal.connect(tmp_path / "backup.db", anchor=anchor.path) as store, pytest.raises(Corrupt, match="other history"):
        store.session("a", summarizer=str)


def test_a_session_that_vanished_whole_is_named(path: Path, anchor: AnchorFile) -> None:
    filled(path, anchor)
    cut_tail(path, 0)
    with lineal.connect(path, anchor=anchor.path) as store:
        assert store.sessions() == []
        assert [r.verdict.name for r in store.verify()] == ["CUT_TAIL"]
        with pytest.raises(Corrupt):
            store.session("a", summarizer=str)


def test_an_anchor_that_lags_by_one_append_is_no_damage(path: Path, anchor: AnchorFile) -> None:
    """Killed between the commit and the anchor: the entry is durable and stands."""
    filled(path, anchor)
    heads = json.loads(anchor.path.read_text())
    filled(path, anchor, 1)
    anchor.path.write_text(json.dumps(heads))
    with lineal.connect(path, anchor=anchor.path) as store:
        assert len(store.session("a", summarizer=str).messages()) == 7


@pytest.mark.skipif(os.geteuid() == 0, reason="for root every folder is writable")
def test_an_append_whose_anchor_cannot_be_written_says_so_and_is_durable(path: Path, anchor: AnchorFile) -> None:
    filled(path, anchor)
    folder = anchor.path.parent
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with lineal.connect(path, anchor=anchor.path) as store, pytest.raises(Unavailable, match="durable"):
            store.session("a", summarizer=str).append(turn(9))
    finally:
        folder.chmod(stat.S_IRWXU)
    with lineal.connect(path, anchor=anchor.path) as store:
        assert len(store.session("a", summarizer=str).messages()) == 7


def test_an_anchor_moves_on_over_a_prune(path: Path, anchor: AnchorFile) -> None:
    """R60: the anchored row may go only once the anchor stands behind it."""
    with lineal.connect(path, anchor=anchor.path) as store:
        session = store.session("a", lineal.Policy(trigger=400, target=100, floor_turns=2), str)
        for n in range(12):
            session.append({"role": "user", "content": f"turn {n} " * 30})
        assert isinstance(
            session.compact(lambda r: f"The first {len(r.turns)} turns in brief, all of them about numbers."), lineal.Compacted
        )
        assert session.prune().entries > 0
    with lineal.connect(path, anchor=anchor.path) as store:
        assert store.verify().clean
        assert store.session("a", summarizer=str).messages()


# --- anchors of one's own --------------------------------------------------------------------------------------------


class Objects:
    """Heads as objects of another store. `broken`: what it raises."""

    def __init__(self) -> None:
        self.heads: dict[str, Any] = {}
        self.broken: Exception | None = None

    def read(self, session: str | None = None) -> dict[str, Any]:
        if self.broken:
            raise self.broken
        return {name: head for name, head in self.heads.items() if session in (None, name)}

    def write(self, session: str, head: tuple[int, str, int]) -> None:
        if self.broken:
            raise self.broken
        self.heads[session] = list(head)


@pytest.fixture
def objects(path: Path) -> Objects:
    made = Objects()
    with lineal.connect(path, anchor=made) as store:
        for n in range(4):
            store.session("a", summarizer=str).append(turn(n))
    return made


def test_an_object_with_read_and_write_is_an_anchor(path: Path, objects: Objects) -> None:
    """R60: it follows each append, and what it remembers is held against the log at the next open and by verify."""
    assert isinstance(objects, AnchorPlace) and objects.heads["a"][0] == 4
    cut_tail(path, 3)
    with lineal.connect(path, anchor=objects) as store:
        assert [r.verdict.name for r in store.verify()] == ["CUT_TAIL"]
        with pytest.raises(Corrupt, match="cut tail"):
            store.session("a", summarizer=str)


@pytest.mark.parametrize("error", [ConnectionError("no route"), KeyError("a"), Unavailable("the bucket", "gone")], ids=repr)
def test_one_that_cannot_be_asked_is_unavailable(path: Path, objects: Objects, error: Exception) -> None:
    """E9: the store is not opened on its own word; an entry that was written is durable, and its caller hears of the anchor."""
    with lineal.connect(path, anchor=objects) as store:
        session = store.session("a", summarizer=str)
        objects.broken = error
        with pytest.raises(Unavailable):
            session.append(turn(9), id="late")
        with pytest.raises(Unavailable):
            store.session("a", summarizer=str)
        objects.broken = None
        assert session.append(turn(9), id="late").seq == 5
        session.append(turn(10))
    assert objects.heads["a"][0] == 6


@pytest.mark.parametrize("told", [{"a": 3}, {"a": ["x", "aa", 0]}, {"a": [-1, "aa", 0]}, {"a": [3, "aa"]}, None], ids=repr)
def test_one_that_answers_what_no_head_is_is_corrupt(path: Path, objects: Objects, told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "read", lambda session=None: told)
    with lineal.connect(path, anchor=objects) as store, pytest.raises(Corrupt, match="unreadable anchor"):
        store.session("a", summarizer=str)


def test_a_head_that_was_set_back_sees_less_and_does_no_harm(path: Path, objects: Objects) -> None:
    """One writer may overtake another where the place keeps the last that was written."""
    with lineal.connect(path, anchor=objects) as store:
        objects.heads["a"] = [2, next(r.digest.hex() for r in store.engine.scan("a", 1, 2)), 0]
        session = store.session("a", summarizer=str)
        assert session.verify().clean and "not vouched for" in session.verify()[0].detail
        session.append(turn(5))
    assert objects.heads["a"][0] == 5


def test_what_is_no_anchor_is_refused(path: Path) -> None:
    with pytest.raises(lineal.PolicyError, match="no anchor"):
        lineal.connect(path, anchor=7)  # type: ignore[arg-type]
    lineal.connect(path, anchor="").close()
