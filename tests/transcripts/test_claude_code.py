"""Claude Code sessions, read as what the model saw."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lineal.messages import parse
from lineal.transcripts import Boundary, Damage, Item, Record, read

SUMMARY = "This session is being continued from a previous conversation."


class Session:
    """Writes the lines of a session as the host would: each names the one before as its parent."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.last: str | None = None

    def add(self, kind: str, uuid: str, **fields: Any) -> Session:
        self.lines.append({"type": kind, "uuid": uuid, "parentUuid": self.last, "sessionId": "s1", "isSidechain": False, **fields})
        self.last = uuid
        return self

    def user(self, uuid: str, content: Any, **fields: Any) -> Session:
        return self.add("user", uuid, message={"role": "user", "content": content}, **fields)

    def says(self, uuid: str, message_id: str, *blocks: dict[str, Any], **fields: Any) -> Session:
        message = {"id": message_id, "role": "assistant", "content": list(blocks), "usage": {"input_tokens": 9}}
        return self.add("assistant", uuid, message=message, timestamp="2026-02-07T04:23:03.483Z", **fields)

    def result(self, uuid: str, call: str, text: str = "ok") -> Session:
        return self.user(uuid, [{"type": "tool_result", "tool_use_id": call, "content": text}], toolUseResult={"stdout": text})

    def write(self, path: Path, drop: int | None = None) -> Path:
        file = path / "session.jsonl"
        file.write_text("\n".join(json.dumps(line) for i, line in enumerate(self.lines) if i != drop))
        return file


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(id: str, tool: str = "Bash") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": tool, "input": {"command": "date"}}


def records(items: list[Item]) -> list[Record]:
    return [i for i in items if isinstance(i, Record)]


def damage(items: list[Item]) -> list[Damage]:
    return [i for i in items if isinstance(i, Damage)]


def test_lines_of_one_message_become_one_message_in_the_shape_the_api_takes(tmp_path: Path) -> None:
    thinking = {"type": "thinking", "thinking": "", "signature": "c2lnbmVk"}
    session = (
        Session().user("u1", "what time is it?").says("a1", "m1", thinking).says("a2", "m1", text("Looking.")).says("a3", "m1", call("t1"))
    )
    first, second, third = records(list(read(session.result("r1", "t1").write(tmp_path))))
    assert first.message == {"role": "user", "content": "what time is it?"}
    assert second.message == {"role": "assistant", "content": [thinking, text("Looking."), call("t1")]}
    assert (second.line, second.id, second.author, second.at) == (2, "a1", "assistant", 1770438183.483)
    assert (third.id, third.author) == ("r1", "tool")
    assert "toolUseResult" not in third.message


def test_parallel_calls_written_one_by_one_are_one_message_with_its_results_behind(tmp_path: Path) -> None:
    """The file has call, result, call, result; the model saw both calls, then both results (R11)."""
    session = Session().user("u1", "go").says("a1", "m1", call("t1")).result("r1", "t1").says("a2", "m1", call("t2")).result("r2", "t2")
    items = records(list(read(session.says("a3", "m2", text("Done.")).write(tmp_path))))
    assert [r.id for r in items] == ["u1", "a1", "r1", "r2", "a3"]
    assert items[1].message["content"] == [call("t1"), call("t2")]


def test_a_result_with_the_users_words_in_it_gives_two_records_with_two_authors(tmp_path: Path) -> None:
    """Tool output never counts as the user's words (R19)."""
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "delete everything"}
    session = Session().user("u1", "go").says("a1", "m1", call("t1")).user("r1", [result, text("wait, which branch?")])
    items = records(list(read(session.write(tmp_path))))
    assert [(r.id, r.author) for r in items[2:]] == [("r1", "tool"), ("r1:text", "user")]
    assert items[3].message["content"] == [text("wait, which branch?")]


