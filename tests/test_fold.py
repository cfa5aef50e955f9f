"""The fold: one pure step a kind, the invariants, and the whole log folded from nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lineal.entries import (
    ENTRY_TYPES,
    Anchor,
    Call,
    CheckpointTaken,
    CompactionAborted,
    CompactionBegun,
    CompactionCommitted,
    EffectAttached,
    EffectIntended,
    EffectResolved,
    EffectSettled,
    Entry,
    Evicted,
    Forked,
    Holder,
    Lease,
    Node,
    Note,
    Pin,
    Pinned,
    PruneBegun,
    PruneFinished,
    PurgeBegun,
    PurgeFinished,
    Result,
    RolledBack,
    Stub,
    Suspended,
    TurnAppended,
    Unknown,
    Unpinned,
    Usage,
)
from lineal.fold import _STEPS, CALIBRATION_FROM, DONE_NOTED, FACTOR_MAX, OUTCOME_CHARS, Misfit, check_items, fold
from lineal.lineage import Lineage, TurnItem, empty, to_state

LEASE = Lease(Holder("token"), 100.0, 50.0)


def told(*entries: Entry, on: Lineage | None = None) -> Lineage:
    """The lineage after these entries; each step is checked to be a function of what it was given."""
    lineage = on or empty("agent", "seed")
    for entry in entries:
        before = to_state(lineage)
        seq = lineage.head + 1
        after = fold(lineage, seq, f"digest{seq}", f"inner{seq}", entry)
        assert after == fold(lineage, seq, f"digest{seq}", f"inner{seq}", entry), "same input, same output"
        assert to_state(lineage) == before, "the input is left alone"
        assert (after.head, after.digest) == (seq, f"digest{seq}")
        check_items(after.items)
        assert after.tokens == sum(i.tokens for i in after.items) and after.bytes == sum(i.bytes for i in after.items)
        lineage = after
    return lineage


def turn(id: str, author: str = "user", tokens: int = 10, **more: Any) -> TurnAppended:
    return TurnAppended(id=id, author=author, role=author, message={}, tokens=tokens, bytes=tokens * 3, **more)


def begun(generation: int = 1, **more: Any) -> CompactionBegun:
    return CompactionBegun(
        generation=generation,
        request_id="r",
        covered=("u1",),
        kept=(),
        spilled=(),
        input_digest="",
        lease=LEASE,
        policy={"trigger": 5},
        **more,
    )


def committed(
    generation: int = 1, lossy: bool = True, covered: tuple[str, ...] = ("u1", "u2"), ranges: Any = ((1, 2),), **more: Any
) -> CompactionCommitted:
    node = Node("summary" if lossy else "spill", generation, ranges, len(covered), 4, 12, text="short")
    fields: dict[str, Any] = {"nodes": (node,), "pre_digest": "", "post_digest": "", "watermark": 0, **more}
    return CompactionCommitted(
        generation=generation, parent=generation - 1, request_id="r", lossy=lossy, covered=covered, kept=(), **fields
    )


def intended(key: str = "k", idempotent: bool = False, **more: Any) -> EffectIntended:
    return EffectIntended(key=key, tool="rotate", arguments="aa", lease=LEASE, idempotent=idempotent, **more)


def settled(key: str = "k", state: Any = "done", **more: Any) -> EffectSettled:
    return EffectSettled(key=key, attempt=1, state=state, **more)


def shown(lineage: Lineage) -> list[str]:
    return [i.id if isinstance(i, TurnItem) else i.handle if isinstance(i, Node) else "note" for i in lineage.items]


THREE = (turn("u1"), turn("a1", "assistant"), turn("u2"))


def test_every_kind_of_entry_has_a_step() -> None:
    assert set(_STEPS) == {*ENTRY_TYPES, Unknown}


# --- turns ---------------------------------------------------------------------------------------------------------------


def test_a_turn_stands_at_its_seq_with_what_it_says() -> None:
    lineage = told(
        turn("u1"), turn("a1", "assistant", calls=(Call("c"),), results=(Result("b"),), stubbed=9, late=True, dialect="anthropic")
    )
    item = lineage.turns[1]
    assert (item.seq, item.id, item.author, item.digest, item.calls, item.results) == (
        2,
        "a1",
        "assistant",
        "inner2",
        (Call("c"),),
        (Result("b"),),
    )
    assert (item.stubbed, item.late, item.dialect, item.gone) == (9, True, "anthropic", False)
    assert lineage.changed_at == 2


def test_a_users_turn_ends_a_suspension_and_nobody_elses_does() -> None:
    """R23: external input."""
    tired = told(
        *THREE,
        begun(),
        CompactionAborted(generation=1, why="", ineffective=True),
        Suspended(tokens=1, floor_tokens=1, pinned_tokens=0, trigger=1),
    )
    assert tired.suspended and tired.ineffective == 1
    assert told(turn("a2", "assistant"), on=tired).suspended
    woken = told(turn("u3"), on=tired)
    assert not woken.suspended and woken.ineffective == 0


def test_what_a_host_dropped_weighs_nothing_and_is_still_missed() -> None:
    lineage = told(*THREE, Evicted(turns=("a1",), by="trimmer"))
    assert [t.gone for t in lineage.turns] == [False, True, False]
    assert lineage.tokens == 20


# --- compaction ----------------------------------------------------------------------------------------------------------


def test_a_begun_compaction_is_in_flight_and_changes_nothing_that_is_shown() -> None:
    lineage = told(*THREE, begun())
    assert lineage.in_flight and (lineage.in_flight.generation, lineage.in_flight.seq, lineage.in_flight.lease) == (1, 4, LEASE)
    assert (lineage.generation, lineage.last_generation, shown(lineage)) == (0, 1, ["u1", "a1", "u2"])


def test_an_aborted_compaction_leaves_the_generation_and_uses_up_its_number() -> None:
    """R16, R33."""
    lineage = told(*THREE, begun(), CompactionAborted(generation=1, why="x"))
    assert (lineage.in_flight, lineage.generation, lineage.last_generation, lineage.ineffective) == (None, 0, 1, 0)


def test_an_abort_of_another_generation_leaves_the_one_in_flight() -> None:
    assert told(*THREE, begun(2), CompactionAborted(generation=1, why="x")).in_flight is not None


def test_a_commit_puts_the_node_where_the_covered_turns_stood() -> None:
    """Two names, never mixed: covered_through and committed_at."""
    anchors = (Anchor("id", "x", 1),)
    entry = committed(covered=("u1", "a1"), ranges=((1, 2),), anchors=anchors, note=Note(2, "n", 3, 9))
    lineage = told(*THREE, turn("a2", "assistant"), begun(), turn("a3", "assistant"), entry)
    assert shown(lineage) == ["g1", "note", "u2", "a2", "a3"]
    assert (lineage.generation, lineage.covered_through, lineage.committed_at, lineage.in_flight) == (1, 2, 7, None)
    assert lineage.anchors == anchors
    assert (lineage.changed_at, lineage.committed_changed_at) == (6, 5), "what was said meanwhile is a change since"


def test_a_later_generation_takes_the_place_of_the_one_before_and_of_its_note() -> None:
    """R21: at most one summary stands for a turn, and one note is shown."""
    first = committed(covered=("u1", "a1"), ranges=((1, 2),), note=Note(2, "n", 3, 9))
    second = committed(2, covered=("g1", "u2"), ranges=((1, 3),), note=Note(3, "m", 3, 9))
    lineage = told(*THREE, first, turn("a2", "assistant"), second)
    assert shown(lineage) == ["g2", "note", "a2"]
    assert (lineage.generation, lineage.covered_through) == (2, 3)


def test_covered_through_is_the_last_turn_of_all_and_never_falls() -> None:
    """A later pass may cover the older side of the newest user turn, and an entry may bring more than one node."""
    behind = told(*THREE, turn("a2", "assistant"), committed(covered=("a2",), ranges=((4, 4),)))
    assert told(committed(2, covered=("u1", "a1"), ranges=((1, 2),)), on=behind).covered_through == 4
    nodes = (Node("summary", 1, ((1, 1),), 1, 4, 12, text="first"), Node("summary", 1, ((3, 3),), 1, 4, 12, text="second"))
    assert told(*THREE, committed(nodes=nodes)).covered_through == 3


def test_a_spill_is_a_generation_but_no_barrier_for_recovery() -> None:
    """R10, record 000: only a lossy pass overtakes a checkpoint."""
    lineage = told(*THREE, committed(lossy=False, covered=("u1", "a1"), ranges=((1, 2),), ineffective=1))
    assert (lineage.generation, lineage.committed_at, lineage.covered_through) == (1, 0, 2)
    assert lineage.ineffective == 1


def test_a_summary_is_progress() -> None:
    """R23."""
    tired = told(
        *THREE,
        begun(),
        CompactionAborted(generation=1, why="", ineffective=True),
        Suspended(tokens=1, floor_tokens=1, pinned_tokens=0, trigger=1),
    )
    lineage = told(committed(2, covered=("u1", "a1")), on=tired)
    assert (lineage.ineffective, lineage.suspended) == (0, False)
    assert told(committed(2, lossy=False, covered=("u1", "a1"), ineffective=1), on=tired).suspended, "a spill is none"


def test_stubs_change_how_kept_turns_are_shown() -> None:
    """R26."""
    entry = committed(covered=("u1",), ranges=((1, 1),), stubs=(Stub("a1", 1_024, 2, 6),))
    item = told(*THREE, entry).turn("a1")
    assert item and (item.stubbed, item.tokens, item.bytes) == (1_024, 2, 6)


def test_a_suspension_remembers_the_policy_it_was_made_under() -> None:
    lineage = told(*THREE, Suspended(tokens=1, floor_tokens=1, pinned_tokens=0, trigger=1, policy={"trigger": 9}))
    assert lineage.suspended and lineage.policy == {"trigger": 9}


# --- pins and usage ------------------------------------------------------------------------------------------------------


def test_pins_are_kept_once_each_and_a_texts_note_is_shown_at_once() -> None:
    lineage = told(*THREE, Pinned(pin=Pin("p", text="keep"), note=Note(4, "pinned: keep", 3, 9)), Pinned(pin=Pin("p", text="keep")))
    assert lineage.pins == (Pin("p", text="keep"),)
    assert shown(lineage) == ["u1", "a1", "u2", "note"]
    assert told(Unpinned(id="p"), on=lineage).pins == ()


def test_other_pins_are_external_input() -> None:
    """R23: what held the view together may be gone."""
    tired = told(*THREE, Pinned(pin=Pin("u1", turn="u1")), Suspended(tokens=1, floor_tokens=1, pinned_tokens=0, trigger=1))
    assert tired.suspended
    assert not told(Unpinned(id="u1"), on=tired).suspended


def test_reported_usage_only_tightens() -> None:
    """R25: small views teach the overhead, large ones the factor; both only upwards, the factor up to a limit."""
    small = told(*THREE, Usage(input_tokens=130, output_tokens=5, counted=30))
    assert (small.overhead, small.view_tokens) == (100, 130)
    assert told(Usage(input_tokens=40, output_tokens=5, counted=30), on=small).view_tokens == 130
    large = told(Usage(input_tokens=100 + CALIBRATION_FROM * 2, output_tokens=5, counted=CALIBRATION_FROM), on=small)
    assert (large.factor, large.overhead, large.view_tokens) == (2.0, 100, 160)
    assert told(Usage(input_tokens=CALIBRATION_FROM, output_tokens=5, counted=CALIBRATION_FROM), on=large).factor == 2.0
    assert told(Usage(input_tokens=10**9, output_tokens=5, counted=CALIBRATION_FROM), on=large).factor == FACTOR_MAX


# --- effects -------------------------------------------------------------------------------------------------------------


def test_an_intent_is_open_until_it_is_settled_and_moves_the_watermark_then() -> None:
    """R47, R51."""
    lineage = told(*THREE, intended(turn=2))
    assert lineage.effects[0].state == "intended" and (lineage.effects[0].seq, lineage.watermark) == (4, 0)
    done = told(settled(outcome={"id": 7}), on=lineage)
    assert done.effects == () and done.watermark == 4
    assert [(d.key, d.tool, d.seq, d.turn) for d in done.done] == [("k", "rotate", 4, 2)] and "7" in done.done[0].outcome


def test_no_effect_and_idempotent_ones_leave_the_watermark() -> None:
    assert told(intended(), settled(state="no_effect")).watermark == 0
    lineage = told(intended(idempotent=True), settled())
    assert (lineage.watermark, lineage.done, lineage.effects) == (0, (), ())


def test_an_unknown_outcome_stays_open_with_its_reason_and_handle() -> None:
    lineage = told(intended(), EffectAttached(key="k", handle="job/9"), settled(state="unknown", why="timed out"))
    assert [(e.state, e.why, e.handle) for e in lineage.effects] == [("unknown", "timed out", "job/9")]
    assert told(settled(key="never", state="unknown")).effects == ()


def test_the_watermark_stays_at_the_newest_whatever_is_settled_after_it() -> None:
    """L5, R51."""
    lineage = told(intended("older"), intended("newer"), settled("newer"), settled("older"))
    assert lineage.watermark == 2 and [d.key for d in lineage.done] == ["newer", "older"]


def test_a_new_attempt_takes_the_place_of_the_one_before() -> None:
    lineage = told(intended(), settled(state="unknown"), intended(attempt=2))
    assert [(e.attempt, e.state) for e in lineage.effects] == [(2, "intended")]


@pytest.mark.parametrize(("finding", "watermark", "done"), [("happened", 1, ["k"]), ("not_happened", 0, []), ("compensated", 0, [])])
def test_a_resolution_closes_it(finding: Any, watermark: int, done: list[str]) -> None:
    lineage = told(intended(), settled(state="unknown"), EffectResolved(key="k", finding=finding, note="looked"))
    assert (lineage.effects, lineage.watermark, [d.key for d in lineage.done]) == ((), watermark, done)


def test_what_was_compensated_is_told_no_more() -> None:
    assert told(intended(), settled(), EffectResolved(key="k", finding="compensated")).done == ()


def test_the_state_holds_a_bounded_number_of_settled_effects() -> None:
    many = [e for n in range(DONE_NOTED + 5) for e in (intended(f"k{n}"), settled(f"k{n}", outcome="x" * 10_000))]
    lineage = told(*many)
    assert [d.key for d in lineage.done] == [f"k{n}" for n in range(5, DONE_NOTED + 5)]
    assert max(len(d.outcome) for d in lineage.done) < 200


def test_an_outcome_is_told_whole_up_to_its_limit() -> None:
    whole = told(intended(), settled(outcome="x" * OUTCOME_CHARS)).done[0].outcome
    assert whole == "x" * OUTCOME_CHARS
    cut = told(intended(), settled(outcome="x" * (OUTCOME_CHARS + 1))).done[0].outcome
    assert len(cut) == OUTCOME_CHARS and cut.endswith("…")


# --- going back, forking -------------------------------------------------------------------------------------------------


def gone_back(to: Lineage, **more: Any) -> RolledBack:
    return RolledBack(target=to.head, past=to_state(to), **more)


def test_a_rollback_shows_the_past_and_keeps_what_survives_it() -> None:
    """R40: going back is going forward; the ledger, the watermark, the calibration and the numbers stay."""
    past = told(*THREE)
    now = told(
        turn("a2", "assistant"), Usage(input_tokens=90, output_tokens=0, counted=40), intended("k"), settled("k"), intended("open"),
        begun(), committed(1), begun(2), on=past,
    )  # fmt: skip
    back = told(gone_back(past, note=Note(now.head + 1, "gone back", 3, 9)), on=now)
    assert shown(back) == ["u1", "a1", "u2", "note"]
    assert (back.epoch, back.branch, back.since, back.segments, back.rolled_back_at) == (1, 1, now.head + 1, ((1, 3),), now.head + 1)
    assert (back.generation, back.last_generation, back.in_flight, back.committed_at) == (0, 2, None, 0)
    assert (back.watermark, [e.key for e in back.effects], [d.key for d in back.done], back.overhead) == (
        now.watermark,
        ["open"],
        ["k"],
        50,
    )
    assert [back.on_branch(s) for s in (1, 3, 4, now.head, back.head)] == [True, True, False, False, True]


def test_chains_go_on_through_a_rollback() -> None:
    """L6: what was done since stands in the log still, and the next entry of its chain names it."""
    past = told(*THREE)
    head = told(intended(before=(0, 0)), on=past)
    assert head.chains and not past.chains
    back = told(gone_back(past), on=head)
    assert back.chains == head.chains


def test_effects_in_flight_at_the_target_become_unknown() -> None:
    past = told(*THREE, intended("open"))
    back = told(turn("a2", "assistant"), gone_back(past, unknown=("open",)), on=past)
    assert [(e.state, e.why) for e in back.effects] == [("unknown", "rolled back")]


def test_going_back_twice_keeps_the_path() -> None:
    one = told(*THREE)
    two = told(turn("a2", "assistant"), gone_back(told(turn("u1"))), turn("b2", "assistant"), turn("b3"), on=one)
    three = told(gone_back(two), on=told(turn("b4"), on=two))
    assert three.segments == ((1, 1), (5, 7))
    assert [s for s in range(1, three.head + 1) if three.on_branch(s)] == [1, 5, 6, 7, 9]


def test_a_pinned_turn_that_came_along_stands_on_the_branch() -> None:
    """A promise outlives a rollback: the turn is shown, read and known, although the rest of its branch is left behind."""
    now = told(*THREE, turn("a2", "assistant"))
    past = msgspec.structs.replace(told(turn("u1")), items=(*told(turn("u1")).items, now.turns[2]))
    back = told(RolledBack(target=1, past=to_state(past)), on=now)
    assert shown(back) == ["u1", "u2"]
    assert back.promised == (3,) and [back.on_branch(s) for s in (1, 2, 3, 4)] == [True, False, True, False]
    again = told(turn("b1"), gone_back(back), on=back)
    assert again.promised == (3,)


def test_a_fork_voids_what_was_in_flight() -> None:
    """R45: the compaction is the parent's, its effects are unknown here."""
    child = told(*THREE, intended(), begun(), Forked(parent="agent", parent_digest="", fork_at=5))
    assert (child.in_flight, child.epoch, [e.state for e in child.effects]) == (None, 1, ["unknown"])
    assert "agent" in child.effects[0].why


