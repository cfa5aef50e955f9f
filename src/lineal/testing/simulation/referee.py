"""The referee sees every row that an engine takes, from whom it comes, and what callers were told. It complains at once.

It knows what no process of the simulation knows: who is alive, what stands on the disk, what was done to the world.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lineal import codec
from lineal.anchors import ANCHORS_MAX
from lineal.engines import Engine, Row
from lineal.entries import (
    Anchor,
    CheckpointTaken,
    CompactionAborted,
    CompactionBegun,
    CompactionCommitted,
    EffectIntended,
    EffectResolved,
    EffectSettled,
    Entry,
    Forked,
    Lease,
    PackAborted,
    PackBegun,
    PackCommitted,
    PackFinished,
    PruneBegun,
    PruneFinished,
    PurgeBegun,
    PurgeFinished,
    RolledBack,
    Segment,
    Suspended,
    Turn,
)
from lineal.policy import Policy
from lineal.session.log import Log
from lineal.testing.model import Model
from lineal.testing.simulation.machines import Process, Universe
from lineal.testing.simulation.port import Who
from lineal.testing.simulation.world import Sent, World

Kind = Literal["torn", "lost", "broken"]
GONE = "its holder is gone"


@dataclass(frozen=True)
class Complaint:
    kind: Kind
    what: str


@dataclass
class Watched:
    """What the referee keeps of one session."""

    model: Model
    log: Log
    flight: CompactionBegun | None = None
    overtaken: list[Lease] = field(default_factory=list)  # leases of compactions that others closed
    generation: int = 0
    anchors: tuple[Anchor, ...] = ()
    barriers: list[int] = field(default_factory=list)  # seqs of lossy commits and rollbacks: nothing below them is restored
    holes: list[tuple[int, int]] = field(default_factory=list)
    erased: set[int] = field(default_factory=set)
    packed: set[int] = field(default_factory=set)  # rows whose content may go, for a segment has it; and segments
    removing: Process | None = None


@dataclass(frozen=True)
class Acknowledged:
    who: str
    session: str
    turn: Turn


class Referee:
    """`tell(who, text)` writes the story; `engine` is the bare one."""

    def __init__(self, universe: Universe, engine: Engine, policy: Policy, tell: Callable[[str, str], None]):
        self.universe, self.engine, self.policy, self.tell = universe, engine, policy, tell
        self.world = World()
        self.sessions: dict[str, Watched] = {}
        self.acks: list[Acknowledged] = []
        self.complaints: list[Complaint] = []
        self.states: Counter[str] = Counter()
        self._raced: set[tuple[str, str]] = set()
        self._heads: dict[tuple[str, str], int] = {}  # of each session, when somebody's verb began

    def complain(self, kind: Kind, what: str) -> None:
        if Complaint(kind, what) not in self.complaints:
            self.complaints.append(Complaint(kind, what))
            self.tell("referee", f"!! {kind}: {what}")

    def reached(self, state: str) -> None:
        self.states[state] += 1

    # --- what callers are told ---------------------------------------------------------------------------------------

    def acknowledged(self, who: Who, session: str, turns: Sequence[Turn]) -> None:
        """In the order in which somebody says things they stand; what stood before this verb began stands where it stood."""
        known = {a.turn.seq for a in self.acks if a.who == who.name and a.session == session}
        before = self._heads.get((who.name, session), 0)
        for turn in turns:
            if turn.seq in known:
                continue
            if before < turn.seq < max(known, default=0):
                self.complain("broken", f"{who.name} said {turn.id!r} after what stands at seq {max(known)}, it stands at {turn.seq}")
            known.add(turn.seq)
            self.acks.append(Acknowledged(who.name, session, turn))

    def sent(self, who: Who, now: Sent) -> None:
        self.tell(who.name, f"   the world: {now.meant} is done, as {now.key} attempt {now.attempt}")
        intent = self.world.intent(now.session, now.key, now.attempt)
        if intent and any(seq > intent.seq for seq in self.world.not_happened[now.session, now.key]):
            self.reached("effect sent after it was resolved as not happened")
        for sentence in self.world.send(now, self.policy.on_lookalike == "ask"):
            self.complain("broken", sentence)

    # --- what the engine did -----------------------------------------------------------------------------------------

    def begins(self, who: Who) -> None:
        """Another verb begins: lost races of the one before are over."""
        self._heads.update({(who.name, name): watched.model.head for name, watched in self.sessions.items()})
        self._raced = {(other, session) for other, session in self._raced if other != who.name}

    def lost_a_race(self, who: Who, session: str) -> None:
        self.reached("conflict")
        self._raced.add((who.name, session))

    def dropped(self, who: Who, session: str, seqs: Sequence[int]) -> None:
        """Rows may be dropped only where the log says so first (R54)."""
        watched = self.sessions[session]
        bare = [s for s in seqs if s not in watched.erased | watched.packed and not any(a <= s <= b for a, b in watched.holes)]
        if bare:
            self.complain("lost", f"{who.name} drops rows {bare} of {session!r}, and no prune or purge says so")

    def wrote(self, who: Who, session: str, rows: Sequence[Row]) -> None:
        self.tell(who.name, f"   {session}: {_told(rows)}")
        if (who.name, session) in self._raced:
            self.reached("append retried after conflict" if rows[0].kind == "turn" else "decision asked again after conflict")
        entries = [(row.seq, codec.decode(row.body, session, row.seq)) for row in rows if row.body]
        if session not in self.sessions:
            entries = self._born(session, rows, entries)
        watched = self.sessions[session]
        assert who.process is not None
        for seq, entry in entries:
            self._take(watched, who.process, session, seq, entry)
        watched.model.read(watched.log, self.policy.floor_turns)
        for sentence in watched.model.wrong:
            self.complain("broken", f"{session}: {sentence}")

    def _born(self, session: str, rows: Sequence[Row], entries: list[tuple[int, Entry]]) -> list[tuple[int, Entry]]:
        """A session that begins; of a fork the rows that are its parent's are copies. Returns what is its own."""
        log = Log(self.engine, session, self.universe.machines[0], read_ahead=False)
        start = next((n for n, (_, e) in reversed([*enumerate(entries)]) if isinstance(e, Forked) and e.parent in self.sessions), None)
        if start is None or rows[0].seq != 1:
            self.sessions[session] = Watched(Model(), log)
            return entries
        fork = entries[start][1]
        assert isinstance(fork, Forked)
        parent = self.sessions[fork.parent]
        self.reached("fork" if fork.fork_at >= parent.model.head - 1 else "fork at an older seq")
        self.sessions[session] = watched = Watched(parent.model.forked(fork.fork_at), log)
        watched.erased = {int(seq) for seq in fork.stand_ins}
        for seq, entry in entries:
            if isinstance(entry, EffectIntended):
                self.world.intended(session, seq, entry)
            elif isinstance(entry, EffectResolved) and entry.finding == "not_happened":
                self.world.not_happened[session, entry.key].append(seq)
            elif isinstance(entry, CompactionCommitted):
                watched.generation = entry.generation
        self.world.forked(fork.parent, session)
        return []

    def _take(self, watched: Watched, writer: Process, session: str, seq: int, e: Entry) -> None:
        match e:
            case CompactionBegun():
                self._begun(watched, writer, e)
            case CompactionCommitted():
                self._committed(watched, writer, session, seq, e)
            case CompactionAborted():
                self._aborted(watched, writer, session, seq, e)
            case CheckpointTaken() if watched.flight is not None:
                self.complain("broken", f"{session}: a checkpoint at seq {seq} while generation {watched.flight.generation} is open (R63)")
            case RolledBack():
                watched.flight, watched.anchors = None, ()
                watched.barriers.append(seq)
                self.reached("rollback guarded" if e.guarded else "rollback allowed")
            case EffectIntended():
                self.reached("effect sent again" if self.world.intents[session, e.key] else "effect intended")
                self.world.intended(session, seq, e)
            case EffectSettled():
                self._settled(writer, session, seq, e)
            case EffectResolved():
                self.reached(f"effect resolved: {e.finding}")
                if e.finding == "not_happened":
                    self.world.not_happened[session, e.key].append(seq)
            case PruneBegun():
                watched.holes += [(run.first, run.last) for run in e.runs]
                watched.packed |= {*e.segments}
                watched.removing = writer
                self.reached("prune")
            case PurgeBegun():
                watched.erased |= {int(seq) for seq in e.stand_ins}
                watched.packed |= {*e.segments}
                watched.flight, watched.anchors, watched.removing = None, (), writer
                self.reached("purge")
            case PackBegun():
                watched.removing = writer
                self.reached("pack")
            case Segment():
                watched.packed.add(seq)  # a leftover if it comes to nothing; later ones may take its place
            case PackCommitted():
                watched.packed |= {s for piece in e.segments for a, b in piece.runs for s in range(a, b + 1)}
                self.reached("pack committed")
            case PackAborted():
                self.reached("pack aborted")
            case PackFinished() if watched.removing is not writer:
                self.reached("pack resumed")
            case PruneFinished() | PurgeFinished():
                if watched.removing is not writer:
                    self.reached("prune resumed" if isinstance(e, PruneFinished) else "purge resumed")
            case Suspended():
                self.reached("suspended")

    # --- compactions -------------------------------------------------------------------------------------------------

    def _begun(self, watched: Watched, writer: Process, e: CompactionBegun) -> None:
        watched.flight = e
        self.reached("compaction begun")
        if any(self.universe.of(lease).alive and self.universe.of(lease) is not writer for lease in watched.overtaken):
            self.reached("lease taken over from one that lives")

    def _committed(self, watched: Watched, writer: Process, session: str, seq: int, e: CompactionCommitted) -> None:
        flight, watched.flight = watched.flight, None
        self.reached("compaction committed" if e.lossy else "spilled")
        if e.generation <= watched.generation:
            self.complain("broken", f"{session}: generation {e.generation} at seq {seq} is committed after {watched.generation}")
        watched.generation = e.generation
        if not e.lossy:
            return
        self._carried(watched, session, seq, e)
        watched.barriers.append(seq)
        if flight is None or (flight.generation, flight.request_id) != (e.generation, e.request_id):
            self.complain("broken", f"{session}: generation {e.generation} is committed at seq {seq} and is not the one in flight (R32)")
        elif self.universe.of(flight.lease) is not writer:
            self.complain("broken", f"{session}: generation {e.generation} is committed at seq {seq} by one who does not hold it (R33)")

    def _carried(self, watched: Watched, session: str, seq: int, e: CompactionCommitted) -> None:
        """What users said exactly is carried as data (R18); only where no more fits may a plain number go."""
        full = len(e.anchors) >= ANCHORS_MAX
        lost = [a.value for a in watched.anchors if a.author == "user" and a not in e.anchors and not (full and a.kind == "number")]
        if lost:
            self.complain("lost", f"{session}: generation {e.generation} at seq {seq} does not carry {lost} (R18)")
        watched.anchors = e.anchors

    def _aborted(self, watched: Watched, writer: Process, session: str, seq: int, e: CompactionAborted) -> None:
        flight = watched.flight
        if flight is None or flight.generation != e.generation:
            self.complain("broken", f"{session}: generation {e.generation} is aborted at seq {seq} and is not in flight")
            return
        watched.flight = None
        if e.why != GONE:
            self.reached("compaction aborted")
            return
        self.reached("dead compaction aborted")
        watched.overtaken.append(flight.lease)
        if not self._may_be_taken_for_gone(writer, flight.lease, expires=True):
            self.complain(
                "broken", f"{session}: generation {e.generation} is aborted at seq {seq} though its holder lives and holds it (R33)"
            )

    def _may_be_taken_for_gone(self, writer: Process, lease: Lease, expires: bool) -> bool:
        holder = self.universe.of(lease)
        if holder is writer or not holder.alive:
            return True
        if holder.machine is writer.machine:
            return expires and writer.machine.boot() >= lease.boot_deadline
        return writer.machine.latest_wall() >= lease.deadline

    # --- effects -----------------------------------------------------------------------------------------------------

    def _settled(self, writer: Process, session: str, seq: int, e: EffectSettled) -> None:
        intent = self.world.intent(session, e.key, e.attempt)
        self.reached({"done": "effect done", "no_effect": "effect had no effect", "unknown": "effect unknown"}[e.state])
        if intent is None:
            self.complain("broken", f"{session}: {e.key!r} attempt {e.attempt} is settled at seq {seq} and was never intended")
            return
        holder = self.universe.with_pid(intent.pid)
        if e.state != "unknown" and holder is not writer:
            self.complain("broken", f"{session}: {e.key!r} is settled at seq {seq} by one who did not do it")
        if e.state == "unknown" and holder is not writer and holder.alive and holder.machine is writer.machine:
            self.complain("broken", f"{session}: {e.key!r} is made unknown at seq {seq} though its holder lives (R47)")


def _told(rows: Sequence[Row]) -> str:
    """The rows of one append in a few words."""
    kinds = [row.kind for row in rows]
    where = f"seq {rows[0].seq}" if len(rows) == 1 else f"seq {rows[0].seq}-{rows[-1].seq}"
    short = ", ".join(f"{kinds.count(k)} {k}" if kinds.count(k) > 1 else k for k in dict.fromkeys(kinds))
    return f"{where}: {short}"
