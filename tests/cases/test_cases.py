"""Failures that were reported in the field, told as stories and played on each engine. One file a report, named by its id.

`pytest tests/cases --rewrite-stories` writes what is printed into the files; read the diff as if somebody else had made it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lineal.testing import scripts

HERE = Path(__file__).parent
STORIES = sorted(HERE.glob("*.story"))


def place(engine: str, directory: Path) -> scripts.Place:
    return scripts.InMemory() if engine == "memory" else scripts.InFile(directory / "agent.db")


@pytest.mark.parametrize("engine", ["memory", "sqlite"])
@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story(path: Path, engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    rewrite = bool(request.config.getoption("--rewrite-stories")) and engine == "memory"
    scripts.run(path, place(engine, tmp_path), rewrite)


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_story_says_what_must_hold(path: Path) -> None:
    """What is printed can be rewritten by habit; each story has at least one `must`, and its report's address."""
    script = scripts.read(path)
    assert any(command.verb == "must" for command in script.commands)
    assert re.search(r"^# https://\S+$", path.read_text(), re.MULTILINE)


def not_applicable() -> dict[str, str]:
    rows = re.findall(r"^\| (CB-\d+) \| (.+) \|$", (HERE / "NOT_APPLICABLE.md").read_text(), re.MULTILINE)
    return dict(rows)


@pytest.mark.data
def test_every_report_is_a_story_or_has_a_reason(data_dir: Path) -> None:
    reported = {json.loads(line)["id"] for line in (data_dir.parent / "cases" / "cases.jsonl").read_text().splitlines()}
    told, excused = {path.stem for path in STORIES}, set(not_applicable())
    assert not told & excused, "a case is told and excused"
    assert reported == told | excused
