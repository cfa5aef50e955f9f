"""Rollback: may we go back, given what was done to the world? (record 003)

Going back restores state, never effects: what was sent since the target stays sent, and the view that is restored knows
nothing of it. So going back is allowed only if everything that was done in `(target, head]` either may be done again
(idempotent) or is guarded: it stands in the ledger, which survives the rollback, under a key that the next emission
must ask for. And the target must say in data, not in prose, up to where its ledger had come: its watermark.

What counts as done:

| state | weighs |
|---|---|
| `no_effect`, or resolved as not happened | nothing happened |
| idempotent, in any state | may be done again: listed |
| `compensated`, or resolved by an operator | reconciled: listed |
| `done` | guarded, if under a stable key and through the gate; else it blocks |
| `intended`, `unknown` | it blocks until it is settled or resolved, except where it was already in flight at the target |

That the target is the latest checkpoint proves nothing: effects may have come after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from lineal.errors import PolicyError, UnsafeEffectError, UnsafeRollbackError, Verdict
from lineal.rules import Row, Table

State = Literal["intended", "done", "no_effect", "unknown", "compensated"]
EffectId = int | str

# --- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EffectRecord:
    """One effect as the ledger has it. `seq`: of its intent. `keyed`: under a stable key. `guarded`: sent through the gate.

    `resolved`: an operator found out what became of it; `state` is then what was found.
    """

    key: str
    seq: int
    idempotent: bool = False
    state: State = "done"
    keyed: bool = True
    guarded: bool = True
    resolved: bool = False

    @property
    def happened(self) -> bool:
        """It was done, or may have been."""
        return self.state != "no_effect"

    @property
    def weighs(self) -> bool:
        """Done or perhaps done, not repeatable, and nobody has reconciled it."""
        return self.happened and not (self.idempotent or self.resolved or self.state == "compensated")

    @property
    def open(self) -> bool:
        return self.state in ("intended", "unknown")


@dataclass(frozen=True)
class RollbackFacts:
    """What the rule must know. `effects`: at least those above `target`; older ones do no harm.

    `watermark`: the target's, None where it cannot be read as data. `oldest`: the oldest seq that can still be rebuilt.
    `ledger`: a ledger survives the rollback. `in_flight_at_target`: keys of effects that were open at the target, also
    of those that were settled after it. `asked`: what was asked, where seqs are not the caller's words.
    """

    target: int
    head: int
    watermark: EffectId | None
    effects: tuple[EffectRecord, ...] = ()
    ledger: bool = True
    raw_gone: bool = False
    oldest: int = 0
    in_flight_at_target: tuple[str, ...] = ()
    asked: str = ""

    @property
    def pending(self) -> tuple[EffectRecord, ...]:
        """Effects in `(target, head]` or in flight at the target, that happened or may have."""
        return tuple(e for e in self.effects if e.happened and (e.seq > self.target or e.key in self.in_flight_at_target))

    @property
    def weighing(self) -> tuple[EffectRecord, ...]:
        return tuple(e for e in self.pending if e.weighs)

    @property
    def unresolved(self) -> tuple[EffectRecord, ...]:
        """Unknown outcomes that the target's own view does not already hold as in flight."""
        return tuple(e for e in self.weighing if e.open and e.key not in self.in_flight_at_target)

    @property
    def unguarded(self) -> tuple[EffectRecord, ...]:
        """What nothing would answer for, if it were sent again.

        One that was in flight at the target through the gate keeps its emission there, so the ledger answers without a
        caller's key; one outside the gate that was done since would be done again by whoever finds its call open.
        """
        loose = (e for e in self.weighing if not (e.keyed and e.guarded))
        return tuple(e for e in loose if e.seq > self.target or (e.state == "done" and not e.guarded))

    @property
    def refused(self) -> tuple[EffectRecord, ...]:
        """What stands in the way. Without a watermark or a ledger nothing can be ordered, so everything that weighs does."""
        if self.watermark is None or not self.ledger:
            return self.weighing
        return tuple(e for e in self.weighing if e in self.unresolved or e in self.unguarded)

    @property
    def guarded(self) -> tuple[EffectRecord, ...]:
        """Done, not repeatable, and the ledger will answer for it."""
        return tuple(e for e in self.weighing if e.state == "done" and e not in self.refused)


def _keys(effects: Iterable[EffectRecord]) -> tuple[str, ...]:
    return tuple(e.key for e in effects)


def _named(effects: Iterable[EffectRecord]) -> str:
    return ", ".join(f"{e.key!r} ({e.state}, seq {e.seq})" for e in effects)


def _asked(facts: RollbackFacts) -> str:
    return facts.asked or f"rollback to seq {facts.target} from head {facts.head}"


