"""Entries as bytes: exact both ways, chained, and nothing written that could not be read again."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineal import codec, entries
from lineal.engines import Row
from lineal.entries import ENTRY_TYPES, CheckpointTaken, EffectIntended, Entry, Holder, Lease, Node, Note, TurnAppended, Unknown
from lineal.errors import Corrupt, PolicyError, Unavailable

LEASE = Lease(Holder("token", "host", "boot", 7, 9), 100.5, 50.25)
TURN = TurnAppended(id="u1", author="user", role="user", message={"role": "user", "content": "hi"}, tokens=5, bytes=30)
CHARACTERS = st.one_of(st.characters(), st.characters(categories=["Cs", "Cc"]), st.sampled_from("\\u0{}[]\"'\n\u2028\u200b"))
TEXTS = st.one_of(
    st.text(CHARACTERS, max_size=30),
    st.sampled_from(
        ["\ud800", "\udc00\ud800", "\ud83d\ude00", "😀\ud83d", "a\0b", "\\u0000", "\\ud83d\\ude00", "\r\n\n", '{"kind":"turn"}']
    ),
)
NUMBERS = st.one_of(st.integers(), st.sampled_from([2**63, -(2**64), 10**400]), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def example(kind: type[Entry]) -> Entry:
    """An entry of `kind` with every field set to something."""
    samples: dict[str, Any] = {
        "message": {"role": "user", "content": "x\ud800"}, "lease": LEASE,
        "nodes": (Node("summary", 3, ((1, 4),), 4, 9, 20, 80, "text"),),
        "note": Note(5, "note", 2, 9), "past": {"session": "a", "digest": "00"}, "stand_ins": {"4": {"kind": "turn"}},
        "policy": {"trigger": 5},
        "runs": (entries.Run(1, 2, "aa", "bb"),), "stubs": (entries.Stub("u1", 10, 2, 3),), "anchors": (entries.Anchor("id", "x", 3),),
        "pins": (entries.Pin("p", text="keep"),), "pin": entries.Pin("p", turn="u1"), "calls": (entries.Call("c", "t", "aa"),),
        "results": (entries.Result("c", False),), "state": "unknown", "finding": "compensated", "outcome": {"n": [1, None]},
        "shown": ["x"], "data": {"n": [1, None]},
    }  # fmt: skip
    fields = {f.name: f for f in msgspec.structs.fields(kind)}
    plain: dict[Any, Any] = {int: 7, str: "text\ud83d\ude00", bool: True, float: 1.5, tuple[str, ...]: ("a", "b"), tuple[int, ...]: (1, 2)}
    plain |= {tuple[entries.Range, ...]: ((1, 2), (4, 4)), tuple[entries.Piece, ...]: (entries.Piece(9, ((1, 2),)),)}
    plain |= {bytes: b'(\xb5/\xfd\n{"v":1}\n'}
    if kind is Unknown:
        return Unknown(name="x.other", raw=b'{"v":9,"kind":"x.other","deep":{"a":1.50}}')
    return kind(**{name: plain[field.type] if field.type in plain else samples[name] for name, field in fields.items()})


# --- round trips ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*ENTRY_TYPES, Unknown], ids=lambda k: str(k.__struct_config__.tag))
def test_every_kind_of_entry_comes_back_as_it_went_in(kind: type[Entry]) -> None:
    """R7, R57: also with every optional field set."""
    entry = example(kind)
    back = codec.decode(codec.encode(entry))
    if kind is Unknown:
        assert (back.name, back.raw) == (entry.name, entry.raw)
    else:
        assert back == entry
        head = codec.encode(entry).partition(b"\n")[0]  # a segment's frame stands behind it
        assert json.loads(head.decode("utf-8", "surrogatepass"))["v"] == codec.FORMAT


@settings(max_examples=300, deadline=None)
@given(message=st.dictionaries(TEXTS, VALUES, max_size=5), id=TEXTS)
def test_any_message_comes_back_exactly(message: dict[str, Any], id: str) -> None:
    """R7: lone surrogates, two of them side by side, NUL, a literal backslash-u0000, big numbers, any nesting and key order."""
    codec.refuse_unless_json(message)
    entry = msgspec.structs.replace(TURN, message=message, id=id)
    back = codec.decode(codec.encode(entry))
    assert isinstance(back, TurnAppended)
    assert codec.to_json(back.message) == codec.to_json(message)
    assert back == entry and list(back.message) == list(message)


@settings(max_examples=100, deadline=None)
@given(value=VALUES)
def test_canonical_bytes_are_a_function_of_the_value(value: Any) -> None:
    data = codec.to_json(value)
    assert codec.to_json(codec.from_json(data)) == data


def test_look_alike_strings_stay_apart() -> None:
    """R7: what only looks the same has other bytes."""
    texts = ["\0", "\\u0000", "\\x00", "\ud83d\ude00", "😀", "\\ud83d\\ude00", "\n", "\\n"]
    assert len({codec.to_json(t) for t in texts}) == len(texts)
    assert [codec.from_json(codec.to_json(t)) for t in texts] == texts


# --- what is refused ---------------------------------------------------------------------------------------------------


class _Odd:
    pass


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, {"b": float("nan")}]}, "message['a'][1]['b']"),
        ({"a": float("inf")}, "message['a']"),
        ({"a": {1: "x"}}, "message['a']"),
        ({"a": (1, 2)}, "message['a']"),
        ({"a": b"bytes"}, "message['a']"),
        ({"a": {1, 2}}, "message['a']"),
        ({"a": _Odd()}, "message['a']"),
        ({"a": 10**5_000}, "message['a']"),
        ({"a": -(10**5_000)}, "message['a']"),
    ],
    ids=["nan", "infinity", "key", "tuple", "bytes", "set", "object", "huge", "minus-huge"],
)
def test_what_cannot_come_back_is_refused_with_its_place(value: Any, place: str) -> None:
    """R7: exactly, or that one record is refused."""
    with pytest.raises(PolicyError) as refusal:
        codec.refuse_unless_json(value)
    assert refusal.value.reason == "not_json"
    assert place in str(refusal.value)


def test_too_deep_a_nesting_is_refused() -> None:
    deep: Any = "bottom"
    for _ in range(201):
        deep = [deep]
    with pytest.raises(PolicyError, match="200 levels"):
        codec.refuse_unless_json(deep)
    codec.refuse_unless_json(deep[0])


def test_an_entry_that_could_not_be_read_again_is_not_written() -> None:
    """R59: a mistyped argument is the caller's mistake, never damage in the log."""
    with pytest.raises(PolicyError, match="id"):
        codec.encode(CheckpointTaken(id=5, label="x", generation=0, state_digest="", watermark=0))  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="key"):
        codec.encode(EffectIntended(key=None, tool="t", arguments="", lease=LEASE))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"null", b"7", b'"turn"', b'{"v":1}', b'{"kind":"turn"}', b"\xff\xfe", b'{"v":1,"kind":"turn"}']
)
def test_bytes_that_are_no_entry_are_corrupt(data: bytes) -> None:
    """R59: never None, never a default."""
    with pytest.raises(Corrupt) as damage:
        codec.decode(data, "agent", 12)
    assert (damage.value.session, damage.value.seq) == ("agent", 12)