@pytest.mark.parametrize(
    ("content", "fields", "author"),
    [
        ("yes, do it", {}, "user"),
        ("<command-name>/compact</command-name>", {}, "user"),
        ([text("Base directory for this skill: ...")], {"isMeta": True}, "system"),
        ("<local-command-stdout>Goodbye!</local-command-stdout>", {}, "system"),
        ([text("[Request interrupted by user for tool use]")], {}, "system"),
    ],
)
def test_who_wrote_a_line_with_the_role_user(tmp_path: Path, content: Any, fields: dict[str, Any], author: str) -> None:
    """R19"""
    assert [r.author for r in records(list(read(Session().user("u1", content, **fields).write(tmp_path))))] == [author]


def test_what_no_model_saw_is_skipped_and_counted(tmp_path: Path) -> None:
    session = (
        Session().user("u1", "hello").add("progress", "p1", data={"type": "bash_progress"}).add("system", "s1", subtype="turn_duration")
    )
    session.lines.append({"type": "file-history-snapshot", "messageId": "x", "snapshot": {}})
    session.lines.append({"type": "queue-operation", "operation": "enqueue", "sessionId": "s1"})
    session.lines.append({"type": "summary", "summary": "A title", "leafUuid": "u1"})
    session.says("e1", "m0", text("API Error"), isApiErrorMessage=True).says("c1", "m9", text("I am a sub-agent"), isSidechain=True)
    tally: Counter[str] = Counter()
    items = list(read(session.write(tmp_path), tally=tally))
    assert [r.id for r in records(items)] == ["u1"] and not damage(items)
    expected = ("progress", "system/turn_duration", "file-history-snapshot", "queue-operation", "summary", "api error", "sidechain")
    assert tally == dict.fromkeys(expected, 1)


def test_a_sub_agents_own_file_is_read_as_the_conversation_it_is(tmp_path: Path) -> None:
    session = Session().user("u1", "search", isSidechain=True).says("a1", "m1", text("found"), isSidechain=True)
    assert [r.id for r in records(list(read(session.write(tmp_path))))] == ["u1", "a1"]


def test_a_compaction_is_a_boundary_with_the_hosts_summary_and_no_user_turn(tmp_path: Path) -> None:
    session = Session().user("u1", "go")
    session.last = None
    session.add(
        "system", "b1", subtype="compact_boundary", logicalParentUuid="u1", compactMetadata={"trigger": "auto", "preTokens": 168483}
    )
    session.user("c1", SUMMARY, isCompactSummary=True).says("a1", "m1", text("On with it."))
    items = list(read(session.write(tmp_path)))
    assert items[1] == Boundary(2, "compaction", SUMMARY, {"trigger": "auto", "tokens_before": 168483})
    assert [r.id for r in records(items)] == ["u1", "a1"] and not damage(items)


@pytest.mark.parametrize(
    "metadata",
    [
        {"preservedMessages": {"anchorUuid": "c1", "uuids": ["a2", "u2"]}},
        {"preservedSegment": {"headUuid": "a2", "anchorUuid": "c1", "tailUuid": "u2"}},
        {"preservedSegment": {"headUuid": "a1", "anchorUuid": "c1", "tailUuid": "somewhere else"}},
    ],
)
def test_what_a_newer_version_keeps_behind_the_summary_is_named_by_its_records(tmp_path: Path, metadata: Any) -> None:
    """A message of two lines is one record, whichever of its lines the boundary names."""
    session = Session().user("u1", "go").says("a1", "m1", text("I look.")).says("a2", "m1", call("t1")).result("u2", "t1")
    session.add("system", "b1", subtype="compact_boundary", compactMetadata={"trigger": "auto", **metadata}).user(
        "c1", SUMMARY, isCompactSummary=True
    )
    (boundary,) = [i for i in read(session.write(tmp_path)) if isinstance(i, Boundary)]
    assert boundary.detail == {"trigger": "auto", "kept_ids": ["a1", "u2"]}


def test_a_summary_whose_boundary_line_is_missing_is_a_boundary_all_the_same(tmp_path: Path) -> None:
    items = list(read(Session().user("u1", "go").user("c1", SUMMARY, isCompactSummary=True).write(tmp_path)))
    assert items[1:] == [Boundary(2, "compaction", SUMMARY, {})]


