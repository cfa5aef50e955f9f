"""What every command has in common: the store it is given, the session it means, and the policy that holds there."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lineal.cli.report import Out
from lineal.errors import Refused, Verdict

if TYPE_CHECKING:
    from lineal.policy import Policy
    from lineal.session import Session
    from lineal.store import Store

F = TypeVar("F", bound=Callable[..., Any])
Verb = Callable[..., None]

store_argument = click.argument("store", metavar="STORE")
session_option = click.option("-s", "--session", "name", metavar="NAME", help="Session to use (default: the only one of the store).")
anchor_option = click.option("--anchor", metavar="FILE", help="File outside the store that remembers each session's head.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}


def age(value: str) -> float:
    """Seconds in a span of time: a number of them, or a number with a unit (`90s`, `15m`, `12h`, `30d`, `2w`)."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw]?)", value)
    if found is None:
        raise click.BadParameter(f"{value!r} is no span of time: give seconds, or a number with one of {', '.join(UNITS)}")
    return float(found[1]) * UNITS[found[2] or "s"]


_POLICY_OPTIONS = (
    click.option("--trigger", "policy_trigger", type=int, metavar="TOKENS", help="View size at which compaction engages."),
    click.option("--ceiling", "policy_ceiling", type=int, metavar="TOKENS", help="View size that is never passed."),
    click.option("--target", "policy_target", type=int, metavar="TOKENS", help="View size that compaction aims at."),
    click.option("--floor-turns", "policy_floor_turns", type=int, metavar="TURNS", help="Newest turns that stay verbatim."),
)
POLICY_KNOBS = ("trigger", "ceiling", "target", "floor_turns")


def policy_options(function: F) -> F:
    for option in reversed(_POLICY_OPTIONS):
        function = option(function)
    return function


def _at_the_end(function: F, option: Callable[[F], F]) -> F:
    """The option behind all that the function has; a decorator puts it in front (click keeps them in reverse)."""
    own = list(getattr(function, "__click_params__", ()))
    function.__click_params__ = []  # type: ignore[attr-defined]
    option(function)
    function.__click_params__ += own  # type: ignore[attr-defined]
    return function


def taken_policy(options: dict[str, Any]) -> dict[str, Any]:
    """The policy options that were given, taken out of a command's options."""
    found = {knob: options.pop(f"policy_{knob}", None) for knob in POLICY_KNOBS}
    return {knob: value for knob, value in found.items() if value is not None}


def answers(verb: Verb) -> Verb:
    """Give a command `--json` and the `Out` that it answers to."""

    @functools.wraps(verb)
    def run(as_json: bool, **options: Any) -> None:
        verb(Out(as_json), **options)

    return _at_the_end(run, json_option)


def on_store(verb: Verb) -> Verb:
    """A command on a store: `verb(out, store, ...)`. It is opened as it is; nothing is made where there is none."""

    @functools.wraps(verb)
    def run(out: Out, store: str, anchor: str | None, **options: Any) -> None:
        from lineal.store import connect

        with connect(store, anchor, create=False) as opened:
            verb(out, opened, **options)

    return store_argument(answers(_at_the_end(run, anchor_option)))


def on_session(verb: Verb) -> Verb:
    """A command on one session: `verb(out, session, ...)`, under the policy stored with its last compaction."""

    @functools.wraps(verb)
    def run(out: Out, store: Store, name: str | None, **options: Any) -> None:
        given = taken_policy(options)
        session = store.session(chosen(store, name))
        session.policy = policy_of(session, given)
        verb(out, session, **options)

    return on_store(_at_the_end(run, session_option))


def chosen(store: Store, name: str | None) -> str:
    """The session that is meant. Raises a usage error if that is not clear, `Refused` for one that is not there."""
    known = store.sessions()
    if name is not None:
        if name not in known:
            message = f"the store holds no session {name!r}; it holds {', '.join(map(repr, known)) or 'none'}."
            raise Refused(Verdict("session", "unknown_session", message=message, remedy="name one of these with --session"))
        return name
    if not known:
        raise click.UsageError("the store holds no session; `lineal import TRANSCRIPT STORE` makes one")
    if len(known) > 1:
        raise click.UsageError(f"the store holds {len(known)} sessions, name one with --session: {', '.join(known)}")
    return known[0]


def policy_of(session: Session, given: dict[str, Any]) -> Policy:
    """The policy stored with the session's last compaction, with `given` knobs instead of its own.

    A stored size that does not fit beside a given one follows from the given ones again. Raises `PolicyError`.
    """
    from lineal.policy import Policy

    known = {field.name for field in fields(Policy)}
    knobs = {knob: value for knob, value in session.log.lineage.policy.items() if knob in known} | given
    trigger, ceiling, target = (knobs.get(size) for size in ("trigger", "ceiling", "target"))
    if trigger is not None and ceiling is not None and trigger > ceiling:
        free = "ceiling" if "trigger" in given else "trigger"
        if free not in given:
            del knobs[free]
            trigger = knobs.get("trigger", ceiling)
    if trigger is not None and target is not None and target >= trigger and "target" not in given:
        del knobs["target"]
    return Policy(**knobs)
