"""What was left after the same accident: in a framework's own memory, and in lineal under the same framework.

    python bench/compare.py [NAME ...]     # all of it, or these accidents
    python bench/compare.py --page         # the table of docs/comparison.md

Every accident is made with the real packages, on the real files they write; nothing is simulated but the model's words and
the moment of death. Each function does one accident to one memory and says in a sentence what was there afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import tempfile
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agents.memory import OpenAIResponsesCompactionSession, SessionSettings, SQLiteSession
from langchain.agents import create_agent
from langchain.agents.middleware.summarization import SummarizationMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

import lineal
from lineal.adapters.following import follow
from lineal.adapters.langchain import LinealMiddleware
from lineal.adapters.langgraph import LinealSaver
from lineal.adapters.openai_agents import LinealSession

POLICY = lineal.Policy(trigger=900, ceiling=1_600, target=300, floor_turns=4, summary_max_tokens=150)
THREAD: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


@dataclass(frozen=True)
class Accident:
    """`peer` names whose memory `theirs` is; both take an empty folder."""

    peer: str
    what: str
    theirs: Callable[[Path], str]
    ours: Callable[[Path], str]


# --- savers under both ---------------------------------------------------------------------------------------------------


def their_saver(folder: Path) -> SqliteSaver:
    return SqliteSaver(sqlite3.connect(folder / "their.db", check_same_thread=False))


def our_saver(folder: Path) -> LinealSaver:
    return LinealSaver(folder / "our.db")


def steps(saver: Any, count: int) -> list[Any]:
    """So many checkpoints, each of which knows its number; their configurations."""
    config, made = THREAD, []
    for n in range(count):
        checkpoint = {**empty_checkpoint(), "id": str(uuid6(clock_seq=n)), "channel_values": {"n": f"state number {n}"}}
        checkpoint["channel_versions"] = {"n": n + 1}
        config = saver.put(config, checkpoint, {"source": "loop", "step": n, "parents": {}}, {"n": n + 1})
        made.append(config)
    return made


def read(saver: Any) -> str:
    """What the newest state says, or how it was refused."""
    try:
        found = saver.get_tuple(THREAD)
    except lineal.LinealError as refused:
        return f"refused: {type(refused).__name__}, {getattr(refused, 'what', '')}".rstrip(", ")
    return f"reads {found.checkpoint['channel_values']['n']!r}, no error" if found else "reads nothing, no error"


def edited(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as db:
        for statement in statements:
            db.execute(statement)


def their_deleted_rows(folder: Path) -> str:
    saver = their_saver(folder)
    made = steps(saver, 5)
    saver.conn.close()
    edited(folder / "their.db", f"DELETE FROM checkpoints WHERE checkpoint_id = '{made[-1]['configurable']['checkpoint_id']}'")
    return read(their_saver(folder))


def our_deleted_rows(folder: Path) -> str:
    """The anchor stands for what was acknowledged; without one a cut end of the file cannot be told from a shorter life."""
    with lineal.connect(folder / "our.db", anchor=folder / "anchor") as store:
        steps(LinealSaver(store), 5)
    edited(folder / "our.db", "DELETE FROM entries WHERE id IN (SELECT id FROM entries ORDER BY id DESC LIMIT 2)")
    try:
        with lineal.connect(folder / "our.db", anchor=folder / "anchor") as store:
            return read(LinealSaver(store))
    except lineal.LinealError as refused:
        return f"refused: {type(refused).__name__}, {getattr(refused, 'what', '')}"


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    at = data.rindex(b"state number 4") if b"state number 4" in data else data.rindex(b"c3RhdGUgbnVtYmVyIDQ")
    data[at + 2] ^= 1
    path.write_bytes(data)


def their_flipped_bit(folder: Path) -> str:
    saver = their_saver(folder)
    steps(saver, 5)
    saver.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    saver.conn.close()
    flipped(folder / "their.db")
    return read(their_saver(folder))


def our_flipped_bit(folder: Path) -> str:
    with our_saver(folder) as saver:
        steps(saver, 5)
    data = (folder / "our.db").read_bytes()
    at = data.rindex(b'"places"')  # the newest checkpoint
    (folder / "our.db").write_bytes(data[: at + 2] + bytes([data[at + 2] ^ 1]) + data[at + 3 :])
    with our_saver(folder) as saver:
        return read(saver)


def clock_went_back(saver: Any, again: Any) -> str:
    """Five states; then a new process whose clock is an hour behind writes one more."""
    made = steps(saver, 5)
    hour = 3_600 * 10**7  # in units of 100 ns, as in the id of a checkpoint
    behind = uuid.UUID(int=uuid6().int - (hour >> 12 << 76))
    checkpoint = {**empty_checkpoint(), "id": str(behind), "channel_values": {"n": "said an hour before"}, "channel_versions": {"n": 9}}
    saver.put(made[-1], checkpoint, {"source": "loop", "step": 5, "parents": {}}, {"n": 9})
    return read(again)


def two_writers(savers: Sequence[Any]) -> str:
    """Two processes load the thread, and each says something ten times."""
    steps(savers[0], 1)
    told, refused = 0, 0
    for n in range(10):
        loaded = [saver.get_tuple(THREAD) for saver in savers]
        for saver, found in zip(savers, loaded, strict=True):
            said = [*found.checkpoint["channel_values"].get("said", []), n]
            values = {"n": "said", "said": said}
            checkpoint = {**empty_checkpoint(), "id": str(uuid6()), "channel_values": values, "channel_versions": {"n": 1, "said": n + 2}}
            try:
                saver.put(found.config, checkpoint, {"source": "loop", "step": n, "parents": {}}, {"n": 1, "said": n + 2})
                told += 1
            except lineal.Conflict:
                refused += 1
    left = len(savers[0].get_tuple(THREAD).checkpoint["channel_values"]["said"])
    return f"{told} acknowledged, {left} in the newest state, {refused} refused by name"


# --- agents under both -----------------------------------------------------------------------------------------------------


class Model(BaseChatModel):
    """Calls the tool `pay` when a person asks for it, and says what came of it."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Model:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        last = messages[-1]
        answer = AIMessage(f"heard: {last.text[:40]}")
        if isinstance(last, HumanMessage) and last.text.startswith("pay "):
            answer = AIMessage("", tool_calls=[{"name": "pay", "args": {"invoice": last.text[4:]}, "id": f"c{len(messages)}"}])
        return ChatResult(generations=[ChatGeneration(message=answer)])


