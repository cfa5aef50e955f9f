"""The guard over a foreign SQLite table: every fault is named, a manifest that is not whole never passes, memory stays flat."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lineal.cli import cli
from lineal.errors import PolicyError, Refused, Unavailable
from lineal.guarding import ForeignDamage, check, opened, take
from lineal.guarding import manifest as manifests
from lineal.guarding.encoding import content, id_bytes, id_values
from lineal.rules.guard import CompactionVerdict

V = CompactionVerdict
Change = Callable[..., None]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store of somebody else: 20,000 steps of agents, in two generations' worth of one format."""
    path = tmp_path / "foreign.db"
    db = apsw.Connection(str(path))
    db.execute(
        "CREATE TABLE steps (agent TEXT, n INTEGER, body TEXT, score REAL, raw BLOB, generation INTEGER NOT NULL, PRIMARY KEY (agent, n))"
    )
    rows = [(f"agent-{i % 7}", i, f"step {i}", i / 3, bytes([i % 256]), 1) for i in range(20_000)]
    with db:
        db.executemany("INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?)", rows)
    db.close()
    return path


@pytest.fixture
def change(file: Path) -> Change:
    def run(statement: str, *values: Any) -> None:
        db = apsw.Connection(str(file))
        db.execute(statement, values)
        db.close()

    return run


@pytest.fixture
def before(file: Path, tmp_path: Path) -> Path:
    take(file, tmp_path / "before.guard", generation="generation")
    return tmp_path / "before.guard"


# --- what is found ---------------------------------------------------------------------------------------------------


def test_a_pass_that_changes_nothing_is_clean(file: Path, change: Change, before: Path) -> None:
    """Record 004: the state from before is what is read back after a VACUUM."""
    change("VACUUM")
    checked = check(file, before)
    assert checked.clean and checked.readable and checked.verdicts == (V.POST_COMPACTION_CLEAN,)
    assert checked.manifest.verdict is V.POST_COMPACTION_CLEAN and checked.manifest.directive.startswith("PROCEED")
    assert checked.counts == {"expected": 20_000, "found": 20_000, "missing": 0, "truncated": 0, "altered": 0, "extra": 0, "moved": 0}
    assert checked.generations == {1: 20_000} and checked.state_hash == checked.expected_hash == opened(before).state_hash


@pytest.mark.parametrize(
    ("statement", "fault", "id", "verdict"),
    [
        ("DELETE FROM steps WHERE n = 4711", "missing", ["agent-0", 4711], V.PHANTOM_DELETION),
        ("UPDATE steps SET body = 'stop 4711' WHERE n = 4711", "altered", ["agent-0", 4711], V.ALTERED),
        ("UPDATE steps SET body = NULL, raw = zeroblob(40) WHERE n = 4711", "altered", ["agent-0", 4711], V.ALTERED),
        ("UPDATE steps SET body = 'st' WHERE n = 4711", "truncated", ["agent-0", 4711], V.TRUNCATED),
        ("INSERT INTO steps VALUES ('agent-0', 90000, '', 0, x'', 1)", "extra", ["agent-0", 90_000], V.LEFTOVER),
    ],
)
def test_each_fault_is_named_with_its_id(file: Path, change: Change, before: Path, statement: str, fault: str, id: Any, verdict: V) -> None:
    change(statement)
    checked = check(file, before)
    assert checked.verdict is verdict and checked.verdicts == (verdict,) and not checked.readable
    assert getattr(checked, fault) == (id,) and checked.counts[fault] == 1
    assert sum(checked.counts[f] for f in ("missing", "truncated", "altered", "extra", "moved")) == 1
    assert checked.directive.startswith("HALT")


def test_all_faults_together_are_all_told(file: Path, change: Change, before: Path, tmp_path: Path) -> None:
    change("DELETE FROM steps WHERE n BETWEEN 100 AND 299")
    change("UPDATE steps SET raw = x'ffff' WHERE n = 500")
    change("INSERT INTO steps VALUES ('zz', 1, NULL, NULL, NULL, 1)")
    seen: list[tuple[str, Any]] = []
    checked = check(file, before, tell=lambda fault, key: seen.append((fault, key)))
    assert checked.verdicts == (V.PHANTOM_DELETION, V.ALTERED, V.LEFTOVER)
    assert checked.counts["missing"] == 200 and len(checked.missing) == 100, "a report names the first, `tell` is told all"
    assert len(seen) == 202 and ("extra", ["zz", 1]) in seen


