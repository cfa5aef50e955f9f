"""What a person is shown: every entry a line, every message its price and its reason, every checkpoint its verdict."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import lineal
from lineal import view
from lineal.codec import to_json
from lineal.entries import ENTRY_TYPES, Evicted, Holder, HostRecord, Lease, PackBegun, PruneBegun, Suspended, Unknown
from lineal.rules.cut import protected
from lineal.session import Session, travel
from lineal.summarizers import SummaryRequest
from lineal.view import lines

SMALL = lineal.Policy(trigger=900, target=300, floor_turns=2, summary_max_tokens=120)


def summarize(request: SummaryRequest) -> str:
    return f"Goal: keep the harbour open. {len(request.turns)} turns were covered."


@pytest.fixture
def session() -> Iterator[Session]:
    with lineal.connect("memory:") as store:
        yield store.session("s", policy=SMALL, summarizer=summarize)


def talk(session: Session, rounds: int, start: int = 0) -> None:
    for n in range(start, start + rounds):
        session.append({"role": "user", "content": f"question {n} " + "about the tide " * 6}, id=f"u{n}")
        session.append({"role": "assistant", "content": f"answer {n} " + "low water at nine " * 6}, id=f"a{n}")


def call(id: str) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"id": id, "type": "function", "function": {"name": "deploy", "arguments": "{}"}}]}


def rows(session: Session) -> list[view.TimelineRow]:
    return list(view.timeline(session.log.entries()))


def everything(session: Session) -> list[view.TimelineRow]:
    """A session in which every kind of entry stands, and one of another program."""
    talk(session, 3)
    session.pin("u1")
    session.pin("never touch the staging bucket")
    session.record_usage(2_000, 10)
    with session.effect("deploy", {"region": "north"}, key="d1") as effect:
        effect.attach("job-7")
        effect.settle({"ok": True})
    with pytest.raises(OSError), session.effect("mail", {"to": "x"}, key="m1"):
        raise OSError("cable")
    session.resolve_effect("m1", "not_happened", "asked them")
    session.checkpoint("before")
    talk(session, 6, 3)
    plan = session.plan_compaction()
    session.abort_compaction(plan, "no summary came")
    assert isinstance(session.compact(), lineal.Compacted)
    talk(session, 2, 20)
    session.spill(["u20"])
    session.note_eviction(["a20"], "host")
    session.unpin("u1")
    session.rollback(session.status().head - 3)
    session.pack()
    session.log.write(lambda lineage: [PackBegun(runs=(), entries=0, bytes=0, pre_digest="", lease=Lease(Holder(""), 0.0, 0.0))])
    session.finish_removal()
    fork = session.fork("child")
    fork.purge(["u0"])
    fork.compact()
    fork.prune()
    fork.log.write(lambda lineage: [Unknown(name="x.note", raw=to_json({"v": 1, "kind": "x.note", "line": 3, "why": "torn"}))])
    fork.log.write(lambda lineage: [HostRecord(space="graph", group="cp", key="1"), HostRecord(space="graph", releases=(4, 5))])
    fork.log.write(lambda lineage: [Suspended(tokens=900, floor_tokens=400, pinned_tokens=10, trigger=900)])
    return [*rows(session), *rows(fork)]


# --- timeline ----------------------------------------------------------------------------------------------------------------


def test_every_kind_of_entry_has_a_teller() -> None:
    """A new kind without a line in the timeline fails here."""
    assert set(lines._TOLD) == {*ENTRY_TYPES, Unknown}


def test_every_entry_is_one_readable_line(session: Session) -> None:
    found = everything(session)
    assert {row.kind for row in found} >= {str(t.__struct_config__.tag) for t in ENTRY_TYPES} | {"x.note"}
    for row in found:
        assert row.text and "\n" not in row.text and len(row.text) < 400, row
        to_json(dict(row.detail))  # plain JSON values
    assert [row.seq for row in rows(session)] == list(range(1, session.status().head + 1))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("turn", " tokens): question 0 about the tide"),
        ("compaction_begun", "compaction g1 begun: "),
        ("compaction_aborted", "compaction g1 aborted: no summary came"),
        ("compaction_committed", "compaction g2 committed: "),
        ("checkpoint", "'before' at generation 0, effects up to seq "),
        ("rolled_back", "rolled back to seq "),
        ("effect_intended", 'effect deploy intended (key d1, attempt 1): {"region":"north"}'),
        ("effect_attached", "effect d1 is known outside as job-7"),
        ("effect_settled", 'effect d1 is done: {"ok":true}'),
        ("effect_settled", "effect m1 is unknown (OSError: cable)"),
        ("effect_resolved", "effect m1 resolved: not_happened: asked them"),
        ("pinned", "pinned turn u1"),
        ("host", "kept for graph: cp 1"),
        ("host", "graph releases 2 records"),
        ("pinned", "pinned text 'never touch the staging bucket'"),
        ("unpinned", "unpinned u1"),
        ("usage", "provider counted 2,000 tokens in, 10 out"),
        ("evicted", "1 turn evicted by host: a20"),
        ("forked", "forked from 's' at seq "),
        ("suspended", "compaction suspended: view 900 tokens, trigger 900, floor 400, pins 10"),
        ("purge_begun", "purge begun: content of 1 turn (u0)"),
        ("prune_begun", "prune begun: "),
        ("pack_begun", "pack begun: "),
        ("segment", "segment of seq 1"),
        ("pack_committed", " committed: 1 segments"),
        ("pack_aborted", " aborted: 0 segments go"),
        ("pack_finished", " finished"),
        ("x.note", "x.note: line 3, why torn"),
    ],
)
def test_a_line_says_what_happened_with_its_numbers(session: Session, kind: str, words: str) -> None:
    texts = [row.text for row in everything(session) if row.kind == kind]
    assert any(words in text for text in texts), texts


def test_marks_frame_a_compaction_and_name_places_to_go_back_to(session: Session) -> None:
    talk(session, 5)
    plan = session.plan_compaction()
    talk(session, 1, 9)
    session.commit_compaction(plan, "Goal: keep the harbour open. Five questions about the tide were answered.")
    session.checkpoint()
    talk(session, 2, 12)
    session.spill(["a12"])
    begun = session.plan_compaction()
    session.abort_compaction(begun)
    session.rollback(session.checkpoints()[0])
    marks = [row.mark for row in rows(session)]
    assert marks == [
        "",
        *[""] * 9,
        "begun",
        "inside",
        "inside",
        "committed",
        "checkpoint",
        "",
        "",
        "",
        "",
        "spilled",
        "begun",
        "aborted",
        "rollback",
    ]


def test_a_long_message_is_quoted_by_its_first_words(session: Session) -> None:
    session.append({"role": "user", "content": "one\n\ttwo " + "x" * 5_000}, id="u")
    (row,) = rows(session)
    assert "one two xxx" in row.text and row.text.endswith("…") and len(row.text) < 150


def test_erased_content_is_said_to_be_erased(session: Session) -> None:
    talk(session, 2)
    session.purge(["u0"])
    assert "[content erased]" in rows(session)[0].text and "question 0" not in rows(session)[0].text


# --- context ------------------------------------------------------------------------------------------------------------------


def context(session: Session) -> list[view.ContextRow]:
    shown = session.view()
    return list(view.context(session.log.lineage, session.policy, {t.seq: t.message for t in shown.turns}, session.counter))


def test_the_context_is_exactly_what_the_model_is_shown(session: Session) -> None:
    """R25: one row a message, in its order, and the prices add up to the view's size."""
    talk(session, 8)
    session.append(call("c1"))
    session.append({"role": "user", "content": "never mind"}, id="u99")
    session.spill(["a0"])
    session.compact()
    session.append({"role": "user", "content": "x" * 300_000}, id="big")
    found = context(session)
    assert len(found) == len(session.messages())
    assert sum(r.tokens for r in found if r.what != "derived") == session.log.lineage.tokens
    assert sum(r.bytes for r in found if r.what != "derived") == session.log.lineage.bytes
    assert {r.what for r in found} >= {"summary", "note", "derived", "turn", "stub"}
    (derived,) = [r for r in found if r.what == "derived"]
    assert derived.name == "c1" and derived.seqs[0] == next(r.seqs[0] for r in found if "deploy" in r.text)


