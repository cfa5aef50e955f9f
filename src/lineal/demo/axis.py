"""The log as lines of text: its tail, what a note says, and the whole of it on one axis of seqs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lineal.entries import (
    CheckpointTaken,
    CompactionAborted,
    CompactionCommitted,
    EffectResolved,
    EffectSettled,
    Entry,
    Note,
    RolledBack,
)
from lineal.session import Session
from lineal.view import timeline


def tail(session: Session, size: int) -> Iterator[tuple[int, str]]:
    """The last entries: seq and what each says, on one line."""
    head = session.status().head
    yield from ((row.seq, row.text) for row in timeline(session.log.entries(max(0, head - size))))


def note(session: Session, key: str) -> Iterator[str]:
    """What the newest machine-made note in the view says of an effect, with the line that it stands under."""
    found = [item for item in session.log.catch_up().items if isinstance(item, Note)]
    heading = ""
    for line in found[-1].text.splitlines()[1:] if found else ():
        if key in line:
            yield from (heading, line) if line.startswith("- ") else (line,)
        heading = heading if line.startswith("- ") else line


# --- one axis --------------------------------------------------------------------------------------------------------

LANES: tuple[tuple[str, Callable[[Entry], str]], ...] = (
    ("s summary, S spill", lambda e: ("s" if e.lossy else "S") if isinstance(e, CompactionCommitted) else ""),
    ("x aborted pass", lambda e: "x" if isinstance(e, CompactionAborted) else ""),
    ("c checkpoint", lambda e: "c" if isinstance(e, CheckpointTaken) else ""),
    ("e effect, ? unknown", lambda e: {"unknown": "?"}.get(e.state, "e") if isinstance(e, EffectSettled) else ""),
    ("! resolved, < back", lambda e: "!" if isinstance(e, EffectResolved) else "<" if isinstance(e, RolledBack) else ""),
)


def axis(session: Session, kills: Iterable[int], width: int) -> Iterator[str]:
    """The log from its first seq to its head in `width` columns, one lane a line; what falls together shows the later.

    `kills`: the head at each kill.
    """
    head = max(1, session.status().head)
    lanes = [["."] * width for _ in LANES]
    killed = ["."] * width
    for seq in kills:
        killed[(seq - 1) * width // head] = "K"
    for row, entry in session.log.entries():
        for lane, (_, mark) in zip(lanes, LANES, strict=True):
            if found := mark(entry):
                lane[(row.seq - 1) * width // head] = found
    yield f"  {'seq':<20}1{str(head):>{width - 1}}"
    yield f"  {'K kill':<20}{''.join(killed)}"
    for (name, _), lane in zip(LANES, lanes, strict=True):
        yield f"  {name:<20}{''.join(lane)}"
