"""Checkpoint, recovery, rollback: three ways to stand at a seq, each with its rule. `forking` has the fourth.

| verb | what it appends | rule |
|---|---|---|
| `checkpoint` | `CheckpointTaken`, behind a materialised state | refused while a compaction is in flight (R63) |
| `recover` | the abort of a dead holder's compaction, *unknown* for a dead holder's effects; nothing else | recovery (000) |
| `rollback` | `RolledBack` with the view at the target: going back is going forward | rollback (003) |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import msgspec

from lineal import codec, ranges, working_set
from lineal.entries import (
    CheckpointTaken,
    EffectIntended,
    EffectResolved,
    EffectSettled,
    Entry,
    RolledBack,
)
from lineal.errors import CompactionLineageError, Conflict, Corrupt, Refused, UnsafeRollbackError, Verdict, quoted
from lineal.fold import fold
from lineal.holder import alive, describe
from lineal.lineage import Lineage, TurnItem, place, to_state
from lineal.rules import recovery as recovery_rule
from lineal.rules import rollback as rollback_rule
from lineal.rules.cut import above_trigger, units
from lineal.rules.recovery import Candidate, RecoveryFacts
from lineal.rules.rollback import Checkpoint, EffectRecord, RollbackFacts
from lineal.session import recall, states
from lineal.session.arguments import MOST
from lineal.session.compaction import closing
from lineal.session.effects import row_of
from lineal.session.lookups import find_all
from lineal.session.outcomes import LedgerRow, Recovery, Rollback
from lineal.session.states import pack

if TYPE_CHECKING:
    from lineal.session import Session

_SEQ = re.compile("[0-9]{1,15}")
NOTED_EFFECTS = 20  # effects that a rollback's note names one by one


# --- checkpoint --------------------------------------------------------------------------------------------------------


def checkpoint(session: Session, label: str) -> Checkpoint:
    """Materialise the fold and record it. Raises `CompactionLineageError` while a compaction is in flight."""

    def decide(lineage: Lineage) -> Sequence[Entry]:
        flight = lineage.in_flight
        if flight:
            who = describe(flight.lease, session.clock)
            raise CompactionLineageError(
                Verdict(
                    "recovery",
                    "taken_in_flight",
                    message=f"generation {flight.generation} is in flight since seq {flight.seq} ({who}); a checkpoint now would be torn.",
                    remedy="commit or abort it first; recover() closes one whose holder died",
                    facts={"generation": flight.generation, "seq": flight.seq},
                )
            )
        state = pack(lineage)
        states.keep(session.engine, session.name, lineage.head, state)
        return [
            CheckpointTaken(
                id=f"cp{lineage.head + 1}",
                label=label,
                generation=lineage.generation,
                state_digest=state[:32].hex(),
                watermark=lineage.watermark,
            )
        ]

    session.log.catch_up()
    session.log.write(lambda lineage: closing(session, lineage))
    lineage, rows = session.log.write(decide)
    return _checkpoint_at(rows[-1].seq, cast(CheckpointTaken, codec.decode(rows[-1].body)))


def _checkpoint_at(seq: int, e: CheckpointTaken) -> Checkpoint:
    return Checkpoint(e.id, e.watermark, seq=seq, generation=e.generation, label=e.label, digest=e.state_digest, at=e.at)


def checkpoints(session: Session) -> list[Checkpoint]:
    """All that are retained, newest first."""
    return [_checkpoint_at(seq, e) for seq, e in _taken(session)]


def _taken(session: Session) -> Iterator[tuple[int, CheckpointTaken]]:
    """Newest first. One that is not there any more must have been pruned: an older one of its label is no substitute."""
    found = find_all(session.log, session.log.lineage, "checkpoint", "checkpoint")
    return ((row.seq, e) for row, e in found if isinstance(e, CheckpointTaken))


# --- recovery ----------------------------------------------------------------------------------------------------------


def recover(session: Session) -> Recovery:
    """Come back after a fault. Raises `CompactionLineageError` while a live holder compacts, or when a hole is in the way.

    Writes only what the fault left open; called on a sound session it writes nothing.
    """
    lineage = session.log.catch_up()
    choice = recovery_choice(session, lineage)
    if choice.target is None:
        raise CompactionLineageError(choice.verdict)
    aborted = lineage.in_flight.generation if lineage.in_flight and choice.abort_open else None
    unknown: list[str] = []

    def decide(lineage: Lineage) -> Sequence[Entry]:
        entries = closing(session, lineage)
        dead = [e for e in lineage.effects if e.state == "intended" and not alive(e.lease, session.clock, expires=False)]
        unknown[:] = [e.key for e in dead]
        why = "its holder is gone"
        return [*entries, *(EffectSettled(key=e.key, attempt=e.attempt, state="unknown", why=why) for e in dead)]

    live, _ = session.log.write(decide)
    _confirm(session, live, choice.seq - (choice.target == "checkpoint"))
    session.finish_removal()
    passed = tuple((c.id, verdict) for c, verdict in choice.passed_over)
    return Recovery(choice.target, choice.seq, choice.why, choice.checkpoint_id, passed, tuple(unknown), aborted)


def _confirm(session: Session, live: Lineage, wanted: int) -> None:
    """A second opinion: rebuilt from the state at or below `wanted`, the fold gives the live state. Raises `Corrupt`.

    Others may prune meanwhile: then from where it can still be rebuilt, and once more with what they have written.
    """
    while True:
        base, told = wanted, None
        try:
            base = max(wanted, oldest_reachable(session, live))  # below it rows were pruned
            told = session.log.at_from(base, live.head)
        except Refused:
            if session.log.catch_up() == live:
                raise
        if told == live:
            return
        if told is not None and session.log.catch_up() == live:
            raise Corrupt(session.name, wanted, f"the live state, rebuilt from seq {base}", "another state", "recovery disagrees")
        live = session.log.lineage


def recovery_choice(session: Session, lineage: Lineage) -> recovery_rule.RecoveryChoice:
    """What `recover` would do, without doing it: the rule's answer, with a verdict for each checkpoint passed over."""
    return recovery_rule.choose(recovery_facts(session, lineage), candidates(session))


