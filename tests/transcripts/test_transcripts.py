"""The port: which format a file has, what is refused, and the session that is shipped."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lineal.errors import PolicyError, Unavailable
from lineal.messages import parse, result_text
from lineal.transcripts import FORMATS, Boundary, Damage, Record, changes_state, conversations, detect, outcome, read, read_all, sample_path

FIRST_LINES: dict[str, list[dict[str, Any]]] = {
    "claude_code": [
        {"type": "summary", "summary": "A title", "leafUuid": "x"},
        {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": "s", "message": {"role": "user", "content": "hi"}},
    ],
    "codex": [{"timestamp": "2026-06-25T02:07:10Z", "type": "session_meta", "payload": {"id": "s"}}],
    "pi": [{"type": "session", "id": "s", "cwd": "/", "timestamp": "2025-12-09T00:53:29Z"}],
    "openai_chat": [{"role": "user", "content": "hi"}],
}


def write(path: Path, data: bytes) -> Path:
    file = path / "log.jsonl"
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("format", FIRST_LINES)
@pytest.mark.parametrize("before", [b"", b"\n", b'{"torn": "li\n', b"\0\0\0\0\n"])
def test_a_format_is_known_by_its_first_whole_lines(tmp_path: Path, format: str, before: bytes) -> None:
    lines = "".join(json.dumps(line) + "\n" for line in FIRST_LINES[format])
    assert detect(write(tmp_path, before + lines.encode())) == format
    assert set(FIRST_LINES) == set(FORMATS)


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b"", "empty file"),
        (b"\x7fELF\x02\x01\x01\0\0\xff\xfe\n\x90\x90", "not UTF-8"),
        (b"# Notes\n\nSome prose.\n", "torn line"),
        (b'{"sessionId": "s", "history": []}\n', "the keys history, sessionId"),
        (b"[]", "not an object, but list"),
    ],
)
def test_an_unknown_format_is_refused_with_what_was_seen_and_what_is_known(tmp_path: Path, data: bytes, seen: str) -> None:
    file = write(tmp_path, data)
    with pytest.raises(PolicyError) as refused:
        read(file)
    assert seen in str(refused.value) and str(file) in str(refused.value)
    assert all(name in str(refused.value) for name in FORMATS)


@pytest.mark.parametrize("format", [None, *FORMATS])
@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_missing_file_or_a_directory_is_unavailable_before_anything_is_read(tmp_path: Path, name: str, format: str | None) -> None:
    with pytest.raises(Unavailable, match="cannot read"):
        read(tmp_path / name, format)


@pytest.mark.parametrize("format", FORMATS)
def test_all_conversations_of_a_file_from_one_reading_are_what_each_gives_alone(tmp_path: Path, format: str) -> None:
    file = write(tmp_path, b"".join(json.dumps(line).encode() + b"\n" for line in FIRST_LINES[format]) + b'{"torn')
    assert [(name, list(items)) for name, items in read_all(file)] == [(conversations(file)[0], list(read(file)))]


def test_each_conversation_of_a_benchmark_file_comes_out_under_its_name_and_what_is_torn_with_the_first(tmp_path: Path) -> None:
    chats = [{"task_id": n, "trial": 0, "traj": [{"role": "user", "content": f"hi {n}"}]} for n in range(2)]
    file = write(tmp_path, json.dumps(chats).encode()[:-1] + b', {"task_id"')
    found = [(name, list(items)) for name, items in read_all(file)]
    assert [name for name, _ in found] == conversations(file) == ["task 0 trial 0", "task 1 trial 0"]
    assert [[type(item) for item in items] for _, items in found] == [[Damage, Record], [Record]]
    assert found[0][1] == list(read(file, conversation=0))


def test_a_format_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no transcript format 'gopher'"):
        read(write(tmp_path, b"{}"), "gopher")


@pytest.mark.parametrize("format", ["claude_code", "codex", "pi"])
def test_a_file_of_one_conversation_has_no_second(tmp_path: Path, format: str) -> None:
    file = write(tmp_path, json.dumps(FIRST_LINES[format][0]).encode())
    assert conversations(file) == ["log"]
    with pytest.raises(PolicyError, match="conversation 1"):
        read(file, conversation=1)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("data", [b"", b"\0" * 8192, b"\xff\xfe\x00\x01\n\x80\n", b'{"type": "user", "mess', b"[[[[[[", b'"words"\n'])
def test_a_ruined_file_is_damage_in_every_format(tmp_path: Path, data: bytes, format: str) -> None:
    """R5: never silence, never a crash."""
    items = list(read(write(tmp_path, data), format))
    assert items and all(isinstance(i, Damage) for i in items)


REAL = {
    "claude_code": "claude_code/8b418ea5-895d-4ad5-abe8-4489d36e454f.jsonl",
    "codex": "codex/rollout-2026-06-26T22-06-39-019f05f8-7f53-7492-a941-83098e16765c.jsonl",
    "pi": "pi/session-torn-line.jsonl",
}


@pytest.mark.data
@pytest.mark.parametrize(("format", "name"), REAL.items())
def test_a_real_file_that_was_damaged_in_four_ways_loses_only_what_was_hit(data_dir: Path, tmp_path: Path, format: str, name: str) -> None:
    """R5: a line with NULs in it, a line that is not UTF-8, two lines glued, and a tail cut in the middle of a record."""
    lines = (data_dir / name).read_bytes().rstrip(b"\n").split(b"\n")
    whole = list(read(data_dir / name))
    hit = list(lines)
    hit[20] = hit[20][: len(hit[20]) // 2] + b"\0" * 512
    hit[40] = hit[40][:-40] + b"\xff\xfe" + hit[40][-40:]
    hit[60:62] = [hit[60] + hit[61]]
    hit[-1] = hit[-1][: len(hit[-1]) // 2]
    damaged = list(read(write(tmp_path, b"\n".join(hit)), format))
    before = {(d.line, d.why) for d in whole if isinstance(d, Damage)}
    whys = {d.line: d.why for d in damaged if isinstance(d, Damage) and (d.line + 1, d.why) not in before and not d.why.startswith("lost")}
    assert set(whys) == {21, 41, 61, len(hit)}
    assert (whys[41], whys[61]) == ("not UTF-8", "two records on one line")
    assert whys[21].startswith("torn line") and whys[len(hit)].startswith("torn tail")
    left = sum(len(str(i.message)) for i in damaged if isinstance(i, Record))
    lost = sum(len(lines[n]) for n in (20, 40, len(lines) - 1))
    assert sum(len(str(i.message)) for i in whole if isinstance(i, Record)) - left <= lost


# --- the shipped session ---------------------------------------------------------------------------------------------

CHANGES = ("send_email", "deploy", "rotate_key", "git_commit", "create_ticket")


def test_the_shipped_session_is_whole() -> None:
    items = list(read(sample_path()))
    assert detect(sample_path()) == "openai_chat"
    assert all(isinstance(i, Record) for i in items) and not any(isinstance(i, Boundary) for i in items)
    records = [i for i in items if isinstance(i, Record)]
    parsed = [parse(r.message, r.author) for r in records]
    calls = [c for p in parsed for c in p.calls]
    assert len({c.id for c in calls}) == len(calls) == sum(len(p.results) for p in parsed)
    assert (records[0].author, records[1].author) == ("system", "user")
    assert all(not (a.author == b.author == "assistant") for a, b in zip(records, records[1:], strict=False))


def test_the_shipped_session_has_what_the_rules_are_about() -> None:
    """One clean refusal, a second try of it, a repeat on purpose, exact values from the user, and one large result (R47, R50)."""
    records = [i for i in read(sample_path()) if isinstance(i, Record)]
    tools: dict[str, Any] = {}
    ended: Counter[tuple[str, str]] = Counter()
    settled: Counter[tuple[str, str]] = Counter()
    largest = 0
    for record in records:
        parsed = parse(record.message, record.author)
        tools |= {c.id: c for c in parsed.calls if changes_state(c.tool, {}, CHANGES)}
        largest = max([largest, *(len(result_text(record.message, r.call)) for r in parsed.results)])
        for call in (tools[r.call] for r in parsed.results if r.call in tools):
            ended[call.tool, outcome(record.message, call.id)] += 1
            settled[call.tool, call.arguments] += outcome(record.message, call.id) == "done"
    assert ended == {
        ("send_email", "done"): 3,
        ("deploy", "done"): 3,
        ("deploy", "no_effect"): 1,
        ("rotate_key", "done"): 1,
        ("git_commit", "done"): 2,
        ("create_ticket", "done"): 1,
    }
    assert sorted(settled.values()) == [1] * 8 + [2], "the same mail went out twice, on purpose"
    assert 5_000 < largest < 8_000
    brief = records[1].message["content"]
    assert all(
        value in brief for value in ("9f3c1e7ab2d84560c7e19b0d4f6a8c2e5d7b9013", "8443", "17:30 UTC", "/srv/tidewatch/releases/4.2.0")
    )
    assert "Never touch the staging bucket" in brief
