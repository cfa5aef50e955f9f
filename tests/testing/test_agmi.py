"""The nine edits at rest of `agent-memory-integrity`, run by its own attacks and its own guard against lineal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("agmi", reason="agent-memory-integrity is not installed: its edits are not tried")

from agmi.attacks.at_rest import AT_REST_ATTACKS_WITH_SNAPSHOT  # noqa: E402
from agmi.check import main, run  # noqa: E402

from lineal.testing.agmi import LinealAdapter  # noqa: E402


def test_each_of_the_nine_edits_is_refused_when_the_store_is_read(tell: Callable[[str], None]) -> None:
    """R59, R60: refused by opening or reading, not only by an audit; none that could not be tried, none by an error of ours."""
    rows = run(LinealAdapter())
    tell("\n".join(["", "agent-memory-integrity against lineal", *(f"{r['edit']:<26} {r['verdict']}" for r in rows)]))
    assert len(rows) == len(AT_REST_ATTACKS_WITH_SNAPSHOT) == 9
    assert [(r["edit"], r["verdict"], r["detail"]) for r in rows if r["verdict"] != "REJECTED"] == []


@pytest.mark.parametrize("attack", AT_REST_ATTACKS_WITH_SNAPSHOT, ids=lambda attack: attack.name)
def test_the_refusal_names_what_was_found(attack: type) -> None:
    adapter = LinealAdapter()
    assert attack().run(adapter).detected
    assert adapter.verify_detail and not adapter.verify_detail.startswith("only verify()")
    assert "seq" in adapter.verify_detail


def test_its_command_line_says_the_same() -> None:
    assert main(["--adapter", "lineal.testing.agmi:LinealAdapter"]) == 0
