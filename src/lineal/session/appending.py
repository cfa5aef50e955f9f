"""Append: one encode, one digest, one insert, one commit, and no read.

What is given is kept exactly (R7). An id makes an append idempotent (R2): the same message under the same id is
answered with the turn that stands; another message is a conflict. A result may refer only to a call that is in the
log (R4). An oversized block is shown as a stub with a handle from the start, so that the prefix never changes for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lineal import codec, messages, ranges
from lineal.engines import Duplicate, Row
from lineal.entries import Entry, Turn, TurnAppended
from lineal.errors import Conflict, PolicyError, Refused, Verdict, quoted
from lineal.lineage import Lineage, TurnItem
from lineal.messages import Parsed
from lineal.session.recall import turn_of
from lineal.tokens import measure
from lineal.working_set import turn_message

if TYPE_CHECKING:
    from lineal.session import Session

LOOK_BACK = 200  # rows that are read at once in search of a late result's call
Given = tuple[str | None, Any, Parsed]  # id, message, what it says
Ahead = Callable[[Lineage], Sequence[Entry]]
Beside = Callable[[Lineage, int, int], Sequence[Entry]]


def append(
    session: Session,
    given: Any,
    id: Any,
    author: Any,
    orphans: bool = False,
    beside: Beside | None = None,
    ahead: Ahead | None = None,
) -> list[Turn]:
    """Append messages in order, all or none. Raises `PolicyError`, `Refused` (dangling result), `Conflict` (id taken).

    `orphans`: a result whose call never was in this log (foreign history that was cut) is taken as a late one, not refused.
    `beside(lineage, n, seq)` gives the entries that stand right behind the n-th message's turn, in the same transaction; it
    is asked for turns that stand already too, and again after a lost race. `ahead(lineage)` gives those before the first one.
    """
    batch = _batch(session, given, id, author)
    standing: dict[int, Turn] = {}
    if any(one is not None and one.startswith("@") for one, *_ in batch):
        _find_standing(session, batch, standing)
        _refuse_made_up(batch, standing)
    while True:
        try:
            rows = _write(session, batch, standing, orphans, beside, ahead)
        except Duplicate:
            _find_standing(session, batch, standing)
            continue
        break
    fresh = (row for row in rows if row.kind == "turn")
    return [standing[n] if n in standing else _turn(next(fresh), batch[n]) for n in range(len(batch))]


def _batch(session: Session, given: Any, id: Any, author: Any) -> list[Given]:
    many = isinstance(given, list)
    items = given if many else [given]
    ids = list(id) if isinstance(id, list | tuple) else [id] * (1 if not many else len(items) if id is None else 0)
    authors = author if isinstance(author, list) else [author] * len(items)
    if len(ids) != len(items) or len(authors) != len(items):
        counts = f"{len(items)} messages with {len(ids)} ids and {len(authors)} authors."
        raise _usage("ids", counts, "give one id a message, or none")
    for one in ids:
        if one is not None and (not isinstance(one, str) or not one):
            raise _usage("id", f"{quoted(one)} is no id.", "give a non-empty string")
    named = [one for one in ids if one is not None]
    if len(set(named)) != len(named):
        raise _usage("ids", "two messages of one batch have the same id.", "give each its own")
    batch: list[Given] = []
    for one, by, message in zip(ids, authors, items, strict=True):
        message = session.redact(message) if session.redact else message
        codec.refuse_unless_json(message)
        batch.append((one, message, messages.parse(message, by)))
    return batch


def _refuse_made_up(batch: list[Given], standing: dict[int, Turn]) -> None:
    """Ids with @ are lineal's own, for turns that were given none: they may be said again, not made up."""
    for n, (id, *_) in enumerate(batch):
        if id is not None and id.startswith("@") and n not in standing:
            raise _usage("id", f"no turn has the id {id!r}.", "give a string that does not begin with @")


def save(session: Session, given: list[Any]) -> list[Turn]:
    """Append the tail of `given` behind what the view shows. Raises `Conflict` if it does not begin with the view."""
    shown = session.messages()
    if given[: len(shown)] == shown:
        return append(session, given[len(shown) :], None, None) if len(given) > len(shown) else []
    if shown[: len(given)] == given:
        return []
    at = next(n for n, (a, b) in enumerate(zip(given, shown, strict=False)) if a != b)
    lineage = session.log.lineage
    what = f"message {at} of the list is not what the view shows (generation {lineage.generation})"
    raise Conflict(session.name, lineage.head, lineage.head, what)


def _usage(reason: str, message: str, remedy: str) -> PolicyError:
    return PolicyError(Verdict("append", reason, message=message, remedy=remedy))


