"""What the actors of a simulation do: each verb of a session once, on what is there when they come to it.

Every verb returns what came of it in a few words. What a caller may get is `Refused` or `Conflict`, and `Unavailable`
while a fault is injected; the actor hears of that.
"""

from __future__ import annotations

import json
from typing import Any

from lineal.errors import Refused
from lineal.session import Session
from lineal.session.effects import Effect
from lineal.session.outcomes import Compacted, Failed, Nothing, Outcome
from lineal.testing.simulation.actors import FORKS_MAX, Actor, VerbOf
from lineal.testing.simulation.court import damage
from lineal.testing.simulation.script import BAD_EVERY, Verb
from lineal.testing.simulation.world import Sent
from lineal.testing.summaries import BAD, GOOD

PAUSE = 40
SHARED_KEYS = 3


class Timeout(Exception):
    """A tool gave no answer."""


# --- saying ----------------------------------------------------------------------------------------------------------


def _user(label: str, words: int) -> dict[str, Any]:
    return {"role": "user", "content": f"request {label}: please look at port 7{words:03} " + "and the parts of it " * (words % 9)}


def _answer(label: str, words: int) -> dict[str, Any]:
    return {"role": "assistant", "content": f"answer {label}: this is what was found " + "in one of the parts " * (words % 9)}


def _call(id: str, tool: str = "look", args: Any = None) -> dict[str, Any]:
    made = {"id": id, "type": "function", "function": {"name": tool, "arguments": json.dumps(args or {"at": id})}}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


def _result(id: str, text: str, words: int = 0, pending: bool = False) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "tool", "tool_call_id": id, "content": f"result {text}: " + "row of the table " * (words % 40)}
    return {**message, "status": "pending"} if pending else message


def _say(actor: Actor, session: Session, *messages: dict[str, Any], what: str = "") -> str:
    said = actor.once(f"said{what}", lambda: list(messages))
    ids = [actor.label(f"{what}-{n}") for n in range(len(said))]
    turns = session.append(said, id=ids)
    actor.referee.acknowledged(actor.strand, session.name, turns)
    return f"{', '.join(ids)} stand at {', '.join(str(t.seq) for t in turns)}"


def exchange(actor: Actor, session: Session, verb: Verb) -> str:
    label, (a, b, c) = actor.label(), verb.picks
    id = f"call-{label}"
    return _say(actor, session, _user(label, a), _call(id), _result(id, label, b), _answer(label, c))


def user_says(actor: Actor, session: Session, verb: Verb) -> str:
    return _say(actor, session, _user(actor.label(), verb.picks[0]))


def agent_says(actor: Actor, session: Session, verb: Verb) -> str:
    return _say(actor, session, *(_answer(actor.label(), n) for n in verb.picks[: 1 + verb.picks[0] % 3]))


def call(actor: Actor, session: Session, verb: Verb) -> str:
    return _say(actor, session, _call(f"call-{actor.label()}"))


def answer_a_call(actor: Actor, session: Session, verb: Verb) -> str:
    a, b, c = verb.picks
    waiting = session.status().open_calls
    id = actor.once("call", lambda: waiting[a % len(waiting)] if waiting else "")
    return _say(actor, session, _result(id, actor.label(), b, pending=c % 4 == 0)) if id else "no call is open"


def save(actor: Actor, session: Session, verb: Verb) -> str:
    """A loop that hands over its whole list, twice (R2)."""
    given = actor.once("saved", lambda: [*session.messages(), _answer(actor.label(), verb.picks[0])])
    turns = [*session.save(given), *session.save(given)]
    actor.referee.acknowledged(actor.strand, session.name, turns)
    return f"saved {len(turns)} new"


def usage(actor: Actor, session: Session, verb: Verb) -> str:
    return f"{session.record_usage(session.status().tokens + verb.picks[0] % 20).tokens} tokens now"


def show(actor: Actor, session: Session, verb: Verb) -> str:
    return f"{len(session.messages())} messages, {len(session.view().turns)} turns verbatim, {len(session.turns())} in the log"


# --- forgetting ------------------------------------------------------------------------------------------------------


