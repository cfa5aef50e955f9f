"""What fuzzing found, each with the smallest input that showed it, told without any chance. None is ever removed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest

import lineal
from lineal import codec
from lineal.engines import Row
from lineal.engines.memory import MemoryEngine
from lineal.entries import EffectSettled, Forked, Pinned, PruneBegun, PurgeBegun, RolledBack, Run, Unknown
from lineal.errors import Corrupt, PolicyError, Refused
from lineal.session import Session
from lineal.session.log import Log
from lineal.store import Store
from lineal.testing.fuzzing import nested
from lineal.testing.stories import POLICY, answer, summarize, user

DEEP, LONG = nested(1_500, Random(1)), 10**5_000  # Python can write neither of them out


def session_on(engine: MemoryEngine, name: str = "agent") -> Session:
    return Store(engine).session(name, POLICY, summarize)


def talked() -> tuple[MemoryEngine, Session]:
    engine = MemoryEngine()
    session = session_on(engine)
    session.append([user(1), answer(1), user(2)], id=["u1", "a1", "u2"])
    return engine, session


def behind(engine: MemoryEngine, kind: str, body: bytes) -> None:
    """One more row, under digests that are right: what a faulty writer could have written."""
    lineage = session_on(engine).log.lineage
    row = codec.seal(bytes.fromhex(lineage.digest), lineage.head + 1, lineage.generation, Unknown(name=kind, raw=body), b"s" * 16, 0)
    engine.append("agent", lineage.head, [row])


# --- entries -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b'{"v":1,"kind":[]}',  # was a TypeError: a list cannot be looked up
        b'{"v":1,"kind":{"a":1}}',
        b'{"v":1,"kind":"usage","at":NaN,"input_tokens":1,"output_tokens":1,"counted":1}',  # was read, and could not be written again
        b'{"v":1,"kind":"usage","at":1e999,"input_tokens":1,"output_tokens":1,"counted":1}',
        b'{"v":1,"kind":"effect_resolved","key":"k","finding":"\xed\xa0\x80"}',  # was a UnicodeEncodeError
        b'{"v":1,"kind":"turn","id":"a","author":"user","role":"user","message":5,"tokens":1,"bytes":1}',  # crashed what shows it
        b'{"v":1,"kind":"x.deep","a":' + b"[" * 900 + b"]" * 900 + b"}",  # was read, and crashed whoever looked at it further down
    ],
    ids=["kind is a list", "kind is an object", "NaN", "infinity", "no UTF-8 in a choice", "no message", "nested"],
)
def test_bytes_that_are_no_entry(body: bytes) -> None:
    with pytest.raises(Corrupt, match="seq 7"):
        codec.decode(body, "agent", 7)


@pytest.mark.parametrize("version", [b"true", b"1.0", b'"1"'])
def test_a_version_is_a_whole_number(version: bytes) -> None:
    """`True == 1` in Python, and `true` is no format."""
    with pytest.raises(lineal.Unavailable, match="upgrade"):
        codec.decode(b'{"v":' + version + b',"kind":"unpinned","id":"x"}')


NOTE = lineal.entries.Note(1, "a note in the middle", 1, 1)
MISFITS = {
    "a note out of order": Forked(parent="p", parent_digest="00", fork_at=1, note=NOTE),  # was an unnamed error at open
    "a past that is none": RolledBack(target=1, past={"session": 5, "digest": []}),  # was a ValidationError at open
}


@pytest.mark.parametrize("name", MISFITS)
def test_an_entry_that_cannot_follow_is_damage(name: str) -> None:
    """R59: opening and verify both say so, at its seq; nobody crashes on another one's entry."""
    engine, _ = talked()
    entry = MISFITS[name]
    behind(engine, codec.kind_of(entry), codec.encode(entry))
    with pytest.raises(Corrupt, match="misfit.*seq 4"):
        session_on(engine)
    assert Store(engine).verify().damaged


def test_a_row_of_one_kind_with_an_entry_of_another_is_damage() -> None:
    """The column decides what a scan by kind finds, the body what the fold does: they must be one."""
    engine, _ = talked()
    behind(engine, "unpinned", codec.encode(Pinned(pin=lineal.entries.Pin("p", text="keep"))))
    with pytest.raises(Corrupt, match="of kind unpinned, found one of kind pinned"):
        session_on(engine)


