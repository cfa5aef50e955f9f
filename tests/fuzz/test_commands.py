"""The command line, given anything: one of six exit codes, no traceback, and with --json one document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from lineal.cli import cli
from lineal.testing.fuzzing import Surface, again, surfaces
from lineal.testing.fuzzing.files import master
from lineal.testing.stories import NAME

LONG = "9" * 5_000
COMMANDS: Surface = next(door for door in surfaces() if door.name == "commands")


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_any_words(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """The campaign's door, with chances that hypothesis can make smaller."""
    folder = tmp_path_factory.mktemp("commands")
    here = os.getcwd()
    os.chdir(folder)
    try:
        again(COMMANDS, seed, folder)
    finally:
        os.chdir(here)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("process") / "agent.db"
    path.write_bytes(master("closed").data)
    return path


def shell(folder: Path, *words: Any) -> subprocess.CompletedProcess[bytes]:
    given = [os.fsencode(str(word)) for word in words]
    return subprocess.run([os.fsencode(sys.executable), b"-m", b"lineal", *given], capture_output=True, cwd=folder, timeout=120)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["log", LONG], 5),
        (["log", "bytes\udcff\udc80.db"], 5),
        (["log", "STORE", "-s", "bytes\udcff"], 1),
        (["search", "STORE", "-s", NAME, "\udcff\u202e😀"], 0),
        (["rollback", "STORE", "-s", NAME, LONG], 1),
        (["rollback", "STORE", "-s", NAME, "²"], 1),
        (["export", "STORE", "-s", NAME, "--output", LONG], 5),
        (["export", "STORE", "-s", NAME, "--output", ""], 1),
        (["audit", LONG], 5),
        (["import", "STORE", "new.db"], 2),
        (["import", "/dev/zero", "new.db"], 5),
        (["doctor", "/dev/null"], 0),
        (["demo", "--store", LONG], 5),
        (["context", "STORE", "-s", NAME, "--anchor", "STORE"], 3),
        (["context", "STORE", "-s", NAME, "--anchor", "."], 5),
        (["checkpoint", "STORE", "-s", NAME, "--", "--json"], 0),
        (["\udcff"], 2),
        ([""], 2),
    ],
    ids=lambda given: "" if isinstance(given, int) else " ".join(given)[:40].encode("ascii", "backslashreplace").decode(),
)
def test_a_real_process(store: Path, words: list[str], code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a shell would start it, with bytes that are no text; and with --json the same."""
    monkeypatch.chdir(store.parent)
    done = shell(store.parent, *(store if word == "STORE" else word for word in words))
    assert (done.returncode, b"Traceback" in done.stderr) == (code, False), done.stderr[-400:]
    assert code == 0 or done.stderr or done.stdout
    if "--" not in words:
        told = CliRunner().invoke(cli, [*(str(store) if word == "STORE" else word for word in words), "--json"])
        document = json.loads(told.stdout)
        assert told.exit_code == code and (code == 0 or document["error"]["exit_code"] == code)


def test_words_are_made_of_their_seed() -> None:
    assert COMMANDS.make(Random(3)) == COMMANDS.make(Random(3))
