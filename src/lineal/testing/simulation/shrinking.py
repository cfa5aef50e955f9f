"""A failing script with everything left out that it can fail without: greedy, and bounded in time."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

from lineal.testing.simulation.play import Played, play
from lineal.testing.simulation.script import Script

SECONDS = 20.0


def shrink(script: Script, played: Played, seconds: float = SECONDS) -> tuple[Script, Played]:
    """The smallest script found in that time that still fails in the same kind of way, and its run."""
    until = time.monotonic() + seconds
    gist = _gist(played)
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(script):
            if time.monotonic() > until:
                return script, played
            tried = play(candidate)
            if tried.complaints and _gist(tried) == gist:
                script, played, smaller = candidate, tried, True
                break
    return script, played


def _smaller(script: Script) -> Iterator[Script]:
    """Scripts with less in them, the greatest leaps first: a part's verbs, halves of them, faults, single verbs."""
    for n, part in enumerate(script.parts):
        if part.verbs:
            yield script.with_verbs(n, ())
    for n, part in enumerate(script.parts):
        half = len(part.verbs) // 2
        if half > 1:
            yield script.with_verbs(n, part.verbs[:half])
            yield script.with_verbs(n, part.verbs[half:])
    for n in range(len(script.faults)):
        yield script.without_fault(n)
    for n, part in enumerate(script.parts):
        for i in reversed(range(len(part.verbs))):
            yield script.with_verbs(n, (*part.verbs[:i], *part.verbs[i + 1 :]))


def _gist(played: Played) -> str:
    """What is wrong, without numbers and names: a smaller script fails in the same way if it says the same."""
    first = played.complaints[0]
    last = first.what.strip().rpartition("\n")[2]
    return f"{first.kind}: " + re.sub(r"'[^']*'|\[[^]]*\]|\([\d, ]*\)|\S*\d\S*", "#", last.partition(": ")[2] or last)[:60]
