"""The Claude Agent SDK on a lineal store: its own conformance suite, its own CLI against a model server on loopback, real kills."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("claude_agent_sdk", reason="the extra `claude-agent` is not installed")

import claude_agent_sdk
from claude_agent_sdk import InMemorySessionStore, fold_session_summary, project_key_for_directory
from claude_agent_sdk.testing import run_session_store_conformance

import lineal
from lineal.adapters.claude_agent import LinealSessionStore, effect_hooks, session_key, session_name
from lineal.engines import Engine, Row, open_engine
from lineal.errors import Conflict, PolicyError, Unavailable
from lineal.messages import text_of
from lineal.session import Session
from lineal.store import Store
from lineal.testing.faults import FaultyEngine
from lineal.testing.lives import Lives

KEY: Any = {"project_key": "post", "session_id": "s1"}
KILLED = 9


def run(waited: Any) -> Any:
    return asyncio.run(waited)


@pytest.fixture(params=["memory:", "sqlite"])
def sessions(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LinealSessionStore]:
    found = LinealSessionStore("memory:" if request.param == "memory:" else tmp_path / "post.db")
    yield found
    assert found.store.verify().clean
    found.close()


def line(id: str, role: str, content: Any, parent: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": role, "uuid": id, "parentUuid": parent, "message": {"role": role, "content": content}, **more}


def call(id: str, command: str, parent: str | None = None) -> dict[str, Any]:
    return line(id, "assistant", [{"type": "tool_use", "id": f"call-{id}", "name": "Bash", "input": {"command": command}}], parent)


def result(id: str, of: str, text: str, parent: str | None = None) -> dict[str, Any]:
    return line(id, "user", [{"type": "tool_result", "tool_use_id": f"call-{of}", "content": text}], parent)


# --- the protocol ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["memory:", "sqlite"])
def test_the_conformance_suite_of_the_sdk(where: str, tmp_path: Path) -> None:
    def fresh() -> LinealSessionStore:
        return LinealSessionStore(where if where == "memory:" else tmp_path / f"{uuid.uuid4()}.db")

    run(run_session_store_conformance(fresh))


PARTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
KEYS = st.fixed_dictionaries({"project_key": PARTS, "session_id": PARTS}, optional={"subpath": PARTS})


@given(KEYS, KEYS)
def test_no_two_keys_share_a_name_and_a_name_gives_its_key_back(one: Any, other: Any) -> None:
    assert session_key(session_name(one)) == one
    assert (session_name(one) == session_name(other)) == (one == other)


def test_a_key_with_an_empty_part_is_refused() -> None:
    for key in ({**KEY, "subpath": ""}, {**KEY, "session_id": ""}, {**KEY, "project_key": 3}):
        with pytest.raises(PolicyError, match="no key of a session"):
            session_name(key)  # type: ignore[arg-type]
    assert session_key("notes") is None and session_key("claude-agent/only") is None


def test_sessions_of_others_in_the_store_are_none_of_the_sdks(sessions: LinealSessionStore) -> None:
    sessions.store.session("post").append({"role": "user", "content": "hello"})
    run(sessions.append(KEY, [line("u1", "user", "hello")]))
    assert [s["session_id"] for s in run(sessions.list_sessions("post"))] == ["s1"]
    run(sessions.delete(KEY))
    assert sessions.store.sessions() == ["post"]


def test_lines_come_back_as_they_came_whatever_is_in_them(sessions: LinealSessionStore) -> None:
    """R7: half a surrogate pair too, as hosts cut texts; an unknown type; what is a message in shape only."""
    odd: list[Any] = [
        line("u1", "user", "é and e\u0301, nul\0in, half a pair \ud83d, " + 'a literal \\u0000 and {"role": "user"}'),
        {"type": "of tomorrow", "n": 1e30, "deep": [[[{"": None}]]], "big": 2**53},
        line("a1", "assistant", [{"type": "tool_use"}], "u1"),
        line("u2", "user", [{"type": "tool_result"}], "a1"),
        {"type": "user", "uuid": "u3", "message": "no message"},
        {"type": "user", "uuid": 7, "message": {"role": "user", "content": "an id that is none"}},
        line("", "user", "an empty id"),
        line("@u", "user", "an id like lineal's own"),
        {"type": "system", "subtype": "compact_boundary"},
    ]
    run(sessions.append(KEY, odd))
    assert run(sessions.load(KEY)) == odd


def test_a_uuid_stands_once_and_lines_without_one_are_appended_as_they_are(sessions: LinealSessionStore) -> None:
    """R2: in one batch, in another one, from another process."""
    title: Any = {"type": "custom-title", "customTitle": "parcels"}
    first = line("u1", "user", "hello")
    run(sessions.append(KEY, [first, title, first, title]))
    run(sessions.append(KEY, [line("u1", "user", "written again"), title]))
    run(LinealSessionStore(sessions.store).append(KEY, [first, line("u2", "user", "more")]))
    assert run(sessions.load(KEY)) == [first, title, title, title, line("u2", "user", "more")]
    assert [t.id for t in sessions.session(KEY).turns()] == ["u1", "u2"]


@pytest.mark.parametrize("wrong", [{"type": "x", "uuid": "w", "n": {1, 2}}, "no line", {"type": "x", "uuid": "w", 3: 4}], ids=repr)
def test_a_batch_whose_middle_is_refused_leaves_nothing(sessions: LinealSessionStore, wrong: Any) -> None:
    """R1: lines, turns, summary: all or none; and the next batch is taken."""
    run(sessions.append(KEY, [line("u1", "user", "hello")]))
    head = sessions.session(KEY).status().head
    with pytest.raises(PolicyError):
        run(sessions.append(KEY, [line("u2", "user", "before"), wrong, line("u3", "user", "behind")]))
    assert sessions.session(KEY).status().head == head
    run(sessions.append(KEY, [line("u2", "user", "before")]))
    assert [t.id for t in sessions.session(KEY).turns()] == ["u1", "u2"]


def test_a_turn_that_says_something_else_under_the_uuid_refuses_the_batch(sessions: LinealSessionStore) -> None:
    """R2: whoever put it there; nothing is replaced, and nothing goes round in circles."""
    sessions.session(KEY).append({"role": "user", "content": "something else"}, id="u2")
    with pytest.raises(Conflict, match="another message"):
        run(sessions.append(KEY, [line("u1", "user", "hello"), line("u2", "user", "more")]))
    assert run(sessions.load(KEY)) is None


class Breaking(FaultyEngine):
    """Refuses the next so many appends, before they are carried out or with the answer lost."""

    def __init__(self, engine: Engine):
        super().__init__(engine)
        self.passing, self.failing, self.when = 0, 0, "before"

    def append(self, session: str, expected_seq: int, rows: Sequence[Row]) -> None:
        self.passing -= 1
        broken = self.passing < 0 < self.failing
        self.failing -= broken
        if not broken or self.when == "after":
            super().append(session, expected_seq, rows)
        if broken:
            raise Unavailable("append", "the disk is full", "make room")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_store_that_cannot_write_raises_and_the_same_batch_is_taken_later(when: str) -> None:
    """R1, R2: the SDK tries a batch again; whether the first try had landed or not, each line with an id stands once."""
    engine = Breaking(open_engine("memory:"))
    sessions = LinealSessionStore(Store(engine))
    batch: Any = [line("u1", "user", "hello"), line("a1", "assistant", [{"type": "text", "text": "hi"}], "u1")]
    engine.failing, engine.when = 1, when
    with pytest.raises(Unavailable):
        run(sessions.append(KEY, batch))
    run(sessions.append(KEY, batch))
    assert run(sessions.load(KEY)) == batch and sessions.store.verify().clean
    assert [t.id for t in sessions.session(KEY).turns()] == ["u1", "a1"]


# --- the session behind it -------------------------------------------------------------------------------------------


def test_what_was_said_are_turns_by_who_said_it(sessions: LinealSessionStore) -> None:
    """R19: a tool's output is never the user's word, nor what the host wrote in the user's role."""
    mixed = [{"type": "tool_result", "tool_use_id": "call-a1", "content": "books"}, {"type": "text", "text": "and quickly"}]
    run(
        sessions.append(
            KEY,
            [  # type: ignore[arg-type]
                line("u1", "user", "Which parcels?"),
                call("a1", "ls", "u1"),
                line("u2", "user", mixed, "a1"),
                line("u3", "user", "<system-reminder>be brief</system-reminder>", "u2"),
                line("u4", "user", "Caveat", "u3", isMeta=True),
                line("a2", "assistant", [{"type": "text", "text": "API Error"}], "u4", isApiErrorMessage=True),
                {"type": "attachment", "uuid": "x1", "parentUuid": "a2"},
                line("a3", "assistant", [{"type": "text", "text": "Books."}], "x1"),
            ],
        )
    )
    session = sessions.session(KEY)
    said = [(t.id, t.author) for t in session.turns()]
    assert said == [
        ("u1", "user"),
        ("a1", "assistant"),
        ("u2", "tool"),
        ("u2:text", "user"),
        ("u3", "system"),
        ("u4", "system"),
        ("a3", "assistant"),
    ]
    assert [hit.handle for hit in session.search("quickly")] == ["t:u2:text"]
    assert not session.status().open_calls and len(session.messages("anthropic")) > 4


