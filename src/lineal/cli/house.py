"""Commands that keep house: check, drop, erase, give out, and print the rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineal.cli.report import Out, as_json, counting, written
from lineal.cli.stores import age, anchor_option, answers, chosen, on_session, on_store, session_option
from lineal.errors import Corrupt, PolicyError, Unavailable, Verdict

if TYPE_CHECKING:
    from lineal.session import Session
    from lineal.store import Store


# --- verify and doctor -----------------------------------------------------------------------------------------------------


@click.command("verify", short_help="Read everything again and say what it is worth.")
@on_store
@session_option
def verify(out: Out, store: Store, name: str | None) -> None:
    """Read every row again and say what it is worth; exit code 3 if anything is damaged.

    A session that was latched read-only is writable again once nothing is wrong.
    """
    rows = [*_verdicts(store, name)]
    damaged = any(row["damaged"] for row in rows)
    out.give({"clean": not any(row["damaged"] or row["in_progress"] for row in rows), "damaged": damaged, "reports": rows})
    columns = ("session", "verdict", "generation", "detail")
    out.table(columns, ([row[c] for c in columns] for row in rows), "The store holds no session; the store itself is sound.")
    if damaged:
        click.get_current_context().exit(Corrupt.exit_code)


def _verdicts(store: Store, name: str | None) -> Iterator[dict[str, Any]]:
    """A row for each report, session by session, then for the engine's own structures."""
    known = store.sessions()
    names = [chosen(store, name)] if name is not None else [*known, *_only_anchored(store, known)]
    for one in names:
        yield from _of_session(store, one)
    yield from (_row("", "ALTERED", 0, f"engine: {what}", damaged=True) for what in store.engine.check())


def _only_anchored(store: Store, known: list[str]) -> list[str]:
    return [one for one in store.anchor.read() if one not in known] if store.anchor else []


def _of_session(store: Store, name: str) -> Iterator[dict[str, Any]]:
    from lineal.rules.integrity import CompactionVerdict
    from lineal.session.log import Log
    from lineal.session.verification import verify as verify_session

    try:
        reports = verify_session(store.engine, name, store.clock, store.anchor)
    except Corrupt as damage:
        yield _row(name, "ALTERED", 0, str(damage), damaged=True, seqs=[damage.seq])
        return
    log = Log(store.engine, name, store.clock, read_ahead=False)
    if reports.damaged:
        log.latch(f"{reports[0].verdict.name}: {reports[0].detail}")
    elif log.latched:
        log.latch(None)
        yield _row(name, "UNLATCHED", 0, "nothing is wrong any more: the session can be written again", damaged=False)
    for r in reports:
        open_pass = r.verdict is CompactionVerdict.COMPACTION_IN_PROGRESS
        damaged = not r.clean and not open_pass
        yield _row(name, r.verdict.name, r.generation, r.detail, damaged, [*r.seqs], [*r.ids], open_pass)


def _row(
    session: str,
    verdict: str,
    generation: int,
    detail: str,
    damaged: bool,
    seqs: list[int] | None = None,
    ids: list[str] | None = None,
    in_progress: bool = False,
) -> dict[str, Any]:
    row: dict[str, Any] = {"session": session, "verdict": verdict, "generation": generation, "detail": detail}
    return row | {"ids": ids or [], "seqs": seqs or [], "damaged": damaged, "in_progress": in_progress}


@click.command("doctor", short_help="Say whether this machine and this place keep the promises.")
@answers
@click.argument("store", required=False)
@anchor_option
def doctor(out: Out, store: str | None, anchor: str | None) -> None:
    """Say whether this machine, and the place where STORE is or would be, can keep the promises.

    The disk and its locks are tried with scratch files beside the store, which are removed again.
    """
    from lineal.doctor import examine

    checks = [*examine(store, anchor)]
    out.give({"ok": not any(c.state == "bad" for c in checks), "checks": checks})
    for c in checks:
        advice = f"; {c.advice}" if c.advice else ""
        out.say(f"{c.state:>5}  {c.name}: {c.found}{advice}", {"bad": "red", "watch": "yellow"}.get(c.state))
    if any(c.state == "bad" for c in checks):
        click.get_current_context().exit(Unavailable.exit_code)


# --- prune and purge -------------------------------------------------------------------------------------------------------


@click.command("prune", short_help="Drop raw entries that nothing needs.")
@on_session
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--keep-checkpoints", type=click.IntRange(min=0), metavar="N", help="Newest checkpoints that stay reachable (default: all).")
@click.option("--before", type=click.IntRange(min=1), metavar="SEQ", help="Only entries below this seq.")
@click.option("--older-than", type=age, metavar="AGE", help="Only entries recorded longer ago: seconds, or 15m, 12h, 30d, 2w.")
@click.option("--keep-entries", type=click.IntRange(min=0), metavar="N", help="The newest N entries stay.")
@click.option("--max-bytes", type=click.IntRange(min=0), metavar="BYTES", help="The oldest go until bodies of so many bytes are left.")
def prune(out: Out, session: Session, dry_run: bool, keep_checkpoints: int | None, **bounds: Any) -> None:
    """Drop raw entries that no view, checkpoint, fork, handle, pin or effect needs any more. Of several bounds the most careful holds."""
    from lineal.ranges import told

    done = session.prune(keep_checkpoints=keep_checkpoints, dry_run=dry_run, **bounds)
    out.give({"session": session.name, "pruned": done})
    if not done.entries:
        out.say("nothing can go: everything that is retained is still needed")
        return
    out.say(
        f"{'would drop' if dry_run else 'dropped'} {done.entries:,} entries, seq {told(done.ranges)}, and {len(done.states):,} old states"
    )


