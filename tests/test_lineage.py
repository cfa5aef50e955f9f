"""The state of the fold: the questions it answers, and that it can be written down and read again."""

from __future__ import annotations

import math

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lineal.entries import Anchor, Call, Holder, Lease, Node, Note, Pin, Result
from lineal.lineage import Done, InFlight, Lineage, OpenEffect, TurnItem, calibrated, empty, from_state, place, to_state, view_facts
from lineal.session.log import pack, unpack

LEASE = Lease(Holder("token", "host", "boot", 7, 9), 100.0, 50.0)
TURN = TurnItem(5, "u\ud800", "user", "user", 10, 30, "aa", (Call("c", "t", "bb"),), (Result("b", False),), "anthropic", 9, True, True)
NODE = Node("summary", 2, ((1, 2), (4, 4)), 3, 6, 18, 50, "short\0")
WHOLE = Lineage(
    chains={"effect:0a": 4},
    session="agent\udc00",
    digest="dd",
    head=9,
    epoch=2,
    branch=1,
    since=6,
    segments=((1, 4),),
    promised=(5,),
    items=(NODE, Note(4, "note", 2, 6), TURN),
    tokens=18,
    bytes=54,
    generation=2,
    last_generation=3,
    in_flight=InFlight(3, 8, 2, "r", ("u1",), LEASE),
    committed_at=7,
    covered_through=4,
    rolled_back_at=6,
    effects=(OpenEffect("k", "t", "aa", 3, 2, True, False, False, 5, LEASE, "unknown", "why", "job"),),
    done=(Done("d", "t", 2, "out", 1),),
    watermark=2,
    pins=(Pin("p", text="keep"),),
    anchors=(Anchor("id", "x", 1),),
    ineffective=1,
    suspended=True,
    changed_at=8,
    committed_changed_at=6,
    factor=1.25,
    overhead=7,
    checkpointed_at=3,
    checkpointed_time=77.5,
    pruning=1,
    purging=2,
    packing=3,
    policy={"trigger": 5, "checkpoint_every_minutes": None},
)


def test_a_state_comes_back_whole() -> None:
    """R45: what is reopened is what was live, field by field."""
    defaults = empty("agent", "")
    assert all(getattr(WHOLE, f) != getattr(defaults, f) for f in WHOLE.__struct_fields__), "every field is set to something"
    assert from_state(to_state(WHOLE)) == WHOLE
    assert unpack(pack(WHOLE)) == WHOLE
    assert unpack(pack(defaults)) == defaults


def test_a_damaged_state_is_none() -> None:
    """It is only an index: a wrong one is never taken, whichever byte is wrong."""
    data = pack(WHOLE)
    for at in range(0, len(data), 7):
        assert unpack(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]) is None
    assert unpack(b"") is None and unpack(data[:-1]) is None and unpack(data[:32]) is None


def test_equal_lineages_have_equal_bytes() -> None:
    assert pack(from_state(to_state(WHOLE))) == pack(WHOLE)


def test_the_branch_is_what_was_not_left_behind() -> None:
    assert [s for s in range(1, 11) if WHOLE.on_branch(s)] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert [s for s in range(1, 11) if WHOLE.on_branch(s) and s != 5] == [1, 2, 3, 4, 6, 7, 8, 9]
    assert not empty("a", "").on_branch(1)


def test_what_stands_is_on_the_branch_in_no_nodes_ranges_and_not_dropped() -> None:
    """R50: what the agent can still know. A host dropped the turn at 5."""
    assert TURN.seq == 5 and TURN.gone
    assert [s for s in range(1, 11) if WHOLE.stands(s)] == [3, 6, 7, 8, 9]
    shown = msgspec.structs.replace(WHOLE, items=(NODE, msgspec.structs.replace(TURN, gone=False)))
    assert [s for s in range(1, 11) if shown.stands(s)] == [3, 5, 6, 7, 8, 9]


def test_turns_and_nodes_are_found() -> None:
    assert WHOLE.turns == (TURN,) and WHOLE.nodes == (NODE,)
    assert WHOLE.turn("u\ud800") == TURN and WHOLE.turn("g2") is None
    assert WHOLE.effect("k") == WHOLE.effects[0] and WHOLE.effect("x") is None
    assert [place(i) for i in WHOLE.items] == [4, 4, 5]
    assert (NODE.handle, NODE.covered_through) == ("g2", 4)


def test_a_views_facts_are_its_turns_and_nodes_in_order() -> None:
    """Record 004: what a generation's digests are taken over. Notes are derived and left out."""
    assert view_facts(WHOLE.items) == [["g2", [[1, 2], [4, 4]]], ["u\ud800", "aa"]]


@given(tokens=st.integers(0, 10**7), factor=st.floats(1.0, 3.0), overhead=st.integers(0, 10**5))
def test_calibration_rounds_up_and_never_shrinks(tokens: int, factor: float, overhead: int) -> None:
    """R25."""
    lineage = Lineage(session="a", digest="", tokens=tokens, factor=factor, overhead=overhead)
    assert lineage.view_tokens == calibrated(tokens, lineage) == overhead + math.ceil(tokens * factor)
    assert lineage.view_tokens >= tokens
