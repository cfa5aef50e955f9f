"""Recovery: restore this checkpoint, or replay the compaction's own output? (record 000)

A checkpoint is a valid target only if it lies after the last lossy compaction on the one sequence that both share. An
older one is another state, not a safer one: restoring it brings back what the summary dropped, and the next pass then
drops something else. So recovery goes to the newest checkpoint after the last barrier, or else replays from what that
barrier itself wrote. There is no third way; nothing is ever merged.

A rollback is a barrier like a compaction: the checkpoints below it belong to a past that was left on purpose (R40).
Only seqs are compared, never times and never format versions (R3, R58).

The rule is asked once about the open compaction, then once for each candidate, newest first, then once without a
candidate. An open compaction of a dead holder blocks nothing: its abort is written first (R33). One of a live holder is
refused, whatever the seqs: what it would leave behind is torn. Everything is decided before anything is overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from lineal.entries import Range
from lineal.errors import CompactionLineageError, PolicyError, Verdict
from lineal.rules import Row, Table

Result = TypeVar("Result")


@dataclass(frozen=True)
class Candidate:
    """A checkpoint that recovery may go to. `in_flight`: taken while a compaction was open. `digest_ok`: it is what was written."""

    id: str
    seq: int
    in_flight: bool = False
    digest_ok: bool = True


@dataclass(frozen=True)
class RecoveryFacts:
    """What the rule must know. Seqs are 0 where there is none.

    `committed_at`, `rolled_back_at`: where the last lossy compaction and the last rollback entered the log.
    `hole`: rows that cannot be read. `replay_from`: a replay needs only the rows above it (`covered_through`).
    `deadline`: the end of the open compaction's lease, in seconds since 1970, for people.
    """

    candidate: Candidate | None = None
    committed_at: int = 0
    rolled_back_at: int = 0
    open_compaction: Literal["dead", "live"] | None = None
    generation: int = 0
    holder: str = ""
    deadline: float | None = None
    hole: Range | None = None
    replay_from: int = 0

    @property
    def barrier(self) -> int:
        return max(self.committed_at, self.rolled_back_at)

    @property
    def barrier_name(self) -> str:
        if not self.barrier:
            return "no compaction or rollback"
        if self.rolled_back_at > self.committed_at:
            return f"the rollback at seq {self.rolled_back_at}"
        return f"the compaction committed at seq {self.committed_at}"


@dataclass(frozen=True)
class RecoveryChoice:
    """Where recovery goes. `target` is None exactly when the verdict refuses.

    `seq`: the checkpoint's, the barrier's for a replay (0: from the start), or the last that still reads on a refusal.
    `abort_open`: write the abort of the dead holder's compaction before anything else.
    `passed_over`: the candidates that were not taken, newest first, each with its verdict.
    """

    target: Literal["checkpoint", "replay"] | None
    seq: int
    checkpoint_id: str | None
    why: str
    passed_over: tuple[tuple[Candidate, Verdict], ...]
    verdict: Verdict
    abort_open: bool = False

    def __bool__(self) -> bool:
        return self.verdict.allowed


def _open(facts: RecoveryFacts) -> str:
    holder = f" by {facts.holder}" if facts.holder else ""
    until = "" if facts.deadline is None else f", lease until {facts.deadline:.0f} (seconds since 1970)"
    generation = f" of generation {facts.generation}" if facts.generation else ""
    return f"a compaction{generation} is in flight{holder}{until}"


def _tell_live(facts: RecoveryFacts) -> str:
    asked = f"checkpoint seq {facts.candidate.seq}, " if facts.candidate else ""
    return f"recovery was asked for ({asked}last compaction committed at seq {facts.committed_at}) while {_open(facts)}."


def _tell_candidate(text: str) -> Callable[[RecoveryFacts], str]:
    """A sentence about the candidate; `{barrier}` and `{hole}` stand for the case's own numbers."""

    def tell(facts: RecoveryFacts) -> str:
        candidate = facts.candidate or Candidate("", 0)
        hole = "{}..{}".format(*facts.hole) if facts.hole else "none"
        name = f"checkpoint {candidate.id!r}" if candidate.id else "the checkpoint"
        return f"{name} at seq {candidate.seq} " + text.format(barrier=facts.barrier_name, hole=hole)

    return tell