def test_null_empty_and_numbers_that_look_alike_are_apart(file: Path, change: Change, tmp_path: Path) -> None:
    change("CREATE TABLE odd (id INTEGER PRIMARY KEY, v)")
    change("INSERT INTO odd VALUES (1, NULL), (2, ''), (3, x''), (4, 1), (5, 1.0), (6, '1')")
    take(file, tmp_path / "odd", table="odd")
    change("UPDATE odd SET v = CASE id WHEN 1 THEN '' WHEN 2 THEN x'' WHEN 3 THEN NULL WHEN 4 THEN 1.0 WHEN 5 THEN '1' ELSE 1 END")
    checked = check(file, tmp_path / "odd")
    assert sorted(checked.altered + checked.truncated) == [1, 2, 3, 4, 5, 6]


# --- generations -----------------------------------------------------------------------------------------------------


def test_a_pass_that_stopped_half_way_is_mixed(file: Path, change: Change, before: Path) -> None:
    """Record 004: half of the records in the new generation, half in the old."""
    change("UPDATE steps SET generation = 2 WHERE n < 10000")
    checked = check(file, before, generation=2)
    assert checked.verdict is V.MIXED_GENERATION_DETECTED and checked.generations == {1: 10_000, 2: 10_000}
    assert checked.counts["moved"] == 10_000
    change("UPDATE steps SET generation = 2")
    assert check(file, before, generation=2).clean, "the contents are as before, the generation is the one that was to be written"
    assert check(file, before).verdict is V.MIXED_GENERATION_DETECTED, "nobody said that generation 2 was to be written"


def test_a_manifest_of_several_generations_says_which_record_is_of_which(file: Path, change: Change, tmp_path: Path) -> None:
    """Record 004: the per-generation record manifest."""
    change("UPDATE steps SET generation = 2 WHERE n % 2 = 0")
    taken = take(file, tmp_path / "two", generation="generation")
    assert taken.generations == {1: 10_000, 2: 10_000}
    assert check(file, tmp_path / "two").clean
    change("UPDATE steps SET generation = 1 WHERE n = 8")
    checked = check(file, tmp_path / "two")
    assert checked.verdict is V.MIXED_GENERATION_DETECTED and checked.moved == (["agent-1", 8],)


def test_after_a_lossy_pass_its_own_manifest_holds(file: Path, change: Change, before: Path, tmp_path: Path) -> None:
    """Record 004: the hash from before and the hash from after are different things, and after a lossy pass only one of them counts."""
    old = file.with_name("old.db")
    old.write_bytes(file.read_bytes())
    change("DELETE FROM steps WHERE n < 5000")
    take(file, tmp_path / "after.guard", generation="generation")
    assert check(file, before).verdict is V.PHANTOM_DELETION
    assert check(file, before, post=tmp_path / "after.guard").clean
    checked = check(old, before, post=tmp_path / "after.guard")
    assert checked.verdict is V.LEFTOVER and checked.counts["extra"] == 5_000 and "old copy" in checked.manifest.directive


def test_a_writer_that_was_killed_in_its_vacuum_leaves_it_clean(file: Path, before: Path) -> None:
    """Record 004: killed at any point of a VACUUM. Where its commit was cut off, the file is refused until its owner rolled it back."""
    program = (
        "import os, signal, sys, apsw\n"
        "class Vfs(apsw.VFS):\n"
        "    def __init__(self): super().__init__('killing', '')\n"
        "    def xOpen(self, name, flags): return File(name, flags)\n"
        "left = int(sys.argv[2])\n"
        "class File(apsw.VFSFile):\n"
        "    def __init__(self, name, flags):\n"
        "        self.main = flags[0] & apsw.SQLITE_OPEN_MAIN_DB\n"
        "        super().__init__('', name, flags)\n"
        "    def xWrite(self, data, offset):\n"
        "        global left\n"
        "        left -= bool(self.main)\n"
        "        if left < 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return super().xWrite(data, offset)\n"
        "vfs = Vfs()\n"
        "apsw.Connection(sys.argv[1], vfs='killing').execute('VACUUM')"
    )
    refusals = 0
    for writes in (0, 3, 60):
        done = subprocess.run([sys.executable, "-c", program, str(file), str(writes)], check=False)
        assert done.returncode == -9
        try:
            assert check(file, before).clean
        except Unavailable as refusal:
            refusals += 1
            assert "let its owner open it first" in str(refusal)
            owner = apsw.Connection(str(file))
            assert owner.execute("SELECT count(*) FROM steps").fetchone() == (20_000,)
            owner.close()
        assert check(file, before).clean
    assert refusals


