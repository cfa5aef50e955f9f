"""The guard of a host's tool calls: an intent in the ledger before a call, its outcome behind it.

Host and hook are many processes, so what one of them knows is only what stands in the log. The session `NAME.effects` has a
turn for each call that a pattern names (its id is the host's `tool_use_id`) and one for its result. The rules of emission
decide by them:

| the call | answer |
|---|---|
| no pattern names it | nothing; the store is not opened |
| is new, or equal to one whose outcome the model can still see | goes on; its outcome is *unknown* until the host says it |
| the same `tool_use_id` again, and it was done | denied, with the recorded outcome |
| equal to one whose outcome is unknown | denied, with the command that resolves it |
| equal to one that was done before a compaction | Claude Code asks the user; Codex is denied; both with the recorded outcome |

A host says nothing at all when the user refuses a call or when it breaks off (Codex: when it fails). So before anything is
denied over an unknown outcome the transcript is asked for the result of that call.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineal import transcripts
from lineal.adapters.hook_event import Answer, Hook, added, called
from lineal.errors import UnsafeEffectError, Verdict
from lineal.messages import parse, result_text
from lineal.messages.blocks import compact
from lineal.policy import Policy
from lineal.transcripts import Record, changes_state

if TYPE_CHECKING:
    from lineal.session import Session
    from lineal.session.outcomes import LedgerRow

OUTCOME_CHARS = 2_000  # of a result's text are kept in the ledger
FINDINGS = {"done": "happened", "no_effect": "not_happened"}


# --- before a call ---------------------------------------------------------------------------------------------------


def pre_tool_use(hook: Hook) -> Answer:
    """May this call be sent? If so its intent is durable when this returns (R47)."""
    tool, args = hook.text("tool_name"), hook.event.get("tool_input")
    if not changes_state(tool, args, hook.effects):
        return Answer()
    call = hook.text("tool_use_id")
    with hook.open(create=True) as store:
        ledger = store.session(hook.ledger, Policy(on_lookalike=hook.on_lookalike))  # type: ignore[arg-type]
        ask_transcript(hook, ledger)
        ledger.append({"role": "assistant", "content": [{"type": "tool_use", "id": call, "name": tool, "input": args}]}, id=call)
        try:
            verdict = _intend(ledger, tool, args, call)
        except UnsafeEffectError as refusal:
            answer = called("deny", _way_out(hook, refusal.verdict))
        else:
            answer = _decided(hook, ledger, verdict, tool, args, call)
        if call not in unsettled(ledger):
            _answer(ledger, call, f"not sent: {answer.output['hookSpecificOutput']['permissionDecisionReason']}")
    return answer


def _intend(ledger: Session, tool: str, args: Any, call: str) -> Verdict:
    """Left unsettled at once: from here on the host has it, and until the host says more its outcome is unknown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a look-alike is told in the answer
        with ledger.effect(tool, args, call=call) as effect:
            assert effect.verdict is not None
    return effect.verdict


def _decided(hook: Hook, ledger: Session, verdict: Verdict, tool: str, args: Any, call: str) -> Answer:
    if verdict.reason == "warned":
        return added("PreToolUse", f"[lineal] {verdict.message}")
    if verdict.allowed:
        return Answer()
    key = verdict.facts["key"]
    row = next(r for r in ledger.ledger() if r.key == key)
    recorded = f"{verdict.message}\nRecorded outcome: {row.note or compact(row.outcome)}\n"
    if verdict.reason == "look_alike" and hook.host == "claude-code":
        ledger.policy = ledger.policy.with_(on_lookalike="allow")  # the user decides, and a yes must find its intent written
        _intend(ledger, tool, args, call)
        return called("ask", f"{recorded}Do it once more?")
    again = "to do it once more on purpose, make a call that says so (for a shell: with a comment)"
    return called("deny", f"{recorded}Way out: use that outcome; {again}.")