def _tell_hole(facts: RecoveryFacts) -> str:
    first, last = facts.hole or (0, 0)
    return (
        f"rows {first}..{last} cannot be read, no checkpoint above them may be restored, and a replay from "
        f"{facts.barrier_name} needs every row above seq {facts.replay_from}; rows up to seq {first - 1} still read."
    )


TABLE: Table[RecoveryFacts] = Table(
    "recovery",
    "record 000",
    "restore this checkpoint, or replay the compaction's own output?",
    (
        Row(
            "open_compaction_live",
            "a compaction is open and its holder lives, whatever the seqs",
            "refuse now, with holder and deadline",
            lambda f: f.open_compaction == "live",
            tell=_tell_live,
            remedy="wait until that compaction has ended or its lease has run out, then recover again",
        ),
        Row(
            "open_compaction_dead",
            "a compaction is open and its holder is dead",
            "append its abort, then ask again",
            lambda f: f.open_compaction == "dead",
            allowed=True,
            tell=lambda f: f"{_open(f)}, and that holder is dead: its abort is written first",
        ),
        Row(
            "taken_in_flight",
            "the checkpoint was taken while a compaction was open",
            "skip it: it is neither the state before nor the state after",
            lambda f: f.candidate is not None and f.candidate.in_flight,
            tell=_tell_candidate("was taken while a compaction was in flight: a torn state"),
        ),
        Row(
            "digest_mismatch",
            "the checkpoint is not what its digest says",
            "skip it",
            lambda f: f.candidate is not None and not f.candidate.digest_ok,
            tell=_tell_candidate("does not match its digest"),
        ),
        Row(
            "not_newer",
            "checkpoint.seq <= the last barrier (committed_at of a lossy compaction, or a rollback)",
            "never restore it: replay from the barrier's own output and the entries after covered_through",
            lambda f: f.candidate is not None and f.candidate.seq <= f.barrier,
            tell=_tell_candidate("is not newer than {barrier}: it is a past that was left behind"),
        ),
        Row(
            "hole_above_checkpoint",
            "checkpoint.seq > the last barrier, but rows after the checkpoint cannot be read",
            "skip it: the entries after it cannot be folded",
            lambda f: f.candidate is not None and f.hole is not None and f.hole[1] > f.candidate.seq,
            tell=_tell_candidate("cannot be followed to the head: rows {hole} cannot be read"),
        ),
        Row(
            "newer_than_compaction",
            "checkpoint.seq > the last barrier",
            "restore it, fold the entries after it",
            lambda f: f.candidate is not None,
            allowed=True,
            tell=_tell_candidate("is newer than {barrier}: restored, and the entries after it folded"),
        ),
        Row(
            "hole",
            "no checkpoint may be restored, and a row that the replay needs cannot be read",
            "refuse, naming the range that is lost and what still reads; latch read-only",
            lambda f: f.hole is not None and f.hole[1] > f.replay_from,
            tell=_tell_hole,
            remedy="run `lineal verify` to see the whole damage; restore a backup, or fork below the lost range",
        ),
        Row(
            "replay",
            "no checkpoint may be restored, and every row that the replay needs can be read",
            "replay from the barrier's own output and the entries after covered_through",
            lambda f: True,
            allowed=True,
            tell=lambda f: f"no checkpoint follows {f.barrier_name}: replayed from seq {f.barrier}",
        ),
    ),
)