class Killed(BaseException):
    """The process is gone."""


def paid(folder: Path, agent: Callable[[Any], Any]) -> str:
    """Killed in the tool, after the money went; then another process goes on with the thread."""
    payments: list[str] = []

    def pay(invoice: str) -> str:
        """Pay an invoice."""
        payments.append(invoice)
        if len(payments) == 1:
            raise Killed
        return "paid"

    with suppress(Killed):
        agent(pay).invoke({"messages": [HumanMessage("pay invoice 17", id="u1")]}, THREAD, durability="sync")
    found = agent(pay).invoke(None, THREAD)
    return f"paid {len(payments)} times; the model was told {found['messages'][-2].text[:24]!r}"


def our_agent(folder: Path, tools: Sequence[Any] = ()) -> Any:
    store = lineal.connect(folder / "our.db")
    return create_agent(Model(), [*tools], middleware=[LinealMiddleware(store, policy=POLICY)], checkpointer=LinealSaver(store))


def their_agent(folder: Path, tools: Sequence[Any] = ()) -> Any:
    summarizing = SummarizationMiddleware(Model(), trigger=("messages", 12), keep=("messages", 4))
    return create_agent(Model(), [*tools], middleware=[summarizing], checkpointer=their_saver(folder))


def gone_back(agent: Any) -> str:
    """After the history was compacted, an older checkpoint is asked for by its id."""
    for n in range(14):
        if n == 4:
            old = agent.get_state(THREAD).config
        agent.invoke({"messages": [HumanMessage(f"turn {n}: mind the step at the gate. " * 6, id=f"u{n}")]}, THREAD)
    before = len(agent.get_state(THREAD).values["messages"])
    try:
        found = agent.invoke({"messages": [HumanMessage("and now?", id="late")]}, old)
    except lineal.LinealError as refused:
        return f"refused: {type(refused).__name__}; the thread shows its {before} messages still"
    said = sum(m.text.startswith("turn ") for m in found["messages"])
    return f"restored without a word: {said} of the 14 turns are left in the thread"


def asked_to_pay(folder: Path, agent: Callable[..., Any]) -> str:
    return paid(folder, lambda pay: agent(folder, [pay]))


# --- summaries ---------------------------------------------------------------------------------------------------------------


