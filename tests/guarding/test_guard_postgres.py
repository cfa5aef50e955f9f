"""The guard over a foreign PostgreSQL table: a server of the test's own, its VACUUM FULL and CLUSTER killed at work."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from lineal.errors import PolicyError, Refused, Unavailable
from lineal.guarding import ForeignDamage, check, opened, take
from lineal.rules.guard import CompactionVerdict

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
PostgresServer = pytest.importorskip("lineal.testing.postgres").PostgresServer
V = CompactionVerdict
ROWS = 18_100
SCHEMA = """
CREATE FUNCTION dawdle(x bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('app.dawdle', true) = 'on' THEN PERFORM pg_sleep(60); END IF;
  RETURN x;
END $$;
CREATE TABLE steps (
  agent text, n bigint, body text, score double precision, at timestamptz, raw bytea, doc jsonb, generation int NOT NULL DEFAULT 1,
  PRIMARY KEY (agent, n)
);
INSERT INTO steps
SELECT 'Agent-' || i % 7, i, 'step ' || i, i / 3.0, 'epoch'::timestamptz + i * interval '1 s', int4send(i), jsonb_build_object('i', i)
FROM generate_series(1, 20000) AS i;
DELETE FROM steps WHERE n % 10 = 0;
INSERT INTO steps SELECT 'agent-ä', i, NULL, 'NaN', 'infinity', '', 'null' FROM generate_series(1, 100) AS i;
CREATE INDEX slow ON steps (dawdle(n));
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that keeps what it says is written, with checksums, and vacuums when it is told to."""
    try:
        running = PostgresServer(settings={"autovacuum": "off"})
    except Unavailable as missing:
        pytest.skip(str(missing))
    with running:
        yield running


@pytest.fixture
def url(server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of its own with a foreign table in it."""
    name = f"t{abs(hash(request.node.name))}"
    with server.connect() as admin:
        admin.execute(f"CREATE DATABASE {name}")
    address = server.url(name, "tester:secret-word")
    said(address, SCHEMA)
    yield address
    with server.connect() as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def before(url: str, tmp_path: Path) -> Path:
    take(url, tmp_path / "before", generation="generation")
    return tmp_path / "before"


def said(url: str, statement: str, *values: Any) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, values or None)
        return cursor.fetchall() if cursor.description else []