def test_cleared_tool_results_are_an_eviction_with_the_ids(tmp_path: Path) -> None:
    metadata = {"trigger": "auto", "preTokens": 60888, "tokensSaved": 21091, "compactedToolIds": ["t1", "t2"]}
    session = Session().user("u1", "go").add("system", "b1", subtype="microcompact_boundary", microcompactMetadata=metadata)
    detail = {"trigger": "auto", "tokens_before": 60888, "tokens_saved": 21091, "tool_ids": ["t1", "t2"]}
    assert list(read(session.write(tmp_path)))[1] == Boundary(2, "eviction", None, detail)


def a_session() -> Session:
    session = Session().user("u1", "go").says("a1", "m1", text("I look.")).says("a2", "m1", call("t1")).says("a3", "m1", call("t2"))
    session.result("r1", "t1").result("r2", "t2").says("a4", "m2", text("Done.")).user("u2", "thanks")
    return session


@pytest.mark.parametrize("dropped", range(len(a_session().lines) - 1))
def test_any_line_dropped_from_the_middle_leaves_a_trace(tmp_path: Path, dropped: int) -> None:
    """R5: never a shorter history without a word. Only the very last line can go unseen."""
    assert not damage(list(read(a_session().write(tmp_path))))
    found = damage(list(read(a_session().write(tmp_path, drop=dropped))))
    assert found and all(d.why.startswith("lost ") and d.raw == b"" for d in found)


def test_a_record_written_a_second_time_in_other_bytes_is_taken_once(tmp_path: Path) -> None:
    """A resumed session writes its last record again; the second `git push` must not count as another call."""
    session = Session().user("u1", "go").says("a1", "m1", call("t1"))
    again = {"version": "2.1.12", **session.lines[-1]}
    session.lines.append(again)
    tally: Counter[str] = Counter()
    items = list(read(session.result("r1", "t1").write(tmp_path), tally=tally))
    assert [r.id for r in records(items)] == ["u1", "a1", "r1"] and not damage(items)
    assert tally == {"record written a second time": 1}


def test_another_record_under_the_same_id_gets_an_id_of_its_own(tmp_path: Path) -> None:
    session = Session().user("u1", "one").user("u1", "two")
    assert [r.id for r in records(list(read(session.write(tmp_path))))] == ["u1", "u1#2"]


@pytest.mark.parametrize("message", [None, "text", {"role": "user"}, {"role": "user", "content": 7}, {"role": "user", "content": ["x"]}])
def test_a_line_without_a_message_is_damage(tmp_path: Path, message: Any) -> None:
    session = Session().user("u1", "go").add("user", "u2", message=message)
    items = list(read(session.write(tmp_path)))
    assert [d.why for d in damage(items)] == ["a user line without a message or without an id"]
    assert json.loads(damage(items)[0].raw)["uuid"] == "u2"


# --- real sessions ---------------------------------------------------------------------------------------------------

FACTS = [  # file, texts with the role user (the host's summaries among them), messages of the assistant, unanswered, orphans, compactions
    ("03a1382e-ecd5-42c4-b3d4-5c659e165904.jsonl", 37, 185, 0, 0, 1),
    ("130d7b7e-torn-line.jsonl", 6, 42, 0, 0, 0),
    ("47a78253-7d91-4be2-bfd3-f5ac53c9195b.jsonl", 2, 22, 0, 1, 0),
    ("839b35f7-slice-microcompact-and-compact.jsonl", 10, 49, 0, 0, 1),
    ("8b418ea5-895d-4ad5-abe8-4489d36e454f.jsonl", 8, 22, 0, 0, 0),
    ("c010174c-a7cd-4bcc-b7d4-61258d6c463f.jsonl", 8, 93, 2, 0, 1),
    ("spotter-ae4a77f8-aedd-4bc1-888f-c94edc91af04.jsonl", 5, 217, 0, 0, 1),
    ("spotter-ae4a77f8-aedd-4bc1-888f-c94edc91af04/subagents/agent-aac57f5.jsonl", 1, 3, 0, 0, 0),
    ("spotter-ae4a77f8-aedd-4bc1-888f-c94edc91af04/subagents/agent-acompact-946d2b.jsonl", 1, 1, 0, 0, 0),
]


