"""Stores whose values are of any type, cut or swapped: a report or a refusal by name, never a traceback."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from lineal.audit import audit, render_html, render_text, to_json
from lineal.errors import LinealError
from lineal.testing.fuzzing import changed, mutated

MESSAGES: list[Any] = [
    {"type": "human", "id": "m1", "content": "Ticket OPS-12", "additional_kwargs": {}},
    {
        "type": "ai",
        "id": "m2",
        "content": [{"type": "text", "text": "x"}],
        "tool_calls": [{"id": "c1", "name": "send_mail", "args": {"to": "a"}}],
    },
    {"type": "tool", "id": "m3", "content": "ok", "tool_call_id": "c1", "status": "error"},
    {"lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"], "kwargs": {"content": "z", "id": "m4"}},
    {"role": "user", "content": "raw", "id": "m5"},
]
SUMMARY = {"type": "human", "id": "s", "content": "So far.", "additional_kwargs": {"lc_source": "summarization"}}
LISTS = [MESSAGES[:1], MESSAGES[:2], MESSAGES[:3], MESSAGES, [SUMMARY, MESSAGES[3]]]
CHECKPOINTS: list[Any] = [
    *(
        {"ts": "2026-01-01", "channel_values": {"messages": m, "summary": "S"}, "channel_versions": {"messages": n}}
        for n, m in enumerate(LISTS)
    ),
    {"channel_values": {}, "channel_versions": {"messages": 10}},
]
ITEMS: list[Any] = [
    {"role": "user", "content": "hi"},
    {"type": "function_call", "call_id": "c1", "name": "send_mail", "arguments": '{"to": "a"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    {"type": "compaction", "encrypted_content": "x"},
]
RANGE = {"start_timestamp": 1.0, "end_timestamp": 3.0, "compacted_content": {"role": "model", "parts": [{"text": "S"}]}}
EVENTS: list[Any] = [
    {"author": "user", "invocation_id": "i1", "timestamp": 1.0, "content": {"role": "user", "parts": [{"text": "Go."}]}},
    {
        "author": "d",
        "timestamp": 2.0,
        "content": {"parts": [{"function_call": {"id": "c1", "name": "send", "args": {}}}, {"thought": True}]},
    },
    {"author": "d", "timestamp": 3.0, "content": {"parts": [{"function_response": {"name": "send", "response": {"result": "ok"}}}]}},
    {"author": "user", "timestamp": 4.0, "actions": {"compaction": RANGE}},
    {"author": "user", "timestamp": 5.0, "actions": {"rewind_before_invocation_id": "i1"}},
]


def graph(store: sqlite3.Connection, rng: Random) -> None:
    store.execute("CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)")
    store.execute("CREATE TABLE writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, value)")
    for n, checkpoint in enumerate(CHECKPOINTS):
        kind = rng.choice(["json", "msgpack"])
        value = changed(checkpoint, rng, 0.03)
        data = json.dumps(value).encode() if kind == "json" else msgspec.msgpack.encode(value)
        parent = rng.choice([f"{n - 1}"] * 5 + [None, "0", 7])
        row = (rng.choice(["t"] * 9 + [None]), "", f"{n}", parent, kind, mutated(data, rng) if rng.random() < 0.1 else data)
        store.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, rng.choice([b'{"source": "loop"}', None, b"["])))
        written = json.dumps(changed([MESSAGES[n % 5]], rng, 0.05)).encode()
        store.execute("INSERT INTO writes VALUES ('t', '', ?, 'a', 0, 'messages', 'json', ?)", (f"{n}", written))


def session(store: sqlite3.Connection, rng: Random) -> None:
    store.execute("CREATE TABLE agent_messages (id INTEGER PRIMARY KEY, session_id, message_data, created_at)")
    for item in ITEMS:
        row = (rng.choice(["s", "s", None, 3]), json.dumps(changed(item, rng, 0.05)), rng.choice(["2026-01-01", None, 5]))
        store.execute("INSERT INTO agent_messages (session_id, message_data, created_at) VALUES (?, ?, ?)", row)


def events(store: sqlite3.Connection, rng: Random) -> None:
    store.execute("CREATE TABLE events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)")
    for event in EVENTS:
        row = (rng.choice(["e", None, 7, b"\xff"]), rng.choice([1.0, None, "x"]), json.dumps(changed(event, rng, 0.05)))
        store.execute("INSERT INTO events VALUES (?, 'a', 'u', 's', 'i1', ?, ?)", row)


@pytest.mark.parametrize("made", [graph, session, events], ids=lambda made: made.__name__)
def test_values_of_any_type_are_never_a_crash(tmp_path: Path, made: Callable[[sqlite3.Connection, Random], None]) -> None:
    path = tmp_path / "odd.db"
    told = 0
    for seed in range(60):
        rng = Random(seed)
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as store:
            try:
                made(store, rng)
            except (TypeError, ValueError, OverflowError, RecursionError):
                continue  # what this change gave no framework could have stored
            store.commit()
        try:
            done = audit(path)
        except LinealError as refusal:
            assert str(refusal)
            continue
        assert render_html([done]) and render_text([done]) and json.dumps(to_json([done]))
        told += 1
    assert told > 30
