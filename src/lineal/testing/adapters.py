"""The conformance suite of adapters: what every framework's agent owes its user once lineal is its memory, as tests.

Subclass `AdapterTests` in a pytest module and give `agent`: an agent of the framework whose model is `courier` and whose
one tool is `deliver`, with its memory in the store that it is handed. The suite talks to it, lets it die wherever it
changes the store and wherever it changes the world, starts another one on what is left, and looks at the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from lineal.codec import to_json
from lineal.engines import Engine, Row, open_engine
from lineal.errors import UnsafeRollbackError
from lineal.holder import release
from lineal.messages import parse, text_of
from lineal.policy import Policy
from lineal.session import Session
from lineal.store import Store
from lineal.testing.faults import CHANGES, FaultyEngine, When

SMALL = Policy(trigger=900, ceiling=1_600, target=300, floor_turns=4, summary_max_tokens=150)
PARCELS = ("books", "tea", "a lamp")
STRIDE = 3  # every so many changes of the store is one at which the agent dies


class Died(BaseException):
    """The agent's process is gone, as far as the agent can tell."""


class Agent(Protocol):
    """An agent of the framework, as the suite talks to it."""

    session: Session

    def say(self, text: str, id: str) -> str:
        """Say this, under this id, and let the agent run to its answer. Said again after a crash it means the same message."""

    def resume(self) -> None:
        """Go on with what was cut off, if the framework knows of any; else nothing."""


