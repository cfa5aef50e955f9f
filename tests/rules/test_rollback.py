"""May we go back, given what was done to the world (record 003): a case for each row, then all combinations."""

from dataclasses import replace
from itertools import product
from typing import Any, get_args

import pytest

from lineal.errors import PolicyError, UnsafeEffectError, UnsafeRollbackError
from lineal.rules.rollback import TABLE, Checkpoint, EffectLedger, EffectRecord, RollbackFacts, State, authorize_rollback, judge

STATES: tuple[State, ...] = get_args(State)
ROTATE = EffectRecord("rotate", 12)
READ = EffectRecord("read", 13, idempotent=True)
BACK = RollbackFacts(target=10, head=20, watermark=9)

CASES = [
    ("raw_gone", replace(BACK, raw_gone=True, oldest=15)),
    ("no_ledger", replace(BACK, ledger=False)),
    ("no_watermark", replace(BACK, watermark=None, effects=(ROTATE,))),
    ("unknown_outcome", replace(BACK, effects=(replace(ROTATE, state="unknown"),))),
    ("unknown_outcome", replace(BACK, effects=(replace(ROTATE, state="intended"),))),
    ("unguarded", replace(BACK, effects=(replace(ROTATE, keyed=False),))),
    ("unguarded", replace(BACK, effects=(replace(ROTATE, guarded=False),))),
    ("in_flight_at_target", replace(BACK, effects=(replace(ROTATE, seq=8, state="unknown"),), in_flight_at_target=("rotate",))),
    ("in_flight_at_target", replace(BACK, effects=(replace(ROTATE, seq=8),), in_flight_at_target=("rotate",))),
    ("none", BACK),
    ("none", replace(BACK, effects=(replace(ROTATE, seq=10),))),
    ("none", replace(BACK, watermark=None, effects=(replace(ROTATE, state="no_effect", keyed=False),))),
    ("all_idempotent", replace(BACK, effects=(READ, replace(READ, key="poll", state="unknown", keyed=False)))),
    ("reconciled", replace(BACK, effects=(replace(ROTATE, state="compensated"), READ))),
    ("reconciled", replace(BACK, effects=(replace(ROTATE, keyed=False, resolved=True),))),
    ("guarded", replace(BACK, effects=(ROTATE, READ))),
]


@pytest.mark.parametrize(("row", "facts"), CASES, ids=[f"{row}-{i}" for i, (row, _) in enumerate(CASES)])
def test_row(row: str, facts: RollbackFacts) -> None:
    """R64: each row decides its case; a refusal says why and shows the way out."""
    verdict = judge(facts)
    assert verdict.reason == row
    assert verdict.allowed is TABLE.row(row).allowed
    assert verdict.message
    assert verdict.allowed or verdict.remedy


def test_every_row_has_a_case() -> None:
    assert {row for row, _ in CASES} == {row.name for row in TABLE.rows}


# --- stories -----------------------------------------------------------------------------------------------------------


def test_guarded_idempotent_and_reconciled_effects_are_listed_apart() -> None:
    undone = EffectRecord("undone", 14, state="compensated")
    refused = EffectRecord("declined", 15, state="no_effect")
    before = EffectRecord("before", 4)
    verdict = judge(replace(BACK, effects=(before, ROTATE, READ, undone, refused)))
    assert verdict.reason == "guarded"
    assert verdict.facts["guarded"] == ("rotate",)
    assert verdict.facts["idempotent"] == ("read",)
    assert verdict.facts["reconciled"] == ("undone",)
    assert verdict.facts["refused"] == ()


def test_one_effect_that_blocks_is_named_and_the_guarded_ones_are_not_blamed() -> None:
    mail = EffectRecord("mail", 15, state="unknown")
    verdict = judge(replace(BACK, effects=(ROTATE, mail)))
    assert not verdict
    assert verdict.facts["refused"] == ("mail",)
    assert verdict.facts["guarded"] == ("rotate",)
    assert "'mail' (unknown, seq 15)" in verdict.message


def test_an_effect_open_at_the_target_stays_unknown_and_does_not_block() -> None:
    """R51: its call stands open in the restored view, and its key is still answered from the ledger."""
    spawn = EffectRecord("spawn", 9, state="intended")
    verdict = judge(replace(BACK, effects=(spawn, ROTATE), in_flight_at_target=("spawn",)))
    assert verdict
    assert verdict.facts["in_flight_at_target"] == ("spawn",)
    assert verdict.facts["guarded"] == ("rotate",)


