"""The log as lines of text: its tail, the notes in the view, and the whole of it on one axis of seqs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lineal.entries import (
    CheckpointTaken,
    CompactionAborted,
    CompactionBegun,
    CompactionCommitted,
    EffectIntended,
    EffectResolved,
    EffectSettled,
    Entry,
    Note,
    RolledBack,
    TurnAppended,
)
from lineal.session import Session


def tail(session: Session, size: int) -> Iterator[str]:
    """The last entries, one a line."""
    head = session.status().head
    for row, entry in session.log.entries(max(0, head - size)):
        yield f"seq {row.seq:>5}  {row.kind:<21}{told(entry)}"


def told(entry: Entry) -> str:
    match entry:
        case TurnAppended():
            return f"{entry.id} by {entry.author}, {entry.tokens:,} tokens"
        case CompactionBegun():
            return f"generation {entry.generation}: {len(entry.covered)} of {len(entry.covered) + len(entry.kept)} items would leave the view"
        case CompactionCommitted():
            return f"generation {entry.generation}, {'a summary' if entry.lossy else 'a spill'} for {len(entry.covered)} items"
        case CompactionAborted():
            return f"generation {entry.generation}: {entry.why:.60}"
        case EffectIntended():
            return f"{entry.tool}, key {entry.key}, attempt {entry.attempt}"
        case EffectSettled():
            return f"{entry.key}: {entry.state}"
        case EffectResolved():
            return f"{entry.key}: {entry.finding}"
        case CheckpointTaken():
            return f"{entry.id}, {entry.label}"
        case RolledBack():
            return f"to seq {entry.target}"
        case _:
            return ""


def notes(session: Session, size: int) -> Iterator[str]:
    """The first lines of the newest machine-made note in the view: what the model is told without being asked."""
    found = [item for item in session.log.catch_up().items if isinstance(item, Note)]
    yield from found[-1].text.splitlines()[1 : size + 1] if found else ()


# --- one axis --------------------------------------------------------------------------------------------------------

LANES: tuple[tuple[str, Callable[[Entry], str]], ...] = (
    ("summary, Spill", lambda e: ("s" if e.lossy else "S") if isinstance(e, CompactionCommitted) else ""),
    ("x aborted", lambda e: "x" if isinstance(e, CompactionAborted) else ""),
    ("checkpoint", lambda e: "c" if isinstance(e, CheckpointTaken) else ""),
    ("effect, ? unknown", lambda e: {"unknown": "?"}.get(e.state, "e") if isinstance(e, EffectSettled) else ""),
    ("! resolved, < back", lambda e: "!" if isinstance(e, EffectResolved) else "<" if isinstance(e, RolledBack) else ""),
)


def axis(session: Session, width: int) -> Iterator[str]:
    """The log from its first seq to its head in `width` columns, one lane a line; what falls together shows the later."""
    head = max(1, session.status().head)
    lanes = [["."] * width for _ in LANES]
    for row, entry in session.log.entries():
        for lane, (_, mark) in zip(lanes, LANES, strict=True):
            if found := mark(entry):
                lane[(row.seq - 1) * width // head] = found
    yield f"  {'seq':<20}1{str(head):>{width - 1}}"
    for (name, _), lane in zip(LANES, lanes, strict=True):
        yield f"  {name:<20}{''.join(lane)}"