PRUNE = PruneBegun(runs=(Run(9, 9, "00", "00"),), entries=1)
PURGE = PurgeBegun(turns=(), stand_ins={}, generations=(), checkpoints=())


@pytest.mark.parametrize(
    ("entry", "old", "new"),
    [
        (PRUNE, b'"runs":[{"first":9,"last":9,', b'"runs":[{"first":1,"last":3,'),  # rows 1 to 3 might be missing then
        (PURGE, b'"stand_ins":{}', b'"stand_ins":{"1":{}}'),  # was a KeyError
    ],
    ids=["prune", "purge"],
)
def test_a_damaged_row_declares_no_hole(entry: Any, old: bytes, new: bytes) -> None:
    """R59: what says that rows may be missing was believed without a look at its own digest."""
    engine, session = talked()
    session.log.write(lambda lineage: [entry])
    row = engine.find("agent", "prune" if entry is PRUNE else "purge")[0]
    assert old in row.body
    engine.delete("agent", [4])
    altered = row.body.replace(old, new)
    engine.append("agent", 3, [Row(4, row.kind, 0, row.size, row.salt, altered, row.inner, row.digest, row.unique, row.keys)])
    log = Log(engine, "agent", session.clock, read_ahead=False)
    with pytest.raises(Corrupt, match="altered.*seq 4"):
        (log.holes if entry is PRUNE else log.erased)()
    assert (4,) in [r.seqs for r in Store(engine).verify()]


# --- stores ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"
    with lineal.connect(path) as store:
        session = store.session("agent", POLICY, summarize)
        session.append(user(1), id="u1")
        with session.effect("mail", {"to": "ann"}, key="mail:1") as effect:
            effect.settle("sent")
    return path


def spoil(path: Path, index: str, old: bytes, new: bytes) -> None:
    """Change a key in the pages of one index, as a bit that flips on the disk does."""
    with closing(apsw.Connection(str(path))) as db:
        pages: list[Any] = db.execute("SELECT pageno FROM dbstat WHERE name = ?", (index,)).fetchall()
        size = db.pragma("page_size")
    data = bytearray(path.read_bytes())
    for (page,) in pages:
        held = bytes(data[(page - 1) * size : page * size])
        data[(page - 1) * size : page * size] = held.replace(old, new)
    assert bytes(data) != path.read_bytes()
    path.write_bytes(data)


def test_a_session_that_the_index_lost_is_not_a_new_one(path: Path) -> None:
    """R59: its name in the index has one wrong bit. It was shown as empty, and `sessions()` told a name that nobody gave."""
    spoil(path, "sqlite_autoindex_sessions_1", b"agent", b"agemt")
    with lineal.connect(path) as store:
        for ask in (lambda: store.session("agent", POLICY), store.sessions):
            with pytest.raises(Corrupt, match="index of sessions"):
                ask()


def test_an_effect_that_the_index_lost_is_not_sent_again(path: Path) -> None:
    """R47: what the state knows as done cannot be unknown to the ledger."""
    spoil(path, "entries_key1", b"effect:mail:1", b"effect:mail:3")
    with lineal.connect(path) as store:
        session = store.session("agent", POLICY, summarize)
        with pytest.raises(Corrupt, match="under 'effect:mail:1'"), session.effect("mail", {"to": "ann"}, key="mail:1"):
            raise AssertionError("it would be sent again")
        assert store.verify().damaged


# --- arguments ---------------------------------------------------------------------------------------------------------

