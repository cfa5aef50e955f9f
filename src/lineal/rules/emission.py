"""Emission: may this effect be sent, was it, or is its outcome unknown? (record 003)

Every effect asks here before it is sent, and its intent is durable before it is sent (R47). Two questions, two tables:

* the same key stands in the ledger: the key *is* the effect, so what stands there is the answer (R49);
* no key was given by the caller: the identity is the emission (session, call's turn, place in the turn), and an equal
  call (same tool, same canonical arguments) that was made before may be the same wish, forgotten. Agents rightly repeat
  a commit, a push, a reboot; so a repeat is judged by what the agent can still know (R50).

`verdict.allowed` means: may be sent now. Not allowed is not always an error: `recorded` and `compensated` come with an
outcome to return. Whether an effect is idempotent is stored with it, never guessed from a name (R48).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from lineal.errors import Verdict
from lineal.rules import Row, Table
from lineal.rules.rollback import State

# --- the same key ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EmissionFacts:
    """What stands under the key. `found` is None for nothing; "not happened" after a resolve is `no_effect`.

    `same_arguments`: tool and canonical arguments equal what stands. `holder_live`: of the intent, where that is open.
    `idempotent`: the class stored with the effect. `seq`, `attempt`: of the intent that stands. `deadline`: the end of
    its lease in seconds since 1970, for people.
    """

    found: State | None = None
    same_arguments: bool = True
    holder_live: bool = False
    idempotent: bool = False
    key: str = ""
    tool: str = ""
    seq: int = 0
    attempt: int = 0
    holder: str = ""
    deadline: float | None = None


def _stands(facts: EmissionFacts) -> str:
    return f"effect {facts.key!r} ({facts.tool}) stands at seq {facts.seq} as {facts.found}"


def _busy(facts: EmissionFacts) -> str:
    holder = facts.holder or "a live holder"
    until = "" if facts.deadline is None else f", lease until {facts.deadline:.0f} (seconds since 1970)"
    return f"{_stands(facts)}, attempt {facts.attempt}, and {holder} is at it{until}."


TABLE: Table[EmissionFacts] = Table(
    "emission",
    "record 003",
    "same key: may this effect be sent, was it, or is its outcome unknown?",
    (
        Row(
            "send",
            "nothing stands under the key",
            "write the intent (durable), then send",
            lambda f: f.found is None,
            allowed=True,
            tell=lambda f: f"nothing stands under the key {f.key!r}",
        ),
        Row(
            "key_conflict",
            "any state, other tool or arguments",
            "conflict; the first entry is untouched",
            lambda f: not f.same_arguments,
            tell=lambda f: f"{_stands(f)} for other arguments than are asked for now; that entry is untouched.",
            remedy="give another effect another key; ask again with the recorded arguments to get the recorded outcome",
        ),
        Row(
            "recorded",
            "settled as done, same arguments",
            "do not send; return the recorded outcome",
            lambda f: f.found == "done",
            tell=lambda f: f"{_stands(f)}: it is not sent again.",
            remedy="use the recorded outcome; to do it once more on purpose, give it a new key",
        ),
        Row(
            "compensated",
            "done, then undone by an operator",
            "do not send; return the recorded outcome; once more needs a new key",
            lambda f: f.found == "compensated",
            tell=lambda f: f"{_stands(f)}: it was done and undone, and is not sent again under this key.",
            remedy="to do it once more on purpose, give it a new key",
        ),
        Row(
            "send_again",
            "settled as *no effect*, or resolved as not happened",
            "send again, new attempt under the same key",
            lambda f: f.found == "no_effect",
            allowed=True,
            tell=lambda f: f"{_stands(f)}: attempt {f.attempt + 1} may be sent",
        ),
        Row(
            "busy",
            "intended, holder live",
            "refuse: busy",
            lambda f: f.found == "intended" and f.holder_live,
            tell=_busy,
            remedy="wait until it is settled, then ask again",
        ),
        Row(
            "send_again_idempotent",
            "intended with a dead holder, timed out or cancelled, and idempotent",
            "send again, new attempt under the same key",
            lambda f: f.idempotent,
            allowed=True,
            tell=lambda f: f"{_stands(f)}, outcome unknown, but may be done twice: attempt {f.attempt + 1} may be sent",
        ),
        Row(
            "unknown",
            "intended with a dead holder, timed out or cancelled, and not idempotent",
            "*unknown*: refuse until resolved",
            lambda f: True,
            tell=lambda f: f"{_stands(f)}: whether it happened is not known, and it may not be done twice.",
            remedy='find out, then `resolve_effect(key, "happened" | "not_happened" | "compensated")`',
        ),
    ),
)


def judge(facts: EmissionFacts) -> Verdict:
    """May the effect under this key be sent now? The reason names the row; `attempt` in the facts is the next one."""
    shown: dict[str, Any] = {
        "key": facts.key,
        "tool": facts.tool,
        "state": facts.found,
        "seq": facts.seq,
        "attempt": facts.attempt + 1,
        "holder": facts.holder,
        "deadline": facts.deadline,
    }
    return TABLE.decide(facts, shown)


# --- an equal call without a caller's key ----------------------------------------------------------------------------


@dataclass(frozen=True)
class LookalikeFacts:
    """An earlier effect with the same tool and canonical arguments, under another key. `found` is None for none.

    `in_view`: the call and its outcome still stand verbatim in the view. `idempotent`: the class stored with the
    earlier effect and asked for now. Ask for the newest settled one, and for each that is not settled.
    """

    found: State | None = None
    in_view: bool = False
    holder_live: bool = False
    idempotent: bool = False
    policy: Literal["ask", "warn", "allow"] = "ask"
    key: str = ""
    tool: str = ""
    seq: int = 0


def _equal(facts: LookalikeFacts) -> str:
    return f"an equal call of {facts.tool or 'this tool'} stands at seq {facts.seq} under {facts.key!r} as {facts.found}"


LOOKALIKE: Table[LookalikeFacts] = Table(
    "look-alike",
    "record 003",
    "no caller's key, same tool and same canonical arguments as before: is it a repeat on purpose?",
    (
        Row(
            "none",
            "no equal call was made before",
            "send",
            lambda f: f.found is None,
            allowed=True,
        ),
        Row(
            "parallel",
            "intended by a live holder",
            "send: an equal call at the same time is another emission",
            lambda f: f.found == "intended" and f.holder_live,
            allowed=True,
            tell=_equal,
        ),
        Row(
            "had_no_effect",
            "recorded outcome was *no effect*, or resolved as not happened",
            "send",
            lambda f: f.found == "no_effect",
            allowed=True,
            tell=_equal,
        ),
        Row(
            "idempotent",
            "both are idempotent",
            "send: it may be done twice",
            lambda f: f.idempotent,
            allowed=True,
            tell=_equal,
        ),
        Row(
            "unsettled_lookalike",
            "its outcome is unknown: intended with a dead holder, timed out or cancelled",
            "refuse until resolved, whatever the policy",
            lambda f: f.found in ("intended", "unknown"),
            tell=lambda f: f"{_equal(f)}: whether it happened is not known, and it may not be done twice.",
            remedy="find out, then `resolve_effect` that key; or give this effect a key of its own",
        ),
        Row(
            "deliberate_repeat",
            "the call and its outcome still stand verbatim in the view",
            "send: a deliberate repeat",
            lambda f: f.in_view,
            allowed=True,
            tell=lambda f: f"{_equal(f)}, in the view: a deliberate repeat",
        ),
        Row(
            "allowed_by_policy",
            "it has left the view or lies after a rollback's target; policy *allow*",
            "send",
            lambda f: f.policy == "allow",
            allowed=True,
            tell=lambda f: f"{_equal(f)}, out of the view; sent by policy",
        ),
        Row(
            "warned",
            "it has left the view or lies after a rollback's target; policy *warn*",
            "send, and say so",
            lambda f: f.policy == "warn",
            allowed=True,
            tell=lambda f: f"{_equal(f)}, out of the view: it may be a repeat that nobody meant; sent, by policy",
        ),
        Row(
            "look_alike",
            "it has left the view (compacted, spilled) or lies after a rollback's target; policy *ask*",
            "do not send; return the recorded outcome and ask",
            lambda f: True,
            tell=lambda f: f"{_equal(f)}, out of the view: it is not sent, its recorded outcome is returned.",
            remedy="to do it once more on purpose, give it a key of its own; or set on_lookalike to warn or allow",
        ),
    ),
)


def judge_lookalike(facts: LookalikeFacts) -> Verdict:
    """May a call be sent that equals an earlier one? The facts name the earlier one: `key`, `seq`, `state`."""
    shown = {"key": facts.key, "tool": facts.tool, "seq": facts.seq, "state": facts.found, "in_view": facts.in_view, "policy": facts.policy}
    return LOOKALIKE.decide(facts, shown)
