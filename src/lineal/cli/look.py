"""Commands that only look: nothing that they are given is changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineal.cli.report import FAMILIES, Out, error_fields, tell_error, written
from lineal.cli.stores import answers, chosen, on_session, on_store, policy_options, session_option
from lineal.errors import LinealError

if TYPE_CHECKING:
    from lineal.session import Session
    from lineal.store import Store
    from lineal.view import TimelineRow

GLYPHS = {
    "": " ",
    "begun": "┌",
    "inside": "│",
    "committed": "└",
    "aborted": "x",
    "spilled": "■",
    "checkpoint": "●",
    "rollback": "↶",
}
COLOURS = {"begun": "yellow", "committed": "yellow", "aborted": "yellow", "spilled": "yellow", "checkpoint": "green", "rollback": "red"}


# --- log ---------------------------------------------------------------------------------------------------------------


@click.command("log", short_help="Show what happened, entry by entry, on one axis.")
@on_store
@session_option
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Begin behind this seq.")
@click.option("--until", type=click.IntRange(min=0), metavar="SEQ", help="End with this seq.")
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only entries of this kind, or that begins so (compaction, effect).")
def log(out: Out, store: Store, name: str | None, after: int, until: int | None, kinds: tuple[str, ...]) -> None:
    """Show what happened, entry by entry, on the log's one axis.

    Marks: ┌ compaction begun, │ in flight, └ committed, x aborted, ■ spilled, ● checkpoint, ↶ rollback. A damaged session is
    shown up to the damage.
    """
    from lineal.session.log import Log
    from lineal.view import timeline

    _refuse_unknown(kinds)
    session = chosen(store, name)
    kept: list[TimelineRow] = []
    source = Log(store.engine, session, store.clock, read_ahead=False)
    last = 0
    try:
        for row in timeline(source.entries(after, until)):
            last = row.seq
            if not kinds or any(row.kind == kind or row.kind.startswith(f"{kind}_") for kind in kinds):
                kept += [row] if out.json else []
                out.say(f"{row.seq:>7} {GLYPHS[row.mark]} {row.kind:<20} {row.text}", COLOURS.get(row.mark))
        if store.anchor and last and until is None:
            store.anchor.check(session, last, source.digest_at)
    except LinealError as damage:
        out.give({"session": session, "entries": kept, "error": error_fields(damage)})
        if not out.json:
            tell_error(damage)
        click.get_current_context().exit(damage.exit_code)
    out.give({"session": session, "entries": kept})


def _refuse_unknown(kinds: tuple[str, ...]) -> None:
    from lineal.entries import ENTRY_TYPES

    known = [str(t.__struct_config__.tag) for t in ENTRY_TYPES]
    for kind in kinds:
        if not kind.startswith("x.") and not any(k == kind or k.startswith(f"{kind}_") for k in known):
            raise click.BadParameter(f"{kind!r} is no kind of entry; there are {', '.join(known)}, and x.*", param_hint="--kind")


# --- context and status --------------------------------------------------------------------------------------------------


@click.command("context", short_help="Show exactly what the model would be shown.")
@on_session
@policy_options
@click.option("--raw", is_flag=True, help="Print the messages themselves, as JSON.")
@click.option("--dialect", type=click.Choice(["openai", "responses", "anthropic"]), help="Dialect of --raw (default: as given).")
def context(out: Out, session: Session, raw: bool, dialect: str | None) -> None:
    """Show exactly what the model would be shown now: message by message, what each costs, and what keeps it."""
    if dialect and not raw:
        raise click.UsageError("--dialect goes with --raw")
    if raw:
        Out(True).give(session.messages(dialect))
        return
    from lineal import view

    shown = session.view()
    lineage = session.log.lineage
    rows = [*view.context(lineage, session.policy, {t.seq: t.message for t in shown.turns}, session.counter)]
    budgets = view.budgets(lineage, session.policy)
    out.give({"session": session.name, "seq": lineage.head, "generation": lineage.generation, "messages": rows, "budgets": budgets})
    columns = ("seq", "what", "id", "author", "tokens", "bytes", "kept because", "first words")
    listed = ((_span(r.seqs), r.what, r.name, r.author, r.tokens, r.bytes, r.why, r.text) for r in rows)
    out.table(columns, listed, "The model would be shown nothing.")
    out.say()
    for budget in budgets:
        out.say(budget.text)
    if lineage.overhead or lineage.factor != 1:
        counted = f"{lineage.tokens:,} tokens counted"
        out.say(f"{counted}; calibrated by what the provider reported (x {lineage.factor:.2f}, + {lineage.overhead:,})")


def _span(seqs: tuple[int, int]) -> str:
    return str(seqs[0]) if seqs[0] == seqs[1] else f"{seqs[0]}..{seqs[1]}"


@click.command("status", short_help="Show sizes and states at the head of a session.")
@on_session
@policy_options
def status(out: Out, session: Session) -> None:
    """Show sizes and states at the head of a session, with what needs attention."""
    from lineal import view

    found = session.status()
    rows = [*view.health(found, session.log.lineage, session.policy)]
    out.give({"status": found, "health": rows})
    out.say(f"session {found.session!r} at seq {found.head}, generation {found.generation}, effects up to seq {found.watermark}")
    for row in rows:
        advice = f"; {row.advice}" if row.advice else ""
        out.say(f"{row.state:>5}  {row.name}: {row.text}{advice}", {"bad": "red", "watch": "yellow"}.get(row.state))


@click.command("sessions", short_help="List the sessions of a store.")
@on_store
def sessions(out: Out, store: Store) -> None:
    """List the sessions of a store, damaged ones too."""
    rows = [*_sessions(store)]
    out.give({"sessions": rows})
    columns = ("session", "head", "generation", "tokens", "items", "state")
    out.table(columns, ([r[c] for c in columns] for r in rows), "The store holds no session.")
    worst = max((r["exit_code"] for r in rows), default=0)
    if worst:
        click.get_current_context().exit(worst)


def _sessions(store: Store) -> Iterator[dict[str, Any]]:
    for name in store.sessions():
        try:
            s = store.session(name).status()
        except LinealError as error:
            numbers: dict[str, Any] = {"head": "", "generation": "", "tokens": "", "items": ""}
            state = f"{FAMILIES[error.exit_code]}: {error}"
            yield {"session": name, **numbers, "state": state, "exit_code": error.exit_code}
            continue
        states = ["read-only: " + s.latched if s.latched else "", "suspended" if s.suspended else ""]
        states += [f"generation {s.in_flight} in flight" if s.in_flight is not None else ""]
        states += [f"{len(s.unknown_effects)} effects of unknown outcome" if s.unknown_effects else ""]
        numbers = {"head": s.head, "generation": s.generation, "tokens": s.tokens, "items": s.items}
        yield {"session": name, **numbers, "state": "; ".join(filter(None, states)) or "ok", "exit_code": 0}


# --- ledger, search, expand ------------------------------------------------------------------------------------------------


@click.command("ledger", short_help="List every effect: what was done to the world.")
@on_session
def ledger(out: Out, session: Session) -> None:
    """List every effect of the log: what was done to the world, and what may have been."""
    show_ledger(out, session, ())


def show_ledger(out: Out, session: Session, states: tuple[str, ...]) -> None:
    from lineal import view

    rows = [row for row in session.ledger() if not states or row.state in states]
    out.give({"session": session.name, "watermark": session.log.lineage.watermark, "effects": rows})
    columns = ("seq", "state", "key", "tool", "attempt", "how", "what, and how it ended")
    out.table(columns, ((r.seq, r.state, r.key, r.tool, r.attempt, r.how, r.text) for r in view.ledger(rows)), "No effect is recorded.")


@click.command("search", short_help="Find retained turns by their words.")
@on_session
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(min=1), default=10, show_default=True, metavar="HITS", help="Most hits to show.")
def search(out: Out, session: Session, query: tuple[str, ...], limit: int) -> None:
    """Find the retained turns, in the view or not, that fit the words of QUERY best."""
    hits = session.search(" ".join(query), limit)
    out.give({"session": session.name, "hits": hits})
    out.table(("score", "seq", "handle", "text"), ((f"{h.score:.2f}", h.seq, h.handle, h.text) for h in hits), "No turn has these words.")


@click.command("expand", short_help="Read the exact turns behind a handle.")
@on_session
@click.argument("handle")
def expand(out: Out, session: Session, handle: str) -> None:
    """Read the exact turns behind HANDLE: a summary or spill (g4), a stub (t:ID), or a turn's id."""
    from lineal.messages import text_of

    turns = session.expand(handle)
    out.give({"session": session.name, "handle": handle, "turns": turns})
    for turn in turns:
        out.say(f"--- seq {turn.seq}, {turn.author}, id {turn.id}, {turn.tokens:,} tokens", "cyan")
        for line in text_of(turn.message).splitlines():
            out.say(line)


