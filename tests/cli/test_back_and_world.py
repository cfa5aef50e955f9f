"""Coming back, going back, and what was done to the world meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lineal


@pytest.fixture
def busy(store_path: Path) -> Path:
    """A guarded effect that was settled, one that was lost, one seen outside; a checkpoint before them."""
    with lineal.connect(store_path) as store:
        session = store.session("s")
        session.append({"role": "user", "content": "ship it"}, id="u1")
        session.checkpoint("before")
        with session.effect("deploy", {"region": "north"}, key="d1") as effect:
            effect.settle("dep-1")
        session.append({"role": "assistant", "content": "shipped"}, id="a1")
    return store_path


def lose(store: Path, key: str) -> None:
    with lineal.connect(store, create=False) as opened, pytest.raises(OSError), opened.session("s").effect("mail", {}, key=key):
        raise OSError("cable")


def test_a_checkpoint_is_made_and_listed(run: Any, busy: Path) -> None:
    """R63: seq, generation and watermark are data."""
    made = json.loads(run("checkpoint", busy, "second", "--json").stdout)["checkpoint"]
    listed = json.loads(run("checkpoint", busy, "--list", "--json").stdout)["checkpoints"]
    assert [c["label"] for c in listed] == ["second", "before"] and listed[0] == made
    assert made["effect_watermark"] == 3 and "before" in run("checkpoint", busy, "--list").stdout


def test_explain_changes_nothing_and_says_what_recover_then_does(run: Any, either: Path) -> None:
    """Record 000: the checkpoint behind the compaction is chosen, the one before it never."""
    before = either.read_bytes()
    explained = json.loads(run("recover", either, "--explain", "--json").stdout)
    assert either.read_bytes() == before
    verdicts = {c["label"]: (c["chosen"], c["eligible"], c["verdict"]["reason"]) for c in explained["checkpoints"]}
    assert verdicts == {"after": (True, True, "newer_than_compaction"), "before": (False, False, "not_newer")}
    done = json.loads(run("recover", either, "--json").stdout)["recovery"]
    assert (done["target"], done["seq"]) == (explained["target"], explained["seq"]) and done["target"] == "checkpoint"
    text = run("recover", either, "--explain").stdout
    assert "is not newer than the compaction committed at seq" in text and "chosen" in text


def test_recover_closes_what_a_dead_holder_left_and_says_so(run: Any, busy: Path) -> None:
    """R33: its start record blocks nothing for ever."""
    with lineal.connect(busy, create=False) as store:
        session = store.session("s", policy=lineal.Policy(trigger=900, target=300, floor_turns=1))
        session.append([{"role": "user", "content": "word " * 400}, {"role": "assistant", "content": "ok " * 400}], id=["u2", "a2"])
        session.append({"role": "user", "content": "more"}, id="u3")
        session.plan_compaction()
        session.effect("mail", {}, key="m1").__enter__()
    text = run("recover", busy).stdout
    assert "generation 1 was begun by a holder that is gone: aborted" in text
    assert "effect m1 was begun by a holder that is gone: its outcome is unknown" in text
    assert run("verify", busy).exit_code == 0


def test_a_dry_run_says_what_the_real_run_then_does(run: Any, busy: Path) -> None:
    """R43: same plan; the guarded effect is named and stays in the ledger."""
    dry = json.loads(run("rollback", busy, "before", "--dry-run", "--json").stdout)["rollback"]
    real = json.loads(run("rollback", busy, "before", "--json").stdout)["rollback"]
    assert {**dry, "dry_run": False} == real and real["guarded"] == ["d1"] and real["left_behind"] == ["a1"]
    assert [e["key"] for e in json.loads(run("ledger", busy, "--json").stdout)["effects"]] == ["d1"]
    assert "already" in run("context", busy, "--raw").stdout or "d1" in run("context", busy, "--raw").stdout


def test_an_unknown_effect_stands_in_the_way_until_it_is_resolved(run: Any, busy: Path) -> None:
    """Record 003: refused with the key and the way out; after `effect resolve` it goes."""
    lose(busy, "m1")
    dry = run("rollback", busy, "before", "--dry-run")
    assert dry.exit_code == 1 and "effects in the way: m1" in dry.stdout and "way out: " in dry.stdout
    refused = run("rollback", busy, "before")
    assert refused.exit_code == 1 and "'m1'" in refused.stderr and "way out: " in refused.stderr
    assert json.loads(run("effect", "list", busy, "--state", "unknown", "--json").stdout)["effects"][0]["key"] == "m1"
    assert "is now done" in run("effect", "resolve", busy, "m1", "happened", "--note", "saw it").stdout
    gone = run("rollback", busy, "before")
    assert gone.exit_code == 0 and "effects resolved or compensated: m1" in gone.stdout


def test_a_target_is_a_label_an_id_or_a_seq(run: Any, busy: Path) -> None:
    """R39: never a list position or a time."""
    targets = [json.loads(run("rollback", busy, t, "--dry-run", "--json").stdout)["rollback"]["target"] for t in ("before", "cp2", "2")]
    assert targets == [2, 2, 2]


def test_a_fork_begins_where_it_was_told(run: Any, busy: Path) -> None:
    """R45: at the checkpoint, and it knows what was done since."""
    assert run("fork", busy, "what-if", "--at", "before").exit_code == 0
    with lineal.connect(busy, create=False) as store:
        child = store.session("what-if")
        assert [t.id for t in child.turns()] == ["u1"] and [r.key for r in child.ledger()] == ["d1"]
    assert run("ledger", busy, "-s", "what-if").exit_code == 0
