"""What is missing shows by what refers to it."""

from __future__ import annotations

from typing import Any

import pytest

from lineal.transcripts.pairs import check
from lineal.transcripts.records import NOWHERE, Boundary, Damage, Record


def record(line: int, message: dict[str, Any]) -> Record:
    return Record(line, None, message)


def call(*ids: str) -> dict[str, Any]:
    calls = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(id: str, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": "ok", **more}


WORDS = {"role": "assistant", "content": "well"}


@pytest.mark.parametrize(
    ("messages", "losses"),
    [
        ([call("a"), result("a"), WORDS], []),
        ([call("a", "b"), result("b"), result("a"), WORDS], []),
        ([call("a"), result("a"), call("a"), result("a"), WORDS], []),
        ([call("a"), result("a", status="pending"), result("a"), WORDS], []),
        ([result("a")], ["lost call"]),
        ([call("a", "b"), result("a"), WORDS], ["lost result"]),
        ([call("a"), WORDS, WORDS], ["lost result"]),
        ([WORDS, call("a")], []),
        ([call("a"), {"role": "user", "content": "stop"}], []),
    ],
)
def test_a_half_pair_is_a_loss_and_an_open_end_is_not(messages: list[dict[str, Any]], losses: list[str]) -> None:
    """R11. Ids may be used again: real models do."""
    items = [record(n, m) for n, m in enumerate(messages, 1)]
    checked = list(check(items, answered_at_once=True))
    assert [i for i in checked if isinstance(i, Record)] == items
    assert [i.why.split(":")[0] for i in checked if isinstance(i, Damage)] == losses


def test_an_open_call_in_the_middle_is_no_loss_where_hosts_leave_aborted_turns_open() -> None:
    items = [record(1, call("a")), record(2, WORDS)]
    assert list(check(items)) == items


@pytest.mark.parametrize(
    "bad", [{"content": "no role"}, {"role": "user", "content": 7}, {"role": "user", "content": "x", "n": float("nan")}]
)
def test_a_record_that_the_log_would_refuse_comes_out_as_damage(bad: dict[str, Any]) -> None:
    """R7: what cannot be kept exactly is named, and the rest goes on."""
    boundary = Boundary(2, "compaction")
    damage, after = check([record(1, bad), boundary])
    assert isinstance(damage, Damage) and damage.offset == NOWHERE and damage.why.startswith("no message")
    assert after is boundary
