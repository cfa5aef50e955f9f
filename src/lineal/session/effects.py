"""Effects: what is done to the world.

| step | ledger | a crash here means |
|---|---|---|
| ask the emission rule | nothing | nothing happened |
| append `EffectIntended` (key, arguments, lease) | intended | the holder is dead: *unknown*; nobody sends again without a decision |
| the caller does it | intended | the same |
| append `EffectSettled` | done / no_effect | settled: a second begin under this key returns the recorded outcome |

Nothing here claims "exactly once": intent first, unknown is a state, nothing repeats without someone deciding so.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from lineal import codec
from lineal.entries import EffectAttached, EffectIntended, EffectResolved, EffectSettled, Entry, Lease
from lineal.errors import Corrupt, KeyConflict, PolicyError, Refused, UnsafeEffectError, Verdict, quoted
from lineal.holder import alive, describe, give_up, lease
from lineal.lineage import Lineage, call_chain, effect_chain
from lineal.rules import emission
from lineal.session.lookups import find_all, refuse_unless_all
from lineal.session.outcomes import LedgerRow

if TYPE_CHECKING:
    from lineal.session import Session

F = TypeVar("F", bound=Callable[..., Any])
ANSWERED = ("recorded", "compensated", "look_alike")  # reasons that come with an outcome from the ledger
LOOKALIKES = 20  # equal calls made before that are looked at, newest first
EFFECT_KINDS = ("effect_intended", "effect_attached", "effect_settled", "effect_resolved")


class NoEffect(Exception):
    """Raise inside a guarded function when the tool refused or failed cleanly: recorded as *no effect*."""


class LookAlike(UserWarning):
    """The same call was settled before and has left the view; the policy only warns."""


class Effect:
    """One effect, as a context manager (sync and async) or, without arguments, a decorator.

    Inside: `pending` is True if it is to be done now; then call `settle(value)` or `no_effect(reason)`. Leaving by an
    exception, or unsettled, makes the outcome *unknown*. `result` is the settled value, now or from the ledger.
    """

    def __init__(self, session: Session, tool: str, args: Any, key: Any, idempotent: bool, call: str | None):
        self._session, self._call = session, call
        self.tool, self.args, self.idempotent = tool, args, idempotent
        self.key: str = key
        self.pending = False
        self.result: Any = None
        self.state = ""
        self.attempt = 0
        self.verdict: Verdict | None = None
        self._asked_key = key
        self._held: Lease | None = None

    def __enter__(self) -> Effect:
        begin(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> Literal[False]:
        if self.pending:
            if isinstance(error, NoEffect):
                self.no_effect(str(error))
            else:
                self._leave(f"{kind.__name__}: {error}" if kind else "left unsettled")
        return False

    def _leave(self, why: str) -> None:
        """Its outcome is not known. If no entry can say so, this process at least does not take it for being at work still."""
        try:
            self._write("unknown", None, why)
        except BaseException:
            if self._held is not None:
                give_up(self._held)
            raise

    async def __aenter__(self) -> Effect:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> Literal[False]:
        return await asyncio.to_thread(self.__exit__, kind, error, trace)

    def attach(self, handle: str) -> None:
        """Record where the world tells how this effect stands (a job id, a URL): data in the view until it is settled (R51)."""
        self._refuse_unless_pending()
        entry = EffectAttached(key=self.key, handle=handle)
        self._session.log.write(lambda lineage: [entry])

    def settle(self, value: Any = None) -> Any:
        """It happened; `value` is kept as its outcome (a value that JSON cannot hold is kept as its repr). Durable on return."""
        self._write("done", _recordable(value), "")
        self.result = value
        return value

    def no_effect(self, reason: str = "") -> None:
        """It did not happen: the tool refused or failed cleanly. The key may be sent again (R47)."""
        told = reason if isinstance(reason, str) else quoted(reason, 500)
        self._write("no_effect", told, told)

    def _write(self, state: Literal["done", "no_effect", "unknown"], outcome: Any, why: str) -> None:
        self._refuse_unless_pending()
        entry = EffectSettled(key=self.key, attempt=self.attempt, state=state, outcome=outcome, why=why[:500])

        def decide(lineage: Lineage) -> Sequence[Entry]:
            open_now = lineage.effect(self.key)
            stands = open_now is None or open_now.attempt != self.attempt
            # A settlement whose acknowledgement was lost stands already: it is not made unknown again. And that an older
            # attempt had no effect says nothing about the newer one that is under way.
            return [] if stands and (state == "unknown" or state == "no_effect" and open_now is not None) else [entry]

        self._session.log.write(decide)
        self.pending, self.state = False, state

    def _refuse_unless_pending(self) -> None:
        if not self.pending:
            message = f"effect {self.key!r} is {self.state or 'not begun'}, not pending."
            raise PolicyError(Verdict("emission", "not_pending", message=message, remedy="settle once, inside the with block"))

    def __call__(self, function: F) -> F:
        """Guard every call of `function`: its arguments are the effect's, its return value the outcome."""
        session, tool, key, idempotent = self._session, self.tool, self._asked_key, self.idempotent
        signature = inspect.signature(function)

        def fresh(args: Any, kwargs: Any) -> Effect:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            given = {name: value for name, value in bound.arguments.items() if name not in ("self", "cls")}
            return Effect(session, tool, given, key(given) if callable(key) else key, idempotent, None)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def guarded_async(*args: Any, **kwargs: Any) -> Any:
                async with fresh(args, kwargs) as effect:
                    if effect.pending:
                        effect.settle(await function(*args, **kwargs))
                return effect.result

            return guarded_async  # type: ignore[return-value]

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            with fresh(args, kwargs) as effect:
                if effect.pending:
                    effect.settle(function(*args, **kwargs))
            return effect.result

        return guarded  # type: ignore[return-value]


