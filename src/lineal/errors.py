"""One root, four families. Programs read fields, never text.

| family        | means                                            | fields                              | exit |
|---------------|--------------------------------------------------|-------------------------------------|------|
| `Refused`     | a rule said no; nothing was changed              | `verdict` (rule, reason, facts, remedy) | 1 |
| `Corrupt`     | stored bytes are not what they were written as   | `session, seq, expected, found`     | 3    |
| `Conflict`    | somebody else wrote first                        | `expected_seq, found_seq`           | 4    |
| `Unavailable` | the engine cannot serve now (disk, lock, format) | `cause`                             | 5    |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Verdict:
    """A rule's answer. `reason` is the name of the table row that decided."""

    rule: str
    reason: str
    allowed: bool = False
    message: str = ""
    remedy: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.allowed

    def __str__(self) -> str:
        if self.allowed:
            return f"{self.rule}: allowed ({self.reason})"
        text = f"{self.rule} refused ({self.reason}): {self.message}"
        return f"{text} Way out: {self.remedy}" if self.remedy else text


def quoted(value: object, most: int = 80) -> str:
    """The beginning of the `repr` of something that was handed in; says only its type where it has none. Never raises."""
    try:
        return repr(value)[:most]
    except Exception:  # a nesting too deep, a number too long, a class of the caller's own
        return f"a value of type {type(value).__name__}"


class LinealError(RuntimeError):
    """Root of everything that lineal raises on purpose."""

    exit_code = 1


class Refused(LinealError):
    """A rule refused. Also the *outcome* of `compact` and `maybe_compact` when they refuse."""

    exit_code = 1

    def __init__(self, verdict: Verdict):
        RuntimeError.__init__(self, str(verdict))
        self.verdict = verdict

    @property
    def rule(self) -> str:
        return self.verdict.rule

    @property
    def reason(self) -> str:
        return self.verdict.reason

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.verdict.facts

    @property
    def remedy(self) -> str:
        return self.verdict.remedy


class PolicyError(Refused, ValueError):
    """A policy, or an argument, that cannot be meant: usage, not state."""

    exit_code = 2


class UnrecoverableCompactionError(Refused):
    """The recovery floor cannot be proven inside what the summarizer reads (record 002)."""


class CompactionLineageError(Refused):
    """A restore that does not causally follow the last committed lossy compaction (record 000)."""


class UnsafeRollbackError(Refused):
    """Going back would replay effects that nothing guards (record 003)."""


class UnsafeEffectError(Refused):
    """An effect that may not be sent now: busy, unknown, or other arguments under its key (record 003)."""


class Corrupt(LinealError):
    """Stored bytes are not what was written. Nothing is skipped: the read stops here."""

    exit_code = 3

    def __init__(self, session: str, seq: int, expected: object, found: object, what: str = "altered"):
        self.session, self.seq, self.expected, self.found, self.what = session, seq, expected, found, what
        where = f"session {session!r}, seq {seq}" if session else "store"
        super().__init__(
            f"{what}: {where}: expected {expected}, found {found}. "
            "Way out: run `lineal verify` to see the whole damage; entries before it stay readable; restore a backup or fork below it."
        )


class Conflict(LinealError):
    """The head moved, or an id is taken. `expected_seq` is what the caller knew, `found_seq` what stands."""

    exit_code = 4

    def __init__(self, session: str, expected_seq: int, found_seq: int, what: str = ""):
        self.session, self.expected_seq, self.found_seq = session, expected_seq, found_seq
        super().__init__(
            f"session {session!r}: {what or 'the head moved'} (expected seq {expected_seq}, found seq {found_seq}). "
            "Way out: read the session again and decide on what stands there now."
        )


class KeyConflict(UnsafeEffectError, Conflict):
    """An effect key that already stands for other arguments. The first entry is untouched (R49)."""

    exit_code = 4

    def __init__(self, verdict: Verdict, session: str, expected_seq: int, found_seq: int):
        Refused.__init__(self, verdict)
        self.session, self.expected_seq, self.found_seq = session, expected_seq, found_seq


class Unavailable(LinealError):
    """The engine cannot serve: disk full, read-only, locked past the deadline, or a newer format."""

    exit_code = 5

    def __init__(self, what: str, cause: object = None, remedy: str = ""):
        self.cause = cause if cause is not None else what
        text = what if cause is None else f"{what}: {cause}"
        super().__init__(f"{text}. Way out: {remedy}" if remedy else text)
