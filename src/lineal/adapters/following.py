"""A session follows the state of a LangChain agent, and the state shows what the session's view shows.

| the state | the session |
|---|---|
| has messages that the log has not | appends them, by id: what stands is not said twice |
| begins behind older turns, or without them (a graph that keeps nothing) | keeps them: it is the memory |
| lacks turns behind its end that the graph never kept (killed in between) | keeps them, and the state gets them |
| lacks later turns that it has shown, or has one with other content | goes back too, through the gates of records 000 and 003 |
| lacks turns in the middle | notes that the host dropped them |
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, cast

from langchain.agents.middleware.types import ModelResponse
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_messages,
    convert_to_openai_messages,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from lineal.codec import arguments_digest, to_json
from lineal.errors import CompactionLineageError, Refused
from lineal.session import Session
from lineal.session.outcomes import Record, Shown

SPACE, ANSWERS = "langchain", "answers"  # answers of the model that the graph has not shown yet
OURS = "lineal:"  # ids of messages in the state that nobody said
SERDE = JsonPlusSerializer()


def follow(session: Session, state: Sequence[BaseMessage]) -> None:
    """Append what the state says and the session lacks; go back where the state went back.

    Raises `CompactionLineageError` (000) or `UnsafeRollbackError` (003) where going back is not safe.
    """
    said = [m for m in state if not str(m.id).startswith(OURS)]
    place = {m.id: n for n, m in enumerate(said)}
    turns = [s for s in session.shown() if s.turn]
    common = [n for n, s in enumerate(turns) if s.turn in place]
    edited = next((n for n in common if turns[n].whole and not _same(session, turns[n], said[place[turns[n].turn]])), None)
    until = edited if edited is not None else common[-1] + 1 if common else 0  # turns from here on are not in the state
    if not common:
        _refuse_a_covered_past(session, said)
    if common and (edited is not None or _left_on_purpose(session, turns[until:])):
        _go_back(session, turns[until])
    elif dropped := [s.turn for s in turns[min(common, default=0) : until] if s.turn not in place]:
        session.note_eviction(dropped, by=SPACE)
    known = {s.turn for s in turns[:until]}
    last = max((place[id] for id in known if id in place), default=-1)
    fresh = [m for m in said if m.id not in known and (place[m.id] > last or not _seq_of(session, m))]
    if fresh:
        session.append([_said(session, m) for m in fresh], id=[m.id for m in fresh])


def forget_answers(session: Session, state: Sequence[BaseMessage]) -> None:
    """Let go of the answers in a state that the graph has restored: it kept them itself. One that it only shows it may lose still."""
    restored = {m.id for m in state}
    session.release(SPACE, [kept.seq for kept in session.kept(SPACE, ANSWERS) if kept.key in restored])


def _left_on_purpose(session: Session, behind: Sequence[Shown]) -> bool:
    """Whether the graph went back to before these turns, and not only died before it kept them: it keeps what a user says
    before it goes on, and an answer that it never showed still waits here."""
    if not behind:
        return False
    waiting = {kept.key for kept in session.kept(SPACE, ANSWERS)}
    asked = any(s.message["role"] == "user" for s in behind)
    return asked or (behind[0].message["role"] == "assistant" and behind[0].turn not in waiting)


def _refuse_a_covered_past(session: Session, said: Sequence[BaseMessage]) -> None:
    """A state none of whose messages the view shows, and whose first one the log has, stands before the last compaction."""
    first = _seq_of(session, said[0]) if said else 0
    if first and not (verdict := session.restorable(first, "the state of the graph")):
        raise CompactionLineageError(verdict)


def _go_back(session: Session, first: Shown) -> None:
    """To right before this turn. A compaction behind it is not undone: that is refused."""
    verdict = session.restorable(first.seq, "the state of the graph")
    if not verdict:
        raise CompactionLineageError(verdict)
    session.rollback(first.seq - 1)


def _seq_of(session: Session, message: BaseMessage) -> int:
    """Where the log has this message, in the view or not; 0 if it never had it."""
    try:
        return session.expand(f"t:{message.id}")[0].seq
    except Refused:
        return 0


def _same(session: Session, shown: Shown, message: BaseMessage) -> bool:
    return to_json(shown.message) == to_json(_said(session, message))


def _said(session: Session, message: BaseMessage) -> dict[str, Any]:
    """The message as the session keeps it: in the chat dialect, redacted where the session redacts."""
    said = convert_to_openai_messages(message)
    assert isinstance(said, dict)
    if isinstance(message, ToolMessage) and message.status == "error":
        said["status"] = "error"
    return session.redact(said) if session.redact else said


def as_messages(session: Session, state: Iterable[BaseMessage]) -> list[AnyMessage]:
    """The view. A turn that stands there whole is the state's own message, with all that only LangChain knows of it. What lineal
    says itself is a human message: not every provider takes system messages between others."""
    own: dict[Any, Any] = {}
    if session.redact is None:
        own |= {kept.key: load(kept.data) for kept in session.kept(SPACE, ANSWERS) if kept.data} | {m.id: m for m in state}
    found: list[Any] = []
    for shown in session.shown():
        if shown.whole and shown.turn in own:
            found.append(own[shown.turn])
            continue
        id = shown.turn or f"{OURS}{arguments_digest(shown.message)[:16]}"
        (message,) = convert_to_messages([shown.message])
        ours = not shown.turn and shown.message["role"] == "system"
        found.append(HumanMessage(message.text, id=id) if ours else message.model_copy(update={"id": id}))
    return found


# --- answers, recorded before the graph has them -----------------------------------------------------------------------


def dump(value: Any) -> list[str]:
    kind, data = SERDE.dumps_typed(value)
    return [kind, base64.b64encode(data).decode()]


def load(dumped: Sequence[str]) -> Any:
    return SERDE.loads_typed((dumped[0], base64.b64decode(dumped[1])))


def next_answer(session: Session, asked: Sequence[BaseMessage]) -> AIMessage | None:
    """What the model has answered to this already, before a crash: the turn behind the last one that it is asked about."""
    shown, last = [s.turn for s in session.shown()], asked[-1].id if asked else None
    following = shown[shown.index(last) + 1 :] if last in shown else []
    kept = session.kept(SPACE, ANSWERS, following[0], 1) if following and following[0] else []
    return cast(AIMessage, load(kept[0].data)) if kept and kept[0].data else None


def record_answer(session: Session, response: ModelResponse[Any]) -> ModelResponse[Any]:
    """Say in the log what the model answered; first keep it with all that LangChain knows of it."""
    answer = response.result[0] if len(response.result) == 1 else None
    if isinstance(answer, AIMessage) and response.structured_response is None:
        if answer.usage_metadata:
            session.record_usage(answer.usage_metadata["input_tokens"], answer.usage_metadata["output_tokens"])
        answer.id = answer.id or f"answer-{uuid.uuid4()}"
        session.keep(SPACE, ANSWERS, [Record(dump(answer), key=answer.id, turns=[answer.id])])
        session.append([_said(session, answer)], id=[answer.id])
    return response