# --- audit -----------------------------------------------------------------------------------------------------------------


@click.command("audit", short_help="Say what a transcript lost, without importing it.")
@answers
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the report as one HTML page too.")
@click.option(
    "--format",
    "format",
    metavar="FORMAT",
    help="claude_code, codex, pi, openai_chat, langgraph, openai_agents or google_adk (default: look at each).",
)
def audit(out: Out, paths: tuple[str, ...], html: Path | None, format: str | None) -> None:
    """Say what the transcripts at PATH... lost: to compaction, to damage, to calls that nobody answered.

    PATH may be a log of Claude Code, Codex or pi, chat messages, a LangGraph, OpenAI Agents or Google ADK store in an SQLite
    file, or the postgresql:// address of a LangGraph store. A directory is looked through; what is no transcript in it is
    listed as skipped. Nothing is written.
    """
    from lineal import audit as auditor

    one_file = len(paths) == 1 and not os.path.isdir(paths[0])
    found = [auditor.audit(paths[0], format)] if one_file else auditor.audit_paths(paths, format)
    if html is not None:
        written(html, auditor.render_html(found).encode("utf-8", "backslashreplace"), replace=True)
    out.give(auditor.to_json(found))
    for line in auditor.render_text(found).splitlines() if not out.json else ():
        out.say(line)
    if html is not None:
        out.say(f"written to {html}")
