"""Context compaction: the protocol of the view.

| step | log tail | a crash here means |
|---|---|---|
| `plan`: cut, rule (pure) | 40 | nothing happened |
| append `CompactionBegun` (ids, lease) | 40 41b | 41b alone, its holder dead: aborted; the old generation is the truth |
| the model writes the summary | 40 41b 42 43 | the same; turns 42 and 43 came meanwhile and stay after the summary |
| `commit`: acceptance, rule again (pure) | 40 41b 42 43 | the same |
| append `CompactionCommitted`, read it back | 40 41b 42 43 44c | committed: the new generation is the truth |

A spill takes the last step only: it is lossless, so there is nothing to wait for. Every change of the view, whatever
asked for it (manual, trigger, ceiling, explicit spill), is a `CompactionCommitted` made by `generation.build` (R10).
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import msgspec

from lineal import anchors, codec, messages, ranges
from lineal.entries import (
    CompactionAborted,
    CompactionBegun,
    CompactionCommitted,
    Entry,
    Node,
    Suspended,
)
from lineal.errors import Corrupt, LinealError, PolicyError, Refused, Unavailable, UnrecoverableCompactionError, Verdict
from lineal.holder import alive, describe, give_up, lease
from lineal.lineage import Item, Lineage, TurnItem, calibrated, place
from lineal.rules import compaction as rule
from lineal.rules import summary as acceptance
from lineal.rules.compaction import CompactionFacts
from lineal.rules.cut import STUB_LIMIT, Cut, cut, floor_of, name, protected, units
from lineal.session.generation import announce, build, compacted, raw_ranges, readable_tokens, stubs_for, summary_budget, view_digest
from lineal.session.outcomes import Compacted, Plan
from lineal.summarizers import Summary, SummaryRequest, build_request

if TYPE_CHECKING:
    from lineal.session import Session

PROMPT_TOKENS = 450  # what the instructions of a summary request take, reserved in a small window
MARKER_TOKENS = 16  # what the prompt puts around each turn


# --- plan --------------------------------------------------------------------------------------------------------------


def plan(
    session: Session, *, request_id: str | None = None, automatic: bool = False, window: int | None = None, further: bool = False
) -> Plan:
    """Decide what would be covered and append `CompactionBegun`. Raises `Refused`; nothing is written then.

    `further`: the call before left turns for this one, so that an unchanged session is no reason to stop.
    """
    chosen: list[tuple[Cut, bool]] = []
    request_id = request_id or uuid.uuid4().hex

    def decide(lineage: Lineage) -> Sequence[Entry]:
        fill = _headroom(session, lineage) if automatic else 0
        whole = cut(lineage, session.policy, fill)
        fitted = _fit(whole, lineage, session, window) if window else whole
        unchanged = not (further or automatic) and _unchanged(session, lineage)
        judge_plan(session, lineage, fitted, automatic, window, unchanged)
        chosen[:] = [(fitted, len(fitted.later) > len(whole.later))]
        begun = CompactionBegun(
            generation=lineage.last_generation + 1,
            request_id=request_id,
            covered=fitted.covered_ids,
            kept=fitted.kept_ids,
            spilled=tuple(t.id for t in fitted.put_aside),
            input_digest=view_digest(fitted.covered),
            lease=lease(session.holder, session.policy.lease_seconds, session.clock),
            policy=asdict(session.policy),
        )
        return [*closing(session, lineage), begun]

    lineage, rows = session.log.write(decide)
    ((fitted, more),) = chosen
    flight = lineage.in_flight
    assert flight is not None
    try:
        request = _request(session, lineage, fitted, flight.generation, window)
    except BaseException:
        gone = CompactionAborted(generation=flight.generation, why="its turns could not be read")
        give_up(flight.lease)
        with suppress(LinealError):  # found damage makes the log read-only: the plan is given up, and what was found is raised
            session.log.write(lambda now: [gone] if now.in_flight == flight else [])
        raise
    spilled = tuple(t.id for t in fitted.put_aside)
    return Plan(
        session=session.name,
        generation=flight.generation,
        covered=tuple(t.id for t in request.turns),
        kept=tuple(i.id for i in fitted.kept if isinstance(i, TurnItem) and i.id not in spilled),
        spilled=spilled,
        nodes=tuple(i.handle for i in fitted.covered if isinstance(i, Node)),
        request=request,
        request_id=request_id,
        epoch=lineage.epoch,
        parent=lineage.generation,
        begun_seq=rows[-1].seq,
        automatic=automatic,
        more=more,
    )


def _unchanged(session: Session, lineage: Lineage) -> bool:
    """Whether the last generation was made from just this: no turn, pin or eviction since, and the same policy."""
    same = lineage.committed_changed_at == lineage.changed_at and lineage.policy == asdict(session.policy)
    return lineage.generation > 0 and same and not lineage.nodes_are_spills


def judge_plan(session: Session, lineage: Lineage, chosen: Cut, automatic: bool, window: int | None, unchanged: bool) -> None:
    """Raise what the rule's table says about this cut, or return."""
    flight = lineage.in_flight
    other = describe(flight.lease, session.clock) if flight and alive(flight.lease, session.clock) else ""
    missing = tuple(t for t in chosen.floor if t.gone)
    kept = calibrated(sum(i.tokens for i in chosen.kept if i not in chosen.later), lineage)  # what is later covered need not stay
    if window and _room(chosen, lineage, session, window) <= 0:
        missing = missing or chosen.floor
    facts = CompactionFacts(
        other_in_flight=other,
        suspended=lineage.suspended and lineage.policy == asdict(session.policy),
        automatic=automatic,
        unchanged=unchanged,
        coverable=len(chosen.covered),
        new_turns=sum(isinstance(i, TurnItem) for i in chosen.covered),
        held_by=chosen.held_by,
        over_window=tuple(t.id for t in chosen.later if isinstance(t, TurnItem))[:1] if window and not chosen.covered else (),
        floor_missing=tuple(t.id for t in missing),
        floor_range=f"seq {missing[0].seq}..{missing[-1].seq}" if missing else "",
        kept_tokens=kept - sum(t.tokens - STUB_LIMIT // 3 for t in chosen.put_aside),
        ceiling=session.policy.ceiling,
    )
    demand(rule.judge(facts))


def demand(verdict: Verdict) -> None:
    if not verdict.allowed:
        raise UnrecoverableCompactionError(verdict) if verdict.reason == "floor_missing" else Refused(verdict)


def closing(session: Session, lineage: Lineage) -> list[Entry]:
    """The abort of an open compaction whose holder is gone: it blocks nothing (R33)."""
    flight = lineage.in_flight
    gone = flight is not None and not alive(flight.lease, session.clock)
    return [CompactionAborted(generation=flight.generation, why="its holder is gone")] if flight and gone else []


def _headroom(session: Session, lineage: Lineage) -> int:
    """Uncalibrated tokens that kept turns may take so that they and a summary meet the target."""
    policy = session.policy
    return max(0, int((policy.target - summary_budget(session) - lineage.overhead) / lineage.factor))


def _fit(whole: Cut, lineage: Lineage, session: Session, window: int) -> Cut:
    """The oldest part of a cut that a summarizer with this window (tokens) can read beside what is kept (R27).

    A spill that alone is too large stays one: it cannot be lost, only not be summarised.
    """
    room = whole_room = _room(whole, lineage, session, window)
    unit_of = {t.id: u for u in units(lineage.turns) for t in u.turns}
    taken: dict[str, Item] = {}
    for item in whole.covered:
        if name(item) in taken:
            continue
        members: tuple[Item, ...] = unit_of[item.id].turns if isinstance(item, TurnItem) else (item,)
        size = int(sum(readable_tokens(i) + MARKER_TOKENS for i in members) * lineage.factor)
        if room < size:
            if isinstance(item, Node) and size > whole_room:
                continue
            break
        room -= size
        taken.update({name(i): i for i in members})
    if not any(isinstance(i, TurnItem) for i in taken.values()):
        taken = {}  # nodes alone are worth no pass
    covered = tuple(i for i in whole.covered if name(i) in taken)
    left = tuple(i for i in whole.covered if name(i) not in taken)
    kept = tuple(sorted([*whole.kept, *left], key=place))
    return replace(whole, covered=covered, kept=kept, later=(*left, *whole.later))


def _room(chosen: Cut, lineage: Lineage, session: Session, window: int) -> int:
    """Tokens that a summarizer's window has for covered turns, beside what must stay, the instructions and the answer."""
    must_stay = sum(i.tokens + MARKER_TOKENS for i in chosen.kept if i not in chosen.later)
    return window - calibrated(must_stay, lineage) - summary_budget(session) - PROMPT_TOKENS


def _request(session: Session, lineage: Lineage, chosen: Cut, generation: int, window: int | None) -> SummaryRequest:
    covered = session.read_turns(lineage, raw_ranges(chosen.covered))
    stays = (i for i in chosen.kept if isinstance(i, TurnItem) and not i.gone)
    shown = [i for i in stays if not (window and i in chosen.later)]
    kept = session.read_turns(lineage, [(i.seq, i.seq) for i in shown])
    previous = "\n".join(i.text for i in chosen.covered if isinstance(i, Node) and i.kind == "summary") or None
    found = anchors.merge(lineage.anchors, anchors.extract(covered, messages.text_of))
    return build_request(
        covered,
        previous,
        kept,
        summary_budget(session),
        f"g{generation}",
        generation,
        found,
        messages.text_of,
        ledger=_unsettled(lineage),
        window=window,
    )


def _unsettled(lineage: Lineage) -> tuple[tuple[str, str, str], ...]:
    return tuple((e.key, e.tool, e.state) for e in lineage.effects)


# --- commit ------------------------------------------------------------------------------------------------------------


def commit(session: Session, plan: Plan, summary: str | Summary) -> Compacted:
    """Check the summary, ask the rule again at this head, append `CompactionCommitted`, read it back.

    Raises `Refused`: then the view, the generation and the plan are as they were, and a better summary may be tried.
    """
    given = _as_summary(summary)
    session.log.catch_up()
    stubs = stubs_for(session, plan.spilled)
    outcome: list[Compacted] = []

    def decide(lineage: Lineage) -> Sequence[Entry]:
        overtaken = _overtaken(lineage, plan)
        if overtaken:
            demand(rule.judge(CompactionFacts(overtaken=overtaken)))
        covered = _received(lineage, plan, given)
        entry, after = build(session, lineage, plan.generation, plan.request_id, covered, "summary", given.text, stubs)
        demand(_judge_commit(session, lineage, after, plan, given, covered, entry))
        wanted = sum(name(i) in plan.covered or name(i) in plan.nodes for i in lineage.items)
        entry = msgspec.structs.replace(entry, more=plan.more or len(covered) < wanted)
        stood_for = raw_ranges(covered)
        ids = tuple(t.id for t in plan.request.turns if ranges.contains(stood_for, t.seq))
        outcome[:] = [compacted(lineage, after, entry, ids)]
        announce(session, entry)
        return [entry]

    _, rows = session.log.write(decide)
    _confirm(session, rows[-1].seq, rows[-1].digest)
    session.log.keep_state()
    return outcome[0]


def _as_summary(summary: object) -> Summary:
    if isinstance(summary, Summary):
        return summary
    if summary is None or isinstance(summary, str):
        return Summary(summary or "")
    raise PolicyError(
        Verdict("compaction", "summary_type", message=f"a summary is text or a Summary, not {type(summary).__name__}.", remedy="return str")
    )


def _overtaken(lineage: Lineage, plan: Plan) -> str:
    flight = lineage.in_flight
    if lineage.session != plan.session:
        return f"the plan is of session {plan.session!r}, not of {lineage.session!r}"
    if lineage.epoch != plan.epoch:
        return f"the session was reset (epoch {plan.epoch} -> {lineage.epoch}) while generation {plan.generation} was being written"
    if flight is None or flight.generation != plan.generation or flight.request_id != plan.request_id:
        now = f"generation {flight.generation} is" if flight else "none is"
        return f"generation {plan.generation} is no longer in flight ({now})"
    return ""


def _received(lineage: Lineage, plan: Plan, given: Summary) -> tuple[Item, ...]:
    """The covered items; fewer, at unit edges, if the summarizer says it received fewer (R9), or a unit has grown since (R11)."""
    wanted = {*plan.covered, *plan.nodes}
    grown = {t.id for u in units(lineage.turns) if not all(t.id in wanted for t in u.turns) for t in u.turns}
    covered = tuple(i for i in lineage.items if name(i) in wanted and name(i) not in grown)
    if given.received is None:
        return covered
    received = set(given.received)
    asked = {t.id for t in plan.request.turns}
    whole = {t.id for u in units(lineage.turns) for t in u.turns if all(x.id in received for x in u.turns)}
    if asked <= received:
        return covered
    return tuple(i for i in covered if isinstance(i, TurnItem) and i.id in whole or isinstance(i, Node) and i.kind == "summary")


def _judge_commit(
    session: Session, before: Lineage, after: Lineage, plan: Plan, given: Summary, covered: tuple[Item, ...], entry: CompactionCommitted
) -> Verdict:
    policy = session.policy
    ids = {name(i) for i in covered}
    missing = [t for t in floor_of(before.turns, policy) if t.gone]
    held = protected(before, policy)
    full = len(entry.anchors) >= anchors.ANCHORS_MAX  # then a user's oldest plain numbers are the ones that may go
    lost = [a.value for a in before.anchors if a.author == "user" and a not in entry.anchors and not (full and a.kind == "number")]
    facts = CompactionFacts(
        floor_missing=tuple(t.id for t in missing),
        floor_range=f"seq {missing[0].seq}..{missing[-1].seq}" if missing else "",
        unpartitioned=tuple(_outside(before, after, ids)),
        protected_now=tuple(sorted(ids & held.keys())),
        not_received=() if any(isinstance(i, TurnItem) for i in covered) else tuple(t.id for t in plan.request.turns),
        summary=_accept(session, before, plan, given, covered),
        anchors_lost=tuple(lost),
        kept_tokens=calibrated(sum(i.tokens for i in after.turns if not plan.more or i.id in held), after),
        ceiling=policy.ceiling,
        tokens=(before.view_tokens, after.view_tokens),
        bytes=(before.bytes, after.bytes),
        items=(len(before.items), len(after.items)) if len(before.items) > policy.ceiling_items else (1, 0),
        min_gain=0.0 if plan.more else policy.min_gain,  # a part of a larger pass: the parts together make the gain
    )
    return rule.judge(facts)


def _outside(before: Lineage, after: Lineage, covered: set[str]) -> list[str]:
    """Ids that are not in exactly one of covered and kept (R8)."""
    window = {name(i) for i in before.items} - {""}
    kept = {name(i) for i in after.items} & window
    return sorted((window - kept - covered) | (kept & covered) | (covered - window))


def _accept(session: Session, lineage: Lineage, plan: Plan, given: Summary, covered: tuple[Item, ...]) -> Verdict:
    request, count = plan.request, session.counter.count
    said = [*request.turns, *request.kept]
    earlier = [a.value for a in lineage.anchors if a.author == "user"]
    users = [messages.text_of(t.message) for t in said if t.author == "user"]
    facts = acceptance.SummaryFacts(
        text=given.text,
        stop_reason=given.stop_reason,
        covered_ids=tuple(t.id for t in request.turns if given.received is None or t.id in given.received),
        received=given.received,
        previous_given=request.previous is not None,
        previous_declared=given.previous is not False,
        previous_text=request.previous or "",
        user_texts=(*users, *earlier),
        other_texts=tuple(messages.text_of(t.message) for t in said if t.author != "user"),
        ledger=_unsettled(lineage),
        done_tools={d.tool for d in lineage.done},
        tokens=count(given.text),
        budget=session.policy.summary_max_tokens,
        covered_tokens=sum(i.tokens for i in covered),
    )
    return acceptance.judge(facts)


def _confirm(session: Session, seq: int, digest: bytes) -> None:
    """Read a commit back: what cannot be read now was not written (R35). Others may have purged it since, and say so."""
    row = next(iter(session.engine.scan(session.name, seq - 1, seq)), None)
    if (row is None or row.erased) and session.log.declared_gone(seq):
        return
    row = session.log.restored(row) if row else None
    if row is None or row.digest != digest or codec.digest(row.salt, row.body) != row.inner:
        raise Corrupt(session.name, seq, digest.hex()[:16], row.digest.hex()[:16] if row else "nothing", "commit read back differently")


def abort(session: Session, plan: Plan, why: str, ineffective: bool = False) -> None:
    """Close a plan without effect on the view. A plan that is not in flight any more is left alone."""

    def decide(lineage: Lineage) -> Sequence[Entry]:
        if _overtaken(lineage, plan):
            return []
        entries: list[Entry] = [CompactionAborted(generation=plan.generation, why=why[:500], ineffective=ineffective)]
        if ineffective and lineage.ineffective + 1 >= rule.INEFFECTIVE_MAX and not lineage.suspended:
            entries.append(_suspension(session, lineage))
        return entries

    try:
        session.log.write(decide)
    except Unavailable:
        flight = session.log.lineage.in_flight
        if flight and flight.generation == plan.generation and flight.lease.holder == session.holder:
            give_up(flight.lease)
        raise


def suspend(session: Session) -> None:
    """Record that automatic passes cannot help before something changes from outside."""
    session.log.write(lambda lineage: [] if lineage.suspended else [_suspension(session, lineage)])


def _suspension(session: Session, lineage: Lineage) -> Suspended:
    """The numbers that keep the view from shrinking (R23)."""
    pinned = {p.turn for p in lineage.pins}
    floor = floor_of(lineage.turns, session.policy)
    return Suspended(
        tokens=lineage.view_tokens,
        floor_tokens=calibrated(sum(t.tokens for t in floor), lineage),
        pinned_tokens=calibrated(sum(t.tokens for t in lineage.turns if t.id in pinned), lineage),
        trigger=session.policy.trigger,
        policy=asdict(session.policy),
    )
