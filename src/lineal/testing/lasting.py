"""A store in memory that outlives its closing, as a file does: for tests that open one store many times."""

from __future__ import annotations

from lineal.engines.memory import MemoryEngine


class Lasting(MemoryEngine):
    """Closed, it holds what it held. Whoever has it open again sees what was acknowledged, and nothing of what was not."""

    def close(self) -> None:
        return