# --- bad input -------------------------------------------------------------------------------------------------------


def refused(call: Callable[[], Any], kind: type[Exception], *words: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert "Way out: " in str(caught.value), caught.value
    for word in words:
        assert word in str(caught.value), caught.value


def test_what_cannot_be_meant_is_refused_with_a_next_step(file: Path, change: Change, before: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    change("CREATE TABLE bare (a TEXT, b TEXT)")
    change("INSERT INTO bare VALUES ('x', '1'), ('x', '2')")
    refused(lambda: take(file, new), PolicyError, "bare, steps", "--table")
    refused(lambda: take(file, new, table="stepz"), PolicyError, "'stepz'", "steps")
    refused(lambda: take(file, new, table="bare"), PolicyError, "no primary key", "--id", "a, b")
    refused(lambda: take(file, new, table="bare", ids=["c"]), PolicyError, "no column 'c'")
    refused(lambda: take(file, new, table="steps", generation="body"), PolicyError, "'step 0'", "no generation")
    refused(lambda: take(file, new, table="steps", where="nope ="), PolicyError, "--where")
    refused(lambda: take(file, new, prefix="k"), PolicyError, "--prefix")
    refused(lambda: take(tmp_path / "nowhere.db", new), Unavailable, "does not exist")
    refused(lambda: take("mongodb://x/y", new), PolicyError, "mongodb", "postgresql")
    refused(lambda: take(file, before, table="steps", generation="generation"), Refused, "complete")
    refused(lambda: take(file, new, table="bare", ids=["a"]), Refused, "two records have the id 'x'")
    assert not new.exists(), "of what was refused nothing is left behind"
    take(file, new, table="bare", ids=["a", "b"])
    refused(lambda: check(file, new, generation=3), PolicyError, "--generation")
    refused(lambda: check(file, tmp_path / "none"), Unavailable, "lineal guard take")
    change("ALTER TABLE bare ADD COLUMN c")
    refused(lambda: check(file, new), PolicyError, "columns", "new manifest")
    change("DROP TABLE bare")
    refused(lambda: check(file, new), PolicyError, "no table 'bare'")


def test_a_file_that_is_no_database_is_refused_by_name(tmp_path: Path, file: Path, before: Path) -> None:
    other = tmp_path / "other.db"
    other.write_bytes(b"not a database, but long enough to look like a file of one" * 40)
    refused(lambda: check(other, before), ForeignDamage, "other.db")
    data = bytearray(file.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4096] = bytes(4096)
    file.write_bytes(data)
    refused(lambda: check(file, before), ForeignDamage, "steps", "behind id")


# --- the manifest file -----------------------------------------------------------------------------------------------


def test_a_manifest_that_was_cut_anywhere_never_passes_for_whole_and_goes_on(file: Path, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    take(file, whole)
    data = whole.read_bytes()
    draw = random.Random(4)
    for length in [0, 5, len(manifests.MAGIC), len(data) - 1, *(draw.randrange(len(data)) for _ in range(5))]:
        cut.write_bytes(data[:length])
        refused(lambda: check(file, cut), Refused if length >= len(manifests.MAGIC) else ForeignDamage)
        assert take(file, cut).state_hash == opened(whole).state_hash and check(file, cut).clean


def test_any_flipped_bit_of_a_manifest_is_seen(file: Path, before: Path) -> None:
    data = before.read_bytes()
    draw = random.Random(5)
    for _ in range(40):
        at = draw.randrange(len(data))
        changed = bytearray(data)
        changed[at] ^= 1 << draw.randrange(8)
        before.write_bytes(changed)
        with pytest.raises((ForeignDamage, Refused)):
            check(file, before)


def test_a_take_of_a_state_that_changed_since_it_was_begun_is_not_continued(file: Path, change: Change, tmp_path: Path) -> None:
    """A manifest is of one moment: what was written before must still be what is there."""
    part = tmp_path / "part"
    take(file, part)
    part.write_bytes(part.read_bytes()[: part.stat().st_size * 2 // 3])
    change("UPDATE steps SET body = 'other' WHERE agent = 'agent-0' AND n = 7")
    refused(lambda: take(file, part), Refused, "another state", "remove the file")


def test_a_killed_take_goes_on(file: Path, tmp_path: Path) -> None:
    """kill -9 in the middle of a take; the same command goes on, and what it writes is the manifest of one take."""
    part = tmp_path / "part"
    program = (
        "import os, signal, sys; from lineal.guarding import take\n"
        "take(sys.argv[1], sys.argv[2], progress=lambda n: n > 12_000 and os.kill(os.getpid(), signal.SIGKILL))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(file), str(part)], check=False)
    assert done.returncode == -9 and part.stat().st_size > 100_000
    refused(lambda: check(file, part), Refused, "not complete")
    take(file, part)
    take(file, tmp_path / "whole")
    assert opened(part).state_hash == opened(tmp_path / "whole").state_hash


# --- memory ----------------------------------------------------------------------------------------------------------


def peak(rows: int, folder: Path) -> int:
    """Peak memory in KiB of a process that takes and checks a table of so many rows."""
    path = folder / f"{rows}.db"
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT)")
    db.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO t SELECT i, 'row ' || i FROM n", (rows,)
    )
    db.close()
    program = (
        # not `getrusage`: in a child, that begins with the memory of its parent
        "import sys; from pathlib import Path; from lineal.guarding import check, take\n"
        "take(sys.argv[1], sys.argv[2]); assert check(sys.argv[1], sys.argv[2]).clean\n"
        "print(next(line.split()[1] for line in Path('/proc/self/status').read_text().splitlines() if line.startswith('VmHWM')))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path), f"{path}.guard"], check=True, capture_output=True, text=True)
    return int(done.stdout)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell a process's own peak memory")
def test_memory_is_flat(tmp_path: Path) -> None:
    small, large = peak(50_000, tmp_path), peak(500_000, tmp_path)
    assert large < small * 1.3, f"{small:,} KiB for 50,000 rows, {large:,} KiB for 500,000"


# --- a second implementation ----------------------------------------------------------------------------------------

VALUES = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([0.5, -2.0, 1e300]), st.text("ab\0é", max_size=3), st.binary(max_size=3))
IDS = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-3, 3),
    st.floats(-3, 3),
    st.text("ab\0é\U0001f600\ue000", max_size=3),
    st.binary(max_size=2),
)
TABLES = st.dictionaries(st.tuples(IDS, IDS), st.tuples(VALUES, VALUES, st.integers(1, 2)), max_size=12)


def written(path: Path, rows: dict[Any, Any]) -> dict[Any, Any]:
    """The table written anew; returns what SQLite holds: of ids that it takes for one, one stays."""
    db = apsw.Connection(str(path))
    db.execute("DROP TABLE IF EXISTS t; CREATE TABLE t (a, b, x, y, g INTEGER, PRIMARY KEY (a, b))")
    with db:
        db.executemany("INSERT OR REPLACE INTO t VALUES (?, ?, ?, ?, ?)", [(*key, *values) for key, values in rows.items()])
    found = {(kind(a), kind(b)): (kind(x), kind(y), g) for a, b, x, y, g in db.execute("SELECT a, b, x, y, g FROM t")}
    db.close()
    return found


def kind(value: Any) -> tuple[str, Any]:
    return type(value).__name__, value


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TABLES, TABLES, st.sets(st.integers(0, 11)), st.data())
def test_a_comparison_by_dict_says_the_same(tmp_path: Path, one: dict[Any, Any], other: dict[Any, Any], kept: set[int], data: Any) -> None:
    """Any table, any changes: the merge of two streams finds what a dict in memory finds."""
    path, guard = tmp_path / "h.db", tmp_path / "h.guard"
    guard.unlink(missing_ok=True)
    before = written(path, one)
    take(path, guard, table="t", generation="g")
    after = written(path, {key: values for n, (key, values) in enumerate(one.items()) if n not in kept} | other)
    found: dict[str, set[Any]] = {"missing": set(), "differ": set(), "extra": set(), "moved": set()}

    def tell(fault: str, key: Any) -> None:
        if key is None:
            for ids in found.values():
                ids.clear()
        else:
            found["differ" if fault in ("altered", "truncated") else fault].add(repr(key))

    checked = check(path, guard, tell=tell)
    both = before.keys() & after.keys()
    wanted = {
        "missing": {named(key) for key in before.keys() - after.keys()},
        "extra": {named(key) for key in after.keys() - before.keys()},
        "differ": {named(key) for key in both if before[key][:2] != after[key][:2]},
        "moved": {named(key) for key in both if before[key][2] != after[key][2]},
    }
    assert found == wanted
    same = not any(wanted.values())
    assert checked.readable == same and (checked.clean or not same)
    assert not checked.clean or not (wanted["missing"] or wanted["extra"] or wanted["differ"])


def named(key: Any) -> str:
    from lineal.guarding.encoding import shown

    return repr(shown(id_bytes(value for _, value in key)))


@given(st.lists(st.tuples(IDS, IDS), min_size=2, max_size=2))
@example([("a", 1), ("ab", 0)])
@example([("a\0", 1), ("a", 2)])
def test_ids_sort_by_their_bytes_as_sqlite_sorts_them(ids: list[tuple[Any, Any]]) -> None:
    """Numbers that are not whole are the exception: the guard sorts those itself."""
    if any(isinstance(value, float) for pair in ids for value in pair):
        return
    db = apsw.Connection(":memory:")
    db.execute("CREATE TABLE t (a, b)")
    db.executemany("INSERT INTO t VALUES (?, ?)", ids)
    by_store = [tuple(row) for row in db.execute("SELECT a, b FROM t ORDER BY a, b")]
    assert sorted(ids, key=id_bytes) == by_store
    assert [id_values(id_bytes(pair)) for pair in ids] == ids


def test_a_value_without_an_exact_form_is_not_guessed() -> None:
    with pytest.raises(TypeError, match="no exact form"):
        content([object()])


# --- the command line ------------------------------------------------------------------------------------------------


def run(*words: Any) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["guard", *map(str, words)], catch_exceptions=False)
    return result.exit_code, result.output


