"""The lines of one Claude Code transcript in a session's log: kept, given back, and said.

| a line | in the log |
|---|---|
| any | a record that is given back as it came; a uuid that is there already is not written again (R2) |
| what the user, the model or a tool said | also a turn, its id is the uuid |
| `compact_boundary` | also a note of the turns that the host dropped: they leave the view |

Behind the lines of a batch stand the SDK's summary of the transcript so far, and the batch's mark: when it was written, the
parents of what it said, and where the newest boundary is. All of a batch is one transaction, turns too (R1).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

from claude_agent_sdk import SessionKey, SessionStoreEntry, SessionSummaryEntry, fold_session_summary

from lineal.errors import Conflict, PolicyError, Verdict, quoted
from lineal.session import Session
from lineal.session.outcomes import Kept, Record, Said
from lineal.transcripts.claude_code import preserved, said

SPACE, LINES = "claude-agent", "lines"
LINKS = ("parentUuid", "logicalParentUuid", "leafUuid")  # fields of a line that name another one
FIRST_LOOK, WIDER = 16, 8  # records that are read at once in search of those that others wrote


class Transcript:
    """One transcript. Thread-safe; other processes may append to it. A summary is kept of a session's own, not of a sub-agent's."""

    def __init__(self, session: Session, key: SessionKey):
        self.session, self.key = session, key
        self._lock = threading.Lock()
        self._mark: Kept | None = None
        self._uuids: set[str] = set()  # that stand at or before the mark
        self._followed = False

    # --- writing -----------------------------------------------------------------------------------------------------

    def append(self, entries: list[SessionStoreEntry]) -> None:
        """Keep these lines, all or none; durable on return. Raises `PolicyError` for a line that JSON cannot give back."""
        with self._lock:
            fresh = self._keep(entries)
            if not self._followed or any(map(_is_boundary, fresh)):  # a process may have died between the two
                self._follow_boundary()
                self._followed = True

    def _keep(self, entries: list[SessionStoreEntry]) -> list[dict[str, Any]]:
        """Write what is new of them; returns that. Asked again if others wrote meanwhile: the summary goes on from their lines."""
        while True:
            mark = self._catch_up()
            fresh = list(self._fresh(entries))
            if not fresh:
                return fresh
            records = [Record([line], key=_uuid(line), says=[Said(*one) for one in said(line)]) for line in fresh]
            try:
                self.session.keep(SPACE, LINES, [*records, *self._closing(mark, records)], after=mark.seq if mark else 0)
            except Conflict:
                if self._catch_up() == mark:
                    raise
            else:
                return fresh

    def _fresh(self, entries: Iterable[Any]) -> Iterator[dict[str, Any]]:
        seen: set[str] = set()
        for entry in entries:
            if not isinstance(entry, dict):
                message, remedy = f"{quoted(entry)} is no line of a transcript.", "give JSON objects, one a line"
                raise PolicyError(Verdict("append", "no_line", message=message, remedy=remedy))
            uuid = _uuid(entry)
            if uuid and (uuid in seen or uuid in self._uuids):
                continue
            seen.add(uuid)
            yield entry

    def _closing(self, mark: Kept | None, records: list[Record]) -> tuple[Record, Record]:
        """The summary and the mark that stand behind a batch. `told`: turns from which the summary may have taken something."""
        before: dict[str, Any] = mark.data if mark else {"at": 0, "told": [], "boundary": ""}
        told, boundary = [*before["told"]], before["boundary"]
        summary = self._summary(mark) if mark and "subpath" not in self.key else None
        for record in records if "subpath" not in self.key else ():
            folded = fold_session_summary(summary, self.key, record.data)
            if summary is None or folded["data"] != summary["data"]:
                told += [one.id for one in record.says]
            summary = folded
        for line in (record.data[0] for record in records if _is_boundary(record.data[0])):
            boundary = _uuid(line)
        at = max(int(self.session.clock.wall() * 1000), before["at"] + 1)
        parents = {record.key: record.data[0].get("parentUuid") for record in records if record.says}
        closing = {"at": at, "told": told, "boundary": boundary, "parents": parents}
        return Record({"summary": summary["data"] if summary else {}}, turns=told), Record(closing)

    def _catch_up(self) -> Kept | None:
        """The newest mark, once the uuids up to it are known."""
        newest, limit = next(iter(self.session.kept(SPACE, LINES, limit=1)), None), FIRST_LOOK
        since = self._mark.seq if self._mark else 0
        if newest is not None and newest.seq != since:
            found = self.session.kept(SPACE, LINES, limit=limit)
            while len(found) == limit and found[-1].seq > since:
                limit *= WIDER
                found = self.session.kept(SPACE, LINES, limit=limit)
            self._uuids |= {kept.key for kept in found}
            newest = found[0]
        self._mark = newest
        return newest

    def _follow_boundary(self) -> None:
        """What the host dropped at its newest compaction leaves the view, too. Nothing where that was noted already."""
        mark = self._catch_up()
        boundaries = self.session.kept(SPACE, LINES, mark.data["boundary"], 1) if mark and mark.data["boundary"] else []
        for boundary in boundaries:
            before = [kept.key for kept in reversed(self.session.kept(SPACE, LINES)) if kept.seq < boundary.seq and kept.key]
            stay = {*preserved(boundary.data[0].get("compactMetadata"), before)}
            turns = [turn for turn in self.session.view().turns if turn.seq < boundary.seq]
            if gone := [turn.id for turn in turns if turn.id.removesuffix(":text") not in stay]:
                self.session.note_eviction(gone, "claude-code")

    # --- reading -----------------------------------------------------------------------------------------------------

    def load(self) -> list[Any] | None:
        """Every line, in the order of the log; None if none was ever written. Raises `Corrupt`, never gives fewer lines.

        Lines that a purge took are left out, and what named one as its parent names that one's own parent.
        """
        found = self.session.kept(SPACE, LINES)
        lines = [kept.data[0] for kept in reversed(found) if isinstance(kept.data, list)]
        gone = {kept.key for kept in found if kept.data is None and kept.key}
        if not gone:
            return lines if found else None
        parents = {uuid: parent for kept in found if isinstance(kept.data, dict) for uuid, parent in kept.data.get("parents", {}).items()}
        return [line | {link: _standing(line[link], gone, parents) for link in LINKS if line.get(link) in gone} for line in lines]

    def summary(self) -> SessionSummaryEntry | None:
        """The SDK's summary behind the newest batch; None if there is none."""
        newest = self.session.kept(SPACE, LINES, limit=1)
        return self._summary(newest[0]) if newest else None

    def _summary(self, mark: Kept) -> SessionSummaryEntry:
        """The summary that stands before a mark; made anew where a purge took it."""
        data = self.session.kept_at([mark.seq - 1])[0].data
        if data is None:
            return {**fold_session_summary(None, self.key, self.load() or []), "mtime": mark.data["at"]}
        return {"session_id": self.key["session_id"], "mtime": mark.data["at"], "data": data["summary"]}


def _uuid(line: Any) -> str:
    uuid = line.get("uuid")
    return uuid if isinstance(uuid, str) else ""


def _is_boundary(line: dict[str, Any]) -> bool:
    return line.get("type") == "system" and line.get("subtype") == "compact_boundary" and bool(_uuid(line))


def _standing(uuid: Any, gone: set[str], parents: dict[str, Any]) -> Any:
    """The nearest line above that was not purged."""
    passed: set[str] = set()
    while uuid in gone - passed:
        passed.add(uuid)
        uuid = parents.get(uuid)
    return uuid