@pytest.mark.parametrize("data", [b'{"v":2,"kind":"turn"}', b'{"v":1,"kind":"dream"}', b'{"v":null,"kind":"turn"}'])
def test_a_newer_format_or_kind_is_refused_not_guessed(data: bytes) -> None:
    """R57."""
    with pytest.raises(Unavailable, match="seq 12"):
        codec.decode(data, "agent", 12)


def test_a_foreign_annotation_is_carried_byte_for_byte() -> None:
    """R57: also one of a later format."""
    raw = b'{"v":9,"kind":"x.future","n":1.50,  "odd":"spacing"}'
    entry = codec.decode(raw)
    assert isinstance(entry, Unknown) and entry.name == "x.future"
    assert codec.encode(entry) == raw


# --- digests and the chain ---------------------------------------------------------------------------------------------


def test_arguments_are_equal_in_any_key_order() -> None:
    assert codec.arguments_digest({"a": 1, "b": [1, 2]}) == codec.arguments_digest({"b": [1, 2], "a": 1})
    assert codec.arguments_digest({"a": 1}) != codec.arguments_digest({"a": "1"})
    assert len(codec.arguments_digest(None)) == 32


def test_borders_are_part_of_what_is_hashed() -> None:
    assert codec.digest(b"ab", b"c") != codec.digest(b"a", b"bc") != codec.digest(b"abc")


