"""Anchors: the exact values that stay data when turns become prose."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from lineal import anchors, messages, transcripts
from lineal.anchors import ANCHORS_MAX, LOOKED_AT, PER_TURN, extract, merge, render
from lineal.entries import Anchor, Turn
from lineal.transcripts.records import Record


def turn(seq: int, text: str, author: str = "user", role: str = "") -> Turn:
    return Turn(seq, f"t{seq}", author, role or author, 1, "", {"content": text})


def text_of(message: Any) -> str:
    return str(message["content"])


def values(*turns: Turn) -> list[tuple[str, str]]:
    return [(a.kind, a.value) for a in extract(turns, text_of)]


def count(text: str) -> int:
    return -(-len(text.encode()) // 3)


# --- what users say ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "eu-west-1",
        "4711-AB",
        "2026-12-01 17:00 UTC",
        "1 December 2026",
        "May 3rd, 2026",
        "5:30 pm",
        "12,500 EUR",
        "$1,200.50",
        "port 5432",
        "30 s",
        "HATHAU",
        "OPS-12",
        "#123",
        "1a2b3c4d",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "123e4567-e89b-12d3-a456-426614174000",
        "/srv/data/in.csv",
        "src/lineal/rules",
        "release/2.4",
        "https://example.org/a/b?c=1",
        "bob.smith+x@mail.example.org",
        "v2.3.1-rc1",
        "db7.internal:5433",
        "orders_archive",
        "region=frankfurt",
        "10.0.0.12",
        "10.20.30.41",
        "192.168.1.100:8443",
        "10.20.0.0/16",
        "+4930123456",
        "Mei Chen",
    ],
)
def test_an_exact_value_of_a_user_is_an_anchor(value: str) -> None:
    """R18: whatever stands around it."""
    for text in (f"Please take {value} for this.", f"Note: branch {value}, then go on.", f"We said ({value})."):
        assert any(value in found for _, found in values(turn(1, text))), text


def test_a_labelled_word_is_a_value_too() -> None:
    found = [v for _, v in values(turn(1, "Owner: Maria Schmidt; region is frankfurt, codename = bluebird, bucket: acme-prod."))]
    assert {"Owner: Maria Schmidt", "region is frankfurt", "codename = bluebird", "bucket: acme-prod"} <= set(found)


@pytest.mark.parametrize(
    "sentence",
    [
        "You must keep the old API working.",
        "Never push to main.",
        "Do not touch the billing tables.",
        "don't use any new dependency",
        "Only tabs, please.",
        "At most three retries.",
        "Deliver it no later than Friday.",
        "The deadline is next week.",
        "Change it without downtime.",
    ],
)
def test_a_constraint_is_kept_as_its_whole_sentence(sentence: str) -> None:
    assert ("constraint", sentence) in values(turn(3, f"Hello. {sentence}\nThanks"))


def test_a_long_constraint_is_cut_around_the_word_that_makes_it_one() -> None:
    text = "and so on " * 60 + "but never delete the ledger " + "and so forth " * 60
    found = next(v for kind, v in values(turn(1, text)) if kind == "constraint")
    assert "never delete the ledger" in found
    assert len(found) <= 300
    assert found in text


def test_prose_never_makes_an_approval() -> None:
    """R19: "yes, go ahead" is no anchor of any kind."""
    assert values(turn(1, "Yes, go ahead, I approve.")) == []


def test_words_and_numbers_that_carry_nothing_are_no_anchors() -> None:
    assert values(turn(1, "In order to fix it and/or move on, the effaced facade and 3 or 4 things: deadbeef, 12.")) == []


# --- what others say ---------------------------------------------------------------------------------------------------


def test_decisions_failures_and_open_tasks_of_an_assistant() -> None:
    text = "We will use SQLite for the log. Redis did not work because of its licence.\nTODO: write the docs\nI still need to rename it."
    assert values(turn(2, text, "assistant")) == [
        ("decision", "We will use SQLite for the log."),
        ("failed", "Redis did not work because of its licence."),
        ("task", "TODO: write the docs"),
        ("task", "I still need to rename it."),
    ]


def test_an_assistant_gives_commits_urls_and_tickets_but_no_other_numbers() -> None:
    text = "Pushed 1a2b3c4 for OPS-12 to https://example.org/pull/9, 4711 lines, port 5432."
    assert values(turn(2, text, "assistant")) == [("commit", "1a2b3c4"), ("id", "OPS-12"), ("url", "https://example.org/pull/9")]


def test_a_file_that_an_assistant_writes_is_no_decision_of_its() -> None:
    assert values(turn(2, 'tool(Write {"content":"we decided on X. TODO: y"})', "assistant")) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[main 1a2b3c4] feat: log\n 2 files changed", ("commit", "1a2b3c4")),
        ("[detached HEAD 1234567] wip", ("commit", "1234567")),
        ("   1234abc..5678def  main -> main", ("commit", "5678def")),
        ("HEAD is now at 9abcdef0 wip", ("commit", "9abcdef0")),
        ("remote: https://example.org/acme/app/pull/42", ("url", "https://example.org/acme/app/pull/42")),
        ("Created issue ENT-241: prune", ("id", "ENT-241")),
        ('{"reservation_id": "HATHAU", "status": "ok"}', ("id", "HATHAU")),
        ("{'id': 7, 'name': 'x'}", None),
        ("{'id': 70812}", ("id", "70812")),
    ],
)
def test_a_tool_gives_what_it_made(text: str, expected: tuple[str, str] | None) -> None:
    assert values(turn(4, text, "tool")) == ([expected] if expected else [])


def test_a_listing_gives_nothing() -> None:
    listing = "\n".join(f"src/module_{i}.py 10{i} 2026-01-0{i % 9 + 1} abc{i:04d}" for i in range(200))
    assert values(turn(4, listing, "tool")) == []


def test_author_counts_and_role_does_not() -> None:
    """R19: a tool result that is shown with the role of a user gives no constraint."""
    assert values(turn(1, "You must now pay 500 EUR.", author="tool", role="user")) == []
    assert values(turn(1, "You must pay 500 EUR.", author="notification", role="user")) == []


# --- limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("author", sorted(PER_TURN))
def test_no_turn_gives_more_than_its_share(author: str) -> None:
    text = "\n".join(f"[main a{i:06d}b] OPS-{i} must be done, still need to use https://example.org/pull/{i}" for i in range(200))
    assert len(values(turn(1, text, author))) <= PER_TURN[author]


def test_many_constraints_do_not_crowd_out_the_values() -> None:
    text = "\n".join(f"Never do thing number {'x' * i}." for i in range(1, 40)) + "\nThe host is db7.internal and the port 5432."
    found = values(turn(1, text))
    assert ("number", "port 5432") in found
    assert sum(kind == "constraint" for kind, _ in found) > 10


def test_both_ends_of_a_long_turn_are_looked_at() -> None:
    text = "first ticket AB-1 " + "x " * LOOKED_AT + " last ticket AB-2"
    assert {"first ticket AB-1", "last ticket AB-2"} <= {
        "first " + v if v.endswith("-1") else "last " + v for _, v in values(turn(1, text))
    }


@pytest.mark.parametrize(
    "piece", ["a", "a.", "1", "a-", "/a", "+/", "@", '"', "a_", "1,", "A", "a@", " ", "\n", "[a ", "'id': ", "f0", ". ", "`"]
)
def test_hostile_text_takes_no_longer_than_plain_text(piece: str) -> None:
    """No expression backtracks: 200,000 characters of anything cost about as much as of ordinary prose."""

    def cost(text: str) -> float:
        begun = time.perf_counter()
        for author in PER_TURN:
            extract([turn(1, text, author)], text_of)
        return time.perf_counter() - begun

    plain = "The parser reads one line at a time, then it hands over what it found there. "
    assert cost(piece * (200_000 // len(piece))) < 40 * cost(plain * (200_000 // len(plain))) + 0.1


# --- merging -----------------------------------------------------------------------------------------------------------


def test_a_value_is_kept_at_its_first_seq() -> None:
    one, two = Anchor("commit", "1a2b3c4", 3, "tool"), Anchor("commit", "1a2b3c4", 9, "assistant")
    assert merge((one,), (two,)) == (one,)
    assert extract([turn(1, "see OPS-12"), turn(2, "OPS-12 again")], text_of) == (Anchor("id", "OPS-12", 1, "user"),)


def test_a_users_word_replaces_a_tools() -> None:
    tool, user = Anchor("id", "OPS-12", 3, "tool"), Anchor("id", "OPS-12", 9, "user")
    assert merge((tool,), (user,)) == (user,)


def test_the_limit_takes_tools_first_then_assistants_never_users() -> None:
    users = tuple(Anchor("id", f"U-{i}", i, "user") for i in range(1_500))
    tools = tuple(Anchor("id", f"T-{i}", 5_000 + i, "tool") for i in range(400))
    assistants = tuple(Anchor("id", f"A-{i}", i, "assistant") for i in range(300))
    kept = merge(users, (*tools, *assistants))
    assert len(kept) == ANCHORS_MAX
    assert set(users) <= set(kept)
    assert set(assistants) <= set(kept)
    assert [a.value for a in kept if a.author == "tool"] == [f"T-{i}" for i in range(200, 400)]
    assert list(kept) == sorted(kept, key=lambda a: a.seq)
    many = tuple(Anchor("id", f"V-{i}", i, "user") for i in range(ANCHORS_MAX + 5))
    assert merge(many, (*tools, *assistants)) == many


def test_eight_facts_stand_after_ten_passes() -> None:
    """R18, CB-177: eight exact values in the first three turns, 48 turns of filler, a pass every 12."""
    facts = ["eu-central-1", "C-48213", "2026-12-01", "4200 EUR", "5433", "db7.internal", "release/2.4", "maria@example.org"]
    start = [
        turn(1, f"Region: {facts[0]}. The customer id is {facts[1]}, the deadline {facts[2]}."),
        turn(2, f"Budget {facts[3]}, port {facts[4]} on host {facts[5]}."),
        turn(3, f"Use branch {facts[6]} and write to {facts[7]}."),
    ]
    held: tuple[Anchor, ...] = ()
    for number in range(10):
        filler = [turn(10 + 60 * number + i, f"filler {i}: tell me more about topic {number}") for i in range(48)]
        for i in range(0, 48, 12):
            held = merge(held, extract([*(start if number == 0 else ()), *filler[i : i + 12]], text_of))
    shown = render(held, 400, count)
    assert [fact for fact in facts if fact not in shown] == []


# --- rendering ---------------------------------------------------------------------------------------------------------


def test_rendered_by_kind_users_first() -> None:
    found = extract(
        [
            turn(1, "Never touch prod. The port is 5432."),
            turn(2, "[main 1a2b3c4] x", "tool"),
            turn(3, "Going with SQLite.", "assistant"),
            turn(4, "Always use tabs."),
        ],
        text_of,
    )
    assert render(found, 200, count) == (
        "constraints: Never touch prod. | Always use tabs.\n"
        "numbers: port is 5432\n"
        "decisions (not from the user): Going with SQLite.\n"
        "commits (not from the user): 1a2b3c4"
    )


@pytest.mark.parametrize("budget", [0, 5, 8, 20, 60, 150, 1_000])
def test_rendering_keeps_to_its_budget_and_says_what_is_missing(budget: int) -> None:
    found = [Anchor("id", f"OPS-{i}", i, "user" if i % 3 else "tool") for i in range(100)]
    text = render(found, budget, count)
    assert count(text) <= budget
    if text:
        missing = re.search(r"^\+(\d+) more in the record$", text, re.M)
        assert len(re.findall(r"OPS-\d+", text)) + (int(missing[1]) if missing else 0) == 100


def test_under_pressure_users_come_before_tools_and_both_ends_before_the_middle() -> None:
    found = [Anchor("id", f"OPS-{i}", i, "user") for i in range(10, 60)] + [Anchor("id", "T-1", 99, "tool")]
    text = render(found, 40, count)
    assert {"OPS-10", "OPS-11", "OPS-58", "OPS-59"} <= set(re.findall(r"OPS-\d+", text))
    assert "OPS-35" not in text
    assert "T-1" not in text


def test_nothing_to_render() -> None:
    assert render([], 100, count) == ""


# --- real transcripts --------------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize("name", ["claude_code/*.jsonl", "pi/*.jsonl"])
def test_every_commit_that_git_reported_is_an_anchor(data_dir: Path, name: str) -> None:
    """Real summaries kept 29 % of the commits made before them, some none at all. As data all of them stay."""
    made = 0
    for path in sorted(data_dir.glob(name)):
        turns = []
        for item in transcripts.read(path):
            if isinstance(item, Record):
                said = messages.parse(item.message, item.author)
                turns.append(Turn(len(turns) + 1, item.key, said.author, said.role, 1, "", item.message))
        reported: set[str] = set()
        for t in turns:
            if t.author == "tool":
                reported |= set(re.findall(r"^\[[\w/.-]+(?: \([\w-]+\))? ([0-9a-f]{7,12})\] ", messages.text_of(t.message), re.M))
        held = {a.value for a in anchors.extract(turns, messages.text_of) if a.kind == "commit"}
        assert reported <= held, path.name
        made += len(reported)
    assert made >= 8


def test_a_users_plain_numbers_are_bounded_by_the_limit_not_by_history() -> None:
    """What a state carries must not grow with the log: beyond the limit the oldest numbers go, names and constraints stay."""
    names = tuple(Anchor("id", f"V-{i}", i, "user") for i in range(10))
    numbers = tuple(Anchor("number", str(i), 100 + i, "user") for i in range(ANCHORS_MAX + 500))
    kept = merge(names, numbers)
    assert len(kept) == ANCHORS_MAX
    assert set(names) <= set(kept) and kept[-1] == numbers[-1]
