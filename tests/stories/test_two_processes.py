"""Two, then four, real processes append to one session and compact it at the same time, for thousands of turns.

None lost, none doubled, one order, the chain intact: read back from the file when they have ended.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import lineal
from lineal.entries import CompactionCommitted, TurnAppended

POLICY = lineal.Policy(trigger=3_000, ceiling=6_000, target=900, floor_turns=6)

WRITER = """
import sys
import lineal

path, me, turns = sys.argv[1], sys.argv[2], int(sys.argv[3])
policy = lineal.Policy(trigger=3_000, ceiling=6_000, target=900, floor_turns=6)

def summarize(request):
    return f"{len(request.turns)} more turns of the writers came by, the newest of them {request.turns[-1].id}; nothing was decided."

with lineal.connect(path) as store:
    session = store.session("shared", policy)
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(turns):
        role = "user" if n % 5 == 0 else "assistant"
        turn = session.append({"role": role, "content": f"writer {me} says number {n}, as it was told to"}, id=f"{me}-{n}")
        print(turn.id, turn.seq, flush=True)
        if n % 7 == 3:
            outcome = session.maybe_compact(summarize)
            assert not isinstance(outcome, lineal.Failed), outcome
"""


def run_writers(path: Path, writers: int, turns: int) -> dict[str, list[tuple[str, int]]]:
    """Start the writers together; each one's acknowledged (id, seq), in its own order."""
    names = [f"w{n}" for n in range(writers)]
    started = {
        name: subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name, str(turns)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    }
    for process in started.values():
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == "ready\n", process.stderr.read()
    for process in started.values():
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    acknowledged = {}
    for name, process in started.items():
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, f"{name}: {err}"
        acknowledged[name] = [(id, int(seq)) for id, seq in (line.split() for line in out.splitlines())]
    return acknowledged


@pytest.mark.parametrize(("writers", "turns"), [(2, 1_000), (4, 250)])
def test_writers_share_one_session(tmp_path: Path, writers: int, turns: int) -> None:
    """R31, R32, R41: appends commute, decisions are asked again, nothing is replaced."""
    path = tmp_path / "shared.db"
    acknowledged = run_writers(path, writers, turns)
    with lineal.connect(path) as store:
        session = store.session("shared", POLICY)
        entries = list(session.log.entries())
        seqs = {e.id: row.seq for row, e in entries if isinstance(e, TurnAppended)}
        told = [pair for pairs in acknowledged.values() for pair in pairs]

        assert len(told) == writers * turns and dict(told) == seqs, "every acknowledged turn stands once, where it was told to stand"
        assert [row.seq for row, _ in entries] == list(range(1, len(entries) + 1)), "one sequence without a hole"
        for name, pairs in acknowledged.items():
            assert [seq for _, seq in pairs] == sorted(seq for _, seq in pairs), f"{name} kept its own order"
        assert session.verify().clean

        commits = [e for _, e in entries if isinstance(e, CompactionCommitted)]
        assert len(commits) >= 3, "they did compact while they wrote"
        parents = [0, *(e.generation for e in commits)]
        assert [e.parent for e in commits] == parents[:-1], "generations form one chain"
        shown = Counter(t.seq for t in session.view().turns)
        ranges = [r for node in session.view().summaries for r in node.ranges]
        for id, seq in seqs.items():
            assert shown[seq] + sum(a <= seq <= b for a, b in ranges) == 1, f"{id} is in exactly one of shown and stood for (R8)"
