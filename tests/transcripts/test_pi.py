"""pi sessions, read as what the model saw."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lineal.messages import parse
from lineal.transcripts import Boundary, Damage, Item, Record, read

AT = "2025-12-08T22:41:05.500Z"


def session(path: Path, *entries: dict[str, Any]) -> Path:
    file = path / "session.jsonl"
    head = {"type": "session", "id": "s1", "cwd": "/", "timestamp": AT}
    file.write_text("".join(json.dumps(entry) + "\n" for entry in (head, *entries)))
    return file


def said(role: str, content: Any = None, **fields: Any) -> dict[str, Any]:
    message = {"role": role, **({} if content is None else {"content": content}), **fields}
    return {"type": "message", "timestamp": AT, "message": message}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


CALL = said(
    "assistant",
    [
        {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2lnbmVk"},
        {"type": "toolCall", "id": "t1", "name": "bash", "arguments": {"command": "ls"}, "partialJson": ""},
    ],
    stopReason="toolUse",
)
RESULT = said("toolResult", [text("README.md")], toolCallId="t1", toolName="bash", isError=False)


def records(items: list[Item]) -> list[Record]:
    return [i for i in items if isinstance(i, Record)]


def test_messages_come_out_in_anthropic_shape(tmp_path: Path) -> None:
    user, assistant, result = records(list(read(session(tmp_path, said("user", [text("list it")]), CALL, RESULT))))
    assert user.message == {"role": "user", "content": [text("list it")]}
    assert assistant.message == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk"},
            {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}},
        ],
    }
    assert result.message == {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [text("README.md")]}]}
    assert [(r.line, r.id, r.author) for r in (user, assistant, result)] == [
        (2, None, "user"),
        (3, None, "assistant"),
        (4, "t1:result", "tool"),
    ]
    assert user.at == 1765233665.5


def test_a_failed_result_says_so_and_an_image_gets_the_shape_of_the_api(tmp_path: Path) -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    shown = said("toolResult", [image], toolCallId="t1", toolName="bash", isError=True)
    block = records(list(read(session(tmp_path, CALL, shown))))[1].message["content"][0]
    assert block["is_error"] is True
    assert block["content"] == [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}]


def test_a_command_that_the_person_ran_is_a_user_message_that_says_so(tmp_path: Path) -> None:
    ran = said("bashExecution", command="ls", output="README.md\n", exitCode=0, cancelled=False)
    (record,) = records(list(read(session(tmp_path, ran))))
    assert (record.author, record.message["role"]) == ("user", "user")
    assert record.message["content"][0]["text"].startswith("ran: ls\nREADME.md")


def test_an_answer_aborted_before_its_first_word_is_skipped_and_counted(tmp_path: Path) -> None:
    tally: Counter[str] = Counter()
    aborted = said("assistant", [], stopReason="aborted")
    change = {"type": "model_change", "timestamp": AT, "provider": "p", "modelId": "m"}
    items = list(read(session(tmp_path, said("user", "go"), aborted, change), tally=tally))
    assert len(items) == 1
    assert tally == {"session": 1, "assistant without content": 1, "model_change": 1}


def test_a_compaction_is_a_boundary_with_its_summary_and_the_line_that_stayed(tmp_path: Path) -> None:
    compaction = {"type": "compaction", "timestamp": AT, "summary": "So far.", "firstKeptEntryIndex": 2, "tokensBefore": 175004}
    items = list(read(session(tmp_path, said("user", "one"), said("user", "two"), compaction, said("user", "three"))))
    assert items[2] == Boundary(4, "compaction", "So far.", {"tokens_before": 175004, "kept_from_line": 3})
    assert [r.message["content"] for r in records(items) if r.line >= 3] == ["two", "three"]


def test_a_result_whose_call_was_dropped_is_read_and_reported(tmp_path: Path) -> None:
    lost, result = read(session(tmp_path, RESULT))
    assert isinstance(lost, Damage) and lost.why.startswith("lost call") and isinstance(result, Record)


def test_an_entry_on_another_branch_of_a_tree_is_reported(tmp_path: Path) -> None:
    """Read in file order, the turns of two branches would mix."""
    entries = [{"id": id, "parentId": parent, **said("user", id)} for id, parent in (("a", None), ("b", "a"), ("c", "b"), ("d", "a"))]
    items = list(read(session(tmp_path, *entries)))
    assert [r.id for r in records(items)] == ["a", "b", "c", "d"]
    assert [(i.line, i.why.split(":")[0]) for i in items if isinstance(i, Damage)] == [(5, "a branch")]


@pytest.mark.parametrize(
    "bad",
    [
        said("user"),
        said("user", 7),
        said("assistant", [{"type": "toolCall", "name": "bash"}]),
        said("toolResult", [text("ok")]),
        said("bashExecution", output="x"),
        said("user", [{"type": "text"}]),
    ],
)
def test_a_message_that_is_not_whole_is_damage_and_the_next_is_read(tmp_path: Path, bad: dict[str, Any]) -> None:
    damage, record = read(session(tmp_path, bad, said("user", "next")))
    assert isinstance(damage, Damage) and json.loads(damage.raw) == bad
    assert isinstance(record, Record)


# --- real sessions ---------------------------------------------------------------------------------------------------

FACTS = [  # file, user, assistant, of these aborted without content, run by the person, calls, unanswered, compactions
    ("before-compaction.jsonl", 55, 484, 13, 3, 454, 6, [(360, 294), (629, 552)]),
    ("session-torn-line.jsonl", 44, 220, 6, 1, 189, 0, [(463, 356)]),
]


@pytest.mark.data
@pytest.mark.parametrize(("name", "users", "assistants", "aborted", "ran", "calls", "unanswered", "compactions"), FACTS)
def test_a_real_session_has_the_turns_and_pairs_that_were_counted_by_hand(
    data_dir: Path,
    name: str,
    users: int,
    assistants: int,
    aborted: int,
    ran: int,
    calls: int,
    unanswered: int,
    compactions: list[tuple[int, int]],
) -> None:
    file, tally = data_dir / "pi" / name, Counter[str]()
    items = list(read(file, tally=tally))
    got = records(items)
    by = Counter(r.author for r in got)
    assert (by["user"], by["assistant"] + aborted, tally["assistant without content"]) == (users + ran, assistants, aborted)
    boundaries = [i for i in items if isinstance(i, Boundary)]
    assert [(b.line, b.detail["kept_from_line"]) for b in boundaries] == compactions
    assert all(b.summary and b.summary.startswith("# Context Checkpoint") for b in boundaries)
    parsed = [parse(r.message, r.author) for r in got]
    made, answered = ([c.id for p in parsed for c in p.calls], [r.call for p in parsed for r in p.results])
    assert (len(made), len(set(made) - set(answered)), set(answered) - set(made)) == (calls, unanswered, set())
    glued = [(i.line, i.why) for i in items if isinstance(i, Damage)]
    assert glued == ([(440, "two records on one line")] if name == "session-torn-line.jsonl" else [])
    assert len(got) + len(boundaries) + tally.total() == len(file.read_bytes().rstrip(b"\n").split(b"\n")) + len(glued)
    assert len({r.key for r in got}) == len(got)
