"""A host's compaction, before and behind it: archive and prove, judge the summary, give back what must be known.

The archive is made by the importer, so it is incremental and idempotent; a hook that was killed goes on where it was.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from lineal import anchors, codec, transcripts
from lineal.adapters.hook_effects import ask_transcript, close_resolved
from lineal.adapters.hook_event import CONTEXT_CHARS, Answer, Hook, added, told
from lineal.audit import CompactionAudit, examine
from lineal.audit.judge import damage_kind
from lineal.entries import Turn, Unknown
from lineal.errors import Conflict, Refused, Unavailable, Verdict
from lineal.importing import import_transcript, turn_id
from lineal.messages import text_of
from lineal.messages.blocks import compact
from lineal.rules.cut import newest_user, units
from lineal.session import Session
from lineal.session.outcomes import LedgerRow, View
from lineal.store import Store
from lineal.transcripts import Boundary, Damage, Item, Record

SURVIVAL = "x.survival"
LOSSES_TOLD = 5
CALL_CHARS = 300  # of a call's arguments are told
NO_LOSS = ("glued", "branch")  # kinds of damage in which no record is missing


# --- before a compaction ---------------------------------------------------------------------------------------------


def pre_compact(hook: Hook) -> Answer:
    """Archive the transcript, or stop the compaction. Adds only what is new, and a repeat adds nothing.

    The verbatim floor is proven if every record behind the host's last compaction could be read, what was archived before
    stands in the file still, and everything archived reads back clean.
    """
    name, path = hook.archive, hook.transcript
    with hook.open(create=True) as store:
        archive = store.session(name)
        before = archive.turns(limit=1)
        read = list(transcripts.read(path, hook.format))
        try:
            import_transcript(archive, path, hook.format)
        except Conflict as other:
            message = f"{path} says something else than was archived: {other}"
            raise Refused(
                Verdict("hook", "archive_differs", message=message, remedy="keep the archive; give the hook another --store")
            ) from other
        losses = list(_losses(read))
        if before and before[0].id not in {turn_id(r) for r in read if isinstance(r, Record)}:
            losses.append(f"the turn {before[0].id!r} was archived before and stands in it no more: it was cut off, or is another file")
        reports = archive.verify()
    if reports.damaged:
        raise Unavailable(f"the archive of session {name!r}", reports[0].detail, f"lineal verify {shlex.quote(hook.store)}")
    if not losses:
        return Answer()
    more = f"; and {len(losses) - LOSSES_TOLD} more" if len(losses) > LOSSES_TOLD else ""
    what = f"{path} cannot be proven whole: {'; '.join(losses[:LOSSES_TOLD])}{more}."
    if hook.on_damage == "tell":
        return told(f"{what} What could be read is archived.")
    remedy = "what could be read is archived; to compact all the same, give the hook --on-damage tell, or begin a new session"
    raise Refused(Verdict("hook", "floor_unproven", message=what, remedy=remedy, facts={"losses": tuple(losses)}))


def _losses(items: Sequence[Item]) -> Iterator[str]:
    """What could not be read of the part that the model has in view now; older damage no compaction makes worse."""
    since = max((n for n, item in enumerate(items) if isinstance(item, Boundary) and item.kind == "compaction"), default=-1)
    for n, item in enumerate(items):
        # A call without a result is open work (a crash leaves it), no record that is missing.
        if isinstance(item, Damage) and n > since and damage_kind(item, n) not in NO_LOSS and not item.why.startswith("lost result"):
            yield f"line {item.line}: {item.why}"[:300]


def _mark(hook: Hook, store: Store) -> tuple[Session, Session]:
    """What the host dropped has left the view here, too: of the archive, and of the ledger's calls, as the look-alike rule asks."""
    archive, ledger = store.session(hook.archive), store.session(hook.ledger)
    ask_transcript(hook, ledger)
    close_resolved(ledger)
    put_aside(archive)
    put_aside(ledger)
    return archive, ledger


def put_aside(session: Session) -> None:
    """Spill what the host dropped: everything but the newest user turn, pinned turns, and calls without a result."""
    lineage = session.log.catch_up()
    newest = newest_user(lineage.turns)
    stay = {p.turn for p in lineage.pins} | ({newest.id} if newest else set())
    middle = newest.seq if newest else 0
    loose = [u.turns for u in units(lineage.turns) if not u.open and not any(t.id in stay for t in u.turns)]
    for ids in (
        [t.id for turns in loose if turns[-1].seq < middle for t in turns],
        [t.id for turns in loose if turns[0].seq > middle for t in turns],
    ):
        if ids:
            session.spill(ids)


# --- behind a compaction ---------------------------------------------------------------------------------------------


def post_compact(hook: Hook) -> Answer:
    """Which constraints, decisions and exact values of the part that left are not in the summary: recorded and told."""
    with hook.open() as store:
        archive, _ = _mark(hook, store)
        items = _until_boundary(hook, archive.turns(limit=1), list(transcripts.read(hook.transcript, hook.format)))
        found = examine(items, hook.format)
        account = found.compactions[-1]
        seq = _recorded(archive, account)
    here = [f for f in found.findings if f.detail.get("boundary") == account.number]
    texts = [f.text for f in here if f.kind.startswith(("lost_", "no_summary", "summary_unreadable"))]
    whole = sum(s.total for s in account.survival)
    counted = f"compaction {account.number} took {account.covered} turns out of the view, with {whole} exact values and sentences."
    where = f"Recorded at seq {seq}; all of it is archived: {hook.command('search', 'WORDS', hook.archive)}"
    return told("\n".join([counted, *(texts or ["All of them stand in what is shown now."]), where]))


