"""What an earlier version wrote is read for ever: exactly, or refused by name (R57)."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

import lineal
from lineal import codec, transcripts
from lineal.cli import cli
from lineal.engines.memory import MemoryEngine
from lineal.engines.sqlite_rows import FORMAT
from lineal.entries import ENTRY_TYPES, Unknown
from lineal.importing import import_transcript
from lineal.store import Store
from lineal.testing.fuzzing.reading import reading

HERE = Path(__file__).parent
FORMATS = sorted(int(re.sub(r"\D", "", path.stem)) for path in HERE.glob("format-*.db"))
POLICY = lineal.Policy(trigger=650, ceiling=900, target=300, floor_turns=2, summary_max_tokens=200)
KINDS = {str(kind.__struct_config__.tag) for kind in ENTRY_TYPES}


def brief(request: lineal.SummaryRequest) -> str:
    return f"In brief: {len(request.turns)} turns up to {request.turns[-1].id}."


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def expected(number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / f"format-{number}.json").read_text())
    return found


def told(store: lineal.Store, name: str) -> dict[str, Any]:
    session = store.session(name, POLICY, brief)
    return {**reading(session), "verify": [r.verdict.name for r in session.verify()]}


@pytest.fixture(params=FORMATS)
def number(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def path(number: int, tmp_path: Path) -> Path:
    """The kept store and its anchor, as a test's own copy."""
    shutil.copy(HERE / f"format-{number}.anchor.json", tmp_path / "anchor.json")
    return Path(shutil.copyfile(HERE / f"format-{number}.db", tmp_path / "agent.db"))


def test_the_present_format_has_its_store() -> None:
    """A release that raises the number adds a store of it."""
    assert FORMATS == list(range(1, FORMAT + 1)) == list(range(1, codec.FORMAT + 1))


def test_every_kind_of_entry_stands_in_the_newest_store() -> None:
    """A kind that is new fails here until the next format's store has it."""
    standing = {row[1] for session in expected(FORMATS[-1]).values() for row in session["log"]}
    assert standing >= KINDS | {codec.PRUNED}, KINDS - standing
    with open(HERE / f"entries-{FORMATS[-1]}.jsonl") as lines:
        assert {json.loads(line)["kind"] for line in lines} >= KINDS


def test_it_reads_exactly_as_it_did(path: Path, number: int) -> None:
    """R7, R45, R61: messages in every dialect, turns, ledger, pins, checkpoints, digests, and the verdict of each session."""
    kept = digest(path)
    with lineal.connect(path, anchor=path.with_name("anchor.json"), create=False) as store:
        found = {name: told(store, name) for name in store.sessions()}
        for name, session in expected(number).items():
            for what, value in session.items():
                assert codec.to_json(found[name][what]) == codec.to_json(value), f"{name!r}, {what}"
        assert found.keys() == expected(number).keys()
        assert not store.verify().damaged and store.engine.check() == []
    assert digest(path) == kept, "reading changed it"


def test_it_reads_the_same_where_nothing_can_be_written(path: Path, number: int) -> None:
    """R57: a copy on read-only media is enough."""
    path.chmod(0o444)
    path.parent.chmod(0o555)
    kept = digest(path)
    try:
        with lineal.connect(path, create=False) as store:
            assert {name: told(store, name) for name in store.sessions()} == expected(number)
        assert digest(path) == kept and not [p for p in path.parent.iterdir() if p.name not in ("agent.db", "anchor.json")]
    finally:
        path.parent.chmod(0o755)


def test_without_its_states_it_reads_the_same(path: Path, number: int) -> None:
    """States are an index: the whole log, folded by the code of today, gives what they say. (Where rows were pruned they are needed.)"""
    with closing(apsw.Connection(str(path))) as db:
        names = {bytes(name).decode("utf-8", "surrogatepass"): id for id, name in db.execute("SELECT id, name FROM sessions")}
        for name in ("agent", "anthropic"):
            db.execute("DELETE FROM states WHERE id >> 36 = ?", (names[name],))
    with lineal.connect(path, create=False) as store:
        for name in ("agent", "anthropic"):
            assert told(store, name) == expected(number)[name]


def test_work_goes_on_in_it(path: Path, number: int) -> None:
    """Every verb on an old log; a second opening shows the same, and the anchor goes along."""
    anchor = path.with_name("anchor.json")
    with lineal.connect(path, anchor=anchor, create=False) as store:
        for name in expected(number):
            session = store.session(name, POLICY, brief)
            session.recover()
            talk = [{"role": role, "content": f"{n}: it goes on, {name}. " * 9} for n in range(1, 5) for role in ("user", "assistant")]
            session.append(talk, id=[f"n{n}" for n in range(len(talk))])
            here = session.checkpoint("old and new")
            with session.effect("ring", {"bell": name}, key="bell:1") as effect:
                effect.settle("rang")
            assert isinstance(session.compact(), lineal.Compacted)
            session.append({"role": "user", "content": "one more"}, id="last")
            session.rollback(here)
            session.append({"role": "user", "content": "again"}, id="again")
            session.fork(f"{name}, later").append({"role": "user", "content": "here too"})
            session.purge(["n1"])
            session.prune()
            assert session.verify().clean
        shown = {name: reading(store.session(name, POLICY, brief)) for name in store.sessions()}
    with lineal.connect(path, anchor=anchor, create=False) as store:
        assert {name: reading(store.session(name, POLICY, brief)) for name in store.sessions()} == shown
        assert store.verify().clean


