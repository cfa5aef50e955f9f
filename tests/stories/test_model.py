"""A session lives any life, and after each step it is what the plain lists say it is (R8, R9, R11, R12, R25, R45).

Hypothesis chooses the verbs: two handles, as two processes would hold them, on a session and its forks. The lists are
`lineal.testing.model`. Set LINEAL_PROFILE=long for a long search.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lineal import codec
from lineal.engines import Engine, open_engine
from lineal.errors import Conflict, Refused, Unavailable
from lineal.policy import Policy
from lineal.session import Session
from lineal.session.outcomes import Compacted, Plan
from lineal.session.segments import all_standing, standing, unpack
from lineal.store import Store
from lineal.summarizers import Summary, SummaryRequest
from lineal.testing.faults import FaultyEngine
from lineal.testing.lasting import Lasting
from lineal.testing.model import Model
from lineal.testing.oracle import spillable
from lineal.testing.stories import summarize
from lineal.testing.summaries import BAD, GOOD, STUBS, Stub
from lineal.working_set import note_text

LONG = os.environ.get("LINEAL_PROFILE") == "long"
POLICY = Policy(trigger=300, ceiling=420, target=140, floor_turns=2, summary_max_tokens=90, summary_timeout=0.1, stub_bytes=600)
SESSIONS_MAX = 3
NODE_TOKENS = 60  # what the stub of a spill takes: putting less aside gains nothing


# --- what is said ----------------------------------------------------------------------------------------------------


def _user(n: int, words: int) -> dict[str, Any]:
    return {"role": "user", "content": f"request {n}: please look at port {7000 + n} " + "and the parts of it " * words}


def _answer(n: int, words: int) -> dict[str, Any]:
    return {"role": "assistant", "content": f"answer {n}: this is what was found " + "in one of the parts " * words}


def _calls(ids: list[str]) -> dict[str, Any]:
    made = [{"id": id, "type": "function", "function": {"name": "look", "arguments": json.dumps({"at": id})}} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def _result(id: str, n: int, words: int, pending: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "tool", "tool_call_id": id, "content": f"result {n}: " + "row of the table " * words}
    return {**message, "status": "pending"} if pending else message


def _settle(session: Session, n: int) -> None:
    with session.effect("deploy", {"n": n}, key=f"in trouble {n}") as effect:
        effect.settle("done")


def _oldest(session: Session) -> str:
    return (session.turns() or session.append([_answer(0, 0)]))[0].id


TROUBLED: dict[str, Callable[[Session, int], object]] = {
    "append": lambda s, n: s.append([_user(n, 9), _answer(n, 9)], id=[f"u{n}", f"a{n}"]),
    "effect": _settle,
    "compact": lambda s, n: s.compact(summarize),
    "maybe_compact": lambda s, n: s.maybe_compact(summarize),
    "spill": lambda s, n: s.spill([_oldest(s)]),
    "pin": lambda s, n: s.pin(f"in trouble {n}"),
    "checkpoint": lambda s, n: s.checkpoint(f"in trouble {n}"),
    "recover": lambda s, n: s.recover(),
    "rollback": lambda s, n: s.rollback(max(0, s.status().head - 4)),
    "prune": lambda s, n: s.prune(keep_checkpoints=0),
    "pack": lambda s, n: s.pack(),
    "purge": lambda s, n: s.purge([_oldest(s)]),
}


@dataclass
class One:
    """A session with its two handles, its lists, and what the machine holds for it."""

    name: str
    hands: list[Session]
    model: Model
    plans: dict[int, Plan] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    line: tuple[str, ...] = ()  # the sessions it was forked from


def _stored(session: Session) -> bytes:
    """Every byte that the engine keeps of the session's entries and states."""
    states = (session.engine.state(session.name, seq) for seq in session.engine.states(session.name))
    full = [place.seq for place in all_standing(session.engine, session.name)]
    packed = (unpack(p.segment, session.name, p.seq, 1 << 28) for p in standing(session.engine, session.name, full))
    bodies = [row.body for row in session.engine.scan(session.name)] + [body for content in packed for _, body in content.values()]
    return b"\n".join([*bodies, *(zlib.decompress(s[1][32:]) for s in states if s)])