def _until_boundary(hook: Hook, newest: list[Turn], items: list[Item]) -> list[Item]:
    """The transcript up to this compaction, whose boundary the host may not have written yet. The event's summary wins."""
    known = [n for n, item in enumerate(items) if isinstance(item, Record) and newest and turn_id(item) == newest[0].id]
    if not known:
        message = f"nothing that {hook.transcript} holds was archived before this compaction, so its summary cannot be judged."
        raise Refused(Verdict("hook", "not_archived", message=message, remedy="install the PreCompact hook as well"))
    summary = hook.event.get("compact_summary")
    summary = summary if isinstance(summary, str) and summary else None
    for n in range(len(items) - 1, known[-1], -1):
        item = items[n]
        if isinstance(item, Boundary) and item.kind == "compaction":
            return [*items[:n], Boundary(item.line, item.kind, summary or item.summary, item.detail)]
    behind = items[: known[-1] + 1]
    return [*behind, Boundary(behind[-1].line + 1, "compaction", summary, {"trigger": str(hook.event.get("trigger", ""))})]


def _recorded(archive: Session, account: CompactionAudit) -> int:
    """The account as an annotation of the archive, once; returns its seq."""
    raw = codec.to_json(
        {
            "v": codec.FORMAT,
            "kind": SURVIVAL,
            **{name: getattr(account, name) for name in ("number", "line", "trigger", "covered", "covered_tokens", "summary_tokens")},
            "survival": [asdict(s) for s in account.survival],
            "lost": [asdict(v) for v in account.lost],
        }
    )
    there = archive.log.entries(0, archive.status().head, (SURVIVAL,))
    standing = (row.seq for row, e in there if isinstance(e, Unknown) and e.raw == raw)
    return next(standing, 0) or archive.log.write(lambda lineage: [Unknown(name=SURVIVAL, raw=raw)])[1][0].seq


def fitted(lines: Iterable[str], limit: int) -> str:
    """The lines that fit into `limit` characters, in order; a line in place of the rest says how many are missing."""
    kept, left, missing = [], limit - 60, 0
    for line in lines:
        if missing or len(line) + 1 > left:
            missing += 1
            continue
        kept.append(line)
        left -= len(line) + 1
    return "\n".join([*kept, f"+{missing} more lines that did not fit here"] if missing else kept)


# --- in the context again --------------------------------------------------------------------------------------------


def session_start(hook: Hook) -> Answer:
    """What the model must know after a compaction, most important first, at most `CONTEXT_CHARS` characters."""
    if hook.event.get("source") != "compact":
        return Answer()
    with hook.open() as store:
        archive, ledger = _mark(hook, store)
        lines = [*_must_know(hook, archive.view(), ledger), *_places(hook, archive.view())]
        if not lines:
            return Answer()
        text = fitted(["[lineal: kept by machine, said by nobody; the conversation was compacted]", *lines], CONTEXT_CHARS)
        room = CONTEXT_CHARS - len(text) - 1
        values = anchors.render(anchors.extract(archive.turns(), text_of), room, len)
    return added("SessionStart", f"{text}\n{values}" if values else text)


def _must_know(hook: Hook, archive: View, ledger: Session) -> Iterator[str]:
    pinned = {p.turn for p in archive.pins}
    yield from (f"pinned: {p.text}" for p in archive.pins if p.text)
    yield from (f"pinned ({t.author}, seq {t.seq}): {text_of(t.message)}" for t in archive.turns if t.id in pinned)
    view, rows = ledger.view(), {row.key: row for row in ledger.ledger()}
    for row in view.effects:
        resolve = hook.command("effect resolve", f"{shlex.quote(row.key)} FINDING", hook.ledger)
        yield f"unknown outcome, not to be repeated before it is resolved: {_call(row)}; {resolve}"
    if archive.open_calls:
        yield f"calls without a result: {', '.join(archive.open_calls)}"
    if view.done:
        yield f"done, not to be repeated (effect watermark seq {view.watermark} of {ledger.name}):"
        yield from (f"- {_call(rows[d.key])}{': ' + d.outcome if d.outcome else ''}" for d in reversed(view.done))


def _call(row: LedgerRow) -> str:
    return f"{row.tool} {compact(row.shown)[:CALL_CHARS]} (key {row.key}, seq {row.seq})"


def _places(hook: Hook, archive: View) -> Iterator[str]:
    """Where everything that left the view is read again."""
    if archive.seq:
        yield f"all that was said is archived byte-exact; find it by its words: {hook.command('search', 'WORDS', archive.session)}"
    for node in archive.summaries:
        seqs = f"{node.count} turns, seq {node.ranges[0][0]}-{node.ranges[-1][1]}"
        yield f"put aside as {node.handle}: {seqs}: {hook.command('expand', node.handle, archive.session)}"
