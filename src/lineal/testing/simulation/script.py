"""What a simulation will do, drawn from its seed before it begins: who takes part, their verbs, and the faults.

A script is data, so that a failing run can be told again with parts of it left out. Whatever is drawn while a script is
played comes from its `chance` and nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lineal.policy import Policy

FAULTS: Mapping[str, int] = {
    "crash before a call": 6,
    "crash after a call": 6,
    "crash in a removal": 5,
    "error before a call": 5,
    "answer lost": 6,
    "stall": 8,
    "power cut": 2,
    "machine restart": 2,
    "clock forward": 2,
    "clock back": 2,
    "conflict storm": 3,
}
AGENT: Mapping[str, int] = {
    "exchange": 14,
    "user says": 6,
    "agent says": 8,
    "call": 3,
    "answer a call": 5,
    "act": 10,
    "act again": 5,
    "effect": 9,
    "shared effect": 7,
    "maybe compact": 9,
    "pin": 3,
    "show": 3,
    "checkpoint": 3,
    "usage": 1,
    "save": 2,
}
OPERATOR: Mapping[str, int] = {
    "resolve": 14,
    "roll back": 10,
    "checkpoint": 9,
    "fork": 6,
    "purge": 6,
    "verify": 6,
    "unpin": 3,
    "evict": 3,
    "spill": 6,
    "close calls": 3,
    "recover": 7,
    "expand": 3,
    "shared effect": 4,
    "agent says": 3,
}
COMPACTOR: Mapping[str, int] = {
    "compact": 16,
    "plan": 16,
    "commit": 4,
    "maybe compact": 6,
    "prune": 8,
    "pack": 8,
    "finish removal": 5,
    "checkpoint": 3,
    "verify": 3,
    "recover": 4,
}
BAD_EVERY = 3  # one summary in so many is a bad one


@dataclass(frozen=True)
class Verb:
    """One thing that somebody will do. `picks` choose among what is there when it comes to it; `session` which session."""

    name: str
    session: int
    picks: tuple[int, int, int]


@dataclass(frozen=True)
class Fault:
    """At the first step from `at` on that fits. `who` chooses the one it strikes, `size` how long or how far."""

    at: int
    kind: str
    who: int
    size: int


@dataclass(frozen=True)
class Part:
    """One simulated process with its verbs; it is started again after a crash, and goes on with the verb that was cut off."""

    name: str
    machine: int
    verbs: tuple[Verb, ...]


@dataclass(frozen=True)
class Script:
    seed: int
    engine: str
    policy: Policy
    skews: tuple[int, ...]  # one a machine: by how many seconds its wall clock is wrong
    parts: tuple[Part, ...]
    faults: tuple[Fault, ...]
    sticky: float  # how likely it is that the same process makes the next step too
    sessions: int

    def chance(self) -> random.Random:
        return random.Random(f"chance of {self.seed}")

    def without_fault(self, n: int) -> Script:
        return replace(self, faults=(*self.faults[:n], *self.faults[n + 1 :]))

    def with_verbs(self, part: int, verbs: Sequence[Verb]) -> Script:
        parts = [replace(p, verbs=tuple(verbs)) if n == part else p for n, p in enumerate(self.parts)]
        return replace(self, parts=tuple(parts))


def write(seed: int, engine: str) -> Script:
    """The script of a seed."""
    chance = random.Random(f"script of {seed}")
    machines = chance.choice([1, 2, 2, 3])
    sessions = chance.choice([1, 1, 2])
    roles = [("agent", AGENT)] * chance.choice([2, 2, 3]) + [("operator", OPERATOR), ("compactor", COMPACTOR)]
    parts = []
    for n, (role, table) in enumerate(roles, 1):
        name = f"{role}-{n}" if role == "agent" else role
        first = [_verb("exchange", chance, n % sessions)] * (role == "agent")
        verbs = [_drawn(table, chance, n % sessions) for _ in range(chance.randint(6, 16))]
        parts.append(Part(name, chance.randrange(machines), (*first, *(v for verb in verbs for v in _with_its_end(verb, chance)))))
    wanted = chance.choice([0, 1, 2, 3, 4, 6])
    faults = [_fault(chance) for _ in range(wanted)]
    return Script(
        seed=seed,
        engine=engine,
        policy=_policy(chance),
        skews=tuple(chance.choice([0, 0, 3, -18_000, 18_000]) for _ in range(machines)),
        parts=tuple(parts),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        sticky=chance.choice([0.0, 0.4, 0.8, 0.95]),
        sessions=sessions,
    )


def _policy(chance: random.Random) -> Policy:
    choices: dict[str, Any] = {
        "on_refusal": chance.choice(["spill", "spill", "halt"]),
        "on_lookalike": chance.choice(["ask", "ask", "ask", "warn", "allow"]),
        "checkpoint_every_entries": chance.choice([None, None, 20]),
    }
    sizes: dict[str, Any] = {"trigger": 300, "ceiling": 420, "target": 140, "floor_turns": 2, "summary_max_tokens": 90, "stub_bytes": 600}
    return Policy(**sizes, **choices, lease_seconds=20.0, summary_timeout=3_600.0)


def _verb(name: str, chance: random.Random, home: int) -> Verb:
    session = home if chance.random() < 0.8 else chance.randrange(6)
    return Verb(name, session, (chance.randrange(60), chance.randrange(60), chance.randrange(60)))


def _drawn(table: Mapping[str, int], chance: random.Random, home: int) -> Verb:
    (name,) = chance.choices([*table], [*table.values()])
    return _verb(name, chance, home)


def _with_its_end(verb: Verb, chance: random.Random) -> list[Verb]:
    """A plan is mostly committed, sometimes after a long pause, sometimes aborted, sometimes left alone."""
    if verb.name != "plan":
        return [verb]
    ends = [["commit"], ["commit"], ["pause", "commit"], ["abort"], []]
    return [verb, *(Verb(name, verb.session, (chance.randrange(60),) * 3) for name in chance.choice(ends))]


def _fault(chance: random.Random) -> Fault:
    (kind,) = chance.choices([*FAULTS], [*FAULTS.values()])
    return Fault(chance.randint(5, 600), kind, chance.randrange(60), chance.randrange(60))