def test_an_effect_open_at_the_target_keeps_its_emission_there() -> None:
    """Without a caller's key the emission answers for it; outside the gate nothing does, once it was done."""
    spawn = EffectRecord("spawn", 9, state="done", keyed=False)
    back = replace(BACK, effects=(spawn,), in_flight_at_target=("spawn",))
    assert judge(back).facts["guarded"] == ("spawn",)
    outside = replace(back, effects=(replace(spawn, guarded=False),))
    assert (judge(outside).reason, judge(outside).facts["refused"]) == ("unguarded", ("spawn",))
    assert judge(replace(back, effects=(replace(spawn, guarded=False, state="unknown"),))).allowed


def test_a_pruned_target_names_the_oldest_reachable_seq() -> None:
    verdict = judge(replace(BACK, raw_gone=True, oldest=15))
    assert verdict.facts["oldest"] == 15
    assert "15" in verdict.message


# --- the ledger --------------------------------------------------------------------------------------------------------


def ledger_of(*effects: tuple[Any, bool]) -> EffectLedger:
    ledger = EffectLedger()
    for effect_id, idempotent in effects:
        ledger.record(effect_id, idempotent)
    return ledger


def test_the_ledger_lists_what_came_after_a_watermark() -> None:
    ledger = ledger_of((1, False), (2, True), (3, False))
    assert ledger.committed == [(1, False), (2, True), (3, False)]
    assert ledger.effects_after(2) == [(3, False)]
    assert ledger.effects_after(None) == ledger.committed
    assert ledger.effects_after(3) == []


def test_the_same_record_once_more_changes_nothing() -> None:
    ledger = ledger_of((1, False), (1, False))
    assert ledger.committed == [(1, False)]


def test_another_class_for_a_known_effect_is_refused() -> None:
    """R48: the class is stored with the effect."""
    ledger = ledger_of((1, False))
    with pytest.raises(UnsafeEffectError):
        ledger.record(1, True)
    assert ledger.committed == [(1, False)]


def test_a_copy_of_the_list_cannot_shorten_the_ledger() -> None:
    ledger = ledger_of((1, False))
    ledger.committed.clear()
    assert ledger.committed == [(1, False)]


def test_effects_move_forward_only() -> None:
    """A done effect never becomes pending again, and an undone one is not done again under its id."""
    ledger = EffectLedger()
    ledger.record("pay", False, state="intended")
    assert ledger.committed == []
    assert ledger.effects_after(None) == [("pay", False)]
    ledger.record("pay", False, state="no_effect")
    assert ledger.effects_after(None) == []
    ledger.record("pay", False, state="unknown")
    ledger.record("pay", False, state="done")
    for left in ("intended", "unknown", "no_effect"):
        with pytest.raises(UnsafeEffectError):
            ledger.record("pay", False, state=left)
    ledger.record("pay", False, state="compensated")
    with pytest.raises(UnsafeEffectError):
        ledger.record("pay", False)


def test_text_ids_are_after_the_watermark_by_order_of_entry_too() -> None:
    """ "e10" sorts below "e9", but it came after it."""
    ledger = ledger_of(("e9", False), ("e10", False))
    assert ledger.effects_after("e9") == [("e10", False)]


def test_ids_that_cannot_be_ordered_are_refused() -> None:
    ledger = ledger_of((1, False))
    for bad in ("two", True, 2.0, None):
        with pytest.raises(PolicyError):
            ledger.record(bad, False)  # type: ignore[arg-type]
    with pytest.raises(PolicyError):
        ledger.effects_after("one")
    with pytest.raises(PolicyError):
        ledger.record(2, "yes")  # type: ignore[arg-type]
    with pytest.raises(PolicyError):
        ledger.record(2, False, state="maybe")  # type: ignore[arg-type]
    assert ledger.committed == [(1, False)]


# --- the record's gate -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("latest", [True, False])
def test_the_latest_checkpoint_is_no_shortcut(latest: bool) -> None:
    ledger = EffectLedger()
    ledger.record(6, False, state="unknown")
    with pytest.raises(UnsafeRollbackError) as refusal:
        authorize_rollback(Checkpoint("cp", 5), ledger, latest)
    assert refusal.value.reason == "unknown_outcome"
    assert "'cp'" in str(refusal.value)


@pytest.mark.parametrize("latest", [True, False])
def test_an_intact_ledger_and_a_readable_watermark_allow_and_name_what_is_guarded(latest: bool) -> None:
    verdict = authorize_rollback(Checkpoint("cp", 5), ledger_of((4, False), (6, False), (7, True)), latest)
    assert verdict
    assert verdict.facts["guarded"] == ("6",)
    assert verdict.facts["idempotent"] == ("7",)


