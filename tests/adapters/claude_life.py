"""One life of a Claude agent: the SDK, its own CLI, and a model server on loopback. Run by `test_claude_agent.py`.

    {"store": PATH, "home": FOLDER, "session": UUID, "resume": BOOL, "say": [PROMPT, ...], "effects": [PATTERN, ...],
     "flush": "eager" or "batched", "refuse": BOOL, "change": N, "when": "before" or "after"}

The model calls Bash with what stands behind "RUN: " in the newest prompt, and answers "Done." to a result. The process is
killed with SIGKILL at its N-th change of the store (0: never); `$AGENT_PID` in a command is this process. The answer, if it
lives so long, is one JSON line: what the model was shown, and what went wrong in mirroring.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    MirrorErrorMessage,
    PermissionResultAllow,
    PermissionResultDeny,
    ToolPermissionContext,
)

from lineal.adapters.claude_agent import LinealSessionStore, effect_hooks
from lineal.store import Store
from lineal.testing.lives import Killed


class Model(BaseHTTPRequestHandler):
    """The Messages API, as far as the CLI asks for it."""

    asked: list[list[dict[str, Any]]] = []

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is said on stderr."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        if not self.path.startswith("/v1/messages?"):
            return
        self.asked.append(body["messages"])
        block, stop = self._answer([m for m in body["messages"] if m["role"] == "user"][-1]["content"])
        begun, piece = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block.get("input"))}
        if block["type"] == "text":
            begun, piece = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        usage = {"input_tokens": 10, "output_tokens": 5}
        message = {"id": f"msg_{os.urandom(6).hex()}", "type": "message", "role": "assistant", "model": body["model"], "content": []}
        self._send("message_start", message={**message, "stop_reason": None, "stop_sequence": None, "usage": usage})
        self._send("content_block_start", index=0, content_block=begun)
        self._send("content_block_delta", index=0, delta=piece)
        self._send("content_block_stop", index=0)
        self._send("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage=usage)
        self._send("message_stop")

    def _answer(self, content: Any) -> tuple[dict[str, Any], str]:
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        words = "\n".join(block.get("text", "") for block in blocks)
        wanted = None if any(block["type"] == "tool_result" for block in blocks) else re.search(r"RUN: (.+)", words)
        if wanted is None or "<summary>" in words:
            return {"type": "text", "text": "<summary>They spoke of parcels.</summary>" if "<summary>" in words else "Done."}, "end_turn"
        call = {"type": "tool_use", "id": f"toolu_{os.urandom(6).hex()}", "name": "Bash"}
        return {**call, "input": {"command": wanted[1].strip(), "description": "as asked"}}, "tool_use"

    def _send(self, type: str, **fields: Any) -> None:
        self.wfile.write(f"event: {type}\ndata: {json.dumps({'type': type, **fields})}\n\n".encode())


async def live(order: dict[str, Any], url: str) -> list[str]:
    home, refuse = order["home"], order.get("refuse", False)

    async def may(tool: str, args: dict[str, Any], context: ToolPermissionContext) -> PermissionResultAllow | PermissionResultDeny:
        return PermissionResultDeny(message="The user doesn't want to proceed.") if refuse else PermissionResultAllow()

    store = Store(Killed.of(order))
    sessions = LinealSessionStore(store)
    begins = {"resume": order["session"]} if order.get("resume") else {"session_id": order["session"]}
    options = ClaudeAgentOptions(
        cwd=os.path.join(home, "work"),
        env={
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "no key",
            "CLAUDE_CONFIG_DIR": os.path.join(home, "config"),
            "HOME": home,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "AGENT_PID": str(os.getpid()),
        },
        tools=["Bash"],
        setting_sources=[],
        can_use_tool=may,
        hooks=effect_hooks(sessions, order["effects"]),
        session_store=sessions,
        session_store_flush=order.get("flush", "eager"),
        **begins,
    )
    wrong: list[str] = []
    async with ClaudeSDKClient(options) as client:
        for text in order["say"]:
            await client.query(text)
            async for message in client.receive_response():
                if isinstance(message, MirrorErrorMessage):
                    wrong.append(str(message))
    store.close()
    return wrong


def main() -> None:
    order = json.loads(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    wrong = asyncio.run(live(order, f"http://127.0.0.1:{server.server_address[1]}"))
    print(json.dumps({"asked": Model.asked, "wrong": wrong}))


if __name__ == "__main__":
    main()