def long_run() -> list[AnyMessage]:
    made: list[AnyMessage] = [HumanMessage("Goal: never touch the production database. " * 5, id="h0")]
    for n in range(100):
        made.append(AIMessage("", id=f"a{n}", tool_calls=[{"id": f"c{n}", "name": "look", "args": {"n": n}}]))
        made.append(ToolMessage("a line of the table; " * 80, tool_call_id=f"c{n}", id=f"t{n}"))
    return made


def their_summary(folder: Path) -> str:
    seen: list[AnyMessage] = []

    def summarize(messages: list[AnyMessage]) -> str:
        seen.extend(messages)
        return "A table was read."

    settings: dict[str, Any] = {"trigger": ("messages", 50), "keep": ("messages", 20), "summarizer": summarize}
    middleware = SummarizationMiddleware(GenericFakeChatModel(messages=iter([])), **settings)
    update = middleware.before_model({"messages": long_run()}, None)  # type: ignore[arg-type]
    assert update is not None
    kept = {m.id for m in update["messages"]}
    removed = {m.id for m in long_run()} - kept
    share = 100 * len(removed & {m.id for m in seen}) / len(removed)
    return f"removed {len(removed)} messages, its summarizer was shown {share:.0f} % of them"


def our_summary(folder: Path) -> str:
    shown: list[str] = []

    def summarize(request: Any) -> str:
        shown.append(request.text)
        return "A table was read, line by line. Goal: never touch the production database."

    policy = POLICY.with_(trigger=8_000, ceiling=9_000, target=3_000)
    session = lineal.connect(folder / "our.db").session("t", policy, summarize)
    for message in long_run():
        follow(session, [message])
        session.maybe_compact()
    covered = [turn for node in session.view().summaries for turn in session.expand(node.handle)]
    read = sum(f" covered {turn.id} by " in "".join(shown) for turn in covered)
    share = 100 * read / len(covered)
    return f"removed {len(covered)} messages, its summarizer was shown {share:.0f} % of them, and each can be read again"


# --- the session of the OpenAI Agents SDK ------------------------------------------------------------------------------------


class Compactor:
    """The service that compacts, as the SDK asks it. `answer`: what it gives back."""

    def __init__(self, answer: list[Any]):
        self.responses, self.answer, self.sent = self, answer, 0

    async def compact(self, **asked: Any) -> Any:
        self.sent = len(asked["input"])
        return SimpleNamespace(output=self.answer, usage=None)


def chat(count: int) -> list[Any]:
    return [{"role": "assistant" if n % 2 else "user", "content": f"item {n}"} for n in range(count)]


async def killed_in_the_exchange(session: Any) -> str:
    """The SDK's documented `run_compaction({"force": True})`; the process dies at the second write to the session."""
    await session.add_items(chat(20))
    writes = 0

    def mortal(write: Callable[..., Any]) -> Callable[..., Any]:
        async def act(*given: Any) -> Any:
            nonlocal writes
            writes += 1
            if writes == 2:
                raise Killed
            return await write(*given)

        return act

    real = session.clear_session, session.add_items
    session.clear_session, session.add_items = map(mortal, real)
    compactor: Any = Compactor([{"type": "compaction", "encrypted_content": "b3BhcXVl"}])
    around = OpenAIResponsesCompactionSession("s", session, client=compactor, compaction_mode="input")
    with suppress(Killed):
        await around.run_compaction({"force": True})
    session.clear_session, session.add_items = real
    shown = f"{len(await session.get_items())} items are shown to the next run"
    return f"{shown}, and {len(session.lineal.turns())} can be read" if isinstance(session, LinealSession) else shown


async def compacted_to_nothing(session: Any) -> str:
    await session.add_items(chat(20))
    compactor: Any = Compactor([])
    await OpenAIResponsesCompactionSession("s", session, client=compactor, compaction_mode="input").run_compaction({"force": True})
    return f"{len(await session.get_items())} of 20 items are shown, no error"


async def our_empty_summary(session: LinealSession) -> str:
    """lineal's own compaction, whose summarizer says nothing."""
    await session.add_items(chat(20))
    await session.run_compaction({"force": True})
    return f"{len(await session.get_items())} of 20 items are shown: the summary was refused"


async def compacted_with_a_limit(session: Any) -> str:
    await session.add_items(chat(20))
    compactor: Any = Compactor([{"type": "compaction", "encrypted_content": "b3BhcXVl"}])
    await OpenAIResponsesCompactionSession("s", session, client=compactor, compaction_mode="input").run_compaction({"force": True})
    left = len(session.lineal.turns()) - 1 if isinstance(session, LinealSession) else len(await session.get_items(10**6)) - 1
    return f"{compactor.sent} of 20 items were sent to be compacted; of the 20, {left} can still be read"