TABLE: Table[RollbackFacts] = Table(
    "rollback",
    "record 003",
    "may we go back, given the effects in `(target, head]`?",
    (
        Row(
            "raw_gone",
            "the target's raw entries are gone",
            "refuse, naming the oldest reachable seq",
            lambda f: f.raw_gone,
            tell=lambda f: f"{_asked(f)}: its raw entries are gone; the oldest seq that can still be reached is {f.oldest}.",
            remedy="roll back to the oldest reachable seq or above, or import a backup as another session",
        ),
        Row(
            "no_ledger",
            "no ledger survives the rollback",
            "refuse: that nothing was done since cannot be proven",
            lambda f: not f.ledger,
            tell=lambda f: f"{_asked(f)}: no effect ledger survives it, so what was done since cannot be known.",
            remedy="find out what was done since, enter it in a ledger, then ask again",
        ),
        Row(
            "no_watermark",
            "the target has no machine-readable watermark, and an effect that may not be repeated was or may have been done",
            "refuse",
            lambda f: f.watermark is None and bool(f.weighing),
            tell=lambda f: (
                f"{_asked(f)}: its effect watermark cannot be read as data, so {len(f.weighing)} effects "
                f"cannot be ordered against it: {_named(f.weighing)}."
            ),
            remedy="choose a target that records its watermark, or resolve each effect named",
        ),
        Row(
            "unknown_outcome",
            "any that may not be repeated has an unknown outcome",
            "refuse until resolved",
            lambda f: bool(f.unresolved),
            tell=lambda f: f"{_asked(f)}: the outcome of {len(f.unresolved)} effects is not known: {_named(f.unresolved)}.",
            remedy="resolve each (`resolve_effect(key, finding)`), or wait for its holder to settle it",
        ),
        Row(
            "unguarded",
            "any that may not be repeated was recorded without a stable key, or seen outside the gate",
            "refuse until resolved",
            lambda f: bool(f.unguarded),
            tell=lambda f: (
                f"{_asked(f)}: nothing would keep {len(f.unguarded)} effects from being sent again, they have no stable "
                f"key or did not pass the gate: {_named(f.unguarded)}."
            ),
            remedy="resolve each (`resolve_effect(key, finding)`); give effects a key of their own from now on",
        ),
        Row(
            "in_flight_at_target",
            "the target was taken with a call open or an effect in flight",
            "allow; those effects are *unknown* in the new view until resolved",
            lambda f: bool(f.in_flight_at_target),
            allowed=True,
            tell=lambda f: f"in flight at seq {f.target}, unknown in the new view until resolved: {', '.join(f.in_flight_at_target)}",
        ),
        Row(
            "none",
            "nothing was done since the target",
            "allow",
            lambda f: not f.pending,
            allowed=True,
            tell=lambda f: f"{_asked(f)}: no effect lies between",
        ),
        Row(
            "all_idempotent",
            "all are idempotent",
            "allow, listed",
            lambda f: all(e.idempotent for e in f.pending),
            allowed=True,
            tell=lambda f: f"may be done again: {_named(f.pending)}",
        ),
        Row(
            "reconciled",
            "all that may not be repeated were resolved or compensated",
            "allow, listed",
            lambda f: not f.weighing,
            allowed=True,
            tell=lambda f: f"reconciled or idempotent: {_named(f.pending)}",
        ),
        Row(
            "guarded",
            "all that may not be repeated are settled in the ledger under a stable key, and emission goes through it",
            "allow as *guarded*, listed; the new view carries a note of what is already done",
            lambda f: True,
            allowed=True,
            tell=lambda f: f"already done, and answered from the ledger: {_named(f.guarded)}",
        ),
    ),
)


def judge(facts: RollbackFacts) -> Verdict:
    """May we go back? The verdict's facts list keys: `guarded`, `refused`, `idempotent`, `reconciled`, `in_flight_at_target`."""
    shown = {
        "target": facts.target,
        "head": facts.head,
        "watermark": facts.watermark,
        "guarded": _keys(facts.guarded),
        "refused": _keys(facts.refused),
        "idempotent": _keys(e for e in facts.pending if e.idempotent),
        "reconciled": _keys(e for e in facts.pending if not e.idempotent and not e.weighs),
        "in_flight_at_target": facts.in_flight_at_target,
    }
    if facts.raw_gone:
        shown["oldest"] = facts.oldest
    return TABLE.decide(facts, shown)


# --- the names of record 003 -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Checkpoint:
    """A place to come back to: a materialised fold, with the watermark of its ledger as data (R63).

    `effect_watermark`: the last effect that may not be repeated, settled when the checkpoint was taken; 0 if there was
    none, None if it was compressed into prose and cannot be read any more. `digest`: of the state. `at`: seconds, for people.
    """

    checkpoint_id: str
    effect_watermark: EffectId | None = None
    _: KW_ONLY
    seq: int = 0
    generation: int = 0
    label: str = ""
    digest: str = ""
    at: float = 0.0


_FORWARD: dict[State, tuple[State, ...]] = {
    "intended": ("done", "no_effect", "unknown", "compensated"),
    "unknown": ("done", "no_effect", "compensated"),
    "no_effect": ("intended", "done", "unknown"),
    "done": ("compensated",),
    "compensated": (),
}


