"""A short life of a store that uses every verb, and what must be found when it was cut off anywhere.

`STORY` is a list of steps. Played on the memory engine it gives a `Reference`: the portrait of the whole store before
each engine call, and where each step begins and ends. Played on another engine and cut off, the store that is found must
be one of those portraits, not older than the last step that was acknowledged (R1, R30). `crashes` does the cutting.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lineal import codec
from lineal.anchor import AnchorPlace
from lineal.engines import Engine
from lineal.errors import LinealError, Refused
from lineal.holder import Clock, release
from lineal.policy import Policy
from lineal.rules.rollback import Checkpoint
from lineal.session import Session
from lineal.session.outcomes import Compacted, Plan
from lineal.store import Store
from lineal.testing.faults import CHANGES, FaultyEngine
from lineal.testing.lasting import Lasting
from lineal.testing.summaries import honest

summarize = honest
POLICY = Policy(trigger=650, ceiling=900, target=300, floor_turns=2, summary_max_tokens=200)
Story = Literal["STORY", "SHORT"]  # a story by its name here, for another process
NAME, FORK, LATER = "agent", "what-if", "what-then"


# --- what is said ----------------------------------------------------------------------------------------------------


def user(n: int, text: str = "please look at the parts of it, ") -> dict[str, Any]:
    return {"role": "user", "content": f"request {n}: {text * 3}"}


def answer(n: int, text: str = "this is what was found in them, ") -> dict[str, Any]:
    return {"role": "assistant", "content": f"answer {n}: {text * 3}"}


def call(n: int, tool: str = "look") -> dict[str, Any]:
    made = {"id": f"call-{n}", "type": "function", "function": {"name": tool, "arguments": json.dumps({"n": n})}}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


def result(n: int, text: str = "row of the table; ", pending: bool = False) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "tool", "tool_call_id": f"call-{n}", "content": f"result {n}: {text * 3}"}
    return {**message, "status": "pending"} if pending else message


# --- the story -------------------------------------------------------------------------------------------------------


@dataclass
class Tale:
    """One playing of the story. `reopen` gives the engine once more, as a new process would get it.

    `tell` is called with each thing that was acknowledged: steps by their name, intents of effects as `intent:KEY`.
    """

    engine: FaultyEngine
    reopen: Callable[[], Engine]
    tell: Callable[[str], None]
    anchor: str | AnchorPlace | None = None
    clock: Clock | None = None
    held: dict[str, Any] = field(default_factory=dict)
    store: Store = field(init=False)
    session: Session = field(init=False)

    def begin(self) -> None:
        self.store = Store(self.engine, self.anchor, self.clock)
        self.session = self.store.session(NAME, POLICY, summarize)

    def play(self, steps: Sequence[Step]) -> None:
        for step in steps:
            step.act(self)
            self.tell(step.name)


@dataclass(frozen=True)
class Step:
    name: str
    act: Callable[[Tale], object]


def _begin_again(tale: Tale) -> None:
    tale.store.close()
    tale.engine.engine = tale.reopen()
    tale.begin()


def _settled(tale: Tale) -> None:
    with tale.session.effect("deploy", {"to": "staging"}, key="deploy:1") as effect:
        tale.tell("intent:deploy:1")
        effect.settle({"url": "https://staging.example"})


def _left(tale: Tale) -> None:
    with tale.session.effect("mail", {"to": "ann"}, key="mail:1"):
        tale.tell("intent:mail:1")


def _plan(tale: Tale) -> None:
    tale.held["plan"] = tale.session.plan_compaction()


def _commit(tale: Tale) -> None:
    plan: Plan = tale.held["plan"]
    tale.session.commit_compaction(plan, summarize(plan.request))


def _plan_and_abort(tale: Tale) -> None:
    tale.session.abort_compaction(tale.session.plan_compaction(), "the story wants it")


def _compact(tale: Tale) -> None:
    outcome = tale.session.compact()
    if isinstance(outcome, Refused):
        raise outcome
    if not isinstance(outcome, Compacted):
        raise getattr(outcome, "error", None) or AssertionError(f"the story's compaction did {outcome}")


def _checkpoint(tale: Tale) -> None:
    tale.held["checkpoint"] = tale.session.checkpoint("before")


def _roll_back(tale: Tale) -> None:
    target: Checkpoint = tale.held["checkpoint"]
    tale.session.rollback(target)


def _fork(tale: Tale) -> None:
    tale.held["fork"] = tale.session.fork(FORK, at=tale.held["checkpoint"])


SHORT: tuple[Step, ...] = (
    Step("open", Tale.begin),
    Step("say one", lambda t: t.session.append(user(1), id="u1")),
    Step("say a batch", lambda t: t.session.append([call(1), result(1), answer(1), user(2)], id=["k1", "r1", "a1", "u2"])),
    Step("effect settled", _settled),
    Step("effect left", _left),
    Step("pin a text", lambda t: t.session.pin("never touch the main branch")),
    Step("checkpoint", _checkpoint),
    Step("say more", lambda t: t.session.append([answer(2), user(3), answer(3)], id=["a2", "u3", "a3"])),
    Step("plan", _plan),
    Step("say meanwhile", lambda t: t.session.append(user(4), id="u4")),
    Step("commit", _commit),
)
STORY: tuple[Step, ...] = (
    *SHORT,
    Step("pin a turn", lambda t: t.session.pin("u3")),
    Step("open again", _begin_again),
    Step("interim result", lambda t: t.session.append([call(2), result(2, pending=True)], id=["k2", "r2"])),
    Step("final result", lambda t: t.session.append([result(2), answer(4), user(5)], id=["f2", "a4", "u5"])),
    Step("spill", lambda t: t.session.spill(["a3"])),
    Step("plan and abort", _plan_and_abort),
    Step("say too much", lambda t: t.session.append([m for n in range(6, 13) for m in (answer(n), user(n))], id=_ids(6, 13))),
    Step("compact", _compact),
    Step("expand", lambda t: t.session.expand("g1")),
    Step("usage", lambda t: t.session.record_usage(500, 20)),
    Step("second checkpoint", lambda t: t.session.checkpoint("after")),
    Step("resolve", lambda t: t.session.resolve_effect("mail:1", "not_happened", "asked ann")),
    Step("unpin", lambda t: t.session.unpin("u3")),
    Step("say behind", lambda t: t.session.append([answer(13), user(13)], id=["a13", "u13"])),
    Step("pack", lambda t: t.session.pack()),
    Step("roll back", _roll_back),
    Step("say again", lambda t: t.session.append([answer(2), user(14)], id=["a2", "u14"])),
    Step("fork", _fork),
    Step("say in the fork", lambda t: t.held["fork"].append(answer(15), id="a15")),
    Step("prune", lambda t: t.session.prune(keep_checkpoints=0)),
    Step("fork what was pruned", lambda t: t.session.fork(LATER)),
    Step("purge", lambda t: t.session.purge(["u2"])),
    Step("close", lambda t: t.store.close()),
)


def _ids(first: int, end: int) -> list[str]:
    return [id for n in range(first, end) for id in (f"a{n}", f"u{n}")]


# --- what is found ---------------------------------------------------------------------------------------------------


def portrait(engine: Engine, anchor: str | None = None) -> dict[str, Any]:
    """Everything that callers can see in the store, without what differs from run to run (salts, digests, times, request ids).

    `seen` is what an agent is shown and may rely on; `log` also tells which entries stand. Reads only.
    """
    store = Store(engine, anchor)
    try:
        seen = {name: _seen(store.session(name, POLICY, summarize)) for name in store.sessions()}
        return {"seen": seen, "log": {n: [[r.seq, r.kind, r.erased, r.generation] for r in engine.scan(n)] for n in seen}}
    finally:
        release(store.holder)


def _seen(session: Session) -> Any:
    view, lineage = session.view(), session.log.lineage
    told = {
        "messages": session.messages(),
        "turns": [(t.seq, t.id, t.author, t.message) for t in session.turns()],
        "sizes": (view.tokens, view.bytes, view.items),
        "generation": view.generation,
        "nodes": [(n.handle, n.kind, n.ranges, n.count, n.text) for n in view.summaries],
        "pins": [(p.id, p.text, p.turn) for p in view.pins],
        "anchors": [(a.kind, a.value, a.seq) for a in view.anchors],
        "ledger": [(r.key, r.tool, "open" if r.state in ("intended", "unknown") else r.state, r.outcome) for r in session.ledger()],
        "watermark": lineage.watermark,
        "epoch": lineage.epoch,
        "open calls": view.open_calls,
        "checkpoints": [(c.checkpoint_id, c.seq, c.generation, c.label) for c in session.checkpoints()],
    }
    return codec.from_json(codec.to_json(told))


def same(one: dict[str, Any], other: dict[str, Any], exact: bool) -> bool:
    return one["seen"] == other["seen"] and (not exact or one["log"] == other["log"])


@dataclass(frozen=True)
class Reference:
    """`portraits[k]` is the store after `k` engine calls; `ends[name]` says after how many calls a step was acknowledged."""

    portraits: tuple[dict[str, Any], ...]
    methods: tuple[str, ...]
    ends: dict[str, int]

    def step_of(self, k: int) -> str:
        """The step that makes the k-th call."""
        return next(name for name, end in self.ends.items() if k <= end)

    def begin_of(self, step: str) -> int:
        names = [*self.ends]
        at = names.index(step)
        return self.ends[names[at - 1]] if at else 0

    def span(self, told: Sequence[str]) -> range:
        """The numbers of calls that a store may show once these steps were acknowledged: from the last of them to the end of the next."""
        steps = [name for name in told if name in self.ends]
        following = [*self.ends][len(steps) :]
        first = self.ends[steps[-1]] if steps else 0
        return range(first, (self.ends[following[0]] if following else first) + 1)

    def outcome(self, step: str, found: Found, exact: bool) -> str:
        """What `found` is for the step that was in flight: `old`, `new`, `between`, or `bad`."""
        if found.at < 0 or found.lost or found.torn:
            return "bad"
        seen = self.portraits[found.at]
        if same(seen, self.portraits[self.begin_of(step)], exact):
            return "old"
        return "new" if same(seen, self.portraits[self.ends[step]], exact) else "between"


class _Watched(FaultyEngine):
    """Takes a portrait before each call that follows a change."""

    def __init__(self, engine: Engine):
        super().__init__(engine)
        self.portraits: list[dict[str, Any]] = []

    def _enter(self, method: str) -> int:
        self.look()
        return super()._enter(method)

    def look(self) -> None:
        same = self.portraits and self.calls[-1][1] not in CHANGES
        self.portraits.append(self.portraits[-1] if same else portrait(self.engine))


def reference(steps: Sequence[Step] = STORY) -> Reference:
    """Play the story on the memory engine and keep what it looks like after every call."""
    lasting = Lasting()
    watched, ends = _Watched(lasting), dict[str, int]()

    def tell(name: str) -> None:
        if not name.startswith("intent:"):
            ends[name] = len(watched.calls)

    Tale(watched, lambda: lasting, tell).play(steps)
    watched.look()
    return Reference(tuple(watched.portraits), tuple(method for _, method in watched.calls), ends)


# --- is it sound? ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What a store that was cut off is worth. `at`: the number of calls after which the reference looks like this (-1: never).

    `lost`: acknowledged things that are not there. `torn`: whatever is not as it must be, in words; empty when sound.
    """

    at: int
    lost: tuple[str, ...] = ()
    torn: tuple[str, ...] = ()
    opened: bool = True  # whether every session could be read