def chain(count: int, session: str = "a") -> list[Row]:
    rows: list[Row] = []
    before = codec.seed(session)
    for n in range(1, count + 1):
        entry = msgspec.structs.replace(TURN, id=f"u{n}")
        rows.append(codec.seal(before, n, 0, entry, bytes([n]) * 16, 0))
        before = rows[-1].digest
    return rows


def relinked(row: Row, before: bytes) -> bytes:
    return codec.link(before, row.seq, row.kind, row.generation, row.size, row.unique, row.keys, row.inner)


def test_each_row_chains_to_the_one_before_with_its_header_and_content() -> None:
    first, second = chain(2)
    assert relinked(first, codec.seed("a")) == first.digest
    assert relinked(second, first.digest) == second.digest
    changed: dict[str, Any] = {
        "seq": 3, "kind": "pinned", "generation": 1, "size": second.size + 1, "unique": "turn:u3", "keys": ("u",), "inner": b"\0" * 32,
    }  # fmt: skip
    for field, value in changed.items():
        fields = {f: getattr(second, f) for f in changed} | {field: value}
        assert codec.link(first.digest, **fields) != second.digest, field


def test_a_row_of_another_session_does_not_link() -> None:
    assert codec.seed("a") != codec.seed("b")
    assert chain(1, "a")[0].inner == chain(1, "b")[0].inner
    assert chain(1, "a")[0].digest != chain(1, "b")[0].digest


def test_nothing_of_a_content_can_be_guessed_from_its_digest() -> None:
    """R54: the same words under another salt have another digest; without the salt a guess cannot be confirmed."""
    before = codec.seed("a")
    rows = [codec.seal(before, 1, 0, TURN, bytes([n]) * 16, 0) for n in range(20)]
    assert len({row.inner for row in rows}) == 20
    assert all(row.inner != codec.digest(row.body) for row in rows)


def test_a_forks_copy_keeps_content_and_chains_anew() -> None:
    """R45: with a place, and no content, where the parent's entry was pruned."""
    parent = chain(5)
    copied = codec.relink([parent[0], parent[3]], codec.seed("child"), 5)
    assert [row.seq for row in copied] == [1, 2, 3, 4, 5]
    assert [row.kind for row in copied] == ["turn", codec.PRUNED, codec.PRUNED, "turn", codec.PRUNED]
    assert (copied[3].body, copied[3].salt, copied[3].inner) == (parent[3].body, parent[3].salt, parent[3].inner)
    before = codec.seed("child")
    for row in copied:
        assert relinked(row, before) == row.digest
        before = row.digest


def test_at_most_two_lookup_keys_and_one_unique() -> None:
    """The engine port allows no more."""
    for kind in ENTRY_TYPES:
        unique, keys = codec.keys_of(example(kind), 0)
        assert len(keys) <= 2 and all(isinstance(key, str) for key in keys)
        assert unique is None or isinstance(unique, str)
    assert codec.keys_of(TURN, 0)[0] != codec.keys_of(TURN, 1)[0], "a turn left behind may be said again"