def test_an_effect_that_was_done_then_is_not_done_now(path: Path) -> None:
    """R47, R49: the old ledger is asked; what its dead holder left open needs a decision."""
    with lineal.connect(path, create=False) as store:
        session = store.session("agent", POLICY, brief)
        with session.effect("deploy", {"to": "staging"}, key="deploy:1") as effect:
            assert not effect.pending and effect.result == {"url": "https://staging.example"}
        with pytest.raises(lineal.UnsafeEffectError), session.effect("call", {"who": "bob"}, key="call:1"):
            raise AssertionError("it may have been done already")
        assert session.append({"role": "user", "content": "x"}).seq == session.status().head


def test_its_anchor_holds_it_to_what_it_was(path: Path) -> None:
    """R60: an anchor of that format still tells a cut tail."""
    with closing(apsw.Connection(str(path))) as db:
        db.execute("DELETE FROM entries WHERE id = (SELECT max(id) FROM entries WHERE id >> 36 = 1)")
        db.execute("DELETE FROM states WHERE id >> 36 = 1")
    with lineal.connect(path, anchor=path.with_name("anchor.json"), create=False) as store, pytest.raises(lineal.Corrupt, match="cut tail"):
        store.session("agent", POLICY)


def test_a_newer_format_is_refused_with_the_way_out(path: Path) -> None:
    """R57: the file of a version that is not there yet is left as it is."""
    with closing(apsw.Connection(str(path))) as db:
        db.execute(f"PRAGMA user_version = {FORMAT + 1}").fetchall()
    kept = digest(path)
    with pytest.raises(lineal.Unavailable, match=f"format {FORMAT + 1}.*reads format {FORMAT}.*upgrade lineal"):
        lineal.connect(path)
    told = CliRunner().invoke(cli, ["log", str(path), "-s", "agent"])
    assert told.exit_code == 5 and "upgrade lineal" in told.stderr
    assert digest(path) == kept


@pytest.mark.parametrize("spoil", [lambda v: {**v, "v": FORMAT + 1}, lambda v: {**v, "kind": "dream"}], ids=["newer", "unknown kind"])
def test_an_entry_of_a_newer_version_is_refused_and_left(path: Path, spoil: Any) -> None:
    """R57: never null, never passed over. An annotation `x.*` of whatever version is carried."""
    with lineal.connect(path, create=False) as store:
        log = store.session("agent", POLICY).log
        body = codec.to_json(spoil({"v": FORMAT, "kind": "unpinned", "id": "x"}))
        row = codec.seal(bytes.fromhex(log.lineage.digest), log.lineage.head + 1, 0, Unknown(name="unpinned", raw=body), b"s" * 16, 1)
        store.engine.append("agent", log.lineage.head, [row])
        with pytest.raises(lineal.Unavailable, match=f"seq {row.seq}.*upgrade lineal"):
            store.session("agent", POLICY)
        assert next(store.engine.scan("agent", row.seq - 1)).body == body
        assert [r.body for r in store.engine.scan("agent", 0, None, ("x.mood",))] == [b'{"v":9,"kind":"x.mood","calm":1.50}']


def test_entries_are_the_same_values_and_the_same_bytes(number: int) -> None:
    """R7: each kind decodes to what it was, and is written as it was."""
    for line in (HERE / f"entries-{number}.jsonl").read_text().splitlines():
        kept = json.loads(line)
        body = bytes.fromhex(kept["body"])
        entry = codec.decode(body)
        assert codec.kind_of(entry) == kept["kind"] and codec.from_json(codec.head(body)) == kept["value"]
        assert codec.encode(entry) == body, kept["kind"]


def test_an_export_of_that_time_can_be_imported(number: int, tmp_path: Path) -> None:
    """What was given out comes in again, message by message."""
    path = HERE / f"export-{number}.jsonl"
    said = [codec.to_json(turn[-1]) for turn in expected(number)["agent"]["turns"]]
    items = list(transcripts.read(path))
    assert [codec.to_json(item.message) for item in items if isinstance(item, transcripts.Record)] == said
    session = Store(MemoryEngine()).session("again", POLICY, brief)
    import_transcript(session, path)
    assert [codec.to_json(turn.message) for turn in session.turns()] == said


def test_the_store_can_still_be_made(tmp_path: Path) -> None:
    """`make.py` runs with the code of today, refuses to replace a store, and what it makes has all kinds."""
    import runpy

    make = runpy.run_path(str(HERE / "make.py"))
    make["written"](tmp_path)
    made = json.loads((tmp_path / f"format-{FORMAT}.json").read_text())
    assert {row[1] for session in made.values() for row in session["log"]} >= KINDS
    with pytest.raises(SystemExit, match="never replaced"):
        make["written"](tmp_path)
    assert all(path.stat().st_size < 200_000 for path in tmp_path.iterdir())
