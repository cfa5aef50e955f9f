"""The guard: is this state set what the compaction left behind? (record 004)

For any store that has no log to read row by row: a successor knows hashes, generations and two positions, and asks
here before it trusts a read.

The hash before a compaction and the hash after it are different things. What must be read back after a lossy pass is
the *post* hash; only a pass that changes no content, such as a storage engine's own, must give back the *pre* hash.
Whether a compaction is over is a question of order on the one shared sequence, never of clocks: an epoch here is a seq.
While one is open, nothing can be trusted but a snapshot from before it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from enum import Enum, auto

from lineal.rules import Row, Table


class CompactionVerdict(Enum):
    """What was found. The first three are the record's; the others say how rows are not what was written."""

    POST_COMPACTION_CLEAN = auto()
    COMPACTION_IN_PROGRESS = auto()
    MIXED_GENERATION_DETECTED = auto()
    TRUNCATED = auto()
    ALTERED = auto()
    PHANTOM_DELETION = auto()
    LEFTOVER = auto()
    CHAIN_BROKEN = auto()
    CUT_TAIL = auto()


@dataclass(frozen=True)
class CompactionState:
    """What a successor finds. Epochs are positions on the sequence that both share; None: the pass has not completed.

    `post_compaction_state_hash` is the hash that the pass committed for its result. Without one the pass must have left
    the content as it was, and the read-back is compared with the hash from before it.
    """

    pre_compaction_state_hash: str
    current_readback_hash: str
    compaction_generation_id: int
    record_generations_seen: tuple[int, ...]
    compaction_completion_epoch: float | None
    current_epoch: float
    post_compaction_state_hash: str | None = None

    @property
    def completed(self) -> bool:
        """An epoch that cannot be compared (NaN) has not been reached."""
        return self.compaction_completion_epoch is not None and self.compaction_completion_epoch <= self.current_epoch

    @property
    def strangers(self) -> tuple[int, ...]:
        """Generations among the records that the pass did not write, lowest first."""
        return tuple(sorted(set(self.record_generations_seen) - {self.compaction_generation_id}))

    @property
    def expected_name(self) -> str:
        """Which hash the read-back must have: "pre" or "post"."""
        return "pre" if self.post_compaction_state_hash is None else "post"

    @property
    def expected_hash(self) -> str:
        return self.pre_compaction_state_hash if self.post_compaction_state_hash is None else self.post_compaction_state_hash


@dataclass(frozen=True)
class CompactionPolicy:
    """`require_snapshot_isolation`: readers can and must read from a snapshot; else there is none to fall back on."""

    require_snapshot_isolation: bool


@dataclass(frozen=True)
class CompactionManifest:
    """The answer: the verdict, what to do now, and a digest over both and everything they were drawn from."""

    verdict: CompactionVerdict
    directive: str
    manifest_digest: str


@dataclass(frozen=True)
class GuardFacts:
    """What the rule must know: the state that was found, and what readers of this store can do."""

    state: CompactionState
    policy: CompactionPolicy


def _tell_progress(facts: GuardFacts) -> str:
    state = facts.state
    end, now = state.compaction_completion_epoch, state.current_epoch
    where = "has not completed" if end is None else f"completes at {end}, after the current epoch {now}"
    read = "a snapshot from before it began" if facts.policy.require_snapshot_isolation else "nothing it may have touched"
    return f"WAIT: the compaction of generation {state.compaction_generation_id} {where}. Read {read} until it has committed or aborted."


def _tell_mixed(facts: GuardFacts) -> str:
    seen = sorted(set(facts.state.record_generations_seen))
    found = f"records of generations {seen} where generation {facts.state.compaction_generation_id} was written"
    if facts.policy.require_snapshot_isolation:
        return f"RE-READ: {found}. Take a snapshot of after the compaction, and read only that."
    return f"HALT: {found}. Assume no one format and read no further; no snapshot can be fallen back on."


def _tell_old(facts: GuardFacts) -> str:
    generation = facts.state.compaction_generation_id
    return f"HALT: what is read is the state from before generation {generation}: an old copy. Read the copy that it committed."


def _tell_altered(facts: GuardFacts) -> str:
    state = facts.state
    read, wanted = state.current_readback_hash or "none", state.expected_hash or "none"
    return (
        f"HALT: the hash read back is {read!r}, the {state.expected_name}-compaction hash is {wanted!r}. "
        "Trust none of these records; verify them one by one, or restore a backup."
    )


TABLE: Table[GuardFacts] = Table(
    "guard",
    "record 004",
    "is this state set what the compaction left behind?",
    (
        Row(
            "in_progress",
            "the compaction has not completed, or its completion epoch is after the current epoch",
            "`COMPACTION_IN_PROGRESS`: wait",
            lambda f: not f.state.completed,
            tell=_tell_progress,
        ),
        Row(
            "mixed",
            "a record is of another generation than the compaction wrote, whatever the policy",
            "`MIXED_GENERATION_DETECTED`: re-read from a snapshot of after it where the policy asks for snapshots, else halt",
            lambda f: bool(f.state.strangers),
            tell=_tell_mixed,
        ),
        Row(
            "clean",
            "what is read back has the post-compaction hash, or (none was given: a lossless pass) the pre-compaction hash",
            "`POST_COMPACTION_CLEAN`: proceed",
            lambda f: bool(f.state.expected_hash) and f.state.current_readback_hash == f.state.expected_hash,
            allowed=True,
            tell=lambda f: f"PROCEED: one generation, and what is read has the {f.state.expected_name}-compaction hash.",
        ),
        Row(
            "old_copy",
            "what is read back has the pre-compaction hash, and the post-compaction hash is another",
            "`ALTERED`: an old copy is read",
            lambda f: f.state.current_readback_hash == f.state.pre_compaction_state_hash != "",
            tell=_tell_old,
        ),
        Row(
            "altered",
            "what is read back has any other hash, or there is no hash to compare with",
            "`ALTERED`: halt",
            lambda f: True,
            tell=_tell_altered,
        ),
    ),
)

VERDICTS: dict[str, CompactionVerdict] = {
    "in_progress": CompactionVerdict.COMPACTION_IN_PROGRESS,
    "mixed": CompactionVerdict.MIXED_GENERATION_DETECTED,
    "clean": CompactionVerdict.POST_COMPACTION_CLEAN,
    "old_copy": CompactionVerdict.ALTERED,
    "altered": CompactionVerdict.ALTERED,
}


class CompactionGuard:
    """The gate of record 004 in front of every read after a compaction."""

    @classmethod
    def evaluate_state(cls, state: CompactionState, policy: CompactionPolicy) -> CompactionManifest:
        """In progress, mixed, clean or altered, in this order. Only a clean verdict's directive says to proceed.

        The policy never changes what was found, only what to do about it.
        """
        verdict = TABLE.decide(GuardFacts(state, policy))
        found = VERDICTS[verdict.reason]
        bound = {"verdict": found.name, "directive": verdict.message, "state": asdict(state), "policy": asdict(policy)}
        text = json.dumps(bound, sort_keys=True, separators=(",", ":"), default=str)
        return CompactionManifest(found, verdict.message, hashlib.sha256(text.encode()).hexdigest())
