"""What the session's verbs return. Plain values: programs read fields, `str()` reads well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lineal.entries import Anchor, Node, Pin, Turn
from lineal.errors import Refused, Verdict
from lineal.lineage import Done
from lineal.summarizers import SummaryRequest


@dataclass(frozen=True)
class Plan:
    """A begun compaction: what would leave the view, what stays, and what the summarizer is to be shown.

    `covered`, `kept` and `spilled` hold ids of turns, each in exactly one of them (R8): `covered` ones, also those that were
    only spilled before, are summarised; `spilled` ones stay with their oversized blocks as stubs. `nodes` are the handles of
    older nodes that this generation takes the place of. `more`: a small summarizer window left turns for the next pass.
    """

    session: str
    generation: int
    covered: tuple[str, ...]
    kept: tuple[str, ...]
    spilled: tuple[str, ...]
    nodes: tuple[str, ...]
    request: SummaryRequest
    request_id: str
    epoch: int
    parent: int
    begun_seq: int
    automatic: bool = False
    more: bool = False


@dataclass(frozen=True)
class Compacted:
    """A committed generation: ids of turns, each in exactly one of `covered`, `kept` and `spilled` (R8).

    `lossy` is False for a spill: its turns are `spilled` and come back byte-exact through `handle`. Where only oversized
    blocks were put aside there is no node, `handle` is empty, and each turn is re-read by its own id.
    """

    generation: int
    committed_at: int
    covered: tuple[str, ...]
    kept: tuple[str, ...]
    spilled: tuple[str, ...]
    tokens_before: int
    tokens_after: int
    handle: str
    lossy: bool = True
    because: Refused | None = None

    def __str__(self) -> str:
        how = "compacted" if self.lossy else "spilled"
        turns = len(self.covered) or len(self.spilled)
        return f"{how} {turns} turns into {self.handle or 'stubs'}: {self.tokens_before:,} -> {self.tokens_after:,} tokens"


@dataclass(frozen=True)
class Nothing:
    """There was nothing to do; no summarizer was asked, nothing was written."""

    verdict: Verdict

    @property
    def reason(self) -> str:
        return self.verdict.reason


@dataclass(frozen=True)
class Failed:
    """The summarizer raised, hung past the deadline, or was cancelled. The view is as it was."""

    error: BaseException
    generation: int

    @property
    def reason(self) -> str:
        return type(self.error).__name__

    def __str__(self) -> str:
        return f"failed: {self.reason}: {self.error}"


Outcome = Compacted | Nothing | Refused | Failed


@dataclass(frozen=True)
class Recovery:
    """Where the session came back from: a checkpoint, or a replay of the last compaction's (or rollback's) own output."""

    target: str
    seq: int
    why: str
    checkpoint: str | None = None
    passed_over: tuple[tuple[str, Verdict], ...] = ()
    unknown: tuple[str, ...] = ()
    aborted: int | None = None


@dataclass(frozen=True)
class Rollback:
    """A rollback, real or dry: `seq` is the new head (dry: the head it would follow), `target` the seq gone back to."""

    seq: int
    target: int
    guarded: tuple[str, ...]
    refused: tuple[str, ...]
    left_behind: tuple[str, ...]
    verdict: Verdict
    dry_run: bool = False


@dataclass(frozen=True)
class Status:
    """One look at a session. Sizes are of the view."""

    session: str
    head: int
    generation: int
    tokens: int
    bytes: int
    items: int
    suspended: bool
    open_calls: tuple[str, ...]
    unknown_effects: tuple[str, ...]
    watermark: int
    in_flight: int | None
    epoch: int
    latched: str | None
    digest: str


@dataclass(frozen=True)
class LedgerRow:
    """One effect: `state` is intended, done, no_effect, unknown or compensated; `seq` is its intent's."""

    key: str
    tool: str
    arguments_digest: str
    idempotent: bool
    state: str
    outcome: Any
    seq: int
    attempt: int = 1
    keyed: bool = True
    guarded: bool = True
    resolved: bool = False
    turn: int = 0
    shown: Any = None
    note: str = ""
    handle: str = ""


@dataclass(frozen=True)
class Hit:
    """A found turn: `handle` re-reads it, `text` is what matched."""

    id: str
    seq: int
    handle: str
    text: str
    score: float


@dataclass(frozen=True)
class Shown:
    """One message of the view. `turn`, `seq`: the turn it shows ("", 0: lineal itself says it). `whole`: exactly as it was said."""

    message: Any
    turn: str
    seq: int
    whole: bool


@dataclass(frozen=True)
class Said:
    """A message that a record says: its turn's id, and who really wrote it."""

    id: str
    message: Any
    author: str | None = None


@dataclass(frozen=True)
class Record:
    """Something for a host to keep: any JSON. `turns`: ids of the turns whose content it repeats, so that a purge takes it too.

    `says`: messages that become turns in the same transaction; their content is repeated by `data` as a matter of course.
    """

    data: Any
    key: str = ""
    turns: Sequence[str] = ()
    says: Sequence[Said] = ()


@dataclass(frozen=True)
class Kept:
    """A record as it stands in the log. `data` is None once a purge took it."""

    seq: int
    group: str
    key: str
    data: Any
    turns: tuple[str, ...]


@dataclass(frozen=True)
class View:
    """The working set as data: what `messages()` renders, and the notes that are never left to a summary.

    `effects` are the unsettled ones, `done` the newest settled ones that may not be repeated.
    """

    session: str
    seq: int
    generation: int
    summaries: tuple[Node, ...]
    turns: tuple[Turn, ...]
    tokens: int
    bytes: int
    items: int
    watermark: int
    open_calls: tuple[str, ...]
    effects: tuple[LedgerRow, ...]
    done: tuple[Done, ...]
    pins: tuple[Pin, ...]
    anchors: tuple[Anchor, ...]
    handles: tuple[str, ...]


@dataclass(frozen=True)
class Packed:
    """What a pack moved into segments, or (dry) would move: `runs` of rows, ranges of seqs with both ends inside.

    `bytes_before`: content of these rows, and segments that were joined with it; `bytes_after`: the segments that hold it now.
    `segments`: how many; `seqs`: of their rows. `damaged`: rows that are not what their digest says; they were left as they are.
    """

    runs: tuple[tuple[int, int], ...]
    entries: int
    bytes_before: int
    bytes_after: int
    segments: int
    seqs: tuple[int, ...] = ()
    damaged: tuple[int, ...] = ()
    dry_run: bool = False

    def __str__(self) -> str:
        if not self.entries:
            return "nothing to pack"
        how = "would pack" if self.dry_run else "packed"
        return f"{how} {self.entries:,} entries into {self.segments:,} segments: {self.bytes_before:,} -> {self.bytes_after:,} bytes"


@dataclass(frozen=True)
class Pruned:
    """What a prune dropped, or (dry) would drop: ranges of seqs, both ends inside. Nothing reachable needed them."""

    ranges: tuple[tuple[int, int], ...]
    entries: int
    states: tuple[int, ...]
    dry_run: bool = False


@dataclass(frozen=True)
class Purged:
    """A purge's receipt: what lost its content, and which checkpoints and generations can no longer be gone back to."""

    turns: tuple[str, ...]
    erased: tuple[int, ...]
    generations: tuple[int, ...]
    checkpoints: tuple[str, ...]
    states: tuple[int, ...]
    effects: tuple[str, ...] = ()
    begun_seq: int = 0
    finished_seq: int = 0
    kept_by: tuple[str, ...] = field(default=())