class Life(RuleBasedStateMachine):
    """What may happen to a session. Each rule is one verb; `who` and `hand` choose the session and the handle."""

    who = st.integers(0, SESSIONS_MAX - 1)
    hand = st.integers(0, 1)
    pick = st.integers(0, 40)
    words = st.integers(0, 12)
    any_stub = st.one_of(st.just("honest"), st.sampled_from(sorted(GOOD)), st.sampled_from(sorted(STUBS)))

    def open_engine(self) -> Engine:
        return self.lasting

    def open_store(self) -> Store:
        return Store(FaultyEngine(self.open_engine()))

    def __init__(self) -> None:
        super().__init__()
        self.lasting: Engine = Lasting()
        self.n = 0

    @initialize()
    def begin(self) -> None:
        self.stores = [self.open_store() for _ in range(2)]
        self.all = [One("agent", [store.session("agent", POLICY, summarize) for store in self.stores], Model())]
        for words in (2, 6, 3):
            self.a_whole_exchange(0, 0, words)

    def one(self, who: int) -> One:
        return self.all[who % len(self.all)]

    def fresh(self) -> int:
        self.n += 1
        return self.n

    def do(self, one: One, verb: Callable[[], Any]) -> Any:
        """What the verb returns, or the `Refused` or `Conflict` that it raises: then generation and view stay."""
        before = one.model.now.generation
        try:
            return verb()
        except (Refused, Conflict) as refusal:
            one.hands[0].log.catch_up()
            assert one.hands[0].log.lineage.generation == before, f"{refusal} and yet there is a new generation"
            return refusal

    # --- saying ------------------------------------------------------------------------------------------------------

    def say(self, one: One, hand: int, messages: list[dict[str, Any]]) -> None:
        ids = [f"t{self.fresh()}" for _ in messages]
        session = one.hands[hand]
        turns = self.do(one, lambda: session.append(messages, id=ids))
        if isinstance(turns, Refused):
            assert turns.reason == "dangling_result", turns
            return
        assert [(t.id, t.message) for t in turns] == list(zip(ids, messages, strict=True))
        assert session.append(messages, id=ids) == turns, "an append is idempotent by id (R2)"
        one.model.read(session.log, POLICY.floor_turns)
        self.under_the_ceiling(one, session)

    def under_the_ceiling(self, one: One, session: Session) -> None:
        """R10, R29: above the ceiling nothing stays that could be put aside, unless a compaction is open."""
        lineage = session.log.lineage
        if lineage.view_tokens > POLICY.ceiling and lineage.in_flight is None:
            free = spillable(one.model, POLICY)
            stub = NODE_TOKENS + session.counter.count(note_text(lineage, POLICY.summary_max_tokens, session.counter.count))
            assert sum(t.tokens for t in lineage.turns if t.id in free) <= stub, f"{free} could be put aside"

    @rule(who=who, hand=hand, words=words)
    def user_says(self, who: int, hand: int, words: int) -> None:
        self.say(self.one(who), hand, [_user(self.fresh(), words)])

    @rule(who=who, hand=hand, words=words, times=st.integers(1, 3))
    def agent_says(self, who: int, hand: int, words: int, times: int) -> None:
        self.say(self.one(who), hand, [_answer(self.fresh(), words) for _ in range(times)])

    @rule(who=who, hand=hand, times=st.integers(1, 2), again=st.booleans())
    def agent_calls(self, who: int, hand: int, times: int, again: bool) -> None:
        """Models use call ids again once they are answered."""
        one = self.one(who)
        old = [id for id in dict.fromkeys(one.asked) if id not in one.hands[0].status().open_calls] if again else []
        ids = old[:times] or [f"call-{self.fresh()}" for _ in range(times)]
        one.asked += ids
        self.say(one, hand, [_calls(ids)])

    @rule(who=who, hand=hand, pick=pick, words=st.integers(0, 60), pending=st.booleans())
    def tool_answers(self, who: int, hand: int, pick: int, words: int, pending: bool) -> None:
        """A result of an open call, or of one that has left the view (late), or of none (refused)."""
        one = self.one(who)
        shown = {call for turn in one.model.turns() for call in turn.calls}
        left = [id for id in one.asked if id not in shown]
        waiting = [*one.hands[0].status().open_calls, *left[:1]] or ["call-never-made"] * (pick < 4)
        if waiting:
            self.say(one, hand, [_result(waiting[pick % len(waiting)], self.fresh(), words, pending)])

    @rule(who=who, hand=hand, words=words)
    def a_whole_exchange(self, who: int, hand: int, words: int) -> None:
        one, id = self.one(who), f"call-{self.fresh()}"
        one.asked.append(id)
        n = self.fresh()
        self.say(one, hand, [_user(n, words), _calls([id]), _result(id, n, words, False), _answer(n, words)])

    # --- compacting --------------------------------------------------------------------------------------------------

    def stub(self, one: One, name: str) -> Stub:
        """The stub, telling the lists what it received (R9)."""

        def ask(request: SummaryRequest) -> str | Summary:
            summary = STUBS[name](request)
            read = summary.received if isinstance(summary, Summary) and summary.received is not None else [t.id for t in request.turns]
            one.model.received[request.generation] = set(read)
            return summary

        return ask

    @rule(who=who, hand=hand, name=any_stub, maybe=st.booleans())
    def compact(self, who: int, hand: int, name: str, maybe: bool) -> None:
        one, session = self.one(who), self.one(who).hands[hand]
        before = len(session.engine.find(session.name, "compaction"))
        lossy_before = session.log.catch_up().committed_at
        stub = self.stub(one, name)
        outcome = session.maybe_compact(stub) if maybe else session.compact(stub)
        if name in BAD:
            assert session.log.lineage.committed_at == lossy_before, f"a summary that is {name} was committed (R15)"
        if isinstance(outcome, Compacted):
            parts = [outcome.covered, outcome.kept, outcome.spilled]
            assert len({id for part in parts for id in part}) == sum(map(len, parts)), "a turn is in two parts (R8)"
            assert outcome.tokens_after < outcome.tokens_before or not outcome.lossy
        else:
            assert len(session.engine.find(session.name, "compaction")) == before

    @rule(who=who, hand=hand)
    def plan(self, who: int, hand: int) -> None:
        one = self.one(who)
        plan = self.do(one, one.hands[hand].plan_compaction)
        if isinstance(plan, Plan):
            one.plans[hand] = plan
            ids = [t.id for t in one.model.turns()]
            assert set(plan.kept) | set(plan.spilled) <= set(ids)
            assert not set(plan.covered) & (set(plan.kept) | set(plan.spilled))

    @rule(who=who, hand=hand, pick=pick, name=any_stub, meanwhile=st.integers(0, 2), words=words)
    def plan_and_commit(self, who: int, hand: int, pick: int, name: str, meanwhile: int, words: int) -> None:
        """With appends by the other handle between, which come after the summary (R31)."""
        one = self.one(who)
        self.plan(who, hand)
        if hand not in one.plans:
            return
        said = [_user(self.fresh(), words) if pick % 2 else _answer(self.fresh(), words) for _ in range(meanwhile)]
        for message in said:
            self.say(one, 1 - hand, [message])
        self.commit_one(one, hand, name)
        seqs = [t.seq for t in one.model.said.values() if t.message in said]
        nodes = [node.place for node in one.model.now.view if node.what == "node" and node.lossy]
        assert all(place < seq for place in nodes for seq in seqs), "what was said meanwhile stands behind the summary"

    @rule(pick=pick, name=any_stub)
    def commit(self, pick: int, name: str) -> None:
        """Of a plan that is held somewhere, whatever came meanwhile."""
        held = [(one, hand) for one in self.all for hand in one.plans]
        if held:
            self.commit_one(*held[pick % len(held)], name)

    def commit_one(self, one: One, hand: int, name: str) -> None:
        if name in ("hangs", "raises"):
            return
        plan = one.plans[hand]
        outcome = self.do(one, lambda: one.hands[hand].commit_compaction(plan, self.stub(one, name)(plan.request)))
        assert name not in BAD or isinstance(outcome, Refused), f"a summary that is {name} was committed (R15)"
        if isinstance(outcome, Compacted):
            del one.plans[hand]

    @rule(pick=pick)
    def abort(self, pick: int) -> None:
        held = [(one, hand) for one in self.all for hand in one.plans]
        if held:
            one, hand = held[pick % len(held)]
            one.hands[hand].abort_compaction(one.plans.pop(hand))

    @rule(who=who, hand=hand, pick=pick, times=st.integers(1, 3))
    def spill(self, who: int, hand: int, pick: int, times: int) -> None:
        one = self.one(who)
        ids = [t.id for t in one.model.turns()]
        chosen = ids[pick % len(ids) :][:times] if ids else ["no-turn"]
        handle = self.do(one, lambda: one.hands[hand].spill(chosen))
        if isinstance(handle, str):
            exact = {t.id: t.message for t in one.hands[1 - hand].expand(handle)}
            said = {t.id: t.message for t in one.model.said.values() if t.id in chosen}
            assert said.items() <= exact.items(), "a spill comes back byte-exact (R53)"

    @rule(who=who, hand=hand, pick=pick)
    def host_evicts(self, who: int, hand: int, pick: int) -> None:
        one = self.one(who)
        ids = [t.id for t in one.model.turns()]
        if ids and pick > 35:
            self.do(one, lambda: one.hands[hand].note_eviction([ids[pick % len(ids)]], by="host"))

    # --- pins --------------------------------------------------------------------------------------------------------

    @rule(who=who, hand=hand, pick=pick, text=st.booleans())
    def pin(self, who: int, hand: int, pick: int, text: bool) -> None:
        one = self.one(who)
        ids = [t.id for t in one.model.turns()]
        what = f"never touch branch {pick}" if text or not ids else ids[pick % len(ids)]
        self.do(one, lambda: one.hands[hand].pin(what))

    @rule(who=who, hand=hand, pick=pick)
    def unpin(self, who: int, hand: int, pick: int) -> None:
        one = self.one(who)
        pins = [*one.model.now.pins] or ["nothing"] * (pick < 4)
        if not pins:
            return
        self.do(one, lambda: one.hands[hand].unpin(pins[pick % len(pins)]))

    # --- effects -----------------------------------------------------------------------------------------------------

    @rule(
        who=who,
        hand=hand,
        key=st.sampled_from([None, "k1", "k2", "k3"]),
        to=st.sampled_from(["staging", "production"]),
        idempotent=st.booleans(),
        how=st.sampled_from(["settle", "no effect", "raise", "leave", "die"]),
    )
    def effect(self, who: int, hand: int, key: str | None, to: str, idempotent: bool, how: str) -> None:
        one, session = self.one(who), self.one(who).hands[hand]
        effect = session.effect("deploy", {"to": to}, key=key, idempotent=idempotent)
        if isinstance(self.do(one, effect.__enter__), Refused | Conflict):
            return
        if not effect.pending:
            assert effect.verdict is not None
            assert one.model.ledger[effect.verdict.facts["key"]] in ("done", "compensated"), "what was not done is not answered (R47)"
            return
        assert one.model.ledger.get(effect.key, "") in ("", "no_effect", "unknown", "intended"), "what is done is not sent again (R47)"
        if how == "settle":
            effect.settle({"to": to})
        elif how == "no effect":
            effect.no_effect("locked")
        if how != "die":
            effect.__exit__(*((ValueError, ValueError("timeout"), None) if how == "raise" else (None, None, None)))

    @rule(who=who, hand=hand, pick=pick, finding=st.sampled_from(["happened", "not_happened", "compensated"]))
    def resolve(self, who: int, hand: int, pick: int, finding: str) -> None:
        one = self.one(who)
        keys = [k for k, state in one.model.ledger.items() if state in ("unknown", "intended")] or ["no-key"] * (pick < 4)
        if not keys:
            return
        self.do(one, lambda: one.hands[hand].resolve_effect(keys[pick % len(keys)], finding))

    # --- back and forth ----------------------------------------------------------------------------------------------

    @rule(who=who, hand=hand)
    def checkpoint(self, who: int, hand: int) -> None:
        one = self.one(who)
        self.do(one, lambda: one.hands[hand].checkpoint("here"))

    @rule(who=who, hand=hand)
    def recover(self, who: int, hand: int) -> None:
        one = self.one(who)
        before = one.hands[hand].messages()
        self.do(one, one.hands[hand].recover)
        assert one.hands[hand].messages() == before, "recovery changes nothing that is shown (000)"

    @rule(who=who, hand=hand, pick=pick, to_checkpoint=st.booleans())
    def roll_back(self, who: int, hand: int, pick: int, to_checkpoint: bool) -> None:
        one, session = self.one(who), self.one(who).hands[hand]
        if pick > 20:
            return
        known = session.checkpoints()
        target = known[pick % len(known)] if known and to_checkpoint else max(0, one.model.head - pick)
        dry = self.do(one, lambda: session.rollback(target, dry_run=True))
        real = self.do(one, lambda: session.rollback(target))
        if isinstance(real, Refused):
            assert isinstance(dry, Refused) or not dry.verdict.allowed, "a dry run and a real one give the same plan (R43)"
        else:
            assert (dry.target, dry.guarded, dry.left_behind) == (real.target, real.guarded, real.left_behind)

    @rule(who=who, hand=hand, pick=pick)
    def fork(self, who: int, hand: int, pick: int) -> None:
        one = self.one(who)
        if len(self.all) >= SESSIONS_MAX:
            return
        name = f"fork-{len(self.all)}"
        at = max(0, one.model.head - pick % 12)
        child = self.do(one, lambda: one.hands[hand].fork(name, at=at))
        if isinstance(child, Session):
            one.model.read(one.hands[hand].log, POLICY.floor_turns)
            hands = [store.session(name, POLICY, summarize) for store in self.stores]
            self.all.append(One(name, hands, one.model.forked(at), asked=list(one.asked), line=(*one.line, one.name)))

    @rule(hand=hand)
    def reopen(self, hand: int) -> None:
        """As if that process had ended: its claims end with it."""
        self.stores[hand].close()
        self.stores[hand] = self.open_store()
        for one in self.all:
            one.plans.pop(hand, None)
            one.hands[hand] = self.stores[hand].session(one.name, POLICY, summarize)

    # --- keeping house -----------------------------------------------------------------------------------------------

    @rule(who=who, hand=hand, keep=st.sampled_from([None, 0, 1]))
    def prune(self, who: int, hand: int, keep: int | None) -> None:
        one, session = self.one(who), self.one(who).hands[hand]
        shown = session.messages()
        planned = session.prune(keep_checkpoints=keep, dry_run=True)
        dropped = self.do(one, lambda: session.prune(keep_checkpoints=keep))
        assert planned.ranges == dropped.ranges or dropped.entries >= planned.entries
        assert session.messages() == shown, "pruning changes nothing that is shown"

    @rule(who=who, hand=hand, above=st.integers(0, 30), whole=st.booleans())
    def pack(self, who: int, hand: int, above: int, whole: bool) -> None:
        one, session = self.one(who), self.one(who).hands[hand]
        seen = session.messages(), session.turns(), session.ledger(), session.view().anchors
        before = max(1, session.status().head - above) if whole else None
        planned = session.pack(before, dry_run=True)
        packed = self.do(one, lambda: session.pack(before))
        assert (packed.runs, packed.entries, packed.segments, packed.damaged) == (planned.runs, planned.entries, planned.segments, ())
        assert (session.messages(), session.turns(), session.ledger(), session.view().anchors) == seen, "packing changes nothing"

    @rule(who=who, hand=hand, pick=pick)
    def purge(self, who: int, hand: int, pick: int) -> None:
        one, session = self.one(who), self.one(who).hands[hand]
        ids = [t.id for t in session.turns()]
        if ids and pick > 30:
            message = session.expand(ids[pick % len(ids)])[0].message
            content = codec.to_json(message)
            assert content in _stored(session)
            said_once = sum(t.message == message for t in one.model.said.values()) == 1
            receipt = session.purge([ids[pick % len(ids)]])
            one.model.read(session.log, POLICY.floor_turns)
            assert all(t.message is None for t in one.model.said.values() if t.id in receipt.turns)
            for name in (one.name, *(other.name for other in self.all if one.name in other.line)):
                assert content not in _stored(session.sibling(name)) or not said_once, (
                    f"a purged record never returns, also not in {name} (R54)"
                )

    @rule(who=who, hand=hand, extra=st.integers(0, 30))
    def usage(self, who: int, hand: int, extra: int) -> None:
        one = self.one(who)
        one.hands[hand].record_usage(one.hands[hand].status().tokens + extra)

    # --- trouble -----------------------------------------------------------------------------------------------------

    @rule(who=who, hand=hand, verb=st.sampled_from(sorted(TROUBLED)), k=st.integers(1, 14), when=st.sampled_from(["before", "after"]))
    def the_disk_fails_once(self, who: int, hand: int, verb: str, k: int, when: Literal["before", "after"]) -> None:
        """In the middle of a verb: it raises, the handle goes on, what was begun is finished, and the lists still agree (R30)."""
        one, engine = self.one(who), self.stores[hand].engine
        assert isinstance(engine, FaultyEngine)
        engine.fail_at(len(engine.calls) + k, when=when)
        with contextlib.suppress(Unavailable, Refused, Conflict):
            TROUBLED[verb](one.hands[hand], self.fresh())
        engine.heal()
        one.hands[hand].finish_removal()

    # --- and after each step -----------------------------------------------------------------------------------------

    @invariant()
    def the_lists_agree(self) -> None:
        for one in self.all:
            one.model.read(one.hands[0].log, POLICY.floor_turns)
            wrong = one.model.compare(one.hands[0])
            assert not wrong, "\n".join([one.name, *wrong])
            assert one.hands[1].messages() == one.hands[0].messages(), "two handles see one view"
            reopened = Store(one.hands[1].engine).session(one.name, POLICY, summarize)
            assert reopened.log.lineage == one.hands[0].log.lineage, "the reopened state is the live one (R45)"
            reports = one.hands[0].verify()
            assert not reports.damaged, f"{one.name}: {reports}"


