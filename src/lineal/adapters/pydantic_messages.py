"""A session follows the messages of a Pydantic AI agent, and the model is shown what the session's view shows.

These messages have no ids. What the turn of a piece is called, and how the piece is recognised when it comes again:

| piece | its turn | recognised by |
|---|---|---|
| what a user says to a run | the run's id | that id; later the digest |
| a tool's answer | the turn that made the call, and the call's id | that id, or the digest |
| an answer of the model, or anything else that a run adds | the run's id, its step, the words' digest | that id, or the digest |
| history from before the log began | the digest | the digest |
| what lineal said itself, or shortened | | the mark in its `metadata` |

The digest is over the words and the moment that Pydantic AI stamped on them; of equal ones the n-th in the list is meant.
The piece as Pydantic AI has it is kept before its turn is appended, so that a turn never lacks it; a session that redacts
keeps the digest only. System prompts are no turns: they configure the agent, and lead every request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai import messages as pm
from pydantic_ai.usage import RequestUsage

from lineal.adapters.pydantic_pieces import REFUSED, dump, from_chat, joined, load, mark, moment, say, split
from lineal.codec import arguments_digest
from lineal.errors import Refused, Verdict
from lineal.messages import parse
from lineal.session import Session
from lineal.session.outcomes import Record

SPACE, GROUP = "pydantic_ai", "messages"
NOTHING = dict[str, Any]()  # kept for a piece of a redacting session: a purge still finds it, and leaves None


@dataclass(frozen=True)
class Piece:
    """One turn's worth of a message. `key`: its digest; `turn`: its turn; `known`: the log has it; `kept`: it has the key, too."""

    message: pm.ModelMessage
    said: dict[str, Any]
    key: str
    turn: str
    known: bool
    kept: bool

    @property
    def call(self) -> str:
        """The call that this answers, or ""."""
        return str(self.said.get("tool_call_id", ""))


