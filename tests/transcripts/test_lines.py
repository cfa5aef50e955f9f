"""A damaged log gives every whole record that is left, and names all that is not: never silence, never a crash (R5)."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lineal.errors import Unavailable
from lineal.transcripts import lines
from lineal.transcripts.lines import Found, scan
from lineal.transcripts.records import Damage

ONE = {"seq": 1, "text": "low water at 21:51"}
TWO = {"seq": 2, "text": "nested", "inner": {"n": 9, "text": "not a record"}}


def line(value: Any) -> bytes:
    return json.dumps(value).encode()


def is_record(value: dict[str, Any]) -> bool:
    return "seq" in value


def scanned(path: Path, data: bytes) -> tuple[list[dict[str, Any]], list[Damage]]:
    file = path / "log.jsonl"
    file.write_bytes(data)
    items = list(scan(file, is_record, Counter()))
    for damage in (d for d in items if isinstance(d, Damage)):
        assert data[damage.offset : damage.offset + len(damage.raw)] == damage.raw, "damage is quarantined byte-exact, where it stands"
    return [f.value for f in items if isinstance(f, Found)], [d for d in items if isinstance(d, Damage)]


def test_whole_lines_come_out_in_order_without_a_word(tmp_path: Path) -> None:
    assert scanned(tmp_path, line(ONE) + b"\n" + line(TWO) + b"\n") == ([ONE, TWO], [])


def test_a_missing_newline_at_the_end_is_no_damage(tmp_path: Path) -> None:
    """211 of 290 real sessions end so: they were copied while the host wrote."""
    assert scanned(tmp_path, line(ONE) + b"\n" + line(TWO)) == ([ONE, TWO], [])


def test_blank_lines_and_carriage_returns_are_counted_not_damage(tmp_path: Path) -> None:
    file = tmp_path / "log.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + line(ONE) + b"\r\n\r\n" + line(TWO) + b"\r\n")
    tally: Counter[str] = Counter()
    assert [f.value for f in scan(file, is_record, tally) if isinstance(f, Found)] == [ONE, TWO]
    assert tally == {"blank line": 1}


@pytest.mark.parametrize("keep", range(1, len(line(TWO))))
def test_a_tail_cut_at_any_byte_is_a_torn_tail_and_the_rest_stays(tmp_path: Path, keep: int) -> None:
    records, damage = scanned(tmp_path, line(ONE) + b"\n" + line(TWO)[:keep])
    assert records == [ONE]
    assert [(d.line, d.raw) for d in damage] == [(2, line(TWO)[:keep])]
    assert damage[0].why.startswith("torn tail")


def test_two_whole_records_on_one_line_are_both_recovered_and_reported(tmp_path: Path) -> None:
    records, damage = scanned(tmp_path, line(ONE) + line(TWO) + b"\n")
    assert records == [ONE, TWO]
    assert [(d.line, d.why) for d in damage] == [(1, "two records on one line")]


@pytest.mark.parametrize("keep", range(1, len(line(TWO))))
def test_a_whole_record_behind_a_torn_one_is_recovered_and_only_the_torn_bytes_are_quarantined(tmp_path: Path, keep: int) -> None:
    """Also where the torn part holds an object that is whole in itself: it never passes for a record."""
    torn = line(TWO)[:keep]
    records, damage = scanned(tmp_path, torn + line(ONE) + b"\n" + line(TWO) + b"\n")
    assert records == [ONE, TWO]
    assert [(d.line, d.raw) for d in damage] == [(1, torn)]


def test_torn_bytes_behind_a_whole_record_are_quarantined(tmp_path: Path) -> None:
    records, damage = scanned(tmp_path, line(ONE) + b'{"seq": 2, "te\n' + line(TWO))
    assert records == [ONE, TWO]
    assert [(d.line, d.raw) for d in damage] == [(1, b'{"seq": 2, "te')]


@pytest.mark.parametrize("data", [b"\0" * 4096 + line(ONE), line(ONE) + b"\0" * 4096, line(ONE) + b"\n" + b"\0" * 4096 + b"\n"])
def test_a_run_of_nul_bytes_is_named_and_hides_nothing(tmp_path: Path, data: bytes) -> None:
    """A file system that lost power gives blocks of NULs."""
    records, damage = scanned(tmp_path, data)
    assert records == [ONE]
    assert [d.why for d in damage] == ["NUL run of 4096 bytes"]


def test_a_line_that_is_not_utf8_is_quarantined_and_the_next_is_read(tmp_path: Path) -> None:
    bad = line(ONE).replace(b"low", b"l\xffw")
    records, damage = scanned(tmp_path, bad + b"\n" + line(TWO) + b"\n")
    assert records == [TWO]
    assert [(d.why, d.raw) for d in damage] == [("not UTF-8", bad)]


def test_a_record_torn_inside_a_character_does_not_take_the_next_one_with_it(tmp_path: Path) -> None:
    torn = '{"seq": 3, "text": "Höhe'.encode()[:-3]
    records, damage = scanned(tmp_path, torn + line(ONE) + b"\n")
    assert records == [ONE]
    assert [d.raw for d in damage] == [torn]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[1, 2]", "not an object, but list"),
        (b"42", "not an object, but int"),
        (b'{"other": 1}', "no record of this format: an object with the keys other"),
        (b'{"seq": NaN}', "torn line: NaN is not JSON"),
        (b"[" * 100_000, "torn line: nested too deeply"),
        (b"plain words", "torn line: Expecting value at character 0"),
    ],
)
def test_what_is_no_record_says_why(tmp_path: Path, text: bytes, why: str) -> None:
    records, damage = scanned(tmp_path, text + b"\n" + line(ONE) + b"\n")
    assert records == [ONE]
    assert [d.why for d in damage] == [why]


def test_an_empty_file_is_reported(tmp_path: Path) -> None:
    assert [d.why for d in scanned(tmp_path, b"")[1]] == ["empty file"]


def test_a_line_longer_than_the_limit_is_named_with_its_size_and_does_not_fill_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 64)
    monkeypatch.setattr(lines, "KEPT_OF_LONG_LINE", 16)
    long = line({"seq": 7, "text": "x" * 500})
    records, damage = scanned(tmp_path, line(ONE) + b"\n" + long + b"\n" + line(ONE) + b"\n")
    assert records == [ONE, ONE]
    assert [(d.line, len(d.raw)) for d in damage] == [(2, 16)]
    assert str(len(long) + 1) in damage[0].why


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_missing_file_or_a_directory_is_unavailable(tmp_path: Path, name: str) -> None:
    with pytest.raises(Unavailable, match="cannot read the transcript"):
        list(scan(tmp_path / name, is_record, Counter()))
