"""Chat messages: plain lists, and the benchmark files that hold many conversations."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lineal.errors import PolicyError
from lineal.messages import arguments_of, outcome_of, parse, tool_of
from lineal.transcripts import Damage, Item, Record, conversations, read

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "low water?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "name": "tide", "content": "21:51"},
    {"role": "assistant", "content": "At 21:51."},
]
CALLS = CHAT[2]["tool_calls"]


def records(items: list[Item]) -> list[Record]:
    return [i for i in items if isinstance(i, Record)]


def damage(items: list[Item]) -> list[Damage]:
    return [i for i in items if isinstance(i, Damage)]


def as_jsonl(path: Path, messages: list[Any]) -> Path:
    file = path / "chat.jsonl"
    file.write_text("".join(json.dumps(m) + "\n" for m in messages))
    return file


def as_json(path: Path, value: Any, indent: int | None = None) -> Path:
    file = path / "chat.json"
    file.write_text(json.dumps(value, indent=indent))
    return file


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_list_of_messages_comes_out_as_given(tmp_path: Path, indent: int | None, wrapped: bool) -> None:
    file = as_json(tmp_path, {"model": "m", "messages": CHAT} if wrapped else CHAT, indent)
    got = records(list(read(file)))
    assert [r.message for r in got] == CHAT
    assert [r.line for r in got] == [1, 2, 3, 4, 5]
    assert [r.author for r in got] == ["system", "user", "assistant", "tool", "assistant"]
    assert [r.id for r in got] == [None, None, None, "c1:result", None]
    assert conversations(file) == ["chat"]


def test_lines_of_messages_come_out_as_given(tmp_path: Path) -> None:
    assert [(r.line, r.message) for r in records(list(read(as_jsonl(tmp_path, CHAT))))] == list(enumerate(CHAT, 1))


def test_one_single_message_is_a_conversation(tmp_path: Path) -> None:
    assert [r.message for r in records(list(read(as_jsonl(tmp_path, CHAT[:1]))))] == CHAT[:1]


@pytest.mark.parametrize("dropped", [2, 3])
def test_half_a_pair_shows_that_the_other_half_was_dropped(tmp_path: Path, dropped: int) -> None:
    """R11. A dropped line of plain words cannot be seen in this format: nothing refers to it."""
    items = list(read(as_jsonl(tmp_path, CHAT[:dropped] + CHAT[dropped + 1 :])))
    assert [d.why.split(":")[0] for d in damage(items)] == ["lost call" if dropped == 2 else "lost result"]
    assert len(records(items)) == 4


def test_a_call_that_is_open_at_the_end_is_no_damage(tmp_path: Path) -> None:
    """13 % of real checkpoints end on one: it is in flight."""
    assert not damage(list(read(as_jsonl(tmp_path, CHAT[:3]))))


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9, 0.999])
def test_a_list_whose_tail_was_cut_gives_its_whole_messages_and_the_torn_rest(tmp_path: Path, keep: float) -> None:
    file = as_json(tmp_path, CHAT)
    data = file.read_bytes()[: int(file.stat().st_size * keep)]
    file.write_bytes(data)
    items = list(read(file))
    got, torn = records(items), damage(items)
    assert [r.message for r in got] == CHAT[: len(got)]
    assert len(torn) == 1 and torn[0].why.startswith("torn tail") and torn[0].line == len(got) + 1
    assert data[torn[0].offset :] == torn[0].raw


def test_a_document_that_was_cut_is_one_damage(tmp_path: Path) -> None:
    file = as_json(tmp_path, {"messages": CHAT}, indent=2)
    file.write_bytes(file.read_bytes()[:-20])
    (torn,) = read(file, format="openai_chat")
    assert isinstance(torn, Damage) and torn.why.startswith("torn document")


@pytest.mark.parametrize(
    "bad", [7, "words", None, [], {"role": "pirate", "content": "x"}, {"role": "user"}, {"role": "user", "content": 7}]
)
def test_what_is_no_message_is_damage_and_the_next_is_read(tmp_path: Path, bad: Any) -> None:
    items = list(read(as_json(tmp_path, [CHAT[0], bad, CHAT[1]]), format="openai_chat"))
    assert len(damage(items)) == 1
    assert [r.message for r in records(items)] == CHAT[:2]


def test_a_benchmark_file_holds_many_conversations_and_one_is_picked(tmp_path: Path) -> None:
    file = as_json(tmp_path, [{"task_id": 7, "trial": t, "reward": 0.0, "traj": CHAT[: t + 1]} for t in range(3)])
    assert conversations(file) == ["task 7 trial 0", "task 7 trial 1", "task 7 trial 2"]
    assert [len(list(read(file, conversation=n))) for n in (0, 1, 2)] == [1, 2, 3]


@pytest.mark.parametrize("asked", [3, -1])
def test_a_conversation_that_is_not_there_is_refused_with_the_number_of_those_that_are(tmp_path: Path, asked: int) -> None:
    file = as_json(tmp_path, [{"task_id": 7, "trial": t, "traj": CHAT} for t in range(3)])
    with pytest.raises(PolicyError, match="holds 3"):
        list(read(file, conversation=asked))


def tau2(*messages: dict[str, Any]) -> dict[str, Any]:
    simulation = {"id": "x", "task_id": "40", "trial": 0, "messages": list(messages)}
    return {"info": {"environment_info": {"policy": "Be kind."}}, "tasks": [], "simulations": [simulation]}


def test_tau2_comes_out_as_valid_chat_with_the_policy_in_front(tmp_path: Path) -> None:
    call = {"id": "c1", "name": "find", "arguments": {"zip": "10115"}, "requestor": "assistant"}
    file = as_json(
        tmp_path,
        tau2(
            {"role": "user", "content": "where?", "tool_calls": None, "cost": 0.1, "timestamp": "2025-08-01T16:16:37.5"},
            {"role": "assistant", "content": None, "tool_calls": [call], "raw_data": {"copy": True}},
            {"role": "tool", "id": "c1", "content": "Error: User not found", "error": True, "requestor": "assistant"},
        ),
    )
    policy, user, assistant, result = records(list(read(file)))
    assert (policy.line, policy.author, policy.message) == (0, "system", {"role": "system", "content": "Be kind."})
    assert (user.line, user.at, user.message) == (1, 1754064997.5, {"role": "user", "content": "where?"})
    assert set(assistant.message) == {"role", "content", "tool_calls"}
    assert (tool_of(assistant.message, "c1"), arguments_of(assistant.message, "c1")) == ("find", {"zip": "10115"})
    assert isinstance(assistant.message["tool_calls"][0]["function"]["arguments"], str)
    assert result.message == {"role": "tool", "tool_call_id": "c1", "content": "Error: User not found"}
    assert conversations(file) == ["task 40 trial 0"]


def test_calls_of_the_simulated_user_were_never_shown_to_the_agent(tmp_path: Path) -> None:
    call = {"id": "u1", "name": "reboot_device", "arguments": {}, "requestor": "user"}
    asked = {"role": "user", "content": None, "tool_calls": [call]}
    answer = {"role": "tool", "id": "u1", "content": "ok", "error": False, "requestor": "user"}
    tally: Counter[str] = Counter()
    items = list(read(as_json(tmp_path, tau2(asked, answer, {"role": "user", "content": "done"})), tally=tally))
    assert [r.message["content"] for r in records(items)] == ["Be kind.", "done"]
    assert tally == {"call of the simulated user": 2}


# --- real files ------------------------------------------------------------------------------------------------------


@pytest.mark.data
def test_tau_bench_has_the_turns_pairs_and_refusals_that_were_counted_by_hand(data_dir: Path) -> None:
    file = data_dir / "tau_bench" / "gpt-4o-airline.json"
    names = conversations(file)
    by: Counter[str | None] = Counter()
    refused, reused = 0, 0
    whole = json.loads(file.read_bytes())
    assert len(names) == 200
    for n, name in list(enumerate(names))[::20]:
        items = list(read(file, "openai_chat", n))
        assert [r.message for r in records(items)] == whole[n]["traj"] and not damage(items), name
    for task in whole:
        made: Counter[str] = Counter()
        for message in task["traj"]:
            parsed = parse(message)
            by[parsed.author] += 1
            reused += sum(c.id in made for c in parsed.calls)
            made.update(c.id for c in parsed.calls)
            assert all(r.call in made for r in parsed.results)
            refused += sum(outcome_of(message, r.call) == "no_effect" for r in parsed.results)
    assert (by["user"], by["assistant"], by["tool"], refused, reused) == (1490, 2454, 1164, 73, 73)


@pytest.mark.data
def test_the_real_double_effect_is_visible(data_dir: Path) -> None:
    """Task 0, trial 3: the identical booking succeeded twice. What the ledger is for (R47)."""
    file = data_dir / "tau_bench" / "gpt-4o-airline.json"
    booked: Counter[str] = Counter()
    calls: dict[str, str] = {}
    for record in records(list(read(file, conversation=conversations(file).index("task 0 trial 3")))):
        parsed = parse(record.message, record.author)
        calls |= {c.id: c.arguments for c in parsed.calls if c.tool == "book_reservation"}
        booked.update(calls[r.call] for r in parsed.results if r.call in calls and outcome_of(record.message, r.call) == "done")
    assert sorted(booked.values()) == [1, 2]


@pytest.mark.data
def test_tau2_has_the_turns_and_pairs_that_were_counted_by_hand(data_dir: Path) -> None:
    file = data_dir / "tau2_bench" / "gpt-4.1_retail_default_1trial.json"
    by: Counter[str | None] = Counter()
    tools: Counter[str] = Counter()
    refused = 0
    for n in range(len(conversations(file))):
        items = list(read(file, "openai_chat", n))
        assert not damage(items) and records(items)[0].message["content"].startswith("# Retail agent policy")
        for record in records(items):
            parsed = parse(record.message, record.author)
            by[record.author] += 1
            tools.update(c.tool for c in parsed.calls)
            refused += sum(outcome_of(record.message, r.call) == "no_effect" for r in parsed.results)
    assert (by["system"], by["user"], by["assistant"], by["tool"], refused) == (40, 290, 516, 299, 12)
    assert (tools["get_order_details"], tools["modify_pending_order_items"]) == (110, 21)