def test_a_sub_agent_has_a_session_of_its_own(sessions: LinealSessionStore) -> None:
    sub = {**KEY, "subpath": "subagents/agent-1"}
    run(sessions.append(KEY, [line("u1", "user", "hello")]))
    run(sessions.append(sub, [line("u1", "user", "look for books", isSidechain=True)]))
    assert run(sessions.list_subkeys(KEY)) == ["subagents/agent-1"]
    assert [text_of(t.message) for t in sessions.session(sub).turns()] == ["look for books"]


BOUNDARY: Any = {"type": "system", "subtype": "compact_boundary", "uuid": "b1", "logicalParentUuid": "a2"}
SUMMARY: Any = line("s1", "user", "They spoke of parcels.", "b1", isCompactSummary=True)
BEFORE: Any = [
    line("u1", "user", "deliver books"),
    call("a1", "deliver books", "u1"),
    result("u2", "a1", "delivered", "a1"),
    line("a2", "assistant", [{"type": "text", "text": "Done."}], "u2"),
]


@pytest.mark.parametrize(
    ("metadata", "stays"),
    [
        ({}, []),
        ({"preservedSegment": {"headUuid": "a2", "tailUuid": "a2"}}, ["a2"]),
        ({"preservedMessages": {"anchorUuid": "s1", "uuids": ["u2", "a2"]}}, ["a2"]),  # u2 answers a call that left: no half pair stays
    ],
    ids=["nothing stays", "by first and last", "by name"],
)
def test_what_the_host_dropped_leaves_the_view(sessions: LinealSessionStore, metadata: Any, stays: list[str]) -> None:
    """Record 002: the log keeps it all; the view is what the model is shown: the kept lines, the summary, what came behind."""
    run(sessions.append(KEY, BEFORE))
    run(sessions.append(KEY, [{**BOUNDARY, "compactMetadata": metadata}, SUMMARY, line("u3", "user", "and tea", "s1")]))
    session = sessions.session(KEY)
    assert [t.id for t in session.view().turns] == [*stays, "s1", "u3"]
    assert [t.id for t in session.turns()] == ["u1", "a1", "u2", "a2", "s1", "u3"]
    assert session.turns()[-2].author == "system" and session.expand("t:u1")[0].message["content"] == "deliver books"