def until(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(psycopg.OperationalError):  # the server may be on its way up again
            found = condition()
            if found:
                return found
        time.sleep(0.01)
    raise AssertionError(f"waited in vain for {what}")


def quietly(url: str, *statements: str) -> None:
    """What is cut off on purpose."""
    with suppress(psycopg.Error), psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@contextmanager
def maintenance(url: str, statement: str, view: str, *settings: str) -> Iterator[int]:
    """The statement at work in a session of its own, which dawdles; yields its process once the server reports its progress."""

    thread = threading.Thread(target=lambda: quietly(url, *(f"SET {setting}" for setting in settings), statement))
    thread.start()
    pid = until(lambda: said(url, f"SELECT pid FROM {view} WHERE relid = 'steps'::regclass"), f"{statement} to be at work")[0][0]
    try:
        yield pid
    finally:
        until(lambda: said(url, "SELECT 1 FROM pg_terminate_backend(%s)", pid), "the server")
        thread.join()


# --- what is found ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "view"),
    [
        ("VACUUM FULL steps", "pg_stat_progress_cluster"),
        ("CLUSTER steps USING steps_pkey", "pg_stat_progress_cluster"),
        ("REINDEX TABLE steps", "pg_stat_progress_create_index"),
    ],
)
def test_killed_in_the_middle_of_a_rewrite_it_is_clean(
    url: str, before: Path, statement: str, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Record 004: while the rewrite runs, wait; after its process was killed and the server came up again, all is as before."""
    monkeypatch.setitem(__import__("lineal.guarding.postgres", fromlist=["_SETTINGS"])._SETTINGS, "lock_timeout", "300ms")
    with maintenance(url, statement, view, "app.dawdle = 'on'") as pid:
        checked = check(url, before)
        assert checked.verdict is V.COMPACTION_IN_PROGRESS and not checked.compared and not checked.readable
        assert statement.split()[0] in checked.running[0] and checked.directive.startswith("WAIT")
        with pytest.raises(Unavailable, match="keeps readers out"):
            take(url, before.with_name("other"))
        os.kill(pid, signal.SIGKILL)
        until(lambda: said(url, "SELECT 1"), "the server to recover")
    checked = check(url, before)
    assert checked.clean and checked.counts["found"] == ROWS
    said(url, statement)
    assert check(url, before).clean


def test_the_whole_server_killed_in_the_middle_of_a_rewrite_is_clean(url: str, server: PostgresServer, before: Path) -> None:
    """Record 004: kill -9 for every process of it, then its own recovery."""
    thread = threading.Thread(target=lambda: quietly(url, "SET app.dawdle = 'on'", "VACUUM FULL steps"))
    thread.start()
    until(lambda: said(url, "SELECT pid FROM pg_stat_progress_cluster"), "the rewrite")
    postmaster = server.postmaster
    server.kill9()
    thread.join()
    until(lambda: not Path(f"/proc/{postmaster}").exists(), "its parent to take note: till then a new server thinks that it lives")
    server.start()
    checked = check(url, before)
    assert checked.clean and not checked.running


def test_a_vacuum_that_goes_on_meanwhile_is_told_and_the_snapshot_holds(url: str, before: Path) -> None:
    """Record 004: wait, or read a snapshot from before. What was read is one."""
    with maintenance(url, "VACUUM steps", "pg_stat_progress_vacuum", "vacuum_cost_delay = '100ms'", "vacuum_cost_limit = 1"):
        checked = check(url, before)
        assert checked.verdict is V.COMPACTION_IN_PROGRESS and checked.compared and checked.readable and not checked.clean
        assert checked.running[0].startswith("VACUUM of process")
        said(url, "DELETE FROM steps WHERE n = 8")
        checked = check(url, before)
        assert checked.verdict is V.PHANTOM_DELETION and checked.missing == (["Agent-1", 8], ["agent-ä", 8])
        assert V.COMPACTION_IN_PROGRESS in checked.verdicts and "not its doing" in checked.directive
    assert check(url, before).verdict is V.PHANTOM_DELETION


def test_rows_that_were_changed_deleted_or_resurrected_are_named(url: str, before: Path) -> None:
    said(url, "UPDATE steps SET doc = doc || '{\"late\": true}' WHERE n = 11")
    said(url, "UPDATE steps SET body = '' WHERE agent = 'agent-ä' AND n = 5")
    said(url, "DELETE FROM steps WHERE n = 12 AND agent LIKE 'A%'")
    said(url, "INSERT INTO steps (agent, n, generation) VALUES ('Agent-3', 10, 1)")
    said(url, "UPDATE steps SET generation = 2 WHERE n = 13 AND agent LIKE 'A%'")
    checked = check(url, before)
    assert checked.verdict is V.MIXED_GENERATION_DETECTED
    assert checked.verdicts == (V.MIXED_GENERATION_DETECTED, V.PHANTOM_DELETION, V.ALTERED, V.LEFTOVER)
    assert checked.missing == (["Agent-5", 12],) and checked.extra == (["Agent-3", 10],) and checked.moved == (["Agent-6", 13],)
    assert checked.altered == (["Agent-4", 11], ["agent-ä", 5], ["agent-ä", 11])


def test_the_settings_of_a_server_or_a_user_change_nothing(url: str, before: Path) -> None:
    for setting in ("DateStyle = 'German'", "TimeZone = 'Asia/Tokyo'", "bytea_output = 'escape'", "extra_float_digits = 0"):
        said(url, f"ALTER USER tester SET {setting}")
    try:
        assert check(url, before).clean
    finally:
        said(url, "ALTER USER tester RESET ALL")


def test_a_writer_that_goes_on_is_read_as_of_one_moment(url: str, tmp_path: Path) -> None:
    """A transaction over two rows, again and again: every manifest sees both or none, whenever it is taken."""
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(url) as connection:
            n = 100_000
            while not stop.is_set():
                n += 1
                for agent in ("Agent-0", "zz"):  # at both ends of the order of ids
                    connection.execute("INSERT INTO steps (agent, n) VALUES (%s, %s)", (agent, n))
                connection.commit()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for n in range(3):
            taken = take(url, tmp_path / str(n))
            assert taken.count % 2 == ROWS % 2
    finally:
        stop.set()
        thread.join()


def test_a_flipped_bit_is_refused_by_name(url: str, server: PostgresServer, before: Path) -> None:
    """The server's checksum sees it; nothing is concluded from the rows before it."""
    said(url, "CHECKPOINT")
    path = server.data / said(url, "SELECT pg_relation_filepath('steps')")[0][0]
    server.stop()
    server.start()  # so that the page is not in its memory
    with open(path, "r+b") as file:
        file.seek(8192 * 40 + 5000)
        byte = file.read(1)
        file.seek(8192 * 40 + 5000)
        file.write(bytes([byte[0] ^ 4]))
    with pytest.raises(ForeignDamage, match="invalid page in block 40"):
        check(url, before)


def test_a_user_who_may_not_see_all_is_refused_rows_and_told_of_the_rest(url: str, before: Path) -> None:
    """A policy would leave out rows in silence; progress of others' maintenance is hidden from a plain user."""
    said(url, "CREATE ROLE plain LOGIN")
    said(url, "GRANT SELECT ON steps TO plain")
    plain = url.replace("tester:secret-word", "plain")
    try:
        assert check(plain, before).clean
        with maintenance(url, "VACUUM steps", "pg_stat_progress_vacuum", "vacuum_cost_delay = '100ms'", "vacuum_cost_limit = 1"):
            assert any("pg_read_all_stats" in note for note in check(plain, before).notes)
        said(url, "ALTER TABLE steps ENABLE ROW LEVEL SECURITY")
        said(url, "CREATE POLICY theirs ON steps FOR SELECT TO plain USING (n < 100)")
        with pytest.raises(Unavailable, match="row-level security"):
            check(plain, before)
    finally:
        said(url, "DROP OWNED BY plain; DROP ROLE plain")


# --- bad input -------------------------------------------------------------------------------------------------------


def test_what_cannot_be_meant_is_refused_with_a_next_step(url: str, tmp_path: Path) -> None:
    new = tmp_path / "new"
    said(url, "CREATE TABLE bare (a text, b int); INSERT INTO bare VALUES ('x', 1), ('x', 2), (NULL, 1)")
    said(url, "CREATE SCHEMA other; CREATE TABLE other.t (id uuid PRIMARY KEY, v numeric[])")
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({}, PolicyError, "bare, other.t, steps"),
        ({"table": "none"}, PolicyError, "no table 'none'"),
        ({"table": "bare"}, PolicyError, "no primary key"),
        ({"table": "bare", "ids": ["a"]}, Refused, "two records have the id 'x'"),
        ({"table": "steps", "where": "nope = 1"}, PolicyError, "nope"),
        ({"table": "steps", "prefix": "x"}, PolicyError, "--prefix"),
        ({"table": "steps", "generation": "body"}, PolicyError, "no generation"),
    ]
    for words, error, message in cases:
        with pytest.raises(error) as caught:
            take(url, new, **words)
        assert message in str(caught.value) and "Way out: " in str(caught.value) and "secret-word" not in str(caught.value)
        assert not new.exists()
    with pytest.raises(Unavailable) as unavailable:
        take("postgresql://tester:secret-word@127.0.0.1:1/x", new)
    assert "secret-word" not in str(unavailable.value)


