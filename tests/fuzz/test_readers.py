"""Files that are no transcripts, or no longer: never a crash, never a hang, every byte that was not read is named."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineal import audit, transcripts
from lineal.errors import PolicyError, Unavailable
from lineal.testing.fuzzing import Surface, as_bytes, campaign, changed, lines_of, mutated
from lineal.testing.fuzzing.samples import TRANSCRIPTS
from lineal.transcripts import Damage, Record

MIB = 1 << 20
SEEDS = st.integers(0, 2**32)


def items_of(path: Path, format: str) -> list[Any]:
    try:
        return list(transcripts.read(path, format))
    except PolicyError as refusal:
        assert refusal.remedy
        return []


def read_everywhere(path: Path) -> None:
    """By each reader: whatever comes out has its bytes where it says."""
    data = path.read_bytes()
    for format in transcripts.FORMATS:
        for item in items_of(path, format):
            if isinstance(item, Damage) and item.offset != transcripts.NOWHERE:
                assert data[item.offset : item.offset + len(item.raw)] == item.raw
            assert not isinstance(item, Record) or item.at is None or abs(item.at) < float("inf")
    try:
        audit.audit(path)
    except PolicyError as refusal:
        assert refusal.remedy


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("transcripts") / "session.jsonl"


@pytest.mark.parametrize("format", TRANSCRIPTS)
def test_the_samples_are_sound(place: Path, format: str) -> None:
    """What is changed below was whole before: each is known by itself, and most of it are records."""
    place.write_bytes(lines_of(TRANSCRIPTS[format], Random(6)).strip(b"\xef\xbb\xbf\xff\xfe\0"))
    place.write_text("\n".join(json.dumps(value) for value in TRANSCRIPTS[format]))
    assert transcripts.detect(place) == (format if format in transcripts.FORMATS else "openai_chat")
    assert sum(isinstance(item, Record) for item in transcripts.read(place)) >= 4


@settings(max_examples=80, deadline=None)
@given(st.sampled_from([*TRANSCRIPTS]), SEEDS)
def test_bytes_changed(place: Path, format: str, seed: int) -> None:
    rng = Random(seed)
    place.write_bytes(mutated(lines_of(TRANSCRIPTS[format], rng), rng))
    read_everywhere(place)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from([*TRANSCRIPTS]), SEEDS)
def test_records_changed(place: Path, format: str, seed: int) -> None:
    rng = Random(seed)
    place.write_bytes(lines_of([changed(value, rng, 0.05) for value in TRANSCRIPTS[format]], rng))
    read_everywhere(place)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(place: Path, data: bytes) -> None:
    place.write_bytes(data)
    read_everywhere(place)


# name -> bytes of a file that costs a careless reader its stack, its memory, or an afternoon
HUGE: dict[str, Callable[[], bytes]] = {
    "one line of 10 MiB": lambda: b'{"role":"user","content":"' + b"a" * 10 * MIB + b'"}',
    "one torn line of 10 MiB": lambda: b'{"role":"user","content":"' + b"a" * 10 * MIB,
    "100,000 brackets": lambda: b"[" * 100_000,
    "100,000 objects in each other": lambda: b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "30,000 objects on one line": lambda: b'{"a":1}' * 30_000,
    "30,000 records on one line": lambda: b'{"role":"user","content":"hello"}' * 30_000,
    "torn, then 900 objects in each other around half a megabyte": lambda: (
        b"x" + b'{"k":' * 900 + b"[" + b"1," * (MIB // 4) + b"1]" + b"}" * 900
    ),
    "a megabyte of NUL": lambda: bytes(MIB),
    "a megabyte of blanks": lambda: b" " * MIB,
    "100,000 empty lines": lambda: b"\n" * 100_000,
    "a megabyte of quotation marks": lambda: b'"' * MIB,
    "a megabyte of opened objects": lambda: b'{"' * (MIB // 2),
    "a number of a million digits": lambda: b'{"role":"user","content":"a","n":' + b"9" * MIB + b"}",
    "gzip": lambda: gzip.compress(b'{"role":"user","content":"hello"}\n' * 9, mtime=0),
    "UTF-16": lambda: '{"role":"user","content":"hello"}\n'.encode("utf-16") * 9,
    "a BOM and CR LF": lambda: b'\xef\xbb\xbf{"role":"user","content":"hello"}\r\n' * 9,
    "nothing": lambda: b"",
}


def read_huge(data: bytes, folder: Path) -> str:
    path = folder / "session.jsonl"
    path.write_bytes(data)
    for format in transcripts.FORMATS:
        assert items_of(path, format) or not data.strip(), "bytes that nobody names"
    try:
        return transcripts.detect(path)
    except PolicyError as refusal:
        assert "is not known" in str(refusal)
        return "unknown"


@pytest.mark.parametrize("name", HUGE)
def test_work_and_memory_are_bounded_by_the_size_of_the_file(name: str) -> None:
    """In a child with a gigabyte and far more time than it needs; who looks at each byte once for each other one needs hours."""
    tally = campaign(1, surfaces=[Surface(name, lambda rng: HUGE[name](), read_huge)], patience=120)
    assert tally.sound, tally.broken


def shell(words: str, folder: Path) -> str:
    assert transcripts.changes_state("Bash", {"command": words + "git push"}, ["Bash(git push*)"])
    assert not transcripts.changes_state("Bash", "[" * 100_000, ["Bash(git push*)"])
    return "named"


def test_a_command_of_a_million_words_is_read_once() -> None:
    """`sudo sudo sudo ...`: each word is looked at once."""
    assert campaign(1, surfaces=[Surface("shell", lambda rng: "sudo " * 1_000_000, shell)], patience=60).sound


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    """A pipe would never end, a folder has no lines, a loop leads nowhere."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("pipe", "loop", ".", "absent", "a\0b", "x" * 300, "/dev/zero", "/dev/null", "\ud800"):
        for ask in (transcripts.detect, transcripts.conversations, lambda p: list(transcripts.read(p, "codex")), audit.audit):
            with pytest.raises(Unavailable, match="cannot read|cannot audit"):
                ask(tmp_path / name)
    skipped = {a.path.name: a.skipped for a in audit.audit_paths([tmp_path])}
    assert skipped == {}, "neither has the name of a transcript"
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert "it is no file" in audit.audit_paths([tmp_path])[0].skipped


