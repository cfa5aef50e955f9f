"""OpenAI Agents SDK sessions in an SQLite file (`SQLiteSession`, `SQLAlchemySession`): Responses items, one a row.

The rows of a session are what the model is shown: a compaction deletes rows and writes others. What was deleted is gone
from the store, but ids are never given twice: ids that are missing say how many rows went, and where. They are missing
for the table as a whole, so with several sessions in it a gap may be another session's. `line` is the id of a row.

| in the rows | comes out |
|---|---|
| an item | a record |
| ids missing in front of a row | damage, with their number |
| ids missing in front of the first row of the only session | the same, and a boundary: it was cleared and filled again |
| a `compaction` item | a boundary; its summary is encrypted |

`AdvancedSQLiteSession` keeps branches of a session over the same rows: each is a conversation.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lineal.messages.blocks import string
from lineal.transcripts import lines
from lineal.transcripts.records import NOWHERE, Boundary, Damage, Ids, Item, Record, Tally, epoch
from lineal.transcripts.snapshot import Row, Snapshot, text

NAME = "openai_agents"
COLUMNS = {"id", "session_id", "message_data"}
BRANCHES = "message_structure"
_AUTHORS = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system", "tool": "tool"}


def messages_table(columns: dict[str, list[str]]) -> str | None:
    """The table of items; its name is the caller's to choose, its columns are not."""
    return next((name for name, there in columns.items() if set(there) >= COLUMNS), None)


def read_all(snapshot: Snapshot, path: Path, tally: Tally) -> Iterator[tuple[str, Iterator[Item]]]:
    """Every session of the store, by its id, in order of their first rows."""
    columns = snapshot.columns()
    table = messages_table(columns) or "agent_messages"
    stamp = text("created_at") if "created_at" in columns.get(table, ()) else "x''"
    rows = snapshot.rows(table, [text("session_id"), text("message_data"), stamp])
    gaps = _gaps(rows)
    sessions: dict[str, list[Row]] = {}
    for row in rows:
        sessions.setdefault(lines.decode(row[1][0] or b""), []).append(row)
    branches = _branches(snapshot, columns)
    for name, held in sessions.items():
        for branch, ids in branches.get(name, {"": None}).items():
            chosen = held if ids is None else [row for row in held if row[0] in ids]
            alone = len(sessions) == 1
            yield (f"{name}/{branch}" if branch else name), _Session(gaps, alone, tally).items(chosen)


def _gaps(rows: list[Row]) -> dict[int, int]:
    """Of each row in front of which ids are missing: how many."""
    found, last = {}, 0
    for rowid, _ in rows:
        if rowid > last + 1:
            found[rowid] = rowid - last - 1
        last = rowid
    return found


def _branches(snapshot: Snapshot, columns: dict[str, list[str]]) -> dict[str, dict[str, set[int] | None]]:
    if not {"session_id", "message_id", "branch_id"} <= set(columns.get(BRANCHES, ())):
        return {}
    found: dict[str, dict[str, set[int] | None]] = {}
    for _, (session, message, branch) in snapshot.rows(BRANCHES, [text("session_id"), "message_id", text("branch_id")]):
        named = found.setdefault(lines.decode(session or b""), {}).setdefault(lines.decode(branch or b""), set())
        if named is not None and isinstance(message, int):
            named.add(message)
    return found


class _Session:
    def __init__(self, gaps: dict[int, int], alone: bool, tally: Tally) -> None:
        self.gaps, self.alone, self.tally = gaps, alone, tally
        self.ids = Ids()
        self.shown: list[str] = []

    def items(self, rows: list[Row]) -> Iterator[Item]:
        deleted = 0
        for n, (rowid, (_, data, stamp)) in enumerate(rows):
            missing = self.gaps.get(rowid, 0)
            deleted += missing
            if missing:
                yield self._gap(rowid, missing)
                if n == 0 and self.alone and not _is_compaction(data):
                    yield self._boundary(rowid, "cleared and filled again", deleted)
                    deleted = 0
            item = self._item(rowid, data or b"", stamp)
            if isinstance(item, Boundary):
                item = self._boundary(rowid, "", deleted)
                deleted = 0
            yield item

    def _gap(self, rowid: int, missing: int) -> Damage:
        which = f"row {rowid - 1} was" if missing == 1 else f"{missing} rows, {rowid - missing} to {rowid - 1}, were"
        whose = "" if self.alone else " of this session or of another one"
        return Damage(rowid, f"deleted rows: {which} deleted in front of this one{whose}; what they said stands nowhere", b"", NOWHERE)

    def _boundary(self, rowid: int, trigger: str, deleted: int) -> Boundary:
        return Boundary(rowid, "compaction", None, {"view_ids": list(self.shown), "trigger": trigger, "rows_deleted": deleted})

    def _item(self, rowid: int, data: bytes, stamp: Any) -> Item:
        try:
            value, end = lines.whole(lines.decode(data), 0)
        except ValueError as e:
            return Damage(rowid, f"torn row: {e}", data, NOWHERE)
        if not isinstance(value, dict) or lines.decode(data)[end:].strip():
            return Damage(rowid, f"no message: {type(value).__name__}, or more than one value", data, NOWHERE)
        if "__enc__" in value:
            return Damage(rowid, "no message: an encrypted item", data, NOWHERE)
        if value.get("type") == "compaction":
            return Boundary(rowid, "compaction")
        id = self.ids.unique(_id(value)) or f"row-{rowid}"
        self.shown.append(id)
        return Record(rowid, id, value, _author(value), epoch(lines.decode(stamp or b"")))


def _is_compaction(data: Any) -> bool:
    return isinstance(data, bytes) and b'"compaction"' in data


def _id(item: dict[str, Any]) -> str:
    call = string(item, "call_id")
    if call:
        return f"{call}:output" if string(item, "type").endswith("_output") else call
    return string(item, "id")


def _author(item: dict[str, Any]) -> str:
    role, kind = string(item, "role"), string(item, "type")
    if role:
        return _AUTHORS.get(role, "system")
    return "tool" if kind.endswith(("_output", "_response")) else "assistant"
