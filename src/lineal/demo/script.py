"""What the agent of the demo will do: a transcript as steps, with the calls that change the world marked.

Both processes, the one that is killed and the one that kills, read the same transcript and get the same script: where
to stand still, under which key each effect goes, and how small the budget is. Nothing here is random.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lineal import codec, messages, transcripts
from lineal.audit.history import DEFAULT
from lineal.errors import PolicyError, Verdict
from lineal.policy import Policy
from lineal.tokens import counter, measure
from lineal.transcripts import Boundary, Damage, Outcome, Record
from lineal.transcripts.openai_chat import no_conversation

COUNTER = "bytes/3"
LEAST_STEPS = 8
BATCH = 8  # steps that are appended at once, at most
SHARE = 6  # the trigger is 1/6 of what the transcript holds beside its leading instructions
ROOM = (900, 30_000)  # tokens: what that share may be
CHECKPOINTS = 12  # about so many automatic checkpoints
PINNED = 4  # a first turn of at most 1/4 of the room is pinned whole, of a longer one the beginning
ANSWER = 80  # characters of a tool's answer that are recorded as an effect's outcome

CHANGES_STATE = (*DEFAULT, "Write", "write")
PLANNING = ("update_plan", "update_todos", "create_plan", "update_topic")  # named like the others, and change nothing


@dataclass(frozen=True)
class WorldCall:
    """A tool call that changes the world. `key`: of its effect. `result`: the step that answers it, None if none does.

    `outcome`: how it ended in the transcript; a call without an answer is `unknown`. `id` is empty for the demo's own.
    """

    key: str
    id: str
    tool: str
    arguments: Any
    result: int | None = None
    outcome: Outcome = "unknown"
    answer: str = ""


@dataclass(frozen=True)
class Step:
    """One record of the transcript. `answers`: keys of effects whose outcome it tells."""

    id: str
    message: dict[str, Any]
    author: str | None
    tokens: int
    dialect: str
    calls: tuple[WorldCall, ...] = ()
    answers: tuple[str, ...] = ()
    results: int = 0


@dataclass(frozen=True)
class Script:
    """Steps, budget, and where the agent may be stopped: `victim` is an effect's key, `batch` a range of steps.

    `whole`: records in the transcript; `passed_over`: what is not replayed, by reason. `own_effect`: the demo had to add one.
    """

    path: Path
    format: str
    name: str
    steps: tuple[Step, ...]
    whole: int
    passed_over: Counter[str]
    policy: Policy
    victim: str
    batch: range
    own_effect: bool

    @property
    def tokens(self) -> int:
        return sum(s.tokens for s in self.steps)

    @property
    def effects(self) -> tuple[WorldCall, ...]:
        return tuple(c for s in self.steps for c in s.calls)

    @property
    def pinned(self) -> Step | None:
        """The step whose words the agent promises to keep."""
        return first_words(self.steps)

    @property
    def third(self) -> int:
        """Steps after which a compaction may be interrupted: there is something behind to come back to."""
        return len(self.steps) // 3


def load(path: Path, conversation: int, limit: int) -> Script:
    """The script of a transcript, of at most `limit` records. Raises `PolicyError`, or `Unavailable` for a file that cannot be read."""
    if limit < LEAST_STEPS:
        raise _unusable("limit", f"at most {limit} records were asked for, the demo needs {LEAST_STEPS}.", f"ask for {LEAST_STEPS} or more")
    format = transcripts.detect(path)
    names = transcripts.conversations(path)
    if conversation not in range(len(names)):
        raise no_conversation(path, conversation, len(names))
    items = list(transcripts.read(path, format, conversation))
    passed_over: Counter[str] = Counter()
    passed_over["boundaries where the host compacted"] = sum(isinstance(i, Boundary) for i in items)
    passed_over["damaged places"] = sum(isinstance(i, Damage) for i in items)
    records = [i for i in items if isinstance(i, Record)]
    steps = _steps(records, format, passed_over)
    shown = _cut(steps, limit)
    passed_over[f"records behind the first {len(shown)}"] = len(steps) - len(shown)
    if len(shown) < LEAST_STEPS:
        what = f"the transcript {str(path)!r} gives {len(shown)} records that can be replayed, the demo needs {LEAST_STEPS}."
        raise _unusable("too_small", what, "name a longer one, or another conversation of the file; `lineal demo` alone has a sample")
    own = not any(_killable(c) for s in shown for c in s.calls)
    shown = _with_own_effect(shown) if own else shown
    victim = _victim(shown)
    return Script(
        path, format, names[conversation], tuple(shown), len(records), +passed_over, budget(shown), victim, _batch(shown, victim), own
    )


def _unusable(reason: str, message: str, remedy: str) -> PolicyError:
    return PolicyError(Verdict("demo", reason, message=message, remedy=remedy))


# --- steps -----------------------------------------------------------------------------------------------------------


def _steps(records: Sequence[Record], format: str, passed_over: Counter[str]) -> list[Step]:
    """Records as steps. One that the log would refuse (no message, a result without its call) is passed over."""
    steps: list[Step] = []
    asked: dict[str, WorldCall | None] = {}  # call id -> the call that waits for a result
    said: set[str] = set()
    by = counter(COUNTER)
    for record in records:
        try:
            codec.refuse_unless_json(record.message)
            parsed = messages.parse(record.message, record.author)
        except PolicyError:
            passed_over["records that are no message"] += 1
            continue
        if any(r.call not in said for r in parsed.results):
            passed_over["results without their call"] += 1
            continue
        id = f"line-{record.line}.{record.place}" if record.key.startswith("@") else record.key
        calls = [_world_call(record.message, id, n, c.id, c.tool) for n, c in enumerate(parsed.calls)]
        said.update(c.id for c in parsed.calls)
        answers = [asked.pop(r.call, None) for r in parsed.results if r.final]
        for call in filter(None, answers):
            _tell(steps, call, len(steps), record.message, format)
        asked.update(dict(zip((c.id for c in parsed.calls), calls, strict=True)))
        tokens, _ = measure(record.message, by)
        keys = tuple(c.key for c in answers if c)
        steps.append(Step(id, record.message, record.author, tokens, parsed.dialect, _present(calls), keys, len(parsed.results)))
    return steps


def _world_call(message: Any, turn: str, n: int, id: str, tool: str) -> WorldCall | None:
    arguments = messages.arguments_of(message, id)
    if tool in PLANNING or not transcripts.changes_state(tool, arguments, CHANGES_STATE):
        return None
    return WorldCall(f"{turn}:{id}:{n}", id, tool, arguments)


def _present(calls: Sequence[WorldCall | None]) -> tuple[WorldCall, ...]:
    return tuple(c for c in calls if c)


def _tell(steps: list[Step], call: WorldCall, at: int, message: Any, format: str) -> None:
    """Write into the step that made the call how it ended."""
    ended = replace(
        call,
        result=at,
        outcome=transcripts.outcome(message, call.id, format),
        answer=messages.result_text(message, call.id)[:ANSWER],
    )
    place = next(i for i in range(len(steps) - 1, -1, -1) if call in steps[i].calls)
    steps[place] = replace(steps[place], calls=tuple(ended if c == call else c for c in steps[place].calls))


def _cut(steps: list[Step], limit: int) -> list[Step]:
    """The first steps, at most `limit`, ending where no call that changes the world waits for its result."""
    end = min(limit, len(steps))
    spans = [(i, c.result) for i, s in enumerate(steps) for c in s.calls if c.result is not None]
    while any(asked < end <= answered for asked, answered in spans):
        end -= 1
    return steps[:end]


# --- where it may be stopped -----------------------------------------------------------------------------------------


def _killable(call: WorldCall) -> bool:
    return call.outcome == "done"


def _with_own_effect(steps: list[Step]) -> list[Step]:
    """The same steps with one effect that no call asked for, labelled as the demo's own."""
    at = len(steps) * 4 // 5
    own = WorldCall(
        key=f"{steps[at].id}:demo:0",
        id="",
        tool="demo_effect",
        arguments={"note": "added by lineal demo: this transcript has no call that changes the world"},
        outcome="done",
        answer="written",
    )
    return [*steps[:at], replace(steps[at], calls=(*steps[at].calls, own)), *steps[at + 1 :]]