def test_each_row_says_what_keeps_it(session: Session) -> None:
    session.append({"role": "system", "content": "be brief"}, id="sys")
    talk(session, 8)
    session.pin("a1")
    session.compact()
    talk(session, 1, 20)
    why = {r.name: r.why for r in context(session)}
    kept = protected(session.log.lineage, session.policy)
    assert {name: reason for name, reason in why.items() if name in kept} == kept
    assert why["sys"] == "instructions" and why["a1"] == "pinned" and why["a20"] == "floor"
    assert why["g1"].startswith("stands for 13 turns of ")


def test_what_a_host_evicted_is_not_in_the_context(session: Session) -> None:
    talk(session, 2)
    session.log.write(lambda lineage: [Evicted(turns=("u0",), by="host")])
    assert "u0" not in {r.name for r in context(session)} and len(context(session)) == len(session.messages())


def test_budgets_say_both_numbers(session: Session) -> None:
    talk(session, 2)
    tokens, size, items = view.budgets(session.log.lineage, session.policy)
    assert (tokens.used, tokens.trigger, tokens.ceiling) == (session.status().tokens, 900, SMALL.ceiling)
    assert size.used == session.status().bytes and items.text == "4 items of 10,000 (0 % of the ceiling)"


# --- ledger and health ----------------------------------------------------------------------------------------------------------


