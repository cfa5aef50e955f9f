"""The mutation check: every rule's row and every protocol's step, removed or inverted, must make a test fail.

    python tests/mutations/run.py [--only TEXT] [--workers 2] [--json] [--groups rules,steps,expressions,bounds]

Works on copies of the tree; nothing here is changed. First each test is run once and it is noted which functions of lineal
it calls and which rows decide in it (kept until a file changes); then each mutant meets the tests that can know of it, the
likely killer first. Exit 1 if a mutant survives that `explained.py` does not explain, or an explained one is killed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mutations import expressions, rows, steps  # noqa: E402
from mutations.bench import Bench, Map, Worker  # noqa: E402
from mutations.explained import EXPLAINED  # noqa: E402
from mutations.mutant import Mutant  # noqa: E402

GROUPS = {"rules": rows.mutants, "steps": steps.mutants, "expressions": expressions.mutants}
ALL_GROUPS = {**GROUPS, "bounds": expressions.bounds}
BUDGET = 60.0  # recorded seconds of tests that one mutant meets at most (--budget)
EXPLAINED_BUDGET = 5.0


@dataclass
class Result:
    mutant: Mutant
    killed_by: str = ""
    story: str = ""  # for a row: the test outside tests/rules that kills it
    explained: str = ""
    ran: int = 0
    seconds: float = 0.0


def main() -> int:
    asked = _arguments()
    chosen = [m for name in asked.groups.split(",") for m in ALL_GROUPS[name]() if asked.only in m.name or asked.only in m.group]
    kept = Path(tempfile.gettempdir()) / f"lineal-mutants-{os.getuid()}-survivors.json"
    if asked.again:
        chosen = [m for m in chosen if m.name in json.loads(kept.read_text())]
    with Bench(asked.workers) as bench:
        known = bench.map(progress)
        begun = time.monotonic()
        results: list[Result] = []
        for result in bench.each(chosen, lambda worker, mutant: examine(worker, mutant, known, asked.budget)):
            results.append(result)
            mark = "killed" if result.killed_by else "explained" if result.explained else "SURVIVED"
            if not asked.json or mark == "SURVIVED":
                left = (time.monotonic() - begun) / len(results) * (len(chosen) - len(results))
                by = f"  by {result.killed_by}" if asked.verbose else ""
                progress(f"[{len(results)}/{len(chosen)}, {left:.0f} s left] {mark:9} {result.seconds:5.1f} s  {result.mutant.name}{by}")
    order = {m.name: n for n, m in enumerate(chosen)}
    results.sort(key=lambda r: order[r.mutant.name])
    kept.write_text(json.dumps([r.mutant.name for r in results if bad(r)]))
    print(json.dumps([asdict(r) for r in results], indent=1) if asked.json else report(results))
    return int(any(bad(r) for r in results))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mutants or groups with this text in their name")
    parser.add_argument("--groups", default=",".join(GROUPS), help=f"some of {', '.join(ALL_GROUPS)}")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of tests that a mutant meets at most")
    parser.add_argument("--again", action="store_true", help="only what survived the last time")
    parser.add_argument("--json", action="store_true", help="print every result as JSON")
    parser.add_argument("--verbose", action="store_true", help="say which test killed it")
    return parser.parse_args()


def progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def examine(worker: Worker, mutant: Mutant, known: Map, budget: float) -> Result:
    begun = time.monotonic()
    why = explanation(mutant)
    tests = known.tests_for(mutant, EXPLAINED_BUDGET if why else budget)
    result = Result(mutant, explained=why)
    if mutant.rule:
        first = [t for t in tests if in_rules(t)]
        result.killed_by, result.ran = worker.run(mutant, first)
        result.story, ran = worker.run(mutant, [t for t in tests if not in_rules(t)])
        result.killed_by, result.ran = result.killed_by or result.story, result.ran + ran
    else:
        result.killed_by, result.ran = worker.run(mutant, tests)
    known.learn(mutant, result.killed_by, result.story)
    result.seconds = round(time.monotonic() - begun, 2)
    return result


def in_rules(test: str) -> bool:
    """Whether a test asks the rule itself, and not a session."""
    return test.startswith(("tests/rules/", "tests/test_records"))


def explanation(mutant: Mutant) -> str:
    return next((why for pattern, why in EXPLAINED.items() if pattern == mutant.name or fnmatchcase(mutant.name, pattern)), "")


def bad(result: Result) -> bool:
    """A survivor that nothing explains."""
    return not result.killed_by and not result.explained


def report(results: list[Result]) -> str:
    groups = dict.fromkeys(r.mutant.group for r in results)
    counts = {name: Counter[str]() for name in groups}
    for r in results:
        counts[r.mutant.group].update(
            mutants=1, killed=bool(r.killed_by), story=bool(r.story), survived=bad(r), explained=bool(r.explained and not r.killed_by)
        )
    columns = ("mutants", "killed", "story", "explained", "survived")
    lines = [f"{'rule, protocol or file':28}" + "".join(f"{'by a story' if c == 'story' else c:>11}" for c in columns)]
    total = sum(counts.values(), Counter[str]())
    for name, count in [*counts.items(), ("all", total)]:
        lines.append(f"{name:28}" + "".join(f"{count[c]:>11}" for c in columns))
    rules_only = [r.mutant.name for r in results if r.mutant.rule and r.killed_by and not r.story]
    lines += ["", f"killed by the rule's own tests only ({len(rules_only)}): {', '.join(rules_only) or 'none'}"]
    wrong = [r.mutant.name for r in results if r.explained and r.killed_by]
    lines += ["", f"explained, but killed ({len(wrong)}): {', '.join(wrong) or 'none'}"]
    lines += ["", "survivors without an explanation:", *(f"  {r.mutant.name}" for r in results if bad(r))]
    return "\n".join(lines if any(map(bad, results)) else [*lines[:-1], "no survivor without an explanation"])


if __name__ == "__main__":
    sys.exit(main())
