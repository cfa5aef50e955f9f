"""Audits as text for a terminal, and as JSON."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from lineal.audit.findings import KINDS, SEVERITIES, Audit, CompactionAudit
from lineal.audit.judge import call_data, plural, value_data

WIDTH = 116


def clean(text: str) -> str:
    """Nothing that steers a terminal, turns the direction of writing, or cannot be encoded: a transcript is not to be trusted."""
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") else c for c in text)


def counted(audit: Audit) -> str:
    """ "2 high, 1 medium", or "nothing found"."""
    parts = [f"{n} {severity}" for severity in SEVERITIES if (n := audit.count(severity))]
    return ", ".join(parts) or "nothing found"


def worst_first(audits: Sequence[Audit]) -> list[Audit]:
    """The audits that were read, those with the gravest findings first; such as say nothing stand last, in the order given."""
    return sorted((a for a in audits if not a.skipped), key=lambda a: [-a.count(s) for s in SEVERITIES] + [-len(a.compactions)])


def quiet(audit: Audit) -> bool:
    """Whether there is nothing to say of it but its size."""
    return not audit.findings and not audit.compactions


def size(audit: Audit) -> str:
    parts = [f"{audit.records:,} records", f"{audit.tokens:,} tokens"]
    if audit.conversations > 1:
        parts.insert(0, f"{audit.conversations:,} conversations")
    if n := len(audit.compactions):
        parts.append(f"{n} {'boundary' if n == 1 else 'boundaries'}")
    return ", ".join(parts)


def facts(account: CompactionAudit, place: str = "line") -> Iterator[tuple[str, str]]:
    """What a boundary did, as (label, text), in the order that people read it. `place`: what a line number counts."""
    first, last = account.covered_lines or (0, 0)
    lines = f", {place}s {first}-{last}" if account.covered_lines else ""
    yield "left the view", f"{account.covered} {plural('turn', account.covered)}{lines}, {account.covered_tokens:,} tokens"
    yield "stayed", f"{account.kept} {plural('turn', account.kept)}, {account.kept_tokens:,} tokens"
    if account.kind == "compaction":
        said = "none that can be read" if account.summary_tokens is None else f"{account.summary_tokens:,} tokens"
        yield "summary", said
    if account.rows_deleted:
        yield "deleted from the store", f"{account.rows_deleted:,} rows"
    if account.seen is not None:
        yield (
            "read before it left",
            f"{100 * account.seen:.0f} %" + (f"; {account.unseen_tokens:,} tokens were not" if account.unseen else ""),
        )
    for s in account.survival:
        yield f"{plural(s.kind, 2)} of {s.author}", f"{s.kept} of {s.total} still in the view"
    for label, calls in (
        ("calls without result", account.open_calls),
        ("results parted from call", account.parted),
        ("happened, and undone in the view", account.undone),
    ):
        if calls:
            yield label, "; ".join(f"{c.named} ({place} {c.line})" for c in calls)
    for repeat in account.repeated:
        yield "made again behind it", "; ".join(f"{c.named} ({place} {c.line}, {c.ended})" for c in repeat.calls)


def title(account: CompactionAudit, place: str = "line") -> str:
    """ "compaction 2 at line 629 (auto, 185,014 tokens before)"."""
    known = [account.trigger] if account.trigger else []
    if account.host_tokens is not None:
        known.append(f"{account.host_tokens:,} tokens before, as the host counted")
    chat = f"{account.conversation}: " if account.conversation else ""
    known += [account.id] if account.id else []
    return f"{chat}{account.kind} {account.number} at {place} {account.line}" + (f" ({', '.join(known)})" if known else "")


# --- text ------------------------------------------------------------------------------------------------------------


def render_text(audits: Sequence[Audit]) -> str:
    """A report to read in a terminal: the files, worst first, each with its findings and boundaries; then the sound, and the skipped."""
    read = worst_first(audits)
    skipped = [a for a in audits if a.skipped]
    totals = ", ".join(f"{sum(a.count(s) for a in read)} {s}" for s in SEVERITIES)
    lines = [f"audit: {len(read)} read, {len(skipped)} skipped; findings: {totals}. Tokens are estimates (UTF-8 bytes / 3)."]
    for audit in read:
        lines += ["", *_file(audit)] if not quiet(audit) else []
    if sound := [a for a in read if quiet(a)]:
        lines += ["", "nothing found"]
        for audit in sound:
            lines += _wrapped(f"{audit.named} ({audit.format}: {size(audit)})", "  ", "    ")
    if skipped:
        lines += ["", "skipped"]
        for audit in skipped:
            lines += _wrapped(f"{audit.named}: {audit.skipped}", "  ", "    ")
    return "\n".join(lines) + "\n"


def _file(audit: Audit) -> Iterator[str]:
    yield clean(audit.named)
    yield f"  {audit.format}: {size(audit)}; {counted(audit)}"
    for f in audit.findings:
        yield from _wrapped(f"{f.severity:<7}{f.kind}: {f.text}", "  ", " " * 9)
    for account in audit.compactions:
        yield from _wrapped(title(account, audit.place), "  ", "    ")
        for label, text in facts(account, audit.place):
            yield from _wrapped(f"{label + ':':<32}{text}", "    ", " " * 36)


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(clean(text), WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)


# --- JSON ------------------------------------------------------------------------------------------------------------


def to_json(audits: Sequence[Audit]) -> dict[str, Any]:
    """Audits as JSON values, and the table of kinds. Strings are as the transcript holds them, lone surrogates too."""
    return {"audits": [_audit(a) for a in audits], "kinds": {name: asdict(kind) for name, kind in KINDS.items()}}


def _audit(audit: Audit) -> dict[str, Any]:
    return {
        "path": audit.named,
        "format": audit.format,
        "place": audit.place,
        "skipped": audit.skipped,
        "conversations": audit.conversations,
        "records": audit.records,
        "tokens": audit.tokens,
        "counts": {severity: audit.count(severity) for severity in SEVERITIES},
        "findings": [asdict(f) for f in audit.findings],
        "compactions": [_account(a) for a in audit.compactions],
    }


def _account(account: CompactionAudit) -> dict[str, Any]:
    calls = {"open_calls": account.open_calls, "parted": account.parted, "undone": account.undone}
    return (
        {k: v for k, v in vars(account).items() if isinstance(v, str | int | float | None)}
        | {name: list(lines) if lines else None for name, lines in vars(account).items() if name.endswith("_lines")}
        | {name: [call_data(c) for c in held] for name, held in calls.items()}
        | {
            "survival": [asdict(s) for s in account.survival],
            "lost": [value_data(v) for v in account.lost],
            "repeated": [{"kind": r.kind, "calls": [call_data(c) for c in r.calls]} for r in account.repeated],
        }
    )
