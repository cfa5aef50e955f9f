"""The session: one agent's durable memory, and the only writer of its log.

Every verb is one line here and one room behind it: `log` reads and writes rows, `compaction` and `summarizing` change
the view, `spilling` puts aside, `effects` guards the world, `travel` goes back and forth, `recall` reads back,
`removal` prunes and purges, `verification` checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, overload

from lineal import working_set
from lineal.anchor import HeadAnchor
from lineal.engines import Engine
from lineal.entries import CompactionCommitted, Entry, Holder, Range, Turn, Usage
from lineal.errors import CompactionLineageError, Corrupt, PolicyError, Verdict, quoted
from lineal.holder import Clock
from lineal.lineage import Lineage, TurnItem
from lineal.policy import Policy
from lineal.rules.cut import open_calls
from lineal.rules.rollback import Checkpoint
from lineal.session import (
    appending,
    compaction,
    effects,
    forking,
    hosting,
    packing,
    pins,
    recall,
    removal,
    spilling,
    summarizing,
    travel,
    verification,
)
from lineal.session.arguments import count, maybe, seconds, text, texts
from lineal.session.effects import Effect
from lineal.session.log import Log
from lineal.session.outcomes import (
    Compacted,
    Hit,
    Kept,
    LedgerRow,
    Outcome,
    Packed,
    Plan,
    Pruned,
    Purged,
    Record,
    Recovery,
    Rollback,
    Shown,
    Status,
    View,
)
from lineal.session.retaining import Bound
from lineal.session.sizes import status
from lineal.summarizers import Summarizer, Summary
from lineal.tokens import Counter

if TYPE_CHECKING:
    from lineal.store import Store


class Session:
    """One log, its fold, and the verbs. Get it from `Store.session`. Thread-safe; other processes may hold the same one.

    `policy` may be changed between calls; it takes effect at the next decision.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        policy: Policy,
        summarizer: Summarizer,
        counter: Counter,
        redact: Callable[[Any], Any] | None = None,
        before_commit: Callable[[CompactionCommitted], None] | None = None,
    ):
        self.store, self.name, self.policy = store, name, policy
        self.summarizer, self.counter = summarizer, counter
        self.redact, self.before_commit = redact, before_commit
        self.announced: set[int] = set()
        self.engine: Engine = store.engine
        self.clock: Clock = store.clock
        self.holder: Holder = store.holder
        self.anchor: HeadAnchor | None = store.anchor
        self.bound_emissions: set[str] = set()
        self.log = Log(self.engine, name, self.clock, self.anchor)

    def __repr__(self) -> str:
        return f"<lineal session {self.name!r} at seq {self.log.lineage.head}>"

    # --- append and read ---------------------------------------------------------------------------------------------

    @overload
    def append(self, message: list[Any], id: Sequence[str | None] | None = None, author: str | None = None) -> list[Turn]: ...
    @overload
    def append(self, message: dict[str, Any], id: str | None = None, author: str | None = None) -> Turn: ...
    def append(self, message: Any, id: Any = None, author: str | None = None) -> Any:
        """Append one message (or a list, all or none); durable on return. Idempotent by `id`.

        Any of the three dialects, kept exactly as given. Above the policy's ceiling the oldest units are spilled
        (`on_refusal="spill"`). Raises `PolicyError` for what is no message or cannot round-trip, `Refused` for a result
        without its call (R4), `Conflict` if `id` stands for another message.
        """
        turns = appending.append(self, message, id, author)
        self._keep_house()
        return turns if isinstance(message, list) else turns[0]

    def _keep_house(self) -> None:
        """What the policy asks for after every append."""
        if self.policy.on_refusal == "spill":
            spilling.enforce_ceiling(self)
        lineage, policy = self.log.lineage, self.policy
        entries, minutes = policy.checkpoint_every_entries, policy.checkpoint_every_minutes
        due = entries is not None and lineage.head - lineage.checkpointed_at >= entries
        if minutes is not None and not due:
            due = self.clock.wall() - max(lineage.checkpointed_time, self.store.opened) >= minutes * 60
        if due and not spilling.busy(self, lineage):
            with suppress(CompactionLineageError):  # one began meanwhile: the append stands, and a later one takes the checkpoint
                self.checkpoint("automatic")

    def save(self, messages: list[Any]) -> list[Turn]:
        """Append what is new in a list that begins with what `messages()` shows: for loops that hand over their whole list.

        Saving the same list again adds nothing (R2). Raises `Conflict` for a list that does not begin with the present
        view: it was taken from an older generation, and nothing is ever replaced (R31).
        """
        if not isinstance(messages, list):
            raise PolicyError(Verdict("save", "no_list", message=f"{quoted(messages)} is no list.", remedy="give the list of messages"))
        return appending.save(self, messages)

    def messages(self, dialect: str | None = None) -> list[Any]:
        """What the model is shown now, oldest first; in `dialect` ("openai", "responses", "anthropic") or as given.

        Every row is verified on the way. Raises `Corrupt`; never returns a shorter history.
        """
        lineage, turns = self._shown()
        return working_set.render(lineage, {t.seq: t.message for t in turns}, dialect)

    def shown(self) -> list[Shown]:
        """What `messages()` shows, each message with the turn that it shows: for hosts that hold messages of their own kind."""
        lineage, turns = self._shown()
        contents = {t.seq: t.message for t in turns}
        found: list[Shown] = []
        for item, message in working_set.shown(lineage, contents):
            turn = (item.id, item.seq, message is contents[item.seq]) if isinstance(item, TurnItem) else ("", 0, False)
            found.append(Shown(message, *turn))
        return found

    def _shown(self) -> tuple[Lineage, list[Turn]]:
        """The lineage of this moment and every turn that its view shows; read again if others took some away meanwhile."""
        while True:
            lineage = self.log.catch_up()
            wanted = [(t.seq, t.seq) for t in lineage.turns if not t.gone]
            turns = self.read_turns(lineage, wanted)
            if len(turns) == len(wanted):
                return lineage, turns
            if self.log.catch_up() == lineage:
                seq = min({first for first, _ in wanted} - {t.seq for t in turns})
                raise Corrupt(self.name, seq, "a turn of the view", "none", "missing turn")

    def view(self) -> View:
        """The working set as data: nodes, turns and notes, fresh at this seq."""
        lineage, turns = self._shown()
        rows = (effects.row_of(self, lineage, e.key) for e in lineage.effects)
        return View(
            session=self.name,
            seq=lineage.head,
            generation=lineage.generation,
            summaries=lineage.nodes,
            turns=tuple(turns),
            tokens=lineage.view_tokens,
            bytes=lineage.bytes,
            items=len(lineage.items),
            watermark=lineage.watermark,
            open_calls=open_calls(lineage.turns),
            effects=tuple(r for r in rows if r),
            done=lineage.done,
            pins=lineage.pins,
            anchors=lineage.anchors,
            handles=tuple(n.handle for n in lineage.nodes),
        )

    def turns(self, before: int | None = None, limit: int | None = None) -> list[Turn]:
        """What was said on this branch, from the retained log, oldest first; of those below seq `before` the newest `limit`."""
        return recall.page(self, maybe(count, before, "seq"), maybe(count, limit, "limit"))

    def status(self) -> Status:
        """Sizes and states at the head, without reading any turn."""
        return status(self)

    def record_usage(self, input_tokens: int, output_tokens: int = 0) -> Status:
        """What the provider counted for the view as it is now. It can only tighten the counter (R25)."""
        given, answered = count(input_tokens, "token count"), count(output_tokens, "token count")

        def decide(lineage: Lineage) -> Sequence[Entry]:
            return [Usage(input_tokens=given, output_tokens=answered, counted=lineage.tokens)]

        self.log.write(decide)
        return self.status()

    # --- compaction --------------------------------------------------------------------------------------------------

    def plan_compaction(self, request_id: str | None = None) -> Plan:
        """Begin a compaction: what would be covered and what the summarizer is to be shown. Raises `Refused`."""
        return compaction.plan(self, request_id=maybe(text, request_id, "request id", 1))

    def commit_compaction(self, plan: Plan, summary: str | Summary) -> Compacted:
        """Make `summary` stand for the plan's covered turns. Raises `Refused`: then nothing changed, and the plan stays open."""
        return compaction.commit(self, plan, summary)

    def abort_compaction(self, plan: Plan, why: str = "aborted by the caller") -> None:
        """Close the plan without effect on the view."""
        compaction.abort(self, plan, why)

    def compact(self, summarizer: Summarizer | None = None, request_id: str | None = None) -> Outcome:
        """Compact now. Returns `Compacted`, `Nothing`, `Refused` or `Failed`; a repeat with the same `request_id` the first result."""
        return summarizing.compact(self, summarizer, maybe(text, request_id, "request id", 1))

    def maybe_compact(self, summarizer: Summarizer | None = None) -> Outcome:
        """Compact if the view is above the policy's trigger. Above the ceiling, spill what could not be summarised."""
        return summarizing.maybe_compact(self, summarizer)

    def spill(self, ids: Iterable[str]) -> str:
        """Put these turns aside byte-exact; returns the handle for `expand`, once they were read back (R53)."""
        return spilling.spill(self, texts(ids, "turn id"))

    def note_eviction(self, ids: Iterable[str], by: str) -> int:
        """Record that a host dropped these turns from what it shows. Returns the seq. The floor rule will know."""
        return spilling.note_eviction(self, texts(ids, "turn id"), text(by, "host", 0))

    def close_calls(self, ids: Iterable[str] | None = None) -> list[Turn]:
        """Append, for calls that will never be answered, results that say their outcome is unknown. Returns those turns."""
        closed = spilling.close_calls(self, None if ids is None else texts(ids, "call id"))
        if closed:
            self._keep_house()
        return closed

    def pin(self, what: Turn | str) -> str:
        """Keep a turn (a `Turn`, or its id) or a text verbatim in the view through every compaction. Returns the pin's id."""
        return pins.pin(self, what)

    def unpin(self, pin: Turn | str) -> None:
        """Lift a pin (its id, its turn, or its text). Raises `Refused` for an unknown one."""
        pins.unpin(self, pin)

    # --- back and forth ----------------------------------------------------------------------------------------------

    def checkpoint(self, label: str = "") -> Checkpoint:
        """Materialise the fold as data. Raises `CompactionLineageError` while a compaction is in flight (R63)."""
        return travel.checkpoint(self, text(label, "label", least=0))

    def checkpoints(self) -> list[Checkpoint]:
        """The retained checkpoints, newest first."""
        return travel.checkpoints(self)

    def recover(self) -> Recovery:
        """Come back after a fault: restore a checkpoint only if it is newer than the last lossy compaction, else replay (000)."""
        return travel.recover(self)

    def rollback(self, target: Checkpoint | int | str, dry_run: bool = False, expected_head: int | None = None) -> Rollback:
        """Go back on purpose to a checkpoint (or its id or label) or a seq. Raises `UnsafeRollbackError` (003).

        A dry run returns the same plan, with what stands in the way in `refused`. With `expected_head` newer work is a `Conflict`.
        """
        return travel.rollback(self, target, dry_run, maybe(count, expected_head, "head"))

    def fork(self, name: str, at: Checkpoint | int | str | None = None) -> Session:
        """A new session that begins as this one is (or was at `at`). Raises `Refused` if the name is taken."""
        forking.fork(self, text(name, "session name"), at)
        return self.sibling(name)

    # --- effects -----------------------------------------------------------------------------------------------------

    def effect(
        self,
        tool: str,
        args: Any = None,
        key: str | Callable[[dict[str, Any]], str] | None = None,
        idempotent: bool = False,
        call: str | None = None,
    ) -> Effect:
        """Something done to the world: a context manager (sync or async), or a decorator for a function that does it.

        `key` identifies the effect; without one it is the emission (`call`: the tool call's id, else the open call with
        this tool and these arguments). Entering raises `UnsafeEffectError` (busy, unknown) or `KeyConflict` (R47-R50).
        """
        return Effect(self, tool, args, key, idempotent, call)

    def resolve_effect(self, key: str, finding: str, note: str = "") -> LedgerRow:
        """Record what was found out about an effect: "happened", "not_happened" or "compensated"."""
        return effects.resolve(self, text(key, "key", 0), finding, text(note, "note", 0))

    def ledger(self, key: str | None = None) -> list[LedgerRow]:
        """Every effect of this log, oldest first; with `key` that one alone (or none), found without reading the log."""
        return effects.ledger(self, maybe(text, key, "key", 0))

    # --- recall ------------------------------------------------------------------------------------------------------

    def expand(self, handle: str) -> list[Turn]:
        """The exact turns behind a handle (`g4`, `t:ID`) or a turn's id. Raises `Refused` if they are no longer retained."""
        return recall.expand(self, text(handle, "handle", 0))

    def search(self, query: str, limit: int = 10) -> list[Hit]:
        """The retained turns that fit the words of `query` best."""
        return recall.search(self, text(query, "query", 0), count(limit, "limit"))

    # --- keeping house -----------------------------------------------------------------------------------------------

    def verify(self) -> verification.Reports:
        """Read everything again and say what it is worth. Sets the latch on damage, lifts it when clean (R6)."""
        reports = verification.verify(self.engine, self.name, self.clock, self.anchor)
        self.log.latch(f"{reports[0].verdict.name}: {reports[0].detail}" if reports.damaged else None)
        return reports

    def prune(
        self,
        before: int | None = None,
        keep_checkpoints: int | None = None,
        dry_run: bool = False,
        older_than: float | None = None,
        keep_entries: int | None = None,
        max_bytes: int | None = None,
    ) -> Pruned:
        """Drop raw entries that nothing reachable needs; alone, all of them. `dry_run` says what would go.

        Only entries below seq `before`; recorded more than `older_than` seconds ago; but for the newest `keep_entries`; the
        oldest until bodies of `max_bytes` bytes are retained. Of several the most careful holds.
        """
        since = None if older_than is None else self.clock.wall() - seconds(older_than, "age")
        sizes = maybe(count, keep_entries, "count"), maybe(count, max_bytes, "size")
        bound = Bound(maybe(count, before, "seq", 1), since, *sizes)
        return removal.prune(self, bound, maybe(count, keep_checkpoints, "count"), dry_run)

    def pack(self, before: int | None = None, dry_run: bool = False, progress: Callable[[int, int], None] | None = None) -> Packed:
        """Compress the content of entries that the view shows no more (or of all below seq `before`); every read goes on as before.

        `progress` is told entries packed and in all. Raises `Unavailable` without the extra `pack`, `Refused` while another packs.
        """
        return packing.pack(self, maybe(count, before, "seq", 1), dry_run, progress)

    def purge(self, ids: Iterable[str], dry_run: bool = False) -> Purged:
        """Erase the content of these turns everywhere, for good; returns the receipt."""
        return removal.purge(self, texts(ids, "turn id"), dry_run)

    def finish_removal(self) -> int:
        """Go on with a prune or purge that a crash left open. Called by `recover`, `prune` and `purge`."""
        return removal.finish(self)

    # --- what hosts keep ---------------------------------------------------------------------------------------------

    def keep(self, space: str, group: str, records: Sequence[Record], after: int | None = None, once: bool = False) -> list[int]:
        """Keep records of a host in the log, all or none, in no view; durable on return. Returns their seqs.

        `space` is the host's name. With `after` raises `Conflict` unless the newest record of the group stands at that seq
        (0: there is none). With `once` a record whose key the group has is not written again: its seq is returned. What a
        record `says` becomes a turn with it, idempotent as in `append`; a result without its call is taken as a late one.
        """
        seqs = hosting.keep(self, text(space, "space"), text(group, "group"), records, maybe(count, after, "seq"), once)
        if any(record.says for record in records):
            self._keep_house()
        return seqs

    def kept(self, space: str, group: str | None = None, key: str | None = None, limit: int | None = None) -> list[Kept]:
        """A group's records (those with this key), newest first, without the released ones. Raises `Corrupt` where one is missing.

        Without a group those of all groups, by a scan.
        """
        group, key = maybe(text, group, "group", 1), maybe(text, key, "key", 1)
        return hosting.kept(self, text(space, "space"), group, key, maybe(count, limit, "limit", 1))

    def kept_at(self, seqs: Iterable[int]) -> list[Kept]:
        """The records at these seqs, in that order, released or not. Raises `Corrupt` where one is missing."""
        return hosting.kept_at(self, [count(seq, "seq", 1) for seq in seqs])

    def release(self, space: str, seqs: Iterable[int]) -> None:
        """Let go of a host's records: they are found no more, and a prune may take their rows."""
        hosting.release(self, text(space, "space"), [count(seq, "seq", 1) for seq in seqs])

    def restorable(self, seq: int, name: str = "") -> Verdict:
        """Whether a host may go back to a state that it kept at `seq` (called `name`): the rule of recovery (000), unasked."""
        return travel.restorable(self, count(seq, "seq"), text(name, "name", 0))

    # --- for the rooms behind ----------------------------------------------------------------------------------------

    def read_turns(self, lineage: Lineage, ranges: Iterable[Range]) -> list[Turn]:
        return recall.read_turns(self, lineage, ranges)

    def sibling(self, name: str) -> Session:
        """Another session of the same store, with this one's policy and parts."""
        return Session(self.store, name, self.policy, self.summarizer, self.counter, self.redact, self.before_commit)
