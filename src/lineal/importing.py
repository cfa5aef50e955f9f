"""Foreign history into a session: every message a turn, every call that changed the world an entry in the ledger.

An import is a replay of the transcript's own order on the log's one sequence: an effect is intended right behind the turn
that called it and settled right behind its result, so that a seq between the two is what a checkpoint there would have
been. All of it is seen, not guarded: `guarded=False`, so a rollback over it must be resolved first.

| in the transcript | in the log |
|---|---|
| a message | a turn under the record's own id |
| a call that `changes_state` names, and its result | effect intended, effect settled |
| such a call with no result by the end | effect settled as *unknown* |
| a result whose call stands nowhere before it | a late turn; reported |
| something that cannot be read | annotation `x.quarantine` with its bytes; reported |
| a compaction, an eviction or a rollback of the host | annotation `x.host_compaction`; reported |

A second import of the same file adds nothing; one of a file that has grown adds what is new, late results of open calls too.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from os import PathLike
from typing import TYPE_CHECKING, Any

from lineal import codec, messages, transcripts
from lineal.entries import Entry, Unknown
from lineal.lineage import Lineage
from lineal.session import appending, effects, spilling
from lineal.session.outcomes import Nothing
from lineal.transcripts import Boundary, Damage, Item, Record

if TYPE_CHECKING:
    from lineal.session import Session

BATCH = 200  # messages in one transaction
BATCH_COMPACTING = 50  # the same while compacting: the view may pass its trigger by so many messages
OUTCOME_CHARS = 2_000  # of a result's text are kept in the ledger; the whole of it is in its turn
_VIEW = ("replacement_history", "view_ids", "standing")
QUARANTINE, HOST_COMPACTION = "x.quarantine", "x.host_compaction"


@dataclass(frozen=True)
class Imported:
    """What an import did. `turns` and `effects` were added; `already_there` counts turns that stood before.

    `unknown_effects`: keys of effects of this transcript with an unknown outcome now. `quarantined`: (line, why) of each
    damage. `boundaries`: (line, "compaction", "eviction" or "rollback") where the host itself dropped history. `skipped`: lines no
    model saw, by type. `orphans`: (line, call id) of results without a call. `compacted`: what was compacted on the way.
    """

    turns: int
    already_there: int
    effects: int
    unknown_effects: tuple[str, ...]
    quarantined: tuple[tuple[int, str], ...]
    boundaries: tuple[tuple[int, str], ...]
    skipped: dict[str, int]
    orphans: tuple[tuple[int, str], ...] = ()
    compacted: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.turns:,} turns added, {self.already_there:,} already there; {self.effects:,} effects added"]
        parts += [f"{len(self.unknown_effects):,} of unknown outcome"] if self.unknown_effects else []
        parts += [f"{len(self.quarantined):,} damaged places quarantined"] if self.quarantined else []
        return ", ".join(parts)


def import_transcript(
    session: Session,
    path: str | PathLike[str],
    format: str | None = None,
    conversation: int | None = None,
    changes_state: Sequence[str] = (),
    progress: Callable[[int], None] | None = None,
    compact: bool = False,
) -> Imported:
    """Append the transcript at `path` to the session. Idempotent by the records' ids.

    `changes_state`: patterns as `lineal.transcripts.changes_state` takes them. `progress` is told how many items were read
    so far. With `compact` the session compacts by its policy on the way; else what lies above the ceiling is spilled.
    Raises `PolicyError` (format, conversation, pattern), `Unavailable` (the file), `Conflict` (an id stands for another
    message), and what the session's verbs raise. Batches before the failed one stay; a repeat goes on behind them.
    """
    patterns = tuple(changes_state)
    transcripts.changes_state("", {}, patterns)
    name = format if format is not None else transcripts.detect(path)
    tally: Counter[str] = Counter()
    run = _Import(session, name, patterns)
    items = transcripts.read(path, name, conversation, tally)
    compacted: list[str] = []
    done = 0
    while batch := list(islice(items, BATCH_COMPACTING if compact else BATCH)):
        for _, group in groupby(batch, key=lambda item: isinstance(item, Record)):
            alike = list(group)
            run.records([item for item in alike if isinstance(item, Record)])
            run.annotate([item for item in alike if not isinstance(item, Record)])
        done += len(batch)
        if progress:
            progress(done)
        compacted += _keep_size(session, compact)
    run.finish()
    return Imported(
        turns=run.turns,
        already_there=run.already_there,
        effects=run.effects,
        unknown_effects=run.unknown(),
        quarantined=tuple(run.quarantined),
        boundaries=tuple(run.boundaries),
        skipped=dict(sorted(tally.items())),
        orphans=tuple(run.orphans),
        compacted=tuple(compacted),
    )


def _keep_size(session: Session, compact: bool) -> Iterator[str]:
    outcome: Any = None
    if compact:
        outcome = session.maybe_compact()
    elif session.policy.on_refusal == "spill":
        outcome = spilling.enforce_ceiling(session)
    if outcome is not None and not isinstance(outcome, Nothing):
        yield str(outcome)


def turn_id(record: Record) -> str:
    """The turn's id: the record's own, or one made from its place in the file. Ids that begin with @ are lineal's."""
    return f"id:{record.key}" if record.key.startswith("@") else record.key


