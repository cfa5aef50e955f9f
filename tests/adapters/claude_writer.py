"""A process that mirrors a transcript: run by `test_claude_agent.py`, one JSON order a life.

    {"store": PATH, "who": NAME, "batches": N, "change": N, "when": "before" or "after"}

Each life is a child of this process, forked once everything is imported: it hands over its batches, each line under a uuid,
a title without one, and a compaction in the middle; it says "N" in the file STORE.WHO.acknowledged behind each. It is killed
with SIGKILL at its N-th change of the store (0: never). The answer is the signal that ended it, or 0.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from claude_life import Killed

from lineal.adapters.claude_agent import LinealSessionStore
from lineal.engines.sqlite import SqliteEngine
from lineal.store import Store

KEY: Any = {"project_key": "post", "session_id": "s1"}


def batch(who: str, n: int) -> list[Any]:
    """Line by line what the host writes in its n-th turn; the third begins with a compaction."""
    at = f"{who}-{n}"
    lines: list[Any] = [
        {"type": "user", "uuid": f"{at}-u", "parentUuid": None, "message": {"role": "user", "content": f"deliver {at}"}},
        {
            "type": "assistant",
            "uuid": f"{at}-a",
            "parentUuid": f"{at}-u",
            "message": {"role": "assistant", "id": f"m-{at}", "content": [{"type": "text", "text": f"{at} was delivered"}]},
        },
        {"type": "custom-title", "customTitle": at},
    ]
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": f"{at}-b", "compactMetadata": {"trigger": "auto"}}
    return [boundary, *lines] if n == 2 else lines


def life(order: dict[str, Any]) -> None:
    engine = Killed(SqliteEngine.open(order["store"]), order.get("change", 0), order.get("when", "before"))
    store = Store(engine)
    sessions = LinealSessionStore(store)
    for n in range(order["batches"]):
        asyncio.run(sessions.append(KEY, batch(order["who"], n)))
        with open(f"{order['store']}.{order['who']}.acknowledged", "a") as acknowledged:
            acknowledged.write(f"{n}\n")
    store.close()


def main() -> None:
    for line in sys.stdin:
        children = []
        for order in json.loads(line):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    life(order)
                    status = 0
                finally:
                    sys.stderr.flush()
                    os._exit(status)
            children.append(child)
        ended = [os.waitpid(child, 0)[1] for child in children]
        print(json.dumps([os.WTERMSIG(end) if os.WIFSIGNALED(end) else -os.WEXITSTATUS(end) for end in ended]), flush=True)


if __name__ == "__main__":
    main()