def recovery_facts(session: Session, lineage: Lineage) -> RecoveryFacts:
    """What the rule is told about this moment; no candidate yet."""
    flight = lineage.in_flight
    live = flight is not None and alive(flight.lease, session.clock)
    return RecoveryFacts(
        committed_at=lineage.committed_at,
        rolled_back_at=lineage.rolled_back_at,
        open_compaction=None if flight is None else "live" if live else "dead",
        generation=flight.generation if flight else 0,
        holder=describe(flight.lease, session.clock) if flight else "",
        deadline=flight.lease.deadline if flight else None,
        replay_from=lineage.covered_through,
    )


def restorable(session: Session, seq: int, name: str) -> Verdict:
    """The rule's verdict on a state that a host kept at `seq`. A rollback overtakes only what it left behind."""
    lineage = session.log.catch_up()
    facts = recovery_facts(session, lineage)
    behind = 0 if lineage.on_branch(seq) else facts.rolled_back_at
    live = facts.open_compaction if facts.open_compaction == "live" else None
    return recovery_rule.judge(replace(facts, candidate=Candidate(name, seq), rolled_back_at=behind, open_compaction=live))


def candidates(session: Session) -> Iterator[Candidate]:
    """Every retained checkpoint as recovery sees it, newest first: is its state still what its digest says?"""
    for seq, entry in _taken(session):
        state = session.engine.state(session.name, seq - 1)
        sound = state is not None and state[0] == seq - 1 and state[1][:32].hex() == entry.state_digest
        yield Candidate(entry.id, seq, entry.in_flight, sound)


# --- rollback ----------------------------------------------------------------------------------------------------------


