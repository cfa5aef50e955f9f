"""Pins: promises to keep a turn, or a text, verbatim in the view through every compaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lineal import working_set
from lineal.codec import arguments_digest
from lineal.entries import Entry, Pin, Pinned, Turn, Unpinned
from lineal.errors import Refused, Verdict
from lineal.lineage import Lineage
from lineal.session.arguments import text

if TYPE_CHECKING:
    from lineal.session import Session


def pin(session: Session, what: Turn | str) -> str:
    """See `Session.pin`. Pinning what is pinned already writes nothing."""
    lineage = session.log.catch_up()
    id = text(what.id if isinstance(what, Turn) else what, "pin")
    if lineage.turn(id) is None and (isinstance(what, Turn) or session.log.find(f"turn:{id}", 1)):
        raise Refused(
            Verdict("pin", "not_in_view", message=f"turn {id!r} does not stand verbatim in the view.", remedy="pin its text instead")
        )
    made = Pin(id, turn=id) if lineage.turn(id) else Pin(f"text:{arguments_digest(id)[:12]}", text=id)
    if any(p == made for p in lineage.pins):
        return made.id

    def decide(lineage: Lineage) -> Sequence[Entry]:
        return [Pinned(pin=made, note=working_set.pin_note(lineage, made, session.counter))]

    session.log.write(decide)
    return made.id


def unpin(session: Session, pin: Turn | str) -> None:
    """See `Session.unpin`."""
    id = text(pin.id if isinstance(pin, Turn) else pin, "pin")
    found = next((p for p in session.log.catch_up().pins if id in (p.id, p.turn, p.text)), None)
    if found is None:
        raise Refused(Verdict("pin", "unknown_pin", message=f"{id!r} is not pinned.", remedy="see view().pins"))
    session.log.write(lambda lineage: [Unpinned(id=found.id)])
