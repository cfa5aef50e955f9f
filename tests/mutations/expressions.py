"""Mutants of pure code, made by a small mutator: conditions negated, and/or swapped, early ways out removed.

`bounds` shifts each limit by one. Where exactly a limit lies is a choice, not a promise: that group is for looking, and no
part of the check.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from mutations.mutant import ROOT, SRC, Mutant, enclosing, functions, offsets, position

# The most important first: what the memory is, what may leave it, what may stand for it, what may be gone back to.
FILES = (
    "fold.py",
    "rules/cut.py",
    "rules/compaction.py",
    "rules/summary.py",
    "rules/rollback.py",
    "rules/recovery.py",
    "rules/emission.py",
    "rules/integrity.py",
    "rules/guard.py",
    "rules/retention.py",
    "ranges.py",
    "lineage.py",
    "holder.py",
    "policy.py",
    "rules/quotes.py",
    "rules/completion.py",
    "rules/shapes.py",
)
NEGATED: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.GtE(), ast.LtE: ast.Gt(), ast.Gt: ast.LtE(), ast.GtE: ast.Lt(),
    ast.Eq: ast.NotEq(), ast.NotEq: ast.Eq(), ast.In: ast.NotIn(), ast.NotIn: ast.In(), ast.Is: ast.IsNot(), ast.IsNot: ast.Is(),
}  # fmt: skip
SHIFTED: dict[type[ast.cmpop], ast.cmpop] = {ast.Lt: ast.LtE(), ast.LtE: ast.Lt(), ast.Gt: ast.GtE(), ast.GtE: ast.Gt()}
OTHER_CALL = {"min": "max", "max": "min", "any": "all", "all": "any"}
Change = tuple[ast.expr | ast.stmt, str]  # what is replaced, by what
ONLY_WORDS = ("tell", "remedy", "when", "then", "message")  # arguments of rows and verdicts that are only read by people
SAID = ("_told", "_tell", "_named", "_some", "_start", "_asked", "_equal", "_busy", "_stands", "_open", "describe", "barrier_name")


def mutants(root: Path = ROOT) -> Iterator[Mutant]:
    return _made(root, _changes)


def bounds(root: Path = ROOT) -> Iterator[Mutant]:
    return _made(root, _shifts)


def _made(root: Path, changes: Callable[[ast.AST], Iterator[Change]]) -> Iterator[Mutant]:
    for file in FILES:
        text = (root / SRC / file).read_text()
        lines, known, seen = offsets(text), functions(text), Counter[str]()
        for node, new in changes(ast.parse(text)):
            first, last = position(text, lines, node.lineno, node.col_offset), 0
            last = position(text, lines, node.end_lineno or 0, node.end_col_offset or 0)
            where = enclosing(known, first, last)
            if not where or where.split(".")[-1].startswith(SAID):
                continue
            old = " ".join(text[first:last].split())
            name = f"{file}::{where.split('@')[0]}: {old} -> {new}"
            seen[name] += 1
            name += f" #{seen[name]}" if seen[name] > 1 else ""
            yield Mutant(name, file, "", file, first, last, f"({new})" if isinstance(node, ast.expr) else new, where)


def _shifts(tree: ast.AST) -> Iterator[Change]:
    for node in _walk(tree):
        if isinstance(node, ast.Compare):
            yield from _other_ops(node, SHIFTED)


def _other_ops(node: ast.Compare, other: dict[type[ast.cmpop], ast.cmpop]) -> Iterator[Change]:
    for n, op in enumerate(node.ops):
        if type(op) in other:
            ops = [*node.ops[:n], other[type(op)], *node.ops[n + 1 :]]
            yield node, ast.unparse(ast.Compare(node.left, ops, node.comparators))


def _changes(tree: ast.AST) -> Iterator[Change]:
    """In reading order."""
    for node in _walk(tree):
        if isinstance(node, ast.Compare):
            yield from _other_ops(node, NEGATED)
        elif isinstance(node, ast.BoolOp):
            other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
            yield node, ast.unparse(ast.BoolOp(other, node.values))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, ast.unparse(ast.Call(ast.Name("bool"), [node.operand], []))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub) and _whole(node):
            other_sign = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield node, ast.unparse(ast.BinOp(node.left, other_sign, node.right))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OTHER_CALL:
            yield node, ast.unparse(ast.Call(ast.Name(OTHER_CALL[node.func.id]), node.args, node.keywords))
        if isinstance(node, ast.If | ast.IfExp | ast.While) and not _negated_anyway(node.test):
            yield node.test, f"not ({ast.unparse(node.test)})"
        if isinstance(node, ast.comprehension):
            yield from ((test, f"not ({ast.unparse(test)})") for test in node.ifs if not _negated_anyway(test))
        if isinstance(node, ast.If) and len(node.body) == 1 and isinstance(node.body[0], ast.Return | ast.Raise | ast.Continue | ast.Break):
            yield node.body[0], "pass"


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Every node but types, assertions and what is only told."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            told = isinstance(child, ast.keyword) and child.arg in ONLY_WORDS
            if isinstance(child, ast.AST) and not told and not isinstance(child, ast.Assert | ast.Raise):
                yield from _walk(child)


def _negated_anyway(test: ast.expr) -> bool:
    """The mutant of the expression itself is its negation already."""
    return (isinstance(test, ast.Compare) and len(test.ops) == 1) or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))


def _whole(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.Constant) and isinstance(side.value, int) for side in (node.left, node.right))
