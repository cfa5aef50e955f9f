"""Hooks of Claude Code and Codex: one event as JSON in, one answer as JSON out, in the dialect of that host.

| event | what is done | if that fails |
|---|---|---|
| `PreCompact` | the transcript is archived, and what was archived is read again and verified | the compaction is stopped, with the reason |
| `PostCompact` | what the summary lost of the part that left is recorded (`x.survival`) and told | told; the host goes on |
| `SessionStart` (compact) | pins, effects, open work and handles go back into the context | told; the host goes on |
| `PreToolUse` | the guard of `hook_effects` | the call is denied: it cannot be proven unsent |
| `PostToolUse`, `PostToolUseFailure` | the outcome goes into the ledger | told; the outcome stays unknown |
| any other | nothing | |

A hook that cannot read its event answers as to `PreCompact`: that is the strictest.
"""

from __future__ import annotations

from collections.abc import Callable

from lineal.adapters.hook_event import HOSTS, Answer, Hook, called, read_event, stopped, told
from lineal.errors import LinealError, Unavailable

__all__ = ["HOSTS", "Answer", "Hook", "handle"]


def handle(raw: bytes, hook: Callable[..., Hook], host: str) -> Answer:
    """The answer to the event in `raw`. `hook(event=...)` adds what the operator set. Never raises an `Exception`."""
    name = "PreCompact"
    try:
        try:
            event = read_event(raw)
            name = event["hook_event_name"]
            return _answer(name, hook(event=event))
        except LinealError:
            raise
        except Exception as e:
            raise Unavailable(f"the hook failed at {name} ({type(e).__name__})", e, "report this") from e
    except LinealError as fault:
        if name == "PreToolUse":
            return called("deny", f"it cannot be proven that this was not done before: {fault}")
        return stopped(host, f"lineal: {fault}") if name == "PreCompact" else told(str(fault))


def _answer(name: str, hook: Hook) -> Answer:
    """A call of a tool must not wait for what only compactions need, so each side is loaded where it is asked for."""
    if name in ("PreToolUse", "PostToolUse", "PostToolUseFailure"):
        from lineal.adapters import hook_effects

        return hook_effects.pre_tool_use(hook) if name == "PreToolUse" else hook_effects.post_tool_use(hook)
    if name in ("PreCompact", "PostCompact", "SessionStart"):
        from lineal.adapters import hook_compaction as compaction

        found = {"PreCompact": compaction.pre_compact, "PostCompact": compaction.post_compact, "SessionStart": compaction.session_start}
        return found[name](hook)
    return Answer()
