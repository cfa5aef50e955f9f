"""docs/comparison.md says what comes out when it is done again."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

for package in ("langchain", "langgraph.checkpoint.sqlite", "agents"):
    pytest.importorskip(package, reason="the peers are not installed")

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "comparison.md").read_text()


@pytest.fixture(scope="module")
def compare() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compare", ROOT / "bench" / "compare.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["compare"] = module  # a dataclass looks its module up
    spec.loader.exec_module(module)
    return module


def test_every_row_is_what_comes_out(compare: ModuleType) -> None:
    rows = compare.table()
    assert len(rows) == len(compare.ACCIDENTS) > 8
    assert [row for row in rows if row not in PAGE] == []
