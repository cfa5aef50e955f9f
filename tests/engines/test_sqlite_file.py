"""At the door of a store: what is made, what is opened, and what is refused and left as it was."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import lineal
from lineal.engines import open_engine, sqlite_file
from lineal.engines.sqlite import SqliteEngine
from lineal.engines.sqlite_file import StoreFile, locate
from lineal.errors import Corrupt, LinealError, Unavailable
from lineal.testing.engine import rows


def _store(path: Path, option: str = "") -> Path:
    engine = SqliteEngine.open(f"{path}{option}")
    engine.append("s", 0, rows(1, 200))
    engine.close()
    return path


def _run(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


# --- where -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["agent.db", "sqlite:agent.db", "sqlite:///agent.db", "file:agent.db", "./agent.db"])
def test_a_relative_path_lies_in_the_directory_of_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """A later change of directory moves nothing."""
    monkeypatch.chdir(tmp_path)
    engine = open_engine(url)
    engine.append("s", 0, rows(1, 1))
    monkeypatch.chdir("/")
    assert list(engine.scan("s")) == rows(1, 1)
    engine.close()
    assert [file.name for file in tmp_path.iterdir()] == ["agent.db"]


@pytest.mark.parametrize(
    "form", ["{}", "sqlite:///{}", "sqlite:{}", "file://{}", "{}?wait=3", "sqlite:///{}?checksums=0&probe=1&mount=any"]
)
def test_an_absolute_path_is_taken_as_it_is(tmp_path: Path, form: str) -> None:
    assert locate(form.format(tmp_path / "a b%20.db")).path == str(tmp_path / ("a b .db" if form.startswith("file:") else "a b%20.db"))
    open_engine(form.format(tmp_path / "agent.db")).close()
    assert (tmp_path / "agent.db").exists()


def test_a_question_mark_may_be_part_of_a_name(tmp_path: Path) -> None:
    assert locate(f"{tmp_path}/what?.db").path == f"{tmp_path}/what?.db"
    assert locate(f"{tmp_path}/what?/a=b.db").path == f"{tmp_path}/what?/a=b.db"


@pytest.mark.parametrize(
    "url",
    ["", "sqlite:", "sqlite://host/agent.db", ":memory:", "sqlite:///:memory:", "a\0b", "a.db?checksum=1", "a.db?checksums=yes"]
    + ["a.db?wait=soon", "a.db?wait=-1", "a.db?wait=nan", "a.db?mount=some", "a.db?checksums=1&vfs=unix"],
)
def test_a_url_that_names_no_file_or_no_option_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unavailable):
        SqliteEngine.open(url)
    assert list(tmp_path.iterdir()) == []


# --- what is made ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["", "?checksums=1"], ids=["plain", "checksums"])
def test_a_new_store_says_what_it_is(store_path: Path, option: str) -> None:
    """R57, E1: the mark, the format version, WAL and full sync, for whoever looks with another tool."""
    engine = SqliteEngine.open(f"{store_path}{option}")
    engine.append("s", 0, rows(1, 1))
    status = engine.status()
    assert (status["journal_mode"], status["synchronous"], status["durable"]) == ("wal", "full", True)
    assert status["checksums"] is bool(option) and status["path"] == str(store_path)
    assert status["bytes"] == sum(file.stat().st_size for file in store_path.parent.iterdir() if not file.name.endswith("-shm"))
    assert tuple(map(int, status["sqlite_version"].split("."))) >= sqlite_file.LEAST_SQLITE
    engine.close()
    connection = apsw.Connection(str(store_path))
    assert connection.pragma("application_id") == int.from_bytes(b"linl", "big")
    assert connection.pragma("user_version") == 1
    assert connection.reserve_bytes(None, -1) == (8 if option else 0)
    connection.close()


def test_an_empty_file_is_a_new_store(store_path: Path) -> None:
    store_path.touch()
    with pytest.raises(Unavailable, match="empty"):
        SqliteEngine.open(str(store_path), create=False)
    SqliteEngine.open(str(store_path)).append("s", 0, rows(1, 1))


def test_many_processes_may_make_the_same_store_at_once(store_path: Path) -> None:
    """E8: each of them finds it whole, and their first rows are one log."""
    script = (
        "import sys\nfrom lineal.engines import open_engine\nfrom lineal.testing.engine import append_with_retries\n"
        "sys.stdin.readline()\nappend_with_retries(open_engine(sys.argv[1]), 's', [b'one', b'two'])\n"
    )
    for round_ in range(3):
        path = f"{store_path}{round_}{'?checksums=1' if round_ == 2 else ''}"
        children = [subprocess.Popen([sys.executable, "-c", script, path], stdin=subprocess.PIPE) for _ in range(4)]
        for child in children:
            assert child.stdin
            child.stdin.close()
        assert [child.wait() for child in children] == [0, 0, 0, 0]
        engine = SqliteEngine.open(path)
        assert sorted(r.body for r in engine.scan("s")) == [b"one"] * 4 + [b"two"] * 4
        assert engine.check() == []
        engine.close()


def test_checksums_belong_to_the_file(store_path: Path) -> None:
    """Opened without the option they are still kept and tested; they cannot be asked of a file that has none."""
    _store(store_path, "?checksums=1")
    engine = SqliteEngine.open(str(store_path))
    assert engine.status()["checksums"] is True
    engine.append("s", 200, rows(201, 300))
    engine.close()
    engine = SqliteEngine.open(f"{store_path}?checksums=1")
    assert len(list(engine.scan("s"))) == 500 and engine.check() == []
    engine.close()
    plain = _store(store_path.with_name("plain.db"))
    with pytest.raises(Unavailable, match="made without"):
        SqliteEngine.open(f"{plain}?checksums=1")


def test_other_connections_of_the_process_do_not_get_the_checksum_vfs(store_path: Path) -> None:
    _store(store_path, "?checksums=1")
    assert apsw.Connection(":memory:").open_vfs != "cksmvfs"
    assert apsw.vfs_names()[0] != "cksmvfs"


# --- what is refused -------------------------------------------------------------------------------------------------


def _no_directory(path: Path) -> None:
    path.parent.rmdir()


def _a_directory(path: Path) -> None:
    path.mkdir()


def _text(path: Path) -> None:
    path.write_text("these are notes, not a store\n" * 100)


def _short_text(path: Path) -> None:
    path.write_bytes(b"note")


def _other_program(path: Path) -> None:
    _run(path, "CREATE TABLE notes(text)", "INSERT INTO notes VALUES ('mine')")


def _other_mark(path: Path) -> None:
    _run(path, "PRAGMA application_id = 7")


def _other_version_of_nothing(path: Path) -> None:
    _run(path, "PRAGMA user_version = 3")


def _newer(path: Path) -> None:
    _run(_store(path), "PRAGMA user_version = 2")


def _cut_short(path: Path) -> None:
    os.truncate(_store(path), path.stat().st_size - 5000)


def _cut_to_one_page(path: Path) -> None:
    os.truncate(_store(path), 4096)


def _header_gone(path: Path) -> None:
    text = _store(path).read_bytes()
    path.write_bytes(b"\0" * 100 + text[100:])


def _mark_altered(path: Path) -> None:
    _run(_store(path), "PRAGMA application_id = 7")


def _version_gone(path: Path) -> None:
    _run(_store(path), "PRAGMA user_version = 0")


def _table_gone(path: Path) -> None:
    _run(_store(path), "DROP TABLE states")


def _emptied_beside_a_wal(path: Path) -> None:
    path.write_bytes(b"")
    path.with_name(path.name + "-wal").write_bytes(b"frames" * 1000)


def _lost_beside_a_wal(path: Path) -> None:
    path.with_name(path.name + "-wal").write_bytes(b"frames" * 1000)


@pytest.mark.parametrize(
    ("found", "answer", "says"),
    [
        (_no_directory, Unavailable, "make the directory first"),
        (_a_directory, Unavailable, "it is a directory"),
        (_text, Corrupt, "expected a lineal store"),
        (_short_text, Corrupt, "expected a lineal store"),
        (_other_program, Unavailable, "another program; it was left as it is"),
        (_other_mark, Unavailable, "another program"),
        (_other_version_of_nothing, Unavailable, "another program"),
        (_newer, Unavailable, "of format 2: this version reads format 1"),
        (_cut_short, Corrupt, "damaged file"),
        (_cut_to_one_page, Corrupt, "damaged file"),
        (_header_gone, Corrupt, "expected a lineal store"),
        (_mark_altered, Corrupt, "altered header"),
        (_version_gone, Corrupt, "format 0"),
        (_table_gone, Corrupt, "tables missing: states"),
        (_emptied_beside_a_wal, Corrupt, "an empty file beside 6,000 bytes"),
        (_lost_beside_a_wal, Corrupt, "no file beside 6,000 bytes"),
    ],
)
def test_what_cannot_be_a_store_is_refused_and_left_as_it_was(
    tmp_path: Path, found: Callable[[Path], None], answer: type[LinealError], says: str
) -> None:
    """E9, R5, R57, R60: by its own error, with the way out, and without a byte changed."""
    path = tmp_path / "in" / "agent.db"
    path.parent.mkdir()
    found(path)
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with pytest.raises(answer) as failure:
        SqliteEngine.open(str(path))
    assert type(failure.value) is answer
    assert says in str(failure.value) and str(path.parent) in str(failure.value)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before


def test_another_programs_wal_is_not_folded_back(store_path: Path) -> None:
    """What belongs to a program that was killed stays as that program left it."""
    writer = apsw.Connection(str(store_path))
    writer.pragma("journal_mode", "wal")
    writer.execute("CREATE TABLE notes(text)").fetchall()
    copy = store_path.with_name("copy.db")
    for end in ("", "-wal"):
        shutil.copy(f"{store_path}{end}", f"{copy}{end}")
    before = copy.read_bytes(), Path(f"{copy}-wal").read_bytes()
    with pytest.raises(Unavailable, match="another program"):
        SqliteEngine.open(str(copy))
    assert (copy.read_bytes(), Path(f"{copy}-wal").read_bytes()) == before
    writer.close()


def test_a_store_in_another_journal_mode_is_put_back_into_wal(store_path: Path) -> None:
    """E8: a copy made by other tools may have left it; two processes need the WAL."""
    _run(_store(store_path), "PRAGMA journal_mode = delete")
    engine = SqliteEngine.open(str(store_path))
    assert engine.status()["journal_mode"] == "wal" and len(list(engine.scan("s"))) == 200
    engine.close()


def test_a_vfs_without_shared_memory_is_refused(store_path: Path) -> None:
    """R38: where no WAL can be kept, and for a VFS that does not exist."""
    for vfs in ("unix-none", "no-such-vfs"):
        with pytest.raises(Unavailable):
            SqliteEngine.open(f"{store_path}.{vfs}?vfs={vfs}")


def test_two_writers_that_both_get_the_lock_are_found_out(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R38: tried by a second connection. Here it is led to another file, so that the first one's lock does not hold it."""
    _store(store_path)
    connect, led_away = StoreFile.connect, []

    def elsewhere(file: StoreFile, **how: bool) -> apsw.Connection:
        if file.wait == 0.0:
            led_away.append(file)
            return apsw.Connection(":memory:")
        return connect(file, **how)

    monkeypatch.setattr(StoreFile, "connect", elsewhere)
    with pytest.raises(Unavailable, match="two writers held its lock at once"):
        SqliteEngine.open(f"{store_path}?probe=1")
    with pytest.raises(Unavailable, match="two writers held its lock at once"):
        SqliteEngine.open(f"{store_path}.new")
    assert len(led_away) == 2


