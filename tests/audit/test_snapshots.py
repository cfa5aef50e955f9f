"""A store is read from a copy: no byte of it changes, a writer goes on meanwhile, and what is damaged is named."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lineal.audit import Audit, audit, audit_paths
from lineal.cli import cli
from lineal.errors import PolicyError, Unavailable
from lineal.transcripts import Damage, Record, detect, read
from lineal.transcripts.snapshot import snapshot

PAGE = 4_096

# Writes rows for as long as it lives: one transaction a time, in the journal mode that it is told.
WRITER = """
import json, sqlite3, sys
path, mode = sys.argv[1:]
store = sqlite3.connect(path, timeout=60)
store.execute(f"PRAGMA journal_mode={mode}")
store.execute("PRAGMA wal_autocheckpoint=20")
store.execute("CREATE TABLE IF NOT EXISTS agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, message_data TEXT)")
store.commit()
n = 0
while True:
    for half in ("question", "answer"):
        n += 1
        item = {"role": "user" if half == "question" else "assistant", "content": f"{half} {(n + 1) // 2} " + "x" * 3000}
        store.execute("INSERT INTO agent_messages (session_id, message_data) VALUES ('s', ?)", (json.dumps(item),))
    store.commit()
    if n == 40:
        print("going", flush=True)
"""


@contextmanager
def writer(path: Path, mode: str) -> Iterator[subprocess.Popen[str]]:
    """A process that writes to the store until the end; then it is killed."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path), mode], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "going\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("mode", ["WAL", "DELETE", "TRUNCATE", "PERSIST"])