def _way_out(hook: Hook, verdict: Verdict) -> str:
    key = verdict.facts.get("key")
    if key is None or verdict.reason == "busy":
        return f"{verdict.message} Way out: {verdict.remedy}."
    command = hook.command("effect resolve", f"{shlex.quote(key)} FINDING", hook.ledger)
    return f"{verdict.message} Way out: find out what happened, then {command} (FINDING: happened, not_happened or compensated)."


# --- behind a call ---------------------------------------------------------------------------------------------------


def post_tool_use(hook: Hook) -> Answer:
    """The outcome, as far as the host knows it. A second report of the same call changes nothing."""
    tool, args = hook.text("tool_name"), hook.event.get("tool_input")
    if not changes_state(tool, args, hook.effects):
        return Answer()
    call = hook.text("tool_use_id")
    with hook.open() as store:
        ledger = store.session(hook.ledger)
        row = unsettled(ledger).get(call)
        if row is not None:
            _settle(ledger, call, row, *reported(hook.event, call, hook.format))
    return Answer()


def reported(event: dict[str, Any], call: str, format: str) -> tuple[str, str]:
    """How the call of this event ended, by the same table as in a transcript, and what it answered."""
    failed = "error" in event
    given = event.get("error" if failed else "tool_response")
    text = _said(given)
    broken_off = event.get("is_interrupt") or (isinstance(given, dict) and (given.get("interrupted") or given.get("backgroundTaskId")))
    if broken_off:
        return "unknown", text
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": text, "is_error": failed}]}
    return transcripts.outcome(result, call, format), text


def _said(given: Any) -> str:
    """A tool's answer as text: as it is, a shell's two streams, text blocks, or its JSON."""
    if isinstance(given, str):
        return given
    if isinstance(given, dict) and isinstance(given.get("stdout"), str):
        return "\n".join(s for s in (given["stdout"], given.get("stderr")) if isinstance(s, str) and s)
    blocks = given.get("content") if isinstance(given, dict) else given
    if isinstance(blocks, list) and blocks and all(isinstance(b, dict) and isinstance(b.get("text"), str) for b in blocks):
        return "\n".join(b["text"] for b in blocks)
    return compact(given)


def unsettled(ledger: Session) -> dict[str, LedgerRow]:
    """Host's call id -> its effect, of those whose outcome is unknown. A call that was not answered never leaves the view."""
    view = ledger.view()
    rows = {row.turn: row for row in view.effects}
    return {turn.id: rows[turn.seq] for turn in view.turns if turn.seq in rows}


def _settle(ledger: Session, call: str, row: LedgerRow, state: str, text: str) -> None:
    if state in FINDINGS:
        short = text if len(text) <= OUTCOME_CHARS else f"{text[:OUTCOME_CHARS]}… ({len(text):,} characters)"
        ledger.resolve_effect(row.key, FINDINGS[state], note=short)
        _answer(ledger, call, short)


def _answer(ledger: Session, call: str, text: str) -> None:
    """The call's result, so that it is whole and can leave the view."""
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": text}]}
    if call in ledger.status().open_calls:
        ledger.append(result, author="tool")


def ask_transcript(hook: Hook, ledger: Session) -> None:
    """Settle what the host never reported, by the results that stand in its transcript."""
    waiting = unsettled(ledger)
    path = hook.event.get("transcript_path")
    if not waiting or not isinstance(path, str) or not Path(path).is_file():
        return
    for call, record in results(path, hook.format):
        if call in waiting:
            row = waiting.pop(call)
            _settle(ledger, call, row, transcripts.outcome(record.message, call, hook.format), result_text(record.message, call))


def results(path: str, format: str) -> Iterator[tuple[str, Record]]:
    for item in transcripts.read(path, format):
        if isinstance(item, Record):
            yield from ((result.call, item) for result in parse(item.message, item.author).results if result.final)


def close_resolved(ledger: Session) -> None:
    """Give a result to calls that an operator resolved, so that they can leave the view."""
    waiting = unsettled(ledger)
    for call in ledger.status().open_calls:
        if call not in waiting:
            _answer(ledger, call, "resolved by an operator; see the ledger")