def test_the_commands_and_their_exit_codes(file: Path, change: Change, tmp_path: Path) -> None:
    guard, ids = tmp_path / "g", tmp_path / "ids.jsonl"
    code, said = run("take", file, "--manifest", guard, "--generation", "generation")
    assert code == 0 and "20,000 records of 'steps'" in said and "1: 20,000 records" in said
    assert run("show", guard)[0] == 0
    assert run("check", file, "--manifest", guard) == (0, run("check", file, "--manifest", guard)[1])
    change("DELETE FROM steps WHERE n < 150")
    code, said = run("check", file, "--manifest", guard, "--ids", ids)
    assert code == 3 and said.startswith("PHANTOM_DELETION: 19,850 records, 20,000 in the manifest") and ", ..." in said
    assert len(ids.read_text().splitlines()) == 150
    code, said = run("check", file, "--manifest", guard, "--json")
    document = json.loads(said)
    assert code == 3 and document["verdict"] == "PHANTOM_DELETION" and document["checked"]["counts"]["missing"] == 150
    assert document["checked"]["manifest"]["verdict"] == "ALTERED" and not document["clean"]
    assert run("take", file, "--manifest", guard)[0] == 1
    assert run("take", file, "--manifest", tmp_path / "x", "--table", "none")[0] == 2
    assert run("check", tmp_path / "none.db", "--manifest", guard)[0] == 5
    guard.write_bytes(guard.read_bytes()[:-1])
    assert run("show", guard)[0] == 1
    guard.write_bytes(b"something else")
    assert run("show", guard)[0] == 3


