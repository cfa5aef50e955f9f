"""A session of the Claude Agent SDK, taken over from disk, searched, and its calls guarded. Offline: no model is asked."""

import asyncio
import json
import os
import tempfile
import uuid
from pathlib import Path

from claude_agent_sdk import get_session_messages_from_store, import_session_to_store, list_sessions_from_store, project_key_for_directory

from lineal.adapters.claude_agent import LinealSessionStore, effect_hooks

kept = tempfile.TemporaryDirectory()
folder = Path(kept.name).resolve()
work, id = folder / "work", str(uuid.uuid4())
project = project_key_for_directory(str(work))
transcript = folder / "config" / "projects" / project / f"{id}.jsonl"


def line(n, role, content, **more):
    known = {"sessionId": id, "cwd": str(work), "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "type": role}
    return known | {"timestamp": f"2026-01-05T10:00:{n:02}Z", "message": {"role": role, "content": content}} | more


push = {"command": "git push origin main"}
lines = [
    line(0, "user", "Never push on a Friday. Today is Monday: push the release."),
    line(1, "assistant", [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": push}]),
    line(2, "user", [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "1f2e3d4 main -> main"}]),
    line(3, "assistant", [{"type": "text", "text": "Pushed as 1f2e3d4."}]),
]
compacted = [
    {"type": "system", "subtype": "compact_boundary", "uuid": "b1", "sessionId": id, "compactMetadata": {"trigger": "auto"}},
    line(5, "user", "The release was prepared.", isCompactSummary=True),
]


async def main() -> None:
    # A session that the command line wrote, moved into the store by the SDK itself.
    work.mkdir()
    transcript.parent.mkdir(parents=True)
    transcript.write_text("".join(json.dumps(one) + "\n" for one in lines[:1]))
    os.environ["CLAUDE_CONFIG_DIR"] = str(folder / "config")
    sessions = LinealSessionStore(folder / "agents.db")
    await import_session_to_store(id, sessions, directory=str(work))
    key = {"project_key": project, "session_id": id}

    # What the SDK does while an agent runs: hooks around each call, and every line to the store.
    hooks = effect_hooks(sessions, ["Bash(git push*)"])
    event = {"session_id": id, "transcript_path": str(transcript), "tool_name": "Bash", "tool_input": push, "tool_use_id": "toolu_1"}
    assert await hooks["PreToolUse"][0].hooks[0](event, "toolu_1", {"signal": None}) == {}
    await hooks["PostToolUse"][0].hooks[0](event | {"tool_response": "1f2e3d4 main -> main"}, "toolu_1", {"signal": None})
    await sessions.append(key, lines[1:])
    await sessions.append(key, compacted)

    # The model forgot the push in the compaction, and would push again.
    again = event | {"tool_use_id": "toolu_2"}
    answer = await hooks["PreToolUse"][0].hooks[0](again, "toolu_2", {"signal": None})
    print("the second push:", answer["hookSpecificOutput"]["permissionDecision"])
    print(answer["hookSpecificOutput"]["permissionDecisionReason"])

    session = sessions.session(key)
    print("\nthe model is shown:", [turn.id for turn in session.view().turns])
    print("never lost:", session.search("Friday")[0].text)
    print("in the ledger:", [(row.tool, row.state, row.outcome) for row in session.ledger()])
    print("the SDK lists:", [found.summary for found in await list_sessions_from_store(sessions, directory=str(work))])
    print("and reads:", len(await get_session_messages_from_store(sessions, id, directory=str(work))), "message behind the compaction")
    assert sessions.store.verify().clean
    sessions.close()


asyncio.run(main())
kept.cleanup()
