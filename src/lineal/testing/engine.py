"""The conformance suite of the engine port: what E1 to E9 of `lineal.engines` mean, as tests.

An engine passes when it passes whole. Subclass `EngineTests` in a pytest module (`DurableEngineTests`, if the store
outlives its process) and give the fixture `make_engine`: a callable that returns one more handle on the same store each
time, so that a second handle sees what a second process would see.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from lineal.codec import digest
from lineal.engines import Duplicate, Engine, Row
from lineal.errors import Conflict, LinealError, PolicyError, Unavailable

MakeEngine = Callable[[], Engine]
Failure = TypeVar("Failure", bound=LinealError)

ODD_TEXTS = (
    "",
    "plain",
    "\ud83d",
    "\ud83d\ude00",
    "nul\0in",
    "\\u0000",
    "line\nfeed\r\n",
    "quote'\"--;",
    "é",
    "e\u0301",
    "\ufeff",
    "%_*?",
    "x" * 5000,
)


def row(seq: int, body: bytes = b"body", kind: str = "turn", unique: str | None = None, keys: Iterable[str] = ()) -> Row:
    """A row as an engine gets it. An engine looks at no digest, so that these need not be chained."""
    inner = digest(b"salt", body)
    return Row(seq, kind, seq // 10, len(body), b"salt", body, inner, digest(inner, str(seq).encode()), unique, tuple(keys))


def rows(first: int, count: int) -> list[Row]:
    return [row(seq, f"body {seq}".encode()) for seq in range(first, first + count)]


def refusal(kind: type[Failure], call: Callable[[], Any]) -> Failure:
    """The error of exactly this kind that `call` raises."""
    try:
        result = call()
    except kind as e:
        assert type(e) is kind, f"{type(e).__name__} where {kind.__name__} was due: {e}"
        return e
    raise AssertionError(f"{kind.__name__} was due, got {result!r}")


def append_with_retries(engine: Engine, session: str, bodies: Iterable[bytes]) -> None:
    """One row a body, each after whatever stands: how a plain append answers a `Conflict`."""
    head = 0
    for body in bodies:
        while True:
            try:
                engine.append(session, head, [row(head + 1, body)])
            except Conflict as e:
                head = e.found_seq
            else:
                head += 1
                break


def is_one_order(engine: Engine, writers: int, each: int) -> None:
    """Assert that session "s" holds what `writers` wrote by `append_with_retries`, `each` as many, none lost, none twice."""
    found = list(engine.scan("s"))
    assert [r.seq for r in found] == list(range(1, writers * each + 1))
    for name in range(writers):
        mine = [r.body for r in found if r.body.startswith(b"%d " % name)]
        assert mine == [b"%d %d" % (name, n) for n in range(each)]


class EngineTests:
    """E2 to E9, for any engine. The fixture `make_engine` comes from the subclass."""

    # --- append: all or nothing, at the head (E1, E2) ----------------------------------------------------------------

    def test_is_an_engine_and_says_what_it_is(self, make_engine: MakeEngine) -> None:
        """`status` names the engine, its place and its size."""
        engine = make_engine()
        engine.append("s", 0, rows(1, 3))
        status = engine.status()
        assert isinstance(engine, Engine)
        assert status["engine"] == engine.name
        assert status["path"] and status["bytes"] > 0
        assert engine.check() == []

    def test_what_was_appended_is_read_back_exactly(self, make_engine: MakeEngine) -> None:
        """E1, E8: every field, by every handle."""
        written = [
            row(1, b"one", "turn", "u:1", ("a", "b")),
            row(2, b"", "x.note"),
            row(3, bytes(range(256)), "effect_settled", None, ("a",)),
        ]
        make_engine().append("s", 0, written)
        assert list(make_engine().scan("s")) == written

    def test_a_wrong_head_is_a_conflict_with_both_numbers(self, make_engine: MakeEngine) -> None:
        """E2, R32: too low, too high, and on a session that does not exist."""
        engine = make_engine()
        engine.append("s", 0, rows(1, 2))
        for session, expected, found in (("s", 0, 2), ("s", 1, 2), ("s", 3, 2), ("other", 2, 0)):
            e = refusal(Conflict, lambda s=session, n=expected: engine.append(s, n, rows(n + 1, 2)))  # type: ignore[misc]
            assert (e.session, e.expected_seq, e.found_seq) == (session, expected, found)
        assert list(engine.scan("s")) == rows(1, 2)
        assert engine.sessions() == ["s"]

    def test_another_handle_that_wrote_first_is_a_conflict(self, make_engine: MakeEngine) -> None:
        """E2, E8, R41: a stale writer cannot write behind a newer head."""
        one, two = make_engine(), make_engine()
        one.append("s", 0, rows(1, 1))
        two.append("s", 1, rows(2, 1))
        assert refusal(Conflict, lambda: one.append("s", 1, rows(2, 1))).found_seq == 2
        one.append("s", 2, rows(3, 1))
        assert [r.seq for r in two.scan("s")] == [1, 2, 3]

    def test_an_empty_append_only_asks_for_the_head(self, make_engine: MakeEngine) -> None:
        """E2."""
        engine = make_engine()
        engine.append("s", 0, [])
        assert engine.sessions() == []
        engine.append("s", 0, rows(1, 1))
        engine.append("s", 1, [])
        assert refusal(Conflict, lambda: engine.append("s", 0, [])).found_seq == 1

    def test_rows_that_do_not_follow_are_no_batch(self, make_engine: MakeEngine) -> None:
        """E2: a gap, a repeat, a third key."""
        engine = make_engine()
        for batch in ([row(2)], [row(1), row(3)], [row(1), row(1)], [row(1, keys=("a", "b", "c"))]):
            assert refusal(PolicyError, lambda b=batch: engine.append("s", 0, b)).reason == "not_a_batch"  # type: ignore[misc]
        assert list(engine.scan("s")) == []

    # --- unique keys (E3) --------------------------------------------------------------------------------------------

    def test_a_taken_key_refuses_the_whole_batch(self, make_engine: MakeEngine) -> None:
        """E1, E3, R49: the seq that holds the key is named; not one row of the batch is there."""
        engine = make_engine()
        engine.append("s", 0, [row(1, unique="a"), row(2, unique="b")])
        e = refusal(Duplicate, lambda: make_engine().append("s", 2, [row(3), row(4, unique="c"), row(5, unique="b")]))
        assert (e.key, e.expected_seq, e.found_seq) == ("b", 2, 2)
        assert [r.seq for r in engine.scan("s")] == [1, 2]
        assert engine.find("s", "c") == []
        engine.append("s", 2, [row(3, unique="c")])

    def test_a_key_twice_in_one_batch_is_refused(self, make_engine: MakeEngine) -> None:
        """E3."""
        engine = make_engine()
        e = refusal(Duplicate, lambda: engine.append("s", 0, [row(1, unique="a"), row(2), row(3, unique="a")]))
        assert (e.key, e.found_seq) == ("a", 1)
        assert list(engine.scan("s")) == []

    def test_a_wrong_head_is_told_before_a_taken_key(self, make_engine: MakeEngine) -> None:
        """E2 before E3."""
        engine = make_engine()
        engine.append("s", 0, [row(1, unique="a"), row(2)])
        refusal(Conflict, lambda: engine.append("s", 1, [row(2, unique="a")]))

    def test_a_key_is_taken_in_its_session_and_as_long_as_its_row_stands(self, make_engine: MakeEngine) -> None:
        """E3, E6: a lookup key does not take it, nor does another session; an erased row still does, a dropped one does not."""
        engine = make_engine()
        engine.append("s", 0, [row(1, unique="a"), row(2, keys=("b",)), row(3)])
        engine.append("other", 0, [row(1, unique="a")])
        engine.append("s", 3, [row(4, unique="b")])
        engine.delete("s", [1], content_only=True)
        assert refusal(Duplicate, lambda: engine.append("s", 4, [row(5, unique="a")])).found_seq == 1
        engine.delete("s", [1])
        engine.append("s", 4, [row(5, unique="a")])
        assert [r.seq for r in engine.find("s", "a")] == [5]

    # --- scan (E4) ---------------------------------------------------------------------------------------------------

    def test_scan_yields_the_rows_between_two_seqs_in_order(self, make_engine: MakeEngine) -> None:
        """E4, R3: `after` is left out, `until` is in; bounds beyond the log are no error."""
        engine = make_engine()
        engine.append("a", 0, rows(1, 50))
        engine.append("b", 0, rows(1, 50))
        for after, until in ((0, None), (0, 50), (10, 20), (49, None), (50, None), (20, 10), (99, 999), (0, 0), (-5, 7), (3, 2**40)):
            wanted = [n for n in range(1, 51) if after < n and (until is None or n <= until)]
            assert [r.seq for r in engine.scan("a", after, until)] == wanted

    def test_scan_of_kinds_leaves_the_others_out(self, make_engine: MakeEngine) -> None:
        """E4."""
        engine = make_engine()
        engine.append("s", 0, [row(n, kind=("turn", "usage", "x.odd'\ud83d")[n % 3]) for n in range(1, 31)])
        assert [r.seq for r in engine.scan("s", kinds=["usage"])] == list(range(1, 31, 3))
        assert [r.seq for r in engine.scan("s", 10, 20, ("turn", "x.odd'\ud83d"))] == [11, 12, 14, 15, 17, 18, 20]
        assert list(engine.scan("s", kinds=[])) == list(engine.scan("s", kinds=["none"])) == []

    def test_scan_is_one_snapshot(self, make_engine: MakeEngine) -> None:
        """E4, R45: what another handle appends, erases and drops after the first row was read is not seen."""
        engine, other = make_engine(), make_engine()
        before = [row(n, bytes([n]) * 20_000) for n in range(1, 101)]
        engine.append("s", 0, before)
        scan = engine.scan("s")
        seen = [next(scan)]
        other.append("s", 100, rows(101, 20))
        other.delete("s", range(50, 60), content_only=True)
        other.delete("s", range(70, 80))
        seen.extend(scan)
        assert seen == before
        assert len(list(engine.scan("s"))) == 110

    def test_a_scan_that_is_left_alone_hinders_nobody(self, make_engine: MakeEngine) -> None:
        """E4: unstarted, half read, closed or forgotten; many at once; append, erase and read go on."""
        engine = make_engine()
        engine.append("s", 0, rows(1, 200))
        left = [engine.scan("s") for _ in range(20)]
        assert [next(scan).seq for scan in left[:10]] == [1] * 10
        for scan in left[5:15]:
            scan.close()  # type: ignore[attr-defined]
        engine.append("s", 200, rows(201, 1))
        del left, scan
        engine.delete("s", [1], content_only=True)
        assert [r.seq for r in engine.scan("s", 199)] == [200, 201]

    # --- find (E5) ---------------------------------------------------------------------------------------------------

    def test_find_yields_the_rows_of_a_key_newest_first(self, make_engine: MakeEngine) -> None:
        """E5: among the lookup keys or as unique; a row that carries it twice comes once; `limit` cuts the oldest off."""
        engine = make_engine()
        engine.append(
            "s", 0, [row(1, unique="k"), row(2, keys=("k", "z")), row(3, keys=("z", "k")), row(4, keys=("k",), unique="u"), row(5)]
        )
        engine.append("s", 5, [row(6, unique="w", keys=("w", "w"))])
        engine.append("other", 0, [row(1, keys=("k",))])
        assert [r.seq for r in engine.find("s", "k")] == [4, 3, 2, 1]
        assert [r.seq for r in make_engine().find("s", "k", 2)] == [4, 3]
        assert [r.seq for r in engine.find("s", "z")] == [3, 2]
        assert [r.seq for r in engine.find("s", "w")] == [6]
        assert engine.find("s", "u") == [row(4, keys=("k",), unique="u")]
        assert engine.find("s", "absent") == engine.find("absent", "k") == engine.find("s", "k", 0) == []

    # --- delete (E6) -------------------------------------------------------------------------------------------------

    def test_delete_drops_rows_and_may_be_repeated(self, make_engine: MakeEngine) -> None:
        """E6, R54: absent rows and sessions are no error; the head stays where it was."""
        engine = make_engine()
        engine.append("s", 0, [row(n, keys=("k",)) for n in range(1, 2001)])
        for _ in range(2):
            make_engine().delete("s", iter(range(1, 1800)))
            engine.delete("s", [0, -1, 5, 5, 9_999])
            engine.delete("absent", [1], content_only=True)
        assert [r.seq for r in engine.scan("s")] == list(range(1800, 2001))
        assert len(engine.find("s", "k")) == 201
        engine.append("s", 2000, rows(2001, 1))

    def test_content_only_leaves_header_and_digests(self, make_engine: MakeEngine) -> None:
        """E6, R54: salt and body are gone, everything else stands, and may be erased again."""
        engine = make_engine()
        written = [row(n, b"secret %d" % n, unique=f"u{n}", keys=("k", f"k{n}")) for n in range(1, 6)]
        engine.append("s", 0, written)
        for _ in range(2):
            engine.delete("s", [2, 4, 77], content_only=True)
        for before, now in zip(written, make_engine().scan("s"), strict=True):
            assert now.erased == (now.seq in (2, 4))
            wanted = Row(before.seq, before.kind, before.generation, before.size, b"", b"", *_chain(before)) if now.erased else before
            assert now == wanted
        assert [r.seq for r in engine.find("s", "k")] == [5, 4, 3, 2, 1]

    def test_a_session_whose_every_row_is_dropped_is_new_again(self, make_engine: MakeEngine) -> None:
        """E6, R54: it is listed no more, and may begin anew at seq 1."""
        engine, other = make_engine(), make_engine()
        engine.append("s", 0, [row(1, unique="a"), row(2)])
        engine.append("t", 0, rows(1, 1))
        other.delete("s", [1, 2])
        assert engine.sessions() == ["t"]
        engine.append("new", 0, rows(1, 2))
        engine.append("s", 0, [row(1, b"again", unique="a")])
        assert [r.body for r in other.scan("s")] == [b"again"]
        assert list(other.scan("new")) == rows(1, 2)

    # --- states and the latch (E7) -----------------------------------------------------------------------------------

    def test_the_newest_state_at_or_below_a_seq_is_had(self, make_engine: MakeEngine) -> None:
        """E7: states stand beside the log, of each session its own; one of the same seq is replaced."""
        engine = make_engine()
        assert engine.state("s") is None and engine.states("s") == []
        for seq, data in ((10, b"ten"), (30, b"thirty" * 50_000), (20, b""), (10, b"ten again")):
            engine.put_state("s", seq, data)
        engine.put_state("t", 25, b"t")
        engine = make_engine()
        assert engine.states("s") == [10, 20, 30]
        assert engine.state("s") == (30, b"thirty" * 50_000)
        assert [engine.state("s", at) for at in (9, 10, 25, 10**9)] == [None, (10, b"ten again"), (20, b""), (30, b"thirty" * 50_000)]
        for _ in range(2):
            engine.delete_states("s", [30, 10, 99])
        assert engine.states("s") == [20] and engine.states("t") == [25]
        assert engine.sessions() == []

    def test_the_latch_is_seen_by_every_handle(self, make_engine: MakeEngine) -> None:
        """R6: of one session, with its reason, until it is lifted."""
        engine = make_engine()
        assert engine.latched("s") is None
        for reason in ("altered at seq 7", "", "\ud83d\0"):
            engine.latch("s", reason)
            assert make_engine().latched("s") == reason
        assert engine.latched("t") is None
        engine.latch("s", None)
        engine.latch("t", None)
        assert make_engine().latched("s") is None

    # --- texts, bytes, sessions (R7) ---------------------------------------------------------------------------------

    def test_any_text_comes_back_exactly(self, make_engine: MakeEngine) -> None:
        """R7: as a session's name, a kind, a unique key, a lookup key; names that look alike are different sessions."""
        engine = make_engine()
        for n, odd in enumerate(ODD_TEXTS):
            engine.append(odd, 0, [row(1, str(n).encode(), f"x.{odd}", odd, (odd, f"{odd}!"))])
        engine = make_engine()
        assert engine.sessions() == sorted(ODD_TEXTS)
        for n, odd in enumerate(ODD_TEXTS):
            wanted = [row(1, str(n).encode(), f"x.{odd}", odd, (odd, f"{odd}!"))]
            assert list(engine.scan(odd, kinds=[f"x.{odd}"])) == engine.find(odd, odd) == engine.find(odd, f"{odd}!") == wanted
            assert refusal(Duplicate, lambda o=odd: engine.append(o, 1, [row(2, unique=o)])).key == odd  # type: ignore[misc]

    def test_large_and_empty_bodies(self, make_engine: MakeEngine) -> None:
        """R7, R26: nothing, one byte, and two of some megabytes in one batch."""
        engine = make_engine()
        written = [row(n, body) for n, body in enumerate((b"", b"\0", os.urandom(1 << 20), b"\0" * (3 << 20)), 1)]
        engine.append("s", 0, written)
        assert list(make_engine().scan("s")) == written

    def test_sessions_are_apart(self, make_engine: MakeEngine) -> None:
        """Many sessions, written in turns: each has its own seqs, keys and states."""
        engine = make_engine()
        names = [f"agent-{n:03}" for n in range(60)]
        for seq in (1, 2, 3):
            for name in reversed(names):
                engine.append(name, seq - 1, [row(seq, name.encode(), unique=f"u{seq}", keys=("k",))])
        engine.delete(names[30], [1, 2, 3])
        assert engine.sessions() == [name for name in names if name != names[30]]
        for name in engine.sessions():
            assert [(r.seq, r.body) for r in engine.scan(name)] == [(n, name.encode()) for n in (1, 2, 3)]
            assert [r.seq for r in engine.find(name, "k")] == [3, 2, 1]

    # --- many at once, and the end -----------------------------------------------------------------------------------

    def test_threads_that_append_at_once_make_one_order(self, make_engine: MakeEngine) -> None:
        """E2, R31, R32: two handles, two threads each; on `Conflict` they try again; nothing is lost, nothing twice."""
        handles = [make_engine(), make_engine()]
        failures: list[BaseException] = []

        def work(name: int) -> None:
            try:
                append_with_retries(handles[name % 2], "s", (b"%d %d" % (name, n) for n in range(25)))
            except BaseException as e:
                failures.append(e)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        is_one_order(make_engine(), 4, 25)

    def test_a_closed_handle_says_so(self, make_engine: MakeEngine) -> None:
        """E9: closing twice is no error; every use after it is `Unavailable`, never an empty answer."""
        engine = make_engine()
        engine.append("s", 0, rows(1, 1))
        engine.close()
        engine.close()
        uses: list[Callable[[], Any]] = [
            lambda: engine.append("s", 1, rows(2, 1)),
            lambda: list(engine.scan("s")),
            lambda: engine.find("s", "k"),
            lambda: engine.delete("s", [1]),
            lambda: engine.put_state("s", 1, b""),
            lambda: engine.state("s"),
            lambda: engine.states("s"),
            lambda: engine.delete_states("s", [1]),
            lambda: engine.latch("s", "why"),
            lambda: engine.latched("s"),
            lambda: engine.sessions(),
        ]
        for use in uses:
            refusal(Unavailable, use)


def _chain(row: Row) -> tuple[bytes, bytes, str | None, tuple[str, ...]]:
    return row.inner, row.digest, row.unique, row.keys
