"""Ten compactions in a row on real transcripts: what was promised is still there after each, as data, under the budget."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lineal
from lineal import transcripts
from lineal.session import appending

PASSES = 10
FILES = ("claude_code/c010174c-a7cd-4bcc-b7d4-61258d6c463f.jsonl", "pi/before-compaction.jsonl")


def records(path: Path) -> list[transcripts.Record]:
    return [r for r in transcripts.read(path) if isinstance(r, transcripts.Record)]


def parts(found: list[Any], count: int) -> Iterator[list[Any]]:
    size = -(-len(found) // count)
    return (found[n : n + size] for n in range(0, len(found), size))


@pytest.mark.data
@pytest.mark.parametrize("name", FILES)
def test_everything_promised_survives_ten_passes(data_dir: Path, tmp_path: Path, name: str) -> None:
    """R18, R22, R28: pins and typed anchors as data, view under the ceiling, prefix byte-stable between generations."""
    policy = lineal.Policy(trigger=30_000, ceiling=60_000, target=8_000, floor_turns=8)
    session = lineal.connect(tmp_path / "agent.db").session("agent", policy)
    found = records(data_dir / name)
    first = next(r for r in found if (r.author or r.message.get("role")) == "user")
    session.pin("the release tag is v9.9.9-test and must not move")
    anchors: set[Any] = set()
    generations = 0
    for part in parts(found, PASSES):
        for r in part:
            shown = session.messages()
            appending.append(session, r.message, r.key, r.author, orphans=True)
            if session.status().generation == generations:
                assert session.messages()[: len(shown)] == shown or _pairs_moved(session, shown), "the prefix is stable between generations"
            generations = session.status().generation
            if r is first:
                session.pin(r.key)
        session.close_calls()
        before = session.status().tokens
        outcome = session.compact()
        assert isinstance(outcome, lineal.Compacted), outcome
        view = session.view()
        assert outcome.tokens_after < before and view.tokens <= policy.ceiling
        assert anchors <= set(view.anchors), "no typed anchor is ever lost"
        anchors = set(view.anchors)
        assert any(p.text.startswith("the release tag") for p in view.pins)
        assert any(t.id == first.key and t.message == first.message for t in view.turns), "the pinned turn stands word for word"
        assert "v9.9.9-test" in str(session.messages())
        generations = session.status().generation
    assert session.status().generation >= PASSES and len(anchors) > 10
    said = {r.key: r.message for r in found}
    (node, *_) = [n for n in session.view().summaries if n.kind == "summary"]
    assert all(t.message == said[t.id] for t in session.expand(node.handle) if t.id in said), "what was covered reads back byte for byte"
    assert session.verify().clean


def _pairs_moved(session: lineal.Session, shown: list[Any]) -> bool:
    """A result that came late is shown behind its call: the only case in which an append is not shown at the end."""
    now = session.messages()
    return all(m in now or "outcome unknown" in str(m) for m in shown)


def test_thirty_passes_do_not_let_the_summary_grow(tmp_path: Path) -> None:
    """R22: the size of what stands for the past is capped, whatever the number of passes."""
    session = lineal.connect(tmp_path / "agent.db").session(
        "agent", lineal.Policy(trigger=6_000, ceiling=9_000, target=1_500, floor_turns=6)
    )
    sizes = []
    for n in range(30):
        for k in range(12):
            role = "user" if k == 0 else "assistant"
            session.append({"role": role, "content": f"pass {n}, step {k}: we looked at module m{n}_{k} and found it in order. " * 3})
        assert isinstance(session.compact(), lineal.Compacted)
        sizes.append(sum(node.tokens for node in session.view().summaries))
    assert max(sizes) <= session.policy.summary_max_tokens + 100
    assert len(session.view().summaries) <= 2
    covered = session.expand(session.view().summaries[0].handle)
    assert [t.seq for t in covered] == sorted(t.seq for t in covered) and len(covered) > 300