def test_a_whole_number_as_a_time_is_a_time_or_none() -> None:
    """Milliseconds, seconds, and what no float can hold."""
    from lineal.transcripts.records import epoch

    assert epoch(1_765_233_665_500) == 1_765_233_665.5 and epoch(7) == 7.0
    for odd in (10**400, -(10**400), "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "", [], None, True):
        found = epoch(odd)
        assert found is None or abs(found) < 1e12


@pytest.mark.parametrize(
    "simulations", [5, "ab", None, {"a": 1}, [5, None, "x", {"messages": 3}, {"messages": [[["role", "user"]], 5, None]}]]
)
def test_a_benchmark_file_with_odd_simulations(place: Path, simulations: Any) -> None:
    place.write_bytes(as_bytes({"info": [], "simulations": simulations}))
    items = items_of(place, "openai_chat")
    assert not [item for item in items if isinstance(item, Record)]


def test_what_was_skipped_and_what_was_read_add_up(place: Path) -> None:
    """Each whole line of a changed file is a record, a boundary, damage, or in the tally."""
    for seed in range(60):
        rng = Random(seed)
        values = [value for value in (changed(v, rng, 0.01) for v in TRANSCRIPTS["codex"]) if isinstance(value, dict)]
        place.write_bytes(b"".join(as_bytes(value) + b"\n" for value in values))
        tally: Counter[str] = Counter()
        items = list(transcripts.read(place, "codex", None, tally))
        lines = {item.line for item in items}
        assert len(lines) + sum(tally.values()) == max(1, len(values)), f"seed {seed}"
