"""Shipped with the package, for whoever writes an engine or tests an agent against a store that fails.

`EngineTests` and `DurableEngineTests` are the conformance suite of the engine port; `FaultyEngine` fails or kills at
any call, or lies about it; `FaultyDisk` fails, tears, fills up or loses its power under SQLite at any operation;
`JumpingClock` is set by hand.
"""

from lineal.testing.clock import JumpingClock
from lineal.testing.disk import FaultyDisk
from lineal.testing.durable import DurableEngineTests
from lineal.testing.engine import EngineTests
from lineal.testing.faults import FaultyEngine

__all__ = ["DurableEngineTests", "EngineTests", "FaultyDisk", "FaultyEngine", "JumpingClock"]
