"""What an audit says of the stores that the OpenAI Agents SDK and Google ADK write; ADK's own functions say what its view is."""

from __future__ import annotations

import asyncio
import json
import pickle
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from agents import SQLiteSession
from agents.extensions.memory import AdvancedSQLiteSession
from google.adk.events import Event, EventActions
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.events.event_actions import EventCompaction
from google.adk.flows.llm_flows.contents import _process_compaction_events
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from lineal.audit import Audit, Finding, audit
from lineal.transcripts import Boundary, Damage, Record, conversations, detect, read, read_all


def of_kind(done: Audit, kind: str) -> list[Finding]:
    return [f for f in done.findings if f.kind == kind]


# --- OpenAI Agents SDK -----------------------------------------------------------------------------------------------


def said(role: str, text: str) -> Any:
    return {"role": role, "content": text}


def called(id: str, to: str = "anna") -> Any:
    return {"type": "function_call", "call_id": id, "name": "send_mail", "arguments": json.dumps({"to": to}), "id": f"fc_{id}"}


def answered(id: str) -> Any:
    return {"type": "function_call_output", "call_id": id, "output": "sent"}


COMPACTED: Any = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Sessions on `agents.db`, by their ids."""
    made: list[Any] = []

    def opened(id: str) -> Any:
        made.append(SQLiteSession(id, tmp_path / "agents.db"))
        return made[-1]

    yield opened
    for one in made:
        one.close()


def run(*steps: Awaitable[Any]) -> None:
    async def all_of_them() -> None:
        for step in steps:
            await step

    asyncio.run(all_of_them())


def test_a_session_is_read_item_by_item_and_a_repeated_mail_is_named_by_its_rows(session: Any, tmp_path: Path) -> None:
    items = [
        said("user", "Send it."),
        called("c1"),
        answered("c1"),
        said("user", "Now."),
        called("c2"),
        answered("c2"),
        called("c3", "bob"),
    ]
    run(session("s1").add_items(items))
    path = tmp_path / "agents.db"
    assert detect(path) == "openai_agents" and conversations(path) == ["s1"]
    records = [i for i in read(path) if isinstance(i, Record)]
    assert [r.message for r in records] == items and [r.line for r in records] == [1, 2, 3, 4, 5, 6, 7]
    assert [r.author for r in records] == ["user", "assistant", "tool", "user", "assistant", "tool", "assistant"]
    done = audit(path)
    assert {f.kind for f in done.findings} == {"effect_doubled", "effect_in_flight"}
    assert "row 2 done" in of_kind(done, "effect_doubled")[0].text and done.place == "row"


def test_a_compaction_that_replaced_the_rows_says_how_many_are_gone(session: Any, tmp_path: Path) -> None:
    """What the SDK's own compaction leaves: the user's messages, and one item that only the provider can read."""
    s = session("s1")
    run(s.add_items([said("user", "Go."), *(said("assistant", f"Step {n}.") for n in range(9))]), s.clear_session())
    run(s.add_items([said("user", "Go."), COMPACTED, said("user", "On.")]))
    done = audit(tmp_path / "agents.db")
    (account,) = [a for a in done.compactions if not a.trigger] or [None]
    cleared = [a for a in done.compactions if a.trigger]
    assert [a.rows_deleted for a in cleared] == [10] and account is not None and account.kept == 1
    (finding,) = of_kind(done, "rows_deleted")
    assert finding.line == 11 and "10 rows, 1 to 10, were deleted" in finding.text


def test_rows_between_two_sessions_may_be_of_either(session: Any, tmp_path: Path) -> None:
    a, b = session("a"), session("b")
    run(a.add_items([said("user", "one"), said("assistant", "two")]), b.add_items([said("user", "three")]), a.clear_session())
    run(b.add_items([said("assistant", "four")]), a.add_items([said("user", "five")]))
    done = audit(tmp_path / "agents.db")
    (finding,) = of_kind(done, "rows_deleted")
    assert finding.text.startswith("b: Row 3: ") and "of this session or of another one" in finding.text
    assert [name for name, _ in read_all(tmp_path / "agents.db")] == ["b", "a"]


def test_a_popped_item_leaves_a_gap(session: Any, tmp_path: Path) -> None:
    s = session("s1")
    run(s.add_items([said("user", "one"), said("assistant", "two")]), s.pop_item(), s.add_items([said("assistant", "better")]))
    assert "row 2 was deleted" in of_kind(audit(tmp_path / "agents.db"), "rows_deleted")[0].text


def test_branches_of_a_session_are_conversations(tmp_path: Path) -> None:
    s = AdvancedSQLiteSession(session_id="s1", db_path=tmp_path / "agents.db", create_tables=True)
    run(s.add_items([said("user", "one"), said("assistant", "two"), said("user", "three"), said("assistant", "four")]))
    run(s.create_branch_from_turn(2, "other"), s.add_items([said("user", "instead")]))
    s.close()
    told = {name: [i.message["content"] for i in items if isinstance(i, Record)] for name, items in read_all(tmp_path / "agents.db")}
    assert told == {"s1/main": ["one", "two", "three", "four"], "s1/other": ["one", "two", "instead"]}


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ('{"role": "user", "cont', "damaged"),
        ('{"role": "user", "content": "a"}' + "\0" * 90, "no_message"),
        ('{"role": "user", "content": "a"}{"role": "user", "content": "b"}', "no_message"),
        ("[]", "no_message"),
        ('{"__enc__": 1, "payload": "x"}', "no_message"),
        (b"\xff\xfe", "damaged"),
        (None, "damaged"),
        (7, "no_message"),
    ],
)
def test_a_ruined_row_is_named_and_the_others_are_read(session: Any, tmp_path: Path, data: Any, kind: str) -> None:
    run(session("s1").add_items([said("user", "one"), said("assistant", "two"), said("user", "three")]))
    with closing(sqlite3.connect(tmp_path / "agents.db")) as store:
        store.execute("CREATE TABLE copied AS SELECT * FROM agent_messages")
        store.execute("DROP TABLE agent_messages")
        store.execute("ALTER TABLE copied RENAME TO agent_messages")
        store.execute("UPDATE agent_messages SET message_data = ? WHERE rowid = 2", (data,))
        store.commit()
    done = audit(tmp_path / "agents.db")
    assert [(f.kind, f.line) for f in done.findings] == [(kind, 2)] and done.records == 2 and "Row 2" in done.findings[0].text


# --- Google ADK ------------------------------------------------------------------------------------------------------


def text(words: str) -> Any:
    return types.Part(text=words)


def event(author: str, at: float, *parts: Any, invocation: str = "i1", **actions: Any) -> Event:
    content = types.Content(role="user" if author == "user" else "model", parts=list(parts)) if parts else None
    return Event(author=author, invocation_id=invocation, timestamp=at, content=content, actions=EventActions(**actions))


def summary(start: float, end: float, words: str) -> Any:
    return EventCompaction(start_timestamp=start, end_timestamp=end, compacted_content=types.Content(role="model", parts=[text(words)]))


def call(id: str) -> Any:
    return types.Part(function_call=types.FunctionCall(id=id, name="send_mail", args={"to": "anna"}))


def response(id: str, **given: Any) -> Any:
    return types.Part(function_response=types.FunctionResponse(id=id, name="send_mail", response=given or {"result": "sent"}))


SERVICES = ["SqliteSessionService", "DatabaseSessionService"]


def stored(path: Path, events: list[Event], service: str = SERVICES[0]) -> Path:
    """A store that this service of ADK wrote."""

    async def write() -> None:
        async with AsyncExitStack() as stack:
            held: Any = SqliteSessionService(str(path))
            if service == SERVICES[1]:
                held = await stack.enter_async_context(DatabaseSessionService(f"sqlite+aiosqlite:///{path}"))
            made = await held.create_session(app_name="desk", user_id="u", session_id="s1")
            for one in events:
                await held.append_event(made, one)

    asyncio.run(write())
    return path


def twice_mailed() -> list[Event]:
    return [
        event("user", 1, text("Never touch the staging bucket. Ticket OPS-12.")),
        event("desk", 2, call("c1")),
        event("desk", 3, response("c1")),
        event("desk", 4, text("Done.")),
        event("user", 5, compaction=summary(1, 3, "Ticket OPS-12, a mail.")),
        event("user", 6, text("Send it."), invocation="i2"),
        event("desk", 7, call("c2"), invocation="i2"),
        event("desk", 8, response("c2"), invocation="i2"),
    ]


@pytest.mark.parametrize("service", SERVICES)
def test_a_compaction_in_adk_takes_what_lies_in_its_time_and_what_it_lost_is_named(tmp_path: Path, service: str) -> None:
    path = stored(tmp_path / "adk.db", twice_mailed(), service)
    done = audit(path)
    assert (done.format, done.place, detect(path)) == ("google_adk", "event", "google_adk")
    (account,) = done.compactions
    assert (account.line, account.covered, account.kept, account.seen) == (5, 3, 1, 1.0)
    assert [v.value for v in account.lost] == ["Never touch the staging bucket."]
    assert {f.kind for f in done.findings} == {"effect_repeated_blind", "lost_constraint"}


@pytest.mark.parametrize("service", SERVICES)
def test_a_damaged_copy_of_a_store_of_adk_is_never_read_as_a_whole_one(tmp_path: Path, service: str) -> None:
    """R5: the compaction overwritten, a page of the events gone, the file cut. What can be read still is."""
    whole = stored(tmp_path / "adk.db", twice_mailed(), service).read_bytes()
    with closing(sqlite3.connect(tmp_path / "adk.db")) as store:
        (size,) = store.execute("PRAGMA page_size").fetchone()
        (root,) = store.execute("SELECT rootpage FROM sqlite_master WHERE name = 'events'").fetchone()
    start, at = (root - 1) * size, whole.index(b"Ticket OPS-12, a mail.")
    copies = {
        "garbage": (whole[: at - 60] + b"\xff" * 70 + whole[at + 10 :], 7, "Event 5: torn event"),
        "no page": (whole[:start] + bytes(size) + whole[start + size :], 0, "rows 1 and on of the table events cannot be read"),
        "cut": (whole[: start + size // 2], None, f"the file is cut at byte {start + size // 2:,}"),
    }
    for name, (data, records, words) in copies.items():
        copy = tmp_path / f"{name}.db"
        copy.write_bytes(data)
        done = audit(copy)
        damage = [f.text for f in done.findings if f.kind in ("damaged", "torn_tail")]
        assert any(words in text for text in damage), (name, damage)
        assert (records is None or done.records == records) and not done.compactions, name


def test_an_open_call_that_a_compaction_took_and_its_late_result(tmp_path: Path) -> None:
    """A call that waits for a person; the conversation goes on, and is compacted."""
    path = stored(
        tmp_path / "adk.db",
        [
            event("user", 1, text("Go.")),
            event("desk", 2, call("c1")),
            event("user", 3, compaction=summary(1, 2, "Asked.")),
            event("desk", 4, response("c1")),
        ],
    )
    done = audit(path)
    assert of_kind(done, "effect_covered")[0].line == 3 and of_kind(done, "result_parted")


def test_an_event_that_comes_late_into_a_compacted_range_leaves_at_once_unread(tmp_path: Path) -> None:
    """The range is of times, not of events: a tie at its end, written behind the summary, is in no view and in no summary."""
    path = stored(
        tmp_path / "adk.db",
        [
            event("user", 1, text("Go.")),
            event("user", 2, compaction=summary(1, 2, "They began.")),
            event("user", 2, text("Port 8443 only.")),
        ],
    )
    done = audit(path)
    assert [(a.line, a.covered, a.seen) for a in done.compactions] == [(2, 1, 1.0), (3, 1, 0.0)]
    assert of_kind(done, "unread_removal")[0].line == 3


def test_a_refused_call_may_be_made_again(tmp_path: Path) -> None:
    path = stored(
        tmp_path / "adk.db",
        [
            event("user", 1, text("Go.")),
            event("desk", 2, call("c1")),
            event("desk", 3, response("c1", error="no such mailbox")),
            event("desk", 4, call("c2")),
            event("desk", 5, response("c2")),
        ],
    )
    assert not audit(path).findings


def test_going_back_over_a_mail_is_named_though_a_summary_had_taken_it(tmp_path: Path) -> None:
    path = stored(
        tmp_path / "adk.db",
        [
            event("user", 1, text("Go."), invocation="i0"),
            event("desk", 2, call("c1"), invocation="i1"),
            event("desk", 3, response("c1"), invocation="i1"),
            event("user", 4, compaction=summary(1, 3, "Sent."), invocation="i2"),
            event("user", 5, rewind_before_invocation_id="i1", invocation="i3"),
        ],
    )
    done = audit(path)
    assert [a.kind for a in done.compactions] == ["compaction", "rollback"]
    assert [c["id"] for f in of_kind(done, "effect_rolled_back") for c in f.detail["calls"]] == ["c1"]
    assert done.compactions[1].kept == 1, "the summary went too, so the first event is back"


@pytest.mark.parametrize("seed", range(16))
def test_the_view_behind_every_event_is_adks_own(tmp_path: Path, seed: int) -> None:
    """Random sessions with summaries over any ranges, and rewinds: ADK's functions say what stays, the reader says the same."""
    rng = Random(seed)
    events: list[Event] = []
    for n in range(1, 26):
        kind = rng.random()
        if n > 4 and kind < 0.2:
            start = rng.randint(1, n - 1)
            events.append(event("user", n, compaction=summary(start, rng.randint(start, n), f"sum {n}"), invocation=f"x{n}"))
        elif n > 4 and kind < 0.28:
            events.append(event("user", n, rewind_before_invocation_id=f"i{rng.randint(1, n // 3)}", invocation=f"x{n}"))
        else:
            events.append(event("user", n, text(f"word {n}"), invocation=f"i{n // 3}"))
    shown: list[str] = []
    words: dict[str, str] = {}
    for item in read(stored(tmp_path / "adk.db", events, SERVICES[seed % 4 == 3])):
        if isinstance(item, Record):
            shown.append(str(item.id))
            words[str(item.id)] = item.message["content"][0]["text"]
        elif isinstance(item, Boundary):
            shown = list(item.detail["view_ids"])
            live = _process_compaction_events(_apply_rewinds(events[: item.line]))
            held = [(e.content.parts[0].text, bool(e.actions and e.actions.compaction)) for e in live if e.content and e.content.parts]
            assert sorted(words[id] for id in shown) == sorted(str(said) for said, is_summary in held if not is_summary), item.line
            told = {*item.detail["standing"], *([item.summary] if item.kind == "compaction" else [])}
            assert {str(said) for said, is_summary in held if is_summary} <= told, item.line
        else:
            assert item.why.startswith("lost record: it goes back before")


