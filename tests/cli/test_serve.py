"""`lineal mcp`: what it refuses before it serves anything, and how it ends. What it serves is told in tests/adapters/test_mcp.py."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lineal

LINEAL = [sys.executable, "-m", "lineal", "mcp"]


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--http", "nowhere"], 2, "say HOST:PORT, [HOST]:PORT, or PORT"),
        (["--http", "127.0.0.1:65536"], 2, "is no address"),
        (["--http", ""], 2, "is no address"),
        (["--operator", "--http", "0.0.0.0:0"], 2, "on this machine only"),
        (["--operator", "--http", "[::]:0"], 2, "on this machine only"),
        (["--session", "other"], 1, "it holds 'agent'"),
        (["--http", "192.0.2.1:0"], 5, "port 0 for any free one"),
    ],
)
def test_what_cannot_be_served_is_refused_with_a_way_out(run: Any, store: Path, options: list[str], code: int, says: str) -> None:
    pytest.importorskip("mcp")
    before = store.read_bytes()
    done = run("mcp", store, *options)
    assert done.exit_code == code and says in done.stderr and done.stdout == ""
    assert store.read_bytes() == before


def test_json_is_for_the_address_only(run: Any, store: Path) -> None:
    done = run("mcp", store, "--json")
    assert done.exit_code == 2 and "--json goes with --http" in json.loads(done.stdout)["error"]["message"]


def test_a_store_that_is_not_there_is_not_made(run: Any, tmp_path: Path) -> None:
    done = run("mcp", tmp_path / "absent.db")
    assert done.exit_code == 5 and not list(tmp_path.iterdir())


def test_a_port_that_is_taken_is_said(run: Any, store: Path) -> None:
    pytest.importorskip("mcp")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("mcp", store, "--http", taken.getsockname()[1])
    assert done.exit_code == 5 and "address 127.0.0.1:" in done.stderr and "way out: name another one" in done.stderr


def test_without_the_extra_it_says_what_to_install(store: Path) -> None:
    program = "import sys; sys.modules['mcp'] = None; from lineal.cli import cli; cli(sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", program, "mcp", str(store)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 5 and done.stdout == ""
    assert "pip install 'lineal[mcp]'" in done.stderr and "Traceback" not in done.stderr


def test_the_command_line_loads_no_mcp_for_other_commands(store: Path) -> None:
    program = (
        "import sys; from lineal.cli import cli; cli(sys.argv[1:], standalone_mode=False); assert not {'mcp', 'uvicorn'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, "status", str(store)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_nothing_but_the_protocol_goes_to_stdout_and_ctrl_c_ends_it(store: Path) -> None:
    """A host reads every line of stdout as a message. Ctrl-C ends the server though a read of stdin still waits."""
    pytest.importorskip("mcp")
    serving = subprocess.Popen([*LINEAL, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert serving.stdin and serving.stdout
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "1"}}
    serving.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}) + "\n")
    serving.stdin.flush()
    answer = json.loads(serving.stdout.readline())
    assert answer["id"] == 1 and answer["result"]["serverInfo"] == {
        "name": "lineal",
        "title": "lineal: agent memory",
        "version": lineal.__version__,
    }
    os.kill(serving.pid, signal.SIGINT)
    out, err = serving.communicate(timeout=60)
    assert (serving.returncode, out, err) == (-signal.SIGINT, "", "")


def test_the_address_is_the_one_document_on_stdout(store: Path) -> None:
    pytest.importorskip("mcp")
    command = [*LINEAL, str(store), "--session", "agent", "--http", "localhost:0", "--json"]
    serving = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert serving.stdout
    lines = [serving.stdout.readline()]
    while lines[-1].strip() != "}":
        lines.append(serving.stdout.readline())
    told = json.loads("".join(lines))
    assert told["session"] == "agent" and told["operator"] is False and told["url"].endswith("/mcp")
    serving.terminate()
    out, _ = serving.communicate(timeout=60)
    assert out == ""