def test_every_kind_of_id_and_a_partitioned_table(url: str, tmp_path: Path) -> None:
    said(url, "CREATE TABLE u (id uuid PRIMARY KEY, v numeric[], w interval)")
    said(url, "INSERT INTO u SELECT gen_random_uuid(), ARRAY[i, NULL], i * interval '1 month 1 s' FROM generate_series(1, 500) i")
    said(url, "CREATE TABLE p (at timestamptz, x numeric, k bytea, PRIMARY KEY (k, at, x)) PARTITION BY RANGE (at)")
    said(url, "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM ('-infinity') TO ('2020-01-01')")
    said(url, "CREATE TABLE p2 PARTITION OF p DEFAULT")
    said(
        url,
        "INSERT INTO p SELECT '2019-06-01'::timestamptz + i * interval '1 d', i % 9, int2send(i::int2) FROM generate_series(-500, 500) i",
    )
    for table, count in (("u", 500), ("p", 1_001)):
        taken = take(url, tmp_path / table, table=table)
        assert taken.count == count and not opened(tmp_path / table).header["sorted"] and check(url, tmp_path / table).clean
    said(url, "DELETE FROM p2 WHERE x = 7")
    assert check(url, tmp_path / "p").verdict is V.PHANTOM_DELETION


def test_nothing_is_written_to_the_server_and_the_password_stays_out(url: str, before: Path) -> None:
    def snapshot() -> Any:
        return said(url, "SELECT txid_snapshot_xmax(txid_current_snapshot())")

    standing = snapshot()
    assert check(url, before).clean and snapshot() == standing
    assert b"secret-word" not in before.read_bytes()