def _recordable(value: Any) -> Any:
    """The outcome as JSON. What happened must never go unrecorded because its value is odd."""
    try:
        codec.refuse_unless_json(value, "outcome")
    except PolicyError:
        return {"repr": quoted(value, 10_000)}
    return value


def begin(effect: Effect) -> None:
    """Ask the rule; write the intent, or hand out what the ledger has. Raises `UnsafeEffectError`, `KeyConflict`, `PolicyError`."""
    asked = effect._asked_key
    if asked is not None and (not isinstance(asked, str) or not asked or asked.startswith("@")):
        remedy = "give a non-empty string that does not begin with @, or none"
        raise PolicyError(Verdict("emission", "key", message=f"{quoted(asked)} is no key.", remedy=remedy))
    if not isinstance(effect.tool, str) or not effect.tool:
        raise PolicyError(Verdict("emission", "tool", message=f"{quoted(effect.tool)} is no tool.", remedy="give a non-empty string"))
    session, digest = effect._session, codec.arguments_digest(_recordable(effect.args))
    shown = _recordable(effect.args)

    def decide(lineage: Lineage) -> Sequence[Entry]:
        turn, place = _place(session, lineage, effect, digest)
        key = effect._asked_key or f"@{turn}.{place}"
        known = row_of(session, lineage, key)
        verdict = emission.judge(_facts(session, lineage, known, effect, digest))
        if verdict.allowed and effect._asked_key is None:
            alike = _lookalike(session, lineage, effect, digest, key)
            verdict = verdict if alike is None else alike
        effect.key, effect.verdict = key, verdict
        if not verdict.allowed:
            return []
        effect.attempt = known.attempt + 1 if known else 1
        held = effect._held = lease(session.holder, session.policy.lease_seconds, session.clock)
        return [
            EffectIntended(
                key=key,
                tool=effect.tool,
                arguments=digest,
                lease=held,
                idempotent=known.idempotent if known else effect.idempotent,
                keyed=effect._asked_key is not None,
                attempt=effect.attempt,
                turn=turn,
                shown=shown,
            )
        ]

    session.log.catch_up()
    lineage, rows = session.log.write(decide)
    assert effect.verdict is not None
    if rows:
        effect.pending, effect.state = True, "intended"
        session.bound_emissions.add(effect.key)
        return
    _answer(session, lineage, effect, effect.verdict)


def _answer(session: Session, lineage: Lineage, effect: Effect, verdict: Verdict) -> None:
    """Not sent: hand out the recorded outcome, or raise."""
    if verdict.reason == "key_conflict":
        raise KeyConflict(verdict, session.name, lineage.head, int(verdict.facts["seq"]))
    if verdict.reason not in ANSWERED:
        raise UnsafeEffectError(verdict)
    row = row_of(session, lineage, verdict.facts["key"])
    assert row is not None
    effect.state, effect.result, effect.attempt = row.state, row.outcome, row.attempt


