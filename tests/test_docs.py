"""The docs are true: their code runs, their commands answer, their tables are the code's, their links lead somewhere.

A page is run from top to bottom in a folder of its own: its python blocks share one namespace, its console blocks find the
stores that these have made. A `$ lineal ...` line may end with `# exit N`; without that the command must exit with 0. What
is printed below a command must be in what it answers, line by line; `...` stands for anything, a line of its own for any
number of lines. White space counts as one blank.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from click.testing import CliRunner

from lineal.cli import cli
from lineal.entries import ENTRY_TYPES
from lineal.rules import tables
from lineal.session import Session

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "lineal"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FENCE = re.compile(r"^```(?P<kind>\w*)[^\n]*\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\n]*\]\((?P<target>[^)\s]+)\)")
COMMAND = re.compile(r"\$ lineal (?P<words>.*?)(?:\s+# exit (?P<code>\d))?$")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(page: Path) -> str:
    """The page without its code."""
    return FENCE.sub("", page.read_text())


# --- code and commands -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    kind: str
    body: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [Block(m["kind"], m["body"], text[: m.start()].count("\n") + 2) for m in FENCE.finditer(text)]


@pytest.mark.parametrize("page", [p for p in PAGES if any(b.kind in ("python", "console") for b in blocks(p))], ids=named)
def test_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.kind == "python":
            # The lines above it keep the block's own line numbers in a traceback.
            exec(compile("\n" * (block.line - 1) + block.body, named(page), "exec"), namespace)
        elif block.kind == "console":
            for command, code, shown in commands(block.body):
                answer(f"{named(page)}:{block.line}: lineal {command}", command, code, shown)


def commands(body: str) -> Iterator[tuple[str, int, list[str]]]:
    """(words after `lineal`, exit code, lines shown below) of each `$ lineal ...` of a block."""
    found: list[tuple[str, int, list[str]]] = []
    for line in body.splitlines():
        m = COMMAND.fullmatch(line)
        if m:
            found.append((m["words"], int(m["code"] or 0), []))
        elif line.startswith("$"):
            found.append(("", -1, []))  # another program's: not run
        elif found:
            found[-1][2].append(line)
    return (one for one in found if one[1] >= 0)


def answer(where: str, command: str, code: int, shown: list[str]) -> None:
    result = CliRunner().invoke(cli, shlex.split(command), prog_name="lineal", catch_exceptions=False)
    assert result.exit_code == code, f"{where}: exit {result.exit_code}, the page says {code}\n{result.output}"
    told = [" ".join(line.split()) for line in result.output.splitlines()]
    for line in shown:
        if line.strip() == "...":
            continue
        wanted = re.compile(".*".join(re.escape(part) for part in " ".join(line.split()).split("...")))
        place = next((n for n, said in enumerate(told) if wanted.fullmatch(said)), None)
        assert place is not None, f"{where}: no line like {line!r} follows in\n{result.output}"
        del told[: place + 1]


def test_the_first_program_of_the_readme_may_run_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page says below it: the second run adds nothing."""
    monkeypatch.chdir(tmp_path)
    program = next(b for b in blocks(ROOT / "README.md") if b.kind == "python")
    heads = []
    for _ in range(2):
        namespace: dict[str, Any] = {}
        exec(compile(program.body, "README.md", "exec"), namespace)
        heads.append(namespace["session"].log.lineage.head)
    assert heads[0] == heads[1] > 0


