"""How a generation is made: the one commit entry, the lineage it gives, and everything that is measured for it.

Summary, spill and stub go through `build`; nothing else makes a `CompactionCommitted` (R10, R21).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from lineal import anchors, codec, messages, working_set
from lineal.entries import CompactionCommitted, Node, Range, Stub
from lineal.errors import Refused
from lineal.fold import fold, replaced, restubbed
from lineal.lineage import Item, Lineage, TurnItem, view_facts
from lineal.rules.cut import STUB_LIMIT, name
from lineal.session.outcomes import Compacted
from lineal.tokens import measure

if TYPE_CHECKING:
    from lineal.session import Session


def summary_budget(session: Session) -> int:
    return min(session.policy.summary_max_tokens, max(1, session.policy.target // 2))


def readable_tokens(item: Item) -> int:
    return item.source_tokens if isinstance(item, Node) and item.kind == "spill" else item.tokens


def raw_ranges(items: Iterable[Item]) -> list[Range]:
    """Where the raw turns lie that a summarizer must be shown: turns, and what was only spilled before."""
    ranges: list[Range] = []
    for item in items:
        if isinstance(item, TurnItem):
            ranges.append((item.seq, item.seq))
        elif isinstance(item, Node) and item.kind == "spill":
            ranges.extend(item.ranges)
    return sorted(ranges)


def build(
    session: Session,
    lineage: Lineage,
    generation: int,
    request_id: str,
    covered: Sequence[Item],
    kind: Literal["summary", "spill"],
    text: str,
    stubs: Sequence[Stub],
) -> tuple[CompactionCommitted, Lineage]:
    """The commit of a generation and the lineage it would give. Nothing else makes one."""
    lossy = kind == "summary"
    nodes = (_node(session, lineage, generation, covered, kind, text),) if covered else ()
    found = lineage.anchors
    if lossy:
        found = anchors.merge(found, anchors.extract(session.read_turns(lineage, raw_ranges(covered)), messages.text_of))
    entry = CompactionCommitted(
        generation=generation,
        parent=lineage.generation,
        request_id=request_id,
        lossy=lossy,
        covered=tuple(name(i) for i in covered),
        kept=tuple(name(i) for i in lineage.items if name(i) and i not in covered),
        nodes=nodes,
        pre_digest=view_digest(lineage.items),
        post_digest=view_digest(restubbed(replaced(lineage.items, [name(i) for i in covered], nodes, None), stubs)),
        watermark=lineage.watermark,
        stubs=tuple(stubs),
        anchors=found,
        ineffective=0 if lossy else lineage.ineffective,
    )
    draft = fold(lineage, lineage.head + 1, lineage.digest, "", entry)
    note = working_set.make_note(draft, summary_budget(session), session.counter)
    if note:
        # The note stands behind the last covered turn, not at the head: what was said since comes after it.
        entry = msgspec.structs.replace(entry, note=msgspec.structs.replace(note, seq=max(draft.covered_through, 0)))
        draft = fold(lineage, lineage.head + 1, lineage.digest, "", entry)
    return entry, draft


def _node(
    session: Session, lineage: Lineage, generation: int, covered: Sequence[Item], kind: Literal["summary", "spill"], text: str
) -> Node:
    count = sum(i.count if isinstance(i, Node) else 1 for i in covered)
    source = sum(readable_tokens(i) for i in covered)
    bare = Node(kind, generation, ranges_of(lineage, covered), count, 0, 0, source, text, working_set.spoken(lineage))
    return working_set.measured(bare, session.counter)


def ranges_of(lineage: Lineage, covered: Sequence[Item]) -> tuple[Range, ...]:
    """The covered seqs as ranges; two runs are joined only if no kept item stands between them."""
    chosen = {name(i) for i in covered}
    spans: list[tuple[int, int, bool]] = []
    for item in lineage.items:
        inside = name(item) in chosen
        ranges = item.ranges if isinstance(item, Node) else ((item.seq, item.seq),)
        spans.extend((a, b, inside) for a, b in ranges if name(item))
    joined: list[Range] = []
    open_run = False
    for first, last, inside in sorted(spans):
        if inside and open_run:
            joined[-1] = (joined[-1][0], last)
        elif inside:
            joined.append((first, last))
        open_run = inside
    return tuple(joined)


def view_digest(items: Iterable[Item]) -> str:
    return codec.digest(codec.to_json(view_facts(items))).hex()


def stubs_for(session: Session, ids: Iterable[str]) -> list[Stub]:
    """How the named turns will be shown, measured, once their oversized blocks are stubs with a handle (R26)."""
    lineage, stubs = session.log.lineage, []
    for turn in filter(None, map(lineage.turn, ids)):
        message = session.read_turns(lineage, [(turn.seq, turn.seq)])[0].message
        if messages.stub(message, STUB_LIMIT, f"t:{turn.id}") is not None:
            shown = working_set.turn_message(msgspec.structs.replace(turn, stubbed=STUB_LIMIT), message)
            tokens, size = measure(shown, session.counter)
            stubs.append(Stub(turn.id, STUB_LIMIT, tokens, size))
    return stubs


def compacted(before: Lineage, after: Lineage, entry: CompactionCommitted, ids: Sequence[str], because: Refused | None = None) -> Compacted:
    """The outcome of a commit. `ids`: the turns that its node newly stands for."""
    stubbed = [s.turn for s in entry.stubs]
    return Compacted(
        generation=entry.generation,
        committed_at=before.head + 1,
        covered=tuple(ids) if entry.lossy else (),
        kept=tuple(t.id for t in after.turns if t.id not in stubbed),
        spilled=tuple(stubbed) if entry.lossy else (*ids, *stubbed),
        tokens_before=before.view_tokens,
        tokens_after=after.view_tokens,
        handle=entry.nodes[0].handle if entry.nodes else "",
        lossy=entry.lossy,
        because=because,
    )


def announce(session: Session, entry: CompactionCommitted) -> None:
    """Call the session's `before_commit` hook, once for each generation whatever asked for it. What it raises stops the commit."""
    if session.before_commit and entry.generation not in session.announced:
        session.announced.add(entry.generation)
        session.before_commit(entry)


def raw_ids(session: Session, lineage: Lineage, covered: Iterable[Item]) -> list[str]:
    return [t.id for t in session.read_turns(lineage, raw_ranges(covered))]