def test_a_store_that_is_being_written_is_read_whole_and_its_writer_never_waits_long(tmp_path: Path, mode: str) -> None:
    """Each reading is one moment: whole transactions, each behind the last, nothing damaged. The writer goes on."""
    path = tmp_path / "store" / "session.db"
    path.parent.mkdir()
    seen = [0]
    with writer(path, mode) as process:
        for _ in range(8):
            items = list(read(path, "openai_agents"))
            assert not [i for i in items if isinstance(i, Damage)]
            said = [i.message["content"].partition(" x")[0] for i in items if isinstance(i, Record)]
            assert said == [f"{half} {n}" for n in range(1, len(said) // 2 + 1) for half in ("question", "answer")]
            seen.append(len(said))
        assert process.poll() is None
    assert seen == sorted(seen) and seen[-1] > seen[1]
    assert {p.name for p in path.parent.iterdir()} <= {f"session.db{end}" for end in ("", "-wal", "-shm", "-journal")}


@pytest.mark.parametrize("mode", ["WAL", "DELETE", "PERSIST"])
def test_the_store_of_a_writer_that_was_killed_is_read_without_repairing_it(
    tmp_path: Path, mode: str, bytes_in: Callable[[Path], Any]
) -> None:
    """A -wal that nobody took up, a journal that nobody rolled back: read as their owner would find them, and left to him."""
    path = tmp_path / "store" / "session.db"
    path.parent.mkdir()
    with writer(path, mode):
        pass
    before = bytes_in(path.parent)
    done = audit(path)
    assert bytes_in(path.parent) == before
    assert done.records >= 40 and done.records % 2 == 0 and not done.findings
    with closing(sqlite3.connect(path)) as store:
        assert store.execute("SELECT count(*) FROM agent_messages").fetchone() == (done.records,)


def test_no_byte_of_a_folder_of_stores_changes_closed_open_or_read_only(
    graphs: Any, store: Path, long_store: Path, tmp_path: Path, bytes_in: Callable[[Path], Any], run_cli: Callable[..., Any]
) -> None:
    """By the library and by the command, with everything that it can write."""
    graphs.run([graphs.mail("c1"), "Done."], ["Send it."])
    shutil.copy(long_store, store.parent / "closed.db")
    (store.parent / "closed.db").chmod(0o444)
    assert (store.parent / "graph.db-wal").stat().st_size > 0
    before = bytes_in(store.parent)
    assert [a.records for a in audit_paths([store.parent])] == [48, 4]
    for more in ((), ("--json",), ("--html", tmp_path / "page.html")):
        assert run_cli("audit", store.parent, *more).exit_code == 0
    assert bytes_in(store.parent) == before


@pytest.fixture
def run_cli() -> Callable[..., Any]:
    from click.testing import CliRunner

    return lambda *words: CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


def test_a_link_to_a_store_is_read_with_the_wal_beside_the_store(graphs: Any, store: Path, tmp_path: Path) -> None:
    graphs.run(["Hello."], ["Hi."])
    (tmp_path / "link.db").symlink_to(store)
    assert audit(tmp_path / "link.db").records == 2


def test_a_tree_of_claude_code_projects_with_a_store_in_it_is_read_whole(
    long_store: Path, tmp_path: Path, run_cli: Callable[..., Any]
) -> None:
    """As under `~/.claude/projects`: a folder a project, a file a session, sub-agents beside it."""
    session = tmp_path / "projects" / "-srv-app" / "s1.jsonl"
    side = session.parent / "s1" / "subagents" / "agent-a1.jsonl"
    side.parent.mkdir(parents=True)
    line = {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": "s1", "message": {"role": "user", "content": "hi"}}
    session.write_text(json.dumps(line) + "\n" + json.dumps({**line, "uuid": "u2", "parentUuid": "u1"})[:-9])
    side.write_text(json.dumps({**line, "isSidechain": True}) + "\n")
    (session.parent / "sessions-index.json").write_text('{"version": 1, "entries": []}')
    shutil.copy(long_store, session.parent / "graph.db")
    found = json.loads(run_cli("audit", tmp_path / "projects", "--json").stdout)["audits"]
    assert [(Path(a["path"]).name, a["format"], a["records"]) for a in found] == [
        ("graph.db", "langgraph", 48),
        ("s1.jsonl", "claude_code", 1),
        ("sessions-index.json", "", 0),
        ("agent-a1.jsonl", "claude_code", 1),
    ]
    assert [f["kind"] for f in found[1]["findings"]] == ["torn_tail"] and "not known" in found[2]["skipped"]


# --- damage ----------------------------------------------------------------------------------------------------------


def known(done: Audit) -> set[str]:
    return {f.kind for f in done.findings if f.severity != "low"}


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_a_file_that_was_cut_is_named_with_the_byte_and_read_as_far_as_it_goes(long_store: Path, tmp_path: Path, share: float) -> None:
    data = long_store.read_bytes()
    path = tmp_path / "graph.db"
    size = int(len(data) * share)
    path.write_bytes(data[:size])
    done = audit(path)
    assert f"cut at byte {size:,}" in "".join(f.text for f in done.findings if f.kind == "torn_tail")
    assert any("cannot be read" in f.text for f in done.findings) and 0 < done.records < audit(long_store).records
    assert path.read_bytes() == data[:size]


def test_whatever_bytes_are_flipped_there_is_a_report_and_what_is_lost_is_named(long_store: Path, tmp_path: Path) -> None:
    """Pages of zeros, of noise, and single bits, anywhere behind the first page: never a traceback, never less without a word.

    SQLite keeps no sums of its pages: a bit inside a text can only be seen where the same message stands twice.
    """
    data = long_store.read_bytes()
    whole = audit(long_store)
    path = tmp_path / "graph.db"
    named = 0
    for seed in range(40):
        rng = Random(seed)
        at = rng.randrange(PAGE, len(data) - PAGE)
        start = at // PAGE * PAGE
        match seed % 4:
            case 0:
                bad = data[:start] + bytes(PAGE) + data[start + PAGE :]
            case 1:
                bad = data[:start] + rng.randbytes(PAGE) + data[start + PAGE :]
            case 2:
                bad = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
            case _:
                bad = data[:start] + rng.randbytes(12) + data[start + 12 :]
        path.write_bytes(bad)
        done = audit(path)
        more = known(done) - known(whole)
        named += bool(more)
        assert more or done.records >= whole.records, f"seed {seed}: {whole.records - done.records} records less, and no word of it"
        assert path.read_bytes() == bad
    assert named >= 25


def test_rows_behind_an_unreadable_page_are_found_by_their_ids(tmp_path: Path) -> None:
    """Three pages of a table are noise: the rows in them are named, the rows before and behind them are read."""
    path = tmp_path / "rows.db"
    with closing(sqlite3.connect(path)) as store:
        store.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, said TEXT)")
        store.executemany("INSERT INTO t VALUES (?, ?)", ((n, f"row {n} " + "x" * 900) for n in range(1, 201)))
        store.commit()
    data = bytearray(path.read_bytes())
    for at in {data.index(f"row {n} ".encode()) // PAGE * PAGE for n in (50, 54, 120)}:
        data[at : at + PAGE] = bytes(PAGE)
    path.write_bytes(data)
    with snapshot(path) as found:
        rows = {rowid for rowid, _ in found.rows("t", ["said"])}
        lost = [d.why for d in found.damage if d.why.startswith("rows ")]
    gone = set(range(1, 201)) - rows
    assert {50, 54, 120} <= gone and len(gone) < 16
    assert sorted(n for why in lost for n in range(int(why.split()[1]), int(why.split()[3]) + 1)) == sorted(gone)


def test_a_wal_with_a_broken_frame_says_how_many_commits_it_hides(tmp_path: Path, bytes_in: Callable[[Path], Any]) -> None:
    path = tmp_path / "session.db"
    with closing(sqlite3.connect(path)) as store:
        store.execute("PRAGMA journal_mode=WAL")
        store.execute("CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id, message_data)")
        for n in range(1, 21):
            store.execute("INSERT INTO agent_messages VALUES (?, 's', ?)", (n, f'{{"role": "user", "content": "word {n}"}}'))
            store.commit()
        copy = tmp_path / "copy.db"
        shutil.copy(path, copy)
        wal = bytearray(Path(f"{path}-wal").read_bytes())
    frames = (len(wal) - 32) // (PAGE + 24)
    at = 32 + (frames - 6) * (PAGE + 24) + 900
    wal[at] ^= 1
    Path(f"{copy}-wal").write_bytes(wal)
    done = audit(copy)
    (finding,) = [f for f in done.findings if f.kind == "damaged"]
    assert "6 committed transactions behind it are lost" in finding.text and done.records == 14
    whole = audit_copy(path, tmp_path / "whole.db", bytes(wal[:at]) + bytes([wal[at] ^ 1]) + bytes(wal[at + 1 :]))
    assert whole.records == 20 and not whole.findings


def audit_copy(source: Path, path: Path, wal: bytes) -> Audit:
    shutil.copy(source, path)
    Path(f"{path}-wal").write_bytes(wal)
    return audit(path)


# --- what is no store ------------------------------------------------------------------------------------------------


def test_an_sqlite_file_of_somebody_else_is_refused_by_its_tables_and_skipped_in_a_directory(tmp_path: Path) -> None:
    path = tmp_path / "songs.sqlite"
    with closing(sqlite3.connect(path)) as store:
        store.execute("CREATE TABLE songs (title)")
    for ask in (detect, audit):
        with pytest.raises(PolicyError, match="its tables are songs") as refused:
            ask(path)
        assert "langgraph, openai_agents, google_adk" in refused.value.remedy
    (skipped,) = audit_paths([tmp_path])
    assert "songs" in skipped.skipped


def test_a_store_of_lineal_itself_is_sent_to_the_commands_for_it(tmp_path: Path) -> None:
    import lineal

    with lineal.connect(tmp_path / "agent.db") as store:
        store.session("main").append({"role": "user", "content": "hi"})
    with pytest.raises(PolicyError, match="lineal verify"):
        audit(tmp_path / "agent.db")


@pytest.mark.parametrize("format", ["langgraph", "openai_agents", "google_adk"])
@pytest.mark.parametrize("data", [b"", b"\0" * 9_000, b"SQLite format 3\0", b"SQLite format 3\0" + b"\xff" * 9_000, b'{"role": "user"}\n'])
def test_a_ruined_file_is_damage_in_every_store(tmp_path: Path, data: bytes, format: str) -> None:
    """R5: never silence, never a crash."""
    path = tmp_path / "ruin.db"
    path.write_bytes(data)
    items = list(read(path, format))
    assert items and all(isinstance(item, Damage) for item in items)
    assert audit(path, format).findings[0].severity in ("high", "medium")


@pytest.mark.parametrize("format", [None, "langgraph", "openai_agents", "google_adk"])
def test_a_missing_file_a_directory_or_a_pipe_is_unavailable(tmp_path: Path, format: str | None) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing.db", ".", "pipe", "a\0b"):
        with pytest.raises(Unavailable, match="cannot read"):
            list(read(tmp_path / name, format))


@pytest.mark.parametrize("format", ["langgraph", "openai_agents", "google_adk"])
def test_a_conversation_that_is_not_there_is_refused(long_store: Path, format: str) -> None:
    with pytest.raises(PolicyError, match="conversation 7"):
        list(read(long_store, format, conversation=7))
