"""What the promises of the SQLite engine lean on: settings of every connection, said here once more and not read from the code."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pytest

from lineal.engines.sqlite import SqliteEngine
from lineal.engines.sqlite_file import locate
from lineal.errors import Unavailable

PROMISED = {
    "synchronous": 2,  # FULL: an append is on the disk when it returns (E1)
    "fullfsync": 1,
    "checkpoint_fullfsync": 1,
    "secure_delete": 1,  # erased bytes are overwritten (E6)
    "cell_size_check": 1,
    "trusted_schema": 0,
}


@pytest.mark.parametrize("writer", [True, False], ids=["the writer", "a reader"])
def test_every_connection_has_what_the_promises_lean_on(store_path: Path, writer: bool) -> None:
    SqliteEngine.open(str(store_path)).close()
    connection = locate(str(store_path)).connect(writer=writer)
    try:
        assert {name: connection.pragma(name) for name in PROMISED} == PROMISED
        assert connection.pragma("query_only") == int(not writer)
        assert connection.pragma("journal_mode") == "wal"
    finally:
        connection.close()


def test_a_place_where_no_wal_can_be_kept_is_refused(store_path: Path) -> None:
    """E1, R38: SQLite itself goes on there with another journal, and says nothing."""
    with pytest.raises(Unavailable, match="the journal stays in mode"):
        SqliteEngine.open(f"{store_path}?vfs=unix-dotfile")


def test_a_place_where_locks_do_not_hold_is_refused(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R38: asked before a store is made there."""

    def granted(file: Any, take: int, lock: bytes) -> bytes:
        return lock

    monkeypatch.setattr(fcntl, "fcntl", granted)
    with pytest.raises(Unavailable, match="granted again"):
        SqliteEngine.open(str(store_path))
    assert not store_path.exists()
