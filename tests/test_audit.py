"""What an audit finds in a foreign history: every kind of finding has a story, real sessions have the numbers counted by hand."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lineal import audit as auditor
from lineal.audit import DEFAULT, KINDS, SEVERITIES, Audit, Finding, audit, audit_paths, render_html, render_text, to_json
from lineal.audit.history import history
from lineal.errors import PolicyError, Unavailable
from lineal.transcripts import read_all, sample_path

SHA = "9f3c1e7ab2"


# --- transcripts, written by hand ------------------------------------------------------------------------------------


def saved(path: Path, lines: Iterable[Any]) -> Path:
    file = path / "log.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def chat(role: str, content: str | None = None, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def calls(id: str, tool: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return chat("assistant", tool_calls=[{"id": id, "type": "function", "function": function}])


def answers(id: str, text: str = "ok") -> dict[str, Any]:
    return chat("tool", text, tool_call_id=id)


class Claude:
    """A Claude Code session, line by line; each line is the child of the one before."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def add(self, type: str, content: Any, uuid: str = "", **more: Any) -> Claude:
        number = len(self.lines) + 1
        parent = self.lines[-1]["uuid"] if self.lines else None
        line = {"type": type, "uuid": uuid or f"u{number}", "parentUuid": parent, "sessionId": "s", **more}
        if content is not None:
            line["message"] = {"role": type, "content": content, "id": f"m{number}"}
        self.lines.append(line)
        return self

    def asks(self, text: str, **more: Any) -> Claude:
        return self.add("user", text, **more)

    def says(self, text: str, **more: Any) -> Claude:
        return self.add("assistant", [{"type": "text", "text": text}], **more)

    def calls(self, id: str, command: str, tool: str = "Bash") -> Claude:
        return self.add("assistant", [{"type": "tool_use", "id": id, "name": tool, "input": {"command": command}}])

    def gets(self, id: str, text: str = "ok", error: bool = False) -> Claude:
        return self.add("user", [{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": error}])

    def compacts(self, summary: str | None = "They worked.", **metadata: Any) -> Claude:
        self.add("system", None, subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 1000, **metadata})
        self.lines[-1]["parentUuid"] = None
        return self if summary is None else self.asks(summary, isCompactSummary=True)

    def clears(self, *ids: str) -> Claude:
        return self.add("system", None, subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": list(ids)})


def pi(*lines: tuple[str, Any]) -> list[dict[str, Any]]:
    """A pi session: `(role, content)` is a message, `("compaction", first kept index)` a compaction."""
    out: list[dict[str, Any]] = [{"type": "session", "id": "s", "cwd": "/", "timestamp": "2025-12-09T00:00:00Z"}]
    for at, (kind, held) in enumerate(lines):
        stamp = f"2025-12-09T00:00:{at:02}Z"
        if kind == "compaction":
            out.append({"type": "compaction", "timestamp": stamp, "summary": "So far.", "firstKeptEntryIndex": held, "tokensBefore": 9})
        elif kind == "toolResult":
            message = {"role": kind, "toolCallId": held, "toolName": "bash", "content": [{"type": "text", "text": "ok"}]}
            out.append({"type": "message", "timestamp": stamp, "message": message})
        else:
            content = [{"type": "toolCall", "id": held[1:], "name": "bash", "arguments": {}}] if held[0] == "!" else held
            out.append({"type": "message", "timestamp": stamp, "message": {"role": kind, "content": content}})
    return out


def codex(*payloads: dict[str, Any]) -> list[dict[str, Any]]:
    kinds = ["compacted" if "replacement_history" in p else "response_item" for p in payloads]
    first = {"timestamp": "2026-06-25T00:00:00Z", "type": "session_meta", "payload": {"id": "s"}}
    return [first, *({"timestamp": "2026-06-25T00:00:01Z", "type": k, "payload": p} for k, p in zip(kinds, payloads, strict=True))]


def item(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "output_text" if role == "assistant" else "input_text", "text": text}]}


def bytes_of(path: Path, data: bytes) -> Path:
    file = path / "log.jsonl"
    file.write_bytes(data)
    return file


def jsonl(*lines: Any) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def database(path: Path, *statements: tuple[str, tuple[Any, ...]]) -> Path:
    file = path / "store.db"
    with closing(sqlite3.connect(file)) as store:
        for sql, values in statements:
            store.execute(sql, values)
        store.commit()
    return file


def graph(path: Path, *lists: list[dict[str, Any]]) -> Path:
    """A LangGraph store in the JSON form of its serializer: each list is a checkpoint's messages."""
    out: list[tuple[str, tuple[Any, ...]]] = [
        ("CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)", ())
    ]
    for at, messages in enumerate(lists, 1):
        value = {"channel_values": {"messages": messages}, "channel_versions": {"messages": at}}
        row = ("t", "", f"{at:04}", f"{at - 1:04}" if at > 1 else None, "json", json.dumps(value).encode(), b'{"source": "loop"}')
        out.append(("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", row))
    return database(path, *out)


def lc(kind: str, id: str, content: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "id": id, "content": content, **more}


def rows(path: Path, *items: tuple[int, dict[str, Any]]) -> Path:
    """A session of the OpenAI Agents SDK: rows under these ids."""
    made = "CREATE TABLE agent_messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, message_data TEXT, created_at TIMESTAMP)"
    out = [("INSERT INTO agent_messages VALUES (?, 's', ?, '2026-01-01 00:00:00')", (id, json.dumps(item))) for id, item in items]
    return database(path, (made, ()), *out)


def events(path: Path, *given: dict[str, Any]) -> Path:
    """A Google ADK session: events of one second each."""
    made = (
        "CREATE TABLE events (id TEXT, app_name TEXT, user_id TEXT, session_id TEXT, invocation_id TEXT, timestamp REAL, event_data TEXT)"
    )
    out: list[tuple[str, tuple[Any, ...]]] = [(made, ())]
    for at, event in enumerate(given, 1):
        value = {"timestamp": float(at), "author": "agent", "invocation_id": "i1", **event}
        out.append(("INSERT INTO events VALUES (?, 'a', 'u', 's', 'i1', ?, ?)", (f"e{at}", value["timestamp"], json.dumps(value))))
    return database(path, *out)


def part(**given: Any) -> dict[str, Any]:
    return {"content": {"role": "model", "parts": [given]}}


# --- a story for each kind of finding --------------------------------------------------------------------------------

GO = chat("user", "go")
PUSH = "git push origin main"
TORN = json.dumps(chat("assistant", "a long answer")).encode()[:30]
TALK = (chat("user", "now?"), calls("c1", "tide"), answers("c1", "21:51"), chat("assistant", "At 21:51."))
TREE = [
    {"type": "session", "id": "s", "cwd": "/", "timestamp": "2025-12-09T00:00:00Z"},
    {"type": "message", "id": "e1", "parentId": None, "timestamp": "2025-12-09T00:00:01Z", "message": {"role": "user", "content": "a"}},
    {"type": "message", "id": "e2", "parentId": "e0", "timestamp": "2025-12-09T00:00:02Z", "message": {"role": "user", "content": "b"}},
]
LOST = Claude().asks("Never touch the staging bucket.").calls("c1", "git commit -m x").gets("c1", f"[main {SHA}] x")
LOST.says("We decided to go with plan B.").asks("Port 8443, ticket OPS-12.").compacts()

STORIES: dict[str, tuple[Callable[[Path], Path], int]] = {  # kind -> the file, the line that the finding names
    "effect_in_flight": (lambda p: saved(p, [GO, calls("c1", "git_commit", message="x")]), 2),
    "effect_doubled": (lambda p: saved(p, [GO, calls("c1", "send_email", to="a"), answers("c1"), calls("c2", "send_email", to="a")]), 4),
    "effect_repeated_blind": (
        lambda p: saved(p, Claude().asks("go").calls("c1", PUSH).gets("c1").compacts().calls("c2", PUSH).gets("c2").lines),
        6,
    ),
    "effect_rolled_back": (
        lambda p: events(
            p,
            {**part(text="Send it."), "author": "user"},
            part(function_call={"id": "c1", "name": "send_mail", "args": {"to": "a"}}),
            part(function_response={"id": "c1", "name": "send_mail", "response": {"result": "sent"}}),
            {"actions": {"rewind_before_invocation_id": "i1"}},
        ),
        4,
    ),
    "rolled_back": (lambda p: events(p, part(text="Hello."), {"actions": {"rewind_before_invocation_id": "i1"}}), 2),
    "rows_deleted": (lambda p: rows(p, (1, item("user", "hi")), (5, item("assistant", "Hello."))), 5),
    "unread_by_default": (
        lambda p: graph(
            p,
            [lc("human", "m1", "a " * 9_000), lc("ai", "m2", "b " * 9_000), lc("human", "m3", "Go on.")],
            [lc("human", "s1", "So far.", additional_kwargs={"lc_source": "summarization"}), lc("human", "m3", "Go on.")],
        ),
        2,
    ),
    "written_over": (lambda p: graph(p, [lc("human", "m1", "Port 8443.")], [lc("human", "m1", "[gone]")]), 2),
    "effect_covered": (lambda p: saved(p, Claude().asks("go").calls("c1", PUSH).compacts().lines), 3),
    "no_summary": (lambda p: saved(p, Claude().asks("go").says("Done.").compacts(None).lines), 3),
    "unread_removal": (
        lambda p: saved(p, pi(("user", "a"), ("user", "b"), ("compaction", 2), ("user", "c"), ("user", "d"), ("compaction", 5))),
        7,
    ),
    "damaged": (lambda p: bytes_of(p, jsonl(GO) + TORN + b"\n" + jsonl(GO)), 2),
    "lost_constraint": (lambda p: saved(p, LOST.lines), 6),
    "lost_commit": (lambda p: saved(p, LOST.lines), 6),
    "lost_value": (lambda p: saved(p, LOST.lines), 6),
    "lost_detail": (lambda p: saved(p, LOST.lines), 6),
    "lost_record": (lambda p: saved(p, [*LOST.lines[:1], *LOST.lines[4:]]), 2),
    "torn_tail": (lambda p: bytes_of(p, jsonl(GO) + TORN), 2),
    "no_message": (lambda p: bytes_of(p, json.dumps([*TALK, {"role": "exit"}]).encode()), 5),
    "branch": (lambda p: saved(p, TREE), 3),
    "orphan_result": (lambda p: saved(p, [GO, answers("c0")]), 2),
    "result_parted": (lambda p: saved(p, pi(("user", "a"), ("assistant", "!c1"), ("toolResult", "c1"), ("compaction", 3))), 5),
    "call_covered": (lambda p: saved(p, Claude().asks("go").calls("c1", "ls").compacts().lines), 3),
    "effect_repeated": (
        lambda p: saved(
            p, [GO, *(m for n, tool in enumerate(("a", "b", "a")) for m in (calls(f"c{n}", f"send_{tool}"), answers(f"c{n}")))]
        ),
        6,
    ),
    "effect_unanswered": (lambda p: saved(p, [GO, calls("c1", "git_push"), GO]), 2),
    "history_repeated": (lambda p: saved(p, [*TALK, *TALK]), 5),
    "id_repeated": (lambda p: saved(p, Claude().asks("one", uuid="same").asks("two", uuid="same").lines), 2),
    "effect_retried": (
        lambda p: saved(
            p, Claude().asks("go").calls("c1", PUSH).gets("c1", "hook failed", error=True).compacts().calls("c2", PUSH).gets("c2").lines
        ),
        6,
    ),
    "call_unanswered": (lambda p: saved(p, [GO, calls("c1", "tide"), GO]), 2),
    "call_id_reused": (lambda p: saved(p, [GO, calls("c1", "tide"), answers("c1"), calls("c1", "moon"), answers("c1")]), 4),
    "results_cleared": (lambda p: saved(p, Claude().asks("go").calls("c1", "ls").gets("c1", "a b").clears("c1").lines), 4),
    "summary_unreadable": (
        lambda p: saved(p, codex(item("user", "go"), item("assistant", "See OPS-12."), {"replacement_history": [item("user", "go")]})),
        4,
    ),
    "begins_midway": (lambda p: saved(p, LOST.lines[1:]), 1),
    "glued": (lambda p: bytes_of(p, jsonl(GO) + jsonl(GO)[:-1] + jsonl(GO)), 2),
    "written_twice": (lambda p: saved(p, [*Claude().asks("a").says("b").lines, Claude().asks("a").says("b").lines[1]]), 0),
}


def of_kind(done: Audit, kind: str) -> list[Finding]:
    return [f for f in done.findings if f.kind == kind]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_finding_is_found_where_it_stands_with_the_severity_of_its_table(tmp_path: Path, kind: str) -> None:
    make, line = STORIES[kind]
    found = of_kind(audit(make(tmp_path)), kind)
    assert [f.line for f in found] == [line]
    assert found[0].severity == KINDS[kind].severity
    assert json.dumps(found[0].detail), "the detail is JSON"


@pytest.mark.parametrize("kind", KINDS)
def test_findings_come_worst_first(tmp_path: Path, kind: str) -> None:
    done = audit(STORIES[kind][0](tmp_path))
    assert [f.severity for f in done.findings] == sorted((f.severity for f in done.findings), key=SEVERITIES.index)


def test_a_clean_history_has_no_finding(tmp_path: Path) -> None:
    assert audit(saved(tmp_path, TALK)).findings == ()


# --- what a boundary takes out of the view ---------------------------------------------------------------------------


def values(found: Iterable[Finding]) -> set[str]:
    return {v["value"] for f in found for v in f.detail["values"]}


def test_what_the_summary_carries_is_not_lost(tmp_path: Path) -> None:
    session = Claude().asks("Never touch the staging bucket.").asks("Port 8443, ticket OPS-12.").calls("c1", "git commit -m x")
    session.gets("c1", f"[main {SHA}] x").compacts(f"User: never touch   the bucket. OPS-12 was released from {SHA}1.")
    done = audit(saved(tmp_path, session.lines))
    (account,) = done.compactions
    kept = {(s.kind, s.author): (s.kept, s.total) for s in account.survival}
    assert kept["commit", "tool"] == (1, 1) and kept["constraint", "user"] == (0, 1)
    assert {v.value for v in account.lost} == {"Never touch the staging bucket.", "Port 8443"}
    assert (account.covered, account.covered_lines, account.kept, account.seen) == (4, (1, 4), 0, 1.0)
    assert (account.trigger, account.host_tokens) == ("auto", 1000)


def test_turns_that_a_newer_claude_code_keeps_behind_the_summary_are_still_in_the_view(tmp_path: Path) -> None:
    session = Claude().asks("Ticket OPS-12.").asks("Ticket OPS-13.")
    listed = Claude.compacts(Claude(), preservedMessages={"anchorUuid": "u4", "uuids": ["u2"]})
    session.add("system", None, subtype="compact_boundary", compactMetadata=listed.lines[0]["compactMetadata"])
    session.asks("They worked.", isCompactSummary=True)
    (account,) = audit(saved(tmp_path, session.lines)).compactions
    assert (account.covered, account.kept) == (1, 1)
    assert [v.value for v in account.lost] == ["Ticket OPS-12"]


def test_a_value_that_one_summary_carried_and_the_next_dropped_is_lost_at_the_next(tmp_path: Path) -> None:
    session = Claude().asks("Look at OPS-12.").compacts("It is about OPS-12.").asks("go on").compacts("They went on.")
    first, second = audit(saved(tmp_path, session.lines)).compactions
    assert not first.lost
    assert [(v.value, v.line) for v in second.lost] == [("OPS-12", 1)]


def test_cleared_results_are_gone_though_their_calls_stand_and_nobody_read_them(tmp_path: Path) -> None:
    session = (
        Claude().asks("go").calls("c1", "git commit -m x").gets("c1", f"[main {SHA}] x").calls("c2", "ls").gets("c2", "a").clears("c1")
    )
    session.compacts("They committed.")
    eviction, compaction = audit(saved(tmp_path, session.lines)).compactions
    assert (eviction.kind, eviction.covered, eviction.covered_lines, eviction.seen) == ("eviction", 1, (3, 3), 0.0)
    assert [v.value for v in eviction.lost] == [SHA]
    assert (compaction.covered, compaction.lost) == (5, ()), "lost once, not twice"


def test_an_effect_whose_outcome_was_cleared_and_that_is_made_again_is_a_blind_repeat(tmp_path: Path) -> None:
    session = Claude().asks("go").calls("c1", PUSH).gets("c1").clears("c1").calls("c2", PUSH).gets("c2")
    done = audit(saved(tmp_path, session.lines))
    assert [f.line for f in of_kind(done, "effect_repeated_blind")] == [5]
    assert [[c.line for c in r.calls] for r in done.compactions[0].repeated] == [[2, 5]]


def test_codex_keeps_what_its_replacement_history_says_again(tmp_path: Path) -> None:
    replaced = {"replacement_history": [item("user", "Look at OPS-12."), {"type": "compaction", "encrypted_content": "x"}]}
    lines = codex(item("user", "Look at OPS-12."), item("assistant", "See https://example.com/pull/7"), replaced)
    (account,) = audit(saved(tmp_path, lines)).compactions
    assert (account.covered, account.kept, account.summary_tokens) == (1, 1, None)
    assert [v.value for v in account.lost] == ["https://example.com/pull/7"]


def test_an_older_codex_summary_leaves_the_users_messages_in_the_view(tmp_path: Path) -> None:
    lines = codex(item("user", "Look at OPS-12."), item("assistant", "See OPS-13."))
    lines.append({"timestamp": "2026-06-25T00:00:01Z", "type": "compacted", "payload": {"message": "They looked."}})
    (account,) = audit(saved(tmp_path, lines)).compactions
    assert (account.covered, account.kept) == (1, 1)
    assert [v.value for v in account.lost] == ["OPS-13"]


def test_a_retry_in_the_same_view_after_a_clean_refusal_is_no_finding(tmp_path: Path) -> None:
    """R50: refused, seen, tried again: that is how it should be."""
    said = [GO, calls("c1", "book_table", n=4), answers("c1", "Error: full"), calls("c2", "book_table", n=4), answers("c2", "T-1")]
    assert audit(saved(tmp_path, said)).findings == ()


def test_the_same_command_under_another_description_is_the_same_call(tmp_path: Path) -> None:
    session = Claude().asks("go")
    for id, why in (("c1", "Push"), ("c2", "Push it")):
        session.add("assistant", [{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": PUSH, "description": why}}]).gets(id)
    assert [f.line for f in of_kind(audit(saved(tmp_path, session.lines)), "effect_doubled")] == [4]


def test_what_changes_state_can_be_said_by_the_caller(tmp_path: Path) -> None:
    file = saved(tmp_path, [GO, calls("c1", "water_the_plants")])
    assert not of_kind(audit(file), "effect_in_flight")
    assert of_kind(audit(file, changes_state=("water_*",)), "effect_in_flight")


def test_parallel_calls_in_flight_are_each_named(tmp_path: Path) -> None:
    """A commit is still running though a call of the same message was answered; behind the next words it no longer is."""
    session = Claude().asks("go").calls("c1", "git commit -m x").calls("c2", "ls").gets("c2")
    session.lines[2]["message"]["id"] = session.lines[1]["message"]["id"]
    assert [f.line for f in of_kind(audit(saved(tmp_path, session.lines)), "effect_in_flight")] == [2]
    done = audit(saved(tmp_path, session.says("Next.").lines))
    assert not of_kind(done, "effect_in_flight") and len(of_kind(done, "effect_unanswered")) == 1


# --- real transcripts ------------------------------------------------------------------------------------------------

REAL = {
    "claude_code": ("claude_code/*.jsonl", "claude_code/*/*/*.jsonl"),
    "codex": ("codex/*.jsonl",),
    "pi": ("pi/*.jsonl",),
    "openai_chat": ("tau_bench/*.json", "tau2_bench/*.json", "mini_swe_agent/*.json"),
}
C0 = "claude_code/c010174c-a7cd-4bcc-b7d4-61258d6c463f"


def real(data_dir: Path) -> list[tuple[str, Path]]:
    return [
        (format, p) for format, globs in REAL.items() for glob in globs for p in sorted(data_dir.glob(glob)) if ".checkpoints" not in p.name
    ]


@pytest.mark.data
def test_every_real_transcript_is_audited_and_none_is_changed(data_dir: Path) -> None:
    for format, file in real(data_dir):
        before = (hashlib.sha256(file.read_bytes()).digest(), file.stat().st_mtime_ns)
        done = audit(file)
        assert (done.format, done.skipped) == (format, "") and done.records > 0 and done.tokens > 0
        lines = file.read_bytes().count(b"\n") + 1
        assert format == "openai_chat" or all(0 <= f.line <= lines for f in done.findings)
        assert (hashlib.sha256(file.read_bytes()).digest(), file.stat().st_mtime_ns) == before


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "unanswered", "orphans", "boundaries"),
    [
        ("claude_code/03a1382e-ecd5-42c4-b3d4-5c659e165904.jsonl", 0, 0, ["compaction"]),
        ("claude_code/130d7b7e-torn-line.jsonl", 0, 0, []),
        ("claude_code/47a78253-7d91-4be2-bfd3-f5ac53c9195b.jsonl", 0, 1, []),
        ("claude_code/839b35f7-slice-microcompact-and-compact.jsonl", 0, 0, ["eviction", "compaction"]),
        ("claude_code/8b418ea5-895d-4ad5-abe8-4489d36e454f.jsonl", 0, 0, []),
        (f"{C0}.jsonl", 2, 0, ["compaction"]),
        ("claude_code/spotter-ae4a77f8-aedd-4bc1-888f-c94edc91af04.jsonl", 0, 0, ["compaction"]),
        ("codex/rollout-2026-06-25T02-07-10-019efc87-fa98-7971-91df-0c9512a065da.jsonl", 2, 0, ["compaction"]),
        ("codex/rollout-2026-06-26T12-20-52-019f03e0-321f-7eb2-83cc-b54ecd71be23.jsonl", 0, 0, ["compaction"] * 2),
        ("codex/rollout-2026-06-26T22-06-39-019f05f8-7f53-7492-a941-83098e16765c.jsonl", 0, 0, []),
        ("pi/before-compaction.jsonl", 6, 0, ["compaction"] * 2),
        ("pi/session-torn-line.jsonl", 0, 0, ["compaction"]),
    ],
)
def test_a_real_session_has_the_pairs_and_boundaries_counted_by_hand(
    data_dir: Path, name: str, unanswered: int, orphans: int, boundaries: list[str]
) -> None:
    done = audit(data_dir / name)
    named = {
        (c["line"], c["id"])
        for f in done.findings
        if f.kind in ("effect_in_flight", "effect_unanswered", "call_unanswered", "effect_covered", "call_covered")
        for c in f.detail.get("calls", [f.detail.get("call")])
    }
    assert len(named) == unanswered
    assert sum(len(f.detail["results"]) for f in of_kind(done, "orphan_result")) == orphans
    assert [a.kind for a in done.compactions] == boundaries


@pytest.mark.data
def test_checkpoints_taken_while_a_commit_ran_are_named_by_that_commit(data_dir: Path, tmp_path: Path) -> None:
    """Three checkpoints of one session were written by git's own hook: the commit that wrote them has no result in them."""
    lines = (data_dir / f"{C0}.jsonl").read_bytes().split(b"\n")
    in_flight = []
    for checkpoint in json.loads((data_dir / f"{C0}.checkpoints.json").read_bytes())["checkpoints"]:
        found = of_kind(audit(bytes_of(tmp_path, b"\n".join(lines[: checkpoint["lines"]]))), "effect_in_flight")
        assert {f.detail["call"]["id"] for f in found} <= {c["tool_use_id"] for c in checkpoint["in_flight_tool_calls"]}
        in_flight += [(f.line, "git commit" in f.text) for f in found]
    assert in_flight == [(230, True), (342, True), (539, True)]


@pytest.mark.data
def test_the_booking_that_was_made_twice_is_found_with_both_outcomes(data_dir: Path) -> None:
    """The identical call succeeded twice: HATHAU, which was then cancelled, and HATHAV."""
    file = data_dir / "tau_bench" / "gpt-4o-airline.json"
    (found,) = [f for f in audit(file, conversation=3 * 50).findings if f.kind == "effect_repeated"]
    assert found.detail["conversation"] == "task 0 trial 3"
    assert [(c["tool"], c["line"], c["outcome"]) for c in found.detail["calls"]] == [
        ("book_reservation", 31, "done"),
        ("book_reservation", 43, "done"),
    ]
    assert "HATHAU" in found.text and "HATHAV" in found.text
    assert [(c["tool"], c["line"]) for c in found.detail["between"]] == [("cancel_reservation", 37)]
    twice = [f for f in audit(file).findings if f.kind.startswith("effect_")]
    assert twice == [found], "the other 199 conversations repeat no effect that took place"


@pytest.mark.data
def test_the_default_patterns_name_the_state_changing_calls_of_the_airline_and_no_others(data_dir: Path) -> None:
    changing = [
        c.tool
        for _, items in read_all(data_dir / "tau_bench" / "gpt-4o-airline.json")
        for c in history(items, "openai_chat", DEFAULT).calls
        if c.changes_state
    ]
    assert len(changing) == 298
    assert not {"think", "calculate", "get_reservation_details", "search_direct_flight"} & set(changing)


@pytest.mark.data
@pytest.mark.parametrize(("name", "line"), [("claude_code/130d7b7e-torn-line.jsonl", 128), ("pi/session-torn-line.jsonl", 440)])
def test_a_real_torn_line_is_named_by_its_number(data_dir: Path, name: str, line: int) -> None:
    assert [f.line for f in of_kind(audit(data_dir / name), "glued")] == [line]


# --- the numbers again, by a second and dumber way -------------------------------------------------------------------

MADE = re.compile(r"\[[^\]\n]{1,100} ([0-9a-f]{7,40})\]|HEAD is now at ([0-9a-f]{7,40})|[0-9a-f]{7,40}\.{2,3}([0-9a-f]{7,40}) +\S+ +->")


def raw(file: Path) -> list[tuple[int, dict[str, Any]]]:
    """The lines of a session with their numbers, two on one line taken apart."""
    out = []
    for number, line in enumerate(file.read_text().split("\n"), 1):
        at = 0
        while at < len(line):
            value, at = json.JSONDecoder().raw_decode(line, at)
            out.append((number, value))
    return out


def texts(value: Any) -> Iterable[str]:
    """Every string inside."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inside in value.values() if isinstance(value, dict) else value:
            yield from texts(inside)


def commits(results: Iterable[Any]) -> set[str]:
    return {next(filter(None, match)) for result in results for text in texts(result) for match in MADE.findall(text)}


def reported(account: auditor.CompactionAudit) -> tuple[int, int]:
    return next(((s.kept, s.total) for s in account.survival if (s.kind, s.author) == ("commit", "tool")), (0, 0))


@pytest.mark.data
def test_the_commits_that_claude_code_summaries_lose_are_counted_right(data_dir: Path) -> None:
    """In the delivered sessions no summary keeps a SHA that git reported: 0 of 5."""
    total = kept = 0
    for file in sorted((data_dir / "claude_code").glob("*.jsonl")):
        lines = [json.loads(line) for line in file.read_text().split("\n") if line and file.name != "130d7b7e-torn-line.jsonl"]
        end = next((n for n, line in enumerate(lines) if line.get("isCompactSummary")), None)
        if end is None:
            continue
        blocks = [b for line in lines[:end] for b in (line.get("message") or {}).get("content") or () if isinstance(b, dict)]
        made = commits(b["content"] for b in blocks if b["type"] == "tool_result")
        stand = {sha for sha in made if sha in "".join(texts(lines[end]["message"]["content"]))}
        account = audit(file).compactions[-1]
        assert reported(account) == (len(stand), len(made)), file.name
        assert {v.value for v in account.lost if (v.kind, v.author) == ("commit", "tool")} == made - stand
        total, kept = total + len(made), kept + len(stand)
    assert (kept, total) == (0, 5)


@pytest.mark.data
def test_the_tail_that_pi_kept_and_then_dropped_unread_takes_its_commits_with_it(data_dir: Path) -> None:
    """Lines 294-359 stayed at the first compaction and left at the second, whose writer got only what came after the first."""
    file = data_dir / "pi" / "before-compaction.jsonl"
    lines = [line for _, line in raw(file)]
    ends = [n for n, line in enumerate(lines) if line["type"] == "compaction"]
    kept_from = [lines[n]["firstKeptEntryIndex"] for n in ends]
    results = [line["message"]["content"] if line.get("message", {}).get("role") == "toolResult" else "" for line in lines]
    first, second = audit(file).compactions
    view = "".join(texts([lines[ends[0]]["summary"], lines[kept_from[0] : ends[0]]]))
    made = commits(results[: kept_from[0]])
    assert reported(first) == (sum(sha in view for sha in made), len(made)) == (14, 14)
    later = "".join(texts([lines[ends[1]]["summary"], lines[kept_from[1] : ends[1]]]))
    made |= commits(results[kept_from[0] : kept_from[1]])
    assert reported(second) == (sum(sha in later for sha in made), len(made)) == (0, 17)
    unread = [n for n in range(kept_from[0], ends[0]) if lines[n]["type"] == "message" and lines[n]["message"].get("content") != []]
    assert (second.unseen, second.unseen_lines) == (len(unread), (unread[0] + 1, unread[-1] + 1)) == (66, (294, 359))
    assert first.seen == 1.0 and 0.8 < (second.seen or 0) < 0.9


def left_in_view(file: Path, boundary: int) -> str | None:
    """All strings of the raw lines that stand in the view behind a boundary; None where the host hides its summary."""
    lines = raw(file)
    (at,) = [line for number, line in lines if number == boundary]
    if at["type"] == "compaction":
        kept = [line for number, line in lines if at["firstKeptEntryIndex"] < number < boundary]
        return " ".join(texts([at["summary"], kept]))
    summary = [line for number, line in lines if number > boundary and line.get("isCompactSummary")]
    return " ".join(texts(summary[0]["message"])) if at.get("subtype") == "compact_boundary" else None


@pytest.mark.data
def test_no_value_that_is_called_lost_stands_in_what_was_left(data_dir: Path) -> None:
    """For each real boundary: the summary and the raw lines that stayed hold none of the lost values."""
    judged = 0
    for file in (data_dir / SESSIONS["pi"], *sorted((data_dir / "claude_code").glob("*.jsonl"))):
        for account in audit(file).compactions:
            view = left_in_view(file, account.line)
            for value in account.lost if view is not None else ():
                judged += 1
                assert " ".join(value.value.split()) not in " ".join((view or "").split()), (file.name, value)
    assert judged > 50


# --- damaged copies --------------------------------------------------------------------------------------------------

SESSIONS = {
    "claude_code": f"{C0}.jsonl",
    "codex": "codex/rollout-2026-06-26T22-06-39-019f05f8-7f53-7492-a941-83098e16765c.jsonl",
    "pi": "pi/before-compaction.jsonl",
}


def a_call(lines: list[bytes]) -> int:
    """The index of a line in the middle that calls a tool and says nothing else."""
    middle = len(lines) // 3
    marks = (b'"type":"tool_use"', b'"type":"function_call"', b'"type":"toolCall"')
    return next(n for n in range(middle, len(lines)) if any(mark in lines[n] for mark in marks))


@pytest.mark.data
@pytest.mark.parametrize("format", SESSIONS)
def test_a_cut_tail_a_run_of_nuls_and_glued_lines_are_named_by_their_line(data_dir: Path, tmp_path: Path, format: str) -> None:
    """R5: never a shorter history without a word."""
    lines = (data_dir / SESSIONS[format]).read_bytes().rstrip(b"\n").split(b"\n")
    at = a_call(lines)
    copies = {
        ("torn_tail", at + 1): b"\n".join([*lines[:at], lines[at][: len(lines[at]) // 2]]),
        ("damaged", at + 1): b"\n".join([*lines[:at], b"\0" * 4096 + lines[at], *lines[at + 1 :]]),
        ("glued", at + 1): b"\n".join([*lines[:at], lines[at] + lines[at + 1], *lines[at + 2 :]]),
    }
    for (kind, line), data in copies.items():
        done = audit(bytes_of(tmp_path, data))
        assert done.format == format
        assert line in [f.line for f in of_kind(done, kind)], kind
    assert not {"torn_tail", "damaged", "glued"} & {f.kind for f in audit(data_dir / SESSIONS[format]).findings}


@pytest.mark.data
@pytest.mark.parametrize("format", SESSIONS)
def test_a_call_dropped_from_the_middle_leaves_an_orphan_that_is_named(data_dir: Path, tmp_path: Path, format: str) -> None:
    lines = (data_dir / SESSIONS[format]).read_bytes().rstrip(b"\n").split(b"\n")
    at = a_call(lines)
    done = audit(bytes_of(tmp_path, b"\n".join([*lines[:at], *lines[at + 1 :]])))
    named = [result["line"] for f in of_kind(done, "orphan_result") for result in f.detail["results"]]
    assert named and at < named[0] <= at + 20
    assert not of_kind(audit(data_dir / SESSIONS[format]), "orphan_result")


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterable[tuple[Any, ...]]:
    """The way to everything inside."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*way, key)
        yield from places(value[key], (*way, key))


@pytest.mark.parametrize(
    "kind", ["results_cleared", "lost_commit", "unread_removal", "result_parted", "summary_unreadable", "call_id_reused"]
)
@pytest.mark.parametrize("wrong", [None, 7, "x", [], {}, [7], {"a": 1}, True], ids=repr)
def test_a_field_of_another_type_is_never_a_crash(tmp_path: Path, kind: str, wrong: Any) -> None:
    """A host's next version, or a damaged file: whatever stands at any place of any line, the rest is audited."""
    lines = [json.loads(line) for line in STORIES[kind][0](tmp_path).read_text().splitlines()]
    for n, line in enumerate(lines):
        for *way, last in list(places(line)):
            copy = json.loads(json.dumps(lines))
            held = copy[n]
            for key in way:
                held = held[key]
            held[last] = wrong
            (done,) = audit_paths([saved(tmp_path, copy)])
            assert done.skipped or done.records >= 1
            assert render_text([done]) and render_html([done])


# --- many files ------------------------------------------------------------------------------------------------------


def test_a_directory_is_walked_and_what_is_no_transcript_is_listed_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "project" / "subagents").mkdir(parents=True)
    saved(tmp_path / "project", TALK)
    saved(tmp_path / "project" / "subagents", Claude().asks("search").lines)
    (tmp_path / "project" / "settings.json").write_text('{"theme": "dark"}')
    (tmp_path / "project" / "notes.md").write_text("no JSON at all")
    found = audit_paths([tmp_path])
    assert [(str(a.path.relative_to(tmp_path)), a.format) for a in found] == [
        ("project/log.jsonl", "openai_chat"),
        ("project/settings.json", ""),
        ("project/subagents/log.jsonl", "claude_code"),
    ]
    assert "the keys theme" in found[1].skipped and found[1].findings == ()
    assert "settings.json: the format of" in render_text(found)


def test_a_file_named_by_hand_is_audited_whatever_its_name_and_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    saved(tmp_path, TALK).rename(tmp_path / "log.txt")
    assert [a.records for a in audit_paths([tmp_path / "log.txt"])] == [4]
    with pytest.raises(Unavailable, match="no such file"):
        audit_paths([tmp_path / "missing.jsonl"])


def test_an_unknown_format_and_an_unknown_conversation_are_refused(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"theme": "dark"}')
    with pytest.raises(PolicyError, match="not known"):
        audit(tmp_path / "settings.json")
    with pytest.raises(PolicyError, match="conversation 3"):
        audit(saved(tmp_path, TALK), conversation=3)
    with pytest.raises(PolicyError, match="gopher"):
        audit_paths([saved(tmp_path, TALK)], "gopher")
    with pytest.raises(PolicyError, match="bracket"):
        audit_paths([saved(tmp_path, TALK)], changes_state=("Bash(git push*",))


def test_the_shipped_sample_holds_the_mail_that_was_sent_twice() -> None:
    found = of_kind(audit(sample_path()), "effect_doubled")
    assert [c["tool"] for f in found for c in f.detail["calls"]] == ["send_email", "send_email"]


def test_the_analysis_knows_no_disk() -> None:
    folder = Path(auditor.__file__).parent
    for name in ("findings", "history", "boundaries", "repeats", "judge", "report", "page"):
        tree = ast.parse((folder / f"{name}.py").read_text())
        loaded = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {a.name for n in loaded if isinstance(n, ast.Import) for a in n.names} | {
            n.module for n in loaded if isinstance(n, ast.ImportFrom)
        }
        assert not names & {"os", "io", "pathlib", "time", "random", "sys", "asyncio", "threading"}, name


# --- reports ---------------------------------------------------------------------------------------------------------

HOSTILE = "<script>alert('x')</script>\"'&<img src=http://evil.example/x>\x1b[2J\u202e\ud800\0"


class Page(HTMLParser):
    """Every tag is closed in its turn, no attribute leads outside, and the text is what was written."""

    VOID = ("meta",)

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        assert not {name for name, _ in attrs} - {"lang", "charset", "name", "content", "http-equiv", "class", "min", "max", "value"}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(html: str) -> Page:
    page = Page()
    page.feed(html)
    page.close()
    assert page.open == [] and html.startswith("<!doctype html>")
    allowed = {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "section",
        "h1",
        "h2",
        "h3",
        "p",
        "b",
        "ul",
        "li",
        "table",
        "tr",
        "th",
        "td",
    }
    assert page.seen <= allowed | {"meter"}
    assert "url(" not in html and "@import" not in html
    return page


def hostile(path: Path) -> list[Audit]:
    session = Claude().asks(f"Never {HOSTILE} or `{HOSTILE}`.").calls(HOSTILE, f"git push {HOSTILE}", "Bash").gets(HOSTILE, HOSTILE)
    session.calls("c2", HOSTILE, HOSTILE).compacts(HOSTILE[:20]).calls("c3", f"git push {HOSTILE}", "Bash").gets("c3", HOSTILE)
    session.lines[7]["compactMetadata"] = {}
    other = path / "<b onclick=x>.json"
    other.write_text(json.dumps([{"task_id": HOSTILE, "trial": 1, "traj": [GO, calls("c1", "send_mail", to=HOSTILE)]}]))
    (path / "&<i>.json").write_text(json.dumps({HOSTILE: 1}))
    session.lines.insert(0, {"type": "summary", "summary": HOSTILE, "leafUuid": "x"})
    return audit_paths([saved(path, session.lines), other, path / "&<i>.json"])


def test_a_page_is_well_formed_and_shows_what_a_transcript_says_as_text_only(tmp_path: Path) -> None:
    found = hostile(tmp_path)
    html = render_html(found)
    page = parsed(html)
    assert "<script" not in html and "<img" not in html and "<b onclick" not in html and "<i>" not in html
    assert "<script>alert('x')</script>" in "".join(page.text)
    assert html.encode() and not re.search("[\x00-\x08\x0e-\x1f\x7f\u202e]", html)
    assert {"effect_repeated_blind", "lost_constraint", "effect_in_flight"} <= {f.kind for a in found for f in a.findings}


def test_a_report_for_the_terminal_cannot_steer_it(tmp_path: Path) -> None:
    text = render_text(hostile(tmp_path))
    assert text.encode() and not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    assert "3" in text and "1 skipped" in text


def test_json_says_the_same_as_the_audit(tmp_path: Path) -> None:
    found = hostile(tmp_path)
    value = json.loads(json.dumps(to_json(found)))
    assert value == to_json(found), "JSON values only"
    assert [a["counts"] for a in value["audits"]] == [{s: a.count(s) for s in SEVERITIES} for a in found]
    first = value["audits"][0]
    assert [f["kind"] for f in first["findings"]] == [f.kind for f in found[0].findings]
    account = first["compactions"][0]
    assert account["covered_lines"] == [2, 5] and account["repeated"][0]["kind"] == "effect_repeated_blind"
    assert len(account["lost"]) == len(found[0].compactions[0].lost) > 0


def test_the_worst_file_is_told_first_and_the_sound_ones_in_a_line_each(tmp_path: Path) -> None:
    """Whoever reads only the first screen reads what matters."""
    (tmp_path / "a").mkdir()
    sound = saved(tmp_path / "a", TALK)
    (tmp_path / "z").mkdir()
    worst = saved(tmp_path / "z", [GO, calls("c1", "git_commit", message="x")])
    found = audit_paths([tmp_path])
    assert [a.path for a in found] == [sound, worst] and found[1].findings
    report, page = render_text(found), render_html(found)
    for text in (report, page):
        assert text.index(str(worst)) < text.lower().index("nothing found") < text.index(str(sound))
    assert report.count(str(sound)) == 1


@pytest.mark.data
def test_the_real_sessions_give_a_whole_page_and_report(data_dir: Path) -> None:
    found = audit_paths([data_dir / "claude_code", data_dir / "pi"])
    page = "".join(parsed(render_html(found)).text)
    report = render_text(found)
    for f in (f for a in found for f in a.findings):
        assert f.kind in report and f.kind.replace("_", " ") in page
    assert str(data_dir / "pi" / "before-compaction.jsonl") in report
    assert sum(a.skipped != "" for a in found) == len(list((data_dir / "claude_code").glob("*.checkpoints.json")))
