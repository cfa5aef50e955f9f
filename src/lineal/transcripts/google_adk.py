"""Google ADK sessions in an SQLite file (`SqliteSessionService`, `DatabaseSessionService`), as messages in Anthropic shape.

Events come in the order of their rows. The view follows ADK's own rules:

| an event | the view behind it |
|---|---|
| with a compaction | loses every event whose *time* lies in the range; a summary whose range lies in another's leaves too |
| that falls into a range written before it | never enters: it leaves at once, and no summary was written from it |
| with a rewind | loses the events from the first of that invocation on |

`line` is the rowid of an event. The older schema keeps the actions as a pickle, which is never opened: that a compaction
stands in it is seen, its range and its text are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lineal.messages.blocks import compact, string
from lineal.transcripts import lines
from lineal.transcripts.records import NOWHERE, Boundary, Damage, Ids, Item, Record, Tally, epoch
from lineal.transcripts.snapshot import Row, Snapshot, text

NAME = "google_adk"
TABLE = "events"
COLUMNS = {"app_name", "user_id", "session_id", "invocation_id", "timestamp"}
_KEYS = ("app_name", "user_id", "session_id")
_PICKLED = b"EventCompaction"
Range = tuple[float, float]


def read_all(snapshot: Snapshot, path: Path, tally: Tally) -> Iterator[tuple[str, Iterator[Item]]]:
    """Every session of the store: app, user and session id, in order of their first events."""
    there = snapshot.columns().get(TABLE, [])
    asked = [*_KEYS, "id", "invocation_id", "timestamp", "event_data", "content", "author", "actions"]
    columns = [text(name) if name in there else "NULL" for name in asked]
    sessions: dict[str, list[Row]] = {}
    for row in snapshot.rows(TABLE, columns):
        name = "/".join(lines.decode(value or b"") for value in row[1][:3])
        sessions.setdefault(name, []).append(row)
    for name, rows in sessions.items():
        yield name, _Session(tally).items(rows, "event_data" not in there)


@dataclass(frozen=True)
class _Event:
    """What the view follows from. `summary`: the range of a compaction and its text; `rewind`: the invocation it goes back before."""

    invocation: str
    at: float | None
    ids: tuple[str, ...] = ()
    summary: tuple[Range, str] | None = None
    rewind: str = ""


@dataclass
class _Session:
    """`log`: every event; `live`: those that no rewind annulled."""

    tally: Tally
    ids: Ids = field(default_factory=Ids)
    log: list[_Event] = field(default_factory=list)
    live: list[_Event] = field(default_factory=list)
    open: dict[str, list[str]] = field(default_factory=dict)

    def items(self, rows: list[Row], pickled: bool) -> Iterator[Item]:
        for rowid, values in rows:
            event = _pickled(values) if pickled else _event(values[6] or b"")
            if isinstance(event, str):
                yield Damage(rowid, event, bytes(values[6] or b""), NOWHERE)
                continue
            event.setdefault("id", lines.decode(values[3] or b""))
            event.setdefault("invocation_id", lines.decode(values[4] or b""))
            at = _number(event.get("timestamp"))
            yield from self._event(rowid, event, at if at is not None else epoch(_time(values[5])))

    def _event(self, rowid: int, event: dict[str, Any], at: float | None) -> Iterator[Item]:
        actions, invocation = event.get("actions"), str(event.get("invocation_id"))
        compaction, rewind = _get(actions, "compaction"), _get(actions, "rewind_before_invocation_id", "rewindBeforeInvocationId")
        records = list(self._records(rowid, event, at))
        yield from records
        ids = tuple(str(r.id) for r in records if isinstance(r, Record))
        if compaction is not None:
            yield self._compaction(rowid, compaction, invocation, at)
        elif isinstance(rewind, str) and rewind:
            yield self._rewind(rowid, _Event(invocation, at, ids, rewind=rewind))
        else:
            self._add(_Event(invocation, at, ids))
            if not records:
                self.tally["event without content"] += 1
            elif self._covered(at):
                detail = {"trigger": "its time lies in a range that was compacted before it came", "unseen_ids": list(ids)}
                yield Boundary(rowid, "compaction", self._latest(at), self._view() | detail)

    def _add(self, event: _Event) -> None:
        self.log.append(event)
        self.live.append(event)

    # --- what leaves the view ----------------------------------------------------------------------------------------

    def _compaction(self, rowid: int, compaction: Any, invocation: str, at: float | None) -> Item:
        start = _number(_get(compaction, "start_timestamp", "startTimestamp"))
        end = _number(_get(compaction, "end_timestamp", "endTimestamp"))
        content = _get(compaction, "compacted_content", "compactedContent")
        if start is None or end is None or not isinstance(content, dict):
            self._add(_Event(invocation, at))
            if compaction == _PICKLED:
                return Boundary(rowid, "compaction", None, self._view() | {"trigger": "pickled: its range and its text cannot be read"})
            return Damage(
                rowid,
                "no compaction of this format: it has no range or no content",
                compact(compaction).encode("utf-8", "surrogatepass"),
                NOWHERE,
            )
        said = "\n".join(string(part, "text") for part in _parts(content) if not part.get("thought") and string(part, "text"))
        self._add(_Event(invocation, at, summary=((start, end), said)))
        return Boundary(rowid, "compaction", said, self._view(said))

    def _summaries(self) -> list[tuple[Range, str]]:
        return [event.summary for event in self.live if event.summary is not None]

    def _standing(self) -> list[str]:
        """The summaries that are shown: of ranges in each other the widest, of equal ones the last."""
        found = self._summaries()
        return [
            said
            for n, (r, said) in enumerate(found)
            if not any(o[0] <= r[0] and r[1] <= o[1] and (o != r or m > n) for m, (o, _) in enumerate(found) if m != n)
        ]

    def _rewind(self, rowid: int, event: _Event) -> Item:
        self.log.append(event)
        if all(other.invocation != event.rewind for other in self.log[:-1]):
            return Damage(rowid, f"lost record: it goes back before {event.rewind}, which stands nowhere before it", b"", NOWHERE)
        before = self.live
        self.live = _apply_rewinds(self.log)
        now = {id for other in self.live for id in other.ids}
        undone = [id for other in before for id in other.ids if id not in now]
        return Boundary(rowid, "rollback", None, self._view() | {"trigger": f"before the invocation {event.rewind}", "undone_ids": undone})

    def _covered(self, at: float | None) -> bool:
        return at is not None and any(start <= at <= end for (start, end), _ in self._summaries())

    def _latest(self, at: float | None) -> str | None:
        return next((said for (start, end), said in reversed(self._summaries()) if at is not None and start <= at <= end), None)

    def _view(self, summary: str | None = None) -> dict[str, Any]:
        stay = [id for event in self.live if not self._covered(event.at) for id in event.ids]
        return {"view_ids": stay, "standing": [said for said in self._standing() if said is not summary]}

    # --- messages ----------------------------------------------------------------------------------------------------

    def _records(self, rowid: int, event: dict[str, Any], at: float | None) -> Iterator[Item]:
        content = event.get("content")
        if not isinstance(content, dict):
            return
        parts = _parts(content)
        results = [self._result(p) for p in parts if _get(p, "function_response", "functionResponse") is not None]
        words = [b for p in parts if (b := self._block(p)) is not None]
        by_user = event.get("author") == "user" or (not event.get("author") and content.get("role") == "user")
        id = str(event.get("id") or f"event-{rowid}")
        if results:
            yield Record(rowid, self.ids.unique(id), {"role": "user", "content": results}, "tool", at)
        if words:
            name = self.ids.unique(f"{id}:text" if results else id)
            author = "user" if by_user else "assistant"
            yield Record(rowid, name, {"role": author, "content": words}, author, at, int(bool(results)))

    def _block(self, part: dict[str, Any]) -> dict[str, Any] | None:
        call = _get(part, "function_call", "functionCall")
        if isinstance(call, dict):
            name, given = string(call, "name"), call.get("args")
            id = string(call, "id") or self._unnamed(name)
            return {"type": "tool_use", "id": id, "name": name, "input": given if isinstance(given, dict) else {}}
        if part.get("thought"):
            return {"type": "thinking", "thinking": string(part, "text"), "signature": string(part, "thought_signature")}
        if isinstance(part.get("text"), str):
            return {"type": "text", "text": part["text"]} if part["text"] else None
        if _get(part, "function_response", "functionResponse") is not None:
            return None
        kinds = [key for key, value in part.items() if value is not None]
        return {"type": "text", "text": f"[{' '.join(kinds)}]"} if kinds else None

    def _result(self, part: dict[str, Any]) -> dict[str, Any]:
        answer = _get(part, "function_response", "functionResponse")
        name, response = string(answer, "name"), answer.get("response") if isinstance(answer, dict) else None
        waiting = self.open.get(name) or [""]
        shown = response.get("result") if isinstance(response, dict) and set(response) == {"result"} else response
        block = {"type": "tool_result", "tool_use_id": string(answer, "id") or waiting.pop(0), "content": compact(shown)}
        return {**block, "is_error": True} if isinstance(response, dict) and set(response) == {"error"} else block

    def _unnamed(self, tool: str) -> str:
        """An id for a call that has none: answers come by the tool's name, in order."""
        id = f"{tool}-{sum(map(len, self.open.values())) + len(self.log) + 1}"
        self.open.setdefault(tool, []).append(id)
        return id


