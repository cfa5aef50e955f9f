"""Many lives of one store under every fault, each decided by one number; and the referee that watches them can lose patience.

More seeds: `lineal.testing.simulation.simulate(range(2_000))`, on SQLite with `engine="sqlite"`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from lineal.engines.memory import MemoryEngine
from lineal.rules import emission
from lineal.session import compaction, effects, spilling, travel
from lineal.testing.lasting import Lasting
from lineal.testing.simulation import replay, simulate
from lineal.testing.simulation.play import play
from lineal.testing.simulation.script import FAULTS, write
from lineal.testing.simulation.shrinking import shrink
from lineal.testing.tally import Tally

SEEDS, ON_DISK = range(60), range(4)
CAUGHT_WITHIN = 120  # seeds

REACHED = (
    "act again refused: unsettled_lookalike",
    "append retried after conflict",
    "checkpoint refused: taken_in_flight",
    "commit refused: overtaken",
    "compact refused: in_flight",
    "compact refused: summary_refused",
    "compaction aborted",
    "compaction committed",
    "dead compaction aborted",
    "decision asked again after conflict",
    "effect answered: recorded",
    "effect done",
    "effect had no effect",
    "effect resolved: happened",
    "effect resolved: not_happened",
    "effect sent again",
    "effect unknown",
    "fork at an older seq",
    "fork",
    "lease taken over from one that lives",
    "prune resumed",
    "prune",
    "purge resumed",
    "purge",
    "recovered: checkpoint",
    "recovered: replay",
    "roll back refused: raw_gone",
    "roll back refused: unguarded",
    "roll back refused: unknown_outcome",
    "rollback allowed",
    "rollback guarded",
    "shared effect refused: key_conflict",
    "shared effect refused: unknown",
    "spilled",
    "suspended",
    "verify: COMPACTION_IN_PROGRESS",
    "verify: POST_COMPACTION_CLEAN",
)


@pytest.fixture(scope="module")
def whole() -> Tally:
    return simulate(SEEDS, workers=1)


def test_no_seed_finds_anything_wrong(whole: Tally) -> None:
    """R1, R8, R31-R33, R40, R45, R47, R54, R59, R63, whatever dies, stalls, lies or comes at once."""
    assert whole.sound, "\n".join(whole.wrong())
    assert whole.runs == len(SEEDS)


def test_the_seeds_reach_what_they_are_to_prove(whole: Tally) -> None:
    assert set(REACHED) <= set(whole.states), sorted(set(REACHED) - set(whole.states))
    assert set(FAULTS) == set(whole.faults), "every kind of fault struck"


def test_the_same_on_a_file() -> None:
    """The same scripts, each process with an engine of its own on one SQLite file."""
    tally = simulate(ON_DISK, engine="sqlite", workers=1)
    assert tally.sound and tally.runs == len(ON_DISK), "\n".join(tally.wrong())


def test_a_seed_is_a_story_to_the_byte() -> None:
    """Also in another process, whose hashes are salted otherwise."""
    told = "from lineal.testing.simulation import replay; print(replay(3))"
    elsewhere = subprocess.run(
        [sys.executable, "-c", told], env={**os.environ, "PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=True
    ).stdout
    assert replay(3) == replay(3) == elsewhere.removesuffix("\n")
    assert replay(3) != replay(4)


def test_memory_and_file_tell_the_same_story() -> None:
    """What a caller meets does not depend on the engine (R62)."""
    assert play(write(5, "memory")).story == play(write(5, "sqlite")).story


# --- the referee can lose patience: lineal is broken on purpose, and some seed tells -------------------------------------------------


def _without_compare_and_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def append(self: MemoryEngine, session: str, expected_seq: int, rows: Any) -> None:
        with self._log(session) as log:
            for row in rows:
                log.add(row)

    monkeypatch.setattr(Lasting, "append", append)


def _leases_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for room in (compaction, spilling, travel):
        monkeypatch.setattr(room, "alive", lambda *_, **__: False)


def _a_fenced_holder_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_overtaken", lambda lineage, plan: "")


def _sent_before_it_is_intended(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = effects.begin

    def later(effect: Any) -> None:
        effect.key, effect.attempt, effect.pending = effect._asked_key or "@0.0", 1, True

    def settle(effect: Any, value: Any = None) -> Any:
        begin(effect)
        return effect._write("done", value, "")

    monkeypatch.setattr(effects, "begin", later)
    monkeypatch.setattr(effects.Effect, "settle", settle)


def _what_is_unknown_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = emission.judge
    monkeypatch.setattr(emission, "judge", lambda facts: judge(replace(facts, idempotent=True)))


def _appends_are_acknowledged_and_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Iterator[int] = iter(range(1, 1_000_000))
    append = MemoryEngine.append

    def forgetful(self: MemoryEngine, session: str, expected_seq: int, rows: Any) -> None:
        if next(calls) % 17:
            append(self, session, expected_seq, rows)

    monkeypatch.setattr(Lasting, "append", forgetful)


BROKEN: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "commit without compare-and-set": (_without_compare_and_set, ""),
    "leases are ignored": (_leases_are_ignored, "though its holder lives"),
    "a fenced holder commits": (_a_fenced_holder_commits, ""),
    "sent before it is intended": (_sent_before_it_is_intended, "intent is not in the log"),
    "what is unknown is sent again": (_what_is_unknown_is_sent_again, "was unknown and is intended"),
    "appends are acknowledged and dropped": (_appends_are_acknowledged_and_dropped, ""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_referee_sees_that(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these is a promise that is not kept; within a bounded number of seeds it is told, with its seed."""
    spoil, told = BROKEN[name]
    spoil(monkeypatch)
    tallies = (simulate([seed], workers=1, shrink_seconds=0.0) for seed in range(CAUGHT_WITHIN))
    found = next((tally.wrong()[0] for tally in tallies if not tally.sound), "")
    assert found and told in found.split("\n")[0], found or f"{name}: no seed below {CAUGHT_WITHIN} saw it"
    assert "again: python -m lineal.testing replay" in found


def test_a_failing_story_is_made_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left still fails in the same way, and is less."""
    _leases_are_ignored(monkeypatch)
    seed, played = next((seed, p) for seed in range(CAUGHT_WITHIN) if (p := play(write(seed, "memory"))).complaints)
    script = write(seed, "memory")
    smallest, short = shrink(script, played, seconds=3.0)
    assert short.complaints[0].kind == played.complaints[0].kind
    assert sum(len(p.verbs) for p in smallest.parts) < sum(len(p.verbs) for p in script.parts)
    assert "!!" in short.story[-1] or any("!!" in line for line in short.story)
