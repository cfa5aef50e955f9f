"""Pydantic AI's conversations as records of a log: `LinealConversationStore`. Needs the extra `pydantic-ai`.

| record | group | key | data |
|---|---|---|---|
| an entry: one message, and the entry before it | `c:` and the conversation's id | `e:` and its id | as Pydantic AI dumps it |
| what the conversation carries, at each save | the same | `record` | the same; None: deleted |

A save is one write: the new entries and, as the newest of the group, the record; so `after` is the check of the revision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import conversation_store as store

from lineal.codec import to_json
from lineal.errors import Conflict
from lineal.session import Session
from lineal.session.outcomes import Kept, Record
from lineal.store import Store, connect

SPACE, RECORD = "pydantic_ai.conversations", "record"
RECORDS, ENTRIES = TypeAdapter(store.ConversationRecord), TypeAdapter(store.ConversationEntry)


class LinealConversationStore(store.ConversationStore):
    """Conversations in one session of a store. `memory`: a store (or what `connect` takes), or the `Session` itself.

    Deleting a conversation deletes its record. Its entries stay, since a fork may be about to use them; `sweep` lets go of
    those that no conversation reaches, and `session.prune()` then takes the rows.
    """

    def __init__(self, memory: Any, session: str = "conversations"):
        opened = memory if isinstance(memory, Session | Store) else connect(memory)
        self.session: Session = opened if isinstance(opened, Session) else opened.session(session)
        self._places: dict[str, int] = {}  # id of an entry -> seq

    def _newest(self, conversation: str) -> tuple[Kept | None, store.ConversationRecord | None]:
        kept = self.session.kept(SPACE, f"c:{conversation}", RECORD, 1)
        return (kept[0], _record(kept[0])) if kept else (None, None)

    def _all(self) -> list[store.ConversationRecord]:
        newest: dict[str, Kept] = {}
        for kept in self.session.kept(SPACE, None, RECORD):
            newest.setdefault(kept.group, kept)
        return [record for kept in newest.values() if (record := _record(kept))]

    def _entry(self, id: str) -> store.ConversationEntry:
        """Raises `KeyError` for an id that no save has stored."""
        if id not in self._places:
            self._places.update((kept.key[2:], kept.seq) for kept in self.session.kept(SPACE) if kept.key.startswith("e:"))
        (kept,) = self.session.kept_at([self._places[id]])
        return ENTRIES.validate_json(to_json(kept.data))

    def _chain(self, head_id: str | None, limit: int | None) -> list[store.ConversationEntry]:
        found: list[store.ConversationEntry] = []
        while head_id is not None and (limit is None or len(found) < limit):
            found.append(self._entry(head_id))
            head_id = found[-1].parent_id
        return found[::-1]

    def _write(self, record: store.ConversationRecord, entries: Sequence[store.ConversationEntry], expected_revision: str | None) -> None:
        kept, standing = self._newest(record.conversation_id)
        if (standing.revision if standing else None) != expected_revision:
            raise store.ConversationConflict(record.conversation_id)
        if record.head_id is not None and record.head_id not in {e.id for e in entries}:
            try:
                self._entry(record.head_id)
            except KeyError:
                raise store.ConversationConflict(record.conversation_id) from None
        records = [Record(ENTRIES.dump_python(e, mode="json"), key=f"e:{e.id}") for e in entries]
        seqs = self._keep(record.conversation_id, [*records, Record(RECORDS.dump_python(record, mode="json"), key=RECORD)], kept)
        self._places.update(zip((e.id for e in entries), seqs, strict=False))

    def _forget(self, conversation_id: str, expected_revision: str) -> None:
        kept, standing = self._newest(conversation_id)
        if standing is None or standing.revision != expected_revision:
            raise store.ConversationConflict(conversation_id)
        self._keep(conversation_id, [Record(None, key=RECORD)], kept)

    def _keep(self, conversation: str, records: Sequence[Record], before: Kept | None) -> list[int]:
        try:
            seqs = self.session.keep(SPACE, f"c:{conversation}", records, after=before.seq if before else 0)
        except Conflict as conflict:
            raise store.ConversationConflict(conversation) from conflict
        if before:
            self.session.release(SPACE, [before.seq])
        return seqs

    def sweep(self) -> int:
        """Let go of the entries that no conversation reaches, neither its history nor a branch that it left. Returns how many.

        Call it while nobody forks: a fork that is made meanwhile may lose what it begins with.
        """
        reached: set[str] = set()
        for tip in [tip for record in self._all() for tip in (record.head_id, *record.branches)]:
            while tip is not None and tip not in reached:
                reached.add(tip)
                tip = self._entry(tip).parent_id
        going = [kept for kept in self.session.kept(SPACE) if kept.key.startswith("e:") and kept.key[2:] not in reached]
        self.session.release(SPACE, [kept.seq for kept in going])
        self._places.clear()
        return len(going)

    # --- what Pydantic AI calls: in a worker thread, so that no disk wait blocks the loop -----------------------------------

    async def read_record(self, conversation_id: str) -> store.ConversationRecord | None:
        return (await asyncio.to_thread(self._newest, conversation_id))[1]

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> list[store.ConversationRecord]:
        found = [record for record in await asyncio.to_thread(self._all) if scope is None or record.scope == scope]
        return sorted(found, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: store.ConversationRecord,
        *,
        new_entries: Sequence[store.ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        await asyncio.to_thread(self._write, record, new_entries, expected_revision)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        await asyncio.to_thread(self._forget, conversation_id, expected_revision)

    async def read_entry(self, entry_id: str) -> store.ConversationEntry:
        return await asyncio.to_thread(self._entry, entry_id)

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[store.ConversationEntry]:
        return await asyncio.to_thread(self._chain, head_id, limit)


def _record(kept: Kept) -> store.ConversationRecord | None:
    return None if kept.data is None else RECORDS.validate_json(to_json(kept.data))
