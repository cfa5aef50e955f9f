"""The command that serves a store to programs of others: MCP, on stdin and stdout or on a port."""

from __future__ import annotations

import re
import signal
import socket
from typing import TYPE_CHECKING

import click

from lineal.cli.report import Out
from lineal.cli.stores import chosen, on_store, policy_of, session_option
from lineal.errors import Unavailable

if TYPE_CHECKING:
    from lineal.session import Session
    from lineal.store import Store

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.command("mcp", short_help="Serve a store to MCP clients, on stdio or by HTTP.")
@on_store
@session_option
@click.option(
    "--http", metavar="HOST:PORT", help="Serve streamable HTTP there instead; HOST is 127.0.0.1 if left out, port 0 any free one."
)
@click.option("--operator", is_flag=True, help="Serve what an operator may do, too: resolve effects, roll back, prune, purge.")
def mcp(out: Out, store: Store, name: str | None, http: str | None, operator: bool) -> None:
    """Serve STORE to the clients of the Model Context Protocol, until the client hangs up.

    On stdin and stdout, for a client that starts this command itself; or with --http on a port, until interrupted. Each tool
    takes the session by its name; --session names the one that is meant without.
    """
    address = _address(http, operator) if http is not None else None
    if address is None and out.json:
        raise click.UsageError("--json goes with --http: on stdio the answers are the protocol's")
    try:
        from lineal.adapters.mcp import Server
    except ModuleNotFoundError as missing:
        raise Unavailable("`lineal mcp`", missing, "pip install 'lineal[mcp]'") from missing
    default = chosen(store, name) if name is not None else ""
    with Server(store, default, operator, lambda wanted: _opened(store, wanted)) as server:
        if address is None:
            # A thread of the SDK's waits in a read of stdin and is not woken by Ctrl-C: the process is ended instead. What it had
            # begun is then unknown, as after any other kill.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            server.serve_stdio()
            return
        with _listening(*address) as listening:
            host, port = listening.getsockname()[:2]
            url = f"http://{f'[{host}]' if ':' in host else host}:{port}/mcp"
            out.give({"url": url, "session": default, "operator": operator})
            out.say(f"serving {url}")
            server.serve_http(listening)


def _opened(store: Store, name: str) -> Session:
    """The session, under the policy stored with its last compaction, as every command has it."""
    session = store.session(name)
    session.policy = policy_of(session, {})
    return session


def _address(given: str, operator: bool) -> tuple[str, int]:
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]:|([^:\[\]]*):)?(\d{1,5})", given)
    if found is None or int(found[3]) > 65_535:
        raise click.BadParameter(f"{given!r} is no address; say HOST:PORT, [HOST]:PORT, or PORT", param_hint="--http")
    host = found[1] or found[2] or LOOPBACK[0]
    if operator and host not in LOOPBACK:
        # Nobody is asked who they are, and a purge is for good.
        raise click.UsageError(f"--operator is served on this machine only ({', '.join(LOOPBACK)}), not on {host}")
    return host, int(found[3])


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen()
    except OSError as error:
        raise Unavailable(f"address {host}:{port}", error, "name another one with --http, or port 0 for any free one") from error
    return listening
