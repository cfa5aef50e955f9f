"""Verbs that do something to the world, and that find out what was done."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from lineal.session.effects import Effect, NoEffect
from lineal.testing.scripts import telling
from lineal.testing.scripts.language import Command, ScriptError
from lineal.testing.scripts.verbs import flag, json_of, session_of, verb, word
from lineal.testing.scripts.world import World

THEN = ("settle", "no_effect", "raise", "leave", "open", "die")


@verb(
    "effect KEY|- TOOL [args=JSON] [then=settle|no_effect|raise|leave|open|die] [value=JSON] [idempotent=yes] [call=ID] [handle=URL]",
    "begin an effect; if it is pending it is really sent, then ends as told (`open`: goes on; `die`: the process dies in it)",
)
def effect(world: World, command: Command) -> Iterable[str]:
    key, tool = word(command, 0, "key"), word(command, 1, "tool")
    then = command.options.get("then", "settle")
    if then not in THEN:
        raise ScriptError(f"then={then}: one of {', '.join(THEN)}")
    begun = session_of(world, command).effect(
        tool,
        json_of(command.options.get("args")),
        key=None if key == "-" else key,
        idempotent=flag(command, "idempotent"),
        call=command.options.get("call"),
    )
    begun.__enter__()
    if not begun.pending:
        world.last = begun.verdict
        reason = begun.verdict.reason if begun.verdict else "recorded"
        return [f"not sent ({reason}): {json.dumps(begun.result)}"]
    if "handle" in command.options:
        begun.attach(command.options["handle"])
    if then != "no_effect":
        world.sent[tool] += 1
    return [_ended(world, command, begun, then)]


def _ended(world: World, command: Command, begun: Effect, then: str) -> str:
    value: Any = json_of(command.options.get("value", '"ok"'))
    if then == "settle":
        begun.settle(value)
        begun.__exit__(None, None, None)
        return f"sent, settled: {json.dumps(value)}"
    if then == "no_effect":
        begun.__exit__(NoEffect, NoEffect(str(value)), None)
        return f"no effect: {json.dumps(value)}"
    if then == "raise":
        begun.__exit__(TimeoutError, TimeoutError("no answer"), None)
        return "sent, then a timeout: outcome unknown"
    if then == "leave":
        begun.__exit__(None, None, None)
        return "sent, left unsettled: outcome unknown"
    if then == "die":
        world.leave(command.handle, crash=True)
        return "sent, and the process died"
    world.hand(command.handle).effects[command.words[0]] = begun
    return "sent, under way"


@verb("settle KEY [JSON]", "an effect that was left `open` has happened")
def settle(world: World, command: Command) -> Iterable[str]:
    begun = world.hand(command.handle).effects.pop(word(command, 0, "key"))
    begun.settle(json_of(command.words[1]) if len(command.words) > 1 else "ok")
    return [f"settled: {json.dumps(begun.result)}"]


@verb("resolve KEY happened|not_happened|compensated [NOTE]", "record what was found out about an effect")
def resolve(world: World, command: Command) -> Iterable[str]:
    row = session_of(world, command).resolve_effect(word(command, 0, "key"), word(command, 1, "finding"), " ".join(command.words[2:]))
    return [f"{row.key}: {row.state}"]


@verb("ledger", "every effect: key, tool, state, outcome")
def ledger(world: World, command: Command) -> Iterable[str]:
    return telling.ledger(session_of(world, command))