@click.command("pack", short_help="Compress the content of old entries; reads go on as before.")
@on_session
@click.option("--before", type=click.IntRange(min=1), metavar="SEQ", help="Entries below this seq (default: what the view shows no more).")
@click.option("--dry-run", is_flag=True, help="Only say what would be packed, and how small.")
def pack(out: Out, session: Session, before: int | None, dry_run: bool) -> None:
    """Compress the content of entries that the view shows no more. Every read goes on as before; it needs the extra `pack`."""
    with counting(out, "entries") as told:
        done = session.pack(before, dry_run, told)
    out.give({"session": session.name, "packed": done})
    out.say(str(done))
    for seq in done.damaged:
        out.say(f"entry {seq} is not what its digest says, and was left as it is: run `lineal verify`", "yellow")


@click.command("purge", short_help="Erase the content of turns for good, everywhere.")
@on_session
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--dry-run", is_flag=True, help="Only say what would be erased.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def purge(out: Out, session: Session, ids: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Erase the content of the turns ID... and the rest of their units for good: log, summaries, states, forks."""
    if not dry_run and not yes:
        if out.json:
            raise click.UsageError("with --json nobody can be asked: say --yes")
        plan = session.purge(ids, dry_run=True)
        question = (
            f"Erase {len(plan.turns)} turns ({len(plan.erased)} rows, {len(plan.checkpoints)} checkpoints) of {session.name!r} for good?"
        )
        click.confirm(question, abort=True, err=True)
    done = session.purge(ids, dry_run)
    out.give({"session": session.name, "dry_run": dry_run, "purged": done})
    out.say(f"{'would erase' if dry_run else 'erased'} {len(done.turns):,} turns in {len(done.erased):,} rows: {', '.join(done.turns)}")
    gone = [f"generations {', '.join(map(str, done.generations))}" if done.generations else ""]
    gone += [f"checkpoints {', '.join(done.checkpoints)}" if done.checkpoints else ""]
    gone += [f"payloads of effects {', '.join(done.effects)}" if done.effects else ""]
    out.say(f"touched with them: {'; '.join(filter(None, gone)) or 'nothing else'}")
    if done.kept_by:
        out.say(f"also in these forks: {', '.join(done.kept_by)}")


# --- export ----------------------------------------------------------------------------------------------------------------


@click.command("export", short_help="Give out messages as JSON lines.")
@on_store
@session_option
@click.option(
    "--what",
    type=click.Choice(["view", "turns"]),
    default="turns",
    show_default=True,
    help="What the model is shown, or all that was said.",
)
@click.option("--dialect", type=click.Choice(["openai", "responses", "anthropic"]), help="Dialect of the messages (default: as given).")
@click.option("--salvage", is_flag=True, help="Of a damaged session: every turn that still verifies by itself.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to this new file.")
def export(out: Out, store: Store, name: str | None, what: str, dialect: str | None, salvage: bool, output: Path | None) -> None:
    """Give out a session's messages, one JSON object a line, on stdout or into a new FILE."""
    from lineal.messages import convert

    session = chosen(store, name)
    if salvage and what == "view":
        raise click.UsageError("--salvage goes with --what turns")
    if what == "view":
        found = store.session(session).messages(dialect)
    else:
        turns = store.salvage(session) if salvage else store.session(session).turns()
        found = [turn.message for turn in turns]
        found = convert(found, dialect) if dialect else found
    if output is None:
        out.give({"session": session, "what": what, "messages": found})
        for message in found if not out.json else ():
            click.echo(as_json(message, indent=None))
        return
    written(output, "".join(f"{as_json(message, indent=None)}\n" for message in found).encode("utf-8"), replace=False)
    out.give({"session": session, "what": what, "written": len(found), "output": str(output)})
    out.say(f"wrote {len(found):,} messages to {output}")


# --- rules -----------------------------------------------------------------------------------------------------------------


@click.command("rules", short_help="Print the decision tables.")
@answers
@click.argument("rule", required=False)
def rules(out: Out, rule: str | None) -> None:
    """Print the decision tables that the code decides by: all, or those of RULE."""
    from lineal.rules import tables

    known = list(tables())
    found = [t for t in known if rule in (None, t.rule)]
    if not found:
        message = f"there is no rule {rule!r}; there are {', '.join(t.rule for t in known)}."
        raise PolicyError(Verdict("rules", "unknown_rule", message=message, remedy="name one of these"))
    listed = [
        {
            "rule": t.rule,
            "record": t.record,
            "question": t.question,
            "rows": [{"name": r.name, "when": r.when, "then": r.then, "allowed": r.allowed, "remedy": r.remedy} for r in t.rows],
        }
        for t in found
    ]
    out.give({"tables": listed})
    for table in found:
        for line in [*table.markdown().splitlines(), ""]:
            out.say(line)
