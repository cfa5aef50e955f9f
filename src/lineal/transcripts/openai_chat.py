"""OpenAI chat messages: plain lists (.json or .jsonl), and the files of tau-bench and tau2-bench, which hold many of them.

| file | conversations | what is yielded |
|---|---|---|
| JSONL, one message a line | one | each message as given |
| JSON list of messages, or `{"messages": [...]}` | one | each message as given |
| tau-bench: list of `{task_id, trial, traj}` | one for each element | each message as given |
| tau2-bench: `{info, simulations}` | one for each simulation | messages *normalised* to valid OpenAI chat |

tau2-bench keeps calls as `{id, name, arguments: object}` and results under the key `id`; both are brought into the shape
that the API takes (`function.arguments` as JSON text, `tool_call_id`), costs and raw copies are dropped, and the policy in
`info.environment_info.policy`, which the model saw as its system prompt, comes first, at line 0. Calls that the *simulated
user* makes were never shown to the agent: skipped and counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from lineal.errors import PolicyError, Unavailable, Verdict
from lineal.messages.blocks import string
from lineal.transcripts import lines
from lineal.transcripts.lines import Found
from lineal.transcripts.records import NOWHERE, Damage, Ids, Item, Record, Tally, epoch

NAME = "openai_chat"
_AUTHORS = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool", "function": "tool"}
_LOOKED_AT = 8
MAX_DOCUMENT = 1 << 28  # bytes of a JSON file that is no JSONL: it is read whole
Normalise = Callable[[dict[str, Any]], dict[str, Any] | None]


@dataclass(frozen=True)
class _Chat:
    name: str
    messages: list[Any]
    policy: str = ""
    normalise: Normalise = dict


def is_record(value: Any) -> bool:
    if not isinstance(value, dict) or string(value, "role") not in _AUTHORS:
        return False
    content, calls = value.get("content"), value.get("tool_calls")
    if not isinstance(content, str | list | None) or not isinstance(calls, list | None):
        return False
    named = all(isinstance(c, dict) and isinstance(c.get("function") or c.get("custom"), dict) for c in calls or [])
    return named and ("content" in value or bool(calls))


def is_document(value: Any) -> bool:
    """True for a whole JSON object, or for the first element of a JSON list, that this reader knows."""
    if not isinstance(value, dict):
        return False
    messages = value.get("messages")
    if isinstance(messages, list) and messages:
        return all(is_record(m) for m in messages[:_LOOKED_AT])
    return is_record(value) or any(isinstance(value.get(name), list) for name in ("traj", "simulations"))


def read(path: Path, conversation: int, tally: Tally) -> Iterator[Item]:
    """One conversation of `path`. JSONL is streamed; a JSON file is read whole. Raises `PolicyError` if there is no such one."""
    whole = document(path)
    if whole is None:
        if conversation != 0:
            raise no_conversation(path, conversation, 1)
        ids = Ids()
        for found in lines.scan(path, is_record, tally):
            yield found if isinstance(found, Damage) else _record(found.line, found.value, ids, found.place)
        return
    yield from (d for d in whole if isinstance(d, Damage))
    chats = _chats(path, [f for f in whole if isinstance(f, Found)])
    if not 0 <= conversation < len(chats):
        if not chats and whole:
            return
        raise no_conversation(path, conversation, len(chats))
    yield from _said(chats[conversation], tally)


def read_all(path: Path, tally: Tally) -> Iterator[tuple[str, Iterator[Item]]]:
    """Every conversation of `path` with its name, from one reading. What is torn in a JSON file comes with the first."""
    whole = document(path)
    if whole is None:
        yield path.stem, read(path, 0, tally)
        return
    damage = [d for d in whole if isinstance(d, Damage)]
    for chat in _chats(path, [f for f in whole if isinstance(f, Found)]) or [_Chat(path.stem, [])]:
        yield chat.name, chain(damage, _said(chat, tally))
        damage = []


def _said(chat: _Chat, tally: Tally) -> Iterator[Item]:
    ids = Ids()
    if chat.policy:
        yield Record(0, None, {"role": "system", "content": chat.policy}, "system")
    for i, message in enumerate(chat.messages):
        yield from _listed(i + 1, message, chat.normalise, ids, tally)


def conversations(path: Path) -> list[str]:
    whole = document(path)
    return [path.stem] if whole is None else [chat.name for chat in _chats(path, [f for f in whole if isinstance(f, Found)])]


def no_conversation(path: Path, asked: int, there: int) -> PolicyError:
    message = f"conversation {asked} of {str(path)!r} was asked for; the file holds {there}, counted from 0."
    return PolicyError(Verdict("transcript", "no_such_conversation", message=message, remedy="name one of `conversations(path)`"))


# --- one message -----------------------------------------------------------------------------------------------------


def _record(line: int, message: dict[str, Any], ids: Ids, place: int = 0, at: float | None = None) -> Record:
    id = message.get("id")
    if message["role"] == "tool" and isinstance(message.get("tool_call_id"), str):
        id = f"{message['tool_call_id']}:result"
    return Record(line, ids.unique(id), message, _AUTHORS[message["role"]], at, place)


def _listed(line: int, given: Any, normalise: Normalise, ids: Ids, tally: Tally) -> Iterator[Item]:
    try:
        message = normalise(given) if isinstance(given, dict) else {}
        whole = message is None or is_record(message)
    except (KeyError, TypeError, ValueError, AttributeError):
        message, whole = None, False
    if not whole:
        yield Damage(line, "no chat message", json.dumps(given, ensure_ascii=False).encode("utf-8", "surrogatepass"), NOWHERE)
    elif message is None:
        tally["call of the simulated user"] += 1
    else:
        yield _record(line, message, ids, at=epoch(given.get("timestamp")))


def _from_tau2(given: dict[str, Any]) -> dict[str, Any] | None:
    role, content, calls = given["role"], given.get("content"), given.get("tool_calls") or []
    if role == "tool":
        return None if given.get("requestor") == "user" else {"role": "tool", "tool_call_id": given["id"], "content": content or ""}
    if role == "user":
        return {"role": "user", "content": content} if content is not None or not calls else None
    if not calls:
        return {"role": role, "content": content}
    return {"role": role, "content": content, "tool_calls": [_call(c) for c in calls]}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(call["arguments"], ensure_ascii=False)
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}


# --- a whole JSON file -----------------------------------------------------------------------------------------------


def document(path: Path) -> list[Found | Damage] | None:
    """The elements of a JSON list, or the one object that the file is; what is torn as damage. None for JSONL of messages."""
    with lines.opened(path) as file:
        head = file.readline(lines.MAX_LINE)
        while head and not head.strip():
            head = file.readline(lines.MAX_LINE)
        start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if start not in (b"[", b"{"):
            return None
        if start == b"{" and _is_one_record(lines.decode(head).strip("\ufeff \t\r\n")):
            return None
        file.seek(0)
        try:
            data = file.read(MAX_DOCUMENT + 1)
            if len(data) > MAX_DOCUMENT and start == b"{":
                return None  # so large a file is lines, if it is anything
            if len(data) > MAX_DOCUMENT:
                raise Unavailable(f"transcript {str(path)!r}", f"a JSON document above {MAX_DOCUMENT:,} bytes", "write it as JSON lines")
            text = lines.decode(data)
        except OSError as e:
            raise Unavailable(f"cannot read on in the transcript {str(path)!r}", e, "check the disk, then read again") from e
    return list(_elements(text)) if start == b"[" else _object(text)


def _is_one_record(line: str) -> bool:
    try:
        value, end = lines.whole(line, 0)
    except ValueError:
        return False
    return end == len(line) and is_record(value)


def _object(text: str) -> list[Found | Damage] | None:
    start = len(text) - len(text.lstrip("\ufeff \t\r\n"))
    try:
        value, end = lines.whole(text, start)
    except ValueError as e:
        torn = text[start:].partition("\n")[0].strip() == "{"
        return [Damage(1, f"torn document: {e}", lines.encode(text[start:]), len(lines.encode(text[:start])))] if torn else None
    if text[end:].strip() or not isinstance(value, dict):
        return None
    return [Found(1, 0, len(lines.encode(text[:start])), value, lines.encode(text[start:end]))]


def _elements(text: str) -> Iterator[Found | Damage]:
    """The elements of a JSON list, one after another, up to where it is torn."""
    at, index, offset = text.index("[") + 1, 0, 0
    counted = 0  # `offset` is the byte where character `counted` stands
    while True:
        at = _past(text, at)
        offset, counted = offset + len(lines.encode(text[counted:at])), at
        if index == 0 and text[at : at + 1] == "]":
            break
        try:
            value, end = lines.whole(text, at)
        except ValueError as e:
            yield Damage(index + 1, f"torn tail: {e}", lines.encode(text[at:]), offset)
            return
        raw = lines.encode(text[at:end])
        if isinstance(value, dict):
            yield Found(index + 1, 0, offset, value, raw)
        else:
            yield Damage(index + 1, f"not an object, but {type(value).__name__}", raw, offset)
        at, index = _past(text, end), index + 1
        if text[at : at + 1] != ",":
            break
        at += 1
    if text[at : at + 1] != "]" or text[at + 1 :].strip():
        offset += len(lines.encode(text[counted:at]))
        yield Damage(index + 1, "torn tail: the list does not end where the file ends", lines.encode(text[at:]), offset)


def _past(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _chats(path: Path, found: list[Found]) -> list[_Chat]:
    """The conversations of a file: each element of a benchmark's list, each simulation, or the one list of messages."""
    values = [f.value for f in found]
    if not values:
        return []
    if "traj" in values[0]:
        return [_Chat(_name(v), v["traj"]) for v in values if isinstance(v.get("traj"), list)]
    if "simulations" in values[0]:
        policy = _policy(values[0])
        listed = values[0]["simulations"] if isinstance(values[0]["simulations"], list) else []
        return [
            _Chat(_name(s), s["messages"], policy, _from_tau2)
            for s in listed
            if isinstance(s, dict) and isinstance(s.get("messages"), list)
        ]
    if isinstance(values[0].get("messages"), list):
        return [_Chat(path.stem, v["messages"]) for v in values if isinstance(v.get("messages"), list)]
    return [_Chat(path.stem, values)]


def _name(chat: dict[str, Any]) -> str:
    return f"task {chat.get('task_id')} trial {chat.get('trial')}"


def _policy(value: dict[str, Any]) -> str:
    try:
        return str(value["info"]["environment_info"]["policy"] or "")
    except (KeyError, TypeError):
        return ""
