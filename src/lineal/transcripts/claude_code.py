"""Claude Code session JSONL (2.1.x), as messages in Anthropic shape.

One line holds one content block; lines that share `message.id` are one message. Parallel calls are written call, result,
call, result, although the model saw all calls in one message and the results after it: lines are gathered until something
comes that neither belongs to the open message nor answers it.

A line that mixes tool results with words typed meanwhile gives two records: the results (author `tool`) and the words
(author `user`), so that no tool output is ever taken for the user's words (R19). Not the user's words either, although
their role says so: injected lines (`isMeta`), output of local commands, notes of an interruption. Author: `system`.

Lines of a sub-agent are skipped, unless the whole file is a sub-agent's own. Every line names its parent, so a record
that was dropped from the middle shows: its children name a parent that no line has, and that is `Damage`. A file that
begins in the middle of a chain says so in the same way, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lineal.codec import digest, sorted_json
from lineal.transcripts.lines import Found, scan
from lineal.transcripts.records import NOWHERE, Boundary, Damage, Ids, Item, Record, Tally, are_blocks, epoch, text_of

NAME = "claude_code"
_HOST_TEXT = ("<local-command-stdout>", "<local-command-stderr>", "[Request interrupted by user", "<system-reminder>")
_MERGED = "line merged into the message before"


def is_record(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if kind == "summary":
        return "leafUuid" in value
    if kind == "file-history-snapshot":
        return "messageId" in value
    return isinstance(kind, str) and isinstance(value.get("sessionId"), str)


def read(path: Path, conversation: int, tally: Tally) -> Iterator[Item]:
    """The session in `path`, streaming. Memory: one message with its results, a digest and an id for each line."""
    session = _Session(tally)
    for found in scan(path, is_record, tally):
        if isinstance(found, Damage):
            yield from session.damage(found)
        else:
            yield from session.take(found)
    yield from session.flush()


def said(line: dict[str, Any]) -> list[tuple[str, dict[str, Any], str]]:
    """(id, message, author) of each message that one line says by itself, for hosts that hand on line by line.

    Nothing is gathered from other lines. A compaction's summary is a message here (author `system`): behind its boundary it
    is what the model has.
    """
    uuid = line.get("uuid")
    if line.get("type") not in ("user", "assistant") or not uuid or not _has_message(line) or line.get("isApiErrorMessage"):
        return []
    content, id = line["message"]["content"], f"id:{uuid}" if uuid.startswith("@") else uuid
    if line["type"] == "assistant":
        return [(id, {"role": "assistant", "content": _blocks(content)}, "assistant")] if content else []
    results, words = _halves(content)
    found = [(id, {"role": "user", "content": results}, "tool")] if results else []
    if words:
        author = "system" if line.get("isCompactSummary") else _author(line, words)
        found.append((f"{id}:text" if results else id, {"role": "user", "content": words}, author))
    return found


def preserved(metadata: Any, lines: Sequence[str]) -> list[str]:
    """Of the lines (their uuids, oldest first) before a boundary those that stay behind its summary: named one by one, or by
    first and last."""
    listed, segment = (metadata.get(k) if isinstance(metadata, dict) else None for k in ("preservedMessages", "preservedSegment"))
    named = listed.get("uuids") if isinstance(listed, dict) else None
    if isinstance(named, list):
        return [str(uuid) for uuid in named]
    head, tail = (str(segment.get(k)) for k in ("headUuid", "tailUuid")) if isinstance(segment, dict) else ("", "")
    last = lines.index(tail) + 1 if tail in lines else len(lines)
    return [*lines[lines.index(head) : last]] if head in lines else []


class _Session:
    """`waiting`: an open assistant message and what came behind it, or a boundary whose summary has not come yet."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.ids = Ids()
        self.seen: dict[str, bytes] = {}
        self.records_of: dict[str, list[str]] = {}
        self.missing: set[str] = set()
        self.sidechain: bool | None = None
        self.waiting: list[Item] = []
        self.open_id: str | None = None
        self.open_calls: set[str] = set()

    def flush(self) -> Iterator[Item]:
        waiting, self.waiting, self.open_id, self.open_calls = self.waiting, [], None, set()
        yield from waiting

    def damage(self, damage: Damage) -> Iterator[Item]:
        """Damage closes the open message, since what was lost may stand between its lines; glued records lost nothing."""
        if damage.why.endswith("records on one line") and self.waiting:
            self.waiting.append(damage)
            return
        yield from self.flush()
        yield damage

    def take(self, found: Found) -> Iterator[Item]:
        value = found.value
        yield from self._parent(found)
        if self._repeated(value):
            self.tally["record written a second time"] += 1
        elif value["type"] == "system":
            yield from self._system(found)
        elif value["type"] not in ("user", "assistant"):
            self.tally[value["type"]] += 1
        elif not _has_message(value):
            yield from self.damage(found.damage(f"a {value['type']} line without a message or without an id"))
        elif self._other_chain(value):
            self.tally["sidechain"] += 1
        elif value.get("isApiErrorMessage"):
            self.tally["api error"] += 1
        elif value["message"]["content"] in ("", []):
            self.tally[f"{value['type']} without content"] += 1
        elif value.get("isCompactSummary"):
            yield from self._summary(found)
        elif value["type"] == "assistant":
            yield from self._assistant(found)
        else:
            yield from self._user(found)

    def _parent(self, found: Found) -> Iterator[Item]:
        parent = found.value.get("parentUuid")
        if isinstance(parent, str) and parent not in self.seen and parent not in self.missing:
            self.missing.add(parent)
            why = f"lost record: the parent of this line, {parent}, stands nowhere before it"
            yield from self.damage(Damage(found.line, why, b"", NOWHERE))

    def _repeated(self, value: dict[str, Any]) -> bool:
        """True if the same record was written before: a resumed session writes its last record again, in other bytes."""
        uuid = value.get("uuid")
        if not isinstance(uuid, str):
            return False
        message = value.get("message")
        said = message.get("content") if isinstance(message, dict) else [value.get("data"), value.get("content")]
        mark = digest(sorted_json([value["type"], said]))[:12]
        again = self.seen.get(uuid) == mark
        self.seen.setdefault(uuid, mark)
        return again

    def _other_chain(self, value: dict[str, Any]) -> bool:
        sidechain = value.get("isSidechain") is True
        if self.sidechain is None:
            self.sidechain = sidechain
        return sidechain != self.sidechain

    def _system(self, found: Found) -> Iterator[Item]:
        value, subtype = found.value, found.value.get("subtype")
        if subtype == "compact_boundary":
            yield from self.flush()
            metadata = value.get("compactMetadata")
            detail = _detail(metadata) | ({"kept_ids": kept} if (kept := self._kept(metadata)) else {})
            self.waiting = [Boundary(found.line, "compaction", None, detail)]
        elif subtype == "microcompact_boundary":
            yield from self.flush()
            yield Boundary(found.line, "eviction", None, _detail(value.get("microcompactMetadata")))
        else:
            self.tally[f"system/{subtype}"] += 1

    def _kept(self, metadata: Any) -> list[str]:
        """Records that stay behind the summary, where a newer version says so."""
        named = preserved(metadata, [*self.records_of])
        return list(dict.fromkeys(id for uuid in named for id in self.records_of.get(uuid, ())))

    def _summary(self, found: Found) -> Iterator[Item]:
        summary = text_of(found.value["message"]["content"])
        first = self.waiting[0] if self.waiting else None
        if isinstance(first, Boundary) and first.summary is None:
            self.tally["compaction summary"] += 1
            self.waiting[0] = Boundary(first.line, first.kind, summary, first.detail)
            yield from self.flush()
        else:
            yield from self.flush()
            yield Boundary(found.line, "compaction", summary)

    def _assistant(self, found: Found) -> Iterator[Item]:
        message = found.value["message"]
        blocks = _blocks(message["content"])
        first = self.waiting[0] if self.waiting else None
        if isinstance(first, Record) and self.open_id is not None and message.get("id") == self.open_id:
            self.tally[_MERGED] += 1
            first.message["content"].extend(blocks)
            self.records_of[str(found.value["uuid"])] = [str(first.id)]
        else:
            yield from self.flush()
            self.open_id = message.get("id")
            self.waiting = [self._record(found, {"role": "assistant", "content": blocks}, "assistant")]
        self.open_calls |= {str(b.get("id")) for b in blocks if b["type"] == "tool_use"}

    def _user(self, found: Found) -> Iterator[Item]:
        results, words = _halves(found.value["message"]["content"])
        answers = not words and {str(b.get("tool_use_id")) for b in results} <= self.open_calls
        if not answers:
            yield from self.flush()
        if results:
            record = self._record(found, {"role": "user", "content": results}, "tool")
            if answers:
                self.waiting.append(record)
            else:
                yield record
        if words:
            yield self._record(found, {"role": "user", "content": words}, _author(found.value, words), second=bool(results))

    def _record(self, found: Found, message: dict[str, Any], author: str, second: bool = False) -> Record:
        uuid = found.value.get("uuid")
        id = self.ids.unique(f"{uuid}:text" if second and uuid else uuid)
        self.records_of.setdefault(str(uuid), []).append(str(id))
        return Record(found.line, id, message, author, epoch(found.value.get("timestamp")), found.place + second)


def _has_message(value: dict[str, Any]) -> bool:
    message = value.get("message")
    return isinstance(message, dict) and are_blocks(message.get("content")) and isinstance(value.get("uuid"), str)


def _halves(content: Any) -> tuple[list[dict[str, Any]], Any]:
    """The tool results of a user's line, and its words."""
    if not isinstance(content, list):
        return [], content
    return [b for b in content if b["type"] == "tool_result"], [b for b in content if b["type"] != "tool_result"]


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _author(value: dict[str, Any], words: Any) -> str:
    return "system" if value.get("isMeta") or text_of(words).startswith(_HOST_TEXT) else "user"


def _detail(metadata: Any) -> dict[str, Any]:
    names = {"trigger": "trigger", "preTokens": "tokens_before", "tokensSaved": "tokens_saved", "compactedToolIds": "tool_ids"}
    return {names[k]: v for k, v in metadata.items() if k in names} if isinstance(metadata, dict) else {}
