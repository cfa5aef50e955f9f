"""Whatever is wrong, the family says so, the way out is named, and the store's bytes stay as they were."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import lineal
from lineal.transcripts import sample_path

REFUSED, USAGE, CORRUPT, CONFLICT, UNAVAILABLE = 1, 2, 3, 4, 5


def damaged(store: Path) -> Path:
    """One byte of an entry's body is another, as a bad disk would have it."""
    db = apsw.Connection(str(store))
    ((id, body),) = db.execute("SELECT id, body FROM entries ORDER BY id LIMIT 1 OFFSET 20")
    db.execute("UPDATE entries SET body = ? WHERE id = ?", (bytes([*body[:-3], body[-3] ^ 1, *body[-2:]]), id))
    db.close()
    return store


def text_file(store: Path) -> Path:
    store.write_text("a note, no store\n")
    return store


def cut_short(store: Path) -> Path:
    os.truncate(store, store.stat().st_size * 2 // 3 // 4096 * 4096)
    return store


def foreign(store: Path) -> Path:
    store.unlink()
    db = apsw.Connection(str(store))
    db.execute("CREATE TABLE songs (name TEXT)")
    db.close()
    return store


def newer(store: Path) -> Path:
    db = apsw.Connection(str(store))
    db.pragma("user_version", 99)
    db.close()
    return store


def two_sessions(store: Path) -> Path:
    with lineal.connect(store, create=False) as opened:
        opened.session("other").append({"role": "user", "content": "hi"})
    return store


def same(store: Path) -> Path:
    return store


Change = Callable[[Path], Path]
CASES: dict[str, tuple[Change, list[Any], int, str]] = {
    "no such store": (lambda s: s.with_name("absent.db"), ["context", "STORE"], UNAVAILABLE, "does not exist"),
    "a store below a file": (lambda s: s / "below.db", ["log", "STORE"], UNAVAILABLE, ""),
    "a store in /proc": (lambda s: Path("/proc/lineal.db"), ["import", sample_path(), "STORE"], UNAVAILABLE, "/proc"),
    "a directory as store": (lambda s: s.parent, ["status", "STORE"], UNAVAILABLE, "directory"),
    "a text file as store": (text_file, ["log", "STORE"], CORRUPT, "not a database"),
    "import into a text file": (text_file, ["import", sample_path(), "STORE"], CORRUPT, "not a database"),
    "a store cut short": (cut_short, ["log", "STORE"], CORRUPT, "malformed"),
    "verify a store cut short": (cut_short, ["verify", "STORE"], CORRUPT, "malformed"),
    "another program's database": (foreign, ["sessions", "STORE"], UNAVAILABLE, "another program"),
    "a newer format": (newer, ["context", "STORE"], UNAVAILABLE, "format 99"),
    "an unknown scheme": (lambda s: Path("oracle:x"), ["log", "STORE"], UNAVAILABLE, "oracle"),
    "no such transcript": (same, ["import", "nowhere.jsonl", "STORE"], UNAVAILABLE, "nowhere.jsonl"),
    "no such conversation": (same, ["import", sample_path(), "STORE", "--conversation", 3], USAGE, "conversation 3"),
    "a transcript of no format": (same, ["import", __file__, "STORE"], USAGE, "format"),
    "an unknown format": (same, ["import", sample_path(), "STORE", "--format", "papyrus"], USAGE, "papyrus"),
    "a pattern left open": (same, ["import", sample_path(), "STORE", "--changes-state", "Bash(git"], USAGE, "bracket"),
    "an unknown session": (same, ["log", "STORE", "-s", "nobody"], REFUSED, "'agent'"),
    "which session": (two_sessions, ["log", "STORE"], USAGE, "agent, other"),
    "an unknown checkpoint": (same, ["rollback", "STORE", "nowhere"], REFUSED, "'nowhere'"),
    "a seq outside": (same, ["rollback", "STORE", "99999"], REFUSED, "99999"),
    "another head": (same, ["rollback", "STORE", "before", "--expected-head", 3], CONFLICT, "expected seq 3"),
    "an unsafe rollback": (same, ["rollback", "STORE", "10"], REFUSED, "rollback"),
    "a taken name": (two_sessions, ["fork", "STORE", "other", "-s", "agent"], REFUSED, "'other' exists"),
    "a negative budget": (same, ["compact", "STORE", "--trigger", "-5"], USAGE, "-5"),
    "a floor above the ceiling": (same, ["compact", "STORE", "--floor-turns", 20_000], USAGE, "20,000"),
    "a trigger above the ceiling": (same, ["context", "STORE", "--trigger", 900, "--ceiling", 800], USAGE, "900"),
    "a budget that is no number": (same, ["compact", "STORE", "--trigger", "many"], USAGE, "many"),
    "an unknown handle": (same, ["expand", "STORE", "g77"], REFUSED, "g77"),
    "an unknown turn to spill": (same, ["spill", "STORE", "nobody"], REFUSED, "nobody"),
    "an unknown turn to pin": (same, ["pin", "STORE", "nobody", "--turn"], REFUSED, "nobody"),
    "an unknown pin": (same, ["unpin", "STORE", "nobody"], REFUSED, "nobody"),
    "an unknown turn to purge": (same, ["purge", "STORE", "nobody", "--yes"], REFUSED, "nobody"),
    "an unknown effect": (same, ["effect", "resolve", "STORE", "nothing", "happened"], REFUSED, "nothing"),
    "an unknown finding": (same, ["effect", "resolve", "STORE", "k", "perhaps"], USAGE, "perhaps"),
    "an unknown kind": (same, ["log", "STORE", "--kind", "dream"], USAGE, "dream"),
    "an unknown rule": (same, ["rules", "golden"], USAGE, "golden"),
    "a dialect without raw": (same, ["context", "STORE", "--dialect", "openai"], USAGE, "--raw"),
    "salvage of a view": (same, ["export", "STORE", "--what", "view", "--salvage"], USAGE, "--salvage"),
    "an output that exists": (same, ["export", "STORE", "--output", __file__], REFUSED, "exists"),
    "an output below a file": (same, ["export", "STORE", "--output", f"{__file__}/x"], UNAVAILABLE, "x"),
    "nothing to search for": (same, ["search", "STORE"], USAGE, "QUERY"),
    "an unknown command": (same, ["dream"], USAGE, "dream"),
    "an unknown option": (same, ["log", "STORE", "--dream"], USAGE, "--dream"),
    "a demo over somebody's store": (same, ["demo", "--store", "STORE"], REFUSED, "not a store that the demo made"),
    "a session behind its anchor": (same, ["context", "STORE", "--anchor", "ANCHOR"], CORRUPT, "cut tail"),
    "a log behind its anchor": (same, ["log", "STORE", "--anchor", "ANCHOR"], CORRUPT, "cut tail"),
}


def asked(store: Path, arguments: list[Any]) -> list[Any]:
    anchor = store.with_name("anchor.json")
    if "ANCHOR" in arguments:
        anchor.write_text(json.dumps({"agent": [99_999, "00", 0]}))
    return [{"STORE": store, "ANCHOR": anchor}.get(a, a) if isinstance(a, str) else a for a in arguments]


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_leaves_by_its_family_and_changes_nothing(run: Any, store: Path, case: str) -> None:
    """Exit codes 1 to 5; what is wrong on stderr, with the way out where a rule or the engine said no."""
    change, arguments, code, words = CASES[case]
    target = change(store)
    words_of = asked(target, arguments)
    before = contents(store.parent)
    result = run(*words_of)
    assert (result.exit_code, words in result.stderr) == (code, True), result.output
    if code:
        assert result.stderr and (code == USAGE or "way out: " in result.stderr) and "Traceback" not in result.output
    assert contents(store.parent) == before


@pytest.mark.parametrize("case", [case for case, (_, _, code, _) in CASES.items() if code])
def test_with_json_the_error_is_the_document(run: Any, store: Path, case: str) -> None:
    """{"error": ...} on stdout with the fields of its family, and the same exit code."""
    change, arguments, code, words = CASES[case]
    result = run(*asked(change(store), arguments), "--json")
    error = json.loads(result.stdout)["error"]
    assert result.exit_code == code == error["exit_code"] and words in json.dumps(error, ensure_ascii=False)
    fields = {REFUSED: "reason", CORRUPT: "expected", CONFLICT: "found_seq", UNAVAILABLE: "cause"}
    assert fields.get(code, "message") in error and result.stderr == ""


def test_a_damaged_session_is_shown_up_to_the_damage(run: Any, store: Path) -> None:
    """R5: `log` prints what is whole, then says what is not; the other commands say it at once."""
    whole = run("log", store).stdout.splitlines()
    damaged(store)
    shown = run("log", store)
    lines = shown.stdout.splitlines()
    assert shown.exit_code == CORRUPT and "altered" in shown.stderr and 0 < len(lines) < len(whole) and lines == whole[: len(lines)]
    document = json.loads(run("log", store, "--json").stdout)
    assert [e["seq"] for e in document["entries"]] == list(range(1, document["error"]["seq"]))
    assert document["error"]["family"] == "corrupt"


def test_verify_finds_what_a_session_does_not_read(run: Any, store: Path) -> None:
    """R6, R61: damage far below the newest state is found, latched, and named by its seq."""
    damaged(store)
    report = run("verify", store, "--json")
    document = json.loads(report.stdout)
    assert report.exit_code == CORRUPT and document["damaged"] and not document["clean"]
    assert document["reports"][0]["verdict"] == "ALTERED" and document["reports"][0]["seqs"]
    assert run("pin", store, "something").exit_code == REFUSED
    assert "latch" in run("doctor", store).stdout and run("doctor", store).exit_code == UNAVAILABLE
    assert "read-only" in run("status", store).stdout


def test_salvage_gives_out_all_that_still_verifies(run: Any, store: Path) -> None:
    """R59: what can be vouched for can be had, and it is one turn less."""
    whole = run("export", store).stdout.splitlines()
    damaged(store)
    assert run("export", store).exit_code == CORRUPT
    saved = run("export", store, "--salvage")
    lines = saved.stdout.splitlines()
    assert saved.exit_code == 0 and set(lines) < set(whole) and len(lines) == len(whole) - 1


def test_a_healed_session_is_unlatched_by_verify(run: Any, store: Path, tmp_path: Path) -> None:
    """R6: the mark is lifted only once nothing is wrong."""
    with lineal.connect(store, create=False) as opened:
        opened.session("agent").log.latch("ALTERED: row 3")
    assert run("pin", store, "x").exit_code == REFUSED
    assert "UNLATCHED" in run("verify", store).stdout
    assert run("pin", store, "x").exit_code == 0


def test_the_sessions_of_a_damaged_store_are_still_listed(run: Any, store: Path) -> None:
    two_sessions(store)
    db = apsw.Connection(str(store))
    db.execute("DELETE FROM states")
    db.close()
    damaged(store)
    listed = run("sessions", store)
    assert listed.exit_code == CORRUPT and "agent" in listed.stdout and "corrupt: " in listed.stdout and "other" in listed.stdout


def test_a_store_that_cannot_be_written_can_be_read(run: Any, store: Path) -> None:
    """A copy of a store is enough to look at it."""
    copy = Path(shutil.copy(store, store.with_name("copy.db")))
    assert run("context", copy).stdout == run("context", store).stdout


def test_an_empty_store_says_what_to_do(run: Any, store_path: Path) -> None:
    lineal.connect(store_path).close()
    assert run("sessions", store_path).stdout == "The store holds no session.\n"
    result = run("log", store_path)
    assert result.exit_code == USAGE and "lineal import" in result.stderr
    assert run("verify", store_path).exit_code == 0