def _stub(verb: Verb) -> str:
    a, b, _ = verb.picks
    names = sorted([*BAD, "honest"] if a % BAD_EVERY == 0 else GOOD)
    return names[b % len(names)] if a % 2 == 0 else "honest"


def _outcome(actor: Actor, outcome: Outcome, stub: str) -> str:
    if isinstance(outcome, Compacted):
        if stub in BAD and outcome.lossy:
            actor.referee.complain("broken", f"{actor.name}: a summary that is {stub} was committed (R15)")
        return f"{'generation' if outcome.lossy else 'spill'} {outcome.generation} at seq {outcome.committed_at} ({stub})"
    if isinstance(outcome, Failed):
        actor.referee.reached(f"summarizer failed: {outcome.reason}")
        return f"failed: {outcome.reason} ({stub})"
    if isinstance(outcome, Nothing):
        return f"nothing: {outcome.reason}"
    actor.referee.reached(f"compact refused: {outcome.reason}")
    return f"refused: {outcome.reason} ({stub})"


def compact(actor: Actor, session: Session, verb: Verb) -> str:
    stub = _stub(verb)
    return _outcome(actor, session.compact(actor.summarizer(session, stub)), stub)


def maybe_compact(actor: Actor, session: Session, verb: Verb) -> str:
    stub = _stub(verb)
    return _outcome(actor, session.maybe_compact(actor.summarizer(session, stub)), stub)


def plan(actor: Actor, session: Session, verb: Verb) -> str:
    made = actor.plans[session.name] = session.plan_compaction()
    return f"generation {made.generation} over {', '.join(made.covered)}"


def commit(actor: Actor, session: Session, verb: Verb) -> str:
    made = actor.plans.get(session.name)
    if made is None:
        return "no plan is held"
    stub = _stub(verb)
    if stub in ("hangs", "raises"):
        stub = "honest"
    outcome = session.commit_compaction(made, actor.answer(session, stub, made.request))
    del actor.plans[session.name]
    return _outcome(actor, outcome, stub)


def abort(actor: Actor, session: Session, verb: Verb) -> str:
    made = actor.plans.pop(session.name, None)
    if made is not None:
        session.abort_compaction(made)
    return "aborted" if made else "no plan is held"


def pause(actor: Actor, session: Session, verb: Verb) -> str:
    """A process that is stopped for longer than its lease runs."""
    actor.strand.stall(PAUSE)
    actor.strand.scheduler.faults["stall"] += 1
    actor.strand.point("waking up")
    return "awake again"


def spill(actor: Actor, session: Session, verb: Verb) -> str:
    a, b, _ = verb.picks
    shown = [t.id for t in session.view().turns]
    chosen = shown[a % len(shown) :][: 1 + b % 3] if shown else []
    handle = session.spill(chosen)
    exact = {t.id for t in session.expand(handle)}
    if not exact >= set(chosen):
        actor.referee.reached("spilled turns purged meanwhile")
    return f"{handle} for {', '.join(chosen)}"


def evict(actor: Actor, session: Session, verb: Verb) -> str:
    shown = [t.id for t in session.view().turns]
    return f"noted at seq {session.note_eviction([shown[verb.picks[0] % len(shown)]], by='host')}" if shown else "nothing is shown"


def close_calls(actor: Actor, session: Session, verb: Verb) -> str:
    turns = session.close_calls()
    actor.referee.acknowledged(actor.strand, session.name, turns)
    return f"{len(turns)} closed"


def pin(actor: Actor, session: Session, verb: Verb) -> str:
    a, b, _ = verb.picks
    shown = [t.id for t in session.view().turns]
    return session.pin(f"never touch branch {b}" if a % 2 or not shown else shown[b % len(shown)])


def unpin(actor: Actor, session: Session, verb: Verb) -> str:
    pins = [p.id for p in session.view().pins]
    if pins:
        session.unpin(pins[verb.picks[0] % len(pins)])
    return f"one of {len(pins)}"


# --- the world -------------------------------------------------------------------------------------------------------


