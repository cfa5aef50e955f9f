"""How answers leave: safe lines, aligned tables, one document, and each error by its family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from lineal.cli.report import FAMILIES, Out, as_json, error_fields, leave_with, printable, written
from lineal.errors import Conflict, Corrupt, KeyConflict, LinealError, PolicyError, Refused, Unavailable, Verdict

VERDICT = Verdict("recovery", "not_newer", message="checkpoint 3, compaction 5.", remedy="replay", facts={"committed_at": 5})
ERRORS: list[tuple[LinealError, int, dict[str, Any]]] = [
    (Refused(VERDICT), 1, {"rule": "recovery", "reason": "not_newer", "facts": {"committed_at": 5}, "remedy": "replay"}),
    (PolicyError(VERDICT), 2, {"rule": "recovery", "message": "checkpoint 3, compaction 5."}),
    (Corrupt("s", 7, "40 bytes", "12 bytes", "truncated"), 3, {"session": "s", "seq": 7, "expected": "40 bytes", "found": "12 bytes"}),
    (Conflict("s", 4, 6), 4, {"expected_seq": 4, "found_seq": 6}),
    (KeyConflict(VERDICT, "s", 4, 6), 4, {"rule": "recovery", "found_seq": 6}),
    (Unavailable("store x", OSError("disk full"), "free space"), 5, {"cause": "disk full", "remedy": "free space"}),
]


@pytest.mark.parametrize(("error", "code", "fields"), ERRORS, ids=lambda value: type(value).__name__)
def test_each_family_leaves_with_its_code_and_its_fields(
    error: LinealError, code: int, fields: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert error_fields(error)["family"] == FAMILIES[code] and fields.items() <= error_fields(error).items()
    assert leave_with(error, as_json_document=True) == code
    document = json.loads(capsys.readouterr().out)["error"]
    assert fields.items() <= document.items() and document["exit_code"] == code
    assert leave_with(error, as_json_document=False) == code
    told = capsys.readouterr()
    assert told.out == "" and told.err.startswith(FAMILIES[code]) and "\nway out: " in told.err and "Way out" not in told.err


@pytest.mark.parametrize(("error", "code"), [(click.UsageError("no such thing"), 2), (click.Abort(), 1)])
def test_what_click_says_leaves_the_same_way(error: Any, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert leave_with(error, as_json_document=True) == code
    assert json.loads(capsys.readouterr().out)["error"]["exit_code"] == code
    assert leave_with(error, as_json_document=False) == code
    assert capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("naïve 日本 ✓", "naïve 日本 ✓"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("tab\tnew\nline\r", "tab\\tnew\\nline\\r"),
        ("\u202ereversed\u2066", "\\u202ereversed\\u2066"),
        ("\x9b2J \ud800 \u2028", "\\x9b2J \\ud800 \\u2028"),
    ],
)
def test_a_line_is_shown_and_never_obeyed(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_a_table_is_aligned_and_numbers_stand_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    Out(False).table(("seq", "what"), [(1, "a"), (12_345, "b\nc")])
    assert capsys.readouterr().out == "   seq  what\n     1  a\n12,345  b\\nc\n"
    Out(False).table(("seq",), [], "nothing")
    Out(True).table(("seq",), [(1,)])
    assert capsys.readouterr().out == "nothing\n"


def test_json_holds_what_lineal_holds() -> None:
    """Verdicts, errors, structs, tuples and lone surrogates."""
    text = as_json({"verdict": VERDICT, "error": Conflict("s", 1, 2), "odd": "\ud800", "path": Path("x"), "set": {2, 1}})
    text.encode()
    document = json.loads(text)
    assert document["verdict"]["facts"] == {"committed_at": 5} and document["error"]["found_seq"] == 2
    assert document["odd"] == "\ud800" and document["path"] == "x" and document["set"] == [1, 2]


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "out"
    written(target, b"one", replace=False)
    with pytest.raises(Refused, match="exists"):
        written(target, b"two", replace=False)
    written(target, b"two", replace=True)
    with pytest.raises(Unavailable):
        written(target / "below", b"x", replace=True)
    assert target.read_bytes() == b"two" and [p.name for p in tmp_path.iterdir()] == ["out"]
