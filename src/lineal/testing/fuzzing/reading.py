"""All that callers can read of a session, as JSON values: for comparing a store with what it must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lineal import codec
from lineal.errors import LinealError, Refused
from lineal.messages import DIALECTS
from lineal.session import Session
from lineal.session.outcomes import LedgerRow


def reading(session: Session) -> dict[str, Any]:
    """Messages in every dialect, turns, view, ledger, pins, checkpoints, handles, holes: as the public API tells them.

    Raises what the verbs raise. Nothing in it depends on the clock or on who holds a lease.
    """
    view, status = session.view(), session.status()
    told = {
        "head": status.head,
        "generation": view.generation,
        "epoch": status.epoch,
        "suspended": status.suspended,
        "digest": status.digest,
        "sizes": {"tokens": view.tokens, "bytes": view.bytes, "items": view.items},
        "messages": {dialect or "as given": session.messages(dialect) for dialect in (None, *DIALECTS)},
        "turns": [[t.seq, t.id, t.author, t.role, t.tokens, t.digest, t.message] for t in session.turns()],
        "summaries": [[n.handle, n.kind, n.ranges, n.count, n.tokens, n.text] for n in view.summaries],
        "behind handles": {n.handle: _behind(session, n.handle) for n in view.summaries},
        "pins": [[p.id, p.text, p.turn] for p in view.pins],
        "anchors": [[a.kind, a.value, a.seq, a.author] for a in view.anchors],
        "ledger": [_effect(row) for row in session.ledger()],
        "watermark": view.watermark,
        "open calls": view.open_calls,
        "checkpoints": [[c.checkpoint_id, c.seq, c.generation, c.label, c.digest, c.effect_watermark] for c in session.checkpoints()],
        "log": [[row.seq, row.kind, row.generation, row.size, row.erased, row.digest.hex()] for row in session.engine.scan(session.name)],
    }
    back: dict[str, Any] = codec.from_json(codec.to_json(told))
    return back


def _behind(session: Session, handle: str) -> Any:
    """Ids of the turns; or why they cannot be had: they may have been pruned."""
    try:
        return [turn.id for turn in session.expand(handle)]
    except Refused as refusal:
        return refusal.reason


def _effect(row: LedgerRow) -> list[Any]:
    """`intended` and `unknown` are one here: which of them it is depends on whether its holder lives."""
    state = "open" if row.state in ("intended", "unknown") else row.state
    return [row.key, row.tool, row.arguments_digest, row.seq, row.attempt, state, row.outcome]


def unless_refused(read: Callable[[], Any], done: str) -> str:
    """`done`, or which lineal error said no."""
    try:
        read()
    except LinealError as refusal:
        assert str(refusal), f"{type(refusal).__name__} says nothing"
        return type(refusal).__name__
    return done
