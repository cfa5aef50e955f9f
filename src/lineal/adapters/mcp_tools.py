"""The tools of the MCP server: each a verb or two of a session, with arguments that describe themselves. Knows no transport."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from lineal import view
from lineal.adapters.mcp_answers import Begun, Expanded, Explained, Found, Line, Lookup, Memory, Page, Part, Pinned, as_text, plain
from lineal.errors import Refused, Verdict
from lineal.messages import text_of
from lineal.session import Session
from lineal.session.effects import Effect
from lineal.session.outcomes import LedgerRow, Pruned, Purged, Rollback
from lineal.store import Store
from lineal.view import generations, words

PAGE, LARGEST = 20_000, 200_000  # characters of JSON that `context_fetch` answers with: by default, at most
LINES = 100  # turns that `context_expand` lists a page

Name = Annotated[str, Field(description="Session; empty for the server's own, or the only one of the store.")]
Key = Annotated[str, Field(description="What identifies the effect, the same at every attempt: 'invoice:4711'.")]
Target = Annotated[int | str, Field(description="A seq, or a checkpoint's id or label.")]
Handle = Annotated[str, Field(description="g4 of a summary or spill; t:ID, or the id of a turn.")]


class Unsettled(Exception):
    """What a client says of an effect whose outcome it does not know."""


class Tools:
    """The tools on one store. A context manager; leaving it makes *unknown* what was begun and not settled.

    `session` is the one that a call without a name means; `opened` opens one by its name, by default `Store.session`.
    """

    def __init__(self, store: Store, session: str = "", opened: Callable[[str], Session] | None = None):
        self.store, self.default, self._open = store, session, opened or store.session
        self._lock = threading.RLock()
        self._sessions: dict[str, Session] = {}
        self._held: dict[tuple[str, str], Effect] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._lock, ExitStack() as leaving:
            for effect in self._held.values():
                leaving.push(effect)
            self._held.clear()

    def _session(self, name: str) -> Session:
        """The session that a call means. Raises `Refused` where that is not clear, or where there is none."""
        known = self.store.sessions()
        wanted = name or self.default or (known[0] if len(known) == 1 else "")
        if wanted not in known:
            message = f"the store holds no session {wanted!r}." if wanted else f"the store holds {len(known)} sessions, and none is named."
            remedy = f"name one with `session`: {', '.join(map(repr, known[:20])) or 'there is none yet; it begins with its first entry'}"
            raise Refused(Verdict("session", "unknown_session" if wanted else "no_session", message=message, remedy=remedy))
        with self._lock:
            if wanted not in self._sessions:
                self._sessions[wanted] = self._open(wanted)
            return self._sessions[wanted]

    # --- reading back ------------------------------------------------------------------------------------------------

    def context_status(self, session: Name = "") -> Memory:
        """Sizes and states of the memory, what needs attention, the handles of what was summarised or put aside, and the pins."""
        memory = self._session(session)
        status = memory.status()
        lineage = memory.log.lineage
        pins = tuple(Pinned(p.id, p.turn, p.text) for p in lineage.pins)
        return Memory(status, tuple(view.health(status, lineage, memory.policy)), tuple(n.handle for n in lineage.nodes), pins)

    def context_search(self, query: str, limit: Annotated[int, Field(ge=1, le=50)] = 10, session: Name = "") -> Found:
        """Find what was said, also what left the view, by its words. Each hit has a handle for context_fetch."""
        return Found(tuple(self._session(session).search(query, limit)))

    def context_fetch(
        self,
        handle: Handle,
        from_seq: Annotated[int, Field(ge=0, description="next_seq of the page before.")] = 0,
        offset: Annotated[int, Field(ge=0, description="next_offset of the page before.")] = 0,
        size: Annotated[int, Field(ge=100, le=LARGEST, description="Characters of JSON a page.")] = PAGE,
        session: Name = "",
    ) -> Page:
        """The exact turns behind a handle, page by page, byte for byte as they were said."""
        parts: list[Part] = []
        for turn in self._session(session).expand(handle):
            if turn.seq < from_seq:
                continue
            text, start = as_text(turn.message), offset if turn.seq == from_seq else 0
            piece = text[start : start + size]
            if parts and len(piece) < len(text):
                return Page(handle, tuple(parts), turn.seq, 0)
            whole = len(piece) == len(text) and plain(turn.message) == turn.message
            message, piece_told = (turn.message, "") if whole else (None, piece)
            parts.append(Part(turn.seq, turn.id, turn.author, message, piece_told, start, len(text)))
            size -= len(piece)
            if start + len(piece) < len(text):
                return Page(handle, tuple(parts), turn.seq, start + len(piece))
        return Page(handle, tuple(parts), 0, 0)

    def context_expand(self, summary_id: Handle, from_seq: Annotated[int, Field(ge=0)] = 0, session: Name = "") -> Expanded:
        """What a handle stands for: its summary, and the covered turns by their first words, each with a handle of its own."""
        memory = self._session(session)
        turns = memory.expand(summary_id)
        node = self._generation(memory, int(summary_id[1:])) if re.fullmatch(r"g\d+", summary_id) else None
        rest = [t for t in turns if t.seq >= from_seq]
        lines = (Line(t.seq, t.id, t.author, t.tokens, f"t:{t.id}", words(text_of(t.message))) for t in rest[:LINES])
        after = rest[LINES].seq if len(rest) > LINES else 0
        told = (node.how, node.summary) if node and node.handle else ("turn", "")
        return Expanded(summary_id, *told, len(turns), tuple(lines), after)

    def compaction_explain(self, generation: Annotated[int, Field(ge=0, description="0: the last.")] = 0, session: Name = "") -> Explained:
        """Why a compaction was made, what it read and covered, what stays verbatim or exact, and what can be read back no more."""
        memory = self._session(session)
        made = self._generation(memory, generation)
        if made is None:
            what = f"generation {generation}" if generation else "compaction"
            remedy = f"generations run to {memory.log.lineage.last_generation}; context_status names those in the view"
            raise Refused(
                Verdict("retention", "unknown_generation", message=f"no {what} is retained in session {memory.name!r}.", remedy=remedy)
            )
        if not made.turns:
            return Explained(made, 0, "")
        try:
            readable = len(memory.expand(made.handle))
        except Refused as gone:
            return Explained(made, 0, str(gone))
        return Explained(made, readable, "" if readable == made.turns else f"{made.turns - readable} of {made.turns} turns were purged")

    def _generation(self, memory: Session, generation: int) -> view.Generation | None:
        """What the log retains of a generation (0: the last), if anything."""
        entries = [*memory.log.entries(kinds=generations.KINDS)]
        number = generation or generations.newest(entries)
        first = generations.opened_at(number, entries)
        try:
            before = memory.log.at(first - 1) if first else None
        except Refused:  # pruned; the entries of the generation itself may still stand
            before = None
        return view.explained(number, entries, before)

    # --- acting ------------------------------------------------------------------------------------------------------

    def effect_lookup(self, key: Key, session: Name = "") -> Lookup:
        """What the ledger has under a key: intended, done, no_effect, unknown or compensated; found=false if it was never begun."""
        rows = self._session(session).ledger(key)
        return Lookup(bool(rows), rows[0] if rows else None)

    def effect_begin(
        self,
        tool: str,
        args: dict[str, Any],
        key: Key,
        idempotent: Annotated[bool, Field(description="It may be done twice.")] = False,
        session: Name = "",
    ) -> Begun:
        """Write down, durably, that you are about to do something to the world. Act only if begun=true, then call effect_settle.

        begun=false: it was done before, `outcome` is what came of it. An error: it is being done, or nobody knows whether it was.
        """
        memory = self._session(session)
        with self._lock:
            effect = memory.effect(tool, args, key=key, idempotent=idempotent).__enter__()
            if effect.pending:
                self._held[memory.name, key] = effect
        assert effect.verdict is not None
        why, way_out = effect.verdict.message, effect.verdict.remedy
        return Begun(effect.pending, effect.key, effect.state, effect.attempt, effect.result, why, way_out)

    def effect_settle(
        self,
        key: Key,
        state: Annotated[Literal["done", "no_effect", "unknown"], Field(description="no_effect only if surely nothing happened.")],
        outcome: Annotated[Any, Field(description="Of done: what came of it, any JSON value.")] = None,
        why: Annotated[str, Field(description="Of no_effect and unknown: the reason.")] = "",
        session: Name = "",
    ) -> LedgerRow:
        """Say how an effect ended that was begun here. Unknown (a timeout, a lost answer) is never begun again by itself."""
        memory = self._session(session)
        with self._lock:
            effect = self._held.get((memory.name, key))
            if effect is None:
                return _settled(memory, key, state, outcome if state == "done" else why)
            if state == "done":
                effect.settle(outcome)
            elif state == "no_effect":
                effect.no_effect(why)
            else:
                effect.__exit__(Unsettled, Unsettled(why), None)
            del self._held[memory.name, key]
        return memory.ledger(key)[0]

    def rollback_plan(self, target: Target, session: Name = "") -> Rollback:
        """What going back to a target would leave behind, and which effects stand in its way. Changes nothing."""
        return self._session(session).rollback(target, dry_run=True)

    def pin(self, what: Annotated[str, Field(description="A text, or the id of a turn in the view.")], session: Name = "") -> Pinned:
        """Keep a text or a turn verbatim in the view through every compaction."""
        memory = self._session(session)
        id = memory.pin(what)
        made = next(p for p in memory.view().pins if p.id == id)
        return Pinned(id, made.turn, made.text)

    # --- for an operator ---------------------------------------------------------------------------------------------

    def effect_resolve(
        self, key: Key, finding: Literal["happened", "not_happened", "compensated"], note: str = "", session: Name = ""
    ) -> LedgerRow:
        """Record what was found out in the world about an effect of unknown outcome."""
        return self._session(session).resolve_effect(key, finding, note)

    def rollback(self, target: Target, expected_head: int | None = None, session: Name = "") -> Rollback:
        """Go back to a target; with expected_head only if nothing was written since. What was done to the world stays in the ledger."""
        return self._session(session).rollback(target, expected_head=expected_head)

    def prune(self, before: int | None = None, keep_checkpoints: int | None = None, dry_run: bool = True, session: Name = "") -> Pruned:
        """Drop entries that nothing needs, for good. With dry_run, the default, only say which."""
        return self._session(session).prune(before, keep_checkpoints, dry_run)

    def purge(self, ids: list[str], dry_run: bool = True, session: Name = "") -> Purged:
        """Erase the content of turns everywhere, for good. With dry_run, the default, only say what."""
        return self._session(session).purge(ids, dry_run)


def _settled(memory: Session, key: str, state: str, outcome: Any) -> LedgerRow:
    """The row of an effect that nobody is at here: as it is, if it says the same already (an answer that was lost). Else `Refused`."""
    row = next(iter(memory.ledger(key)), None)
    if row is not None and row.state == state and (state == "unknown" or row.outcome == outcome):
        return row
    stands = f"stands as {row.state}" if row else "was never begun"
    remedies = {"unknown": "find out, then let an operator resolve it", "intended": "whoever began it settles it"}
    remedy = remedies.get(row.state, "see effect_lookup; what is settled stays so") if row else "call effect_begin first"
    message = f"effect {key!r} was not begun by this server, or is over: it {stands}."
    raise Refused(Verdict("emission", "not_pending", message=message, remedy=remedy, facts={"key": key}))
