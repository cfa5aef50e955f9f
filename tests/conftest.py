"""Fixtures for every test: where a store may lie, and where the real transcripts are."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.register_assert_rewrite("lineal.testing.engine", "lineal.testing.durable")


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    """A file that is not there yet."""
    return tmp_path / "agent.db"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The real transcripts, in `shared/data` beside the checkout."""
    found = Path(__file__).parents[2] / "shared" / "data"
    if not found.is_dir():
        pytest.skip(f"no transcripts at {found}: this test reads real ones")
    return found
