"""From a view that is too large to a committed generation: ask the summarizer between plan and commit.

The slow thing works outside: no lock is held while it does. Whatever happens to it (it raises, hangs, is cancelled,
answers badly), the compaction is aborted and the view stays as it was (R16).
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lineal.entries import CompactionCommitted
from lineal.errors import Conflict, Corrupt, Refused, UnrecoverableCompactionError, Verdict
from lineal.fold import fold
from lineal.rules.cut import above_ceiling, above_trigger, name
from lineal.session.compaction import abort, commit, plan, suspend
from lineal.session.generation import compacted, raw_ids
from lineal.session.outcomes import Compacted, Failed, Nothing, Outcome, Plan
from lineal.session.spilling import enforce_ceiling, spill
from lineal.summarizers import Summarizer, window_of

if TYPE_CHECKING:
    from lineal.session import Session


def compact(session: Session, summarizer: Summarizer | None, request_id: str | None, automatic: bool = False) -> Outcome:
    """One compaction from plan to commit; several generations where the summarizer's window is small (R27)."""
    if request_id and (first := _first_results(session, request_id)):
        return _joined(first)
    asked = summarizer or session.summarizer
    window = window_of(asked)
    done: list[Compacted] = []
    while True:
        try:
            begun = plan(session, request_id=_pass(request_id, len(done)), automatic=automatic, window=window, further=bool(done))
        except Refused as refusal:
            if refusal.reason == "over_window" and session.policy.on_refusal == "spill":
                spill(session, refusal.facts["over_window"])
                continue
            if done:
                return _joined(done)
            return Nothing(refusal.verdict) if refusal.reason in ("nothing_to_cover", "unchanged") else refusal
        outcome = _finish(session, begun, asked)
        if not isinstance(outcome, Compacted):
            return _joined(done) if done else outcome
        done.append(outcome)
        if not (begun.more or automatic and above_trigger(session.log.lineage, session.policy)):
            return _joined(done)


def _joined(done: list[Compacted]) -> Compacted:
    """Several generations of one call as one outcome."""
    covered = tuple(id for c in done for id in c.covered)
    return replace(done[-1], covered=covered, tokens_before=done[0].tokens_before)


def _pass(request_id: str | None, done: int) -> str | None:
    """The request id of the next pass of one call."""
    return f"{request_id}#{done}" if request_id and done else request_id


def _first_results(session: Session, request_id: str) -> list[Compacted]:
    """The passes of an earlier call with the same request id (R24)."""
    found: list[Compacted] = []
    while rows := session.log.find(f"request:{_pass(request_id, len(found))}", 1):
        row, entry = rows[0]
        if not isinstance(entry, CompactionCommitted):
            break
        before = session.log.at(row.seq - 1)
        after = fold(before, row.seq, row.digest.hex(), row.inner.hex(), entry)
        covered = [i for i in before.items if name(i) in entry.covered]
        found.append(compacted(before, after, entry, raw_ids(session, before, covered)))
    return found


def _finish(session: Session, begun: Plan, summarizer: Summarizer) -> Outcome:
    try:
        summary = ask(summarizer, begun.request, session.policy.summary_timeout)
    except Exception as error:
        abort(session, begun, f"summarizer: {type(error).__name__}: {error}", ineffective=begun.automatic)
        return Failed(error, begun.generation)
    except BaseException:
        abort(session, begun, "cancelled")
        raise
    return settle(session, begun, summary)


def settle(session: Session, begun: Plan, summary: Any) -> Outcome:
    """Commit, or abort and hand the refusal back as the outcome."""
    try:
        return commit(session, begun, summary)
    except Refused as refusal:
        abort(session, begun, str(refusal), ineffective=begun.automatic or refusal.reason == "no_gain")
        return refusal
    except (Conflict, Corrupt):
        raise
    except Exception:
        abort(session, begun, "commit failed")
        raise


def ask(summarizer: Summarizer, request: Any, timeout: float) -> Any:
    """Call the summarizer in a thread of its own, so that one that hangs can be left behind. Raises what it raised, or `TimeoutError`."""
    answer: list[Any] = []
    failure: list[BaseException] = []

    def call() -> None:
        try:
            result = summarizer(request)
            answer.append(asyncio.run(_await(result)) if inspect.isawaitable(result) else result)
        except BaseException as error:
            failure.append(error)

    worker = threading.Thread(target=contextvars.copy_context().run, args=(call,), name="lineal-summarizer", daemon=True)
    worker.start()
    worker.join(timeout)
    if worker.is_alive():
        raise TimeoutError(f"the summarizer gave no answer in {timeout:g} s")
    if failure:
        raise failure[0]
    return answer[0]


async def _await(result: Any) -> Any:
    return await result


def maybe_compact(session: Session, summarizer: Summarizer | None) -> Outcome:
    """Compact if the view is above the trigger; above the ceiling, spill what could not be summarised, never drop (R29)."""
    lineage, policy = session.log.catch_up(), session.policy
    if not above_trigger(lineage, policy):
        message = f"the view has {lineage.view_tokens:,} tokens, the trigger is {policy.trigger:,}"
        return Nothing(Verdict("compaction", "below_trigger", message=message))
    outcome = compact(session, summarizer, None, automatic=True)
    if isinstance(outcome, Refused) and outcome.reason == "floor_over_budget":
        suspend(session)
    unproven = isinstance(outcome, UnrecoverableCompactionError)
    lineage = session.log.lineage
    if policy.on_refusal == "spill" and (unproven or above_ceiling(lineage, policy)):
        return enforce_ceiling(session, because=outcome if isinstance(outcome, Refused) else None, hard=unproven) or outcome
    return outcome