def test_an_sqlite_with_the_wal_defect_is_refused(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E1: before anything is touched."""
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    with pytest.raises(Unavailable, match=r"3\.51\.3"):
        SqliteEngine.open(str(store_path))
    assert not store_path.exists()


# --- what can only be read -------------------------------------------------------------------------------------------

_READ_AND_TRY_TO_WRITE = """
import sys
from lineal.engines import open_engine
from lineal.errors import Unavailable
from lineal.testing.engine import row, rows
engine = open_engine(sys.argv[1], create=False)
assert list(engine.scan("s")) == rows(1, 200), "not what was written"
assert engine.status()["read_only"]
for write in (lambda: engine.append("s", 200, rows(201, 1)), lambda: engine.delete("s", [1]), lambda: engine.latch("s", "why")):
    try:
        write()
    except Unavailable as e:
        assert "make the file and its directory writable" in str(e), e
    else:
        raise AssertionError("written")
engine.close()
"""


def _as_somebody_who_may_not(script: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Root passes every permission bit, unless it lays that down first."""
    command = [sys.executable, "-c", script, str(path)]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root without setpriv cannot lay its rights down")
        command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *command]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("option", ["", "?checksums=1"], ids=["plain", "checksums"])
@pytest.mark.parametrize(("file_mode", "directory_mode"), [(0o444, 0o755), (0o444, 0o555), (0o644, 0o555)])
def test_a_store_that_cannot_be_written_can_be_read(tmp_path: Path, file_mode: int, directory_mode: int, option: str) -> None:
    """E9: reads are whole; each write is `Unavailable` with the way out."""
    directory = tmp_path / "in"
    directory.mkdir()
    path = _store(directory / "agent.db", option)
    path.chmod(file_mode)
    directory.chmod(directory_mode)
    done = _as_somebody_who_may_not(_READ_AND_TRY_TO_WRITE, path)
    directory.chmod(0o755)
    assert done.returncode == 0, done.stderr


