"""lineal: the working memory of a long-lived agent, kept as one append-only log with one sequence.

    import lineal

    store = lineal.connect("agent.db")
    session = store.session("agent-42")
    session.append({"role": "user", "content": "..."}, id="u1")
    session.messages()

`import lineal` loads nothing but this list; each name is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lineal.aio import AsyncSession as AsyncSession
    from lineal.aio import AsyncStore as AsyncStore
    from lineal.engines import Engine as Engine
    from lineal.entries import Anchor as Anchor
    from lineal.entries import Turn as Turn
    from lineal.errors import CompactionLineageError as CompactionLineageError
    from lineal.errors import Conflict as Conflict
    from lineal.errors import Corrupt as Corrupt
    from lineal.errors import KeyConflict as KeyConflict
    from lineal.errors import LinealError as LinealError
    from lineal.errors import PolicyError as PolicyError
    from lineal.errors import Refused as Refused
    from lineal.errors import Unavailable as Unavailable
    from lineal.errors import UnrecoverableCompactionError as UnrecoverableCompactionError
    from lineal.errors import UnsafeEffectError as UnsafeEffectError
    from lineal.errors import UnsafeRollbackError as UnsafeRollbackError
    from lineal.errors import Verdict as Verdict
    from lineal.policy import Policy as Policy
    from lineal.rules.compaction import assert_compaction_safe as assert_compaction_safe
    from lineal.rules.compaction import maybe_auto_compact as maybe_auto_compact
    from lineal.rules.guard import CompactionGuard as CompactionGuard
    from lineal.rules.guard import CompactionManifest as CompactionManifest
    from lineal.rules.guard import CompactionPolicy as CompactionPolicy
    from lineal.rules.guard import CompactionState as CompactionState
    from lineal.rules.guard import CompactionVerdict as CompactionVerdict
    from lineal.rules.integrity import Report as Report
    from lineal.rules.recovery import recover as recover
    from lineal.rules.recovery import select_recovery_target as select_recovery_target
    from lineal.rules.rollback import Checkpoint as Checkpoint
    from lineal.rules.rollback import EffectLedger as EffectLedger
    from lineal.rules.rollback import authorize_rollback as authorize_rollback
    from lineal.session import Session as Session
    from lineal.session.effects import Effect as Effect
    from lineal.session.effects import NoEffect as NoEffect
    from lineal.session.outcomes import Compacted as Compacted
    from lineal.session.outcomes import Failed as Failed
    from lineal.session.outcomes import Nothing as Nothing
    from lineal.session.outcomes import Plan as Plan
    from lineal.session.outcomes import Record as Record
    from lineal.session.outcomes import Recovery as Recovery
    from lineal.session.outcomes import Rollback as Rollback
    from lineal.session.outcomes import Said as Said
    from lineal.session.outcomes import Status as Status
    from lineal.session.outcomes import View as View
    from lineal.store import Store as Store
    from lineal.store import connect as connect
    from lineal.summarizers import Summary as Summary
    from lineal.summarizers import SummaryRequest as SummaryRequest

_HOMES = {
    "aio": ("AsyncSession", "AsyncStore"),
    "engines": ("Engine",),
    "entries": ("Anchor", "Turn"),
    "errors": (
        "CompactionLineageError",
        "Conflict",
        "Corrupt",
        "KeyConflict",
        "LinealError",
        "PolicyError",
        "Refused",
        "Unavailable",
        "UnrecoverableCompactionError",
        "UnsafeEffectError",
        "UnsafeRollbackError",
        "Verdict",
    ),
    "policy": ("Policy",),
    "rules.compaction": ("assert_compaction_safe", "maybe_auto_compact"),
    "rules.guard": ("CompactionGuard", "CompactionManifest", "CompactionPolicy", "CompactionState", "CompactionVerdict"),
    "rules.integrity": ("Report",),
    "rules.recovery": ("recover", "select_recovery_target"),
    "rules.rollback": ("Checkpoint", "EffectLedger", "authorize_rollback"),
    "session": ("Session",),
    "session.effects": ("Effect", "NoEffect"),
    "session.outcomes": ("Compacted", "Failed", "Nothing", "Plan", "Record", "Recovery", "Rollback", "Said", "Status", "View"),
    "store": ("Store", "connect"),
    "summarizers": ("Summary", "SummaryRequest"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)  # pyright: ignore[reportUnsupportedDunderAll]

try:
    __version__ = version("lineal")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'lineal' has no attribute {name!r}")
    value = getattr(import_module(f"lineal.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
