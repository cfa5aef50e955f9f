"""A store as an MCP server: what an agent may read of its memory, do to the world through the ledger, and pin. Extra `mcp`.

| tools | may |
|---|---|
| status, search, fetch, expand, explain, look up an effect, plan a rollback | read only |
| begin and settle an effect, pin | append to the log |
| resolve an effect, rollback, prune, purge | only with `operator=True`: they decide what a model should not |

Every refusal is a tool error whose text names the verdict and the way out. An effect that was begun and not settled is
*unknown* once this server is gone: another one says so and does not begin it again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import msgspec
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from lineal import __version__, view
from lineal.entries import Turn
from lineal.errors import LinealError, PolicyError, Refused, Verdict
from lineal.messages import text_of
from lineal.session import Session
from lineal.session.effects import Effect
from lineal.session.outcomes import LedgerRow
from lineal.store import Store

PAGE = 20_000  # characters of turns that one answer holds at most; `after` asks for more
READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
BEGINS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
DECIDES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)
INSTRUCTIONS = """The working memory of an agent. What left the context is still here: search for it, fetch it by its handle.
Before you change anything in the world, call effect_begin; if it says that the effect is done or unknown, do not do it again.
Behind it call effect_settle, whatever came of it."""
Answer = dict[str, Any]


def server_for(store: Store, session: str | None = None, operator: bool = False) -> MCPServer[Any]:
    """The server. `session`: the one that tools mean where they name none (default: the only one of the store)."""
    about: Any = {"title": "lineal: working memory", "instructions": INSTRUCTIONS, "version": __version__}
    made: MCPServer[Any] = MCPServer("lineal", log_level="WARNING", **about)
    tools = _Tools(store, session)
    for verbs, hints in ((tools.reading, READS), (tools.adding, ADDS), (tools.beginning, BEGINS), (tools.deciding, DECIDES)):
        for verb in verbs if operator or verbs is not tools.deciding else ():
            title = verb.__name__.replace("_", " ").capitalize()
            made.tool(title=title, annotations=hints, structured_output=True)(_told(verb))
    return made


def _told(verb: Callable[..., Answer]) -> Callable[..., Answer]:
    """The verb, whose refusals are told to the model."""

    @functools.wraps(verb)
    def act(*args: Any, **kwargs: Any) -> Answer:
        try:
            return verb(*args, **kwargs)
        except LinealError as refused:
            raise ToolError(f"{type(refused).__name__}: {refused}") from refused

    return act


class _Tools:
    def __init__(self, store: Store, session: str | None):
        self.store, self.default = store, session
        self.open: dict[tuple[str, str], Effect] = {}
        self.reading = (
            self.context_status, self.context_search, self.context_fetch, self.context_expand,
            self.compaction_explain, self.effect_lookup, self.rollback_plan,
        )  # fmt: skip
        self.adding = (self.effect_settle, self.pin)
        self.beginning = (self.effect_begin,)
        self.deciding = (self.effect_resolve, self.rollback, self.prune, self.purge)

    def _session(self, name: str | None) -> Session:
        known = self.store.sessions()
        meant = name or self.default or (known[0] if len(known) == 1 else None)
        if meant not in known:
            message = f"the store holds no session {meant!r}." if meant else f"the store holds {len(known)} sessions."
            raise Refused(Verdict("session", "unknown_session", message=message, remedy=f"name one: {', '.join(known) or 'there is none'}"))
        return self.store.session(meant)

    # --- reading -------------------------------------------------------------------------------------------------------

    def context_status(self, session: str | None = None) -> Answer:
        """How large the context is, which summaries and handles stand in it, what is open, and whether the memory is sound."""
        found = self._session(session)
        shown, status = found.view(), found.status()
        looks = view.health(status, found.log.lineage, found.policy)
        return {
            **{k: v for k, v in asdict(status).items() if v not in (None, ())},
            "handles": list(shown.handles),
            "pins": [
                asdict(pin) if hasattr(pin, "__dataclass_fields__") else {"id": pin.id, "turn": pin.turn, "text": pin.text}
                for pin in shown.pins
            ],
            "looks": [{"name": row.name, "state": row.state, "text": row.text, "advice": row.advice} for row in looks],
        }

    def context_search(self, query: str, limit: int = 10, session: str | None = None) -> Answer:
        """Search everything that was ever said, also what has left the context. Each hit has a handle for context_fetch."""
        return {"hits": [asdict(hit) for hit in self._session(session).search(query, max(1, min(limit, 50)))]}

    def context_fetch(self, handle: str, after: int = 0, session: str | None = None) -> Answer:
        """The exact turns behind a handle (g3 of a summary or spill, t:ID of a turn). `next`, if there: more with after=next."""
        return _page([turn for turn in self._session(session).expand(handle) if turn.seq > after])

    def context_expand(self, summary: str, session: str | None = None) -> Answer:
        """What a summary in the context stands for: its text, the turns it covers, and how to fetch them."""
        node = next((n for n in self._session(session).view().summaries if n.handle == summary), None)
        if node is None:
            raise Refused(
                Verdict("recall", "no_summary", message=f"no summary {summary!r} stands in the context.", remedy="see context_status")
            )
        return {"handle": node.handle, "kind": node.kind, "text": node.text, "turns": node.count, "ranges": [list(r) for r in node.ranges],
                "tokens": node.tokens, "tokens_before": node.source_tokens, "fetch": f"context_fetch({node.handle!r})"}  # fmt: skip

    def compaction_explain(self, generation: int, session: str | None = None) -> Answer:
        """Why and how a compaction was made: what began it, what it covered, what came of it, and what it noted."""
        found = self._session(session)
        rows = [
            r for r in view.timeline(found.log.entries()) if r.kind.startswith("compaction") and r.detail.get("generation") == generation
        ]
        if not rows:
            remedy = f"generations are 1..{found.status().generation}, unless pruned"
            raise Refused(Verdict("recall", "no_generation", message=f"no entry tells of generation {generation}.", remedy=remedy))
        return {"steps": [{"seq": row.seq, "kind": row.kind, "text": row.text, **row.detail} for row in rows]}

    def effect_lookup(self, key: str, session: str | None = None) -> Answer:
        """What the ledger knows of an effect: done, unknown, under way, without effect, or nothing."""
        return _row(next((row for row in self._session(session).ledger() if row.key == key), None), key)

    def rollback_plan(self, target: str, session: str | None = None) -> Answer:
        """What going back to a checkpoint (its id or label) or a seq would do, and what stands in the way. Changes nothing."""
        return _plain(self._session(session).rollback(_target(target), dry_run=True))

    # --- writing ---------------------------------------------------------------------------------------------------------

    def effect_begin(self, tool: str, args: dict[str, Any], key: str, session: str | None = None) -> Answer:
        """Ask before something is done to the world. `go` true: do it now, then call effect_settle. `go` false: it was done
        before, and `outcome` is what came of it. An error: it may not be done now, and the text says why."""
        found = self._session(session)
        effect = found.effect(tool, args, key=key).__enter__()
        if effect.pending:
            self.open[found.name, key] = effect
        return {"go": effect.pending, "key": key, "state": effect.state, "outcome": effect.result}

    def effect_settle(self, key: str, outcome: Any = None, failed: bool = False, session: str | None = None) -> Answer:
        """Record what came of an effect that was begun here. `failed`: the tool refused it cleanly, so that nothing was done; if
        you do not know whether anything was, do not settle it."""
        found = self._session(session)
        effect = self.open.get((found.name, key))
        if effect is None:
            remedy = "begin it first; one that another process began is resolved by a person"
            raise PolicyError(Verdict("emission", "not_pending", message=f"no effect {key!r} was begun here.", remedy=remedy))
        effect.no_effect(str(outcome or "")) if failed else effect.settle(outcome)
        del self.open[found.name, key]
        return {"key": key, "state": effect.state}

    def pin(self, text_or_turn: str, session: str | None = None) -> Answer:
        """Keep a text, or a turn (by its id), word for word in the context through every compaction."""
        return {"pin": self._session(session).pin(text_or_turn)}

    # --- what an operator decides --------------------------------------------------------------------------------------------

    def effect_resolve(self, key: str, finding: str, note: str = "", session: str | None = None) -> Answer:
        """Record what was found out about an effect: happened, not_happened or compensated."""
        return _row(self._session(session).resolve_effect(key, finding, note), key)

    def rollback(self, target: str, expected_head: int | None = None, session: str | None = None) -> Answer:
        """Go back to a checkpoint (its id or label) or a seq. The log keeps everything; the ledger survives."""
        return _plain(self._session(session).rollback(_target(target), expected_head=expected_head))

    def prune(self, dry_run: bool = True, keep_checkpoints: int | None = None, session: str | None = None) -> Answer:
        """Drop raw entries that nothing reachable needs. A dry run, unless said otherwise, tells what would go."""
        return _plain(self._session(session).prune(keep_checkpoints=keep_checkpoints, dry_run=dry_run))

    def purge(self, turns: list[str], dry_run: bool = True, session: str | None = None) -> Answer:
        """Erase the content of these turns everywhere, for good. A dry run, unless said otherwise, tells what would go."""
        return {"dry_run": dry_run, **_plain(self._session(session).purge(turns, dry_run=dry_run))}


def _target(target: str) -> int | str:
    return int(target) if target.isascii() and target.isdecimal() else target


def _page(turns: list[Turn]) -> Answer:
    """As many turns as one answer holds, at least one; the text of a turn that is longer is cut, and says so."""
    shown: list[Answer] = []
    left = PAGE
    for turn in turns:
        text = text_of(turn.message)
        if shown and len(text) > left:
            return {"turns": shown, "next": shown[-1]["seq"]}
        cut = {"text": text[:PAGE], "cut": len(text)} if len(text) > PAGE else {"text": text, "message": turn.message}
        shown.append({"id": turn.id, "seq": turn.seq, "author": turn.author, **cut})
        left -= len(text)
    return {"turns": shown}


def _row(row: LedgerRow | None, key: str) -> Answer:
    return {"known": True, **_plain(row)} if row else {"known": False, "key": key}


def _plain(value: Any) -> Answer:
    return dict(msgspec.to_builtins(value, enc_hook=str))