def _write(
    session: Session, batch: list[Given], standing: dict[int, Turn], orphans: bool, beside: Beside | None, ahead: Ahead | None
) -> list[Row]:
    todo = [(n, given) for n, given in enumerate(batch) if n not in standing]
    if not todo and beside is None:
        return []

    def decide(lineage: Lineage) -> Sequence[Entry]:
        if lineage.branch:
            _refuse_or_note_earlier(session, lineage, todo, standing)
        dangling = _dangling(session, lineage, todo, orphans)
        entries: list[Entry] = [*ahead(lineage)] if ahead else []
        for n, given in enumerate(batch):
            seq = standing[n].seq if n in standing else lineage.head + 1 + len(entries)
            if n not in standing:
                entries.append(_entry(session, seq, given, dangling.get(n, set())))
            if beside:
                entries.extend(beside(lineage, n, seq))
        return entries

    return session.log.write(decide)[1]


def _refuse_or_note_earlier(session: Session, lineage: Lineage, todo: list[tuple[int, Given]], standing: dict[int, Turn]) -> None:
    """After a rollback the unique key has changed, so an id from before it is looked up; this is the one read of an append."""
    for n, (id, message, _) in todo:
        if id is not None and (turn := _standing(session, lineage, id, message)):
            standing[n] = turn
    if any(n in standing for n, _ in todo):
        raise Duplicate(session.name, lineage.head, lineage.head, "turn id")


def _find_standing(session: Session, batch: list[Given], standing: dict[int, Turn]) -> None:
    lineage = session.log.catch_up()
    for n, (id, message, _) in enumerate(batch):
        if id is not None and n not in standing and (turn := _standing(session, lineage, id, message)):
            standing[n] = turn


def _standing(session: Session, lineage: Lineage, id: str, message: Any) -> Turn | None:
    """The turn that stands under this id on this branch. Raises `Conflict` if it says something else."""
    for row, e in session.log.find(f"turn:{id}"):
        if isinstance(e, TurnAppended) and lineage.on_branch(row.seq):
            if e.message is not None and codec.to_json(e.message) != codec.to_json(message):
                raise Conflict(session.name, lineage.head, row.seq, f"the id {id!r} stands for another message")
            return turn_of(row, e)
    return None


def _dangling(session: Session, lineage: Lineage, todo: list[tuple[int, Given]], orphans: bool) -> dict[int, set[str]]:
    """Place in the batch -> calls that it answers though they have left the view; a result without any call is refused (R4)."""
    dangling: dict[int, set[str]] = {}
    wanted = {(n, r.call) for n, (_, _, parsed) in todo for r in parsed.results}
    if not wanted:
        return dangling
    said = {c.id for _, (_, _, parsed) in todo for c in parsed.calls}
    gone: set[str] = set()  # calls whose newest turn a host dropped
    for turn in reversed(lineage.turns):
        if all(call in said | gone for _, call in wanted):
            break
        (gone if turn.gone else said).update(c.id for c in turn.calls if c.id not in said | gone)
    for n, call in sorted(wanted):
        if call not in said:
            if not orphans and not _asked_before(session, lineage, call):
                raise Refused(
                    Verdict(
                        "append",
                        "dangling_result",
                        message=f"a result refers to the call {call!r}, which is not in session {session.name!r} (head {lineage.head}).",
                        remedy="append the call first; results refer only to what is in the log",
                        facts={"call": call},
                    )
                )
            dangling.setdefault(n, set()).add(call)
    return dangling


def _asked_before(session: Session, lineage: Lineage, call: str) -> bool:
    """Whether a turn that left the view made this call; newest first. What was pruned cannot be asked: it is believed."""
    if any(c.id == call for t in lineage.turns if t.gone for c in t.calls):
        return True
    for first, last in reversed(ranges.union(r for n in lineage.nodes for r in n.ranges)):
        for end in range(last, first - 1, -LOOK_BACK):
            wanted = (max(first, end - LOOK_BACK + 1), end)
            if ranges.overlap([wanted], [(run.first, run.last) for run in session.log.holes()]):
                return True
            for row, e in session.log.rows([wanted]):
                if row.kind == codec.PRUNED or isinstance(e, TurnAppended) and any(c.id == call for c in e.calls):
                    return True
    return False


def _entry(session: Session, seq: int, given: Given, dangling: set[str]) -> TurnAppended:
    id, message, parsed = given
    results = tuple(r for r in parsed.results if r.call not in dangling)
    late = bool(dangling) and not results  # nothing in it is a pair any more: it is shown as words
    id = id or f"@{seq}"
    limit = session.policy.stub_bytes
    tokens, size = measure(message, session.counter)
    stubbed = limit if size > limit and messages.stub(message, limit, f"t:{id}") is not None else 0
    if stubbed or late:
        item = TurnItem(seq, id, parsed.author, parsed.role, 0, 0, "", dialect=parsed.dialect, stubbed=stubbed, late=late)
        tokens, size = measure(turn_message(item, message), session.counter)
    return TurnAppended(
        id=id,
        author=parsed.author,
        role=parsed.role,
        message=message,
        tokens=tokens,
        bytes=size,
        dialect=parsed.dialect,
        calls=parsed.calls,
        results=results,
        stubbed=stubbed,
        late=late,
    )


def _turn(row: Row, given: Given) -> Turn:
    """The turn as it was written; its message is the one given, not read back."""
    entry = codec.decode(row.body)
    assert isinstance(entry, TurnAppended)
    return turn_of(row, entry)
