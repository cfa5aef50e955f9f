"""Code in a running process: functions get the code of a mutant without anything being imported again."""

from __future__ import annotations

import gc
import inspect
import sys
from types import CodeType, FunctionType


def replaced(old: str, new: str, path: str) -> dict[CodeType, CodeType] | None:
    """Code of `old` -> code of `new`, for the functions that differ; None if more differs than functions' code."""
    found: dict[CodeType, CodeType] = {}
    return found if _compare(compile(old, path, "exec"), compile(new, path, "exec"), found) else None


def _compare(old: CodeType, new: CodeType, found: dict[CodeType, CodeType]) -> bool:
    """Compare the code of two modules, class bodies or functions, and collect the functions in them that differ."""
    consts = [[type(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts] for code in (old, new)]
    same = old.co_code == new.co_code and consts[0] == consts[1] and old.co_names == new.co_names
    if old.co_flags & inspect.CO_OPTIMIZED:  # a function's; what lives inside it may live on its own already
        if old.co_freevars != new.co_freevars:
            return False
        found[old] = new
    elif not same:
        return False
    inside = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new)]
    return all(_compare(a, b, found) for a, b in zip(*inside, strict=False) if a != b)


def swap(codes: dict[CodeType, CodeType]) -> None:
    """Give every living function its new code; what is not imported yet will be read from the file. Raises `LookupError`."""
    living = [f for f in gc.get_objects() if isinstance(f, FunctionType) and f.__code__ in codes]
    mine = [(f, old) for f in living for old in codes if f.__code__ == old and f.__code__.co_filename == old.co_filename]
    for function, old in mine:
        function.__code__ = codes[old]
    path = next(iter(codes)).co_filename
    if not mine and any(getattr(m, "__file__", "") == path for m in list(sys.modules.values())):
        raise LookupError(f"no function of {path} lives with the code that is to be replaced")
