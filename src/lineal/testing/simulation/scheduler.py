"""Who goes next, and what befalls them: threads with one baton, so that exactly one runs and the order is the seed's.

A strand hands the baton back at each point: before each call of the engine, before and after it moves the world, and
between verbs. Between two points nothing else happens. Faults strike at points.
"""

from __future__ import annotations

import random
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from lineal.testing.simulation.machines import Process, Universe
from lineal.testing.simulation.script import Fault

CALLS = ("append", "scan", "find", "delete", "put_state", "state", "states", "delete_states", "latch", "latched", "sessions")
FATES = {"crash before a call": "die before", "crash after a call": "die after", "crash in a removal": "die before"}
STEP, WHILE_STALLED = 0.05, 2.0  # seconds that a step takes; while somebody stalls time flies, so that leases run out
STEPS_MAX = 12_000  # a run that takes more does not come to an end
STALL_LEAST, STORM_STEPS, DOWN_STEPS = 15, 40, 6
HOUR = 3_600.0


class Died(BaseException):
    """The simulated process is dead: nothing that it still wants to do is done."""


class Strand:
    """One simulated process, and those that are started in its place when it dies, as a thread that waits for the baton."""

    def __init__(self, scheduler: Scheduler, name: str, machine: int, body: Callable[[Strand], None]):
        self.scheduler, self.name, self.machine = scheduler, name, machine
        self.state = "ready"  # ready, stalled, down, done
        self.wake = 0
        self.at = "start"
        self.fate = "go"
        self.coming: list[str] = []  # faults that strike at the next point that fits
        self.process: Process | None = None
        self._go = threading.Lock()
        self._go.acquire()
        self._body = body
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._go.acquire()
        try:
            if self.fate != "over":
                self._body(self)
        except Died:
            self.at = "end"
        except BaseException:
            self.scheduler.crashed.append(f"{self.name}: {traceback.format_exc()}")
        finally:
            self.state = "done"
            self.scheduler.hand_on(self)

    def point(self, what: str) -> str:
        """Hand the baton over and wait for it. Returns what befalls the call that follows; raises `Died`."""
        if self.process is not None and not self.process.alive:
            raise Died
        self.at = what
        self.scheduler.hand_on(self)
        if self.fate in ("over", "die before") or (self.fate == "die after" and what not in CALLS):
            self.die()
        return self.fate

    def die(self) -> None:
        if self.process is not None:
            self.process.alive = False
        raise Died

    def rest_until_restarted(self) -> None:
        """After a death: wait until the next process of this strand is to be started. Raises `Died` when the run is over."""
        self.process = None
        self.state, self.wake = "down", self.scheduler.step + DOWN_STEPS
        self.point("down")

    def stall(self, size: int) -> None:
        self.state, self.wake = "stalled", self.scheduler.step + STALL_LEAST + size // 2

    def go(self) -> None:
        self._go.release()

    def wait(self) -> None:
        self._go.acquire()

    def join(self) -> None:
        self._thread.join()


