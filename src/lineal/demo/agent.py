"""The agent: a process that works through a script, and can be made to stand still at a point where it will be killed.

It knows nothing of the kill. Started again, it reads its log, skips what stands there and goes on; every call that
changes the world asks the ledger first. What it tells its parent goes to stdout, one JSON object a line; stdin is read
only to stand still, and its end means that the parent has gone.

    python -m lineal.demo TRANSCRIPT STORE --conversation N --limit N --seed N --stop compaction --stop effect --stop append
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Awaitable, Collection
from pathlib import Path
from typing import Any, NoReturn

from lineal import messages
from lineal.demo import script as scripts
from lineal.demo.script import Script, Step, WorldCall
from lineal.demo.torn import NAME as TORN
from lineal.demo.torn import TornFiles
from lineal.demo.world import World
from lineal.entries import Call
from lineal.errors import KeyConflict, UnsafeEffectError
from lineal.session import Session
from lineal.session.effects import Effect
from lineal.store import Store, connect
from lineal.summarizers import Summary, SummaryRequest

SESSION = "demo"
MARK = "lineal demo"  # label of the first checkpoint: by it the demo knows its own stores
STOPS = ("compaction", "effect", "append")
STAND_IN = ":unknown"  # ends the id of the turn that stands for a result which nobody knows
TORN_AFTER = (2, 6)  # writes of a commit after which it is torn


def open_store(path: Path, create: bool = False, vfs: str = "") -> Store:
    return connect(f"sqlite:///{path.absolute()}?wait=10" + (f"&vfs={vfs}" if vfs else ""), create=create)


def open_session(store: Store, script: Script) -> Session:
    return store.session(SESSION, script.policy, counter=scripts.COUNTER)


def tell(at: str, **facts: Any) -> None:
    """One line to the parent, at once: it may be the last one."""
    print(json.dumps({"at": at, **facts}), flush=True)


def stand(at: str, **facts: Any) -> NoReturn:
    """Tell where we are and stay there until the end."""
    tell(at, **facts)
    sys.stdin.read()
    os._exit(3)


class Agent:
    """One run through the script. `stops`: the points where it stands still."""

    def __init__(self, session: Session, script: Script, world: World, stops: Collection[str], torn: TornFiles, seed: int):
        self.session, self.script, self.world, self.torn = session, script, world, torn
        self.stops, self.random = set(stops), random.Random(seed)
        self.present = {t.id for t in session.turns()}
        self.refused: set[str] = set()
        self.at = 0

    def work(self) -> None:
        steps = self.script.steps
        while self.at < len(steps):
            fresh = self.append(steps[self.at])
            self.promise(steps[self.at])
            for call in steps[self.at].calls:
                self.effect(call)
            if fresh:
                self.session.maybe_compact(self.summarize)
            self.at += 1
        if "compaction" in self.stops:
            self.session.compact(self.summarize)
        status = self.session.status()
        tell("end", digest=status.digest, head=status.head, tokens=status.tokens)

    def promise(self, step: Step) -> None:
        """Mark the store as the demo's; keep what the user said first: the turn, or the start of a long one."""
        if self.at == 0 and not self.session.checkpoints():
            self.session.checkpoint(MARK)
        if step is self.script.pinned and not self.session.view().pins:
            short = step.tokens <= self.script.policy.trigger // scripts.PINNED
            self.session.pin(step.id if short else " ".join(messages.text_of(step.message).split())[:200])

    # --- turns -------------------------------------------------------------------------------------------------------

    def append(self, step: Step) -> bool:
        """Say it, unless it stands in the log. Returns whether something was said."""
        if self.said(step):
            return False
        if "append" in self.stops and self.at == self.script.batch.start:
            self.append_batch()
        elif step.results == 1 and self.refused & set(step.answers):
            self.say_unknown(step)
        else:
            self.session.append(step.message, step.id, step.author)
        self.present.add(step.id)
        return True

    def said(self, step: Step) -> bool:
        return step.id in self.present or step.id + STAND_IN in self.present

    def append_batch(self) -> None:
        """Several turns in one commit, which is torn after some writes."""
        batch = [s for s in self.script.steps[self.at : self.script.batch.stop] if not self.said(s)]
        ids = [s.id for s in batch]
        self.torn.arm(self.random.randint(*TORN_AFTER), lambda written: stand("append", ids=ids, written=written))
        self.session.append([s.message for s in batch], id=ids)
        raise AssertionError("a commit reached the disk without a write to the -wal file")

    def say_unknown(self, step: Step) -> None:
        """The process that knew the result is dead. What the transcript says of it is not known here, and not said."""
        caller = next(s for s in self.script.steps if any(c.key in step.answers for c in s.calls))
        call = next(c for c in caller.calls if c.key in step.answers)
        message = messages.missing_result(Call(call.id, call.tool), step.dialect, caller.message)
        self.session.append(message, step.id + STAND_IN)

    # --- the world ---------------------------------------------------------------------------------------------------

    def effect(self, call: WorldCall) -> None:
        """Do it once: under its key, and only if the ledger says that it is to be done now."""
        if call.result is not None and self.said(self.script.steps[call.result]):
            return
        try:
            with self.session.effect(call.tool, call.arguments, key=call.key) as effect:
                if effect.pending:
                    self.do(call, effect)
                else:
                    tell("answered", key=call.key, tool=call.tool, state=effect.state)
        except KeyConflict:
            raise
        except UnsafeEffectError as refusal:
            self.refused.add(call.key)
            tell("refused", key=call.key, tool=call.tool, text=str(refusal))

    def do(self, call: WorldCall, effect: Effect) -> None:
        """As in the transcript: a tool that refused did nothing; of one that gave no answer nobody knows."""
        if call.outcome == "no_effect":
            effect.no_effect(call.answer)
            return
        self.world.touch(call.key, call.tool, call.arguments)
        if "effect" in self.stops and call.key == self.script.victim:
            stand("effect", key=call.key, tool=call.tool)
        if call.outcome == "done":
            effect.settle(call.answer)

    # --- summaries ---------------------------------------------------------------------------------------------------

    def summarize(self, request: SummaryRequest) -> str | Summary | Awaitable[str | Summary]:
        if "compaction" in self.stops and self.at >= self.script.third:
            stand("compaction", generation=request.generation, turns=len(request.turns))
        return self.session.summarizer(request)


def main(given: list[str] | None = None) -> None:
    """The process. Not for people: `lineal demo` starts it."""
    parser = argparse.ArgumentParser(prog="python -m lineal.demo", description="The agent process of `lineal demo`, which starts it.")
    parser.add_argument("transcript", type=Path)
    parser.add_argument("store", type=Path)
    parser.add_argument("--conversation", type=int, default=0)
    parser.add_argument("--limit", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--stop", action="append", choices=STOPS, default=[])
    asked = parser.parse_args(given)
    script = scripts.load(asked.transcript, asked.conversation, asked.limit)
    torn = TornFiles()
    with open_store(asked.store, create=True, vfs=TORN) as store:
        Agent(open_session(store, script), script, World(asked.store), asked.stop, torn, asked.seed).work()