def _perform(actor: Actor, session: Session, effect: Effect, meant: str, how: int) -> str:
    """How it goes: done (mostly), refused by the tool, no answer after it was done or before, left unsettled."""
    with effect:
        if not effect.pending:
            reason = effect.verdict.reason if effect.verdict is not None else ""
            actor.referee.reached(f"effect answered: {reason}")
            return f"{effect.key} is not sent: {reason}"
        actor.strand.point("sending")
        if how == 7:
            effect.no_effect("locked")
            return f"{effect.key}: the tool refused"
        if how == 8:
            raise Timeout("no answer, and nothing was done")
        actor.referee.sent(actor.strand, Sent(session.name, effect.key, effect.attempt, meant))
        actor.strand.point("sent")
        if how == 9:
            raise Timeout("no answer, and it was done")
        if how == 6:
            return f"{effect.key}: left unsettled"
        effect.settle({"done": meant})
    return f"{effect.key} attempt {effect.attempt} is done"


def _effect(actor: Actor, session: Session, effect: Effect, meant: str, how: int) -> str:
    try:
        return _perform(actor, session, effect, meant, how)
    except Timeout as timeout:
        return f"{effect.key}: {timeout}"


def effect(actor: Actor, session: Session, verb: Verb) -> str:
    a, b, _ = verb.picks
    made = session.effect("deploy", {"for": actor.label()}, key=f"deploy:{actor.label()}", idempotent=b % 4 == 0)
    return _effect(actor, session, made, actor.label(), a % 12)


def shared_effect(actor: Actor, session: Session, verb: Verb) -> str:
    """One of a few keys that everybody uses (R49)."""
    a, b, c = verb.picks
    args = {"n": a % SHARED_KEYS, "other": c % 8 == 0}
    made = session.effect("migrate", args, key=f"migrate:{a % SHARED_KEYS}")
    return _effect(actor, session, made, f"migration {a % SHARED_KEYS}", b % 12)


def act(actor: Actor, session: Session, verb: Verb) -> str:
    """A call of the model, done through the gate under no key but its emission, and its result (R50)."""
    label, id = actor.label(), f"act-{actor.label()}"
    args = {"for": label}
    _say(actor, session, _call(id, "rotate", args), what="-call")
    told = _effect(actor, session, session.effect("rotate", args, call=id), label, verb.picks[0] % 12)
    return f"{told}; {_say(actor, session, _result(id, label), what='-result')}"


def act_again(actor: Actor, session: Session, verb: Verb) -> str:
    """The model makes an earlier call again, as if it did not know of it: by now that may have left the view (R50)."""
    before = [n for n, v in enumerate(actor.part.verbs[: actor.at]) if v.name == "act"]
    if not before:
        return "nothing was done yet"
    args, id = {"for": f"{actor.name}.{before[verb.picks[1] % len(before)]}"}, f"act-{actor.label()}"
    _say(actor, session, _call(id, "rotate", args), what="-call")
    told = _effect(actor, session, session.effect("rotate", args, call=id), actor.label(), verb.picks[0] % 12)
    return f"{told}; {_say(actor, session, _result(id, actor.label()), what='-result')}"


def resolve(actor: Actor, session: Session, verb: Verb) -> str:
    """An operator looks at the world, and says what is so."""
    unknown = session.status().unknown_effects
    if not unknown:
        return "nothing is unknown"
    key = unknown[verb.picks[0] % len(unknown)]
    attempt = next((row.attempt for row in session.ledger() if row.key == key), None)
    finding = "happened" if actor.referee.world.has(session.name, key, attempt) else "not_happened"
    if finding == "happened" and verb.picks[1] % 4 == 0:
        finding = "compensated"
    row = session.resolve_effect(key, finding)
    return f"{key} is {row.state}"


# --- back and forth, and keeping house -------------------------------------------------------------------------------


def checkpoint(actor: Actor, session: Session, verb: Verb) -> str:
    made = session.checkpoint(actor.label())
    return f"{made.checkpoint_id} of generation {made.generation}"