def test_a_store_of_the_older_schema_is_read_without_opening_its_pickles(tmp_path: Path) -> None:
    """Contents are columns there, the actions a pickle: that it holds a compaction is seen, and nothing in it runs."""
    marker = tmp_path / "ran"

    class Bomb:
        def __reduce__(self) -> Any:
            return (Path.touch, (marker,))

    keys = "id, app_name, user_id, session_id, invocation_id, author, actions, timestamp, content"
    rows = [
        ("e1", "user", pickle.dumps(Bomb()), {"role": "user", "parts": [{"text": "Ticket OPS-12."}]}),
        ("e2", "desk", pickle.dumps(EventActions(compaction=summary(1, 1, "They began."))), None),
    ]
    with closing(sqlite3.connect(tmp_path / "old.db")) as store:
        store.execute(f"CREATE TABLE events ({keys})")
        for id, author, actions, content in rows:
            held = json.dumps(content) if content else None
            store.execute("INSERT INTO events VALUES (?, 'a', 'u', 's', 'i1', ?, ?, '2026-01-01 00:00:00', ?)", (id, author, actions, held))
        store.commit()
    done = audit(tmp_path / "old.db")
    assert not marker.exists() and done.records == 1
    assert [a.trigger for a in done.compactions] == ["pickled: its range and its text cannot be read"]


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        ('{"content": {"parts": [', "damaged", "torn event"),
        ("\0" * 300, "damaged", "torn event"),
        ("[]", "no_message", "no event"),
        ('{"author":"a","actions":{"compaction":{"start_timestamp":"x"}}}', "damaged", "no compaction of this format"),
    ],
)
def test_a_ruined_event_is_named_and_the_others_are_read(tmp_path: Path, data: str, kind: str, said: str) -> None:
    path = stored(tmp_path / "adk.db", [event("user", n, text(f"word {n}")) for n in (1, 2, 3)])
    with closing(sqlite3.connect(path)) as store:
        store.execute("UPDATE events SET event_data = ? WHERE rowid = 2", (data,))
        store.commit()
    done = audit(path)
    assert [(f.kind, f.line) for f in done.findings] == [(kind, 2)] and said in done.findings[0].text and done.records == 2
    assert len([i for i in read(path) if isinstance(i, Damage)]) == 1
