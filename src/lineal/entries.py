"""Everything that can stand in a log. Frozen structs, no behaviour beyond what their fields say.

A log is one sequence of entries, `seq` = 1, 2, 3, ... (the records call it `lineage_seq`). What an entry *means* is
said once, in `lineage.py`; how it is written as bytes, in `codec.py`. Times (`at`, seconds since 1970) are kept for
people; nothing is ever ordered or decided by them, except that a lease of another machine ends by its deadline.

| kind | says |
|---|---|
| `turn` | a message was said; its calls and results, size in tokens and bytes |
| `compaction_begun` | a summary of these turns is being written, by this holder, until this deadline |
| `compaction_committed` | these turns are now stood for by this node (a summary, or a lossless spill) |
| `compaction_aborted` | that compaction did not happen |
| `evicted` | a host dropped these turns from the view, with nothing in their place |
| `suspended` | compaction stopped making progress; the numbers |
| `checkpoint` | the fold at the seq before was materialised, with this digest |
| `rolled_back` | the view is again what it was at that seq |
| `forked` | this log is a copy of that one up to here |
| `effect_intended`, `effect_attached` | something is about to be done to the world; where to ask how it stands |
| `effect_settled`, `effect_resolved` | how it ended; what an operator found out |
| `pinned`, `unpinned` | keep this turn, or this text, verbatim |
| `usage` | what the provider counted for the view |
| `prune_begun`, `prune_finished` | these raw rows are being dropped; are gone |
| `purge_begun`, `purge_finished` | these entries' content is being erased; is gone |
| `pack_begun`, `pack_aborted` | the content of these old rows is being copied into segments; that came to nothing, they are being emptied |
| `segment` | salts and bodies of a run of rows, compressed |
| `pack_committed`, `pack_finished` | these segments stand for these rows from now on; what is not needed any more is gone |
| `host` | what a framework keeps beside the conversation (a checkpoint of its own); in no view |
"""

from __future__ import annotations

from typing import Any, Literal

from lineal.values import Anchor as Anchor
from lineal.values import Call as Call
from lineal.values import Holder as Holder
from lineal.values import Lease as Lease
from lineal.values import Node as Node
from lineal.values import Note as Note
from lineal.values import Piece as Piece
from lineal.values import Pin as Pin
from lineal.values import Range as Range
from lineal.values import Result as Result
from lineal.values import Run as Run
from lineal.values import Struct as Struct
from lineal.values import Stub as Stub
from lineal.values import Turn as Turn


class Entry(Struct, frozen=True, tag_field="kind", kw_only=True):
    """Something that stands in a log. `before`: in each of its chains (`lineage.chains_of`), the seq of the entry before it, 0 if none."""

    at: float = 0.0
    before: tuple[int, ...] = ()


# --- entries ---------------------------------------------------------------------------------------------------------


class TurnAppended(Entry, frozen=True, tag="turn"):
    """One message, as it was given. `tokens` and `bytes` measure what the view shows of it.

    `stubbed`: blocks above so many bytes are shown as a stub (0 = whole). `late`: a result whose call has left the view.
    """

    id: str
    author: str
    role: str
    message: Any
    tokens: int
    bytes: int
    dialect: str = "openai"
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()
    stubbed: int = 0
    late: bool = False


class CompactionBegun(Entry, frozen=True, tag="compaction_begun"):
    generation: int
    request_id: str
    covered: tuple[str, ...]
    kept: tuple[str, ...]
    spilled: tuple[str, ...]
    input_digest: str
    lease: Lease
    policy: dict[str, Any] = {}


class CompactionCommitted(Entry, frozen=True, tag="compaction_committed"):
    """`lossy` is True for a summary. `pre_digest` and `post_digest` are of the view before and after (record 004).

    `more`: turns that could have been covered were left, because the summarizer could not read, or did not receive, them.
    """

    generation: int
    parent: int
    request_id: str
    lossy: bool
    covered: tuple[str, ...]
    kept: tuple[str, ...]
    nodes: tuple[Node, ...]
    pre_digest: str
    post_digest: str
    watermark: int
    stubs: tuple[Stub, ...] = ()
    anchors: tuple[Anchor, ...] = ()
    note: Note | None = None
    ineffective: int = 0
    more: bool = False


class CompactionAborted(Entry, frozen=True, tag="compaction_aborted"):
    generation: int
    why: str
    ineffective: bool = False


class Evicted(Entry, frozen=True, tag="evicted"):
    turns: tuple[str, ...]
    by: str


class Suspended(Entry, frozen=True, tag="suspended"):
    """Automatic passes rest until a user turn comes, or the pins, or the policy, are others than now (R23)."""

    tokens: int
    floor_tokens: int
    pinned_tokens: int
    trigger: int
    policy: dict[str, Any] = {}


class CheckpointTaken(Entry, frozen=True, tag="checkpoint"):
    id: str
    label: str
    generation: int
    state_digest: str
    watermark: int
    in_flight: bool = False


class RolledBack(Entry, frozen=True, tag="rolled_back"):
    """`past` is the state of the fold at `target`, as `lineage.to_state` gives it: the new head needs no old rows."""

    target: int
    past: dict[str, Any]
    guarded: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    note: Note | None = None
    checkpoint: str = ""


class Forked(Entry, frozen=True, tag="forked"):
    """The rows below are the parent's, byte for byte; `stand_ins` of purged ones are declared again for this chain."""

    parent: str
    parent_digest: str
    fork_at: int
    note: Note | None = None
    stand_ins: dict[str, Any] = {}


