"""Whatever is wrong with a file, a disk or an argument is named by its family, with the way out; nothing is skipped, nothing is changed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

import lineal
from lineal import CompactionVerdict as V
from lineal import codec
from lineal.cli import cli
from lineal.entries import Turn, Unknown
from lineal.testing import tampering
from lineal.testing.disk import FaultyDisk
from lineal.testing.lived import Kept, Remembered
from lineal.testing.scripts.places import InFile

POLICY = lineal.Policy(trigger=1_500, ceiling=2_500, target=600, floor_turns=4, summary_max_tokens=200)
COMPACTED, HEAD = 18, 24  # the commit, where the newest state is; then six turns more
BEHIND, TAIL = 3, 20  # a turn that opening does not read; one that it does
COLUMNS = 'kind, generation, size, inner, digest, "unique", key1, key2, salt, body'
FAMILIES = (lineal.Refused, lineal.Corrupt, lineal.Conflict, lineal.Unavailable)


def at(seq: int, session: int = 1) -> int:
    return session << 36 | seq


def brief(request: lineal.SummaryRequest) -> str:
    return f"The work up to {request.turns[-1].id} in brief: {len(request.turns)} turns, the plan was read part by part."


def opened(path: Path, **options: Any) -> lineal.Session:
    return lineal.connect(path, create=False, **options).session("agent", POLICY, brief)


def run(path: Path, *statements: str) -> None:
    with closing(apsw.Connection(str(path))) as db:
        for statement in statements:
            db.execute(statement).fetchall()


def bytes_of(path: Path) -> str:
    """A digest over the store's files; only for a store that nobody holds open."""
    files = sorted(p for p in path.parent.iterdir() if p.name.startswith(path.name))
    return hashlib.sha256(b"".join(p.name.encode() + p.read_bytes() for p in files)).hexdigest()