@dataclass
class Courier:
    """The model: asked to deliver a parcel it calls the tool, told of the result it answers. `asked` holds what it was shown."""

    asked: list[list[dict[str, Any]]] = field(default_factory=list)

    def __call__(self, messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """One answer, in the chat dialect, to messages in the chat dialect."""
        self.asked.append(list(messages))
        last = messages[-1]
        wanted = re.search(r"deliver (.+?)\.", text_of(last)) if last["role"] == "user" else None
        if wanted is None:
            return {"role": "assistant", "content": f"Done: {text_of(last)}"}
        arguments = to_json({"parcel": wanted[1]}).decode()
        made = {"id": f"call-{len(messages)}-{wanted[1]}", "type": "function", "function": {"name": "deliver", "arguments": arguments}}
        return {"role": "assistant", "content": "", "tool_calls": [made]}


@dataclass
class World:
    """Where parcels arrive. `dies`: the agent dies in the tool, before or after the parcel was handed over, this once."""

    arrived: list[str] = field(default_factory=list)
    dies: When | None = None

    def deliver(self, parcel: str) -> str:
        """Deliver a parcel to its owner."""
        self._dies("before")
        self.arrived.append(parcel)
        self._dies("after")
        return f"{parcel} was handed over"

    def _dies(self, when: When) -> None:
        if self.dies == when:
            self.dies = None
            raise Died


class _Mortal(FaultyEngine):
    """An engine whose process dies at the n-th change (0: never): nothing that is asked of it after that is carried out."""

    def __init__(self, engine: Engine, dies_at: int, when: When):
        super().__init__(engine)
        self.dies_at, self.when, self.changes, self.dead = dies_at, when, 0, False

    def _enter(self, method: str) -> int:
        if self.dead:
            raise Died
        self.changes += method in CHANGES
        if method in CHANGES and self.changes == self.dies_at:
            self.dead = True
            if self.when == "before":
                raise Died
        return super()._enter(method)

    def append(self, session: str, expected_seq: int, rows: Sequence[Row]) -> None:
        super().append(session, expected_seq, rows)
        if self.dead:
            raise Died


class AdapterTests:
    """What an adapter owes. Give `agent`; everything else is the suite's."""

    policy = SMALL

    def agent(self, store: Store, courier: Courier, deliver: Callable[[str], str]) -> Agent:
        """A new agent on this store. The memory is the session "post", its policy `self.policy`, with a summarizer that is offline."""
        raise AssertionError("give `agent`")

    # --- what is said --------------------------------------------------------------------------------------------------

    def test_what_is_said_stands_in_the_log_in_order_and_exactly(self) -> None:
        """R1, R3, R7: odd texts too; each once, and each answered."""
        store, world = Store(open_engine("memory:")), World()
        agent = self.agent(store, Courier(), world.deliver)
        texts = ["plain", "é and e\u0301", "nul\0in", "quote'\"--;", 'a literal \\u0000 and {"role": "user"}']
        for n, text in enumerate(texts):
            agent.say(text, f"u{n}")
        said = [text_of(t.message) for t in agent.session.turns() if t.author == "user"]
        assert said == texts
        assert [t.author for t in agent.session.turns()] == ["user", "assistant"] * len(texts)

    def test_a_message_that_is_said_again_under_its_id_stands_once(self) -> None:
        """R2."""
        store, world = Store(open_engine("memory:")), World()
        agent = self.agent(store, Courier(), world.deliver)
        agent.say("deliver books.", "u0")
        agent.say("deliver books.", "u0")
        assert [t.id for t in agent.session.turns()].count("u0") == 1
        assert world.arrived == ["books"]

    def test_pairs_stay_whole_through_compactions(self) -> None:
        """R11, R25: whatever the model is shown, each call in it has its result behind it, and it stays within the ceiling."""
        store, courier, world = Store(open_engine("memory:")), Courier(), World()
        agent = self.agent(store, courier, world.deliver)
        for n in range(12):
            agent.say(f"Please deliver parcel {n}. It is not heavy, and there is no hurry; ring twice. " + "Mind the step. " * 9, f"u{n}")
        assert agent.session.status().generation > 0, "the story is long enough for a compaction"
        for shown in courier.asked:
            _refuse_broken_pairs(shown)
        assert max(map(len, courier.asked)) < 30
        assert sorted(world.arrived) == sorted(f"parcel {n}" for n in range(12))
        _whole(agent.session, world, [f"u{n}" for n in range(12)])

    def test_another_process_remembers(self, tmp_path: Path) -> None:
        """R45: an agent that opens the same store is shown what the first one was told."""
        world, place = World(), str(tmp_path / "post.db")
        with Store(open_engine(place)) as store:
            self.agent(store, Courier(), world.deliver).say("The key lies under the blue pot.", "u0")
        with Store(open_engine(place)) as store:
            courier = Courier()
            agent = self.agent(store, courier, world.deliver)
            agent.say("Where is it?", "u1")
            assert any("blue pot" in text_of(m) for m in courier.asked[0])
            _whole(agent.session, world, ["u0", "u1"])

    # --- what is done --------------------------------------------------------------------------------------------------

    def test_an_effect_whose_outcome_is_unknown_is_not_sent_again(self) -> None:
        """R47: the agent died in the tool. The next one says that the outcome is not known; the parcel is not sent twice."""
        for dies in ("before", "after"):
            engine, world = open_engine("memory:"), World(dies=dies)
            store = Store(engine)
            died = _until_death(lambda: self.agent(store, Courier(), world.deliver).say("deliver books.", "u0"))  # noqa: B023
            assert died
            release(store.holder)
            again = self.agent(Store(engine), Courier(), world.deliver)
            again.resume()
            again.say("Was it delivered?", "u1")
            assert world.arrived == (["books"] if dies == "after" else [])
            assert [row.state for row in again.session.ledger()] == ["unknown"]
            row = again.session.ledger()[0]
            assert again.session.resolve_effect(row.key, "happened").state == "done"

    def test_killed_at_any_change_of_the_store_it_goes_on(self) -> None:
        """R30, R33, R47: nothing that was acknowledged is lost, no effect is sent twice, and the log is sound."""
        total = self._dies_at(0, "before")
        assert total > 10
        for k in range(1, total + 1, STRIDE):
            for when in ("before", "after"):
                self._dies_at(k, when)

    def _dies_at(self, k: int, when: When) -> int:
        """The story, cut off at the k-th change and taken up again by another agent; returns how many changes there were."""
        inner, world = open_engine("memory:"), World()
        engine = _Mortal(inner, k, when)
        store, acknowledged = Store(engine), list[str]()

        def first() -> None:
            agent = self.agent(store, Courier(), world.deliver)
            for n, parcel in enumerate(PARCELS):
                agent.say(f"deliver {parcel}.", f"u{n}")
                acknowledged.append(f"u{n}")

        _until_death(first)
        release(store.holder)
        fresh = Store(inner)
        agent = self.agent(fresh, Courier(), world.deliver)
        agent.resume()
        said = {t.id for t in agent.session.turns()}
        assert said.issuperset(acknowledged), f"lost at change {k}, {when}: {set(acknowledged) - said}"
        for n, parcel in enumerate(PARCELS):
            if f"u{n}" not in acknowledged:
                agent.say(f"deliver {parcel}.", f"u{n}")
        _whole(agent.session, world, [f"u{n}" for n in range(len(PARCELS))])
        unknown = [row for row in agent.session.ledger() if row.state == "unknown"]
        assert len(world.arrived) + len(unknown) >= len(PARCELS), f"change {k}, {when}: {world.arrived}"
        return engine.changes

    def test_going_back_over_an_effect_is_refused(self) -> None:
        """Record 003: what nothing guards stands in the way of the session's own rollback, however the agent came by it."""
        store, world = Store(open_engine("memory:")), World()
        agent = self.agent(store, Courier(), world.deliver)
        agent.say("Good morning.", "u0")
        target = agent.session.status().head
        agent.say("deliver books.", "u1")
        try:
            agent.session.rollback(target)
        except UnsafeRollbackError as refused:
            assert refused.facts["refused"]
            return
        raise AssertionError("the rollback went over an effect without a key")


def _until_death(act: Callable[[], Any]) -> bool:
    """Whether the agent died on the way. A framework may wrap what is raised inside it."""
    try:
        act()
    except BaseException as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, Died):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        return True
    return False


def _refuse_broken_pairs(shown: Sequence[dict[str, Any]]) -> None:
    waiting: list[str] = []
    for message in shown:
        parsed = parse(message)
        answered = [r.call for r in parsed.results]
        assert all(call in waiting for call in answered), f"a result without its call: {message}"
        waiting = [call for call in waiting if call not in answered]
        assert answered or not waiting, f"no result for {waiting} before {message}"
        waiting += [c.id for c in parsed.calls]
    assert not waiting, f"no result for {waiting}"


def _whole(session: Session, world: World, users: Sequence[str]) -> None:
    """The log is sound, every user's message stands once and in order, every call has a result, and no parcel came twice."""
    reports = session.verify()
    assert reports.clean, reports
    turns = session.turns()
    assert [t.id for t in turns if t.author == "user"] == list(users)
    assert turns[-1].author == "assistant" and not session.status().open_calls
    calls = [c.id for t in turns for c in parse(t.message).calls]
    results = [r.call for t in turns for r in parse(t.message).results]
    assert sorted(calls) == sorted(results), (calls, results)
    assert len(set(world.arrived)) == len(world.arrived), f"delivered twice: {world.arrived}"
