"""Bytes that are no entry, no state, no anchor: refused by name, in bounded time and memory (R57, R59)."""

from __future__ import annotations

import zlib
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineal import codec
from lineal.anchor import AnchorFile
from lineal.entries import Unknown
from lineal.errors import Corrupt, Unavailable
from lineal.session.states import MOST_STATE, unpack
from lineal.testing.fuzzing import as_bytes, changed, mutated, nested
from lineal.testing.fuzzing.samples import ENTRIES

SAMPLES = st.sampled_from(ENTRIES)
SEEDS = st.integers(0, 2**32)


def read(data: bytes) -> str:
    """`refused`, or what was read: then it can be written and read again as the same."""
    try:
        entry = codec.decode(data, "agent", 7)
    except (Corrupt, Unavailable) as refusal:
        assert "seq 7" in str(refusal) and "Way out: " in str(refusal)
        return "refused"
    assert codec.encode(entry) == data if isinstance(entry, Unknown) else codec.decode(codec.encode(entry)) == entry
    return codec.kind_of(entry)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes(data: bytes) -> None:
    read(data)


@settings(max_examples=150, deadline=None)
@given(SAMPLES, SEEDS)
def test_bytes_of_an_entry_changed(entry: Any, seed: int) -> None:
    read(mutated(codec.encode(entry), Random(seed)))


@settings(max_examples=150, deadline=None)
@given(SAMPLES, SEEDS)
def test_fields_of_an_entry_changed(entry: Any, seed: int) -> None:
    read(as_bytes(changed(codec.from_json(codec.head(codec.encode(entry))), Random(seed), 0.1)))


@settings(max_examples=100, deadline=None)
@given(SAMPLES, st.integers(0, 400))
def test_an_entry_cut_short_is_none(entry: Any, kept: int) -> None:
    """Of a segment this holds for its head: how long its frame is, only the row's digest knows."""
    body = codec.encode(entry)
    assert kept >= len(codec.head(body)) or read(body[:kept]) == "refused"


@pytest.mark.parametrize("depth", [100, 250, 251, 300, 990, 100_000])
def test_nesting(depth: int) -> None:
    """Deeper than an entry can be is refused, at whatever depth of the caller's own stack."""
    for mark in (b"[]", b'{"a":}'):
        body = b'{"v":1,"kind":"x.deep","a":' + mark[:-1] * depth + (b"1" if len(mark) > 2 else b"") + mark[-1:] * depth + b"}"
        assert read(body) == ("x.deep" if depth < 250 else "refused")


def test_claims_of_size_are_not_believed() -> None:
    """A state of a few kilobytes that unpacks to gigabytes is passed over before it fills the memory."""
    body = b"[" * (MOST_STATE + 1)
    assert unpack(codec.digest(body) + zlib.compress(body, 1)) is None


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_as_a_state(data: bytes) -> None:
    assert unpack(data) is None and unpack(codec.digest(data) + zlib.compress(data)) is None


def test_a_state_that_is_nested_is_none() -> None:
    for depth in (900, 1_500, 100_000):
        body = as_bytes(nested(depth, Random(1)))
        assert unpack(codec.digest(body) + zlib.compress(body)) is None


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60) | SEEDS.map(lambda seed: as_bytes(changed({"agent": [3, "ab", 0]}, Random(seed), 0.3))))
def test_any_bytes_as_an_anchor(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """R60: what is taken is exactly what `move` writes."""
    path = tmp_path_factory.getbasetemp() / "anchor.json"
    path.write_bytes(data)
    try:
        heads = AnchorFile(path).read()
    except Corrupt as refusal:
        assert str(path) in str(refusal)
        return
    assert all([type(part) for part in head] == [int, str, int] and head[0] >= 0 for head in heads.values())


def test_what_an_anchor_cannot_be(tmp_path: Path) -> None:
    """A pipe must not hang, a folder must not pass for one that is absent."""
    import os

    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "huge").touch()
    os.truncate(tmp_path / "huge", 1 << 40)
    for name in ("pipe", "loop", ".", "a\0b", "x" * 300, "/dev/zero"):
        with pytest.raises(Unavailable, match="anchor"):
            AnchorFile(tmp_path / name).read()
    with pytest.raises(Corrupt, match="larger than"):
        AnchorFile(tmp_path / "huge").read()