def test_rows_in_a_wal_that_cannot_be_read_are_not_left_out(tmp_path: Path) -> None:
    """E4: in a directory without write permission a left -wal file is `Unavailable` or read; never a shorter log."""
    directory = tmp_path / "in"
    directory.mkdir()
    engine = SqliteEngine.open(str(tmp_path / "agent.db"))
    engine.append("s", 0, rows(1, 200))
    for end in ("", "-wal"):
        shutil.copy(f"{tmp_path / 'agent.db'}{end}", f"{directory / 'agent.db'}{end}")
    directory.chmod(0o555)
    done = _as_somebody_who_may_not(_READ_AND_TRY_TO_WRITE, directory / "agent.db")
    directory.chmod(0o755)
    engine.close()
    assert done.returncode != 0 and "lineal.errors.Unavailable" in done.stderr and "-wal and -shm" in done.stderr


def test_a_store_cannot_be_made_where_nothing_can_be_written(tmp_path: Path) -> None:
    """E9."""
    directory = tmp_path / "in"
    directory.mkdir()
    directory.chmod(0o555)
    done = _as_somebody_who_may_not(_READ_AND_TRY_TO_WRITE.replace(", create=False", ""), directory / "agent.db")
    directory.chmod(0o755)
    assert "lineal.errors.Unavailable" in done.stderr and "make it writable" in done.stderr
    assert list(directory.iterdir()) == []


MAKER = """
import sys, time
import lineal

print("ready", flush=True)
begin = float(sys.stdin.readline())
for n in range(20):
    while time.time() < begin + n * 0.1:
        time.sleep(0.0005)
    with lineal.connect(f"{sys.argv[1]}/{n}.db") as store:
        store.session("shared").append({"role": "user", "content": "here"}, id=sys.argv[2])
"""


def test_processes_that_make_one_store_at_the_same_time_all_get_in(tmp_path: Path) -> None:
    """E8, R37: SQLite says "busy" at once while another process makes the file; opening waits for it by the deadline."""
    makers = [
        subprocess.Popen(
            [sys.executable, "-c", MAKER, str(tmp_path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b", "c")
    ]
    for maker in makers:
        assert maker.stdout is not None and maker.stdout.readline() == "ready\n"
    begin = f"{time.time() + 0.2}\n"
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.write(begin)
        maker.stdin.flush()
    for maker in makers:
        _, err = maker.communicate(timeout=120)
        assert maker.returncode == 0, err
    for n in range(20):
        with lineal.connect(tmp_path / f"{n}.db", create=False) as store:
            assert {t.id for t in store.session("shared").turns()} == {"a", "b", "c"}