def resolve_target(session: Session, target: Checkpoint | int | str) -> tuple[int, Checkpoint | None]:
    """The seq a target means. A name is a checkpoint's id or label (the newest one). Raises `Refused` for an unknown one."""
    if isinstance(target, bool) or not isinstance(target, Checkpoint | int | str):
        raise Refused(_unknown_target(session, target))
    if isinstance(target, int) and abs(target) <= MOST:
        return target, None
    if isinstance(target, str) and _SEQ.fullmatch(target):
        return int(target), None
    known = checkpoints(session)
    wanted = target.checkpoint_id if isinstance(target, Checkpoint) else target
    digest = target.digest if isinstance(target, Checkpoint) else ""
    found = next((c for c in known if c.checkpoint_id == wanted and digest in ("", c.digest)), None)
    found = found or next((c for c in known if c.label == target), None)
    if found is None:
        raise Refused(_unknown_target(session, wanted))
    return found.seq, target if isinstance(target, Checkpoint) else found


def _unknown_target(session: Session, target: object) -> Verdict:
    known = ", ".join(c.checkpoint_id for c in checkpoints(session)[:5]) or "none"
    return Verdict(
        "rollback",
        "unknown_target",
        message=f"{quoted(target)} is neither a seq nor a checkpoint of session {session.name!r}.",
        remedy=f"checkpoints are: {known}; or name a seq from `lineal log`",
    )


def rollback(session: Session, target: Checkpoint | int | str, dry_run: bool, expected_head: int | None) -> Rollback:
    """Go back on purpose: append a head whose view is the fold at the target. Raises `UnsafeRollbackError`, `Conflict`.

    A dry run gives the same plan and raises only for a target that does not exist.
    """
    seq, named = resolve_target(session, target)
    outcome: list[Rollback] = []

    def decide(lineage: Lineage) -> Sequence[Entry]:
        outcome.clear()
        if not dry_run and (lineage.pruning or lineage.purging):
            return []  # what is being removed can still be read, and must not be gone back to
        if expected_head is not None and lineage.head != expected_head:
            raise Conflict(session.name, expected_head, lineage.head, "newer work stands behind the plan")
        past, verdict = _judge(session, lineage, seq, named)
        facts = verdict.facts
        stay = {t.seq for t in _promised(lineage, past)} if past else set()
        outcome[:] = [
            Rollback(
                seq=lineage.head + 1,
                target=seq,
                guarded=tuple(facts.get("guarded", ())),
                refused=tuple(facts.get("refused", ())),
                left_behind=_left_behind(session, lineage, seq, stay),
                verdict=verdict,
                dry_run=dry_run,
            )
        ]
        if dry_run:
            return []
        if not verdict.allowed or past is None:
            raise UnsafeRollbackError(verdict)
        return [_rolled_back(session, lineage, past, outcome[0], named)]

    if dry_run:
        decide(session.log.catch_up())
    while not outcome:
        session.finish_removal()
        lineage, _ = session.log.write(decide)
    if not dry_run:
        session.log.keep_state()
        policy = session.policy
        if above_trigger(lineage, policy):
            session.maybe_compact()
    return outcome[0]


def _judge(session: Session, lineage: Lineage, seq: int, named: Checkpoint | None) -> tuple[Lineage | None, Verdict]:
    if seq >= lineage.head or seq < 0:
        what = "is the head" if seq == lineage.head else "lies outside the log"
        return None, Verdict(
            "rollback",
            "nothing_to_roll_back",
            message=f"seq {seq} {what} (head {lineage.head}).",
            remedy="name a seq below the head",
        )
    if seq in lineage.promised or not (seq == 0 or lineage.on_branch(seq)):
        return None, Verdict(
            "rollback",
            "left_behind",
            message=f"seq {seq} was left behind by an earlier rollback; what hangs on it stays dead (R40).",
            remedy="name a seq of the current branch; fork(at=...) can still look at it",
        )
    past = reachable(session, seq)
    facts = RollbackFacts(
        target=seq,
        head=lineage.head,
        watermark=named.effect_watermark if named else 0,
        effects=tuple(_records(session, lineage, seq, past)),
        raw_gone=past is None,
        oldest=_oldest(session, lineage) if past is None else 0,
        in_flight_at_target=tuple(e.key for e in past.effects) if past else (),
    )
    return past, rollback_rule.judge(facts)