def recover(actor: Actor, session: Session, verb: Verb) -> str:
    watched = actor.referee.sessions.get(session.name)
    barrier = max(watched.barriers, default=0) if watched else 0
    found = session.recover()
    actor.referee.reached(f"recovered: {found.target}")
    if found.target == "checkpoint" and found.seq < barrier:
        actor.referee.complain("broken", f"{session.name}: recovered to the checkpoint at {found.seq}, overtaken at {barrier} (000)")
    return f"from a {found.target} at seq {found.seq}"


def roll_back(actor: Actor, session: Session, verb: Verb) -> str:
    a, b, _ = verb.picks
    known = session.checkpoints()
    target = known[a % len(known)] if known and b % 2 else max(0, session.status().head - 1 - a % 25)
    dry = session.rollback(target, dry_run=True)
    if not dry.verdict.allowed:
        actor.referee.reached(f"rollback would be refused: {dry.verdict.reason}")
    done = session.rollback(target)
    return f"to seq {done.target}, guarded: {', '.join(done.guarded) or 'nothing'}"


def fork(actor: Actor, session: Session, verb: Verb) -> str:
    a, b, _ = verb.picks
    if len(actor.stage.names()) >= len(actor.stage.homes) + FORKS_MAX:
        return "enough forks"
    name = actor.once("fork", lambda: f"fork-of-{actor.label()}")
    at = None if b % 2 else max(0, session.status().head - a % 15)
    child = session.fork(name, at=at)
    actor.sessions[name] = child
    return f"{name} at {'the head' if at is None else at}"


def purge(actor: Actor, session: Session, verb: Verb) -> str:
    said = [t.id for t in session.turns()]
    if not said:
        return "nothing was said"
    receipt = session.purge([said[verb.picks[0] % len(said)]])
    return f"{', '.join(receipt.turns)} gone"


def prune(actor: Actor, session: Session, verb: Verb) -> str:
    return f"{session.prune(keep_checkpoints=[None, 0, 1][verb.picks[0] % 3]).entries} rows dropped"


def pack(actor: Actor, session: Session, verb: Verb) -> str:
    packed = session.pack(before=None if verb.picks[0] % 3 else max(1, session.status().head - verb.picks[1]))
    if packed.damaged:
        actor.referee.complain("torn", f"{actor.name}: pack of {session.name!r} finds rows {packed.damaged} damaged")
    return f"{packed.entries} entries into {packed.segments} segments"  # how small they are depends on their salts


def finish_removal(actor: Actor, session: Session, verb: Verb) -> str:
    return f"finished at {session.finish_removal()}"


def verify(actor: Actor, session: Session, verb: Verb) -> str:
    reports = session.verify()
    if reports.damaged:
        actor.referee.complain("torn", f"{actor.name}: verify of {session.name!r} finds {damage(reports)}")
    actor.referee.reached(f"verify: {reports[0].verdict.name}")
    return reports[0].verdict.name


def expand(actor: Actor, session: Session, verb: Verb) -> str:
    handles = session.view().handles
    if not handles:
        return "no node stands in the view"
    handle = handles[verb.picks[0] % len(handles)]
    try:
        return f"{handle}: {len(session.expand(handle))} turns"
    except Refused as refusal:
        return f"{handle}: {refusal.reason}"


VERBS: dict[str, VerbOf] = {
    "exchange": exchange,
    "user says": user_says,
    "agent says": agent_says,
    "call": call,
    "answer a call": answer_a_call,
    "save": save,
    "usage": usage,
    "show": show,
    "compact": compact,
    "maybe compact": maybe_compact,
    "plan": plan,
    "commit": commit,
    "abort": abort,
    "pause": pause,
    "spill": spill,
    "evict": evict,
    "close calls": close_calls,
    "pin": pin,
    "unpin": unpin,
    "effect": effect,
    "shared effect": shared_effect,
    "act": act,
    "act again": act_again,
    "resolve": resolve,
    "checkpoint": checkpoint,
    "recover": recover,
    "roll back": roll_back,
    "fork": fork,
    "purge": purge,
    "prune": prune,
    "pack": pack,
    "finish removal": finish_removal,
    "verify": verify,
    "expand": expand,
}
