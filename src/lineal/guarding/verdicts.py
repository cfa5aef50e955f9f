"""From what was compared to a verdict of record 004, by the rule in `lineal.rules.guard`. Pure.

| the rule asks | the answer for a foreign store |
|---|---|
| is the compaction over? | maintenance that the engine names as running has not completed; else it completed where the engine stands |
| which generation was written? | the one given; else the newest of the manifest |
| which generations are seen? | all in the store; where the manifest has several and nothing moved, each is as it must be |
| the hash from before | the manifest's |
| the hash that the pass committed | that of the manifest taken after it (`post`); none: the pass must have changed nothing |
| can readers fall back on a snapshot? | whether the engine holds one moment still for them |

Where the rule says `ALTERED`, the ids say how: gone is `PHANTOM_DELETION`, come back or left over is `LEFTOVER`. Faults seen in
a snapshot are faults, also while maintenance runs; without a snapshot the rule's "wait" stands before them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lineal.guarding.comparing import FAULTS, Comparison
from lineal.guarding.manifest import Manifest
from lineal.guarding.sources import Facts
from lineal.rules.guard import CompactionGuard, CompactionManifest, CompactionPolicy, CompactionState, CompactionVerdict

BY_FAULT = (  # what a verdict is named after, first things first
    ("missing", CompactionVerdict.PHANTOM_DELETION),
    ("truncated", CompactionVerdict.TRUNCATED),
    ("altered", CompactionVerdict.ALTERED),
    ("extra", CompactionVerdict.LEFTOVER),
)


@dataclass(frozen=True)
class Checked:
    """The answer of `check`. `manifest` is the rule's own, with its directive; `verdict` names what is wrong by its ids.

    `missing`, `altered` (with `truncated` among them apart), `extra` and `moved` hold the first ids of each; `counts` has all.
    `compared` is False where nothing could be read because maintenance keeps readers out.
    """

    manifest: CompactionManifest
    verdict: CompactionVerdict
    directive: str
    compared: bool
    counts: dict[str, int]
    generations: dict[int, int]
    state_hash: str
    expected_hash: str
    missing: tuple[Any, ...] = ()
    truncated: tuple[Any, ...] = ()
    altered: tuple[Any, ...] = ()
    extra: tuple[Any, ...] = ()
    moved: tuple[Any, ...] = ()
    running: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    verdicts: tuple[CompactionVerdict, ...] = field(default=())
    isolated: bool = True

    @property
    def readable(self) -> bool:
        """Whether what was read, as of its snapshot, is what the manifest says: so also while maintenance runs, which ends unseen."""
        return self.compared and self.isolated and not self.damage and not any(self.counts[fault] for fault in FAULTS)

    @property
    def clean(self) -> bool:
        return self.verdict is CompactionVerdict.POST_COMPACTION_CLEAN and not self.damage

    @property
    def in_progress(self) -> bool:
        return self.verdict is CompactionVerdict.COMPACTION_IN_PROGRESS


def judge(before: Manifest, post: Manifest | None, found: Comparison, facts: Facts, isolated: bool, generation: int | None) -> Checked:
    """The verdict on a store that was read whole. `found` was compared with `post`, or with `before` if there is none."""
    expected = post or before
    ruled = CompactionGuard.evaluate_state(
        CompactionState(
            pre_compaction_state_hash=before.state_hash,
            current_readback_hash=found.found.root.hex(),
            compaction_generation_id=_written(expected, generation),
            record_generations_seen=_seen(expected, found, generation),
            compaction_completion_epoch=None if facts.running else float(facts.position),
            current_epoch=float(facts.position),
            post_compaction_state_hash=post.state_hash if post else None,
        ),
        CompactionPolicy(require_snapshot_isolation=isolated),
    )
    faults = [verdict for fault, verdict in BY_FAULT if found.counts[fault]]
    verdict = ruled.verdict
    in_progress = verdict is CompactionVerdict.COMPACTION_IN_PROGRESS
    if faults and (verdict is CompactionVerdict.ALTERED or (in_progress and isolated)):
        verdict = faults[0]
    # Where ids say how the state is not what it was, the rule's bare ALTERED adds nothing.
    every = tuple(faults) if faults and ruled.verdict is CompactionVerdict.ALTERED else (ruled.verdict, *faults)
    return Checked(
        ruled,
        verdict,
        _directive(ruled, verdict, found),
        True,
        {"expected": expected.count, "found": found.found.count, **found.counts},
        dict(sorted(found.found.generations.items())),
        found.found.root.hex(),
        expected.state_hash,
        **{fault: tuple(ids) for fault, ids in found.ids.items()},
        running=facts.running,
        damage=facts.damage,
        notes=(*_moved_back(expected, facts), *facts.notes),
        verdicts=every,
        isolated=isolated,
    )


def unread(before: Manifest, post: Manifest | None, facts: Facts, generation: int | None) -> Checked:
    """The answer where maintenance keeps every reader out: wait. Nothing was compared."""
    expected = post or before
    state = CompactionState(before.state_hash, "", _written(expected, generation), (), None, float(facts.position))
    ruled = CompactionGuard.evaluate_state(state, CompactionPolicy(require_snapshot_isolation=True))
    counts = {"expected": expected.count}
    return Checked(
        ruled,
        ruled.verdict,
        ruled.directive,
        False,
        counts,
        {},
        "",
        expected.state_hash,
        running=facts.running,
        notes=facts.notes,
        verdicts=(ruled.verdict,),
    )


def _written(expected: Manifest, generation: int | None) -> int:
    return generation if generation is not None else max(expected.generations, default=0)


def _seen(expected: Manifest, found: Comparison, generation: int | None) -> tuple[int, ...]:
    """A manifest of several generations says itself which record is of which: only what is not as it says counts."""
    told = expected.generations
    if generation is None and (not told or (len(told) > 1 and not found.counts["moved"])):
        return (_written(expected, generation),)
    return tuple(sorted(found.found.generations))


def _directive(ruled: CompactionManifest, verdict: CompactionVerdict, found: Comparison) -> str:
    if verdict is ruled.verdict:
        return ruled.directive
    said = ", ".join(f"{n:,} {fault}" for fault, n in found.counts.items() if n and fault != "moved")
    meanwhile = (
        " Maintenance runs meanwhile, but what was read is one snapshot: this was not its doing."
        if ruled.verdict is CompactionVerdict.COMPACTION_IN_PROGRESS
        else ""
    )
    return f"HALT: {said}. The others are as they were; restore these from a backup, or find out who changed them.{meanwhile}"


def _moved_back(expected: Manifest, facts: Facts) -> tuple[str, ...]:
    before = int(expected.footer.get("position", 0))
    if facts.position >= before:
        return ()
    return (f"the engine stands at {facts.position:,}, the manifest was taken at {before:,}: an older copy, or another store",)
