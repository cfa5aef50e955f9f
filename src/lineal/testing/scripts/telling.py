"""How a story tells what came back: one short line a thing, nothing that differs from run to run."""

from __future__ import annotations

import json
from typing import Any

from lineal import messages
from lineal.errors import Conflict, Corrupt, LinealError, PolicyError, Refused, Unavailable
from lineal.session import Session
from lineal.session.outcomes import Compacted, Failed, Nothing, Plan
from lineal.testing.scripts.language import rows_of_names, shortened

QUOTED = 72  # characters of a message that a line shows


def error(found: LinealError) -> str:
    """The family, and what a program would read of it."""
    match found:
        case PolicyError():
            return f"usage {found.rule}/{found.reason}"
        case Refused():
            return f"refused {reason(found)}"
        case Corrupt():
            return f"corrupt at seq {found.seq}: {found.what}"
        case Conflict():
            return f"conflict: expected seq {found.expected_seq}, found seq {found.found_seq}"
        case Unavailable():
            return "unavailable"
    return type(found).__name__


def reason(found: Refused) -> str:
    """Rule and reason; for a summary that was not acceptable, why it was not."""
    if found.reason == "summary_refused":
        return f"summary/{found.facts['summary']}"
    return f"{found.rule}/{found.reason}"


def outcome(found: Any) -> str:
    """What `compact` and `maybe_compact` return."""
    match found:
        case Compacted(lossy=True):
            spilled = f", spills {shortened(found.spilled)}" if found.spilled else ""
            because = f" because {reason(found.because)}" if found.because else ""
            return f"{found.handle} covers {shortened(found.covered)}, keeps {shortened(found.kept)}{spilled}; {_sizes(found)}{because}"
        case Compacted():
            because = f" because {reason(found.because)}" if found.because else ""
            return f"{found.handle or 'stubs'} spills {shortened(found.spilled)}, keeps {shortened(found.kept)}; {_sizes(found)}{because}"
        case Nothing():
            return f"nothing: {found.reason}"
        case Refused():
            return error(found)
        case Failed():
            return f"failed: {found.reason}"
    return str(found)


def _sizes(found: Compacted) -> str:
    return f"{found.tokens_before} -> {found.tokens_after} tokens"


def plan(found: Plan) -> str:
    spilled = f", spills {shortened(found.spilled)}" if found.spilled else ""
    nodes = f" and {' '.join(found.nodes)}" if found.nodes else ""
    return f"plan g{found.generation}: covers {shortened(found.covered)}{nodes}, keeps {shortened(found.kept)}{spilled}"


def view(session: Session) -> list[str]:
    """What the model is shown, as names; then pins, open calls and effects, if there are any."""
    seen = session.view()
    items = [f"[{n.handle} {n.kind} of {n.count}]" for n in seen.summaries] + rows_of_names([t.id for t in seen.turns])
    lines = [" ".join(items) or "nothing"]
    named = {
        "pins": [p.turn or json.dumps(p.text) for p in seen.pins],
        "open calls": list(seen.open_calls),
        "open effects": [f"{e.key} ({e.state})" + (f" at {e.handle}" if e.handle else "") for e in seen.effects],
        "done": [d.key for d in seen.done],
    }
    return lines + [f"{title}: {', '.join(names)}" for title, names in named.items() if names]


def status(session: Session) -> str:
    now = session.status()
    parts = [f"head {now.head}", f"generation {now.generation}", f"{now.tokens} tokens", f"{now.items} items"]
    parts += [f"open calls {' '.join(now.open_calls)}"] if now.open_calls else []
    parts += [f"unknown {' '.join(now.unknown_effects)}"] if now.unknown_effects else []
    parts += ["suspended"] if now.suspended else []
    parts += [f"g{now.in_flight} in flight"] if now.in_flight else []
    parts += ["read-only"] if now.latched else []
    return ", ".join(parts)


def ledger(session: Session) -> list[str]:
    rows = session.ledger()
    return [f"{r.key}: {r.tool} {r.state}{'' if r.outcome is None else ' ' + json.dumps(r.outcome)}" for r in rows] or ["nothing"]


def shown(session: Session, dialect: str | None) -> list[str]:
    """Each message that is rendered: its role and how it begins."""
    return [f"{_role(m)}: {_begins(m)}" for m in session.messages(dialect)] or ["nothing"]


def _role(message: Any) -> str:
    return str(message.get("role") or message.get("type"))


def _begins(message: Any) -> str:
    parsed = messages.parse(message) if message.get("role") in ("user", "assistant", "tool", "system") else None
    said = messages.text_of(message) if parsed else json.dumps(message)
    line = " ".join(said.split())
    return line if len(line) <= QUOTED else f"{line[: QUOTED - 3]}..."


def log(session: Session) -> list[str]:
    """The kinds of the log's rows, runs of one kind as one line."""
    lines: list[tuple[int, int, str]] = []
    for row in session.engine.scan(session.name):
        kind = f"{row.kind} (erased)" if row.erased else row.kind
        if lines and lines[-1][2] == kind and lines[-1][1] == row.seq - 1:
            lines[-1] = (lines[-1][0], row.seq, kind)
        else:
            lines.append((row.seq, row.seq, kind))
    return [f"{first} {kind}" if first == last else f"{first}-{last} {kind}" for first, last, kind in lines] or ["nothing"]