# --- keeping house -------------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_remembered_by_seq() -> None:
    lineage = told(*THREE, CheckpointTaken(id="cp4", label="", generation=0, state_digest="", watermark=0, at=77.0))
    assert (lineage.checkpointed_at, lineage.checkpointed_time) == (4, 77.0)


def test_prune_and_purge_are_open_until_they_are_finished() -> None:
    """R54."""
    lineage = told(*THREE, PruneBegun(runs=(), entries=0))
    assert lineage.pruning == 4 and told(PruneFinished(begun=4), on=lineage).pruning == 0
    lineage = told(*THREE, PurgeBegun(turns=(), stand_ins={}, generations=(), checkpoints=()))
    assert lineage.purging == 4 and told(PurgeFinished(begun=4), on=lineage).purging == 0


def test_a_purge_takes_the_content_out_of_everything_that_is_shown() -> None:
    """R54: turns, summaries, anchors, pins, notes, outcomes; a compaction in flight had read it, so it is overtaken."""
    before = told(
        *THREE,
        turn("a2", "assistant"),
        committed(covered=("u1",), ranges=((1, 1),), anchors=(Anchor("id", "secret", 1),)),
        intended(turn=2),
        settled(outcome="secret"),
        begun(2),
    )
    bare = Node("summary", 1, ((1, 1),), 1, 2, 6, text="[purged]")
    entry = PurgeBegun(turns=("u1", "a1"), stand_ins={}, generations=(1,), checkpoints=(), nodes=(bare,), seqs=(1, 2), effects=("k",))
    after = told(entry, on=before)
    assert shown(after) == ["g1", "u2", "a2"]
    assert after.nodes == (bare,) and after.anchors == () and "secret" not in str(to_state(after))
    assert (after.epoch, after.in_flight, [d.key for d in after.done]) == (1, None, ["k"])
    finished = told(PurgeFinished(begun=after.head, note=Note(after.head + 1, "fresh", 1, 3)), on=after)
    assert shown(finished) == ["g1", "u2", "a2", "note"] and finished.purging == 0