def _records(session: Session, lineage: Lineage, seq: int, past: Lineage | None) -> Iterator[EffectRecord]:
    keys = dict.fromkeys(e.key for _, e in session.log.entries(seq) if isinstance(e, EffectIntended | EffectSettled | EffectResolved))
    keys.update(dict.fromkeys(e.key for e in past.effects) if past else {})
    for row in filter(None, (row_of(session, lineage, key) for key in keys)):
        yield EffectRecord(row.key, row.seq, row.idempotent, cast(Any, row.state), row.keyed, row.guarded, row.resolved)


def _left_behind(session: Session, lineage: Lineage, seq: int, stay: set[int]) -> tuple[str, ...]:
    turns = session.log.entries(seq, kinds=("turn",))
    return tuple(cast(Any, entry).id for row, entry in turns if lineage.on_branch(row.seq) and row.seq not in stay)


def _promised(lineage: Lineage, past: Lineage) -> list[TurnItem]:
    """Turns that a pin of before or after keeps, with their units, unless a node of the target's view stands for them."""
    pins = {p.turn for p in (*past.pins, *lineage.pins) if p.turn}
    held = (t for u in units(lineage.turns) if any(t.id in pins for t in u.turns) for t in u.turns)
    covered = [r for n in past.nodes for r in n.ranges]
    return [t for t in held if not any(a <= t.seq <= b for a, b in covered)]


def reachable(session: Session, seq: int) -> Lineage | None:
    """The fold at `seq`, or None where its raw entries are gone: those that it is made of, or those that its view is to show."""
    try:
        past = session.log.at(seq)
    except Refused:
        return None
    gone = ranges.overlap(((t.seq, t.seq) for t in past.turns), [(run.first, run.last) for run in session.log.holes()])
    # A spill's ranges run over what is no turn too, and that may go.
    return past if not gone and all(recall.whole(session, past, n) for n in past.nodes if n.kind == "spill") else None


def _oldest(session: Session, lineage: Lineage) -> int:
    """The oldest materialised seq that can still be gone back to; the head if none can."""
    above = (s for s in session.engine.states(session.name) if s >= oldest_reachable(session, lineage))
    return next((s for s in above if reachable(session, s)), lineage.head)


def oldest_reachable(session: Session, lineage: Lineage) -> int:
    """The oldest seq of the tail that can still be rebuilt: no pruned range lies between its state and the head."""
    holes = max((run.last for run in session.log.holes()), default=0)
    return min((s for s in session.engine.states(session.name) if s >= holes), default=lineage.head)


def _rolled_back(session: Session, lineage: Lineage, past: Lineage, plan: Rollback, named: Checkpoint | None) -> RolledBack:
    """The entry, with everything that a promise keeps: pins of before and after, and their turns."""
    purged = {t.seq: t.id for t in past.turns if t.seq in session.log.erased()}
    pins = {p.id: p for p in (*past.pins, *lineage.pins) if p.turn not in purged.values()}
    there = {t.seq for t in past.turns}
    items = [
        *(i for i in past.items if not (isinstance(i, TurnItem) and i.seq in purged)),
        *(t for t in _promised(lineage, past) if t.seq not in there),
    ]
    state = msgspec.structs.replace(past, items=tuple(sorted(items, key=place)), pins=tuple(pins.values()), in_flight=None)
    open_now = {e.key for e in lineage.effects}
    entry = RolledBack(
        target=plan.target,
        past=to_state(state),
        guarded=plan.guarded,
        unknown=tuple(e.key for e in past.effects if e.key in open_now),
        checkpoint=named.checkpoint_id if named else "",
    )
    draft = fold(lineage, lineage.head + 1, lineage.digest, "", entry)
    head = [f"gone back from seq {lineage.head} to seq {plan.target}; {len(plan.left_behind)} turns were left behind"]
    noted = {d.key for d in draft.done}
    head += [_done_line(row_of(session, lineage, key)) for key in plan.guarded[:NOTED_EFFECTS] if key not in noted]
    note = working_set.make_note(draft, session.policy.summary_max_tokens, session.counter, head)
    return msgspec.structs.replace(entry, note=note)


def _done_line(row: LedgerRow | None) -> str:
    if row is None:
        return ""
    outcome = codec.sorted_json(row.outcome).decode("utf-8", "replace")[:120]
    return f"already done: {row.tool} (key {row.key}, seq {row.seq}), outcome {outcome}; not to be repeated"