@dataclass(eq=False)
class _Seen:
    """An effect on its way: `seq` is its turn's, once that stands; `added` if its intent is not older than this import."""

    tool: str
    arguments: Any
    place: int
    seq: int = 0
    added: bool = False

    @property
    def key(self) -> str:
        return f"@{self.seq}.{self.place}"


@dataclass(frozen=True)
class _Step:
    """What happens to an effect right behind a turn: it is intended (`state` is empty), or settled."""

    effect: _Seen
    state: str = ""
    outcome: str = ""


class _Import:
    """One pass over a transcript. `open`: what the newest unanswered call of each id is; None if it changes nothing."""

    def __init__(self, session: Session, format: str, patterns: tuple[str, ...]):
        self.session, self.format, self.patterns = session, format, patterns
        self.turns = self.already_there = self.effects = 0
        self.quarantined: list[tuple[int, str]] = []
        self.boundaries: list[tuple[int, str]] = []
        self.orphans: list[tuple[int, str]] = []
        self.made: set[str] = set()
        self.open: dict[str, _Seen | None] = {}
        self.waiting: dict[_Seen, None] = {}
        self.in_doubt: list[_Seen] = []

    # --- messages and effects ----------------------------------------------------------------------------------------

    def records(self, records: list[Record]) -> None:
        """Append these messages and what they did, in one transaction."""
        if not records:
            return
        steps = [self._steps(record) for record in records]
        before = self.session.log.catch_up().head

        def beside(lineage: Lineage, n: int, seq: int) -> Sequence[Entry]:
            return [entry for step in steps[n] for entry in self._entries(lineage, step, seq)]

        given = [r.message for r in records]
        ids, authors = [turn_id(r) for r in records], [r.author for r in records]
        turns = appending.append(self.session, given, ids, authors, orphans=True, beside=beside if any(steps) else None)
        fresh = sum(t.seq > before for t in turns)
        self.turns, self.already_there = self.turns + fresh, self.already_there + len(turns) - fresh
        self.effects += sum(s.effect.added for of_turn in steps for s in of_turn if not s.state)

    def _steps(self, record: Record) -> list[_Step]:
        """What this message does to the ledger. Asked once a record, in order, whatever happens to the write."""
        message, steps = record.message, []
        parsed = messages.parse(message, record.author)
        for place, call in enumerate(parsed.calls):
            self.made.add(call.id)
            arguments = messages.arguments_of(message, call.id)
            named = self.patterns and transcripts.changes_state(call.tool, arguments, self.patterns)
            effect = _Seen(call.tool, arguments, place) if named else None
            self.open[call.id] = effect
            if effect:
                self.waiting[effect] = None
                steps.append(_Step(effect))
        for result in parsed.results:
            if result.call not in self.made:
                self.orphans.append((record.line, result.call))
            effect = self.open.pop(result.call, None) if result.final else None
            if effect:
                self.waiting.pop(effect, None)
                state = transcripts.outcome(message, result.call, self.format)
                steps.append(_Step(effect, state, _short(messages.result_text(message, result.call))))
                if state == "unknown":
                    self.in_doubt.append(effect)
        return steps

    def _entries(self, lineage: Lineage, step: _Step, seq: int) -> Iterator[Entry]:
        """The step's entry, unless the ledger knows as much already. `seq` is the turn's behind which it stands."""
        effect = step.effect
        if not step.state:
            effect.seq = seq
        known = effects.row_of(self.session, lineage, effect.key) if effect.seq <= lineage.head else None
        state = step.state or "unknown"
        intended, settled = effects.observe(
            self.session, effect.tool, effect.arguments, effect.seq, effect.place, state, step.outcome or None
        )
        if not step.state:
            effect.added = known is None
            yield from (intended,) if known is None else ()
        elif known is None or (not known.resolved and known.state in ("intended", "unknown") and known.state != state):
            yield settled

    def finish(self) -> None:
        """Calls that never got a result: their outcome is unknown (R47)."""
        left = list(self.waiting)
        self.in_doubt += left
        if left:
            self.session.log.write(lambda now: [e for effect in left for e in self._entries(now, _Step(effect, "unknown"), 0)])

    def unknown(self) -> tuple[str, ...]:
        lineage = self.session.log.catch_up()
        keys = sorted(self.in_doubt, key=lambda effect: (effect.seq, effect.place))
        rows = (effects.row_of(self.session, lineage, effect.key) for effect in keys)
        return tuple(row.key for row in rows if row and row.state == "unknown")

    # --- what is no message ------------------------------------------------------------------------------------------

    def annotate(self, items: Sequence[Item]) -> None:
        """Keep damage and the host's own compactions in the log, each once."""
        if not items:
            return
        wanted: dict[bytes, str] = {}
        for item in items:
            if isinstance(item, Damage):
                self.quarantined.append((item.line, item.why))
                wanted[_quarantine(item)] = QUARANTINE
            elif isinstance(item, Boundary):
                self.boundaries.append((item.line, item.kind))
                wanted[_host_compaction(item)] = HOST_COMPACTION

        def decide(lineage: Lineage) -> Sequence[Entry]:
            there = self.session.log.entries(0, lineage.head, tuple(set(wanted.values())))
            standing = {e.raw for _, e in there if isinstance(e, Unknown)}
            return [Unknown(name=name, raw=raw) for raw, name in wanted.items() if raw not in standing]

        self.session.log.write(decide)


def _short(text: str) -> str:
    return text if len(text) <= OUTCOME_CHARS else f"{text[:OUTCOME_CHARS]}… ({len(text):,} characters)"


def _quarantine(damage: Damage) -> bytes:
    raw = base64.b64encode(damage.raw).decode("ascii")
    return codec.to_json({"v": codec.FORMAT, "kind": QUARANTINE, "line": damage.line, "why": damage.why, "raw_base64": raw})


def _host_compaction(boundary: Boundary) -> bytes:
    """The boundary without the whole new view, which some hosts write beside it."""
    detail = {name: value for name, value in boundary.detail.items() if name not in _VIEW}
    return codec.to_json(
        {
            "v": codec.FORMAT,
            "kind": HOST_COMPACTION,
            "line": boundary.line,
            "what": boundary.kind,
            "summary": boundary.summary,
            "detail": detail,
        }
    )
