"""What must hold of a rendered view whatever was done before: pairs, sizes, and what a ceiling may leave in it.

These look at what a session shows, and at the reference model where the answer needs what was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from lineal import messages
from lineal.policy import Policy
from lineal.session import Session
from lineal.tokens import measure

if TYPE_CHECKING:
    from lineal.testing.model import Model


def unpaired(shown: Iterable[Any]) -> Iterator[str]:
    """Calls and results of a rendered view (OpenAI chat) that are not paired as a provider wants them (R11).

    Results stand right behind their call; only the last call may still wait for some. An interim one answers for now.
    """
    asked: list[str] = []
    answered: list[str] = []
    for message in shown:
        if message.get("role") == "tool":
            if message["tool_call_id"] not in asked:
                yield f"an orphan result of {message['tool_call_id']!r} is shown"
            answered.append(message["tool_call_id"])
        elif message.get("role") != "system":
            if set(asked) - set(answered):
                yield f"{message} comes before the results of {set(asked) - set(answered)}"
            asked, answered = [made["id"] for made in message.get("tool_calls") or ()], []


def sizes(session: Session, shown: list[Any]) -> Iterator[str]:
    """The counter measures what is rendered, and nothing else (R25). Derived results are no part of the view's size."""
    closed = [t.message for t in session.view().turns if messages.UNKNOWN_OUTCOME in str(t.message)]  # by close_calls: said, not derived
    late = "[lineal: late result"
    real = [m for m in shown if m in closed or late in str(m.get("content")) or messages.UNKNOWN_OUTCOME not in str(m.get("content"))]
    sizes = [measure(m, session.counter) for m in real]
    counted = (sum(tokens for tokens, _ in sizes), sum(size for _, size in sizes))
    lineage = session.log.lineage
    if counted != (lineage.tokens, lineage.bytes):
        yield f"the messages measure {counted}, the view says {(lineage.tokens, lineage.bytes)} (R25)"


def spillable(model: Model, policy: Policy) -> list[str]:
    """Turns that nothing keeps from being put aside: what a view above its ceiling must not have (R10, R29)."""
    turns = model.turns()
    newest = model.newest_user()
    tied = [{caller.id, *(a.id for a in answers)} for caller, answers, _ in model.pairs()]
    waiting = {caller.id for caller, _, answered in model.pairs() if not answered}
    held = {turn for _, turn in model.now.pins.values()} | waiting | ({newest.id} if newest else set())
    held |= {t.id for t in turns[len(turns) - policy.floor_turns :]} if policy.floor_turns else set()
    for turn in turns:
        if turn.role not in ("system", "developer"):
            break
        held.add(turn.id)
    while more := {id for group in tied if group & held for id in group} - held:
        held |= more
    free = [t for t in turns if t.id not in held]
    older = [t.id for t in free if newest is None or t.seq < newest.seq]
    return older or [t.id for t in free]