@pytest.mark.parametrize("path", EXAMPLES, ids=named)
def test_an_example_runs_and_runs_again(path: Path, tmp_path: Path) -> None:
    for _ in range(2):
        done = subprocess.run([sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()


def test_the_chat_loop_is_short() -> None:
    assert len((ROOT / "examples" / "chat_loop.py").read_text().splitlines()) <= 40


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def render() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_render", ROOT / "docs" / "render.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_generated_parts_are_what_the_code_prints(page: Path, render: ModuleType) -> None:
    stale = render.stale(page.read_text())
    assert not stale, f"{named(page)}: out of date: {', '.join(stale)}; run `make docs`"


def test_check_exits_1_for_a_part_that_is_out_of_date(
    render: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(render, "ROOT", tmp_path)
    page.write_text("# A page\n\n<!-- printed: rule retention -->\nan old table\n<!-- end -->\n\nThe end.\n")
    assert render.main(["--check"]) == 1
    assert "page.md: rule retention: out of date" in capsys.readouterr().out
    assert "an old table" in page.read_text(), "a check writes nothing"
    assert render.main([]) == 0
    assert render.main(["--check"]) == 0
    assert "needed_by_spills" in page.read_text() and page.read_text().endswith("<!-- end -->\n\nThe end.\n")


def test_every_rule_is_printed_in_rules_md(render: ModuleType) -> None:
    printed = {m["name"] for m in render.PART.finditer((ROOT / "docs" / "rules.md").read_text())}
    assert {f"rule {table.rule}" for table in tables()} <= printed


def test_every_entry_kind_and_every_verb_is_named() -> None:
    kinds = (ROOT / "docs" / "format.md").read_text()
    assert not [k for t in ENTRY_TYPES if f"`{(k := str(t.__struct_config__.tag))}`" not in kinds]
    readme = (ROOT / "README.md").read_text()
    verbs = [name for name in vars(Session) if not name.startswith("_") and name not in ("read_turns", "sibling")]
    assert not [verb for verb in verbs if f"`{verb}" not in readme], "the table of verbs in README.md lacks some"


def test_every_requirement_that_is_cited_can_be_looked_up() -> None:
    listed = set(re.findall(r"^\| (R\d+) \|", (ROOT / "docs" / "requirements.md").read_text(), re.MULTILINE))
    cited = {r for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py") for r in re.findall(r"\bR\d+\b", path.read_text())}
    assert len(listed) == 64 and not cited - listed


# --- links and the house ---------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The fragments that a page's headings give."""
    titles = re.findall(r"^#+ (.+?)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_relative_links_lead_somewhere(page: Path) -> None:
    for m in LINK.finditer(prose(page)):
        target, _, fragment = m["target"].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{named(page)} links to {m['target']}, which is not there"
        assert not fragment or fragment in anchors(there), f"{named(page)} links to {m['target']}: no such heading"


def test_every_page_can_be_reached_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert not [named(p) for p in PAGES if p.name != "README.md" and f"({named(p)}" not in readme]


def test_the_files_that_the_pages_name_exist() -> None:
    for page in PAGES:
        for path in re.findall(r"`((?:src|tests|docs|examples|bench)/[\w/.-]+\.\w+)`", page.read_text()):
            assert (ROOT / path).exists(), f"{named(page)} names {path}, which is not there"


def test_the_commands_that_pages_and_messages_name_exist() -> None:
    """In `lineal WORD ...`: each word, as far as there are groups of commands, and each `--option` of it."""
    for place in (*PAGES, *PACKAGE.rglob("*.py")):
        text = prose(place) if place in PAGES else place.read_text()
        for said in re.findall(r"`lineal ((?:[a-z][a-z-]*|--[a-z][a-z-]*)(?: [^`\n]*)?)`", text):
            words, command = said.split(), cli
            while words and isinstance(command, click.Group) and not words[0].startswith("-"):
                assert words[0] in command.commands or words[0].isupper(), f"{place}: there is no command `lineal {said}`"
                command = command.commands.get(words.pop(0), cli)
            options = {name for p in command.params for name in (*p.opts, *p.secondary_opts)} | {"--help", "--version"}
            told = {word.partition("=")[0].strip("[].,") for word in words if word.startswith("--")}
            assert told <= options, f"{place}: `lineal {said}` has no {told - options}"


def test_architecture_names_every_file_and_package() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    files = [p.relative_to(PACKAGE) for p in PACKAGE.rglob("*.py")]
    packages = {p.parent for p in files if p.parent != Path(".")}
    assert not [str(p) for p in files if f"`{p}`" not in text], "not named in ARCHITECTURE.md: run `make docs`"
    assert not [str(p) for p in packages if f"{p}/" not in text]


def test_every_dependency_has_a_reason() -> None:
    text, project = (ROOT / "ARCHITECTURE.md").read_text(), tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[\[<>=]", one)[0] for one in listed} - {"lineal"}
    assert names and not [name for name in names if f"`{name}`" not in text]