@pytest.mark.parametrize("latest", [True, False])
def test_a_watermark_lost_to_prose_refuses_when_something_may_not_be_repeated(latest: bool) -> None:
    with pytest.raises(UnsafeRollbackError) as refusal:
        authorize_rollback(Checkpoint("cp"), ledger_of((1, False), (2, True)), latest)
    assert refusal.value.reason == "no_watermark"
    assert refusal.value.facts["refused"] == ("1",)
    assert authorize_rollback(Checkpoint("cp"), ledger_of((2, True)), latest)
    assert authorize_rollback(Checkpoint("cp"), EffectLedger(), latest)


@pytest.mark.parametrize("latest", [True, False])
def test_without_a_ledger_nothing_is_proven(latest: bool) -> None:
    with pytest.raises(UnsafeRollbackError) as refusal:
        authorize_rollback(Checkpoint("cp", 5), None, latest)
    assert refusal.value.reason == "no_ledger"


def test_an_effect_seen_outside_the_gate_refuses() -> None:
    ledger = EffectLedger()
    ledger.record(6, False, guarded=False)
    for _ in range(2):
        with pytest.raises(UnsafeRollbackError) as refusal:
            authorize_rollback(Checkpoint("cp", 5), ledger, False)
        assert refusal.value.reason == "unguarded"
        ledger.record(6, False)  # seen again through the gate: that it once passed beside it stays true


def test_a_checkpoint_is_a_frozen_value_with_its_watermark_as_data() -> None:
    """R63."""
    checkpoint = Checkpoint("cp", 5, seq=10, generation=2, label="before deploy", digest="ab", at=1.5)
    assert (checkpoint.checkpoint_id, checkpoint.effect_watermark, checkpoint.seq) == ("cp", 5, 10)
    with pytest.raises(AttributeError):
        checkpoint.effect_watermark = 6  # type: ignore[misc]


# --- a second, dumber implementation -------------------------------------------------------------------------------------

BOOLS = (False, True)
PLACES = ("below", "above", "open at target")


def dumb(effects: list[EffectRecord], facts: RollbackFacts) -> list[str] | None:
    """None to refuse, else the keys that the new view must call done."""
    done: list[str] = []
    if facts.raw_gone or not facts.ledger:
        return None
    for effect in effects:
        open_there = effect.key in facts.in_flight_at_target
        if effect.seq <= facts.target and not open_there:
            continue
        if effect.idempotent or effect.resolved or effect.state in ("no_effect", "compensated"):
            continue
        if facts.watermark is None:
            return None
        if not effect.guarded and (effect.state == "done" or not open_there):
            return None
        if not effect.keyed and effect.seq > facts.target:
            return None
        if effect.state == "done":
            done.append(effect.key)
        elif not open_there:
            return None
    return done


def build(key: str, at: str, state: State, idempotent: bool, keyed: bool, guarded: bool, resolved: bool) -> tuple[EffectRecord, bool]:
    return EffectRecord(key, 12 if at == "above" else 8, idempotent, state, keyed, guarded, resolved), at == "open at target"


def agree(pairs: list[tuple[EffectRecord, bool]], **more: Any) -> None:
    effects = [e for e, _ in pairs]
    facts = RollbackFacts(
        10, 20, **{"watermark": 9, **more}, effects=tuple(effects), in_flight_at_target=tuple(e.key for e, o in pairs if o)
    )
    verdict, expected = judge(facts), dumb(effects, facts)
    assert verdict.allowed is (expected is not None), facts
    if expected is not None:
        assert list(verdict.facts["guarded"]) == expected
        assert verdict.facts["refused"] == ()
    elif not facts.raw_gone and facts.ledger:
        assert verdict.facts["refused"]


def test_every_single_effect_agrees_with_the_dumb_rule() -> None:
    for combination in product(PLACES, STATES, BOOLS, BOOLS, BOOLS, BOOLS):
        for watermark, ledger, raw_gone in product((None, 9), BOOLS, BOOLS):
            agree([build("a", *combination)], watermark=watermark, ledger=ledger, raw_gone=raw_gone)


def test_every_pair_of_effects_agrees_with_the_dumb_rule() -> None:
    kinds = [(at, state, idem, guarded, guarded, res) for at, state, idem, guarded, res in product(PLACES, STATES, BOOLS, BOOLS, BOOLS)]
    for one, other in product(kinds, kinds):
        agree([build("a", *one), build("b", *other)])


def test_effects_with_texts_for_ids_are_ordered_too() -> None:
    """Record 003: by the text where the watermark itself is not in the ledger, by entry where it is."""
    ledger = EffectLedger()
    for id in ("e2", "e9", "e10"):
        ledger.record(id, idempotent=False)
    assert ledger.effects_after("e5") == [("e9", False)] and ledger.effects_after("e9") == [("e10", False)]
    numbers = EffectLedger()
    for number in (2, 9):
        numbers.record(number, idempotent=False)
    assert numbers.effects_after(5) == [(9, False)]
