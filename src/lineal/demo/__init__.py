"""`lineal demo`: an agent process works through a real transcript, is killed three times, and goes back once.

| kill | what stands in the log then | what must follow |
|---|---|---|
| while its summarizer is at work | a compaction begun, never committed | it is closed as aborted; the view is as it was |
| after the world moved, before it was recorded | an effect's intent, no outcome | it is *unknown*: not sent again, no rollback over it |
| while an append's commit is being written | nothing of that append | it is whole or absent, and said again |

Each kill is SIGKILL by another process. Then an operator resolves the effect, the rollback passes, the agent comes to
the same effects once more, and the ledger answers. The effects write to a file outside the store, so that it can be
counted how often each was really done.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lineal.demo.acts import Stage, make_way
from lineal.demo.killing import Command
from lineal.demo.report import DemoReport
from lineal.demo.script import load
from lineal.transcripts import sample_path

__all__ = ["LIMIT", "DemoReport", "run"]

LIMIT = 400  # records of a transcript that are replayed at most


def run(
    transcript: Path | None,
    store: Path,
    *,
    conversation: int = 0,
    out: Callable[[str], None] = print,
    seed: int = 0,
    limit: int = LIMIT,
) -> DemoReport:
    """Play the demo with `transcript` (None: the shipped sample), of which at most `limit` records, and leave `store` behind.

    `out` is called with each line of text. `seed` chooses where in the commit the third kill falls. A store and a world
    file that an earlier demo made are replaced. Raises `PolicyError` or `Unavailable` for a transcript that cannot be
    read or is too small, `Refused` if a file of somebody else stands in the way.
    """
    path = Path(transcript) if transcript is not None else sample_path()
    script = load(path, conversation, limit)
    make_way(store)
    return Stage(script, Command(path, store, conversation, limit, seed), out).play()