def _apply_rewinds(log: list[_Event]) -> list[_Event]:
    """From the end: a rewind takes itself and all from the first event of its invocation on, older rewinds in between too."""
    first: dict[str, int] = {}
    for n, event in enumerate(log):
        first.setdefault(event.invocation, n)
    live, n = [], len(log) - 1
    while n >= 0:
        if log[n].rewind:
            n = min(n, first.get(log[n].rewind, n))
        else:
            live.append(log[n])
        n -= 1
    return live[::-1]


# --- one event -------------------------------------------------------------------------------------------------------


def _event(data: bytes) -> dict[str, Any] | str:
    """The event, or why there is none."""
    try:
        value, end = lines.whole(lines.decode(data), 0)
    except ValueError as e:
        return f"torn event: {e}"
    if not isinstance(value, dict) or lines.decode(data)[end:].strip():
        return "no event: not one object"
    return {str(key): held for key, held in value.items()}


def _pickled(values: tuple[Any, ...]) -> dict[str, Any] | str:
    """An event of the older schema, from its columns."""
    content, author, actions = values[7], values[8], values[9]
    event: dict[str, Any] = {"author": lines.decode(author or b"")}
    if content:
        held = _event(content)
        if isinstance(held, str):
            return held
        event["content"] = held
    if isinstance(actions, bytes) and _PICKLED in actions:
        event["actions"] = {"compaction": _PICKLED}
    return event


def _parts(content: dict[str, Any]) -> list[dict[str, Any]]:
    parts = content.get("parts")
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _get(value: Any, *names: str) -> Any:
    return next((value[name] for name in names if isinstance(value, dict) and value.get(name) is not None), None)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300 else None


def _time(stamp: Any) -> Any:
    """A time as the database keeps it: a number, or text."""
    said = lines.decode(stamp or b"")
    try:
        return float(said)
    except ValueError:
        return said