def judge(facts: RecoveryFacts) -> Verdict:
    """The verdict on one candidate, or (`candidate` None) on recovering without one."""
    shown: dict[str, Any] = {"committed_at": facts.committed_at, "rolled_back_at": facts.rolled_back_at}
    if facts.candidate is not None:
        shown |= {"checkpoint": facts.candidate.id, "checkpoint_seq": facts.candidate.seq}
    if facts.open_compaction is not None:
        shown |= {"generation": facts.generation, "holder": facts.holder, "deadline": facts.deadline}
    if facts.hole is not None:
        shown |= {"hole": facts.hole, "readable_through": facts.hole[0] - 1, "replay_from": facts.replay_from}
    return TABLE.decide(facts, shown)


def choose(facts: RecoveryFacts, candidates: Iterable[Candidate]) -> RecoveryChoice:
    """Where to recover to (record 000, R58). `candidates` newest first; no further one is drawn than needed.

    `facts.candidate` is not read. On a refusal nothing may be overwritten; the session raises `CompactionLineageError`
    with the choice's verdict and, for the reason `hole`, latches read-only.
    """
    facts = replace(facts, candidate=None)
    opening = judge(facts) if facts.open_compaction is not None else None
    if opening is not None and not opening:
        return RecoveryChoice(None, facts.barrier, None, opening.message, (), opening)
    first = f"{opening.message}; " if opening else ""
    facts = replace(facts, open_compaction=None)
    passed_over: list[tuple[Candidate, Verdict]] = []
    for candidate in candidates:
        verdict = judge(replace(facts, candidate=candidate))
        if verdict:
            why = first + verdict.message
            return RecoveryChoice("checkpoint", candidate.seq, candidate.id, why, tuple(passed_over), verdict, bool(opening))
        passed_over.append((candidate, verdict))
        if candidate.seq <= facts.barrier:
            break  # all that follow are older still
    verdict = judge(facts)
    why = first + "; ".join([verdict.message, *(passed.message for _, passed in passed_over)])
    seq = facts.barrier if verdict or facts.hole is None else facts.hole[0] - 1
    return RecoveryChoice("replay" if verdict else None, seq, None, why, tuple(passed_over), verdict, bool(opening and verdict))


def select_recovery_target(
    checkpoint_seq: int, last_committed_compaction_seq: int, compaction_in_flight: bool
) -> Literal["checkpoint", "replay"]:
    """Record 000's gate on one sequence: "checkpoint" if the checkpoint is strictly newer, else "replay".

    0 stands for "none" in both seqs. Raises `CompactionLineageError` whenever a compaction is in flight, for any order
    of the seqs, and `PolicyError` for what cannot be a seq.
    """
    _check_seq("checkpoint_seq", checkpoint_seq)
    _check_seq("last_committed_compaction_seq", last_committed_compaction_seq)
    if not isinstance(compaction_in_flight, bool):
        raise _unusable("compaction_in_flight", compaction_in_flight, "True or False")
    verdict = judge(
        RecoveryFacts(
            candidate=Candidate("", checkpoint_seq),
            committed_at=last_committed_compaction_seq,
            open_compaction="live" if compaction_in_flight else None,
        )
    )
    if verdict.reason == "open_compaction_live":
        raise CompactionLineageError(verdict)
    return "checkpoint" if verdict else "replay"


def recover(
    checkpoint_seq: int,
    last_committed_compaction_seq: int,
    compaction_in_flight: bool,
    restore_fn: Callable[[], Result],
    replay_fn: Callable[[], Result],
) -> Result:
    """Decide by `select_recovery_target`, then call exactly one of the two and return what it returns.

    A refusal calls neither. A failure of the one that was called is never answered by calling the other.
    """
    target = select_recovery_target(checkpoint_seq, last_committed_compaction_seq, compaction_in_flight)
    return restore_fn() if target == "checkpoint" else replay_fn()


def _check_seq(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _unusable(name, value, "a whole number, 0 or above (0: there is none)")


def _unusable(name: str, value: object, wanted: str) -> PolicyError:
    return PolicyError(
        Verdict(
            "recovery",
            name,
            message=f"{name} must be {wanted}, not {value!r}.",
            remedy="pass positions on the log's one sequence, never times",
            facts={name: value},
        )
    )
