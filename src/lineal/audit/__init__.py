"""What did that history lose? An audit of a foreign agent's log, with nothing adopted and nothing written.

`audit` reads one transcript (Claude Code, Codex, pi, chat messages) or one store of an agent framework (LangGraph in SQLite or
PostgreSQL, OpenAI Agents, Google ADK) through `lineal.transcripts` and says, worst first:
what each compaction took out of the view, who was shown it before, and which exact values, constraints and decisions
are gone; which calls were open, parted from their results, or made twice, and with what outcomes; and what is missing
or damaged in the file itself. A new source needs no more than a reader that yields records, boundaries and damage.

`examine` is the pure part: from the items of one conversation to an account. Only `audit` and `audit_paths` read files,
and they never write one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lineal.audit.boundaries import replay
from lineal.audit.findings import (
    KINDS,
    SEVERITIES,
    Audit,
    CallSeen,
    CompactionAudit,
    Finding,
    Repeat,
    Severity,
    Survival,
    Value,
    found,
    worst_first,
)
from lineal.audit.history import DEFAULT, history
from lineal.audit.judge import judge, plural
from lineal.audit.page import render_html
from lineal.audit.repeats import across, repeats
from lineal.audit.report import render_text, to_json
from lineal.errors import PolicyError, Unavailable
from lineal.transcripts import ENDS, Item, detect, is_url, place, read_all, shown
from lineal.transcripts.openai_chat import no_conversation

__all__ = [
    "DEFAULT",
    "KINDS",
    "SEVERITIES",
    "Audit",
    "CallSeen",
    "CompactionAudit",
    "Examined",
    "Finding",
    "Repeat",
    "Severity",
    "Survival",
    "Value",
    "audit",
    "audit_paths",
    "examine",
    "render_html",
    "render_text",
    "to_json",
]
_NAMES = (".jsonl", ".json", *ENDS)
_WRITTEN_TWICE = "record written a second time"


@dataclass(frozen=True)
class Examined:
    """One conversation: its records, their size in tokens (an estimate), what was found, and an account for each boundary."""

    records: int
    tokens: int
    findings: tuple[Finding, ...]
    compactions: tuple[CompactionAudit, ...]


def examine(items: Iterable[Item], format: str, changes_state: Sequence[str] = DEFAULT, conversation: str = "") -> Examined:
    """The audit of one conversation, as `lineal.transcripts.read` gives it. Pure over the items.

    `changes_state`: patterns as in `lineal.transcripts.changes_state`. `conversation`: a name, where the file holds several.
    """
    past = history(items, format, changes_state)
    accounts, gone = replay(past, conversation)
    again = repeats(past, gone)
    accounts = tuple(replace(a, repeated=tuple(r for r in again if across(r, a.number, past, gone))) for a in accounts)
    findings = judge(past, accounts, again)
    if conversation:
        findings = [replace(f, text=f"{conversation}: {f.text}", detail={**f.detail, "conversation": conversation}) for f in findings]
    return Examined(len(past.said), sum(s.tokens for s in past.said), tuple(findings), accounts)


def audit(
    path: str | os.PathLike[str], format: str | None = None, changes_state: Sequence[str] = DEFAULT, conversation: int | None = None
) -> Audit:
    """The audit of one file, or of the store at a PostgreSQL address; of one conversation in it where `conversation`
    (from 0) says so, else of all.

    Raises `PolicyError` for a format or a conversation that is not known, `Unavailable` for a file that cannot be read.
    """
    source, address = Path(shown(path)), shown(path) if is_url(path) else ""
    name = format if format is not None else detect(path)
    tally: Counter[str] = Counter()
    done, there = [], 0
    for chat, items in read_all(path, name, tally):
        if conversation in (None, there):
            done.append(examine(items, name, changes_state, "" if chat == source.stem else chat))
        there += 1
    if conversation is not None and not done:
        raise no_conversation(source, conversation, there)
    findings = [f for e in done for f in e.findings]
    if again := tally[_WRITTEN_TWICE]:
        findings.append(
            found("written_twice", 0, f"Written a second time, and read once: {again} {plural('record', again)}.", records=again)
        )
    return Audit(
        source,
        name,
        sum(e.records for e in done),
        sum(e.tokens for e in done),
        worst_first(findings),
        tuple(a for e in done for a in e.compactions),
        len(done),
        place=place(name),
        address=address,
    )


def audit_paths(paths: Iterable[str | os.PathLike[str]], format: str | None = None, changes_state: Sequence[str] = DEFAULT) -> list[Audit]:
    """An audit of each file and address, and of each `.jsonl`, `.json` and SQLite file under each directory, in order of name.

    A file that is no transcript comes out too, with the reason in `skipped`. Raises `Unavailable` for a path that is not
    there, `PolicyError` for a format or a pattern that cannot be meant.
    """
    files = (file for path in paths for file in ([path] if is_url(path) else _files(Path(path))))
    return [file if isinstance(file, Audit) else _one(file, format, changes_state) for file in files]


def _one(path: str | os.PathLike[str], format: str | None, changes_state: Sequence[str]) -> Audit:
    try:
        name = format if format is not None else detect(path)
    except PolicyError as e:
        return _skipped(path, e.verdict.message)
    except Unavailable as e:
        return _skipped(path, str(e))
    try:
        return audit(path, name, changes_state)
    except Unavailable as e:
        return _skipped(path, str(e))


def _skipped(path: str | os.PathLike[str], why: str) -> Audit:
    return Audit(Path(shown(path)), "", 0, 0, (), (), 0, why, address=shown(path) if is_url(path) else "")


def _files(path: Path) -> Iterator[Path | Audit]:
    """The files to audit; for a directory that cannot be listed, an audit that says so."""
    remedy = "name a transcript or a directory of them"
    try:
        there, folder_given = path.exists(), path.is_dir()
    except (OSError, ValueError) as e:  # a text that no path can be is a ValueError
        raise Unavailable(f"cannot audit {str(path)!r}", e, remedy) from e
    if not there:
        raise Unavailable(f"cannot audit {str(path)!r}", "there is no such file or directory", remedy)
    if not folder_given:
        yield path
        return
    closed: list[Audit] = []
    for folder, below, names in os.walk(
        path, onerror=lambda e: closed.append(_skipped(Path(e.filename), f"cannot be listed: {e.strerror}"))
    ):
        below.sort()
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(_NAMES))
    yield from closed
