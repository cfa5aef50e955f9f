"""The PostgreSQL engine: the whole suite on a real server, then its address, its schema, its roles and what it says of itself."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import lineal
from lineal.engines import open_engine, postgres_migrations, postgres_schema
from lineal.engines.postgres import PostgresEngine
from lineal.engines.postgres_server import address_of
from lineal.errors import Conflict, Corrupt, Unavailable
from lineal.rules.integrity import CompactionVerdict
from lineal.testing.durable import DurableEngineTests
from lineal.testing.engine import refusal, row, rows
from lineal.testing.postgres import PostgresServer, until

Open = Callable[..., PostgresEngine]


class TestPostgresEngine(DurableEngineTests):
    @pytest.fixture
    def engine_url(self, postgres_url: str) -> str:
        return postgres_url

    @pytest.fixture
    def make_engine(self, postgres_url: str, open_postgres: Open) -> Callable[[], PostgresEngine]:
        return lambda: open_postgres(postgres_url)


# --- the address -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("wait=soon", "wait='soon'"),
        ("wait=-1", "wait='-1'"),
        ("schema=", "schema=''"),
        ("schema=pg_x", "pg_x"),
        ("schema=" + "x" * 64, "schema='xxx"),
        ("durable=no", "durable='no'"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(query: str, said: str) -> None:
    """E9: before any server is asked."""
    assert said in str(refusal(Unavailable, lambda: open_engine(f"postgresql://me:secret@127.0.0.1:1/db?{query}")))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:se%63ret@[::1",
        "postgresql://me:se%zzcret@127.0.0.1/db",
        "postgresql://me:secret@h/db?nonsense=1",
        "postgresql://me:secret@h/db?schema=\ud83d",
        "postgresql://me:secret@h/db?schema",
    ],
)
def test_an_address_that_cannot_be_read_is_not_repeated(url: str) -> None:
    """No part of it is shown: the password may stand anywhere in it."""
    e = refusal(Unavailable, lambda: open_engine(url))
    assert "cret" not in str(e) and e.__cause__ is None


def test_no_password_is_shown(server: PostgresServer, open_postgres: Open, schema: str) -> None:
    """In no error, status or name, not even where the server repeats what it was given."""
    word = "p%40ss-word"
    for place in (f"postgresql://tester:{word}@127.0.0.1:1/db?wait=0", f"postgres://tester@127.0.0.1:1/p@ss-word?wait=0&password={word}"):
        assert "ss-word" not in str(refusal(Unavailable, lambda p=place: open_engine(p))).replace("/p@ss-word", "")  # type: ignore[misc]
    engine = open_postgres(f"postgresql://tester:{word}@127.0.0.1:{server.port}/postgres?schema={schema}&password={word}")
    engine.append("s", 0, rows(1, 1))
    told = [repr(engine), str(engine.status()), repr(engine._address), str(refusal(Conflict, lambda: engine.append("s", 0, rows(1, 1))))]
    engine.close()
    told.append(str(refusal(Unavailable, lambda: engine.sessions())))
    assert "ss-word" not in "".join(told)
    assert engine._address.shown.endswith(f"tester@127.0.0.1:{server.port}/postgres?schema={schema}")


def test_an_address_is_read_as_libpq_reads_it() -> None:
    """A plus is a plus, a socket's folder is a host, and what is shown leads to the same place."""
    address = address_of("postgresql:///db?host=/run/x&password=a+b%26c&schema=s%2B1&application_name=an+agent")
    assert (address.parameters["host"], address.parameters["password"], address.schema) == ("/run/x", "a+b&c", "s+1")
    assert address.parameters["application_name"] == "an+agent" and address.parameters["dbname"] == "db"
    assert address_of(address.shown).parameters == {k: v for k, v in address.parameters.items() if k != "password"}


def test_several_hosts_mean_the_one_that_takes_writes() -> None:
    """R30: unless the address says otherwise."""
    assert address_of("postgresql://a@one:1,two:2/db").parameters["target_session_attrs"] == "read-write"
    assert address_of("postgresql://a@one,two/db?target_session_attrs=any").parameters["target_session_attrs"] == "any"
    assert "target_session_attrs" not in address_of("postgresql://a@one/db").parameters


