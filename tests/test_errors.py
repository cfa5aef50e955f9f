"""One root, four families: what programs may rely on."""

import pytest

from lineal.errors import (
    CompactionLineageError,
    Conflict,
    Corrupt,
    KeyConflict,
    LinealError,
    PolicyError,
    Refused,
    Unavailable,
    UnrecoverableCompactionError,
    UnsafeEffectError,
    UnsafeRollbackError,
    Verdict,
)

VERDICT = Verdict("rollback", "unknown_outcome", message="seq 7 from head 9.", remedy="resolve it", facts={"target": 7, "head": 9})


@pytest.mark.parametrize("family", [Refused, UnrecoverableCompactionError, CompactionLineageError, UnsafeRollbackError, UnsafeEffectError])
def test_a_refusal_carries_its_verdict(family: type[Refused]) -> None:
    error = family(VERDICT)
    assert isinstance(error, Refused) and isinstance(error, LinealError) and isinstance(error, RuntimeError)
    assert (error.rule, error.reason, error.remedy, error.facts) == ("rollback", "unknown_outcome", "resolve it", {"target": 7, "head": 9})
    assert error.exit_code == 1
    assert all(part in str(error) for part in ("rollback", "unknown_outcome", "seq 7", "resolve it"))


def test_a_policy_error_is_usage() -> None:
    error = PolicyError(VERDICT)
    assert isinstance(error, Refused) and isinstance(error, ValueError)
    assert error.exit_code == 2


def test_a_verdict_is_true_when_it_allows() -> None:
    assert not VERDICT
    allowed = Verdict("rollback", "none", True)
    assert allowed
    assert "allowed" in str(allowed)


def test_corruption_names_where_what_and_both_sides() -> None:
    error = Corrupt("agent", 57, "ab12", "cd34", "altered")
    assert (error.session, error.seq, error.expected, error.found) == ("agent", 57, "ab12", "cd34")
    assert (error.what, error.exit_code) == ("altered", 3)
    assert all(part in str(error) for part in ("agent", "57", "ab12", "cd34", "Way out"))
    assert "session" not in str(Corrupt("", 0, "a store", "none"))


def test_a_conflict_names_both_seqs() -> None:
    error = Conflict("agent", 5, 9)
    assert (error.expected_seq, error.found_seq, error.exit_code) == (5, 9, 4)
    assert "5" in str(error) and "9" in str(error) and "Way out" in str(error)


def test_a_key_conflict_is_both_a_refusal_and_a_conflict() -> None:
    """R49."""
    error = KeyConflict(VERDICT, "agent", 9, 7)
    assert isinstance(error, UnsafeEffectError) and isinstance(error, Conflict)
    assert (error.exit_code, error.expected_seq, error.found_seq, error.verdict) == (4, 9, 7, VERDICT)


def test_unavailable_keeps_its_cause() -> None:
    cause = OSError("disk gone")
    error = Unavailable("append", cause, "make room")
    assert (error.cause, error.exit_code) == (cause, 5)
    assert "disk gone" in str(error) and "make room" in str(error)
    assert Unavailable("the store is closed").cause == "the store is closed"