BAD_ARGUMENTS: dict[str, Callable[[Session], Any]] = {
    "turns before a text": lambda s: s.turns(before="3"),  # type: ignore[arg-type]
    "fewer turns than none": lambda s: s.turns(limit=-1),
    "turns below 10**30": lambda s: s.turns(10**30, 10**30),
    "usage without end": lambda s: s.record_usage(LONG),
    "usage of yes": lambda s: s.record_usage(True),
    "search for nothing": lambda s: s.search(None),  # type: ignore[arg-type]
    "search with half a limit": lambda s: s.search("a", 1.5),  # type: ignore[arg-type]
    "spill of none": lambda s: s.spill(None),  # type: ignore[arg-type]
    "spill of lists": lambda s: s.spill([["u1"]]),  # type: ignore[list-item]
    "an eviction by 5": lambda s: s.note_eviction(["u1"], by=5),  # type: ignore[arg-type]
    "calls that are numbers": lambda s: s.close_calls([5]),  # type: ignore[list-item]
    "a purge of an object": lambda s: s.purge({"u1": 1}),
    "a purge of true": lambda s: s.purge(True),  # type: ignore[arg-type]
    "a pin that is nested": lambda s: s.pin(DEEP),
    "a handle that is nested": lambda s: s.expand(DEEP),
    "a dialect that is nested": lambda s: s.messages(DEEP),
    "a rollback to a nesting": lambda s: s.rollback(DEEP),
    "a rollback past all numbers": lambda s: s.rollback(LONG),
    "a rollback to a squared seq": lambda s: s.rollback("²"),
    "a rollback to 5,000 digits": lambda s: s.rollback("9" * 5_000),
    "a rollback with a list as head": lambda s: s.rollback(1, expected_head=[]),  # type: ignore[arg-type]
    "a fork without a name": lambda s: s.fork(5),  # type: ignore[arg-type]
    "a prune of a nesting": lambda s: s.prune(DEEP, LONG),
    "an effect under a nesting": lambda s: s.effect("mail", key=DEEP).__enter__(),
    "an effect of a nesting": lambda s: s.effect(DEEP).__enter__(),
    "a finding that is nested": lambda s: s.resolve_effect("k", DEEP),
    "a request that is nested": lambda s: s.compact(request_id=DEEP),
    "a save of one message": lambda s: s.save({"role": "user"}),  # type: ignore[arg-type]
    "an author that is nested": lambda s: s.append(user(9), author=DEEP),
    "an id without end": lambda s: s.append(user(9), id=LONG),  # type: ignore[call-overload]
    "a role that is nested": lambda s: s.append({"role": nested(190, Random(1)), "content": "a"}),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_an_argument_that_cannot_be_meant_is_refused_by_name(name: str) -> None:
    """Each was another exception: of type, of value, of recursion, of digits. Nothing is written."""
    engine, session = talked()
    with pytest.raises(Refused) as refusal:
        BAD_ARGUMENTS[name](session)
    assert refusal.value.remedy and session.status().head == 3
    assert isinstance(refusal.value, PolicyError) or refusal.value.reason == "unknown_target"


class _Mute:
    def __repr__(self) -> str:
        raise ValueError("it says nothing of itself")


@pytest.mark.parametrize("outcome", [DEEP, LONG, _Mute()], ids=["nested", "long", "mute"])
def test_what_happened_is_recorded_whatever_came_back(outcome: Any) -> None:
    """R47: it was done; that its outcome cannot be written out made it unknown."""
    _, session = talked()
    with session.effect("mail", {"to": outcome}, key="mail:1") as effect:
        assert effect.settle(outcome) is outcome
    with session.effect("ring", key="ring:1") as effect:
        effect.no_effect(outcome)
    with pytest.raises(PolicyError, match="effect_attached"), session.effect("call", key="call:1") as effect:
        effect.attach(outcome)
    assert [row.state for row in session.ledger()] == ["done", "no_effect", "unknown"]


def test_a_field_that_decode_would_refuse_is_not_written() -> None:
    for value in (DEEP, LONG, object(), [1]):
        with pytest.raises(PolicyError, match="effect_settled"):
            codec.encode(EffectSettled(key=value, attempt=1, state="done"))  # type: ignore[arg-type]


# --- going back --------------------------------------------------------------------------------------------------------


def test_a_spill_over_entries_that_were_pruned_can_be_gone_back_to() -> None:
    """R39: its range runs over a pin that was lifted, which nothing needs; all its turns are there."""
    _, session = talked()
    session.pin("u1")
    session.unpin("u1")
    session.append([answer(2), user(3), answer(3)], id=["a2", "u3", "a3"])
    assert session.prune().ranges == ((4, 5),)
    handle = session.spill(["a1", "u2", "a2"])
    assert session.view().summaries[0].ranges == ((2, 6),)
    here = session.checkpoint("behind the prune")
    session.append(answer(4), id="a4")
    session.rollback(here)
    assert [t.id for t in session.expand(handle)] == ["a1", "u2", "a2"] and session.verify().clean