class EffectLedger:
    """Effects in the order they were recorded; it only grows, and no effect goes back to a state it has left.

    For a host that keeps its own log. A session's ledger is its log. Ids are all numbers or all texts. Whether the
    ledger is whole is not asked here: that is a question of integrity.
    """

    def __init__(self) -> None:
        self._records: dict[EffectId, EffectRecord] = {}

    def record(self, effect_id: EffectId, idempotent: bool, *, state: State = "done", guarded: bool = True) -> None:
        """Enter an effect, or carry a known one to its next state. The same once more changes nothing.

        `guarded` False: it was seen outside the gate, so nothing will ask the ledger before it is sent again.
        Raises `UnsafeEffectError` for another class than recorded or a state already left, `PolicyError` for a bad id.
        """
        self._check_id(effect_id)
        if state not in _FORWARD or not isinstance(idempotent, bool):
            raise _unusable("record", f"effect {effect_id!r}: idempotent {idempotent!r}, state {state!r}", f"one of {', '.join(_FORWARD)}")
        old = self._records.get(effect_id)
        if old is None:
            self._records[effect_id] = EffectRecord(str(effect_id), len(self._records) + 1, idempotent, state, True, guarded)
            return
        if old.idempotent != idempotent:
            raise _conflict("class_conflict", effect_id, f"idempotent={old.idempotent}", f"idempotent={idempotent}")
        if old.state != state and state not in _FORWARD[old.state]:
            raise _conflict("state_left", effect_id, old.state, state)
        self._records[effect_id] = EffectRecord(old.key, old.seq, idempotent, state, True, old.guarded and guarded)

    @property
    def committed(self) -> list[tuple[EffectId, bool]]:
        """(id, idempotent) of what was done for certain, compensated or not."""
        return [(id, e.idempotent) for id, e in self._records.items() if e.state in ("done", "compensated")]

    def effects_after(self, watermark: EffectId | None) -> list[tuple[EffectId, bool]]:
        """(id, idempotent) of what was or may have been done after `watermark` (None: of all)."""
        return [(id, e.idempotent) for id, e in self._after(watermark) if e.happened]

    def records_after(self, watermark: EffectId | None) -> tuple[EffectRecord, ...]:
        """The same as records, in the order they were entered; their `seq` is that order."""
        return tuple(e for _, e in self._after(watermark) if e.happened)

    def _after(self, watermark: EffectId | None) -> list[tuple[EffectId, EffectRecord]]:
        """By id, and by order of entry where the watermark stands here: "e10" came after "e9", whatever their texts say."""
        if watermark is None:
            return list(self._records.items())
        self._check_id(watermark)
        known = self._records.get(watermark)
        return [(id, e) for id, e in self._records.items() if _above(id, watermark) or (known is not None and e.seq > known.seq)]

    def _check_id(self, effect_id: EffectId) -> None:
        if isinstance(effect_id, bool) or not isinstance(effect_id, int | str):
            raise _unusable("effect_id", f"effect id {effect_id!r}", "a whole number or a text")
        first = next(iter(self._records), effect_id)
        if isinstance(first, str) != isinstance(effect_id, str):
            raise _unusable("effect_id", f"id {effect_id!r} beside {first!r}", "of one type, or they cannot be ordered")


def _above(effect_id: EffectId, watermark: EffectId) -> bool:
    if isinstance(effect_id, str) and isinstance(watermark, str):
        return effect_id > watermark
    return isinstance(effect_id, int) and isinstance(watermark, int) and effect_id > watermark


def authorize_rollback(target: Checkpoint, ledger: EffectLedger | None, is_latest: bool) -> Verdict:
    """Record 003's gate: the (true) verdict that allows going back to `target`, with the guarded keys in its facts.

    Raises `UnsafeRollbackError`. `is_latest` decides nothing: effects may have come after the latest checkpoint too.
    """
    effects = ledger.records_after(target.effect_watermark) if ledger is not None else ()
    name = f"checkpoint {target.checkpoint_id!r} (effect watermark {target.effect_watermark!r})"
    verdict = judge(
        RollbackFacts(
            target=0,
            head=len(effects),
            watermark=target.effect_watermark,
            effects=effects,
            ledger=ledger is not None,
            asked=f"rollback to {name}, {len(effects)} effects above it",
        )
    )
    if not verdict:
        raise UnsafeRollbackError(verdict)
    return verdict


def _unusable(reason: str, got: str, wanted: str) -> PolicyError:
    return PolicyError(Verdict("ledger", reason, message=f"{got}: must be {wanted}.", remedy="correct the call; nothing was recorded"))


def _conflict(reason: str, effect_id: EffectId, stands: str, asked: str) -> UnsafeEffectError:
    message = f"effect {effect_id!r} stands as {stands} and was asked to become {asked}; the entry is untouched."
    facts = {"effect_id": effect_id, "stands": stands, "asked": asked}
    return UnsafeEffectError(Verdict("ledger", reason, message=message, remedy="use a new id for another effect", facts=facts))
