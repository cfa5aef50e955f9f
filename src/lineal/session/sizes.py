"""One look at a session: sizes and states at the head, without reading any turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lineal.holder import alive
from lineal.rules.cut import open_calls
from lineal.session.outcomes import Status

if TYPE_CHECKING:
    from lineal.session import Session


def status(session: Session) -> Status:
    """See `Session.status`."""
    lineage = session.log.catch_up()
    unknown = [e.key for e in lineage.effects if e.state == "unknown" or not alive(e.lease, session.clock, expires=False)]
    return Status(
        session=session.name,
        head=lineage.head,
        generation=lineage.generation,
        tokens=lineage.view_tokens,
        bytes=lineage.bytes,
        items=len(lineage.items),
        suspended=lineage.suspended,
        open_calls=open_calls(lineage.turns),
        unknown_effects=tuple(unknown),
        watermark=lineage.watermark,
        in_flight=lineage.in_flight.generation if lineage.in_flight else None,
        epoch=lineage.epoch,
        latched=session.log.latched,
        digest=lineage.digest,
    )
