"""Commands that add to a log or change its view."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lineal.cli.report import Out, counting
from lineal.cli.stores import anchor_option, answers, on_session, policy_of, policy_options, session_option, store_argument, taken_policy

if TYPE_CHECKING:
    from lineal.session import Session


@click.command("demo", short_help="Kill an agent three times, go back once, and count what was lost.")
@answers
@click.argument("transcript", required=False, type=click.Path(path_type=Path))
@click.option(
    "--store",
    "store",
    type=click.Path(path_type=Path),
    default="lineal-demo.db",
    show_default=True,
    metavar="FILE",
    help="Where the store is left.",
)
@click.option("--conversation", type=click.IntRange(min=0), default=0, metavar="N", help="Which conversation of the file, from 0.")
@click.option("--seed", type=int, default=0, metavar="N", help="Chooses where a kill falls.")
def demo(out: Out, transcript: Path | None, store: Path, conversation: int, seed: int) -> None:
    """Replay TRANSCRIPT (default: a shipped one) through an agent that is killed three times and goes back once."""
    from lineal.demo import run

    report = run(transcript, store, conversation=conversation, out=out.say, seed=seed)
    out.give(report.to_json())
    if not report.ok:
        click.get_current_context().exit(1)


@click.command("import", short_help="Append a transcript to a session.")
@answers
@click.argument("transcript", type=click.Path(path_type=Path))
@store_argument
@session_option
@anchor_option
@policy_options
@click.option("--format", "format", metavar="FORMAT", help="claude_code, codex, pi or openai_chat (default: look at the file).")
@click.option("--conversation", type=click.IntRange(min=0), metavar="N", help="Which conversation of the file, from 0.")
@click.option("--changes-state", "patterns", multiple=True, metavar="PATTERN", help="Calls that become effects: Edit, 'Bash(git push*)'.")
@click.option("--compact", is_flag=True, help="Compact by the policy on the way (default: spill above the ceiling).")
def import_(out: Out, transcript: Path, store: str, name: str | None, anchor: str | None, **options: Any) -> None:
    """Append TRANSCRIPT to a session of STORE, which is made if it is not there (session: the file's name).

    A second import of the same file adds nothing.
    """
    from lineal import transcripts
    from lineal.importing import import_transcript
    from lineal.policy import Policy
    from lineal.store import connect

    given = taken_policy(options)
    Policy(**given)
    transcripts.changes_state("", {}, options["patterns"])
    number: int | None = options["conversation"]
    next(transcripts.read(transcript, options["format"], number), None)  # refused before a store is made for it
    session_name = name or (transcript.stem if number is None else f"{transcript.stem}-{number}")
    with connect(store, anchor) as opened:
        session = opened.session(session_name)
        session.policy = policy_of(session, given)
        with counting(out, "import", "messages") as told:
            done = import_transcript(session, transcript, options["format"], number, options["patterns"], told, options["compact"])
        status = session.status()
    out.give({"store": store, "session": session_name, "imported": done, "head": status.head, "tokens": status.tokens})
    out.say(f"session {session_name!r}: {done}")
    _report(out, done)
    out.say(f"the log ends at seq {status.head}; the view has {status.tokens:,} tokens in {status.items:,} items")


def _report(out: Out, done: Any) -> None:
    """Everything that was not taken as it stood, one line each."""
    for line in done.compacted:
        out.say(line)
    for line, kind in done.boundaries:
        out.say(f"line {line}: the host's own {kind}, kept as an annotation")
    for line, why in done.quarantined:
        out.say(f"line {line}: quarantined: {why}", "yellow")
    for line, call in done.orphans:
        out.say(f"line {line}: a result of call {call}, which stands nowhere before it: taken as a late result", "yellow")
    for key in done.unknown_effects:
        out.say(f"effect {key} has an unknown outcome: find out, then `lineal effect resolve STORE {key} FINDING`", "yellow")
    if done.skipped:
        out.say("lines that no model saw: " + ", ".join(f"{n:,} {kind}" for kind, n in done.skipped.items()))


# --- the view ------------------------------------------------------------------------------------------------------------


@click.command("compact", short_help="Summarise what nothing keeps verbatim.")
@on_session
@policy_options
@click.option("--summarizer", type=click.Choice(["extractive"]), default="extractive", show_default=True, help="Who writes the summary.")
@click.option("--if-needed", is_flag=True, help="Only if the view is above the trigger.")
@click.option("--request-id", metavar="ID", help="A repeat with the same id returns the first result.")
def compact(out: Out, session: Session, summarizer: str, if_needed: bool, request_id: str | None) -> None:
    """Summarise what nothing keeps verbatim, under the policy stored with the last compaction or given here."""
    from lineal.errors import Refused
    from lineal.session.outcomes import Failed, Nothing
    from lineal.summarizers.extractive import extractive

    writer = {"extractive": extractive}[summarizer]
    outcome = session.maybe_compact(writer) if if_needed else session.compact(writer, request_id)
    if isinstance(outcome, Refused):
        raise outcome
    if isinstance(outcome, Failed):
        fields = {"type": "Failed", "family": "refused", "exit_code": 1, "reason": outcome.reason, "message": str(outcome)}
        out.give({"error": fields})
        if not out.json:
            click.echo(f"{outcome}; the view is as it was", err=True)
        click.get_current_context().exit(1)
    name = type(outcome).__name__.lower()
    out.give({"outcome": name, "session": session.name, **vars(outcome)})
    out.say(f"nothing to do: {outcome.verdict.message}" if isinstance(outcome, Nothing) else str(outcome))
    because = getattr(outcome, "because", None)
    if because is not None:
        out.say(f"not summarised, because {because}")


@click.command("spill", short_help="Put turns aside, byte-exact, behind a handle.")
@on_session
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def spill(out: Out, session: Session, ids: tuple[str, ...]) -> None:
    """Put the turns ID... and the rest of their units aside, byte-exact; `expand` reads them again by the handle."""
    before = session.status().tokens
    handle = session.spill(ids)
    after = session.status().tokens
    count = len(session.expand(handle))
    out.give({"session": session.name, "handle": handle, "turns": count, "tokens_before": before, "tokens_after": after})
    out.say(f"spilled {count} turns into {handle}: {before:,} -> {after:,} tokens")


@click.command("pin", short_help="Keep a turn, or a text, verbatim through every compaction.")
@on_session
@click.argument("what")
@click.option("--turn", is_flag=True, help="WHAT must be a turn's id.")
def pin(out: Out, session: Session, what: str, turn: bool) -> None:
    """Keep WHAT verbatim through every compaction: the turn with this id, else this text."""
    from lineal.errors import Refused, Verdict

    if turn and session.log.lineage.turn(what) is None:
        message = f"turn {what!r} does not stand verbatim in the view."
        raise Refused(Verdict("pin", "not_in_view", message=message, remedy="see `lineal context` for the ids, or pin a text"))
    id = session.pin(what)
    kind = "text" if id.startswith("text:") and id != what else "turn"
    out.give({"session": session.name, "pin": id, "kind": kind})
    out.say(f"pinned the {kind} {what!r}; `lineal unpin STORE {id}` lifts it")


@click.command("unpin", short_help="Lift a pin.")
@on_session
@click.argument("what")
def unpin(out: Out, session: Session, what: str) -> None:
    """Lift the pin with this id, of this turn, or of this text."""
    session.unpin(what)
    out.give({"session": session.name, "unpinned": what})
    out.say(f"unpinned {what!r}")
