"""Shipped with the package, for whoever writes an engine or tests an agent against a store that fails.

`EngineTests` and `DurableEngineTests` are the conformance suite of the engine port; `FaultyEngine` fails or kills at
any call; `FaultyDisk` fails, tears or fills up under SQLite at any write.
"""

from lineal.testing.durable import DurableEngineTests
from lineal.testing.engine import EngineTests
from lineal.testing.faults import FaultyDisk, FaultyEngine

__all__ = ["DurableEngineTests", "EngineTests", "FaultyDisk", "FaultyEngine"]