def _facts(session: Session, lineage: Lineage, known: LedgerRow | None, effect: Effect, digest: str) -> emission.EmissionFacts:
    held = lineage.effect(known.key) if known else None
    return emission.EmissionFacts(
        key=known.key if known else (effect._asked_key or ""),
        tool=known.tool if known else effect.tool,
        seq=known.seq if known else 0,
        attempt=known.attempt if known else 0,
        found=cast(Any, known.state) if known else None,
        holder=describe(held.lease, session.clock) if held else "",
        deadline=held.lease.deadline if held else None,
        same_arguments=known is None or (known.arguments_digest == digest and known.tool == effect.tool),
        holder_live=held is not None and held.state == "intended" and alive(held.lease, session.clock, expires=False),
        idempotent=known.idempotent if known else effect.idempotent,
    )


def _lookalike(session: Session, lineage: Lineage, effect: Effect, digest: str, key: str) -> Verdict | None:
    """The verdict on equal calls made before under other emissions: the newest settled one, and each unsettled one."""
    first: Verdict | None = None
    alike = codec.lookalike_key(effect.tool, digest)
    for row, entry in find_all(session.log, lineage, alike, call_chain(effect.tool, digest), LOOKALIKES):
        earlier = row_of(session, lineage, entry.key) if isinstance(entry, EffectIntended) and entry.key != key else None
        if not isinstance(entry, EffectIntended) or earlier is None:
            continue
        held = lineage.effect(entry.key)
        verdict = emission.judge_lookalike(
            emission.LookalikeFacts(
                key=entry.key,
                tool=entry.tool,
                seq=row.seq,
                found=cast(Any, earlier.state),
                in_view=lineage.stands(entry.turn or row.seq) and lineage.stands(row.seq),
                policy=session.policy.on_lookalike,
                holder_live=held is not None and held.state == "intended" and alive(held.lease, session.clock, expires=False),
                idempotent=earlier.idempotent,
            )
        )
        if earlier.state in ("intended", "unknown") and not verdict.allowed:
            return verdict
        first = verdict if first is None else first
    if first is not None and first.reason == "warned":
        warnings.warn(LookAlike(first.message), stacklevel=6)
    return first


def _place(session: Session, lineage: Lineage, effect: Effect, digest: str) -> tuple[int, str]:
    """(turn seq, place in the turn): which call of the conversation this emission is (R50).

    The call that was named, answered or not: who names it again means the same one. Else the open call with this tool and
    these arguments, if the conversation has one that was not used yet in this process (after a restart the same call is
    met again, and finds its own record); else the next place behind the newest turn.
    """
    for turn in reversed(lineage.turns) if effect._call else ():
        for n, call in enumerate(turn.calls):
            if call.id == effect._call:
                return turn.seq, str(n)
    answered = {r.call: t.seq for t in lineage.turns for r in t.results if r.final}  # call id -> its newest final result
    for turn in lineage.turns:
        for n, call in enumerate(turn.calls):
            mine = not effect._call and call.tool == effect.tool and call.arguments == digest
            waiting = answered.get(call.id, 0) < turn.seq
            if mine and waiting and f"@{turn.seq}.{n}" not in session.bound_emissions:
                return turn.seq, str(n)
    newest = max((t.seq for t in lineage.turns), default=0)
    n = len({k for k in session.bound_emissions if k.startswith(f"@{newest}.+")})
    while row_of(session, lineage, f"@{newest}.+{n}") is not None:
        n += 1
    return newest, f"+{n}"


# --- the ledger --------------------------------------------------------------------------------------------------------


def row_of(session: Session, lineage: Lineage, key: str) -> LedgerRow | None:
    """The ledger's row for a key, found without a scan."""
    found = {row.seq: entry for row, entry in reversed(session.log.find(f"effect:{key}"))}
    begun = next((seq for seq, e in found.items() if isinstance(e, EffectIntended) and e.attempt == 1), 0)
    refuse_unless_all(session.log, lineage, f"effect:{key}", effect_chain(key), found, begun)
    rows = list(_rows(found.items()))
    known = {**{d.key: d.seq for d in lineage.done}, **{e.key: e.seq for e in lineage.effects}}
    if not rows and (lost := known.get(key)):  # of a version that did not chain them
        raise Corrupt(session.name, lost, f"the entries of effect {key!r}", "none under its key", "damaged index")
    return present(session, lineage, rows[0]) if rows else None


