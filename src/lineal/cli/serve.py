"""The command that serves a store to agents over MCP."""

from __future__ import annotations

import click

from lineal.cli.stores import anchor_option, chosen, session_option, store_argument
from lineal.errors import Unavailable


def place(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `PORT`. Raises a usage error for anything else."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise click.UsageError(f"{text!r} is no HOST:PORT; say 127.0.0.1:8765")
    return host or "127.0.0.1", int(port)


@click.command("mcp", short_help="Serve a store to an agent over MCP.")
@store_argument
@session_option
@click.option("--http", metavar="HOST:PORT", help="Streamable HTTP there, at /mcp (default: stdio).")
@click.option("--operator", is_flag=True, help="Also the tools that resolve effects, roll back, prune and purge.")
@anchor_option
def mcp(store: str, name: str | None, http: str | None, operator: bool, anchor: str | None) -> None:
    """Serve a store to an agent over MCP: on stdio, or on streamable HTTP.

    An agent may read its memory, begin and settle effects, and pin. What decides for good is off without --operator.
    """
    try:
        from lineal.adapters.mcp import server_for
    except ImportError as missing:
        remedy = "pip install 'lineal[mcp]'"
        raise Unavailable("an MCP server", f"{missing.name or 'the package mcp'} is not installed", remedy) from missing
    from lineal.store import connect

    with connect(store, anchor, create=False) as opened:
        server = server_for(opened, None if name is None else chosen(opened, name), operator)
        if http is None:
            server.run("stdio")
            return
        host, port = place(http)
        click.echo(f"serving {store} at http://{host}:{port}/mcp", err=True)
        server.run("streamable-http", host=host, port=port)
