"""What callers hand in beside messages: texts, lists of texts, counts. Each is checked before anything is read or written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lineal.errors import PolicyError, Verdict, quoted

MOST = 1 << 53  # the largest whole number that every JSON reader keeps exactly


def text(value: object, what: str, least: int = 1) -> str:
    """`value`, if it is a text of at least so many characters. Raises `PolicyError`."""
    if isinstance(value, str) and len(value) >= least:
        return value
    wanted = "that is not empty" if least else ""
    raise _wrong(what, "no_text", f"{quoted(value)} is no {what}", f"give a string {wanted}".rstrip())


def texts(value: object, what: str) -> list[str]:
    """`value` as a list, if it holds texts; a single text is a list of one. Raises `PolicyError`."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Iterable) or isinstance(value, bytes | bytearray | dict):
        raise _wrong(what, "no_texts", f"{quoted(value)} is no list of {what}s", "give a list of strings")
    return [text(one, what, 0) for one in value]


def count(value: object, what: str, least: int = 0) -> int:
    """`value`, if it is a whole number from `least` to 2**53. Raises `PolicyError`."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST:
        return value
    raise _wrong(what, "no_count", f"{quoted(value)} is no {what}", f"give a whole number from {least:,} to {MOST:,}")


def seconds(value: object, what: str, least: int = 0) -> float:
    """`value`, if it is a number of seconds, not below `least`. Raises `PolicyError`."""
    if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= MOST:
        return value
    raise _wrong(what, "no_seconds", f"{quoted(value)} is no {what}", f"give seconds, from {least:,} up")


def maybe(check: Any, value: object, what: str, least: int = 0) -> Any:
    """None, or what `check` makes of the value."""
    return None if value is None else check(value, what, least)


def _wrong(what: str, reason: str, message: str, remedy: str) -> PolicyError:
    return PolicyError(Verdict(what, reason, message=f"{message}.", remedy=remedy))