def test_a_process_that_died_before_it_noted_what_was_dropped_is_made_up_for(tmp_path: Path) -> None:
    """R30: the boundary stands, the note does not; the next one to append writes it."""
    engine = Breaking(open_engine(str(tmp_path / "post.db")))
    dying = LinealSessionStore(Store(engine))
    run(dying.append(KEY, BEFORE))
    engine.passing, engine.failing = 1, 1
    with pytest.raises(Unavailable):
        run(dying.append(KEY, [BOUNDARY, SUMMARY]))
    sessions = LinealSessionStore(tmp_path / "post.db")
    assert len(run(sessions.load(KEY))) == 6 and len(sessions.session(KEY).view().turns) == 5
    run(sessions.append(KEY, [line("u3", "user", "and tea", "s1")]))
    assert [t.id for t in sessions.session(KEY).view().turns] == ["s1", "u3"]


def test_a_purge_takes_the_line_and_the_chain_of_parents_stays_whole(sessions: LinealSessionStore) -> None:
    """R56: a host follows parents from the last line; it must not end where something was erased."""
    lines: Any = [
        line("u1", "user", "my number is 4711", timestamp="2026-01-05T10:00:00Z"),
        line("a1", "assistant", [{"type": "text", "text": "4711, noted"}], "u1"),
        {"type": "attachment", "uuid": "x1", "parentUuid": "a1"},
        {"type": "last-prompt", "lastPrompt": "and tea", "leafUuid": "a1"},
        line("u2", "user", "and tea", "x1", timestamp="2026-01-05T10:01:00Z"),
    ]
    run(sessions.append(KEY, lines[:2]))
    run(sessions.append(KEY, lines[2:]))
    assert run(sessions.list_session_summaries("post"))[0]["data"]["first_prompt"] == "my number is 4711"
    before = run(sessions.list_sessions("post"))
    sessions.session(KEY).purge(["u1", "a1"])
    left: Any = [{**lines[2], "parentUuid": None}, {**lines[3], "leafUuid": None}, lines[4]]
    assert run(sessions.load(KEY)) == left and run(sessions.list_sessions("post")) == before
    (summary,) = run(sessions.list_session_summaries("post"))
    assert summary["data"] == fold_session_summary(None, KEY, left)["data"] and summary["data"]["first_prompt"] == "and tea"
    run(sessions.append(KEY, [line("u1", "user", "my number is 4711")]))
    assert run(sessions.load(KEY)) == left, "a line that was purged does not come back with a repeated batch"