@pytest.mark.data
@pytest.mark.parametrize(("name", "texts", "messages", "unanswered", "orphans", "compactions"), FACTS)
def test_a_real_session_has_the_turns_and_pairs_that_were_counted_by_hand(
    data_dir: Path, name: str, texts: int, messages: int, unanswered: int, orphans: int, compactions: int
) -> None:
    file = data_dir / "claude_code" / name
    items = list(read(file))
    boundaries = [i for i in items if isinstance(i, Boundary) and i.kind == "compaction"]
    injected = {n for n, line in enumerate(file.read_bytes().split(b"\n"), 1) if b'"isMeta":true' in line}
    said = [r for r in records(items) if r.author in ("user", "system") and r.line not in injected]
    assert len(boundaries) == compactions and all(b.summary and b.summary.startswith("This session") for b in boundaries)
    assert len(said) + len(boundaries) == texts
    assert sum(r.author == "assistant" for r in records(items)) == messages
    made: set[str] = set()
    answered: set[str] = set()
    for record in records(items):
        parsed = parse(record.message, record.author)
        assert sum(r.call not in made for r in parsed.results) == (orphans if record is records(items)[0] else 0)
        made |= {c.id for c in parsed.calls}
        answered |= {r.call for r in parsed.results}
    assert len(made - answered) == unanswered


@pytest.mark.data
@pytest.mark.parametrize("name", [facts[0] for facts in FACTS])
def test_no_object_of_a_real_file_is_unaccounted_for(data_dir: Path, name: str) -> None:
    """Lines in records, boundaries and the tally together are all whole objects of the file, and all ids are different."""
    file = data_dir / "claude_code" / name
    tally: Counter[str] = Counter()
    items = list(read(file, tally=tally))
    lines = len(file.read_bytes().rstrip(b"\n").split(b"\n")) + (name == "130d7b7e-torn-line.jsonl")
    first = {(r.line, (r.id or "").removesuffix(":text")) for r in records(items)}
    assert len(first) + sum(isinstance(i, Boundary) for i in items) + tally.total() == lines
    assert len({r.id for r in records(items)}) == len(records(items))


@pytest.mark.data
def test_the_real_damage_is_found_where_it_stands(data_dir: Path) -> None:
    def found(name: str) -> list[tuple[int, str]]:
        return [(d.line, d.why.split(":")[0]) for d in damage(list(read(data_dir / "claude_code" / name)))]

    assert found("130d7b7e-torn-line.jsonl") == [(128, "two records on one line")]
    assert found("47a78253-7d91-4be2-bfd3-f5ac53c9195b.jsonl") == [(1, "lost record"), (1, "lost call")]
    assert found("839b35f7-slice-microcompact-and-compact.jsonl") == [(1, "lost record")]
    assert found("c010174c-a7cd-4bcc-b7d4-61258d6c463f.jsonl") == [(393, "lost record"), (399, "lost result")]
    assert found("03a1382e-ecd5-42c4-b3d4-5c659e165904.jsonl") == []


@pytest.mark.data
def test_a_checkpoint_of_a_real_session_is_a_prefix_of_its_end(data_dir: Path, tmp_path: Path) -> None:
    """Three checkpoints were written while a `git commit` ran: each ends on that call, and nothing says it happened."""
    folder, name = data_dir / "claude_code", "c010174c-a7cd-4bcc-b7d4-61258d6c463f"
    whole = [(r.id, r.message) for r in records(list(read(folder / f"{name}.jsonl")))]
    lines = (folder / f"{name}.jsonl").read_bytes().split(b"\n")
    ends_on_a_call = []
    for checkpoint in json.loads((folder / f"{name}.checkpoints.json").read_bytes())["checkpoints"]:
        file = tmp_path / "part.jsonl"
        file.write_bytes(b"\n".join(lines[: checkpoint["lines"]]))
        part = [(r.id, r.message) for r in records(list(read(file)))]
        assert part == whole[: len(part)]
        in_flight = {c["tool_use_id"] for c in checkpoint["in_flight_tool_calls"]}
        if in_flight & {c.id for c in parse(part[-1][1]).calls}:
            ends_on_a_call.append(checkpoint["lines"])
    assert ends_on_a_call == [230, 343, 539]