def test_a_ledger_line_tells_the_call_and_its_end(session: Session) -> None:
    with session.effect("deploy", {"region": "north"}, key="d1", idempotent=True) as effect:
        effect.settle("dep-1")
    with pytest.raises(OSError), session.effect("mail", "to all", key="m1"):
        raise OSError("cable")
    done, lost = view.ledger(session.ledger())
    assert (done.key, done.state, done.how, done.text) == ("d1", "done", "guarded, idempotent", '{"region":"north"} -> dep-1')
    assert (lost.state, lost.text) == ("unknown", "to all -> OSError: cable")


def health(session: Session) -> dict[str, view.HealthRow]:
    return {row.name: row for row in view.health(session.status(), session.log.lineage, session.policy)}


def test_a_sound_session_is_ok_in_every_respect(session: Session) -> None:
    talk(session, 1)
    assert {row.state for row in health(session).values()} == {"ok"}
    assert not any(row.advice for row in health(session).values())


def test_what_needs_attention_is_named_with_the_way_out(session: Session) -> None:
    talk(session, 14)
    with pytest.raises(OSError), session.effect("mail", "x", key="m1"):
        raise OSError("cable")
    session.append(call("c1"))
    session.plan_compaction()
    session.log.write(lambda lineage: [Suspended(tokens=1, floor_tokens=1, pinned_tokens=0, trigger=1)])
    session.log.write(lambda lineage: [PruneBegun(runs=(), entries=0)])
    session.log.latch("TRUNCATED: row 3")
    found = health(session)
    assert {name for name, row in found.items() if row.state == "bad"} >= {"integrity", "effects"}
    assert {name for name, row in found.items() if row.state == "watch"} >= {"compaction", "progress", "calls", "removal"}
    assert found["tokens"].state in ("watch", "bad") and "m1" in found["effects"].text and "c1" in found["calls"].text
    assert all(row.advice for row in found.values() if row.state != "ok")


# --- recovery -------------------------------------------------------------------------------------------------------------------


def recovery(session: Session) -> list[view.RecoveryRow]:
    lineage = session.log.catch_up()
    choice = travel.recovery_choice(session, lineage)
    return list(view.recovery(travel.recovery_facts(session, lineage), travel.candidates(session), choice, {}))


def test_each_checkpoint_has_its_own_verdict(session: Session) -> None:
    """Record 000: only what is newer than the compaction is eligible; all of them say why."""
    talk(session, 6)
    session.checkpoint("old")
    session.compact()
    session.checkpoint("fresh")
    talk(session, 1, 30)
    session.checkpoint("freshest")
    found = recovery(session)
    assert [(r.chosen, r.eligible, r.verdict.reason) for r in found] == [
        (True, True, "newer_than_compaction"),
        (False, True, "newer_than_compaction"),
        (False, False, "not_newer"),
    ]
    assert found[0].checkpoint == session.recover().checkpoint


def test_a_state_that_is_not_what_was_written_is_not_eligible(session: Session) -> None:
    """Record 000: a checkpoint whose digest does not match is skipped, and that is said."""
    talk(session, 2)
    made = session.checkpoint()
    session.engine.put_state("s", made.seq - 1, os.urandom(64))
    assert [(r.eligible, r.verdict.reason) for r in recovery(session)] == [(False, "digest_mismatch")]


def test_a_live_compaction_makes_every_checkpoint_ineligible(session: Session) -> None:
    """Record 000: while a compaction is in flight, equality or not, the answer is no."""
    talk(session, 5)
    session.checkpoint()
    session.plan_compaction()
    assert [(r.eligible, r.chosen, r.verdict.reason) for r in recovery(session)] == [(False, False, "open_compaction_live")]