@given(
    st.lists(st.lists(st.sampled_from([*BEFORE, BOUNDARY, SUMMARY, {"type": "tag", "tag": "t"}, {"type": "tag"}]), max_size=4), max_size=5)
)
def test_the_summary_is_the_sdks_own_over_every_line_that_stands(batches: list[list[Any]]) -> None:
    """However the lines are cut into batches: the reference store on the lines that this one kept says the same."""
    sessions, reference = LinealSessionStore("memory:"), InMemorySessionStore()
    for batch in batches:
        run(sessions.append(KEY, batch))
    run(reference.append(KEY, run(sessions.load(KEY)) or []))
    ours, theirs = run(sessions.list_session_summaries("post")), run(reference.list_session_summaries("post"))
    assert [s["data"] for s in ours] == [s["data"] for s in theirs if any(batches)]


def test_a_session_on_disk_is_taken_over_by_the_sdk_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's own import, as it is used to make up for a gap in the mirror: a second one adds no line that has an id."""
    id, work = str(uuid.uuid4()), tmp_path / "work"
    work.mkdir()
    folder = tmp_path / "config" / "projects" / project_key_for_directory(str(work))
    folder.mkdir(parents=True)
    lines = [{**one, "sessionId": id} for one in [*BEFORE, BOUNDARY, SUMMARY]]
    (folder / f"{id}.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in lines))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    sessions = LinealSessionStore(tmp_path / "post.db")
    for _ in range(2):
        run(claude_agent_sdk.import_session_to_store(id, sessions, directory=str(work), batch_size=2))
    key: Any = {"project_key": folder.name, "session_id": id}
    assert run(sessions.load(key)) == lines
    told = run(claude_agent_sdk.get_session_messages_from_store(sessions, id, directory=str(work)))
    assert told and told[0].uuid == "s1"
    assert [t.id for t in sessions.session(key).view().turns] == ["s1"]


# --- the guard ---------------------------------------------------------------------------------------------------------


class Host:
    """The hooks as the SDK calls them."""

    def __init__(self, hooks: Any, transcript: Path):
        self.hooks, self.transcript = hooks, transcript

    def tell(self, event: str, id: str, command: str, **more: Any) -> Any:
        told = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": id, **more}
        base = {"session_id": "s1", "transcript_path": str(self.transcript), "cwd": "/", "hook_event_name": event}
        return run(self.hooks[event][0].hooks[0]({**base, **told}, id, {"signal": None}))

    def denied(self, id: str, command: str) -> str:
        answer = self.tell("PreToolUse", id, command).get("hookSpecificOutput", {})
        assert answer.get("permissionDecision") in (None, "deny")
        return str(answer.get("permissionDecisionReason", ""))


@pytest.fixture
def host(sessions: LinealSessionStore, tmp_path: Path) -> Host:
    folder = tmp_path / "post"
    folder.mkdir()
    return Host(effect_hooks(sessions, ["Bash(deliver*)"]), folder / "s1.jsonl")


def states(session: Session) -> list[str]:
    return [row.state for row in session.ledger()]


def test_a_call_goes_through_the_ledger_of_the_transcripts_own_session(sessions: LinealSessionStore, host: Host) -> None:
    """R47: its intent is durable before it, its outcome behind it; other calls are not asked about."""
    session = sessions.session(KEY)
    assert not host.denied("c0", "ls") and not session.ledger()
    assert not host.denied("c1", "deliver books") and states(session) == ["intended"]
    assert not host.denied("c1", "deliver books"), "asked again about the same call, it is the same one"
    host.tell("PostToolUse", "c1", "deliver books", tool_response={"stdout": "handed over", "stderr": ""})
    assert [(row.state, row.outcome) for row in session.ledger()] == [("done", "handed over")]
    host.tell("PostToolUse", "c0", "ls", tool_response="nothing")
    assert not host.denied("c2", "deliver tea")
    host.tell("PostToolUseFailure", "c2", "deliver tea", error="Exit code 1")
    assert not host.denied("c3", "deliver maps")
    host.tell("PostToolUseFailure", "c3", "deliver maps", error="aborted", is_interrupt=True)
    assert states(session) == ["done", "no_effect", "unknown"]


def test_a_call_whose_outcome_is_unknown_is_denied_until_someone_resolves_it(sessions: LinealSessionStore, host: Host) -> None:
    """R47: the way out stands in the answer; as soon as it was taken, the call may be made."""
    host.tell("PreToolUse", "c1", "deliver books")
    host.tell("PostToolUseFailure", "c1", "deliver books", error="interrupted", is_interrupt=True)
    told = host.denied("c2", "deliver books")
    assert "whether it happened is not known" in told and "resolve_effect" in told
    sessions.session(KEY).resolve_effect(sessions.session(KEY).ledger()[0].key, "not_happened")
    assert not host.denied("c3", "deliver books")


def test_an_equal_call_from_before_a_compaction_is_denied_with_its_outcome(sessions: LinealSessionStore, host: Host) -> None:
    """R50: the model forgot that it did it. While it can see the call it may mean it twice."""
    run(sessions.append(KEY, BEFORE[:1]))
    host.tell("PreToolUse", "call-a1", "deliver books")
    host.tell("PostToolUse", "call-a1", "deliver books", tool_response="handed over")
    run(sessions.append(KEY, BEFORE[1:]))
    assert not host.denied("c2", "deliver books")
    host.tell("PostToolUse", "c2", "deliver books", tool_response="handed over, too")
    run(sessions.append(KEY, [BOUNDARY, SUMMARY]))
    told = host.denied("c3", "deliver books")
    assert "Recorded outcome: handed over" in told and "Way out" in told
    assert not host.denied("c4", "deliver books # once more, as was asked")


@pytest.mark.parametrize("where", ["in the mirror", "in its own file"])
def test_what_the_host_never_reports_is_read_in_its_lines(sessions: LinealSessionStore, host: Host, where: str) -> None:
    """A call that the user refused has no hook behind it; its result is a line."""
    host.tell("PreToolUse", "call-a1", "deliver books")
    assert states(sessions.session(KEY)) == ["intended"]
    refused = [{"type": "tool_result", "tool_use_id": "call-a1", "content": "The user doesn't want to proceed", "is_error": True}]
    lines: Any = [line("u1", "user", "deliver books"), call("a1", "deliver books", "u1"), line("u2", "user", refused, "a1")]
    if where == "in the mirror":
        run(sessions.append(KEY, lines))
        assert states(sessions.session(KEY)) == ["no_effect"]
    else:
        host.transcript.write_text("".join(f"{json.dumps({**one, 'sessionId': 's1'})}\n" for one in lines))
    assert not host.denied("c3", "deliver books")
    assert states(sessions.session(KEY)) == ["no_effect", "intended"]


def test_keys_are_one_effect_whoever_asks_and_in_which_session(tmp_path: Path) -> None:
    """R48, R49: one session for all; equal keys with other arguments are no equal effect."""
    ledger = lineal.connect(tmp_path / "post.db").session("ledger")
    keys = {"Bash": lambda args: str(args["command"]).split()[1]}
    one, other = (Host(effect_hooks(ledger, ["Bash"], keys=keys), tmp_path / "s.jsonl") for _ in range(2))
    assert not one.denied("c1", "deliver books")
    assert "busy" in other.denied("c2", "deliver books")
    one.tell("PostToolUse", "c1", "deliver books", tool_response="handed over")
    assert "handed over" in other.denied("c3", "deliver books")
    assert "other arguments" in other.denied("c4", "send books")
    assert [row.key for row in ledger.ledger()] == ["books"]


def test_a_pattern_that_is_none_is_refused_before_a_run(sessions: LinealSessionStore) -> None:
    with pytest.raises(PolicyError, match="opens a bracket"):
        effect_hooks(sessions, ["Bash(deliver*"])
    assert effect_hooks(sessions)["PreToolUse"][0].on_failure == "block"


# --- processes ---------------------------------------------------------------------------------------------------------

Live = Callable[..., list[int]]


@pytest.fixture(scope="module")
def writers() -> Iterator[Lives]:
    with Lives(Path(__file__).with_name("claude_writer.py")) as lives:
        yield lives


@pytest.fixture
def live(writers: Lives, tmp_path: Path) -> Live:
    def some(*orders: dict[str, Any]) -> list[int]:
        return writers(*({"store": str(tmp_path / "post.db"), "who": "w", "batches": 4, **one} for one in orders))

    return some


def ids(lines: list[Any] | None, who: str) -> list[str]:
    return [one["uuid"] for one in lines or () if str(one.get("uuid", "")).startswith(f"{who}-")]


def test_killed_at_any_change_of_the_store_it_goes_on(live: Live, tmp_path: Path) -> None:
    """R1, R30, R33: whole batches stand, each that was acknowledged among them; repeated, each line stands once."""
    assert live({}) == [0]
    whole = ids(run(LinealSessionStore(tmp_path / "post.db").load(KEY)), "w")
    change, survived = 0, False
    while not survived:
        change += 1
        for when in ("before", "after"):
            for path in tmp_path.iterdir():
                path.unlink()
            survived = live({"change": change, "when": when}) == [0]
            with lineal.connect(tmp_path / "post.db") as store:
                kept = ids(run(LinealSessionStore(store).load(KEY)), "w")
            acknowledged = tmp_path / "post.db.w.acknowledged"
            batches = len(acknowledged.read_text().splitlines()) if acknowledged.exists() else 0
            assert kept in [whole[:n] for n in (0, 2, 4, 7, 9)] and len(kept) >= [0, 2, 4, 7, 9][batches]
            assert live({}) == [0]
            sessions = LinealSessionStore(tmp_path / "post.db")
            assert ids(run(sessions.load(KEY)), "w") == whole and sessions.store.verify().clean
            session = sessions.session(KEY)
            assert [t.id for t in session.turns()] == [id for id in whole if not id.endswith("-b")]
            assert [t.id for t in session.view().turns] == ["w-2-u", "w-2-a", "w-3-u", "w-3-a"]
            sessions.close()
    assert change > 5, "the story has changes to be killed at"


def test_two_processes_append_to_one_transcript(live: Live, tmp_path: Path) -> None:
    """R31: every line of both, each in its order; the summary is that of the lines as they stand."""
    assert live({"who": "one", "batches": 12}, {"who": "two", "batches": 12}) == [0, 0]
    sessions = LinealSessionStore(tmp_path / "post.db")
    lines = run(sessions.load(KEY))
    for who in ("one", "two"):
        assert ids(lines, who) == [one["uuid"] for n in range(12) for one in writer_batch(who, n) if "uuid" in one]
    assert sum(one["type"] == "custom-title" for one in lines) == 24
    (summary,) = run(sessions.list_session_summaries("post"))
    assert summary["data"] == fold_session_summary(None, KEY, lines)["data"]
    assert len(sessions.session(KEY).turns()) == 48 and sessions.store.verify().clean


def writer_batch(who: str, n: int) -> list[Any]:
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        from claude_writer import batch
    finally:
        sys.path.pop(0)
    return batch(who, n)


# --- the SDK's own CLI -------------------------------------------------------------------------------------------------

CLI = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
with_cli = pytest.mark.skipif(not CLI.exists(), reason="this build of claude-agent-sdk comes without its CLI")


class Agent:
    """An agent whose memory is one store, one life after the other."""

    def __init__(self, folder: Path):
        self.folder, self.id = folder, str(uuid.uuid4())
        (folder / "work").mkdir()

    def live(self, *say: str, **order: Any) -> tuple[int, dict[str, Any]]:
        """The signal that ended this life (0: none), and what it told."""
        told = {"store": str(self.folder / "post.db"), "home": str(self.folder), "session": self.id, "effects": ["Bash(echo*)"]}
        program = str(Path(__file__).with_name("claude_life.py"))
        # Nothing of the surroundings may reach the CLI: neither another host's settings nor anyone's keys.
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), "IS_SANDBOX": "1"}
        words = [sys.executable, program, json.dumps({**told, "say": say, **order})]
        said, wrong = self.folder / "said", self.folder / "wrong"  # files: a CLI that outlives its agent would hold a pipe open
        with said.open("w") as out, wrong.open("w") as err:
            life = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
            try:
                ended = life.wait(60)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(life.pid, signal.SIGKILL)  # its CLI dies with it, as with a machine
                life.wait()
        if ended < 0:
            return -ended, {}
        assert ended == 0, wrong.read_text()
        found: dict[str, Any] = json.loads(said.read_text().splitlines()[-1])
        assert not found["wrong"]
        return 0, found

    @property
    def parcels(self) -> list[str]:
        path = self.folder / "work" / "parcels"
        return path.read_text().split() if path.exists() else []

    def session(self) -> Session:
        key: Any = {"project_key": project_key_for_directory(str(self.folder / "work")), "session_id": self.id}
        session = LinealSessionStore(self.folder / "post.db").session(key)
        assert session.verify().clean
        return session


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


