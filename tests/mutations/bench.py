"""Where mutants are tried: copies of the tree, one for each worker, with a process in each that has collected the tests."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

from mutations.mutant import ROOT, SRC, Mutant

COPIED = ("src", "tests", "docs", "examples", "bench", "pyproject.toml", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "Makefile")
# Not asked: whether the house is tidy, whether docs are fresh, what proves the kit itself, and whole programs.
LEFT_OUT = (
    "tests/mutations", "tests/test_tidy.py", "tests/test_docs.py", "tests/test_demo.py", "tests/testing", "tests/fuzz", "tests/formats",
    "tests/test_formal.py", "tests/cli/test_process.py", "tests/transcripts", "tests/summarizers", "tests/test_audit.py", "tests/audit",
    "tests/stories/test_kill_at_every_call.py", "tests/stories/test_model.py", "tests/stories/test_histories.py",
)  # fmt: skip
ORDER = "tests/rules/test_order.py"  # looks at rows that decide in none of its cases, too
T = TypeVar("T")


class Map:
    """Which test calls what, how long it takes, and which ones have killed before."""

    def __init__(self, seen: list[dict[str, Any]]):
        self.left_out = [one["test"] for one in seen if not one["passed"]]
        self.seconds = {one["test"]: one["seconds"] for one in seen if one["passed"]}
        self.callers: dict[str, set[str]] = defaultdict(set)
        for one in seen:
            if one["passed"]:
                for what in (*one["functions"], *(f"row {row}" for row in one["rows"])):
                    self.callers[what].add(one["test"])
        self._killers: dict[str, dict[str, int]] = defaultdict(dict)

    def learn(self, mutant: Mutant, *killers: str) -> None:
        for test in filter(None, killers):
            known = self._killers[mutant.file or mutant.rule]
            known[test] = known.get(test, 0) + 1

    def tests_for(self, mutant: Mutant, budget: float) -> list[str]:
        """The tests that can know of the mutant, the likely killer first, for so many seconds.

        First who killed before, then the tests of the same room; one of each kind before the next, the quick ones first.
        """
        if mutant.rule:
            able = self.callers[f"row {mutant.rule}.{mutant.row}"] | {t for t in self.seconds if t.startswith(ORDER)}
        elif mutant.where:
            able = self.callers[f"{mutant.file}::{mutant.where}"]
        else:
            able = {t for t in self.seconds if t.startswith(mutant.tests)}
        killers = self._killers[mutant.file or mutant.rule]
        kinds: dict[str, int] = defaultdict(int)
        ranked: list[tuple[int, int, int, float, str]] = []
        for test in sorted(able, key=lambda t: self.seconds[t]):
            kind = test.split("[")[0]
            ranked.append((-killers.get(test, 0), _distance(test, mutant), kinds[kind], self.seconds[test], test))
            kinds[kind] += 1
        chosen: list[str] = []
        for *_, test in sorted(ranked):
            budget -= self.seconds[test]
            chosen.append(test)
            if budget < 0:
                break
        return chosen


def _distance(test: str, mutant: Mutant) -> int:
    """0: the tests of the mutated file; 1: of its room; 2: of the session, the stories and the rules; 3: any other."""
    there, mutated = Path(test.split("::")[0].removeprefix("tests/")), Path(mutant.file or f"rules/{mutant.rule}.py")
    if there.name.removeprefix("test_").replace("_steps", "") == mutated.name and there.parent == mutated.parent:
        return 0
    if there.parent == mutated.parent != Path("."):
        return 1
    return 2 if there.parts[0] in ("session", "stories", "rules") else 3


class Worker:
    """One copy of the tree, and a process in it that answers jobs (see `forks`)."""

    def __init__(self, folder: Path):
        self.folder = folder
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif (ROOT / name).exists():
                shutil.copy(ROOT / name, folder / name)
        self.tests: list[str] = []
        self._process, self._line = self._start()

    def _start(self) -> tuple[subprocess.Popen[bytes], Any]:
        ours, theirs = socket.socketpair()
        paths = os.pathsep.join(map(str, (self.folder / "src", self.folder / "tests")))
        env = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "LINEAL_MUTANTS": str(theirs.fileno())}
        left_out = [f"--ignore={name}" for name in LEFT_OUT]
        command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "mutations.forks", "-p", "no:xdist", *left_out, "tests"]
        with open(self.folder / "pytest.log", "w") as log:
            process = subprocess.Popen(command, cwd=self.folder, env=env, pass_fds=[theirs.fileno()], stdout=log, stderr=log)
        theirs.close()
        line = ours.makefile("rw")
        first = line.readline()
        if not first:
            raise SystemExit(f"pytest did not start:\n{(self.folder / 'pytest.log').read_text()[-3000:]}")
        self.tests = json.loads(first)
        return process, line

    def ask(self, **job: Any) -> dict[str, Any]:
        print(json.dumps(job), file=self._line, flush=True)
        answer: dict[str, Any] = json.loads(self._line.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def run(self, mutant: Mutant, tests: list[str]) -> tuple[str, int]:
        """(the first test that fails, or nothing; how many were run).

        The mutant stands in the file meanwhile, for processes that tests start.
        """
        if not tests:
            return "", 0
        seconds = 60 + 3.0 * len(tests)
        if mutant.rule:
            answer = self.ask(mutant=asdict(mutant), tests=tests, seconds=seconds)
            return answer["killed_by"], answer.get("ran", 0)
        path = self.folder / SRC / mutant.file
        old, new = path.read_text(), mutant.source(self.folder)
        path.write_text(new)
        try:
            answer = self.ask(mutant=asdict(mutant), tests=tests, seconds=seconds, old=old, new=new)
            if answer.get("fresh"):
                return self._run_fresh(tests, seconds)
            return answer["killed_by"], answer.get("ran", 0)
        finally:
            path.write_text(old)

    def _run_fresh(self, tests: list[str], seconds: float) -> tuple[str, int]:
        """The same in a process that is started for this mutant alone. One that cannot even collect kills it."""
        mine = self._process, self._line
        try:
            self._process, self._line = self._start()
            answer = self.ask(mutant=None, tests=tests, seconds=seconds)
        except SystemExit:
            return "lineal cannot be imported", 0
        finally:
            if self._line is not mine[1]:
                self.close()
            self._process, self._line = mine
        return answer["killed_by"], answer.get("ran", 0)

    def close(self) -> None:
        self._line.close()
        self._process.terminate()
        self._process.wait()


class Bench:
    """Workers, and a pool of threads that keeps each of them busy."""

    def __init__(self, workers: int):
        self._folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        with ThreadPoolExecutor(workers) as pool:
            self.workers = list(pool.map(lambda n: Worker(self._folder / f"copy{n}"), range(workers)))
        self._free: SimpleQueue[Worker] = SimpleQueue()
        for worker in self.workers:
            self._free.put(worker)
        self._lock = threading.Lock()

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for worker in self.workers:
            worker.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def each(self, jobs: Iterable[Any], do: Callable[[Worker, Any], T]) -> Iterator[T]:
        """What `do` gives for each job with a worker that is free, as it comes."""

        def with_worker(job: Any) -> T:
            worker = self._free.get()
            try:
                return do(worker, job)
            finally:
                self._free.put(worker)

        with ThreadPoolExecutor(len(self.workers)) as pool:
            futures = [pool.submit(with_worker, job) for job in jobs]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                for future in futures:
                    future.cancel()

    def map(self, tell: Callable[[str], None]) -> Map:
        """The map of what calls what, from the last run if nothing has changed since."""
        kept = Path(tempfile.gettempdir()) / f"lineal-mutants-{os.getuid()}-{self._state()}.json"
        if kept.exists():
            return Map(json.loads(kept.read_text()))
        tests = self.workers[0].tests
        chunks = [tests[n : n + 30] for n in range(0, len(tests), 30)]
        seen: list[dict[str, Any]] = []
        for found in self.each(chunks, self._recorded):
            seen.extend(found)
            tell(f"[{len(seen)}/{len(tests)}] tests noted")
        kept.write_text(json.dumps(seen))
        known = Map(seen)
        tell(f"left out ({len(known.left_out)}: slow, skipped or failing): {', '.join(known.left_out[:200])}")
        return known

    def _recorded(self, worker: Worker, tests: list[str]) -> list[dict[str, Any]]:
        answer = worker.ask(mutant=None, record=True, tests=tests, seconds=30 + 10.0 * len(tests))
        return list(answer.get("seen", [{"test": t, "seconds": 0, "passed": False, "functions": [], "rows": []} for t in tests]))

    def _state(self) -> str:
        found = hashlib.blake2b(digest_size=8)
        for path in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.*")]):
            if path.is_file() and "__pycache__" not in path.parts and "mutations" not in path.parts:
                found.update(str(path).encode() + path.read_bytes())
        return found.hexdigest()