def _victim(steps: Sequence[Step]) -> str:
    """The key of the effect that is interrupted: the one nearest to four fifths of the way."""
    wanted = len(steps) * 4 // 5
    found = [(abs(i - wanted), c.key) for i, s in enumerate(steps) for c in s.calls if _killable(c)]
    return min(found)[1]


def _batch(steps: Sequence[Step], victim: str) -> range:
    """The longest run of steps without effects, up to `BATCH`; behind the victim if there is one, else anywhere."""
    behind = max(i for i, s in enumerate(steps) if victim in s.answers or any(c.key == victim for c in s.calls)) + 1
    quiet = [not (s.calls or s.answers) for s in steps]
    for first in (behind, len(steps) // 3, 0):
        runs = [_run(quiet, i) for i in range(first, len(steps)) if quiet[i]]
        if runs:
            return max(runs, key=len)
    raise _unusable("no_room", "every record of the transcript belongs to an effect: no batch can be made.", "name another transcript")


def _run(quiet: Sequence[bool], first: int) -> range:
    end = first
    while end < len(quiet) and quiet[end] and end - first < BATCH:
        end += 1
    return range(first, end)


# --- the budget ------------------------------------------------------------------------------------------------------


def first_words(steps: Sequence[Step]) -> Step | None:
    """The first step in which a user says something."""
    return next((s for s in steps if s.author == "user" and messages.text_of(s.message).strip()), None)


def budget(steps: Sequence[Step]) -> Policy:
    """A budget (tokens) under which these steps must be compacted several times.

    What is always shown, leading instructions and the pinned turn, comes on top of the share.
    """
    leading = 0
    while leading < len(steps) and steps[leading].message.get("role") in ("system", "developer"):
        leading += 1
    always = sum(s.tokens for s in steps[:leading])
    share = (sum(s.tokens for s in steps) - always) // SHARE
    room = min(max(share, ROOM[0]), ROOM[1])
    first = first_words(steps)
    always += first.tokens if first and first.tokens <= room // PINNED else 0
    return Policy(
        trigger=always + room,
        ceiling=always + room * 3 // 2,
        target=always + room // 2,
        floor_turns=min(8, max(2, len(steps) // 24)),
        summary_max_tokens=room // 4,
        checkpoint_every_entries=max(5, len(steps) * 4 // 3 // CHECKPOINTS),
    )