def examine(engine: Engine, whole: Reference, told: Sequence[str], allowed: Sequence[int], exact: bool, anchor: str | None = None) -> Found:
    """`look`, then recover the store and go on with it. Never raises a `LinealError`: that is a finding too."""
    found = look(engine, whole, told, allowed, exact, anchor)
    return replace(found, torn=(*found.torn, *goes_on(engine, anchor))) if found.opened else found


def look(engine: Engine, whole: Reference, told: Sequence[str], allowed: Sequence[int], exact: bool, anchor: str | None = None) -> Found:
    """Read a store that was cut off. Changes nothing, and raises no `LinealError`.

    With `exact` the log must be that of the reference too; without, only what is seen (after an error the session may have
    written that it failed). An `anchor` beside the store must agree with it: it may lag, and never leads (R60).
    """
    try:
        first = portrait(engine, anchor)
    except LinealError as error:
        return Found(-1, torn=(f"{type(error).__name__}: {error}",), opened=False)
    at = _match(first, whole, allowed, exact)
    lost = () if at >= 0 else tuple(_lost(first, whole, told, exact))
    torn = [] if at >= 0 else [] if lost else ["the store looks as it never did in the story"]
    torn += [f"{id} was acknowledged and is not in the ledger" for id in _without_intent(first, told)]
    return Found(at, lost, tuple(torn))


