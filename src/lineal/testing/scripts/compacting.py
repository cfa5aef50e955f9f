"""Verbs that change the view: compaction in one step or in two, its summarizer, the policy."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from lineal.errors import Refused, Verdict
from lineal.summarizers import Summary
from lineal.testing.scripts import telling
from lineal.testing.scripts.language import Command, ScriptError, parse
from lineal.testing.scripts.verbs import flag, json_of, number, rest_of, session_of, verb, word
from lineal.testing.scripts.world import World

KNOBS = {"floor": "floor_turns"}


@verb("policy KNOB=VALUE ...", "change knobs of the policy; `floor` is floor_turns")
def policy(world: World, command: Command) -> Iterable[str]:
    given = {KNOBS.get(name, name): json_of(value) for name, value in command.options.items()}
    world.change_policy({**asdict(world.policy), **given})
    return []


@verb(
    "summarizer NAME | says TEXT [window=n] [stop=REASON] [received=a,b] [forgets=yes]",
    "choose what answers from now on; `window` states how many tokens it reads",
)
def summarizer(world: World, command: Command) -> Iterable[str]:
    world.window = number(command, "window", 0) or None
    if command.words[:1] == ["says"]:
        text = word(command, 1, "text").replace("\\n", "\n")
        received = tuple(command.options["received"].split(",")) if "received" in command.options else None
        summary = Summary(text, received, False if flag(command, "forgets") else None, command.options.get("stop"))
        world.summarizer = lambda request: summary
    else:
        world.choose(" ".join(command.words))
    for session in world.each_session():
        session.summarizer = world.asker()
    return []


@verb("meanwhile COMMAND", "carry this command out while the summarizer is working the next time")
def meanwhile(world: World, command: Command) -> Iterable[str]:
    world.meanwhile.append(parse(rest_of(command), command.line))
    return []


@verb("compact [request=ID]", "compact now")
def compact(world: World, command: Command) -> Iterable[str]:
    world.last = session_of(world, command).compact(request_id=command.options.get("request"))
    return [telling.outcome(world.last)]


@verb("maybe_compact", "compact if the view is above the trigger")
def maybe_compact(world: World, command: Command) -> Iterable[str]:
    world.last = session_of(world, command).maybe_compact()
    return [telling.outcome(world.last)]


@verb("plan", "begin a compaction in two steps")
def plan(world: World, command: Command) -> Iterable[str]:
    made = session_of(world, command).plan_compaction()
    world.hand(command.handle).plan = world.last = made
    return [telling.plan(made)]


@verb("commit", "commit what was planned, with what the summarizer says")
def commit(world: World, command: Command) -> Iterable[str]:
    hand = world.hand(command.handle)
    if hand.plan is None:
        raise ScriptError("there is no plan to commit; plan first")
    world.last = session_of(world, command).commit_compaction(hand.plan, world.ask(hand.plan.request))
    hand.plan = None
    return [telling.outcome(world.last)]


@verb("abort [WHY]", "give the plan up")
def abort(world: World, command: Command) -> Iterable[str]:
    hand = world.hand(command.handle)
    if hand.plan is None:
        raise ScriptError("there is no plan to give up; plan first")
    session_of(world, command).abort_compaction(hand.plan, *command.words[:1])
    hand.plan = None
    return []


@verb("together N COMMAND", "N threads at once; a summarizer that is asked waits for the other threads; prints each answer with its count")
def together(world: World, command: Command) -> Iterable[str]:
    inner, answers = parse(f"{command.handle + ': ' if command.handle else ''}{rest_of(command, 1)}", command.line), list[str]()
    gate = threading.Barrier(int(word(command, 0, "number of threads")))
    world.others = threading.Event()

    def one() -> None:
        gate.wait()
        answers.extend(world.carry_out(world, inner))
        if len(answers) >= gate.parties - 1 and world.others is not None:
            world.others.set()

    threads = [threading.Thread(target=one) for _ in range(gate.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    world.others = None
    return [f"{answers.count(line)} x {line}" for line in sorted(set(answers))]


@verb("hook before_commit [refuse]", "from now on tell each generation before it is committed, or stop it")
def hook(world: World, command: Command) -> Iterable[str]:
    def before(entry: Any) -> None:
        world.aside.append(f"before_commit g{entry.generation}")
        if "refuse" in command.words:
            raise Refused(Verdict("before_commit", "hook", message="the hook says no."))

    world.before_commit = before
    for session in world.each_session():
        session.before_commit = before
    return []


@verb("redact WORD", "from now on WORD is replaced by [redacted] before anything is stored")
def redact(world: World, command: Command) -> Iterable[str]:
    secret = word(command, 0, "word")

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(secret, "[redacted]")
        if isinstance(value, list):
            return [clean(v) for v in value]
        return {k: clean(v) for k, v in value.items()} if isinstance(value, dict) else value

    world.redact = clean
    for session in world.each_session():
        session.redact = clean
    return []