def ledger(session: Session, key: str | None = None) -> list[LedgerRow]:
    """Every effect of the log, oldest first; an effect of a dead holder is shown as *unknown*. With `key` that one alone.

    The whole chain is read, not only the rows of effects: one that was taken out must not simply be absent.
    """
    lineage = session.log.catch_up()
    if key is not None:
        return [row] if (row := row_of(session, lineage, key)) else []
    found = ((row.seq, entry) for row, entry in session.log.entries())
    return [present(session, lineage, row) for row in _rows(found)]


def present(session: Session, lineage: Lineage, row: LedgerRow) -> LedgerRow:
    held = lineage.effect(row.key)
    if held is None or row.state not in ("intended", "unknown"):
        return row
    gone = held.state == "intended" and not alive(held.lease, session.clock, expires=False)
    return _with(row, state="unknown", note=held.why or "its holder is gone") if gone or held.state == "unknown" else row


def _rows(entries: Iterable[tuple[int, Entry]]) -> Iterator[LedgerRow]:
    """Fold effect entries into ledger rows, one a key."""
    rows: dict[str, LedgerRow] = {}
    for seq, e in entries:
        if isinstance(e, EffectIntended):
            rows[e.key] = LedgerRow(
                e.key, e.tool, e.arguments, e.idempotent, "intended", None, seq, e.attempt, e.keyed, e.guarded, False, e.turn, e.shown
            )
        elif isinstance(e, EffectAttached) and e.key in rows:
            rows[e.key] = _with(rows[e.key], handle=e.handle)
        elif isinstance(e, EffectSettled) and e.key in rows:
            rows[e.key] = _with(rows[e.key], state=e.state, outcome=e.outcome, note=e.why)
        elif isinstance(e, EffectResolved) and e.key in rows:
            state = {"happened": "done", "not_happened": "no_effect", "compensated": "compensated"}[e.finding]
            rows[e.key] = _with(rows[e.key], state=state, resolved=True, note=e.note)
    yield from sorted(rows.values(), key=lambda r: r.seq)


def _with(row: LedgerRow, **changes: Any) -> LedgerRow:
    return LedgerRow(**{**row.__dict__, **changes})


def resolve(session: Session, key: str, finding: str, note: str) -> LedgerRow:
    """Record what an operator found out about an effect. Raises `Refused` for an unknown key or a live holder."""
    if finding not in ("happened", "not_happened", "compensated"):
        raise PolicyError(
            Verdict("emission", "finding", message=f"{quoted(finding)} is no finding.", remedy="say happened, not_happened or compensated")
        )

    def decide(lineage: Lineage) -> Sequence[Entry]:
        known = row_of(session, lineage, key)
        if known is None:
            raise Refused(Verdict("emission", "unknown_key", message=f"no effect has the key {key!r}.", remedy="see ledger() for the keys"))
        if known.state == "done" and known.guarded and finding == "not_happened":
            remedy = "say compensated if it was undone; a new key lets it be done once more"
            raise UnsafeEffectError(Verdict("emission", "settled", message=f"effect {key!r} was settled as done.", remedy=remedy))
        if known.state == "intended":
            raise UnsafeEffectError(
                Verdict("emission", "busy", message=f"effect {key!r} is being done by a live holder.", remedy="wait until it settles")
            )
        return [EffectResolved(key=key, finding=finding, note=note)]  # type: ignore[arg-type]

    session.log.catch_up()
    lineage, _ = session.log.write(decide)
    row = row_of(session, lineage, key)
    assert row is not None
    return row


def observe(session: Session, tool: str, args: Any, turn: int, place: int, state: str, outcome: Any = None) -> list[Entry]:
    """Entries for an effect that was seen in foreign history: outside the gate, so a rollback over it must be resolved."""
    key = f"@{turn}.{place}"
    held = lease(session.holder, session.policy.lease_seconds, session.clock)
    intended = EffectIntended(
        key=key,
        tool=tool,
        arguments=codec.arguments_digest(args),
        lease=held,
        keyed=False,
        guarded=False,
        turn=turn,
        shown=_recordable(args),
    )
    settled = EffectSettled(key=key, attempt=1, state=state, outcome=outcome, why="seen in history")  # type: ignore[arg-type]
    return [intended, settled]