def test_only_rows_of_a_condition(file: Path, change: Change, tmp_path: Path) -> None:
    take(file, tmp_path / "w", where="agent = 'agent-3'")
    change("DELETE FROM steps WHERE agent = 'agent-4'")
    assert check(file, tmp_path / "w").clean
    change("DELETE FROM steps WHERE agent = 'agent-3' AND n = 3")
    assert check(file, tmp_path / "w").missing == (["agent-3", 3],)


def test_a_store_that_sorts_otherwise_is_sorted_here(file: Path, change: Change, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that are not whole among whole ones come in an order of the store's own; runs on disk bring them into the guard's."""
    monkeypatch.setattr("lineal.guarding.sorting.RUN_RECORDS", 500)
    monkeypatch.setattr("lineal.guarding.sorting.FAN_IN", 3)
    change("CREATE TABLE mixed AS SELECT CASE WHEN n % 5000 = 4999 THEN n + 0.5 ELSE n END AS id, body FROM steps")
    taken = take(file, tmp_path / "m", table="mixed", ids=["id"])
    assert taken.header["sorted"] and taken.count == 20_000 and check(file, tmp_path / "m").clean
    (tmp_path / "m").write_bytes((tmp_path / "m").read_bytes()[:-500])
    assert take(file, tmp_path / "m", table="mixed", ids=["id"]).state_hash == taken.state_hash
    change("DELETE FROM mixed WHERE id IN (3, 4999.5)")
    assert len(check(file, tmp_path / "m").missing) == 2
