"""A process that mirrors a transcript: run by `test_claude_agent.py`.

A life hands over `batches` of `who`, each line under a uuid, a title without one, and a compaction in the middle; behind each it
says its number in the file STORE.WHO.acknowledged.
"""

from __future__ import annotations

import asyncio
from typing import Any

from lineal.adapters.claude_agent import LinealSessionStore
from lineal.store import Store
from lineal.testing.lives import Killed, serve

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
    store = Store(Killed.of(order))
    sessions = LinealSessionStore(store)
    for n in range(order["batches"]):
        asyncio.run(sessions.append(KEY, batch(order["who"], n)))
        with open(f"{order['store']}.{order['who']}.acknowledged", "a") as acknowledged:
            acknowledged.write(f"{n}\n")
    store.close()


if __name__ == "__main__":
    serve(life)
