"""The world outside the store: what was really done to it, whatever any ledger says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lineal.entries import EffectIntended


@dataclass(frozen=True)
class Sent:
    """One sending. `meant`: what its sender was at, the same for every try of one call."""

    session: str
    key: str
    attempt: int
    meant: str


@dataclass(frozen=True)
class Intent:
    seq: int
    attempt: int
    pid: int
    idempotent: bool


class World:
    """Sendings, beside what the log said about them when they were made."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.intents: dict[tuple[str, str], list[Intent]] = defaultdict(list)
        self.not_happened: dict[tuple[str, str], list[int]] = defaultdict(list)  # seqs at which somebody resolved it so

    def intended(self, session: str, seq: int, e: EffectIntended) -> None:
        self.intents[session, e.key].append(Intent(seq, e.attempt, e.lease.holder.pid, e.idempotent))

    def intent(self, session: str, key: str, attempt: int) -> Intent | None:
        return next((i for i in self.intents[session, key] if i.attempt == attempt), None)

    def has(self, session: str, key: str, attempt: int | None = None) -> bool:
        """Whether it was done (under this attempt)."""
        return any((s.session, s.key) == (session, key) and attempt in (None, s.attempt) for s in self.sent)

    def send(self, now: Sent, once: bool) -> Iterator[str]:
        """Do it. Yields what is wrong with that: no durable intent, or a second time without anybody's decision.

        `once`: a call may also not be made again under another key (policy `on_lookalike="ask"`).
        """
        mine = self.intent(now.session, now.key, now.attempt)
        if mine is None:
            yield f"the effect {now.key!r} was sent, attempt {now.attempt}, and its intent is not in the log of {now.session!r} (R47)"
        for before in [s for s in self.sent if s.session == now.session]:
            same = before.key == now.key
            other = self.intent(before.session, before.key, before.attempt)
            if mine is None or other is None or mine.idempotent or not (same or (once and before.meant == now.meant)):
                continue
            first, last = sorted([mine.seq, other.seq])
            if not any(
                first < seq < last for seq in self.not_happened[before.session, before.key] + self.not_happened[now.session, now.key]
            ):
                yield (
                    f"{now.meant}: sent as {now.key!r} attempt {now.attempt} (seq {mine.seq}), though it was sent as {before.key!r} "
                    f"attempt {before.attempt} (seq {other.seq}) and nobody resolved that as not happened between them"
                )
        self.sent.append(now)

    def forked(self, parent: str, child: str) -> None:
        """The child knows what the parent did under the keys that it has; the world does not fork."""
        for s in [s for s in self.sent if s.session == parent]:
            for key in (s.key, f"{parent}{s.key}"):
                if self.intent(child, key, s.attempt):
                    self.sent.append(replace(s, session=child, key=key))
