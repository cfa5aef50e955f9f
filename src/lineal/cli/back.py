"""Commands that go back, and those that prepare for it. Coming back after a fault and going back on purpose are two things."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from lineal.cli.report import Out
from lineal.cli.stores import on_session

if TYPE_CHECKING:
    from lineal.session import Session
    from lineal.session.outcomes import Rollback


@click.command("checkpoint", short_help="Record the state at the head as a place to go back to.")
@on_session
@click.argument("label", required=False, default="")
@click.option("--list", "listing", is_flag=True, help="List the checkpoints instead.")
def checkpoint(out: Out, session: Session, label: str, listing: bool) -> None:
    """Record the state at the head as a place to go back to, under an optional LABEL."""
    if listing:
        known = session.checkpoints()
        out.give({"session": session.name, "checkpoints": known})
        columns = ("id", "seq", "generation", "effects up to", "label")
        rows = ((c.checkpoint_id, c.seq, c.generation, c.effect_watermark, c.label) for c in known)
        out.table(columns, rows, "There is no checkpoint.")
        return
    made = session.checkpoint(label)
    out.give({"session": session.name, "checkpoint": made})
    out.say(f"checkpoint {made.checkpoint_id} at seq {made.seq}, generation {made.generation}, effects up to seq {made.effect_watermark}")


@click.command("recover", short_help="Come back after a fault, or say where recovery would go.")
@on_session
@click.option("--explain", is_flag=True, help="Change nothing; say of each checkpoint why it is or is not eligible.")
def recover(out: Out, session: Session, explain: bool) -> None:
    """Come back after a fault: restore a checkpoint that is newer than the last compaction, else replay from that."""
    if explain:
        _explain(out, session)
        return
    done = session.recover()
    out.give({"session": session.name, "recovery": done})
    place = f"checkpoint {done.checkpoint} at seq {done.seq}" if done.checkpoint else f"replay from seq {done.seq}"
    out.say(f"recovered: {place}; {done.why}")
    for name, verdict in done.passed_over:
        out.say(f"passed over {name}: {verdict.message}")
    if done.aborted is not None:
        out.say(f"generation {done.aborted} was begun by a holder that is gone: aborted")
    for key in done.unknown:
        out.say(f"effect {key} was begun by a holder that is gone: its outcome is unknown")


def _explain(out: Out, session: Session) -> None:
    from lineal import view
    from lineal.session import travel

    lineage = session.log.lineage
    choice = travel.recovery_choice(session, lineage)
    labels = {c.checkpoint_id: c.label for c in session.checkpoints()}
    rows = [*view.recovery(travel.recovery_facts(session, lineage), travel.candidates(session), choice, labels)]
    barriers = {"committed_at": lineage.committed_at, "covered_through": lineage.covered_through, "rolled_back_at": lineage.rolled_back_at}
    out.give({"session": session.name, "target": choice.target, "seq": choice.seq, "why": choice.why, **barriers, "checkpoints": rows})
    if choice.target is None:
        out.say(f"recovery would be refused: {choice.why}", "red")
    elif choice.checkpoint_id:
        out.say(f"recovery would restore checkpoint {choice.checkpoint_id} (seq {choice.seq}) and fold the entries after it", "green")
    else:
        out.say(f"recovery would replay from seq {choice.seq}: no checkpoint is eligible", "yellow")
    last = f"committed at seq {lineage.committed_at}, covers through seq {lineage.covered_through}" if lineage.committed_at else "none"
    out.say(f"last lossy compaction: {last}; last rollback: {f'seq {lineage.rolled_back_at}' if lineage.rolled_back_at else 'none'}")
    columns = ("checkpoint", "seq", "label", "eligible", "why")
    listed = ((r.checkpoint, r.seq, r.label, _eligible(r.chosen, r.eligible), r.verdict.message) for r in rows)
    out.table(columns, listed, "There is no checkpoint.")


def _eligible(chosen: bool, eligible: bool) -> str:
    return "chosen" if chosen else "yes, but an eligible one is newer" if eligible else "no"


@click.command("rollback", short_help="Go back on purpose to a checkpoint or a seq.")
@on_session
@click.argument("target")
@click.option("--dry-run", is_flag=True, help="Only say what would happen; exit code 1 if it would be refused.")
@click.option("--expected-head", type=click.IntRange(min=0), metavar="SEQ", help="Refuse (exit code 4) if the head is another.")
def rollback(out: Out, session: Session, target: str, dry_run: bool, expected_head: int | None) -> None:
    """Go back on purpose to TARGET: a checkpoint's id or label, or a seq. What was done to the world stays in the ledger."""
    done = session.rollback(target, dry_run, expected_head)
    allowed = done.verdict.allowed
    out.give({"session": session.name, "allowed": allowed, "rollback": done})
    if allowed:
        out.say(
            f"{'would go' if dry_run else 'went'} back to seq {done.target}; the new head {'would be' if dry_run else 'is'} seq {done.seq}"
        )
    else:
        out.say(f"would be refused ({done.verdict.reason}): {done.verdict.message}", "red")
        out.say(f"way out: {done.verdict.remedy}")
    out.say(f"turns left behind: {len(done.left_behind):,}")
    for what, keys in _weighed(done):
        if keys:
            out.say(f"effects {what}: {', '.join(keys)}")
    if not allowed:
        click.get_current_context().exit(1)


def _weighed(done: Rollback) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What the rule made of each effect that lies behind the target."""
    facts = done.verdict.facts
    yield "in the way", done.refused
    yield "done, and answered from the ledger", done.guarded
    yield "resolved or compensated", tuple(facts.get("reconciled", ()))
    yield "that may be done again", tuple(facts.get("idempotent", ()))
    yield "in flight at the target, unknown until resolved", tuple(facts.get("in_flight_at_target", ()))


@click.command("fork", short_help="Begin a new session as this one is, or was.")
@on_session
@click.argument("child", metavar="NAME")
@click.option("--at", "at", metavar="TARGET", help="A checkpoint's id or label, or a seq (default: the head).")
def fork(out: Out, session: Session, child: str, at: str | None) -> None:
    """Begin the session NAME in the same store, as this one is or was at TARGET; effects done since are known to it."""
    made = session.fork(child, at)
    status = made.status()
    out.give({"session": child, "parent": session.name, "status": status})
    out.say(f"session {child!r} begins at seq {status.head} with {status.tokens:,} tokens in {status.items:,} items")
