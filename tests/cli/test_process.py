"""The real thing: another process, a real terminal, a closed pipe, a kill in the middle."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import lineal
from lineal.transcripts import sample_path

LINEAL = [sys.executable, "-m", "lineal"]


def shell(*arguments: Any, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*LINEAL, *map(str, arguments)], capture_output=True, env={**os.environ, **(env or {})}, timeout=120)


def on_a_terminal(*arguments: Any, env: dict[str, str] | None = None) -> str:
    """What a person sees: stdout and stderr are a terminal."""
    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm-256color", "COLUMNS": "160", **(env or {})}
    process = subprocess.Popen([*LINEAL, *map(str, arguments)], stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    try:
        while chunk := os.read(ours, 65_536):
            seen += chunk
    except OSError:
        process.wait(60)  # a terminal whose other end was closed says so by an error
    os.close(ours)
    assert process.wait(60) == 0, seen
    return seen.decode()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["log", "STORE"], 0),
        (["rollback", "STORE", "nowhere"], 1),
        (["log"], 2),
        (["log", __file__], 3),
        (["rollback", "STORE", "before", "--expected-head", "2"], 4),
        (["log", "absent.db"], 5),
    ],
)
def test_exit_codes(store: Path, arguments: list[str], code: int) -> None:
    done = shell(*[str(store) if a == "STORE" else a for a in arguments])
    assert done.returncode == code and b"Traceback" not in done.stderr
    assert (done.stdout == b"") == (code != 0) and (done.stderr == b"") == (code == 0)


def test_the_installed_script_and_the_module_are_one() -> None:
    script = Path(sys.executable).with_name("lineal")
    if not script.exists():
        pytest.skip("the package is not installed with its script")
    assert subprocess.run([script, "--version"], capture_output=True).stdout == shell("--version").stdout


def test_help_loads_no_engine() -> None:
    """`lineal --help` is quick because it imports nothing that opens a store."""
    probe = (
        "import sys, lineal.cli; print(sorted(m for m in sys.modules if m in ('apsw', 'msgspec', 'rich', 'lineal.session', 'lineal.view')))"
    )
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True).stdout.strip() == b"[]"


def test_a_closed_pipe_is_no_traceback(store: Path) -> None:
    """`lineal log agent.db | head -1`."""
    ours, theirs = os.pipe()
    writer = subprocess.Popen([*LINEAL, "log", str(store)], stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    assert os.read(ours, 8).startswith(b"      1")
    os.close(ours)
    assert b"Traceback" not in writer.communicate(timeout=60)[1]


@pytest.mark.parametrize("env", [{"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "latin-1"}, {"LC_ALL": "C"}])
def test_a_poor_encoding_breaks_nothing(store: Path, env: dict[str, str]) -> None:
    for command in (("log", store), ("context", store, "--raw"), ("export", store), ("rules",)):
        done = shell(*command, env=env)
        assert done.returncode == 0 and done.stdout and done.stderr == b"", done.stderr
    assert json.loads(shell("context", store, "--raw", env=env).stdout) == json.loads(shell("context", store, "--raw").stdout)


def test_colour_is_for_terminals_and_only_if_wanted(store: Path) -> None:
    """Plain text in a pipe; colour on a terminal; NO_COLOR is respected."""
    assert b"\x1b[" not in shell("log", store).stdout + shell("context", store).stdout
    assert "\x1b[32m" in on_a_terminal("log", store) and "\x1b[1m" in on_a_terminal("sessions", store)
    plain = on_a_terminal("log", store, env={"NO_COLOR": "1"})
    assert "\x1b[3" not in plain and "● checkpoint" in plain
    assert "\x1b[3" not in on_a_terminal("context", store, env={"NO_COLOR": "1"})


def test_an_import_on_a_terminal_ends_with_its_report(tmp_path: Path) -> None:
    """A running count is shown there, and taken away again."""
    assert "113 turns added" in on_a_terminal("import", sample_path(), tmp_path / "a.db")


def test_json_on_a_terminal_is_ascii(store: Path) -> None:
    """No character of a transcript reaches the terminal as itself."""
    seen = on_a_terminal("context", store, "--raw")
    assert seen.isascii() and json.loads(seen)


def test_an_import_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    """R1, R30: kill -9 in the middle of an import; the same command again makes it whole."""
    said = [{"role": r, "content": f"{n} " + "word " * 400} for n in range(1_500) for r in ("user", "assistant")]
    file = tmp_path / "long.jsonl"
    file.write_text("".join(json.dumps(m) + "\n" for m in said))
    path = tmp_path / "a.db"
    command = [*LINEAL, "import", str(file), str(path), "--trigger", "4000000"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while _head(path) == 0 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert _head(path) > 0
    assert shell(*command[3:]).returncode == 0
    with lineal.connect(path, create=False) as store:
        session = store.session("long")
        assert [t.message for t in session.turns()] == said and session.verify().clean


def _head(path: Path) -> int:
    """How far the log is, as another process sees it; 0 while there is none."""
    try:
        with lineal.connect(path, create=False) as store:
            return store.session("long").status().head if store.sessions() else 0
    except lineal.Unavailable:
        return 0
