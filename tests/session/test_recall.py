"""Reading back what left the view: exact turns by handle, pages, search."""

from __future__ import annotations

from typing import Any

import pytest

from lineal.errors import Refused
from lineal.session import Session
from lineal.session.outcomes import Compacted
from lineal.session.recall import words


def test_a_handle_of_any_kind_gives_the_exact_turns(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R53: a summary's, a spill's, a turn's, before and after each left the view."""
    turns = fill(session, 16)
    spill = session.spill(["t0"])
    summary = session.compact(brief)
    assert isinstance(summary, Compacted)
    for find in (house.session, lambda: house.reopen(session)):
        reader = find()
        assert reader.expand(spill) == turns[:1]
        assert reader.expand(summary.handle) == turns[:12]
        assert reader.expand("t:t5") == reader.expand("t5") == [turns[5]]
        assert reader.expand("t15") == [turns[15]]


@pytest.mark.parametrize("handle", ["g7", "t:nobody", "nobody", "", "g", "g-1", "g1 "])
def test_an_unknown_handle_is_refused(session: Session, fill: Any, handle: str) -> None:
    fill(session, 4)
    with pytest.raises(Refused) as refusal:
        session.expand(handle)
    assert refusal.value.reason == "not_retained" and refusal.value.remedy


def test_a_turn_whose_id_looks_like_a_handle_can_be_read(session: Session, say: Any) -> None:
    turn = session.append(say.user(1), id="g1")
    assert session.expand("g1") == session.expand("t:g1") == [turn]


def test_handles_of_a_branch_that_was_left_behind_still_answer(house: Any, session: Session, fill: Any, brief: Any) -> None:
    """R46: superseded generations stay what they were."""
    turns = fill(session, 16)
    first = session.compact(brief)
    session.rollback(4)
    fill(session, 16, 50)
    second = session.compact(brief)
    for reader in (session, house.session()):
        assert reader.expand(first.handle) == turns[:12]
        assert [t.id for t in reader.expand(second.handle)] == [*(f"t{n}" for n in range(4)), *(f"t{n}" for n in range(50, 62))]


def test_a_turn_that_was_said_again_is_found_as_it_was_said_last(session: Session, fill: Any, say: Any) -> None:
    fill(session, 4)
    session.rollback(2)
    new = session.append(say.user(99), id="t3")
    assert session.expand("t3") == [new]


def test_what_was_pruned_is_named(session: Session, fill: Any, brief: Any) -> None:
    """R52: never a shorter list without a word."""
    fill(session, 30)
    outcome = session.compact(brief)
    fill(session, 4, 30)
    session.prune()
    with pytest.raises(Refused) as refusal:
        session.expand(outcome.handle)
    assert "0 of the 26 turns" in str(refusal.value) and "pruned" in str(refusal.value)
    with pytest.raises(Refused):
        session.expand("t3")
    assert [t.id for t in session.turns()][0] == "t26"
    child = session.fork("child")
    with pytest.raises(Refused, match="pruned"):
        child.expand(outcome.handle)


def test_what_was_purged_is_gone_and_the_rest_is_there(session: Session, fill: Any, brief: Any) -> None:
    turns = fill(session, 16)
    outcome = session.compact(brief)
    session.purge(["t3"])
    assert session.expand(outcome.handle) == [t for t in turns[:12] if t.id != "t3"]
    with pytest.raises(Refused, match="purged"):
        session.expand("t3")
    assert "t3" not in {t.id for t in session.turns()}


def test_pages_are_of_this_branch(session: Session, fill: Any) -> None:
    fill(session, 10)
    session.rollback(6)
    fill(session, 4, 20)
    assert [t.id for t in session.turns(limit=5)] == ["t5", "t20", "t21", "t22", "t23"]
    assert [t.id for t in session.turns(before=12, limit=2)] == ["t4", "t5"]
    assert session.turns(before=1) == [] and session.turns(limit=0) == []


# --- search ------------------------------------------------------------------------------------------------------------------


def test_the_best_turns_come_first_wherever_they_are(house: Any, session: Session, fill: Any, say: Any, brief: Any) -> None:
    """Covered, spilled or shown; ties go to the newer turn; a hit can be read again by its handle."""
    session.append(say.user(900, "the linker fails on src/build/linker.rs with exit code 139"), id="wanted")
    session.append(say.answer(901, "linker linker linker, and nothing else of what was asked for"), id="other")
    fill(session, 20)
    session.compact(brief)
    for reader in (session, house.session()):
        hits = reader.search("linker.rs exit 139")
        assert [h.id for h in hits][:1] == ["wanted"] and hits[0].score > hits[-1].score or len(hits) == 1
        assert reader.expand(hits[0].handle)[0].id == "wanted" and "linker" in hits[0].text and hits[0].seq == 1
    equal = session.search("slowly")
    assert [h.seq for h in equal] == sorted((h.seq for h in equal), reverse=True)
    assert len(session.search("slowly", limit=3)) == 3


def test_calls_and_results_are_found_too(session: Session, say: Any) -> None:
    session.append([say.user(1), say.call("c1", tool="query_database", args={"table": "invoices"}), say.result("c1", "row 4711 overdue")])
    assert [h.seq for h in session.search("invoices")] == [2]
    assert [h.seq for h in session.search("query_database")] == [2]
    assert [h.seq for h in session.search("4711 OVERDUE")] == [3]


@pytest.mark.parametrize("query", ["", "   ", "\ud800", "…?!", "neverthere"])
def test_a_query_for_nothing_finds_nothing(session: Session, fill: Any, query: str) -> None:
    fill(session, 4)
    assert session.search(query) == []


def test_what_was_left_behind_or_purged_is_not_found(session: Session, fill: Any, say: Any) -> None:
    fill(session, 3)
    session.append(say.answer(1, "the secret is hunter2"), id="secret")
    session.append(say.answer(2, "gone astray"), id="astray")
    session.append(say.user(3))
    session.purge(["secret"])
    session.rollback(4)
    assert session.search("hunter2") == [] and session.search("astray") == []


def test_identifiers_stay_whole_and_are_found_by_their_parts() -> None:
    assert words("See src/build/linker.rs, PROJ-4711: it's fine.") == [
        "see", "src/build/linker.rs", "src", "build", "linker", "rs", "proj-4711", "proj", "4711", "it", "s", "fine",
    ]  # fmt: skip


def test_a_snippet_shows_the_place(session: Session, say: Any) -> None:
    session.append(say.user(1, "filler " * 200 + "the needle is here " + "filler " * 200))
    (hit,) = session.search("needle")
    assert "needle" in hit.text and hit.text.startswith("…") and len(hit.text) < 300