class LifeOnDisk(Life):
    """The same on SQLite, each handle with an engine of its own."""

    def __init__(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        super().__init__()

    def open_engine(self) -> Engine:
        return open_engine(str(Path(self.directory.name) / "agent.db"))

    def teardown(self) -> None:
        for store in getattr(self, "stores", ()):
            store.close()
        self.directory.cleanup()


PHASES = [*Phase] if LONG else [Phase.explicit, Phase.generate]  # shrinking takes minutes: the long profile does it
_CALM: dict[str, Any] = {
    "phases": PHASES,
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "print_blob": True,
    "database": None,
}
TestLife: Any = Life.TestCase
TestLife.settings = settings(max_examples=2_000 if LONG else 100, stateful_step_count=60 if LONG else 35, derandomize=not LONG, **_CALM)
TestLifeOnDisk: Any = LifeOnDisk.TestCase
TestLifeOnDisk.settings = settings(max_examples=100 if LONG else 12, stateful_step_count=40 if LONG else 25, derandomize=not LONG, **_CALM)


def test_the_lists_find_a_broken_rule() -> None:
    """The comparison can fail: a model that missed one entry, and one that was told of another summary, complain."""
    session = Store(Lasting()).session("agent", POLICY, summarize)
    session.append([_user(1, 2), _answer(1, 2), _user(2, 2), _answer(2, 2), _user(3, 2)], id=[*"abcde"])
    model = Model()
    model.read(session.log)
    session.append(_answer(3, 1), id="f")
    assert any("the lists say" in sentence for sentence in model.compare(session))
    model.received[1] = {"a"}
    assert isinstance(session.compact(), Compacted)
    model.read(session.log, floor=5)
    found = " ".join(model.compare(session))
    assert "never received" in found and "floor turn" in found


@pytest.mark.parametrize("name", sorted(BAD))
def test_every_bad_summary_is_refused_in_plain_circumstances(name: str) -> None:
    """R15, R16: no log entry but the abort, the view as it was. (With nothing before it, a nested summary is an empty one.)"""
    session = Store(Lasting()).session("agent", POLICY, summarize)
    session.append([m for n in range(4) for m in (_user(n, 3), _answer(n, 3))])
    assert isinstance(session.compact(), Compacted)
    session.append([m for n in range(4, 8) for m in (_user(n, 3), _answer(n, 3))])
    shown, generation = session.messages(), session.status().generation
    outcome = session.compact(BAD[name])
    assert not isinstance(outcome, Compacted), name
    assert (session.messages(), session.status().generation) == (shown, generation)