def goes_on(engine: Engine, anchor: str | None = None) -> Iterator[str]:
    """Recover every session, append to it, and verify all along: one sentence for each thing that is not right."""
    try:
        yield from _goes_on(engine, anchor)
    except LinealError as error:
        yield f"{type(error).__name__}: {error}"


def _match(found: dict[str, Any], whole: Reference, allowed: Sequence[int], exact: bool) -> int:
    return next((k for k in allowed if same(found, whole.portraits[k], exact)), -1)


def _lost(found: dict[str, Any], whole: Reference, told: Sequence[str], exact: bool) -> Iterator[str]:
    """Acknowledged steps whose work is not there: the store looks as it did before them."""
    older = _match(found, whole, range(whole.span(told)[0] - 1, -1, -1), exact)
    if older >= 0:
        yield from (name for name in told if whole.ends.get(name, 0) > older)


def _without_intent(found: dict[str, Any], told: Sequence[str]) -> list[str]:
    keys = {key for seen in found["seen"].values() for key, *_ in seen["ledger"]}
    return [name for name in told if name.startswith("intent:") and name.removeprefix("intent:") not in keys]


def _goes_on(engine: Engine, anchor: str | None) -> Iterator[str]:
    store = Store(engine, anchor)
    for name in store.sessions():
        session = store.session(name, POLICY, summarize)
        yield from _unsound(session, "after the fault", in_progress_is_sound=True)
        before = session.messages()
        session.recover()
        yield from _unsound(session, "after recover()", in_progress_is_sound=False)
        if _said(before) != _said(session.messages()):
            yield f"{name}: recover() changed what is shown"
        again = session.append(user(99), id="after the fault")
        if session.append(user(99), id="after the fault") != again or session.turns()[-1] != again:
            yield f"{name}: an append after recover() is not idempotent"
        if store.session(name, POLICY, summarize).messages() != session.messages():
            yield f"{name}: the reopened view is not the live one"
        yield from _unsound(session, "after the next append", in_progress_is_sound=False)
    yield from _forks_again(store)
    yield from (f"engine: {what}" for what in engine.check())
    release(store.holder)


def _forks_again(store: Store) -> Iterator[str]:
    """Nothing that a fork left behind when it was cut off stands in the way of the next one (R36)."""
    for name in {FORK, LATER} - {*store.sessions()}:
        if NAME in store.sessions():
            child = store.session(NAME, POLICY, summarize).fork(name)
            yield from _unsound(child, "forked again", in_progress_is_sound=False)


def _said(shown: list[Any]) -> list[Any]:
    """What is shown beside notes: a purge that is finished late brings one."""
    return [m for m in shown if not str(m.get("content")).startswith("[lineal notes")]


def _unsound(session: Session, when: str, in_progress_is_sound: bool) -> Iterator[str]:
    for report in session.verify():
        if not report.clean and not (in_progress_is_sound and report.verdict.name == "COMPACTION_IN_PROGRESS"):
            yield f"{session.name} {when}: {report.verdict.name} {report.detail}"