class Scheduler:
    """Says who goes next. `tell(who, text)` is called with what befalls somebody; `faults` counts what struck.

    Whoever has the baton asks for the next one, and goes on without any switch of threads if that is itself.
    """

    def __init__(self, universe: Universe, chance: random.Random, sticky: float, tell: Callable[[str, str], None]):
        self.universe, self.chance, self.sticky, self.tell = universe, chance, sticky, tell
        self.strands: list[Strand] = []
        self.faults: Counter[str] = Counter()
        self.crashed: list[str] = []
        self.step = 0
        self._over = threading.Lock()
        self._over.acquire()
        self._ending = False
        self._due: list[Fault] = []
        self._doomed: list[tuple[Strand, str]] = []
        self._after_step: Callable[[], bool] = lambda: True
        self._last: Strand | None = None
        self._storm_until = 0
        self._lurking: list[str] = []  # strikes whoever removes something next

    def run(self, faults: Sequence[Fault], after_step: Callable[[], bool]) -> None:
        """Until everybody is done, or `after_step` says that it is enough."""
        self._due, self._after_step = list(faults), after_step
        first = self._next()
        if first is not None:
            first.go()
            self._over.acquire()
        self._ending = True
        for strand in self.strands:
            while strand.state != "done":
                self._chosen(strand, "over").go()
                self._over.acquire()
            strand.join()

    def hand_on(self, mine: Strand) -> None:
        """Called by who has the baton: it comes back when it is `mine` again; never, if that one is done."""
        following = None if self._ending else self._next()
        if following is mine:
            return
        if following is None:
            self._over.release()
        else:
            following.go()
        if mine.state != "done":
            mine.wait()

    def _next(self) -> Strand | None:
        """Who goes next and what befalls it; None when the run is over."""
        if self.step and not self._after_step() or self.crashed:
            return None
        if self.step >= STEPS_MAX:
            self.crashed.append(f"after {self.step} steps the run has not come to an end")
            return None
        while self._due and self._due[0].at <= self.step:
            self._strike(self._due.pop(0))
        if self._doomed:
            return self._chosen(*self._doomed.pop(0))
        strand = self._choose()
        return strand and self._chosen(strand, self._fate(strand))

    def _chosen(self, strand: Strand, fate: str) -> Strand:
        strand.fate, strand.state = fate, "ready"
        self.universe.running = strand.process
        self._last = strand
        return strand

    # --- who is next -------------------------------------------------------------------------------------------------

    def _pass_time(self, steps: int) -> None:
        stalled = any(s.state == "stalled" for s in self.strands)
        self.step += steps
        self.universe.pass_time(steps * (WHILE_STALLED if stalled else STEP))

    def _choose(self) -> Strand | None:
        self._pass_time(1)
        waiting = [s for s in self.strands if s.state in ("stalled", "down")]
        if not any(s.state == "ready" for s in self.strands):
            if not waiting:
                return None
            self._pass_time(max(0, min(s.wake for s in waiting) - self.step))
        for strand in waiting:
            if strand.wake <= self.step:
                strand.state = "ready"
        ready = [s for s in self.strands if s.state == "ready"]
        if self.step < self._storm_until:
            ready = [s for s in ready if s.at != "append"] or ready
        elif self._last in ready and self.chance.random() < self.sticky:
            return self._last
        return self.chance.choice(ready)

    # --- what befalls them -------------------------------------------------------------------------------------------

    def _fate(self, strand: Strand) -> str:
        """The first coming fault that fits where the strand is."""
        for kind in strand.coming:
            if strand.process is not None and (kind in FATES or strand.at in CALLS):
                strand.coming.remove(kind)
                return self._struck(strand, kind)
        if self._lurking and strand.at in ("delete", "delete_states"):
            return self._struck(strand, self._lurking.pop())
        return "go"

    def _struck(self, strand: Strand, kind: str) -> str:
        self._counted(kind, strand.name, f"-- {kind}: {strand.at}")
        return FATES.get(kind, kind)

    def _strike(self, fault: Fault) -> None:
        strand = self.strands[fault.who % len(self.strands)]
        if fault.kind == "stall":
            if strand.state == "ready" and strand.process is not None:
                self._counted(fault.kind, strand.name, f"-- stalls before {strand.at}")
                strand.stall(fault.size)
        elif fault.kind == "conflict storm":
            self._counted(fault.kind, "", "-- everybody comes to append at once")
            self._storm_until = self.step + STORM_STEPS
        elif fault.kind in ("power cut", "machine restart"):
            struck = range(len(self.universe.machines)) if fault.kind == "power cut" else [fault.who % len(self.universe.machines)]
            self._counted(fault.kind, "", f"-- {fault.kind} of {', '.join(self.universe.machines[n].name for n in struck)}")
            self._cut_power(struck)
        elif fault.kind in ("clock forward", "clock back"):
            machine = self.universe.machines[fault.who % len(self.universe.machines)]
            jump = (1 if fault.kind == "clock forward" else -1) * (60.0 if fault.size % 2 else 5 * HOUR)
            self._counted(fault.kind, "", f"-- the wall clock of {machine.name} jumps by {jump:+.0f} s")
            machine.step(jump)
        elif fault.kind == "crash in a removal":
            self._lurking.append(fault.kind)
        else:
            strand.coming.append(fault.kind)

    def _counted(self, kind: str, who: str, text: str) -> None:
        self.faults[kind] += 1
        self.tell(who, text)

    def _cut_power(self, machines: Sequence[int]) -> None:
        """Every process of these machines dies before anything else happens; a call under way may still have reached the disk."""
        for strand in self.strands:
            if strand.machine in machines and strand.process is not None and strand.state in ("ready", "stalled"):
                self._doomed.append((strand, self.chance.choice(["die before", "die after"])))
        for n in machines:
            self.universe.machines[n].restart()

    @contextmanager
    def looking(self, process: Process) -> Iterator[None]:
        """Somebody outside the play looks, from where `process` stands."""
        before, self.universe.running = self.universe.running, process
        try:
            yield
        finally:
            self.universe.running = before