def our_session(folder: Path, **more: Any) -> LinealSession:
    return LinealSession("s", lineal.connect(folder / "our.db"), summarizer=lambda request: "", policy=POLICY, **more)


class Plain:
    """A session of one's own, by the public protocol alone."""

    session_id, session_settings = "s", None

    def __init__(self) -> None:
        self.items: list[Any] = []

    async def get_items(self, limit: int | None = None) -> list[Any]:
        return self.items[-limit:] if limit else [*self.items]

    async def add_items(self, items: list[Any]) -> None:
        self.items += items

    async def pop_item(self) -> Any:
        return self.items.pop() if self.items else None

    async def clear_session(self) -> None:
        self.items = []


ACCIDENTS = {
    "deleted rows": Accident("LangGraph SqliteSaver", "the newest rows are deleted from the file", their_deleted_rows, our_deleted_rows),
    "flipped bit": Accident("LangGraph SqliteSaver", "one bit of the newest row is flipped", their_flipped_bit, our_flipped_bit),
    "clock back": Accident(
        "LangGraph SqliteSaver",
        "a process whose clock is an hour behind writes the next state",
        lambda f: clock_went_back(their_saver(f), their_saver(f)),
        lambda f: clock_went_back(our_saver(f), our_saver(f)),
    ),
    "two writers": Accident(
        "LangGraph SqliteSaver",
        "two processes go on from the same checkpoint, ten times",
        lambda f: two_writers([their_saver(f), their_saver(f)]),
        lambda f: two_writers([our_saver(f), our_saver(f)]),
    ),
    "killed in the tool": Accident(
        "LangChain agent on SqliteSaver",
        "killed after the payment, before its checkpoint; the run is resumed",
        lambda f: asked_to_pay(f, their_agent),
        lambda f: asked_to_pay(f, our_agent),
    ),
    "stale checkpoint": Accident(
        "LangChain SummarizationMiddleware on SqliteSaver",
        "a checkpoint from before the compaction is asked for",
        lambda f: gone_back(their_agent(f)),
        lambda f: gone_back(our_agent(f)),
    ),
    "killed exchange": Accident(
        "OpenAI Agents SDK, a session of one's own",
        "killed at the second write of the SDK's compaction",
        lambda f: asyncio.run(killed_in_the_exchange(Plain())),
        lambda f: asyncio.run(killed_in_the_exchange(our_session(f))),
    ),
    "nothing for a summary": Accident(
        "OpenAI Agents SDK on SQLiteSession",
        "the compaction gives back nothing",
        lambda f: asyncio.run(compacted_to_nothing(SQLiteSession("s", f / "their.db"))),
        lambda f: asyncio.run(our_empty_summary(our_session(f))),
    ),
    "a limit": Accident(
        "OpenAI Agents SDK on SQLiteSession",
        "the session shows its latest 4 items by its settings, and is compacted",
        lambda f: asyncio.run(compacted_with_a_limit(SQLiteSession("s", f / "their.db", session_settings=SessionSettings(limit=4)))),
        lambda f: asyncio.run(compacted_with_a_limit(our_session(f, session_settings=SessionSettings(limit=4)))),
    ),
    "unread summary": Accident(
        "LangChain SummarizationMiddleware",
        "a long run with large tool results is compacted with the default settings",
        their_summary,
        our_summary,
    ),
}


def happened(act: Callable[[Path], str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return act(Path(folder))


def table() -> list[str]:
    """The rows of the page, as they come out now."""
    return [
        f"| `{name}` | {a.what} | {a.peer}: {happened(a.theirs)} | {happened(a.ours)} |".replace("\n", " ") for name, a in ACCIDENTS.items()
    ]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("name", nargs="*", help=f"of {', '.join(ACCIDENTS)}")
    asked.add_argument("--page", action="store_true", help="print the rows of the page instead")
    given = asked.parse_args()
    if unknown := set(given.name) - set(ACCIDENTS):
        asked.error(f"there is no accident {', '.join(sorted(unknown))}")
    if given.page:
        print("\n".join(table()))
        return
    for name, accident in {name: ACCIDENTS[name] for name in given.name or ACCIDENTS}.items():
        print(f"{name}: {accident.what}")
        for whose, act in ((accident.peer, accident.theirs), ("lineal", accident.ours)):
            print(f"  {whose}: {happened(act)}")


if __name__ == "__main__":
    main()
