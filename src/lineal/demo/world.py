"""The world outside the store: a file to which each effect appends one line when it is really done.

It knows nothing of lineal. Counting its lines is the only way to see how often something was done.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from lineal.errors import Refused, Unavailable, Verdict

MAKER = "lineal demo"


class World:
    """The file `NAME.world.jsonl` beside the store `NAME.db`."""

    def __init__(self, store: Path):
        self.path = store.with_name(f"{store.stem}.world.jsonl")

    def touch(self, key: str, tool: str, arguments: Any) -> None:
        """Do it: one line, on the disk when this returns."""
        line = {"by": MAKER, "process": os.getpid(), "key": key, "tool": tool, "arguments": arguments}
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(file, json.dumps(line).encode() + b"\n")
            os.fsync(file)
        finally:
            os.close(file)

    def times(self) -> Counter[str]:
        """How often each effect was really done, by key."""
        return Counter(line["key"] for line in self._lines())

    def _lines(self) -> list[dict[str, Any]]:
        try:
            text = self.path.read_text()
        except FileNotFoundError:
            return []
        except OSError as e:
            raise Unavailable(f"the world file {self.path}", e, "make it readable, or name another store") from e
        return [json.loads(line) for line in text.splitlines()]

    def clear(self) -> None:
        """Remove the file of an earlier demo. Raises `Refused` for a file that is none."""
        try:
            ours = all(line.get("by") == MAKER for line in self._lines())
        except (ValueError, AttributeError):
            ours = False
        if not ours:
            raise Refused(
                Verdict(
                    "demo",
                    "not_ours",
                    message=f"{str(self.path)!r} exists and was not written by the demo; it was left as it is.",
                    remedy="name another store: the world file lies beside it",
                )
            )
        self.path.unlink(missing_ok=True)