class Follower:
    """One run of an agent beside one session."""

    def __init__(self, session: Session, run: str):
        self.session, self.run = session, run
        self.begun = False  # whether the history that the run was handed has been followed
        self._turns: dict[str, str] = {}  # key -> turn
        self._there: set[str] = set()
        self._originals: dict[str, pm.ModelMessage | None] = {}

    # --- what is said --------------------------------------------------------------------------------------------------

    def follow(self, messages: Sequence[pm.ModelMessage], step: int) -> tuple[list[Piece], bool]:
        """Append what the messages say and the log lacks. Returns the pieces, and whether one was new.

        Raises `Refused` for a history that is another one than the log's.
        """
        pieces = self._pieces(messages, step)
        if not self.begun:
            self._refuse_another_history(pieces, messages)
        self.begun = True
        fresh = self._without_closed([p for p in pieces if not p.known])
        if any(not p.call for p in fresh):
            self._close({p.call for p in fresh})
        again = [p for p in pieces if p.known and not p.kept]
        self._append([p for p in again if p.turn == self.run])  # the run is made again: other words under its id are a conflict
        self._keep([*again, *fresh])
        self._append(fresh)
        return pieces, bool(fresh)

    def record(self, messages: Sequence[pm.ModelMessage], step: int, response: pm.ModelResponse) -> None:
        """The answer of the model: durable before the agent acts on it."""
        if response.usage.input_tokens:
            self.session.record_usage(response.usage.input_tokens, response.usage.output_tokens)
        piece = self._pieces([*messages, response], step)[-1]
        if not piece.known:
            self._keep([piece])
            self._append([piece])

    def _pieces(self, messages: Sequence[pm.ModelMessage], step: int) -> list[Piece]:
        self._there.update(s.turn for s in self.session.shown())
        found, seen, named, makers = list[Piece](), Counter[str](), Counter[str](), dict[str, str]()
        prompt = "" if self.begun else self.run
        for n, message in enumerate(messages):
            own = self.begun or (n == len(messages) - 1 and isinstance(message, pm.ModelRequest))
            for part in split(message):
                said = say(part)
                digest, words = arguments_digest([moment(part), said])[:32], arguments_digest(said)[:16]
                key = f"{digest}#{seen[digest]}" if seen[digest] else digest
                seen[digest] += 1
                if (marked := mark(part)) is not None:
                    piece = Piece(part, said, key, marked, True, True)
                elif turn := self._recorded(key):
                    piece = Piece(part, said, key, turn, self._said(turn), True)
                else:
                    asked = said["role"] == "user" and own and prompt
                    name = f"{self.run}:{step}:{words}" if own else key
                    if said["role"] == "tool":
                        name = f"{makers.get(said['tool_call_id'], self.run)}:{said['tool_call_id']}"
                    turn = prompt if asked else f"{name}#{named[name]}" if named[name] else name
                    named[name] += not asked
                    prompt = "" if asked else prompt
                    piece = Piece(part, said, key, turn, (own or said["role"] == "tool") and self._stands(turn), False)
                found.append(piece)
                makers.update((call["id"], piece.turn) for call in said.get("tool_calls", ()))
        return [*_said_if_followed(found)]

    def _keep(self, pieces: Sequence[Piece]) -> None:
        records = [Record({"turn": p.turn}, key=p.key) for p in pieces]
        for p in pieces:
            if not p.known:
                records.append(Record(NOTHING if self.session.redact else dump(p.message), key=f"turn:{p.turn}", turns=[p.turn]))
            self._turns[p.key] = p.turn
        if records:
            self.session.keep(SPACE, GROUP, records)

    def _append(self, fresh: Sequence[Piece]) -> None:
        if fresh:
            self.session.append([p.said for p in fresh], id=[p.turn for p in fresh])
            self._there.update(p.turn for p in fresh)

    def _refuse_another_history(self, pieces: Sequence[Piece], messages: Sequence[pm.ModelMessage]) -> None:
        """History may extend the log; between its turns, or beside them, it would change what was said."""
        asked = len(split(messages[-1])) if messages and isinstance(messages[-1], pm.ModelRequest) else 0
        last = next((s.turn for s in reversed(self.session.shown()) if s.turn), "")
        before = ""
        for n, piece in enumerate(pieces[: len(pieces) - asked]):
            if piece.known:
                before = piece.turn or before
            elif before == last:
                last = before = piece.turn
            else:
                message = (
                    f"piece {n} of the history that was handed over is not in session {self.session.name!r}, whose last turn is {last!r}."
                )
                remedy = "hand over no history (the session has it), go back with session.rollback(), or take another session"
                raise Refused(Verdict("follow", "another_history", message=message, remedy=remedy, facts={"piece": n, "last": last}))

    def _without_closed(self, fresh: Sequence[Piece]) -> list[Piece]:
        """Without answers to closed calls that say no more than that. Raises `Refused` for one that says more."""
        waiting = {*self.session.status().open_calls, *(call["id"] for p in fresh for call in p.said.get("tool_calls", ()))}
        closed = [p for p in fresh if p.call and p.call not in waiting]
        for piece in closed:
            if not _says_nothing(piece):
                message = (
                    f"the call {piece.call!r} is not open in session {self.session.name!r}: it has its answer there, or was never made."
                )
                facts = {"call": piece.call}
                raise Refused(Verdict("follow", "not_open", message=message, remedy="say it in a message of the user", facts=facts))
        return [p for p in fresh if p not in closed]

    def _close(self, answered: set[str]) -> None:
        """Calls that a process left open and nobody answers any more: by what the ledger has of them, else as unknown."""
        left = [call for call in self.session.status().open_calls if call not in answered]
        rows = self.session.ledger() if left else []
        done = {row.outcome["call"]: row.outcome for row in rows if isinstance(row.outcome, dict) and "call" in row.outcome}
        makers = {call.id: shown.turn for shown in self.session.shown() if shown.turn for call in parse(shown.message).calls}
        for call in [call for call in left if call in done]:
            answer = split(load(done[call]["answer"]))[0]
            piece = Piece(answer, say(answer), arguments_digest([moment(answer), say(answer)])[:32], f"{makers[call]}:{call}", False, False)
            self._keep([piece])
            self._append([piece])
        self.session.close_calls([call for call in left if call not in done])

    # --- what is shown -------------------------------------------------------------------------------------------------

    def answered(self, messages: Sequence[pm.ModelMessage], step: int) -> pm.ModelResponse | None:
        """What the model has answered to this already, before a crash; None if it is to be asked. Follows the messages first."""
        pieces, new = self.follow(messages, step)
        last = next((p.turn for p in reversed(pieces) if p.turn), "")
        if new or not (turn := self._answer_behind(last)):
            return None
        found = self._original(turn) or from_chat(self.session.expand(f"t:{turn}")[0].message, turn)
        assert isinstance(found, pm.ModelResponse)
        return replace(found, usage=RequestUsage(), run_id=None)  # it is this run's now, and this run has used nothing

    def _answer_behind(self, last: str) -> str:
        """The turn of the model behind this one (""; behind nothing: the last turn, if it is one)."""
        turns = [(s.turn, s.message["role"]) for s in self.session.shown() if s.turn]
        if last and last not in dict(turns):
            turns = [(t.id, t.message["role"]) for t in self.session.turns()]
        at = next((n for n, (turn, _) in enumerate(turns) if turn == last), len(turns) if last else len(turns) - 2)
        turn, role = next(((turn, role) for turn, role in turns[max(at, -1) + 1 :] if role != "tool"), ("", ""))
        return turn if role == "assistant" else ""

    def view(self, pieces: Sequence[Piece] = (), asked: Sequence[pm.ModelMessage] = ()) -> list[pm.ModelMessage]:
        """The view as Pydantic AI's messages. A turn that stands there whole is the agent's own piece, or the one kept."""
        own = {p.turn: p.message for p in pieces} if self.session.redact is None else {}
        found: list[pm.ModelMessage] = []
        for shown in self.session.shown():
            original = own.get(shown.turn) or self._original(shown.turn) if shown.whole else None
            found.append(original or from_chat(shown.message, shown.turn))
        return joined(found, asked)

    def _original(self, turn: str) -> pm.ModelMessage | None:
        if turn not in self._originals:
            kept = self.session.kept(SPACE, GROUP, f"turn:{turn}", 1)
            self._originals[turn] = load(kept[0].data) if kept and kept[0].data else None
        return self._originals[turn]

    # --- what the log has ----------------------------------------------------------------------------------------------

    def _recorded(self, key: str) -> str:
        if key not in self._turns and (kept := self.session.kept(SPACE, GROUP, key, 1)):
            self._turns[key] = kept[0].data["turn"]
        return self._turns.get(key, "")

    def _said(self, turn: str) -> bool:
        """Whether the log has the turn, on whatever branch, or had it until a purge. (A kept piece may lack it: killed in between.)"""
        if turn in self._there:
            return True
        try:
            return bool(self.session.expand(f"t:{turn}"))
        except Refused:
            kept = self.session.kept(SPACE, GROUP, f"turn:{turn}", 1)
            return bool(kept) and kept[0].data is None

    def _stands(self, turn: str) -> bool:
        """Whether it stands on this branch: what a rollback left behind may be said again."""
        return turn in self._there or (self._said(turn) and any(t.id == turn for t in self.session.turns()))


def _said_if_followed(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """A kept piece without a turn was cut off before its append, or pruned since. Pieces are appended in order, so before one
    that was said it is pruned."""
    last = max((n for n, p in enumerate(pieces) if p.known and p.turn), default=-1)
    for n, piece in enumerate(pieces):
        yield replace(piece, known=True) if piece.kept and n < last else piece


def _says_nothing(piece: Piece) -> bool:
    """An answer that only says that there is none: lineal's refusal, or what Pydantic AI makes up for a call without one."""
    noted = [part.metadata for part in piece.message.parts if isinstance(part, pm.ToolReturnPart) and isinstance(part.metadata, dict)]
    made_up = any(pm.SYNTHESIZED_TOOL_RETURN_METADATA_KEY in metadata for metadata in noted)
    return made_up or str(piece.said["content"]).startswith(REFUSED)
