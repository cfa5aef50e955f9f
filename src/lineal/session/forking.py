"""Fork: a new session that begins as another one was. Its log is a copy, relinked, so that neither needs the other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from lineal import codec, working_set
from lineal.engines import Row
from lineal.entries import EffectAttached, EffectIntended, EffectResolved, EffectSettled, Entry, Forked
from lineal.errors import Corrupt, Refused, Verdict
from lineal.fold import fold as folded
from lineal.fold import links
from lineal.lineage import EFFECT_CHAINS, Lineage, chains_of
from lineal.rules.rollback import Checkpoint
from lineal.session import removal, states
from lineal.session.effects import EFFECT_KINDS
from lineal.session.states import pack
from lineal.session.travel import reachable, resolve_target

if TYPE_CHECKING:
    from lineal.session import Session

REMOVALS = ("prune_begun", "purge_begun")


def fork(session: Session, name: str, at: Checkpoint | int | str | None) -> None:
    """A new session that begins as this one was at `at` (default: now). One atomic append: a fork is whole or absent.

    Effects that were done after `at` are known to the fork's ledger too: the world does not fork.
    """
    removed_since: bool = True
    while removed_since:  # what is being erased must not be copied first, and what is copied must be of one moment
        session.finish_removal()
        lineage = session.log.catch_up()
        rows = _rows(session, name, lineage, at)
        removed_since = bool(lineage.pruning or lineage.purging or any(session.engine.scan(session.name, lineage.head, None, REMOVALS)))
    child = rows.child
    session.engine.delete_states(name, session.engine.states(name))  # of a fork of this name that was cut off (R36)
    if rows.holed:
        session.engine.put_state(name, child.head, pack(child))
    session.engine.append(name, 0, rows.rows)
    if not rows.holed:
        states.keep(session.engine, name, child.head, pack(child))
    removal.purge_copies_of_parent(session.sibling(name))


@dataclass(frozen=True)
class _Copy:
    """The fork's rows, and its lineage behind them. `holed`: it opens by its state alone, which must be there first."""

    rows: list[Row]
    child: Lineage
    holed: bool


def _rows(session: Session, name: str, lineage: Lineage, at: Checkpoint | int | str | None) -> _Copy:
    seq = lineage.head if at is None else resolve_target(session, at)[0]
    if not 0 <= seq <= lineage.head:
        raise Refused(
            Verdict(
                "fork", "outside", message=f"seq {seq} lies outside the log (head {lineage.head}).", remedy="name a seq from `lineal log`"
            )
        )
    if name in session.engine.sessions() or name == session.name:
        raise Refused(Verdict("fork", "name_taken", message=f"session {name!r} exists.", remedy="choose another name"))
    past = reachable(session, seq)
    if past is None:
        message = f"raw entries that session {session.name!r} had in its view at seq {seq} were pruned."
        raise Refused(Verdict("retention", "raw_entries_gone", message=message, remedy="fork at a later seq, or at the head"))
    copied = codec.relink(_copies(session, seq), codec.seed(name), seq)
    end = copied[-1].digest if copied else codec.seed(name)
    start = msgspec.structs.replace(past, session=name, digest=end.hex())
    child, rows = start, list(copied)
    for entry in (_forked(session, past, start, copied), *_known_effects(session, lineage, seq)):
        entry = msgspec.structs.replace(entry, before=links(child, chains_of(entry)))
        row = codec.seal(bytes.fromhex(child.digest), child.head + 1, child.generation, entry, os.urandom(codec.SALT_BYTES), child.branch)
        child = folded(child, row.seq, row.digest.hex(), row.inner.hex(), entry)
        rows.append(row)
    return _Copy(rows, child, any(r.kind == codec.PRUNED for r in copied))


def _copies(session: Session, seq: int) -> Iterator[Row]:
    """The rows of 1..`seq` with their content, packed ones too: so segments go along empty, and the fork packs for itself."""
    for row in session.engine.scan(session.name, 0, seq):
        yield replace(row, salt=b"", body=b"") if row.kind == "segment" else session.log.restored(row)


def _forked(session: Session, past: Lineage, start: Lineage, copied: Sequence[Any]) -> Forked:
    entry = Forked(
        parent=session.name,
        parent_digest=past.digest,
        fork_at=past.head,
        stand_ins=session.log.stand_ins(r.seq for r in copied if r.erased and r.kind not in (codec.PRUNED, "segment")),
        at=round(session.clock.wall(), 3),
    )
    draft = folded(start, start.head + 1, start.digest, "", entry)
    note = working_set.make_note(draft, session.policy.summary_max_tokens, session.counter) if draft.effects else None
    return msgspec.structs.replace(entry, note=note)


def _done_since(session: Session, lineage: Lineage, seq: int) -> list[Entry]:
    """The parent's entries of effects behind `seq`. Raises `Corrupt` where one is gone: the fork would do that effect again.

    By kind: a fork below damage is a way out of it, and must not need what else lies behind.
    """
    found = {row.seq: e for row, e in session.log.entries(seq, kinds=EFFECT_KINDS)}
    newest = (s for chain, s in lineage.chains.items() if chain.startswith(EFFECT_CHAINS))
    if lost := sorted(s for s in {*newest, *(s for e in found.values() for s in e.before)} if s > seq and s not in found):
        raise Corrupt(session.name, lost[0], f"the entry of an effect at seq {lost[0]}", "none", "missing entries, phantom deletion")
    return list(found.values())


def _known_effects(session: Session, lineage: Lineage, seq: int) -> list[Entry]:
    """What the parent did after `seq`, as entries of the fork. `turn=-1`: the call stands in no view here."""
    known: list[Entry] = []
    renamed: dict[str, str] = {}  # emissions of turns that only the parent has: the fork's own turns will bear these seqs
    for e in _done_since(session, lineage, seq):
        if isinstance(e, EffectIntended):
            if not e.keyed and e.turn > seq:
                renamed[e.key] = f"{session.name}{e.key}"
            known.append(msgspec.structs.replace(e, key=renamed.get(e.key, e.key), turn=-1))
        elif isinstance(e, EffectAttached | EffectSettled | EffectResolved):
            known.append(msgspec.structs.replace(e, key=renamed.get(e.key, e.key)))
    open_keys = dict.fromkeys(e.key for e in known if isinstance(e, EffectIntended))
    for e in known:
        if isinstance(e, EffectSettled | EffectResolved):
            open_keys.pop(e.key, None)
    known += [EffectSettled(key=key, attempt=1, state="unknown", why=f"in flight in {session.name!r} at the fork") for key in open_keys]
    return known
