"""What was erased from a SQLite store is in none of its files, or the status says why not yet (E6, R54)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from lineal.engines import sqlite as module
from lineal.engines.sqlite import SqliteEngine
from lineal.testing.engine import row, rows


@pytest.fixture
def engine(store_path: Path) -> Iterator[SqliteEngine]:
    engine = SqliteEngine.open(f"{store_path}?wait=0.2")
    yield engine
    engine.close()


def _secret(session: int, seq: int) -> bytes:
    return b"<secret %d.%d>" % (session, seq)


def _write_secrets(engine: SqliteEngine, sessions: int, each: int, chance: random.Random) -> None:
    heads = dict.fromkeys(range(sessions), 0)
    for _ in range(sessions * each // 3):
        name = chance.randrange(sessions)
        batch = [row(seq, _secret(name, seq) * chance.randrange(1, 40)) for seq in range(heads[name] + 1, heads[name] + 4)]
        engine.append(str(name), heads[name], batch)
        heads[name] += 3


def _found_in_files(store_path: Path, secrets: list[bytes]) -> list[bytes]:
    text = b"".join(file.read_bytes() for file in store_path.parent.iterdir())
    return [secret for secret in secrets if secret in text]


def test_erased_content_is_in_no_file(store_path: Path) -> None:
    """E6, R54: also what SQLite had copied from page to page before, among pruned neighbours of other sessions."""
    engine, chance = SqliteEngine.open(str(store_path)), random.Random(3)
    _write_secrets(engine, 12, 60, chance)
    logs = {name: [r.seq for r in engine.scan(name)] for name in engine.sessions()}
    for name, seqs in logs.items():
        engine.delete(name, chance.sample(seqs, len(seqs) // 2))
    logs = {name: [r.seq for r in engine.scan(name)] for name in engine.sessions()}
    erased = [(name, seq) for name, seqs in logs.items() for seq in seqs if seq % 2]
    secrets = [_secret(int(name), seq) for name, seq in erased]
    assert len(_found_in_files(store_path, secrets)) == len(secrets) > 100
    for name in logs:
        engine.delete(name, [seq for owner, seq in erased if owner == name], content_only=True)
    assert _found_in_files(store_path, secrets) == []
    assert engine.status()["erasure"] == "complete"
    kept = [_secret(int(name), seq) for name, seqs in logs.items() for seq in seqs if not seq % 2]
    assert _found_in_files(store_path, kept) == kept
    engine.close()


@pytest.mark.parametrize("states_first", [True, False])
def test_erased_states_are_in_no_file(store_path: Path, states_first: bool) -> None:
    """E7, R54: whichever a purge drops first, the states or the rows."""
    engine, chance = SqliteEngine.open(str(store_path)), random.Random(5)
    for seq in range(1, 200):
        engine.append("s", seq - 1, rows(seq, 1))
        engine.put_state("s", seq, _secret(9, seq) * chance.randrange(1, 400))
        if seq % 10 == 0:
            engine.delete_states("s", chance.sample(engine.states("s"), 4))
    left = engine.states("s")
    going = [seq for seq in left if chance.random() < 0.7]
    steps = [lambda: engine.delete_states("s", going), lambda: engine.delete("s", [1], content_only=True)]
    for step in steps if states_first else reversed(steps):
        step()
    assert engine.states("s") == [seq for seq in left if seq not in going]
    assert _found_in_files(store_path, [_secret(9, seq) for seq in range(1, 200) if seq not in engine.states("s")]) == []
    engine.close()


@pytest.mark.parametrize("ending", ["closed", "forgotten", "read to its end"])
def test_while_others_read_the_status_tells_that_erased_bytes_may_be_left(engine: SqliteEngine, store_path: Path, ending: str) -> None:
    """E6: an erasure that a reader's snapshot still holds up is not called complete; repeated when the scan is over, it is."""
    engine.append("s", 0, [row(n, _secret(1, n) * 2000) for n in range(1, 20)])
    reader = SqliteEngine.open(str(store_path))
    scan = reader.scan("s")
    next(scan)
    engine.delete("s", [2], content_only=True)
    assert "-wal may hold erased bytes" in engine.status()["erasure"]
    if ending == "closed":
        scan.close()  # type: ignore[attr-defined]
    elif ending == "forgotten":
        del scan
    else:
        assert len(list(scan)) == 18
    engine.delete("s", [2], content_only=True)
    assert engine.status()["erasure"] == "complete"
    assert _found_in_files(store_path, [_secret(1, 2)]) == []
    reader.close()


def test_above_the_limit_the_status_asks_for_a_rebuild(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """R37: a large file is not rebuilt while others want to append."""
    engine.append("s", 0, rows(1, 2))
    monkeypatch.setattr(module, "REWRITE_LIMIT", 10)
    engine.delete("s", [1], content_only=True)
    assert "run VACUUM in a quiet hour" in engine.status()["erasure"]


def test_a_dropped_session_leaves_no_name(engine: SqliteEngine, store_path: Path) -> None:
    """R54: with its last row, state and latch the session's name goes too."""
    name = "a-name-of-somebody"
    engine.append(name, 0, rows(1, 3))
    engine.put_state(name, 3, b"state")
    engine.latch(name, "why")
    engine.delete(name, [1, 2, 3])
    engine.delete_states(name, [3])
    engine.latch(name, None)
    assert engine._writer.execute("SELECT count(*) FROM sessions").fetchall() == [(0,)]