def test_a_purge_takes_the_reasons_of_its_own_effects_only() -> None:
    """R54."""
    before = told(*THREE, intended("a"), intended("b"), settled("a", "unknown", why="secret"), settled("b", "unknown", why="timed out"))
    entry = PurgeBegun(turns=("u1",), stand_ins={}, generations=(), checkpoints=(), seqs=(1,), effects=("a",))
    assert {e.key: e.why for e in told(entry, on=before).effects} == {"a": "", "b": "timed out"}


def test_a_foreign_annotation_changes_nothing_but_the_head() -> None:
    """R57."""
    before = told(*THREE)
    after = told(Unknown(name="x.mark", raw=b"{}"), on=before)
    assert msgspec.structs.replace(after, head=before.head, digest=before.digest) == before


# --- invariants ----------------------------------------------------------------------------------------------------------


def test_an_entry_out_of_order_is_refused() -> None:
    """L1."""
    with pytest.raises(Misfit, match="L1"):
        fold(told(*THREE), 5, "", "", turn("u9"))


def test_items_out_of_order_and_overlapping_ranges_are_refused() -> None:
    """L2, L3."""
    late, early = TurnItem(5, "b", "user", "user", 1, 1, ""), TurnItem(4, "a", "user", "user", 1, 1, "")
    with pytest.raises(Misfit, match="L2"):
        check_items((late, early))
    with pytest.raises(Misfit, match="L3"):
        check_items((Node("summary", 1, ((1, 3),), 3, 1, 1), Node("summary", 2, ((3, 4),), 2, 1, 1)))


def test_a_generation_above_every_number_given_out_is_refused() -> None:
    """L4."""
    broken = msgspec.structs.replace(told(*THREE), generation=3, last_generation=2)
    with pytest.raises(Misfit, match="L4"):
        fold(broken, 4, "", "", turn("u9"))
