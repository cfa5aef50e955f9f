"""Codex rollouts, read as the items that the model saw."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lineal.messages import parse
from lineal.transcripts import Boundary, Damage, Record, read

AT = "2026-06-25T02:07:10.500Z"


def rollout(path: Path, *lines: tuple[str, dict[str, Any]]) -> Path:
    file = path / "rollout.jsonl"
    meta = ("session_meta", {"id": "s1", "cwd": "/"})
    file.write_text("".join(json.dumps({"timestamp": AT, "type": kind, "payload": payload}) + "\n" for kind, payload in (meta, *lines)))
    return file


def item(kind: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "response_item", {"type": kind, **fields}


def message(role: str, words: str) -> tuple[str, dict[str, Any]]:
    return item("message", role=role, content=[{"type": "output_text" if role == "assistant" else "input_text", "text": words}])


CALL = item("function_call", id="fc_1", call_id="call_1", name="exec_command", arguments='{"cmd": "date"}')
OUTPUT = item("function_call_output", call_id="call_1", output="Process exited with code 0\nOutput:\nThu")


def test_items_come_out_exactly_as_they_were_given(tmp_path: Path) -> None:
    reasoning = item("reasoning", id="rs_1", summary=[], encrypted_content="b3BhcXVl")
    given = [message("user", "what day is it?"), reasoning, CALL, OUTPUT, message("assistant", "Thursday.")]
    got = [i for i in read(rollout(tmp_path, *given)) if isinstance(i, Record)]
    assert [r.message for r in got] == [payload for _, payload in given]
    assert [(r.line, r.id, r.author) for r in got[1:4]] == [
        (3, "rs_1", "assistant"),
        (4, "fc_1", "assistant"),
        (5, "call_1:output", "tool"),
    ]
    assert [r.key for r in got] == ["line-2", "rs_1", "fc_1", "call_1:output", "line-6"]
    assert {r.at for r in got} == {1782353230.5}


def test_what_the_screen_was_told_is_skipped_and_counted(tmp_path: Path) -> None:
    tally: Counter[str] = Counter()
    told = ("event_msg", {"type": "agent_message", "message": "Thursday."})
    items = list(read(rollout(tmp_path, ("turn_context", {"cwd": "/"}), told, item("ghost_snapshot"), CALL), tally=tally))
    assert len(items) == 1
    assert tally == {"session_meta": 1, "turn_context": 1, "event_msg/agent_message": 1, "response_item/ghost_snapshot": 1}


@pytest.mark.parametrize(
    ("role", "words", "author"),
    [
        ("developer", "<permissions instructions>", "system"),
        ("user", "# AGENTS.md instructions for /src", "system"),
        ("user", "<environment_context>\n  <cwd>/src</cwd>", "system"),
        ("user", "please read # AGENTS.md instructions", "user"),
        ("assistant", "I read them.", "assistant"),
    ],
)
def test_what_the_host_injected_is_not_the_users_word(tmp_path: Path, role: str, words: str, author: str) -> None:
    """R19"""
    assert [i.author for i in read(rollout(tmp_path, message(role, words))) if isinstance(i, Record)] == [author]


def test_a_compaction_is_a_boundary_without_a_readable_summary_and_the_session_goes_on(tmp_path: Path) -> None:
    history = [message("user", "go")[1], {"type": "compaction", "encrypted_content": "b3BhcXVl"}]
    compacted = ("compacted", {"message": "", "replacement_history": history, "window_number": 1})
    items = list(read(rollout(tmp_path, message("user", "go"), compacted, message("assistant", "On with it."))))
    assert items[1] == Boundary(3, "compaction", None, {"window_number": 1, "replacement_history": history})
    assert [type(i) for i in items] == [Record, Boundary, Record]


def test_an_older_compaction_has_its_summary_in_the_line(tmp_path: Path) -> None:
    assert list(read(rollout(tmp_path, ("compacted", {"message": "What was done."})))) == [Boundary(2, "compaction", "What was done.", {})]


def test_an_output_whose_call_was_dropped_is_read_and_reported(tmp_path: Path) -> None:
    lost, output = read(rollout(tmp_path, OUTPUT))
    assert isinstance(lost, Damage) and (lost.line, lost.why.split(":")[0]) == (2, "lost call")
    assert isinstance(output, Record) and output.message == OUTPUT[1]


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        ("message", {"role": "user", "content": None}, "a message without content"),
        ("function_call_output", {"output": "ok"}, "a function_call_output without a call_id"),
    ],
)
def test_an_item_that_is_not_whole_is_damage(tmp_path: Path, kind: str, fields: dict[str, Any], why: str) -> None:
    assert [i.why for i in read(rollout(tmp_path, item(kind, **fields))) if isinstance(i, Damage)] == [why]


# --- real rollouts ---------------------------------------------------------------------------------------------------

FACTS = [  # file, messages with the role user, typed by the person, messages of the assistant, calls, unanswered, compactions
    ("rollout-2026-06-25T02-07-10-019efc87-fa98-7971-91df-0c9512a065da.jsonl", 15, 13, 155, 318, 2, [913]),
    ("rollout-2026-06-26T12-20-52-019f03e0-321f-7eb2-83cc-b54ecd71be23.jsonl", 11, 10, 39, 177, 0, [272, 573]),
    ("rollout-2026-06-26T22-06-39-019f05f8-7f53-7492-a941-83098e16765c.jsonl", 7, 6, 56, 111, 0, []),
]


@pytest.mark.data
@pytest.mark.parametrize(("name", "users", "typed", "assistants", "calls", "unanswered", "compactions"), FACTS)
def test_a_real_rollout_has_the_turns_and_pairs_that_were_counted_by_hand(
    data_dir: Path, name: str, users: int, typed: int, assistants: int, calls: int, unanswered: int, compactions: list[int]
) -> None:
    file, tally = data_dir / "codex" / name, Counter[str]()
    items = list(read(file, tally=tally))
    got = [i for i in items if isinstance(i, Record)]
    said = [r for r in got if r.message["type"] == "message"]
    assert sum(r.message["role"] == "user" for r in said) == users
    assert sum(r.author == "user" for r in said) == typed == tally["event_msg/user_message"]
    assert sum(r.author == "assistant" for r in said) == assistants
    assert [i.line for i in items if isinstance(i, Boundary)] == compactions
    assert not [i for i in items if isinstance(i, Damage)]
    parsed = [parse(r.message, r.author) for r in got]
    made, answered = ([c.id for p in parsed for c in p.calls], [r.call for p in parsed for r in p.results])
    assert (len(made), len(set(made) - set(answered)), set(answered) - set(made)) == (calls, unanswered, set())
    assert len(items) + tally.total() == len(file.read_bytes().rstrip(b"\n").split(b"\n"))
    assert len({r.key for r in got}) == len(got)
