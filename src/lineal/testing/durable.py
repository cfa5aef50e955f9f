"""What a durable engine owes across processes (E1, E8), on top of all that `EngineTests` asks.

The fixture `engine_url` is what `open_engine` takes, for a store that is not there yet when the test begins: the
processes of these tests find the engine by it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from lineal.engines import open_engine
from lineal.errors import Unavailable
from lineal.testing.engine import EngineTests, is_one_order, refusal, row


class DurableEngineTests(EngineTests):
    """All of `EngineTests`, and E1 and E8 with processes that are killed and processes that meet.

    A store that one process at a time may hold says `shared = False`: then a second one must be refused by name while it is
    held, and let in when it waits; processes that open, append and close in turn make one order. Nothing else changes.
    """

    shared = True

    def test_what_was_acknowledged_survives_a_kill(self, engine_url: str) -> None:
        """E1, R1: a process appends, tells each seq after it was acknowledged, and is killed; each of them is there."""
        with _process(_APPEND_FOR_EVER, engine_url) as child:
            acknowledged = [int(_line(child)) for _ in range(40)]
            child.send_signal(signal.SIGKILL)
            acknowledged += [int(line) for line in child.stdout or () if line.endswith("\n")]
        engine = open_engine(engine_url, create=False)
        found = list(engine.scan("s"))
        assert found[: 2 * len(acknowledged)] == [row(seq, b"%d" % seq) for seq in range(1, 2 * len(acknowledged) + 1)]
        assert len(found) % 2 == 0, "half of a batch was written"
        assert engine.state("s") == (acknowledged[0], b"a state")
        engine.append("s", found[-1].seq, [row(found[-1].seq + 1)])
        engine.close()

    def test_processes_that_append_at_once_make_one_order(self, engine_url: str) -> None:
        """E2, E8, R31: three processes on one session, while this one reads; nothing is lost, nothing twice."""
        if not self.shared:
            self._second_process_waits_or_is_refused(engine_url)
            return
        engine = open_engine(engine_url)
        children = [_process(_APPEND_WITH_RETRIES, engine_url, str(name)) for name in range(3)]
        longest = 0
        while any(child.poll() is None for child in children):
            seqs = [r.seq for r in engine.scan("s")]
            assert seqs == list(range(1, len(seqs) + 1)) and len(seqs) >= longest
            longest = len(seqs)
        assert [child.wait() for child in children] == [0, 0, 0]
        for child in children:
            child.communicate()
        is_one_order(engine, 3, 40)
        engine.close()

    def _second_process_waits_or_is_refused(self, engine_url: str) -> None:
        """E8 where one process holds the store: never two at once; one that waits is let in, and each sees what stood before."""
        engine = open_engine(engine_url)
        engine.append("held", 0, [row(1)])
        with _process(_OPEN_SOON, engine_url) as child:
            kind, said = _line(child).split(" ", 1)
        assert kind == "Unavailable" and str(os.getpid()) in said and "Way out" in said, f"not refused by name: {kind} {said}"
        children = [_process(_APPEND_IN_TURNS, engine_url, str(name)) for name in range(3)]
        engine.append("held", 1, [row(2)])
        assert [child.poll() for child in children] == [None, None, None]
        engine.close()
        assert [child.wait() for child in children] == [0, 0, 0]
        for child in children:
            child.communicate()
        engine = open_engine(engine_url, create=False)
        is_one_order(engine, 3, 40)
        assert [r.seq for r in engine.scan("held")] == [1, 2]
        engine.close()

    def test_a_store_that_is_not_there_is_not_made_unasked(self, engine_url: str) -> None:
        """E9: `create=False`."""
        refusal(Unavailable, lambda: open_engine(engine_url, create=False))
        refusal(Unavailable, lambda: open_engine(engine_url, create=False))


_APPEND_FOR_EVER = """
import sys
from lineal.engines import open_engine
from lineal.testing.engine import row
engine, head = open_engine(sys.argv[1]), 0
engine.put_state("s", 1, b"a state")
while True:
    engine.append("s", head, [row(seq, b"%d" % seq) for seq in (head + 1, head + 2)])
    head += 2
    print(head // 2, flush=True)
"""

_APPEND_WITH_RETRIES = """
import sys
from lineal.engines import open_engine
from lineal.testing.engine import append_with_retries
engine = open_engine(sys.argv[1])
append_with_retries(engine, "s", (b"%s %d" % (sys.argv[2].encode(), n) for n in range(40)))
engine.close()
"""

_OPEN_SOON = """
import sys
from lineal.engines import open_engine
from lineal.errors import LinealError
url = sys.argv[1]
try:
    open_engine(f"{url}{'&' if '?' in url else '?'}wait=0.1")
    print("let in", flush=True)
except LinealError as e:
    print(type(e).__name__, e, flush=True)
"""

_APPEND_IN_TURNS = """
import sys
from lineal.engines import open_engine
from lineal.testing.engine import append_with_retries
url = sys.argv[1]
url = f"{url}{'&' if '?' in url else '?'}wait=60"
for n in range(40):
    engine = open_engine(url)
    append_with_retries(engine, "s", [b"%s %d" % (sys.argv[2].encode(), n)])
    engine.close()
"""


def _process(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True)


def _line(child: subprocess.Popen[str]) -> str:
    line = child.stdout.readline() if child.stdout else ""
    assert line, f"the process ended with {child.wait()}"
    return line
