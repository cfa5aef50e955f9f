"""A runner for the command line, and stores to run it on: a real transcript and the shipped sample, compacted once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import lineal
from lineal.cli import cli
from lineal.importing import import_transcript
from lineal.transcripts import sample_path

Run = Callable[..., Result]
REAL = "claude_code/c010174c-a7cd-4bcc-b7d4-61258d6c463f.jsonl"
PATTERNS = ("git_commit", "deploy", "rotate_key", "send_email", "create_ticket", "Bash(git commit*)", "Edit")


@pytest.fixture
def run() -> Run:
    """`run("log", store, "--json")` -> the result, with `exit_code`, `stdout`, `stderr`."""

    def invoke(*arguments: Any, **more: Any) -> Result:
        result = CliRunner().invoke(cli, [str(a) for a in arguments], **more)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


def plain(request: lineal.SummaryRequest) -> str:
    return f"Goal: see the work through. {len(request.turns)} turns were covered."


def made(transcript: Path, path: Path, policy: lineal.Policy) -> Path:
    """A store with one session: the transcript, a checkpoint, a compaction, a checkpoint behind it."""
    with lineal.connect(path) as store:
        session = store.session("agent", policy=policy)
        import_transcript(session, transcript, changes_state=PATTERNS)
        session.checkpoint("before")
        assert isinstance(session.compact(plain), lineal.Compacted)
        session.checkpoint("after")
    return path


@pytest.fixture(scope="session")
def sample_master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(sample_path(), tmp_path_factory.mktemp("sample") / "agent.db", lineal.Policy(trigger=6_000, target=2_000, floor_turns=6))


@pytest.fixture(scope="session")
def real_master(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Path:
    return made(data_dir / REAL, tmp_path_factory.mktemp("real") / "agent.db", lineal.Policy(trigger=60_000, target=9_000, floor_turns=8))


@pytest.fixture
def store(sample_master: Path, tmp_path: Path) -> Path:
    """The shipped sample, as a store of this test's own."""
    return Path(shutil.copy(sample_master, tmp_path / "agent.db"))


@pytest.fixture(params=["sample", "real"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Once the shipped sample, once a real transcript."""
    return Path(shutil.copy(request.getfixturevalue(f"{request.param}_master"), tmp_path / "agent.db"))
