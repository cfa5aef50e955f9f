"""Putting turns aside losslessly: the way out when a summary cannot be proven safe, and what the ceiling enforces.

A spill is a generation like any other and goes through the same commit; its turns stay in the log and come back
byte-exact through its handle, which is returned only once they were read back (R10, R53).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from lineal import messages
from lineal.entries import Call, Entry, Evicted, Turn
from lineal.errors import Corrupt, Refused, Verdict
from lineal.holder import alive, describe
from lineal.lineage import Item, Lineage, TurnItem, place
from lineal.rules import compaction as rule
from lineal.rules.compaction import CompactionFacts
from lineal.rules.cut import above_ceiling, cut, newest_user, open_calls, spill_cut, units
from lineal.session import appending
from lineal.session.compaction import demand
from lineal.session.generation import announce, build, compacted, stubs_for
from lineal.session.outcomes import Compacted

if TYPE_CHECKING:
    from lineal.session import Session


def enforce_ceiling(session: Session, because: Refused | None = None, hard: bool = False) -> Compacted | None:
    """Put the oldest unprotected units aside, byte-exact, until the view is back between trigger and ceiling (R10, R28).

    With `hard`, down to the trigger whatever the size. None if the view is below, or nothing could be put aside.
    """
    policy = session.policy
    release = policy.trigger if hard else (policy.trigger + policy.ceiling) // 2
    outcome: Compacted | None = None
    put_aside: list[TurnItem] = []
    for _ in range(2):  # older than the newest user turn, then behind it

        def decide(lineage: Lineage) -> Sequence[Entry]:
            nonlocal outcome, put_aside
            if busy(session, lineage) or not (hard or above_ceiling(lineage, policy)):
                return []
            covered = spill_cut(lineage, policy, release, policy.ceiling_bytes * 9 // 10, policy.ceiling_items * 9 // 10)
            aside = () if covered else cut(lineage, policy).put_aside
            stubs = stubs_for(session, [t.id for t in aside])
            if not covered and not stubs:
                return []
            entry, after = build(session, lineage, lineage.last_generation + 1, uuid.uuid4().hex, covered, "spill", "", stubs)
            if after.view_tokens >= lineage.view_tokens and after.bytes >= lineage.bytes and len(after.items) >= len(lineage.items):
                return []
            announce(session, entry)
            put_aside = [i for i in covered if isinstance(i, TurnItem)]
            outcome = compacted(lineage, after, entry, [t.id for t in put_aside], because)
            return [entry]

        lineage, rows = session.log.write(decide)
        if not rows:
            break
        _prove(session, lineage, put_aside)
    return outcome


def busy(session: Session, lineage: Lineage) -> bool:
    """Whether a compaction is open whose holder must be waited for; one of a dead holder blocks nothing (R33)."""
    return lineage.in_flight is not None and alive(lineage.in_flight.lease, session.clock)


def spill(session: Session, ids: Sequence[str]) -> str:
    """Put these turns aside losslessly; their units come along. Returns the handle once the rows were read back (R53)."""
    handle = ""

    def decide(lineage: Lineage) -> Sequence[Entry]:
        nonlocal handle
        covered = _spillable(session, lineage, set(ids))
        entry, _ = build(session, lineage, lineage.last_generation + 1, uuid.uuid4().hex, covered, "spill", "", ())
        announce(session, entry)
        handle = f"g{entry.generation}"
        return [entry]

    session.log.write(decide)
    session.expand(handle)
    session.log.keep_state()
    return handle


def _spillable(session: Session, lineage: Lineage, ids: set[str]) -> tuple[Item, ...]:
    _present(lineage, ids)
    chosen = [u for u in units(lineage.turns) if any(t.id in ids for t in u.turns)]
    newest = newest_user(lineage.turns)
    stay = {p.turn for p in lineage.pins} | ({newest.id} if newest else set())
    held = [c for u in chosen for c in u.open] + [t.id for u in chosen for t in u.turns if t.id in stay]
    if lineage.in_flight and busy(session, lineage):
        demand(rule.judge(CompactionFacts(other_in_flight=describe(lineage.in_flight.lease, session.clock))))
    if held:
        raise Refused(
            Verdict(
                "compaction",
                "must_stay",
                message=f"open calls, pinned turns and the newest user turn stay: {', '.join(held)}.",
                remedy="answer them, or unpin, first",
            )
        )
    turns = sorted((t for u in chosen for t in u.turns), key=place)
    if newest and turns[0].seq < newest.seq < turns[-1].seq:
        raise Refused(
            Verdict(
                "compaction",
                "two_sides",
                message=f"the turns lie on both sides of the newest user turn {newest.id!r}.",
                remedy="spill them in two calls",
            )
        )
    return tuple(turns)


def _present(lineage: Lineage, ids: set[str]) -> None:
    absent = ids - {t.id for t in lineage.turns}
    if absent or not ids:
        what = ", ".join(sorted(map(str, absent))) or "nothing named"
        raise Refused(Verdict("compaction", "not_in_view", message=f"not in the view: {what}.", remedy="name turns of view().turns"))


def _prove(session: Session, lineage: Lineage, put_aside: Sequence[TurnItem]) -> None:
    """Read back what was newly put aside, before anyone is told that it was (R53). Raises `Corrupt`.

    What others purged or pruned since is declared gone, and not missed.
    """
    found = {t.seq: t.digest for t in session.read_turns(lineage, [(t.seq, t.seq) for t in put_aside])}
    for turn in put_aside:
        if found.get(turn.seq) != turn.digest and not session.log.declared_gone(turn.seq):
            read = found.get(turn.seq, "nothing")[:16]
            raise Corrupt(session.name, turn.seq, turn.digest[:16], read, "spilled turn reads back differently")


def note_eviction(session: Session, ids: Sequence[str], by: str) -> int:
    """Record what a host dropped from its view on its own; returns the seq. Raises `Refused` for a turn not in the view.

    The rest of their units counts as dropped too: no result is shown without its call (R11).
    """

    def decide(lineage: Lineage) -> Sequence[Entry]:
        _present(lineage, set(ids))
        dropped = tuple(t.id for u in units(lineage.turns) if any(t.id in ids for t in u.turns) for t in u.turns)
        return [Evicted(turns=dropped, by=by)]

    return session.log.write(decide)[0].head


def close_calls(session: Session, ids: Sequence[str] | None) -> list[Turn]:
    """Give calls that will never be answered a result that says so, in the log, so that they hold the view no longer.

    `ids`: of calls (None: every open one). Raises `Refused` for one that is not open. Asked again if one is answered meanwhile.
    """
    while True:
        lineage = session.log.catch_up()
        calls = list(_open_ones(lineage, ids))
        if not calls:
            return []
        said = {t.seq: t.message for t in session.read_turns(lineage, [(turn.seq, turn.seq) for turn, _ in calls])}
        closing = [messages.missing_result(call, turn.dialect, said.get(turn.seq)) for turn, call in calls]

        def still_open(now: Lineage, n: int, seq: int) -> Sequence[Entry]:
            if calls[n][1].id not in open_calls(now.turns):  # noqa: B023 - asked within this round only
                raise _AnsweredMeanwhile
            return ()

        try:
            return appending.append(session, closing, None, "system", beside=still_open)
        except _AnsweredMeanwhile:
            continue


class _AnsweredMeanwhile(Exception):
    """A result came while the call was being closed."""


def _open_ones(lineage: Lineage, ids: Sequence[str] | None) -> Iterator[tuple[TurnItem, Call]]:
    waiting = open_calls(lineage.turns)
    unknown = [id for id in ids or () if id not in waiting]
    if unknown:
        remedy = f"open calls are: {', '.join(waiting) or 'none'}"
        raise Refused(Verdict("append", "not_open", message=f"not open: {', '.join(map(str, unknown))}.", remedy=remedy))
    for turn in lineage.turns:
        yield from ((turn, call) for call in turn.calls if call.id in (waiting if ids is None else ids) and call.id in waiting)