@with_cli
def test_a_real_agent_remembers_in_another_process_and_forgets_in_a_compaction(agent: Agent) -> None:
    """R45, R47, R50, record 002: mirrored, resumed from the store alone, compacted by the host; what was done stays done."""
    said = "RUN: echo books >> parcels"
    assert agent.live("The key lies under the blue pot.", said)[0] == 0
    first = agent.session()
    assert [t.author for t in first.turns()] == ["user", "assistant", "user", "assistant", "tool", "assistant"]
    assert states(first) == ["done"] and agent.parcels == ["books"]
    for path in (agent.folder / "config" / "projects").rglob("*.jsonl"):
        path.unlink()
    ended, told = agent.live("Where is it?", "/compact", said, resume=True)
    assert ended == 0 and "blue pot" in json.dumps(told["asked"][0])
    session = agent.session()
    assert agent.parcels == ["books"], "the equal call from before the compaction was denied"
    assert "Recorded outcome" in json.dumps(told["asked"][-1])
    shown = [text_of(t.message) for t in session.view().turns]
    assert not any("blue pot" in text for text in shown) and any("They spoke of parcels." in text for text in shown)
    assert session.search("blue pot")[0].text.startswith("The key lies")


@with_cli
def test_a_real_agent_killed_in_the_middle_of_its_tool(agent: Agent) -> None:
    """R47: the parcel was handed over, and nobody could say so any more. It is not handed over again."""
    said = "RUN: echo books >> parcels; kill -9 $AGENT_PID"
    assert agent.live("Good morning.", said)[0] == KILLED
    assert agent.parcels == ["books"] and states(agent.session()) == ["unknown"]
    assert agent.live(said, resume=True)[0] == 0
    session = agent.session()
    assert agent.parcels == ["books"] and states(session) == ["unknown"]
    assert text_of(session.turns()[0].message) == "Good morning."
    assert session.resolve_effect(session.ledger()[0].key, "happened").state == "done"


