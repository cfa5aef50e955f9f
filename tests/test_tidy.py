"""The house is in order: layers point down, pure rooms stay pure, nothing grows past its size, nothing is swallowed.

Loosen a number here only with a reason that stands beside it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "lineal"
MODULE_LINES, FUNCTION_LINES, ADAPTER_LINES = 400, 70, 250

# From the ground up. A module imports from its own layer or from a lower one, never from a higher one.
LAYERS = (
    ("errors", "values", "entries"),
    ("policy", "ranges", "lineage", "fold"),
    ("engines", "codec", "messages", "tokens", "anchors", "anchor", "holder", "rules", "summarizers", "transcripts", "samples"),
    ("working_set",),
    ("session", "store", "aio"),
    ("view", "importing"),
    ("audit", "doctor", "demo", "adapters", "guarding"),
    ("cli", "__main__"),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
PURE = ("errors", "values", "entries", "policy", "ranges", "lineage", "fold", "rules", "anchors", "messages", "working_set", "view")
IMPURE_IMPORTS = {
    "apsw", "asyncio", "datetime", "io", "multiprocessing", "os", "pathlib", "random", "secrets",
    "shutil", "socket", "sqlite3", "subprocess", "sys", "tempfile", "threading", "time", "uuid",
}  # fmt: skip
FORBIDDEN_NAMES = {"utils", "util", "common", "core", "helpers", "helper", "models", "manager", "misc"}


def modules() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


def dotted(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(name: str) -> str:
    return name.split(".")[0]


def imports(tree: ast.AST, lazy: bool = True) -> Iterator[str]:
    """What a module imports when it runs (without `lazy`: when it is loaded); imports for type checkers only do not count."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if not lazy and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            stack.extend(node.orelse)
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        stack.extend(ast.iter_child_nodes(node))


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_layers_point_down(path: Path) -> None:
    me = room(dotted(path))
    if me in ("", "testing"):
        return  # the front door names everything; `testing` may import anything
    assert me in LEVEL, f"{me} stands in no layer: say in LAYERS where it belongs, and in ARCHITECTURE.md"
    for target in imports(ast.parse(path.read_text())):
        if target.startswith("lineal."):
            other = room(target.removeprefix("lineal."))
            assert other != "testing", f"{dotted(path)} imports {target}: nothing imports `testing`"
            assert LEVEL.get(other, 0) <= LEVEL[me], f"{dotted(path)} (layer {LEVEL[me]}) imports {target} above it"


@pytest.mark.parametrize("path", [p for p in modules() if room(dotted(p)) in PURE], ids=dotted)
def test_pure_rooms_know_no_disk_clock_or_chance(path: Path) -> None:
    found = {target.split(".")[0] for target in imports(ast.parse(path.read_text()))} & IMPURE_IMPORTS
    assert not found, f"{dotted(path)} imports {sorted(found)}"


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_sizes(path: Path) -> None:
    text = path.read_text()
    limit = ADAPTER_LINES if room(dotted(path)) == "adapters" else MODULE_LINES
    assert text.count("\n") <= limit, f"{dotted(path)}: {text.count(chr(10))} lines, {limit} is the law"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= FUNCTION_LINES, f"{dotted(path)}:{node.lineno} {node.name}: {lines} lines"


@pytest.mark.parametrize("path", modules(), ids=dotted)
def test_nothing_is_swallowed_or_left_for_later(path: Path) -> None:
    text = path.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ExceptHandler):
            only_pass = len(node.body) == 1 and isinstance(node.body[0], ast.Pass)
            assert not only_pass, f"{dotted(path)}:{node.lineno} swallows an exception"
            assert node.type is not None, f"{dotted(path)}:{node.lineno} catches everything"
    later = re.search(r"\b(TO" + r"DO|FIX" + r"ME|XXX|NotImplementedError)\b(?!\")", _code_only(text))
    assert not later, f"{dotted(path)} leaves {later.group(0) if later else ''} for later"


def _code_only(text: str) -> str:
    """The text without string literals: a rule may well speak about such words."""
    return re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)


def test_no_room_has_a_name_that_says_nothing() -> None:
    for path in SRC.rglob("*"):
        assert path.stem not in FORBIDDEN_NAMES, path


def test_the_import_graph_has_no_cycle() -> None:
    known = {dotted(p): p for p in modules()}
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        targets = {t.removeprefix("lineal.") for t in imports(ast.parse(path.read_text()), lazy=False) if t.startswith("lineal.")}
        graph[name] = {t if t in known else t.rpartition(".")[0] for t in targets} - {name, ""}
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, f"cycle: {' -> '.join((*way[way.index(name) :], name))}"
        if name not in done:
            for target in sorted(graph.get(name, ())):
                visit(target, (*way, name))
            done.add(name)

    for name in graph:
        visit(name, ())


def test_the_project_speaks_of_itself_alone() -> None:
    """No path of a machine and no address of a package registry stands in a file of the project."""
    machine = re.compile(r"(?<![\w.])/(?:wo" + r"rk|ro" + r"ot|home/\w+)/|/(?:simple|packages)/\w+.*https?://")
    for path in ROOT.rglob("*"):
        inside = path.relative_to(ROOT).parts
        if path.is_file() and path.suffix in (".py", ".md", ".toml", ".txt", ".cfg", ".yml") and not inside[0].startswith((".", "build")):
            found = machine.search(path.read_text(errors="replace"))
            assert not found, f"{path.relative_to(ROOT)} holds {found.group(0) if found else ''}"
