"""A store in which every verb was used, with its anchor in another place: what `tampering` and `spoiling` change at rest."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from lineal.anchor import Head
from lineal.entries import Holder, Lease, PackBegun, Suspended
from lineal.holder import release
from lineal.session.outcomes import Record
from lineal.store import Store
from lineal.testing.faults import FaultyEngine
from lineal.testing.scripts.places import InFile, Place
from lineal.testing.stories import POLICY, STORY, Step, Tale, answer, user


def _acts(tale: Tale) -> None:
    """More effects than the state tells of, in every state that there is."""
    session = tale.session
    for n in range(26):
        with session.effect("mail", {"to": n}, key=f"mail-{n}") as effect:
            effect.settle(f"sent {n}")
    with session.effect("read", {"n": 1}, key="read-1", idempotent=True) as effect:
        effect.attach("job 7")
        effect.settle("one")
    for refused in (True, False):
        with session.effect("push", {"branch": "topic"}, key="push-1") as effect:
            effect.no_effect("not a fast-forward") if refused else effect.settle("pushed")
    with session.effect("order", {"n": 2}, key="order-1") as effect:
        effect.settle("ordered")
    session.resolve_effect("order-1", "compensated", "sent back")
    session.append(user(16), id="u16")
    with session.effect("reboot", {"host": "north"}) as effect:
        effect.settle("it is up again")


def _goes_about(tale: Tale) -> None:
    """What the story did too, in rows that it pruned."""
    session = tale.session
    target = session.checkpoint("here")
    session.append([user(30), answer(30)], id=["u30", "a30"])
    session.record_usage(500, 20)
    session.unpin(session.pin("on no account on a Friday"))
    session.note_eviction(["a30"], by="host")
    session.rollback(target)
    session.append([m for n in range(31, 34) for m in (answer(n), user(n))], id=[i for n in range(31, 34) for i in (f"a{n}", f"u{n}")])
    session.abort_compaction(session.plan_compaction(), "it may wait")
    session.log.write(lambda lineage: [Suspended(tokens=lineage.tokens, floor_tokens=90, pinned_tokens=10, trigger=POLICY.trigger)])


def _packs_in_vain(tale: Tale) -> None:
    """A pack whose packer died before it was committed."""
    dead = Lease(Holder("nobody"), 0.0, 0.0)
    tale.session.log.write(lambda lineage: [PackBegun(runs=((1, 2),), entries=2, bytes=90, pre_digest="00", lease=dead)])
    tale.session.finish_removal()


def _is_a_guest(tale: Tale) -> None:
    """A host keeps something of its own there, and lets go of some of it."""
    kept = tale.session.keep("graph", "cp", [Record({"n": n}, key=f"cp{n}", turns=("u16",)) for n in range(3)])
    tale.session.release("graph", kept[:1])


def _talks_on(tale: Tale) -> None:
    tale.session.append([m for n in range(17, 24) for m in (answer(n), user(n))], id=[i for n in range(17, 24) for i in (f"a{n}", f"u{n}")])
    tale.session.compact()
    tale.session.pack()
    tale.session.checkpoint("the end")
    tale.session.append([answer(24), user(24), answer(25)], id=["a24", "u24", "a25"])


LIFE: tuple[Step, ...] = (
    *STORY[:-1],
    Step("go about", _goes_about),
    Step("act", _acts),
    Step("be a guest", _is_a_guest),
    Step("pack in vain", _packs_in_vain),
    Step("talk on", _talks_on),
    STORY[-1],
)


@dataclass
class Remembered:
    """An anchor that lies in this process."""

    heads: dict[str, Head] = field(default_factory=dict)

    def read(self, session: str | None = None) -> Mapping[str, Head]:
        return self.heads if session is None else {n: head for n, head in self.heads.items() if n == session}

    def write(self, session: str, head: Head) -> None:
        self.heads[session] = max(head, self.heads.get(session, head))


@dataclass
class Kept:
    """A store and its anchor."""

    place: Place
    anchor: Remembered

    def copy(self) -> Kept:
        return Kept(self.place.copy(), deepcopy(self.anchor))

    def ask(self, question: Callable[[Store], Any]) -> Any:
        engine = self.place.open()
        store = Store(engine, self.anchor)
        try:
            return question(store)
        finally:
            release(store.holder)
            engine.close()

    def forget(self) -> None:
        """For a copy that is no longer wanted."""
        if isinstance(self.place, InFile):
            for left in self.place.path.parent.glob(f"{self.place.path.name}*"):
                shutil.rmtree(left) if left.is_dir() else left.unlink()


def lived(place: Place) -> Kept:
    """The store in `place` once the whole of `LIFE` was lived there."""
    kept = Kept(place, Remembered())
    tale = Tale(FaultyEngine(place.open()), place.open, lambda name: None, anchor=kept.anchor)
    tale.play(LIFE)
    return kept
