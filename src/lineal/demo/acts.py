"""The demo's story: three kills, a rollback, the counts. It runs in the parent; the agent is another process."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lineal.demo.agent import MARK, SESSION, open_session, open_store
from lineal.demo.axis import axis, note, tail
from lineal.demo.killing import Command, Run, Told
from lineal.demo.killing import run as run_agent
from lineal.demo.report import DemoReport, Seen, count, counted, table
from lineal.demo.script import Script
from lineal.demo.world import World
from lineal.errors import LinealError, Refused, Unavailable, UnsafeRollbackError, Verdict
from lineal.rules.rollback import Checkpoint
from lineal.session import Session

WIDTH = 118
TAIL = 3  # entries that are shown before a kill
TITLES = {
    "compaction": "between a compaction's begun and committed",
    "effect": "between an effect's intent and its outcome, after the world had moved",
    "append": "in the middle of an append, its commit half written",
}


class Stage:
    """One demo: the script, the store between two lives of the agent, and what is seen."""

    def __init__(self, script: Script, command: Command, out: Callable[[str], None]):
        self.script, self.command, self._out = script, command, out
        self.store: Path = command.store
        self.world = World(self.store)
        self.seen = Seen()
        self.acts = 0

    def play(self) -> DemoReport:
        self.introduce()
        pending = list(TITLES)
        while pending:
            run = run_agent(self.command, pending, self.hear)
            if run.stopped is None:
                raise Unavailable(
                    f"the demo with {str(self.script.path)!r}",
                    f"the agent came to its end without standing at: {', '.join(pending)}",
                    "name a longer transcript: this one gives nothing to compact",
                )
            pending.remove(run.stopped["at"])
            self.after_kill(run, run.stopped)
        self.finish_run("the agent, started again, came to its end")
        self.go_back()
        return self.close()

    # --- talking -----------------------------------------------------------------------------------------------------

    def out(self, line: str) -> None:
        """Transcripts hold anything; a terminal is shown only what it can print."""
        self._out(line if line.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line))

    def title(self, text: str) -> None:
        self.acts += 1
        self.out("")
        self.out(f"{self.acts}. {text}")

    def say(self, what: str, text: str) -> None:
        for n, line in enumerate(textwrap.wrap(text, WIDTH - 14, break_on_hyphens=False)):
            self.out(f"  {what if n == 0 else '':<12}{line}")

    def show(self, what: str, line: str) -> None:
        """One line as it is, cut where it is too long."""
        self.out(f"  {what:<12}{line if len(line) <= WIDTH - 14 else line[: WIDTH - 15] + '…'}")

    def hear(self, told: Told) -> None:
        """What the agent tells about effects that it did not do again."""
        if told["at"] == "answered":
            self.seen.answered.add(told["key"])
        if told["at"] == "refused" and told["key"] == self.script.victim:
            self.say("refused", f"the agent, started again, asks for it once more: {told['text']}")

    def show_tail(self, session: Session, size: int) -> None:
        for seq, text in tail(session, size):
            self.show(f"seq {seq}", text)

    def introduce(self) -> None:
        s, p = self.script, self.script.policy
        left_out = ", ".join(f"{why} ({n})" for why, n in s.passed_over.items())
        own = " (the transcript has none; this one is the demo's own)" if s.own_effect else ""
        self.out("lineal demo: an agent works through a transcript, is killed three times, and goes back once")
        self.say("transcript", f"{s.path.name} ({s.format}, {s.name}): {len(s.steps)} of {s.whole} records, {s.tokens:,} tokens")
        if left_out:
            self.say("left out", left_out)
        self.say("budget", f"compact above {p.trigger:,} tokens to {p.target:,}, ceiling {p.ceiling:,}, floor {p.floor_turns} turns, "
                 f"a checkpoint every {p.checkpoint_every_entries} entries")  # fmt: skip
        self.say("world", f"{len(s.effects)} calls change it{own}; each that is really done appends a line to {self.world.path.name}")
        self.say("store", f"{self.store}, session {SESSION!r}")

    # --- between two lives -------------------------------------------------------------------------------------------

    @contextmanager
    def session(self) -> Iterator[Session]:
        with open_store(self.store) as store:
            yield open_session(store, self.script)

    def after_kill(self, run: Run, stopped: Told) -> None:
        """Reopen, show the tail, recover, verify."""
        self.title(f"Killed {TITLES[stopped['at']]} (process {run.pid}, SIGKILL, return code {run.returncode})")
        with self.session() as session:
            self.show_tail(session, TAIL)
            self.seen.kills.append(session.status().head)
            facts = {"compaction": self.torn_compaction, "effect": self.torn_effect, "append": self.torn_append}[stopped["at"]]
            facts(session, stopped)
            head = session.status().head
            recovery = session.recover()
            self.say("recover", f"{recovery.target}, seq {recovery.seq}: {recovery.why}")
            self.show_tail(session, session.status().head - head)
            if stopped["at"] == "compaction":
                self.seen.check("an interrupted compaction changed nothing", recovery.aborted == stopped["generation"])
            verdict = session.verify()
            self.seen.verdicts.append(verdict[0].verdict.name)
            self.seen.check("verified clean after each kill", verdict.clean)
            self.say("verify", f"{verdict[0].verdict.name}, head at seq {session.status().head}")

    def torn_compaction(self, session: Session, stopped: Told) -> None:
        status = session.status()
        self.say("found", f"generation {stopped['generation']} is begun and its summary of {stopped['turns']} turns never came; "
                 f"generation {status.generation} is the truth")  # fmt: skip
        self.seen.check("an interrupted compaction changed nothing", status.in_flight == stopped["generation"] > status.generation)

    def torn_effect(self, session: Session, stopped: Told) -> None:
        times = self.world.times()[stopped["key"]]
        row = next(r for r in session.ledger() if r.key == stopped["key"])
        self.say(
            "found",
            f"the ledger has {row.tool} (key {row.key}, seq {row.seq}) as {row.state}; the world has {counted(times, 'line')} for it",
        )
        self.seen.check("an interrupted effect is unknown, not forgotten", row.state == "unknown" and times == 1)

    def torn_append(self, session: Session, stopped: Told) -> None:
        ids = stopped["ids"]
        there = {t.id for t in session.turns()} & set(ids)
        self.say("found", f"{stopped['written']:,} bytes of the commit were in the -wal file; "
                 f"{len(there)} of its {len(ids)} turns are in the log")  # fmt: skip
        self.seen.check("an append is whole or absent", len(there) in (0, len(ids)))

    def finish_run(self, what: str) -> Run:
        """Let the agent work to its end; the store that is found then must be the one that it left."""
        run = run_agent(self.command, (), self.hear)
        end = run.told[-1]
        with self.session() as session:
            status = session.status()
            self.say("end", f"{what}: process {run.pid}, head at seq {status.head}, view {status.tokens:,} tokens")
            self.seen.check("reopened view equals live view", (status.digest, status.tokens) == (end["digest"], end["tokens"]))
        return run

    # --- going back --------------------------------------------------------------------------------------------------

    def go_back(self) -> None:
        with self.session() as session:
            row = next(r for r in session.ledger() if r.key == self.script.victim)
            target = self.target(session, row.seq)
            self.title(f"Rollback over the unknown effect: {row.tool}, seq {row.seq}")
            self.say("target", f"checkpoint {target.checkpoint_id} at seq {target.seq}, the newest before it")
            self.refused(session, target)
            self.resolve(session, target)
            done = session.rollback(target)
            self.say("rollback", f"allowed: the view is again that of seq {done.target}, the new head is seq {done.seq}, "
                     f"{len(done.left_behind)} turns left behind")  # fmt: skip
            self.say("guarded", ", ".join(done.guarded) or "nothing else was done since")
            for line in note(session, row.key):
                self.show("view", line)
            before = self.world.times()
        answered = len(self.seen.answered)
        self.finish_run("the agent, started once more, went on from there")
        with self.session() as session:
            row = next(r for r in session.ledger() if r.key == self.script.victim)
            again = len(self.seen.answered) - answered
            self.say("ledger", f"it came to {row.tool} again, and the ledger answered: {row.state} ({counted(again, 'effect')} in all); "
                     f"the world has {counted(self.world.times()[row.key], 'line')} for it")  # fmt: skip
        held = self.script.victim in self.seen.answered and row.state == "done" and self.world.times() == before
        self.seen.check("after going back the world did not move again", held)

    def target(self, session: Session, seq: int) -> Checkpoint:
        return next(c for c in session.checkpoints() if c.seq < seq and session.log.lineage.on_branch(c.seq))

    def refused(self, session: Session, target: Checkpoint) -> None:
        """A dry run and a real one: both refuse, and nothing is written."""
        head = session.status().head
        plan = session.rollback(target, dry_run=True)
        self.say("dry run", f"refused; in the way: {', '.join(plan.refused)}")
        try:
            session.rollback(target)
            refusal = None
        except UnsafeRollbackError as error:
            refusal = error
        self.say("rollback", str(refusal or "was allowed"))
        named = () if refusal is None else tuple(refusal.facts["refused"])
        held = self.script.victim in named == plan.refused and not plan.verdict and session.status().head == head
        self.seen.check("no rollback over an unknown effect", held)

    def resolve(self, session: Session, target: Checkpoint) -> None:
        """The operator looks at the world, and says what was found."""
        times = self.world.times()
        for key in session.rollback(target, dry_run=True).refused:
            finding = "happened" if times[key] else "not_happened"
            session.resolve_effect(key, finding, f"{self.world.path.name} has {counted(times[key], 'line')} for it")
            self.say("operator", f"looked into {self.world.path.name}, found {counted(times[key], 'line')}: resolve {key} as {finding}")

    # --- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> DemoReport:
        with self.session() as session:
            report = count(session, self.script, self.store, self.world, self.seen)
            self.title("What the store holds")
            for line in (*axis(session, self.seen.kills, WIDTH - 22), *table(report)):
                self.out(line)
        self.out("")
        self.out(f"{'ok' if report.ok else 'NOT OK'}. The store stays; look into it:")
        for verb in ("log FILE", "context FILE", "recover FILE --explain", "ledger FILE"):
            self.out(f"  lineal {verb.replace('FILE', str(self.store))}")
        return report


# --- before the curtain ----------------------------------------------------------------------------------------------


def make_way(store: Path) -> None:
    """An empty store instead of an earlier demo's, and no world yet. Raises `Refused` for a file that the demo did not make."""
    try:
        empty = not store.exists() or (store.is_file() and not store.stat().st_size)
    except (OSError, ValueError) as e:  # a text that no path can be is a ValueError
        raise Unavailable(f"store {str(store)!r}", e, "name a place that can be written") from e
    ours = not empty and _ours(store)
    if not empty and not ours:
        raise Refused(
            Verdict(
                "demo",
                "not_ours",
                message=f"{str(store)!r} exists and is not a store that the demo made; it was left as it is.",
                remedy="name another file",
            )
        )
    World(store).clear()
    if ours:
        for end in ("", "-wal", "-shm"):
            store.with_name(store.name + end).unlink(missing_ok=True)
    open_store(store, create=True).close()


def _ours(store: Path) -> bool:
    try:
        with open_store(store) as found:
            return found.sessions() == [SESSION] and any(c.label == MARK for c in found.session(SESSION).checkpoints())
    except LinealError:
        return False
