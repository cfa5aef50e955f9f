"""Rows to and fro: what cannot have been written is told as damage, with the seq it was met at."""

from __future__ import annotations

from typing import Any

import pytest

from lineal.engines.sqlite_rows import blob, record_of, row_of, text
from lineal.errors import Corrupt
from lineal.testing.engine import ODD_TEXTS, row


@pytest.mark.parametrize("odd", ODD_TEXTS)
def test_texts_go_and_come_back(odd: str) -> None:
    """R7."""
    assert text(blob(odd)) == odd


def _record(**changed: Any) -> tuple[Any, ...]:
    _, *columns = record_of(b"s", row(7, b"body", "turn", "u", ("a", "b")))
    names = ("seq", "kind", "generation", "size", "salt", "body", "inner", "digest", "unique", "key1", "key2")
    return tuple(changed.get(name, value) for name, value in zip(names, columns, strict=True))


def test_a_row_goes_and_comes_back() -> None:
    assert row_of("s", 7, _record()) == row(7, b"body", "turn", "u", ("a", "b"))
    assert row_of("s", 7, _record(unique=None, key1=None, key2=None)) == row(7, b"body", "turn")


@pytest.mark.parametrize("changed", [{"body": None}, {"kind": "turn"}, {"kind": b"\xff"}, {"size": b"4"}, {"unique": 3}, {"key2": b"\xc3"}])
def test_a_column_that_was_never_written_so_is_corrupt(changed: dict[str, Any]) -> None:
    """R59: page damage may turn any column into another type, or into bytes that are no text."""
    with pytest.raises(Corrupt) as failure:
        row_of("s", 7, _record(**changed))
    assert (failure.value.session, failure.value.seq) == ("s", 7)
