"""Audits as one HTML page that needs nothing else: no script, no font, no address outside it. Everything is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from lineal.audit.findings import KINDS, SEVERITIES, Audit, CompactionAudit, Finding, Survival
from lineal.audit.judge import plural
from lineal.audit.report import clean, counted, facts, quiet, size, title, worst_first

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2126; --soft: #5b6670; --line: #d9dee3; --page: #ffffff; --box: #f5f7f8;
  --high: #b3261e; --medium: #8a5a00; --low: #3d6b8f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8eb; --soft: #98a4ae; --line: #363e45; --page: #14181b; --box: #1d2327;
  --high: #ff8a80; --medium: #f2bd5c; --low: #8fc1e8; } }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 2.5rem 0 .25rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p { margin: .25rem 0; } .soft { color: var(--soft); }
ul.findings { list-style: none; padding: 0; margin: 1rem 0; }
ul.findings li { border-left: .25rem solid; padding: .4rem .8rem; margin: .5rem 0; background: var(--box); }
li.high { border-color: var(--high); } li.medium { border-color: var(--medium); } li.low { border-color: var(--low); }
.high b { color: var(--high); } .medium b { color: var(--medium); } .low b { color: var(--low); }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; font-size: .95rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; width: 14rem; } meter { width: 8rem; vertical-align: middle; }
""".strip()


def render_html(audits: Sequence[Audit]) -> str:
    """One page for all audits, readable in light and in dark."""
    read = worst_first(audits)
    skipped = [a for a in audits if a.skipped]
    files = (part for a in read if not quiet(a) for part in _file(a))
    sound = [(a.named, f"{a.format}: {size(a)}") for a in read if quiet(a)]
    left = [(a.named, a.skipped) for a in skipped]
    body = [*_head(read, skipped), *files, *_listed("Nothing found", sound), *_listed("Skipped", left), *_legend(read)]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            "<title>lineal audit</title>",
            f"<style>\n{_STYLE}\n</style>",
            "</head>",
            "<body>",
            *body,
            "</body>",
            "</html>",
            "",
        ]
    )


def _text(text: object) -> str:
    return escape(clean(str(text)))


def _head(read: Sequence[Audit], skipped: Sequence[Audit]) -> Iterator[str]:
    totals = ", ".join(f"{sum(a.count(s) for a in read)} {s}" for s in SEVERITIES)
    yield "<h1>What these histories lost</h1>"
    yield f"<p>{len(read)} read, {len(skipped)} skipped. Findings: {totals}.</p>"
    yield '<p class="soft">Tokens are estimates (UTF-8 bytes / 3). The audited files were only read.</p>'


def _file(audit: Audit) -> Iterator[str]:
    yield "<section>"
    yield f"<h2>{_text(audit.named)}</h2>"
    yield f'<p class="soft">{_text(audit.format)}: {_text(size(audit))}; {_text(counted(audit))}</p>'
    if audit.findings:
        yield '<ul class="findings">'
        yield from (_finding(f, audit.place) for f in audit.findings)
        yield "</ul>"
    for account in audit.compactions:
        yield from _account(account, audit.place)
    yield "</section>"


def _finding(finding: Finding, place: str) -> str:
    line = f" at {place} {finding.line}" if finding.line else ""
    head = f"<b>{_text(finding.severity)}</b> {_text(finding.kind.replace('_', ' '))}{line}"
    return f'<li class="{_text(finding.severity)}"><p class="soft">{head}</p><p>{_text(finding.text)}</p></li>'


def _account(account: CompactionAudit, place: str) -> Iterator[str]:
    yield f"<h3>{_text(title(account, place))}</h3>"
    yield "<table>"
    survival = {f"{plural(s.kind, 2)} of {s.author}": s for s in account.survival}
    for label, text in facts(account, place):
        bar = _bar(survival[label]) if label in survival else ""
        yield f"<tr><th>{_text(label)}</th><td>{bar}{_text(text)}</td></tr>"
    yield "</table>"


def _bar(survival: Survival) -> str:
    return f'<meter min="0" max="{survival.total}" value="{survival.kept}"></meter> '


def _listed(title: str, rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    if not rows:
        return
    yield "<section>"
    yield f"<h2>{title}</h2>"
    yield "<table>"
    for name, text in rows:
        yield f"<tr><th>{_text(name)}</th><td>{_text(text)}</td></tr>"
    yield "</table>"
    yield "</section>"


def _legend(audits: Sequence[Audit]) -> Iterator[str]:
    """What the kinds of finding that occur mean."""
    there = {f.kind for a in audits for f in a.findings}
    if not there:
        return
    yield "<section>"
    yield "<h2>What the findings mean</h2>"
    yield "<table>"
    for name, kind in KINDS.items():
        if name in there:
            yield f"<tr><th>{_text(name.replace('_', ' '))}</th><td>{_text(kind.severity)}: {_text(kind.says)}</td></tr>"
    yield "</table>"
    yield "</section>"