class EffectIntended(Entry, frozen=True, tag="effect_intended"):
    """`turn` and `place` say which call this is; `keyed` is False when the key was made from them (R50)."""

    key: str
    tool: str
    arguments: str
    lease: Lease
    idempotent: bool = False
    keyed: bool = True
    guarded: bool = True
    attempt: int = 1
    turn: int = 0
    shown: Any = None


class EffectAttached(Entry, frozen=True, tag="effect_attached"):
    """Where the outside world tells how the effect stands: a job id, a message id, a URL."""

    key: str
    handle: str


class EffectSettled(Entry, frozen=True, tag="effect_settled"):
    key: str
    attempt: int
    state: Literal["done", "no_effect", "unknown"]
    outcome: Any = None
    why: str = ""


class EffectResolved(Entry, frozen=True, tag="effect_resolved"):
    key: str
    finding: Literal["happened", "not_happened", "compensated"]
    note: str = ""


class Pinned(Entry, frozen=True, tag="pinned"):
    pin: Pin
    note: Note | None = None


class Unpinned(Entry, frozen=True, tag="unpinned"):
    id: str


class Usage(Entry, frozen=True, tag="usage"):
    """What the provider counted, beside what we counted for the same view (tokens, before calibration)."""

    input_tokens: int
    output_tokens: int
    counted: int


class PruneBegun(Entry, frozen=True, tag="prune_begun"):
    """`segments`: those that stand for no row any more once these are gone; their content goes with them."""

    runs: tuple[Run, ...]
    entries: int
    segments: tuple[int, ...] = ()


class PruneFinished(Entry, frozen=True, tag="prune_finished"):
    begun: int


class PurgeBegun(Entry, frozen=True, tag="purge_begun"):
    """`stand_ins` (seq -> entry without content) take the place of rows that lose bytes and salt and keep their digests.

    `seqs` are the purged turns', `effects` the keys whose outcome goes with them; `nodes` are the view's that lose their
    text. `checkpoints` and `generations` are no longer usable. No content stands here: what a later purge would have to
    erase (a note) is in `PurgeFinished`. `segments` hold some of the content: what else is in them is packed anew, then they go.
    """

    turns: tuple[str, ...]
    stand_ins: dict[str, Any]
    generations: tuple[int, ...]
    checkpoints: tuple[str, ...]
    nodes: tuple[Node, ...] = ()
    seqs: tuple[int, ...] = ()
    effects: tuple[str, ...] = ()
    segments: tuple[int, ...] = ()


class PurgeFinished(Entry, frozen=True, tag="purge_finished"):
    begun: int
    note: Note | None = None


class PackBegun(Entry, frozen=True, tag="pack_begun"):
    """Salts and bodies (`bytes` in all) of the `entries` rows in `runs` are being copied into segments, which hold older segments'
    content too where they take their place. `pre_digest` is over seqs and inner digests of all these rows, as they stand.
    """

    runs: tuple[Range, ...]
    entries: int
    bytes: int
    pre_digest: str
    lease: Lease


class Segment(Entry, frozen=True, tag="segment"):
    """Salts and bodies of the rows in `runs`: `size` bytes, in `packed` as one compressed frame (`session/segments.py`).

    `begun`: the seq of the pack, or purge, that wrote it. It takes the place of the older segments in `replaces`. The fold
    passes over it. Without `packed` it is what stands for a segment whose content is gone.
    """

    begun: int = 0
    runs: tuple[Range, ...] = ()
    size: int = 0
    replaces: tuple[int, ...] = ()
    packed: bytes = b""


class PackCommitted(Entry, frozen=True, tag="pack_committed"):
    """The manifest: `segments` stand for the rows of the pack begun at `begun`, and for the segments in `replaced`.

    `post_digest` is over the same as `pre_digest` was, as the segments were read back.
    """

    begun: int
    segments: tuple[Piece, ...]
    post_digest: str
    replaced: tuple[int, ...] = ()


class PackAborted(Entry, frozen=True, tag="pack_aborted"):
    """The pack came to nothing, and its packer may not go on. `leftovers`: segments that it had written; their content goes."""

    begun: int
    leftovers: tuple[int, ...] = ()


class PackFinished(Entry, frozen=True, tag="pack_finished"):
    begun: int


class HostRecord(Entry, frozen=True, tag="host"):
    """What a host keeps beside the conversation, in a `space` of its own: opaque to the fold, in no view.

    It is found with the others of its `group`, or by its `key` in it, until a record of the same space names its seq in
    `releases`. `turns`: ids of turns whose content `data` repeats; a purge of one of them takes the data too.
    """

    space: str
    group: str = ""
    key: str = ""
    data: Any = None
    turns: tuple[str, ...] = ()
    releases: tuple[int, ...] = ()


class Unknown(Entry, frozen=True, tag="unknown"):
    """An annotation of another program (kind `x.*`): carried byte for byte, without any effect on the view (R57)."""

    name: str
    raw: bytes = b""


ENTRY_TYPES: tuple[type[Entry], ...] = (
    TurnAppended, CompactionBegun, CompactionCommitted, CompactionAborted, Evicted, Suspended, CheckpointTaken, RolledBack, Forked,
    EffectIntended, EffectAttached, EffectSettled, EffectResolved, Pinned, Unpinned, Usage,
    PruneBegun, PruneFinished, PurgeBegun, PurgeFinished, PackBegun, Segment, PackCommitted, PackAborted, PackFinished, HostRecord,
)  # fmt: skip
