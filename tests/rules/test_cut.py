"""What would be covered: units against a second, dumber grouping, and the cut's promises over any view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from lineal.entries import Call, Node, Note, Pin, Result
from lineal.lineage import Item, Lineage, TurnItem, place
from lineal.policy import Policy
from lineal.rules.cut import STUB_LIMIT, SYSTEM_ROLES, cut, floor_of, name, open_calls, over, protected, spill_cut, units

POLICY = Policy(trigger=1_000, ceiling=1_200, target=400, floor_turns=2)


def turn(
    seq: int, author: str, calls: Sequence[str] = (), results: Sequence[tuple[str, bool]] = (), tokens: int = 10, **more: object
) -> TurnItem:
    said = tuple(Call(c) for c in calls)
    back = tuple(Result(c, final) for c, final in results)
    return TurnItem(seq, f"t{seq}", author, author, tokens, tokens * 3, "", said, back, **more)  # type: ignore[arg-type]


def view(*items: Item, **more: object) -> Lineage:
    head = max((place(i) for i in items), default=0)
    tokens, size = sum(i.tokens for i in items), sum(i.bytes for i in items)
    return Lineage(session="a", digest="", head=head, items=tuple(items), tokens=tokens, bytes=size, **more)  # type: ignore[arg-type]


def ids(turns: Sequence[Item]) -> list[str]:
    return [name(t) for t in turns]


# --- units: small stories ------------------------------------------------------------------------------------------------


def groups(*turns: TurnItem) -> list[tuple[list[str], tuple[str, ...]]]:
    return [(ids(u.turns), u.open) for u in units(turns)]


def test_a_call_and_its_results_are_one_unit_with_records_between() -> None:
    """R11."""
    found = groups(
        turn(1, "user"),
        turn(2, "assistant", ["a", "b"]),
        turn(3, "tool", (), [("b", True)]),
        turn(4, "user"),
        turn(5, "tool", (), [("a", True)]),
    )
    assert found == [(["t1"], ()), (["t2", "t3", "t5"], ()), (["t4"], ())]


def test_a_result_may_come_before_its_call() -> None:
    """R11: in any order."""
    assert groups(turn(1, "tool", (), [("a", True)]), turn(2, "assistant", ["a"])) == [(["t1", "t2"], ())]
    assert groups(turn(1, "tool", (), [("a", False)]), turn(2, "tool", (), [("a", False)]), turn(3, "assistant", ["a"])) == [
        (["t1", "t2", "t3"], ("a",))
    ]


def test_only_a_final_result_closes_a_call() -> None:
    """R11: an interim result keeps it open."""
    pending, final = turn(2, "tool", (), [("a", False)]), turn(3, "tool", (), [("a", True)])
    assert open_calls([turn(1, "assistant", ["a"]), pending]) == ("a",)
    assert open_calls([turn(1, "assistant", ["a"]), pending, final]) == ()
    assert groups(turn(1, "assistant", ["a"]), pending, final) == [(["t1", "t2", "t3"], ())]


def test_a_reused_id_belongs_to_the_newest_unanswered_call() -> None:
    """Models use the same call id again and again; each result goes to the call that still waits."""
    found = groups(
        turn(1, "assistant", ["c"]),
        turn(2, "tool", (), [("c", True)]),
        turn(3, "user"),
        turn(4, "assistant", ["c"]),
        turn(5, "tool", (), [("c", True)]),
    )
    assert found == [(["t1", "t2"], ()), (["t3"], ()), (["t4", "t5"], ())]


def test_an_unanswered_call_stays_open_although_its_id_is_used_again() -> None:
    """R11: no final result, no covering."""
    found = groups(turn(1, "assistant", ["c"]), turn(2, "assistant", ["c"]), turn(3, "tool", (), [("c", True)]))
    assert found == [(["t1"], ("c",)), (["t2", "t3"], ())]


def test_two_equal_ids_in_one_turn_want_two_results() -> None:
    asked, first, second = turn(1, "assistant", ["c", "c"]), turn(2, "tool", (), [("c", True)]), turn(3, "tool", (), [("c", True)])
    assert open_calls([asked, first]) == ("c",)
    assert open_calls([asked, first, second]) == ()


def test_a_turn_that_answers_and_asks_joins_both_units() -> None:
    """R11: per block. A user's record that also holds a result is in the call's unit."""
    found = groups(
        turn(1, "assistant", ["a"]), turn(2, "assistant", ["b"], [("a", True)]), turn(3, "user", (), [("b", True)]), turn(4, "user")
    )
    assert found == [(["t1", "t2", "t3"], ()), (["t4"], ())]


# --- units: a second, dumber implementation ----------------------------------------------------------------------------


@dataclass
class Asked:
    at: int
    id: str
    finals: int = 0
    members: set[int] = field(default_factory=set)


def dumb(turns: Sequence[TurnItem]) -> list[tuple[list[str], list[str]]]:
    """Every call is a set of turns; each result is put into one of them; sets that share a turn are merged until none do."""
    asked: list[Asked] = []
    orphans: list[tuple[int, Result]] = []
    for i, t in enumerate(turns):
        for call in t.calls:
            new = Asked(i, call.id, members={i})
            asked.append(new)
            for j, result in [o for o in orphans if o[1].call == call.id]:
                new.members.add(j)
                new.finals += result.final
            orphans = [o for o in orphans if o[1].call != call.id]
        for result in t.results:
            mine = [a for a in asked if a.id == result.call]
            waiting = [a for a in mine if not a.finals]
            if not mine:
                orphans.append((i, result))
                continue
            owner = (waiting or mine)[-1]
            owner.members.add(i)
            owner.finals += result.final
    sets = [{i} for i in range(len(turns))] + [a.members for a in asked]
    merged = True
    while merged:
        merged = False
        for a in sets:
            for b in sets:
                if a is not b and a & b:
                    sets = [s for s in sets if s is not a and s is not b] + [a | b]
                    merged = True
                    break
            if merged:
                break
    shown = sorted(sorted(s) for s in sets)
    return [([turns[i].id for i in s], sorted(a.id for a in asked if a.at in s and not a.finals)) for s in shown]


CALLS = st.lists(st.sampled_from("abc"), max_size=2)
RESULTS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=2)
TURNS = st.tuples(st.sampled_from(["user", "assistant", "tool", "system"]), CALLS, RESULTS, st.integers(0, 60))


@st.composite
def conversations(draw: st.DrawFn, most: int = 14) -> list[TurnItem]:
    said = draw(st.lists(TURNS, max_size=most))
    seqs = draw(st.lists(st.integers(1, 3), min_size=len(said), max_size=len(said)))
    at, turns = 10, []
    for (author, calls, results, tokens), step in zip(said, seqs, strict=True):
        at += step
        kind = draw(st.sampled_from(["plain", "call", "result", "both"]))
        turns.append(turn(at, author, calls if kind in ("call", "both") else (), results if kind in ("result", "both") else (), tokens))
    return turns


@settings(max_examples=400, deadline=None)
@given(turns=conversations())
def test_units_agree_with_the_dumb_grouping(turns: list[TurnItem]) -> None:
    assert [(ids(u.turns), sorted(u.open)) for u in units(turns)] == dumb(turns)


# --- the cut over any view ---------------------------------------------------------------------------------------------


@st.composite
def views(draw: st.DrawFn) -> tuple[Lineage, Policy]:
    turns = draw(conversations())
    nodes = [
        Node(draw(st.sampled_from(["summary", "spill"])), n, ((n * 2 - 1, n * 2),), 2, draw(st.integers(0, 40)), 90, text="old")
        for n in range(1, draw(st.integers(0, 3)) + 1)
    ]
    pins = tuple(Pin(t.id, turn=t.id) for t in turns if draw(st.integers(0, 9)) == 0)
    items = sorted([*nodes, *turns, Note(8, "note", 5, 15)], key=place)
    policy = Policy(
        trigger=draw(st.integers(20, 300)),
        target=draw(st.integers(1, 10)),
        floor_turns=draw(st.integers(0, 5)),
        ceiling_items=draw(st.integers(6, 30)),
    )
    return view(*items, pins=pins), policy


def must_stay(lineage: Lineage, policy: Policy) -> set[str]:
    """The promises, one after the other, without looking at how `protected` finds them."""
    turns = list(lineage.turns)
    stay = {t.id for t in turns[-policy.floor_turns :]} if policy.floor_turns else set()
    stay |= {p.turn for p in lineage.pins}
    while turns and turns[0].role in SYSTEM_ROLES:
        stay.add(turns.pop(0).id)
    users = [t for t in lineage.turns if t.author == "user"]
    stay |= {t.id for t in users[-1:]}
    for group, waiting in dumb(lineage.turns):
        if waiting or set(group) & stay:
            stay |= set(group)
    return stay


@settings(max_examples=400, deadline=None)
@given(case=views(), fill=st.integers(0, 200))
def test_every_cut_keeps_its_promises(case: tuple[Lineage, Policy], fill: int) -> None:
    """R8, R11, R12: a partition of the window, whole units, everything promised kept, and one side of the newest user turn."""
    lineage, policy = case
    chosen = cut(lineage, policy, fill)
    window = [i for i in lineage.items if not isinstance(i, Note)]
    assert sorted(chosen.covered_ids + chosen.kept_ids) == sorted(ids(window))
    assert ids(chosen.floor) == ids(lineage.turns[-policy.floor_turns :] if policy.floor_turns else ())
    covered = set(chosen.covered_ids)
    assert not covered & must_stay(lineage, policy)
    assert set(protected(lineage, policy)) >= must_stay(lineage, policy)
    for group, _ in dumb(lineage.turns):
        assert set(group) <= covered or not set(group) & covered, "a unit is never split"
    users = [t.seq for t in lineage.turns if t.author == "user"]
    if users:
        assert len({place(i) > users[-1] for i in chosen.covered}) <= 1, "a summary stands before the newest user turn or behind it"
    assert set(ids(chosen.put_aside)) <= set(chosen.kept_ids)


@settings(max_examples=300, deadline=None)
@given(case=views())
def test_every_spill_cut_keeps_its_promises(case: tuple[Lineage, Policy]) -> None:
    """R10, R26: whole unprotected units, summaries stay, and it stops once the budgets are met."""
    lineage, policy = case
    taken = spill_cut(lineage, policy, policy.trigger // 2, 10_000, 10)
    names = set(ids(taken))
    assert not names & must_stay(lineage, policy)
    assert not any(isinstance(i, Node) and i.kind == "summary" for i in taken)
    for group, _ in dumb(lineage.turns):
        assert set(group) <= names or not set(group) & names
    if not over(lineage, policy.trigger // 2, 10_000, 10):
        assert taken == ()
    left = [i for i in lineage.items if name(i) not in names]
    free = [u for u in units(lineage.turns) if not {t.id for t in u.turns} & (must_stay(lineage, policy) | names)]
    users = [t.seq for t in lineage.turns if t.author == "user"]
    sides = {u.turns[0].seq > users[-1] if users else True for u in free if not (users and u.turns[0].seq < users[-1] < u.turns[-1].seq)}
    enough = sum(i.tokens for i in left) <= policy.trigger // 2 and len(left) <= 10
    assert enough or len(sides) <= 1, "above the budgets everything of one side is taken"


# --- the cut: small stories ----------------------------------------------------------------------------------------------


def test_the_newest_user_turn_stays_even_with_floor_zero() -> None:
    """R12."""
    lineage = view(turn(1, "user"), turn(2, "assistant"), turn(3, "user"), turn(4, "assistant", tokens=5))
    chosen = cut(lineage, POLICY.with_(floor_turns=0))
    assert ids(chosen.covered) == ["t1", "t2"]
    assert ids(chosen.kept) == ["t3", "t4"]


def test_of_two_sides_the_heavier_is_covered() -> None:
    """R12: no summary of older turns may stand behind the newest user turn."""
    lineage = view(turn(1, "user"), turn(2, "assistant"), turn(3, "user"), *(turn(n, "assistant", tokens=50) for n in range(4, 9)))
    assert ids(cut(lineage, POLICY).covered) == ["t4", "t5", "t6"]


def test_a_unit_around_the_newest_user_turn_is_not_split() -> None:
    """R11, R12: its call stands before, its result behind; a summary of it could stand on neither side."""
    lineage = view(
        turn(1, "user"),
        turn(2, "assistant", ["a"]),
        turn(3, "user"),
        turn(4, "tool", (), [("a", True)]),
        *(turn(n, "assistant") for n in range(5, 12)),
    )
    chosen = cut(lineage, POLICY)
    assert {"t2", "t4"} <= set(chosen.kept_ids)
    assert spill_cut(lineage, POLICY, 0, 0, 0) and not {"t2", "t4"} & set(ids(spill_cut(lineage, POLICY, 0, 0, 0)))
    assert "unit around t3" in chosen.held_by


def test_leading_instructions_stay_and_later_ones_do_not() -> None:
    lineage = view(turn(1, "system"), turn(2, "developer"), turn(3, "user"), turn(4, "system"), *(turn(n, "user") for n in range(5, 9)))
    assert {"t1", "t2"} <= set(cut(lineage, POLICY).kept_ids)
    assert "t4" in cut(lineage, POLICY).covered_ids


def test_a_pinned_turn_keeps_its_whole_unit() -> None:
    lineage = view(
        turn(1, "assistant", ["a"]),
        turn(2, "tool", (), [("a", True)]),
        *(turn(n, "user") for n in range(3, 8)),
        pins=(Pin("t2", turn="t2"),),
    )
    chosen = cut(lineage, POLICY)
    assert {"t1", "t2"} <= set(chosen.kept_ids)
    assert {"pinned", "unit of t2"} <= set(chosen.held_by)


def test_a_summary_alone_is_worth_no_pass() -> None:
    """R24: nothing new would be covered, and a summary of a summary only loses."""
    node = Node("summary", 1, ((1, 4),), 4, 500, 900, text="old")
    lineage = view(node, turn(5, "user"), turn(6, "assistant"))
    assert not any(isinstance(i, TurnItem) for i in cut(lineage, POLICY).covered)


def test_what_is_filled_stays_in_whole_units_newest_first() -> None:
    lineage = view(
        *(turn(n, "user") for n in range(1, 4)),
        turn(4, "assistant", ["a"]),
        turn(5, "tool", (), [("a", True)]),
        turn(6, "user"),
        turn(7, "user"),
    )
    assert ids(cut(lineage, POLICY, fill_to=45).covered) == ["t1", "t2", "t3"]
    assert ids(cut(lineage, POLICY, fill_to=39).covered) == ["t1", "t2", "t3", "t4", "t5"]
    assert ids(cut(lineage, POLICY, fill_to=1_000).covered) == []


def test_only_results_and_documents_are_shown_as_stubs_and_pins_never() -> None:
    """R26: inside the floor too, largest first, until what stays fits with a summary beside it."""
    policy = POLICY.with_(floor_turns=4)
    huge = turn(2, "tool", (), [("a", True)], tokens=2_000)
    words = turn(3, "user", tokens=900)
    lineage = view(turn(1, "assistant", ["a"]), huge, words, turn(4, "assistant"))
    assert ids(cut(lineage, policy).put_aside) == ["t2"]
    assert ids(cut(view(*lineage.items, pins=(Pin("t2", turn="t2"),)), policy).put_aside) == []
    small = view(turn(1, "assistant", ["a"]), turn(2, "tool", (), [("a", True)], tokens=STUB_LIMIT // 3), turn(3, "user", tokens=2_000))
    assert ids(cut(small, policy).put_aside) == [], "what is no larger than a stub is left"


def test_spills_among_what_is_spilled_are_joined() -> None:
    """One stub, not a row of them."""
    spill, summary = Node("spill", 1, ((1, 2),), 2, 20, 60), Node("summary", 2, ((3, 4),), 2, 20, 60, text="x")
    lineage = view(spill, summary, *(turn(n, "assistant") for n in range(5, 9)), turn(9, "user"), turn(10, "user"))
    assert ids(spill_cut(lineage, POLICY, 60, 10_000, 100)) == ["g1", "t5", "t6", "t7", "t8"]


def test_each_of_the_three_budgets_counts() -> None:
    """R26."""
    lineage = view(turn(1, "user", tokens=10), turn(2, "user", tokens=10))
    assert not over(lineage, 20, 60, 2)
    assert over(lineage, 19, 60, 2) and over(lineage, 20, 59, 2) and over(lineage, 20, 60, 1)


def test_a_floor_of_zero_is_empty() -> None:
    assert floor_of((turn(1, "user"),), POLICY.with_(floor_turns=0)) == ()


def test_what_waits_for_the_next_pass_is_told() -> None:
    """R12: of the sides of the newest user turn the heavier one is covered; the other one is named as later, not as covered."""
    lineage = view(turn(1, "assistant"), turn(2, "user"), *(turn(n, "assistant", tokens=50) for n in range(3, 8)))
    found = cut(lineage, POLICY)
    assert ids(found.covered) == ["t3", "t4", "t5"] and ids(found.later) == ["t1"]


def test_room_for_a_summary_is_the_smaller_of_its_limit_and_the_target() -> None:
    """A result is put aside only where what is kept and a summary do not fit under the ceiling together."""
    result = turn(2, "tool", (), [("a", True)], tokens=900)
    kept = view(turn(1, "assistant", ["a"]), result, turn(3, "user"))
    roomy = Policy(trigger=1_000, ceiling=1_200, target=200, floor_turns=3, summary_max_tokens=100)
    tight = Policy(trigger=1_000, ceiling=1_200, target=200, floor_turns=3, summary_max_tokens=1_000)
    assert cut(kept, roomy).put_aside == cut(kept, tight).put_aside == ()
    larger = view(turn(1, "assistant", ["a"]), turn(2, "tool", (), [("a", True)], tokens=1_190), turn(3, "user"))
    assert ids(cut(larger, roomy).put_aside) == ["t2"]


def test_spills_between_what_is_spilled_are_taken_along() -> None:
    """R53: one stub and not a row of them, also where the first one taken is older than the spill."""
    node = Node("spill", 1, ((2, 2),), 1, 10, 30)
    lineage = view(turn(1, "assistant"), node, turn(3, "assistant"), turn(4, "user"), turn(5, "assistant"))
    assert ids(spill_cut(lineage, POLICY, tokens=25, size=10_000, items=10)) == ["t1", "g1", "t3"]
