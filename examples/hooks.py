"""The hook command, driven as Claude Code drives it: one event as JSON on stdin, the answer on stdout. Offline."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

kept = tempfile.TemporaryDirectory()
folder = Path(kept.name)
store, transcript = folder / "hooks.db", folder / "transcript.jsonl"


def hook(event, **fields):
    given = {"session_id": "s1", "transcript_path": str(transcript), "cwd": "/", "hook_event_name": event, **fields}
    command = [sys.executable, "-m", "lineal", "hook", "claude-code", "--store", str(store)]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


def line(n, kind, content):
    message = {"role": kind, "content": content, "id": f"message-{n}"}
    known = {"sessionId": "s1", "uuid": f"u{n}", "parentUuid": f"u{n - 1}" if n else None, "type": kind}
    return json.dumps(known | {"message": message}) + "\n"


said = [
    line(0, "user", "Never push on a Friday. The port is 8443."),
    line(1, "assistant", [{"type": "text", "text": "Understood."}]),
    line(2, "user", "Then push the release."),
]

# Before a compaction the transcript is archived. A torn one stops the compaction.
transcript.write_text("".join(said)[:-20])
code, answer = hook("PreCompact", trigger="auto", custom_instructions=None)
print(f"torn transcript: exit {code}, {answer['decision']}")
transcript.write_text("".join(said))
code, answer = hook("PreCompact", trigger="auto", custom_instructions=None)
print(f"whole transcript: exit {code}, {answer}")

# An effect is written down before it is done, and its outcome behind it.
push = {"tool_name": "Bash", "tool_input": {"command": "git push origin main"}}
print("push:", hook("PreToolUse", tool_use_id="toolu_1", **push))
print(
    "pushed:", hook("PostToolUse", tool_use_id="toolu_1", tool_response={"stdout": "1f2e3d4..5a6b7c8 main -> main", "stderr": ""}, **push)
)

# Behind the compaction: what its summary lost, and what the model must know all the same.
code, answer = hook("PostCompact", trigger="auto", compact_summary="The user said: Never push on a Friday.")
print("survival:", answer["systemMessage"])
code, answer = hook("SessionStart", source="compact")
print("context:", answer["hookSpecificOutput"]["additionalContext"])

# The model forgot that it pushed, and asks for the same again. The user is asked, with the recorded outcome.
code, answer = hook("PreToolUse", tool_use_id="toolu_2", **push)
print("push again:", answer["hookSpecificOutput"]["permissionDecision"], "-", answer["hookSpecificOutput"]["permissionDecisionReason"])

# That call never came back: its outcome is unknown, and until somebody resolves it nothing equal is sent.
code, answer = hook("PreToolUse", tool_use_id="toolu_3", **push)
print("and again:", answer["hookSpecificOutput"]["permissionDecision"], "-", answer["hookSpecificOutput"]["permissionDecisionReason"])
