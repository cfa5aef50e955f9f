"""The world of one story: a store at some place, the processes that hold it, the summarizer, the outside, and the oracle.

After every command the plain lists of `lineal.testing.model` are held against every session (R8, R9, R11, R12, R25), each
live view against a reopened one, and the ledger against its own past. A story that damages its store ends the oracle there.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from lineal.errors import LinealError
from lineal.holder import release
from lineal.policy import Policy
from lineal.rules.integrity import BEING_DELETED
from lineal.session import Session
from lineal.session.outcomes import Plan
from lineal.store import Store
from lineal.summarizers import Summary, SummaryRequest
from lineal.testing.clock import JumpingClock
from lineal.testing.model import Model
from lineal.testing.scripts.language import Command, ScriptError
from lineal.testing.scripts.places import Aimed, Place
from lineal.testing.summaries import STUBS, honest

FIRST = "agent"  # the session that a story begins with
DEFAULTS = Policy(trigger=650, ceiling=900, target=300, floor_turns=2, summary_max_tokens=200, summary_timeout=30)


@dataclass
class Hand:
    """One process that holds the store. `plan` and `effects` are what it has begun and not ended."""

    store: Store
    engine: Aimed
    sessions: dict[str, Session] = field(default_factory=dict)
    plan: Plan | None = None
    effects: dict[str, Any] = field(default_factory=dict)


@dataclass
class World:
    """`last` is what the last verb gave: an outcome or an error. `sent` counts what really reached the outside, by tool."""

    place: Place
    carry_out: Callable[[World, Command], list[str]]
    policy: Policy = DEFAULTS
    clock: JumpingClock = field(default_factory=JumpingClock)
    hands: dict[str, Hand] = field(default_factory=dict)
    current: str = FIRST
    summarizer: Callable[[SummaryRequest], str | Summary] = honest
    window: int | None = None
    redact: Callable[[Any], Any] | None = None
    before_commit: Callable[[Any], None] | None = None
    meanwhile: list[Command] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    asked: list[SummaryRequest] = field(default_factory=list)
    sent: Counter[str] = field(default_factory=Counter)
    last: Any = None
    told: list[str] = field(default_factory=list)
    marks: dict[str, Any] = field(default_factory=dict)
    checkpoints: dict[str, Any] = field(default_factory=dict)
    models: dict[str, Model] = field(default_factory=lambda: {FIRST: Model()})
    watched: bool = True
    others: threading.Event | None = None  # set once all but one of the threads of `together` have their answer

    # --- who holds what ----------------------------------------------------------------------------------------------

    def hand(self, name: str) -> Hand:
        if name not in self.hands:
            engine = Aimed(self.place.open())
            self.hands[name] = Hand(Store(engine, clock=self.clock), engine)
        return self.hands[name]

    def session(self, name: str, of: str | None = None) -> Session:
        """The session that the process `name` works on; opened when it is first asked for."""
        hand, wanted = self.hand(name), of or self.current
        if wanted not in hand.sessions:
            hooks: dict[str, Any] = {"redact": self.redact, "before_commit": self.before_commit}
            hand.sessions[wanted] = hand.store.session(wanted, self.policy, self.asker(), **hooks)
        return hand.sessions[wanted]

    def leave(self, name: str, crash: bool) -> None:
        """The process ends: by closing its store, or as one that was killed."""
        hand = self.hands.pop(name, None)
        if hand is not None and crash:
            release(hand.store.holder)
        elif hand is not None:
            hand.store.close()

    def leave_all(self) -> None:
        for name in [*self.hands]:
            self.leave(name, crash=False)

    def each_session(self) -> Iterable[Session]:
        return (session for hand in self.hands.values() for session in hand.sessions.values())

    def change_policy(self, knobs: dict[str, Any]) -> None:
        self.policy = Policy(**knobs)
        for session in self.each_session():
            session.policy = self.policy

    # --- the summarizer ----------------------------------------------------------------------------------------------

    def ask(self, request: SummaryRequest) -> str | Summary:
        """What the session calls. Carries out what happens meanwhile, and tells the lists what was received (R9)."""
        self.asked.append(request)
        if self.others is not None:
            self.others.wait(10)
        queued, self.meanwhile = self.meanwhile, []
        for command in queued:
            before, self.aside = self.aside, []
            self.aside = [*before, *(f"meanwhile: {line}" for line in self.carry_out(self, command))]
        summary = self.summarizer(request)
        read = summary.received if isinstance(summary, Summary) and summary.received is not None else [t.id for t in request.turns]
        self.models[self.current].received[request.generation] = set(read)
        return summary

    def choose(self, name: str) -> None:
        if name not in STUBS:
            raise ScriptError(f"no summarizer {name!r}; there are {', '.join(STUBS)}; or: summarizer says TEXT")
        self.summarizer = STUBS[name]

    def asker(self) -> Callable[[SummaryRequest], str | Summary]:
        """`ask`, with the window stated where a session looks for it."""

        def asks(request: SummaryRequest) -> str | Summary:
            return self.ask(request)

        if self.window is not None:
            asks.window = self.window  # type: ignore[attr-defined]
        return asks

    # --- the oracle --------------------------------------------------------------------------------------------------

    def wrong(self) -> list[str]:
        """Everything that does not hold now; nothing where the store was damaged on purpose."""
        if not self.watched or not self.hands:
            return []
        found: list[str] = []
        engine = self.place.open()
        fresh = Store(engine, clock=self.clock)
        try:
            for name in [n for n in fresh.sessions() if engine.latched(n) != BEING_DELETED]:  # half of it may be gone
                found += [f"{name}: {sentence}" for sentence in self._wrong_in(fresh, name)]
        except LinealError as error:
            found.append(f"the store cannot be read any more: {error}")
        finally:
            fresh.close()
        return found

    def _wrong_in(self, fresh: Store, name: str) -> list[str]:
        reopened = fresh.session(name, self.policy, honest)
        model = self.models.setdefault(name, Model())
        model.read(reopened.log, self.policy.floor_turns)
        found = model.compare(reopened)
        model.wrong.clear()
        for hand in self.hands.values():
            live = hand.sessions.get(name)
            if live is not None and live.messages() != reopened.messages():
                found.append("the reopened view is not the live one (R45)")
        return found
