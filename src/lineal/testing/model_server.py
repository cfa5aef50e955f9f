"""A model on loopback that speaks the providers' wire protocols, for agents of real frameworks with real clients.

| path | protocol |
|---|---|
| `POST /v1/chat/completions` | OpenAI chat completions |
| `POST /v1/responses` | OpenAI Responses |
| `POST /v1/messages` | Anthropic Messages |

What it answers is a function's: messages of the chat dialect in, one assistant message of the chat dialect out. Whole
answers only; a request that wants a stream is refused. Tokens are counted as a quarter of the bytes.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from lineal.messages import convert

Answer = Callable[[list[dict[str, Any]]], dict[str, Any]]
Wire = Callable[["ModelServer", dict[str, Any]], dict[str, Any]]


class ModelServer:
    """A context manager: serves from entering to leaving. `url` ends with `/v1`; `asked` holds each request's body."""

    def __init__(self, answer: Answer):
        self.answer, self.asked = answer, list[dict[str, Any]]()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._ids = itertools.count(1)

    @property
    def root(self) -> str:
        """Without `/v1`, as Anthropic's client wants it."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.root}/v1"

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    def id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._ids):06}"


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            wire = WIRES.get(self.path.partition("?")[0])
            if wire is None or body.get("stream"):
                what = "streams are not spoken here" if wire else f"no protocol is spoken at {self.path}"
                self._send(400 if wire else 404, {"error": {"type": "invalid_request_error", "message": what}})
                return
            server.asked.append(body)
            self._send(200, wire(server, body))

        def _send(self, status: int, value: dict[str, Any]) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet: `asked` says what was asked."""

    return Handler


def _size(value: Any) -> int:
    return len(json.dumps(value)) // 4 + 1


def _chat(server: ModelServer, body: dict[str, Any]) -> dict[str, Any]:
    message = server.answer(body["messages"])
    used = {"prompt_tokens": _size(body["messages"]), "completion_tokens": _size(message)}
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": server.id("chatcmpl"),
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "finish_reason": finish, "message": message, "logprobs": None}],
        "usage": {**used, "total_tokens": sum(used.values())},
    }


def _responses(server: ModelServer, body: dict[str, Any]) -> dict[str, Any]:
    given = body["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    before = [{"role": "system", "content": body["instructions"]}] if body.get("instructions") else []
    output = [_item(server, item) for item in convert([server.answer([*before, *convert(items, "openai")])], "responses")]
    used = {"input_tokens": _size(given), "output_tokens": _size(output)}
    return {
        "id": server.id("resp"),
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools", []),
        "usage": {
            **used,
            "total_tokens": sum(used.values()),
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _item(server: ModelServer, item: dict[str, Any]) -> dict[str, Any]:
    if item.get("type") == "function_call":
        return {"id": server.id("fc"), "status": "completed", **item}
    parts = item["content"] if isinstance(item["content"], list) else [{"type": "output_text", "text": item["content"]}]
    content = [{"annotations": [], **part} for part in parts]
    return {"type": "message", "id": server.id("msg"), "role": "assistant", "status": "completed", "content": content}


def _anthropic(server: ModelServer, body: dict[str, Any]) -> dict[str, Any]:
    system = body.get("system")
    before = [{"role": "system", "content": system if isinstance(system, str) else "\n".join(b["text"] for b in system)}] if system else []
    (message,) = convert([server.answer([*before, *convert(body["messages"], "openai")])], "anthropic")
    content = message["content"]
    blocks: Sequence[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {
        "id": server.id("msg"),
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [block for block in blocks if block.get("text") != ""],
        "stop_reason": "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": _size(body["messages"]), "output_tokens": _size(content)},
    }


WIRES: dict[str, Wire] = {"/v1/chat/completions": _chat, "/v1/responses": _responses, "/v1/messages": _anthropic}