def test_a_server_that_is_not_durable_is_refused(server: PostgresServer, open_postgres: Open, schema: str, postgres_url: str) -> None:
    """E1: with the reason, unless the address says that it may lose what it acknowledges."""
    with server.connect() as admin:
        admin.execute("CREATE ROLE careless LOGIN SUPERUSER")
        admin.execute("ALTER ROLE careless SET synchronous_commit = off")
    url = server.url(user="careless", schema=schema, wait="0")
    e = refusal(Unavailable, lambda: open_postgres(url))
    assert "synchronous_commit is off" in str(e) and "durable=any" in str(e)
    assert open_postgres(f"{url}&durable=any").status()["durable"] is False
    assert open_postgres(postgres_url).status()["durable"] is True
    with PostgresServer(fsync=False) as volatile:
        assert "fsync is off" in str(refusal(Unavailable, lambda: open_postgres(volatile.url(wait="0"))))


# --- the schema ------------------------------------------------------------------------------------------------------


def test_many_that_open_an_empty_database_at_once_make_one_schema(postgres_url: str, open_postgres: Open) -> None:
    """Each migration runs once, under a lock."""
    start, failures = threading.Barrier(6), []

    def opens() -> None:
        try:
            start.wait()
            open_postgres(postgres_url).append("s", 0, [])
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=opens) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_an_older_schema_is_migrated_and_a_newer_one_refused(
    server: PostgresServer, schema: str, postgres_url: str, open_postgres: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands in it stays; a lineal that does not know the version touches nothing."""
    open_postgres(postgres_url).append("s", 0, rows(1, 3))
    with monkeypatch.context() as newer:
        newer.setitem(postgres_schema.MIGRATIONS, 2, "ALTER TABLE {s}.entries ADD COLUMN note bytea")
        engine = open_postgres(postgres_url, create=False)
        assert engine.status()["version"] == 2 and list(engine.scan("s")) == rows(1, 3)
    e = refusal(Unavailable, lambda: open_postgres(postgres_url))
    assert "version 2" in str(e) and "knows 1" in str(e)


def test_a_migration_that_fails_leaves_the_version_before(
    schema: str, postgres_url: str, open_postgres: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All or nothing, also when two numbers are carried out at once."""
    monkeypatch.setitem(postgres_schema.MIGRATIONS, 2, "SELECT 1/0")
    refusal(Unavailable, lambda: open_postgres(postgres_url))
    monkeypatch.delitem(postgres_schema.MIGRATIONS, 2)
    refusal(Unavailable, lambda: open_postgres(postgres_url, create=False))
    assert open_postgres(postgres_url).status()["version"] == 1


def test_a_schema_with_somebody_elses_tables_is_left_alone(
    server: PostgresServer, schema: str, postgres_url: str, open_postgres: Open
) -> None:
    """E9."""
    with server.connect() as admin:
        admin.execute(f"CREATE SCHEMA {schema}")  # type: ignore[call-overload]
        admin.execute(f"CREATE TABLE {schema}.entries(x int)")  # type: ignore[call-overload]
        assert "already exists" in str(refusal(Unavailable, lambda: open_postgres(postgres_url)))
        assert postgres_migrations._relations(admin, schema) == {"entries"}  # type: ignore[arg-type]


@pytest.mark.parametrize("part", ["INDEX {}.entries_unique", "INDEX {}.entries_key2", "TABLE {}.states", "INDEX {}.sessions_name"])
def test_a_missing_part_is_damage(server: PostgresServer, schema: str, postgres_url: str, open_postgres: Open, part: str) -> None:
    """E3, E9: without an index a key would be free again, or would not be found."""
    engine = open_postgres(postgres_url)
    with server.connect() as admin:
        admin.execute("DROP " + part.format(schema))  # type: ignore[call-overload]
    assert part.rpartition(".")[2] in str(refusal(Corrupt, lambda: open_postgres(postgres_url)))
    assert [what for what in engine.check() if part.rpartition(".")[2] in what]


# --- roles -----------------------------------------------------------------------------------------------------------


def test_a_writer_needs_no_more_than_its_grants(server: PostgresServer, schema: str, postgres_url: str, open_postgres: Open) -> None:
    """The owner migrates; a role that may create nothing appends, erases, deletes and reads, and can alter no entry."""
    open_postgres(postgres_url)
    with server.connect() as admin:
        admin.execute("CREATE ROLE writer LOGIN")
        admin.execute("CREATE ROLE reader LOGIN")
        refused = refusal(Unavailable, lambda: open_postgres(server.url(user="writer", schema=schema)))
        assert "PostgresEngine.grants" in str(refused)
        admin.execute(PostgresEngine.grants("writer", schema))  # type: ignore[arg-type]
        admin.execute(PostgresEngine.grants("reader", schema, write=False))  # type: ignore[arg-type]
    engine = open_postgres(server.url(user="writer", schema=schema))
    engine.append("s", 0, [row(1, unique="a", keys=("k",)), row(2), row(3)])
    refusal(Conflict, lambda: engine.append("s", 1, rows(2, 1)))
    engine.put_state("s", 1, b"one")
    engine.put_state("s", 1, b"two")
    engine.latch("s", "why")
    engine.latch("s", None)
    engine.delete("s", [1], content_only=True)
    assert "VACUUM" in engine.status()["erasure"]
    engine.delete("s", [3])
    assert [r.seq for r in engine.find("s", "k")] == [1] and engine.state("s") == (1, b"two") and engine.latched("s") is None
    engine.delete("s", [1, 2])
    engine.delete_states("s", [1])
    assert engine.sessions() == [] and engine.check() == []
    engine.append("s", 0, rows(1, 2))
    with psycopg.connect(server.url(user="writer"), autocommit=True) as writer:
        for forbidden in (
            "UPDATE {}.entries SET digest = ''",
            "UPDATE {}.entries SET seq = 9",
            "TRUNCATE {}.entries",
            "DROP TABLE {}.states",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                writer.execute(forbidden.format(schema))  # type: ignore[call-overload]
    reader = open_postgres(server.url(user="reader", schema=schema))
    assert list(reader.scan("s")) == rows(1, 2)
    assert "permission denied" in str(refusal(Unavailable, lambda: reader.append("s", 2, rows(3, 1))))
    refusal(Unavailable, lambda: open_postgres(server.url(user="writer", schema=f"{schema}_other", wait="0")))


# --- what it says of itself ------------------------------------------------------------------------------------------


def test_status_holds_what_durability_leans_on(postgres_url: str, open_postgres: Open) -> None:
    """Facts, no judgement."""
    status = open_postgres(postgres_url).status()
    assert (status["engine"], status["fsync"], status["synchronous_commit"], status["data_checksums"]) == ("postgresql", "on", "on", "on")
    assert status["synchronous_standby_names"] == "" and status["server_version"] and status["version"] == 1
    assert status["amcheck"] == "not installed"


def test_check_finds_rows_that_others_took_or_put(server: PostgresServer, schema: str, postgres_url: str, open_postgres: Open) -> None:
    """E4, E9: a head and a count stand beside the rows; with amcheck installed every index and page is looked at."""
    engine = open_postgres(postgres_url)
    engine.append("s", 0, rows(1, 10))
    engine.append("t", 0, rows(1, 10))
    with server.connect() as admin:
        if admin.execute("SELECT FROM pg_available_extensions WHERE name = 'amcheck'").fetchall():
            admin.execute("CREATE EXTENSION amcheck")
            assert engine.status()["amcheck"] == "used" and engine.check() == []
            admin.execute("DROP EXTENSION amcheck")
        admin.execute(f"UPDATE {schema}.entries SET session = 99 WHERE session = 2")  # type: ignore[call-overload]
    assert len(engine.check()) == 2 and any("no session" in what for what in engine.check())
    assert list(engine.scan("s")) == rows(1, 10)
    refusal(Corrupt, lambda: list(engine.scan("t")))


@pytest.mark.parametrize("gone", ["seq = 1000", "seq > 700", "seq = 1", "seq BETWEEN 400 AND 500"])
def test_a_scan_that_lacks_rows_never_ends_in_silence(
    server: PostgresServer, schema: str, postgres_url: str, open_postgres: Open, gone: str
) -> None:
    """E4: rows that went past lineal are missed at the end of the scan; those before it are yielded."""
    engine = open_postgres(postgres_url)
    engine.append("s", 0, rows(1, 1000))
    with server.connect() as admin:
        admin.execute(f"DELETE FROM {schema}.entries WHERE {gone}")  # type: ignore[call-overload]
    scan, seen = engine.scan("s"), []
    e = refusal(Corrupt, lambda: seen.extend(scan))
    assert "rows are missing" in str(e) and seen[0].seq in (1, 2)
    session = lineal.Store(engine).session
    refusal(Corrupt, lambda: session("s"))
    assert engine.check()


def test_a_row_beyond_the_head_is_damage(server: PostgresServer, schema: str, postgres_url: str, open_postgres: Open) -> None:
    """E2: it is not taken for a key that somebody holds."""
    engine = open_postgres(postgres_url)
    engine.append("s", 0, rows(1, 5))
    with server.connect() as admin:
        admin.execute(f"UPDATE {schema}.sessions SET head = 3")  # type: ignore[call-overload]
    assert refusal(Corrupt, lambda: engine.append("s", 3, rows(4, 1))).seq == 4


def test_erased_words_stand_in_no_file_of_the_tables(server: PostgresServer, schema: str, postgres_url: str, open_postgres: Open) -> None:
    """E6, R54: neither in the old versions of rows nor in what is stored beside them; the rows around them stand."""
    engine = open_postgres(postgres_url)
    large = os.urandom(6000).hex().encode()
    engine.append("s", 0, [*(row(n, b"needle-%03d " % n * 3) for n in range(1, 300)), row(300, large)])
    engine.put_state("s", 7, b"a state")
    engine.delete("s", [50, 51, 300], content_only=True)
    with server.connect() as admin:
        admin.execute("CHECKPOINT")
        question = "SELECT pg_relation_filepath(oid), pg_relation_filepath(nullif(reltoastrelid, 0)) FROM pg_class WHERE oid = %s::regclass"
        found = admin.execute(question, (f"{schema}.entries",)).fetchone()
    held = b"".join((server.data / str(path)).read_bytes() for path in found or ())
    assert [held.count(word) for word in (b"needle-050", b"needle-051", b"needle-052", large[:40], large[-40:])] == [0, 0, 3, 0, 0]
    assert engine.status()["erasure"].startswith("complete in the tables")


# --- scans, threads, processes ---------------------------------------------------------------------------------------


def test_a_long_scan_is_read_in_batches_and_gives_its_connection_back(
    server: PostgresServer, postgres_url: str, open_postgres: Open
) -> None:
    """E4: closed, forgotten, read to its end; another handle writes, erases and drops meanwhile."""
    engine, other = open_postgres(postgres_url), open_postgres(postgres_url)
    written = [row(n, bytes([n % 256]) * (n % 7) * 9000) for n in range(1, 3001)]
    for first in range(0, 3000, 500):
        engine.append("s", first, written[first : first + 500])
    engine.delete("s", [7])
    kept = [r for r in written if r.seq != 7]
    scans = [engine.scan("s") for _ in range(4)]
    assert len({next(scan).seq for scan in scans}) == 1

    def held() -> Any:
        with server.connect() as admin:
            return admin.execute("SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'").fetchone()

    assert held() == (4,)
    other.delete("s", range(2000, 2500))
    other.append("s", 3000, rows(3001, 1))
    assert [kept[0], *scans[0]] == kept
    scans[1].close()  # type: ignore[attr-defined]
    assert list(scans[1]) == []
    del scans
    until(lambda: held() == (0,), "connections given back")
    assert len(list(engine.scan("s"))) == 2500


def test_who_waits_for_a_lock_is_told_at_the_deadline(server: PostgresServer, schema: str, postgres_url: str, open_postgres: Open) -> None:
    """E9: maintenance that holds the table makes no append hang for ever; it is not written later either."""
    engine = open_postgres(f"{postgres_url}&wait=0.2")
    engine.append("s", 0, rows(1, 1))
    with server.connect() as admin, admin.transaction():
        admin.execute(f"LOCK TABLE {schema}.entries IN ACCESS EXCLUSIVE MODE")  # type: ignore[call-overload]
        for use in (lambda: engine.append("s", 1, rows(2, 1)), lambda: list(engine.scan("s"))):
            assert "lock" in str(refusal(Unavailable, use))
    assert list(engine.scan("s")) == rows(1, 1)
    engine.append("s", 1, rows(2, 1))


def test_a_forked_child_must_open_it_again(postgres_url: str, open_postgres: Open) -> None:
    """E8: the child neither uses nor ends its parent's connections."""
    engine = open_postgres(postgres_url)
    engine.append("s", 0, rows(1, 1))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert "child" in str(refusal(Unavailable, lambda: engine.append("s", 1, rows(2, 1))))
            engine.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    engine.append("s", 1, rows(2, 1))


def test_a_session_lives_on_it(server: PostgresServer, schema: str, postgres_url: str) -> None:
    """R1, R54: turns, an effect, a compaction, a purge; verified, and deleted without a trace of its name."""
    policy = lineal.Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4, summary_max_tokens=200)
    with lineal.connect(postgres_url) as store:
        session = store.session("agent", policy)
        session.append([{"role": "user", "content": f"request {n}: " + "look at the plan, slowly; " * 9} for n in range(40)])
        with session.effect("send", {"to": "x"}, key="send:x") as effect:
            effect.settle("sent")
        session.compact()
        assert session.status().generation >= 1
        session.purge([session.turns()[3].id])
        assert [r.verdict for r in store.verify()] == [CompactionVerdict.POST_COMPACTION_CLEAN]
    with lineal.connect(postgres_url, create=False) as store:
        assert [row.state for row in store.session("agent", policy).ledger()] == ["done"]
        store.delete("agent")
        assert store.sessions() == [] and store.engine.check() == []
    with server.connect() as admin:
        assert admin.execute(f"SELECT name FROM {schema}.sessions").fetchall() == []  # type: ignore[call-overload]