def rows_of(path: Path) -> list[Any]:
    """Every row and state, without the latch that a detection leaves (R6)."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        return [db.execute(f"SELECT * FROM {table} ORDER BY id").fetchall() for table in ("entries", "states")]


def names_its_way_out(error: lineal.LinealError) -> bool:
    return bool(error.remedy) if isinstance(error, lineal.Refused) else "Way out: " in str(error)


@dataclass(frozen=True)
class Master:
    """A closed store with two sessions of one shape, its anchor, and a copy of both made before the last six turns."""

    path: Path
    turns: list[Turn]
    messages: list[Any]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory, say: Any) -> Master:
    folder = tmp_path_factory.mktemp("master")
    path, anchor = folder / "agent.db", folder / "anchor.json"
    for first, last in ((0, 16), (16, 22)):
        with lineal.connect(path, anchor=anchor) as store:
            for name, offset in (("agent", 0), ("other", 100)):
                session = store.session(name, POLICY, brief)
                session.append(say.dialogue(last - first, first + offset), id=[f"t{n}" for n in range(first, last)])
                if first == 0:
                    assert isinstance(session.compact(), lineal.Compacted) and session.status().head == COMPACTED
            agent = store.session("agent", POLICY, brief)
            turns, messages = agent.turns(), agent.messages()
        if first == 0:
            shutil.copy(path, folder / "older.db")
    assert len(turns) == 22 and turns[-1].seq == HEAD
    return Master(path, turns, messages)


@pytest.fixture
def path(master: Master, tmp_path: Path) -> Path:
    shutil.copy(master.path.with_name("anchor.json"), tmp_path / "anchor.json")
    return Path(shutil.copy(master.path, tmp_path / "agent.db"))


# --- what is no store, or not of this version ----------------------------------------------------------------------------


def text(path: Path) -> None:
    path.write_text("these are notes, not a store\n" * 400)


def foreign(path: Path) -> None:
    path.unlink()
    run(path, "CREATE TABLE notes(text)", "INSERT INTO notes VALUES ('mine')")


NO_STORES: dict[str, tuple[Callable[[Path], Any], type[lineal.LinealError], int]] = {
    "absent": (Path.unlink, lineal.Unavailable, 5),
    "empty": (lambda p: p.write_bytes(b""), lineal.Unavailable, 5),
    "text": (text, lineal.Corrupt, 3),
    "foreign": (foreign, lineal.Unavailable, 5),
    "newer": (lambda p: run(p, "PRAGMA user_version = 2"), lineal.Unavailable, 5),
    "a table gone": (lambda p: run(p, "DROP TABLE states"), lineal.Corrupt, 3),
    "a column gone": (lambda p: run(p, "ALTER TABLE entries RENAME COLUMN body TO text"), lineal.Corrupt, 3),
}


@pytest.mark.parametrize("case", NO_STORES)
def test_what_is_no_store_is_refused_and_left(path: Path, case: str) -> None:
    """R57, E9: from Python and from the shell; no file is made, none is changed."""
    spoil, family, code = NO_STORES[case]
    spoil(path)
    before = bytes_of(path)
    with pytest.raises(family) as failure:
        opened(path).turns()
    assert type(failure.value) is family and names_its_way_out(failure.value)
    done = CliRunner().invoke(cli, ["context", str(path), "-s", "agent"])
    assert done.exit_code == code and "way out: " in done.stderr
    assert case == "a column gone" or bytes_of(path) == before, "only the mark of R6 may be set"


def put(path: Path, kind: str, body: bytes) -> None:
    """One more entry behind the head, well chained, as a newer lineal or an extension would write it."""
    with lineal.connect(path, create=False) as store:
        log = store.session("agent", POLICY).log
        row = codec.seal(bytes.fromhex(log.lineage.digest), HEAD + 1, 1, Unknown(name=kind, raw=body), b"s" * 16, 0)
        store.engine.append("agent", HEAD, [row])


@pytest.mark.parametrize(
    ("kind", "body"),
    [("dream", b'{"v":1,"kind":"dream"}'), ("turn", b'{"v":2,"kind":"turn","id":"t"}'), ("turn", b'{"v":"1","kind":"turn"}')],
    ids=["unknown kind", "newer format", "version of another type"],
)
def test_an_entry_that_only_a_newer_version_knows_is_unavailable(path: Path, kind: str, body: bytes) -> None:
    """R57: never null, never passed over; it stays for the version that knows it."""
    put(path, kind, body)
    before = bytes_of(path)
    with lineal.connect(path, create=False) as store, pytest.raises(lineal.Unavailable, match=f"seq {HEAD + 1}.*upgrade"):
        store.session("agent", POLICY)
    assert CliRunner().invoke(cli, ["context", str(path), "-s", "agent"]).exit_code == 5
    assert bytes_of(path) == before


def test_an_entry_of_an_extension_is_carried(path: Path, master: Master, say: Any) -> None:
    """R57: an `x.` kind changes nothing and stays byte for byte."""
    body = b'{"v":9,"kind":"x.mood","calm":true}'
    put(path, "x.mood", body)
    session = opened(path)
    assert session.messages() == master.messages and session.append(say.user(1)).seq == HEAD + 2
    assert session.turns()[:-1] == master.turns and session.store.verify().clean
    assert [r.body for r in session.engine.scan("agent", HEAD, HEAD + 1)] == [body]
    session.store.close()


@pytest.mark.parametrize("cut", [1, 16, 99, 100, 4095, 4096, 4097, 0.25, 0.5, 0.75, -4097, -4096, -2048, -1])
def test_a_file_cut_short_is_never_a_shorter_history(path: Path, master: Master, cut: float) -> None:
    """R5: at whatever byte; either everything is there, or `Corrupt`."""
    size = path.stat().st_size
    os.truncate(path, int(size * cut) if isinstance(cut, float) else cut % size)
    before = bytes_of(path)
    try:
        with lineal.connect(path, create=False) as store:
            assert store.verify().damaged or rows_of(path) == rows_of(master.path)
        assert bytes_of(path) == before
        with closing(lineal.connect(path, create=False)) as store:
            assert store.session("agent", POLICY).turns() == master.turns
    except lineal.Corrupt as damage:
        assert names_its_way_out(damage)
        return
    assert cut < 0 and -cut < 4096, "a whole page less is always noticed"


def test_an_emptied_file_is_no_new_store_to_who_keeps_an_anchor(path: Path) -> None:
    """R60: a fresh store where an old one should be."""
    path.write_bytes(b"")
    with lineal.connect(path, anchor=path.with_name("anchor.json")) as store:
        assert {r.verdict for r in store.verify()} == {V.CUT_TAIL}
        with pytest.raises(lineal.Corrupt) as failure:
            store.session("agent", POLICY)
        assert failure.value.seq == 1


# --- edits at rest ---------------------------------------------------------------------------------------------------------


def copied(source: int, target: int) -> str:
    """The row at place `source` once more at `target`; its unique key would not go in twice."""
    columns = COLUMNS.replace('"unique"', "NULL")
    return f"INSERT INTO entries(id, {COLUMNS}) SELECT {target}, {columns} FROM entries WHERE id = {source}"


def struck(edit: tampering.Edit) -> Callable[[Path, int], Any]:
    """The edit at a seq of session "agent"."""

    def strike(path: Path, seq: int) -> None:
        place = InFile(path)
        with closing(place.open()) as engine:
            rows, others = tuple(engine.scan("agent")), tuple(engine.scan("other"))
        spot = tampering.Spot("agent", rows[: seq - 1], rows[seq - 1], rows[seq:], others[seq - 1])
        assert tampering.strike(Kept(place, Remembered()), spot, edit.change)

    return strike


# the edit at seq n -> (how, verdict, the seqs that it names, counted from n)
EDITS: dict[str, tuple[Callable[[Path, int], Any], V, tuple[int, ...]]] = {
    name: (struck(edit), edit.verdict, edit.offsets)
    for name, edit in tampering.EDITS.items()
    if edit.offsets[0] == 0 and edit.verdict is not V.CUT_TAIL  # an end is another story, and what only the next row shows too
}
EDITS["a kind that is no text"] = (lambda path, n: run(path, f"UPDATE entries SET kind = x'ff' WHERE id = {at(n)}"), V.ALTERED, (0,))


@pytest.mark.parametrize("seq", [BEHIND, TAIL], ids=["behind the state", "in the tail"])
@pytest.mark.parametrize("edit", EDITS)
def test_each_edit_at_rest_is_named_and_the_read_that_meets_it_stops(path: Path, master: Master, say: Any, edit: str, seq: int) -> None:
    """R59, R61: verify names verdict, seq and id and changes no byte; the read says where it stopped; then nothing is written (R6)."""
    spoil, verdict, offsets = EDITS[edit]
    spoil(path, seq)
    before, rows = bytes_of(path), rows_of(path)
    with lineal.connect(path, create=False) as store:
        reports = store.verify()
        named = next((r for r in reports if r.verdict is verdict and r.seqs == tuple(seq + n for n in offsets)), None)
        assert reports.damaged and named, list(reports)
        if verdict is not V.PHANTOM_DELETION:
            assert len(named.ids) == len(offsets)
    assert bytes_of(path) == before, "looking changed it"
    with lineal.connect(path, create=False) as store:
        if seq == TAIL:
            with pytest.raises(lineal.Corrupt) as failure:
                store.session("agent", POLICY)
        else:
            session = store.session("agent", POLICY)
            assert session.messages() == master.messages, "what is shown does not lie there"
            with pytest.raises(lineal.Corrupt) as failure:
                session.turns()
            with pytest.raises(lineal.Refused, match="read-only"):
                session.append(say.user(1))
            for read in (lambda: session.expand("g1"), lambda: session.search("plan")):
                with pytest.raises(lineal.Corrupt):
                    read()
        assert (failure.value.session, failure.value.seq) == ("agent", seq) and names_its_way_out(failure.value)
        assert store.session("other", POLICY).turns(), "the other session is sound"
        if verdict is not V.PHANTOM_DELETION and edit not in ("a kind that is no text",):
            assert {t.id for t in store.salvage("agent")} >= {t.id for t in master.turns if t.seq not in named.seqs}
    assert rows_of(path) == rows, "only the mark of R6 may be set"
    assert CliRunner().invoke(cli, ["verify", str(path)]).exit_code == 3
    assert CliRunner().invoke(cli, ["export", str(path), "-s", "agent"]).exit_code == 3


def forged(path: Path) -> None:
    """A turn that nobody said: its own digests are right, what it hangs on is made up."""
    with closing(lineal.connect(path)) as store:
        entry = store.session("agent", POLICY).log.entry(next(iter(store.engine.scan("agent", HEAD - 1))))
        row = codec.seal(b"\x07" * 32, HEAD + 1, 1, Unknown(name="turn", raw=codec.encode(entry).replace(b"t21", b"t22")), b"s" * 16, 0)
        store.engine.append("agent", HEAD, [row])


def older(path: Path, master: Master) -> None:
    shutil.copy(master.path.with_name("older.db"), path)


def older_and_gone_on(path: Path, master: Master, say: Any) -> None:
    older(path, master)
    with lineal.connect(path) as store:
        store.session("agent", POLICY, brief).append(say.dialogue(9, 40))


# what was done to the end -> (how, is an anchor needed, verdict, the seq it names, the seq where opening stops)
ENDS: dict[str, tuple[Callable[[Path, Master, Any], Any], bool, V, int, int]] = {
    "two rows cut off": (lambda p, m, s: run(p, f"DELETE FROM entries WHERE id IN ({at(23)}, {at(24)})"), True, V.CUT_TAIL, HEAD, 23),
    "cut below the newest state": (
        lambda p, m, s: run(p, f"DELETE FROM entries WHERE id BETWEEN {at(17)} AND {at(99)}"),
        False,
        V.CUT_TAIL,
        COMPACTED,
        17,
    ),
    "an older copy": (lambda p, m, s: older(p, m), True, V.CUT_TAIL, HEAD, COMPACTED + 1),
    "an older copy that went on": (older_and_gone_on, True, V.CUT_TAIL, HEAD, HEAD),
    "a forged row": (lambda p, m, s: forged(p), False, V.CHAIN_BROKEN, HEAD + 1, HEAD + 1),
    "the newest again": (lambda p, m, s: run(p, copied(at(HEAD), at(HEAD + 1))), False, V.CHAIN_BROKEN, HEAD + 1, HEAD + 1),
    "another session's row": (lambda p, m, s: run(p, copied(at(22, 2), at(HEAD + 1))), False, V.CHAIN_BROKEN, HEAD + 1, HEAD + 1),
    "a row far behind": (lambda p, m, s: run(p, copied(at(HEAD), at(HEAD + 5))), False, V.PHANTOM_DELETION, HEAD + 1, HEAD + 1),
}


@pytest.mark.parametrize("case", ENDS)
def test_an_end_that_is_not_the_one_written_is_seen_at_the_next_open(path: Path, master: Master, say: Any, case: str) -> None:
    """R60: at the open, not only in an audit; with an anchor where the chain alone cannot tell."""
    spoil, by_anchor, verdict, named, stop = ENDS[case]
    spoil(path, master, say)
    anchor, before, rows = path.with_name("anchor.json") if by_anchor else None, bytes_of(path), rows_of(path)
    with lineal.connect(path, anchor, create=False) as store:
        reports = store.verify()
        assert reports.damaged and any(r.verdict is verdict and r.seqs[:1] == (named,) for r in reports), list(reports)
    assert bytes_of(path) == before
    with lineal.connect(path, anchor, create=False) as store, pytest.raises(lineal.Corrupt) as failure:
        store.session("agent", POLICY)
    assert (failure.value.session, failure.value.seq) == ("agent", stop) and names_its_way_out(failure.value)
    assert rows_of(path) == rows
    for command in ("verify", "context"):
        more = ["--anchor", str(anchor)] if anchor else []
        assert CliRunner().invoke(cli, [command, str(path), "-s", "agent", *more]).exit_code == 3


# --- a place that cannot be written ----------------------------------------------------------------------------------------


def test_a_path_below_a_file_is_unavailable(path: Path) -> None:
    with pytest.raises(lineal.Unavailable) as failure:
        lineal.connect(path / "below.db")
    assert names_its_way_out(failure.value)
    assert CliRunner().invoke(cli, ["context", str(path / "below.db")]).exit_code == 5


READS_AND_TRIES_TO_WRITE = """
import sys, lineal
session = lineal.connect(sys.argv[1]).session("agent")
head = session.status().head
assert head == 24 and len(session.turns()) == 22 and session.messages() and session.store.verify().clean
said = {"role": "user", "content": "x"}
for verb in (lambda: session.append(said), lambda: session.pin("x"), session.checkpoint, lambda: session.spill(["t16"])):
    try:
        verb()
    except lineal.Unavailable as e:
        assert "writable" in str(e), e
    else:
        raise AssertionError("written")