@with_cli
def test_a_real_call_that_the_user_refuses_has_no_effect(agent: Agent) -> None:
    """No hook tells of it; the host's transcript does. Asked once more the user may agree."""
    said = "RUN: echo books >> parcels"
    assert agent.live(said, refuse=True)[0] == 0
    assert agent.parcels == [] and states(agent.session()) == ["no_effect"]
    assert agent.live(said, resume=True)[0] == 0
    assert agent.parcels == ["books"] and states(agent.session()) == ["no_effect", "done"]


@with_cli
@pytest.mark.parametrize(("change", "flush"), [(7, "eager"), (4, "batched")])
def test_a_real_agent_killed_where_it_changes_its_store(agent: Agent, change: int, flush: str) -> None:
    """R1, R30: what stands is whole, and the next life goes on with it."""
    ended = agent.live("Good morning.", "RUN: echo books >> parcels", change=change, when="after", flush=flush)[0]
    assert ended == KILLED
    stands = agent.session().turns()
    assert agent.live("RUN: echo tea >> parcels", resume=bool(stands), flush=flush)[0] == 0
    session = agent.session()
    assert session.turns()[: len(stands)] == stands
    assert agent.parcels.count("tea") == 1 and agent.parcels.count("books") <= 1
    assert set(states(session)) <= {"done", "unknown"}
