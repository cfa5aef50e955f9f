"""A store as an MCP server: what was said, what became of it, and what was done to the world, as tools. Needs the extra `mcp`.

| tools | for | change the log |
|---|---|---|
| `context_status`, `context_search`, `context_fetch`, `context_expand`, `compaction_explain` | reading back | no |
| `effect_lookup`, `rollback_plan` | asking before acting | no |
| `effect_begin`, `effect_settle`, `pin` | acting | yes |
| `effect_resolve`, `rollback`, `prune`, `purge` | an operator: served only if asked for | yes |

The server holds what it began: `effect_begin` writes the intent and `effect_settle`, a later call, the outcome. An effect that
is not settled when the server ends, however it ends, is *unknown*, and no server begins it again (R47, record 003).
"""

from __future__ import annotations

import functools
import inspect
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from lineal import __version__
from lineal.adapters.mcp_answers import plain
from lineal.adapters.mcp_tools import Tools
from lineal.errors import LinealError
from lineal.session import Session
from lineal.store import Store

INSTRUCTIONS = (
    "The durable memory of an agent. A handle (g4, t:ID) in a summary is read back with context_expand and context_fetch. "
    "Before you do something to the world call effect_begin with a key that names the effect; act only if it answers begun=true, "
    "then call effect_settle. An error says what was refused and the way out; do not act around it. What became of an unknown "
    "effect is recorded by an operator: with effect_resolve, where it is served, or `lineal effect resolve`."
)


class Server(Tools):
    """The tools as a server. A context manager; leaving it makes *unknown* what was begun and not settled.

    `operator` serves what an operator may do, too. `mcp` is the SDK's server, for a transport of your own. The store stays the
    caller's to close.
    """

    def __init__(self, store: Store, session: str = "", operator: bool = False, opened: Callable[[str], Session] | None = None):
        super().__init__(store, session, opened)
        self.mcp: MCPServer[Any] = MCPServer(
            "lineal", title="lineal: agent memory", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
        )
        for name, (title, hints) in _TOOLS.items() if not operator else {**_TOOLS, **_OPERATOR}.items():
            verb = getattr(self, name)
            told = " ".join((inspect.getdoc(verb) or "").split())
            self.mcp.add_tool(_answering(verb), name, title, told, annotations=hints, structured_output=True)

    def serve_stdio(self) -> None:
        """Answer the client on stdin and stdout until it hangs up."""
        self.mcp.run("stdio")

    def serve_http(self, listening: socket.socket) -> None:
        """Answer clients by streamable HTTP at /mcp on this socket until interrupted. Nobody is asked who they are."""
        app = self.mcp.streamable_http_app(host=listening.getsockname()[0])
        uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2)).run(sockets=[listening])


def _answering(verb: Callable[..., Any]) -> Callable[..., Any]:
    """The verb as a tool: it answers JSON, and what lineal refuses is an error of the tool, with its way out."""

    @functools.wraps(verb)
    def answer(**given: Any) -> Any:
        try:
            return plain(verb(**given))
        except LinealError as error:
            raise ToolError(plain(f"{type(error).__name__}: {error}")) from error

    return answer


def _hints(reads: bool = False, destroys: bool = False, repeats: bool = True) -> ToolAnnotations:
    return ToolAnnotations(read_only_hint=reads, destructive_hint=destroys, idempotent_hint=repeats, open_world_hint=False)


_TOOLS = {
    "context_status": ("Status of the memory", _hints(reads=True)),
    "context_search": ("Search what was said", _hints(reads=True)),
    "context_fetch": ("Read exact turns", _hints(reads=True)),
    "context_expand": ("List what a summary covers", _hints(reads=True)),
    "compaction_explain": ("Explain a compaction", _hints(reads=True)),
    "effect_lookup": ("Look up an effect", _hints(reads=True)),
    "effect_begin": ("Begin an effect", _hints()),
    "effect_settle": ("Settle an effect", _hints()),
    "rollback_plan": ("Plan a rollback", _hints(reads=True)),
    "pin": ("Pin a text or a turn", _hints()),
}
_OPERATOR = {
    "effect_resolve": ("Resolve an effect", _hints(repeats=False)),
    "rollback": ("Go back", _hints(destroys=True, repeats=False)),
    "prune": ("Drop what nothing needs", _hints(destroys=True)),
    "purge": ("Erase turns", _hints(destroys=True, repeats=False)),
}