assert session.status().head == head
sys.argv[1:] = ["pin", sys.argv[1], "x", "-s", "agent"]
from lineal.cli import main
main()
"""


def test_a_read_only_directory_can_be_read_and_not_written(path: Path) -> None:
    """E9: all reads are whole, each write is `Unavailable`, exit code 5."""
    command = [sys.executable, "-c", READS_AND_TRIES_TO_WRITE, str(path)]
    if os.geteuid() == 0:  # root passes every permission bit, unless it lays that down first
        if shutil.which("setpriv") is None:
            pytest.skip("root without setpriv cannot lay its rights down")
        command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *command]
    before = path.read_bytes()
    path.chmod(0o444)
    path.parent.chmod(0o555)
    done = subprocess.run(command, capture_output=True, text=True)
    path.parent.chmod(0o755)
    assert done.returncode == 5 and "way out: " in done.stderr, done.stderr
    assert path.read_bytes() == before


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    made = FaultyDisk(f"faulty-{uuid.uuid4().hex}")
    yield made
    made.unregister()


VERBS: dict[str, Callable[[lineal.Session, int], Any]] = {
    "append": lambda s, n: s.append({"role": "user", "content": f"one more, {n}"}, id=f"more{n}"),
    "compact": lambda s, n: s.compact(),
    "checkpoint": lambda s, n: s.checkpoint("here"),
    "pin": lambda s, n: s.pin(f"never touch bucket {n}"),
    "effect": lambda s, n: deploy(s, key=f"deploy:{n}", args={"n": n}),
}


@pytest.mark.parametrize("nth", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk_loses_nothing(disk: FaultyDisk, tmp_path: Path, say: Any, verb: str, nth: int) -> None:
    """R30, E9: `Unavailable` while there is no room, then everything goes on; what was acknowledged is there, once."""
    store = lineal.connect(f"{tmp_path / 'agent.db'}?vfs={disk.vfs_name}")
    session = store.session("agent", POLICY, brief)
    acknowledged = [t.id for t in session.append(say.dialogue(16))]
    disk.full_at = disk.writes + nth
    failed = 0
    for n in (*range(9), 9):
        disk.full_at = disk.full_at if n < 9 else None
        before, view = session.status(), session.messages()
        try:
            done = VERBS[verb](session, n)
            acknowledged += [done.id] if isinstance(done, Turn) else []
        except lineal.Unavailable as e:
            failed += 1
            assert "free disk space" in str(e) and names_its_way_out(e) and n < 9
            assert verb not in ("append", "pin") or (session.status(), session.messages()) == (before, view)
    assert failed
    acknowledged.append(session.append(say.user(99)).id)
    assert [t.id for t in session.turns()] == acknowledged and store.verify().clean
    head = session.status().head
    store.close()
    again = lineal.connect(tmp_path / "agent.db", create=False).session("agent", POLICY, brief)
    assert [t.id for t in again.turns()] == acknowledged and again.status().head == head and again.store.verify().clean
    again.store.close()


# --- arguments that cannot be meant ------------------------------------------------------------------------------------------

POLICIES: dict[str, dict[str, Any]] = {
    "a floor above the ceiling": {"floor_turns": 50, "ceiling_items": 40},
    "a negative budget": {"target": -1},
    "no budget": {"trigger": 0},
    "a negative floor": {"floor_turns": -1},
    "a trigger above the ceiling": {"trigger": 200, "ceiling": 100},
    "a target above the trigger": {"target": 300, "trigger": 200},
    "a target at the trigger": {"target": 200, "trigger": 200},
    "a text": {"trigger": "many"},
    "a fraction": {"target": 1.5},
    "a truth": {"floor_turns": True},
    "no ceiling of bytes": {"ceiling_bytes": None},
    "no number": {"min_gain": float("nan")},
    "a gain of all": {"min_gain": 1.0},
    "a lease without end": {"lease_seconds": float("inf")},
    "no lease": {"lease_seconds": 0},
    "an unknown choice": {"on_refusal": "shrug"},
    "another unknown choice": {"on_lookalike": None},
}


@pytest.mark.parametrize("case", POLICIES)
def test_a_policy_that_cannot_be_meant_names_its_knobs(case: str) -> None:
    with pytest.raises(lineal.PolicyError) as failure:
        lineal.Policy(**POLICIES[case])
    assert failure.value.remedy and any(knob in str(failure.value) for knob in POLICIES[case])
    assert isinstance(failure.value, ValueError) and failure.value.exit_code == 2


def deploy(session: lineal.Session, **more: Any) -> None:
    with session.effect("deploy", **{"args": {"to": "prod"}, "key": "deploy:1", **more}) as effect:
        if effect.pending:
            effect.settle("v1")


def stale(session: lineal.Session) -> Turn:
    return Turn(seq=3, id="nobody", author="user", role="user", tokens=1, digest="00", message={"role": "user", "content": "x"})


def closed_plan(session: lineal.Session) -> Any:
    return session.commit_compaction(session._plan_for_test, "A summary of what was done so far, plan by plan.")  # type: ignore[attr-defined]


U, P, C = lineal.Refused, lineal.PolicyError, lineal.Conflict
ARGUMENTS: dict[str, tuple[Callable[[lineal.Session], Any], type[lineal.LinealError]]] = {
    "rollback to an unknown name": (lambda s: s.rollback("nowhere"), U),
    "rollback above the head": (lambda s: s.rollback(9_999), U),
    "rollback below the log": (lambda s: s.rollback(-1), U),
    "rollback to a foreign checkpoint": (lambda s: s.rollback(s.store.session("other", POLICY).checkpoints()[0]), U),
    "rollback to a list": (lambda s: s.rollback([]), U),  # type: ignore[arg-type]
    "rollback to a fraction": (lambda s: s.rollback(3.5), U),  # type: ignore[arg-type]
    "rollback on another head": (lambda s: s.rollback("here", expected_head=3), C),
    "fork at an unknown name": (lambda s: s.fork("f", at="nowhere"), U),
    "fork under a taken name": (lambda s: s.fork("other"), U),
    "fork without a name": (lambda s: s.fork(""), P),
    "a session without a name": (lambda s: s.store.session(""), P),
    "a session of no text": (lambda s: s.store.session(3), P),  # type: ignore[arg-type]
    "an unknown handle": (lambda s: s.expand("g77"), U),
    "an empty handle": (lambda s: s.expand(""), U),
    "an unknown turn's handle": (lambda s: s.expand("t:nobody"), U),
    "pin a stale turn": (lambda s: s.pin(stale(s)), U),
    "pin nothing": (lambda s: s.pin(""), P),
    "pin a number": (lambda s: s.pin(3), P),  # type: ignore[arg-type]
    "unpin an unknown pin": (lambda s: s.unpin("nobody"), U),
    "spill an unknown turn": (lambda s: s.spill(["nobody"]), U),
    "spill nothing": (lambda s: s.spill([]), U),
    "spill a number": (lambda s: s.spill([3]), U),  # type: ignore[list-item]
    "purge a number": (lambda s: s.purge([3]), U),  # type: ignore[list-item]
    "evict a number": (lambda s: s.note_eviction([3], "host"), U),  # type: ignore[list-item]
    "close a number": (lambda s: s.close_calls([3]), U),  # type: ignore[list-item]
    "expand a number": (lambda s: s.expand(3), U),  # type: ignore[arg-type]
    "unpin a number": (lambda s: s.unpin(3), U),  # type: ignore[arg-type]
    "resolve a number": (lambda s: s.resolve_effect(3, "happened"), U),  # type: ignore[arg-type]
    "an effect of no tool": (lambda s: s.effect("", key="k9").__enter__(), P),
    "an effect of a number": (lambda s: s.effect(3, key="k9").__enter__(), P),  # type: ignore[arg-type]
    "usage of a text": (lambda s: s.record_usage("many"), P),  # type: ignore[arg-type]
    "prune before a text": (lambda s: s.prune(before="x"), P),  # type: ignore[arg-type]
    "purge an unknown turn": (lambda s: s.purge(["nobody"]), U),
    "purge some known turns": (lambda s: s.purge(["t3", "nobody"]), U),
    "an eviction of an unknown turn": (lambda s: s.note_eviction(["nobody"], "host"), U),
    "close an unknown call": (lambda s: s.close_calls(["nobody"]), U),
    "prune below zero": (lambda s: s.prune(before=-1), P),
    "keep less than no checkpoint": (lambda s: s.prune(keep_checkpoints=-1), P),
    "usage below zero": (lambda s: s.record_usage(-1), P),
    "resolve an unknown effect": (lambda s: s.resolve_effect("nobody", "happened"), U),
    "an unknown finding": (lambda s: s.resolve_effect("deploy:1", "perhaps"), P),
    "a key for other arguments": (lambda s: deploy(s, args={"to": "test"}), lineal.KeyConflict),
    "a key for another tool": (lambda s: s.effect("destroy", {"to": "prod"}, key="deploy:1").__enter__(), lineal.KeyConflict),
    "an empty key": (lambda s: deploy(s, key=""), P),
    "a key of no text": (lambda s: deploy(s, key=3), P),
    "settle before entering": (lambda s: s.effect("deploy", key="k").settle(1), P),
    "append a text": (lambda s: s.append("hi"), P),  # type: ignore[call-overload]
    "append nothing": (lambda s: s.append({}), P),
    "append what JSON cannot hold": (lambda s: s.append({"role": "user", "content": {1, 2}}), P),
    "append a number that is none": (lambda s: s.append({"role": "user", "content": "x", "n": float("nan")}), P),
    "append a result without its call": (lambda s: s.append({"role": "tool", "tool_call_id": "c9", "content": "ok"}), U),
    "append under a taken id": (lambda s: s.append({"role": "user", "content": "another"}, id="t21"), C),
    "append under an id of no text": (lambda s: s.append({"role": "user", "content": "x"}, id=3), P),  # type: ignore[call-overload]
    "append one bad of two": (lambda s: s.append([{"role": "user", "content": "x"}, {"role": "user", "content": b"x"}]), P),
    "too few ids": (lambda s: s.append([{"role": "user", "content": "x"}] * 2, id=["a"]), P),
    "save another history": (lambda s: s.save([{"role": "user", "content": "elsewhere"}]), C),
    "messages in an unknown dialect": (lambda s: s.messages("klingon"), P),
    "commit a plan that is closed": (closed_plan, U),
    "a label of no text": (lambda s: s.checkpoint(3), P),  # type: ignore[arg-type]
    "an unknown counter": (lambda s: s.store.session("agent", counter="abacus"), P),
    "delete an unknown session": (lambda s: s.store.delete("nobody"), U),
}


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory, master: Master) -> Iterator[lineal.Session]:
    """The story with an effect, a checkpoint in each session and a plan that was aborted. No case changes it, so all share it."""
    path = Path(shutil.copy(master.path, tmp_path_factory.mktemp("busy") / "agent.db"))
    session = opened(path)
    deploy(session)
    session.checkpoint("here")
    session.store.session("other", POLICY, brief).checkpoint("there")
    plan = session.plan_compaction()
    session.abort_compaction(plan)
    session._plan_for_test = plan  # type: ignore[attr-defined]
    yield session
    session.store.close()


@pytest.mark.parametrize("case", ARGUMENTS)
def test_an_argument_that_cannot_be_meant_changes_nothing(busy: lineal.Session, case: str) -> None:
    """An error of its family with the way out; head, digest, ledger and every row stay as they were."""
    ask, family = ARGUMENTS[case]
    before, rows = busy.status(), rows_of(Path(busy.engine.status()["path"]))
    with pytest.raises(FAMILIES) as failure:
        ask(busy)
    assert isinstance(failure.value, family), repr(failure.value)
    assert names_its_way_out(failure.value), str(failure.value)
    assert busy.status() == before and rows_of(Path(busy.engine.status()["path"])) == rows


def test_after_all_of_them_the_store_is_clean_and_writable(busy: lineal.Session) -> None:
    for ask, _ in ARGUMENTS.values():
        with pytest.raises(FAMILIES):
            ask(busy)
    assert busy.store.verify().clean and busy.store.sessions() == ["agent", "other"]


COMMANDS: dict[str, tuple[list[str], int]] = {
    "refused": (["rollback", "STORE", "nowhere", "-s", "agent"], 1),
    "an unknown session": (["context", "STORE", "-s", "nobody"], 1),
    "usage": (["compact", "STORE", "-s", "agent", "--trigger", "-5"], 2),
    "which session": (["context", "STORE"], 2),
    "conflict": (["rollback", "STORE", str(HEAD), "-s", "agent", "--expected-head", "3"], 4),
    "unavailable": (["context", "STORE.absent", "-s", "agent"], 5),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_the_command_line_leaves_by_the_familys_code(path: Path, case: str) -> None:
    arguments, code = COMMANDS[case]
    before = bytes_of(path)
    done = CliRunner().invoke(cli, [a.replace("STORE", str(path)) for a in arguments])
    assert done.exit_code == code and done.stderr and "Traceback" not in done.output, done.output
    assert bytes_of(path) == before
