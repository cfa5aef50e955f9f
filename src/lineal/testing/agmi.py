"""lineal under the edits of `agent-memory-integrity` (`agmi`), a test suite for memory stores that were changed at rest.

The attacker has the store's file and everything in it, and neither the anchor, which lies elsewhere, nor lineal's code.
Run it as its authors mean it to be run: `agmi-check --adapter lineal.testing.agmi:LinealAdapter`.

An edit counts as refused only if opening or reading refuses it, which is what a running agent does: `verify` opens the store,
reads everything that an agent can read, and only then lets the full verification have its say.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
from agmi.adapters.base import MemoryAdapter, Record

from lineal import codec
from lineal.engines.sqlite_rows import SEQ_BITS
from lineal.errors import LinealError
from lineal.policy import Policy
from lineal.store import Store, connect

COLUMNS = ("kind", "generation", "size", "inner", "digest", '"unique"', "key1", "key2", "salt", "body")
FIRST, OTHER = "agent", "other"
POLICY = Policy(trigger=100_000, ceiling=200_000, target=50_000)


class LinealAdapter(MemoryAdapter):  # type: ignore[misc]  # it comes without types
    """A session in a SQLite file, with its anchor in another folder. A record is a row of the log."""

    name = "lineal"
    detection_point = "read"
    supports_replay = supports_metadata = supports_snapshot = True

    def setup(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="lineal-agmi-"))
        (self._folder / "data").mkdir()
        (self._folder / "elsewhere").mkdir()
        self._path = self._folder / "data" / "agent.db"

    def teardown(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _store(self) -> Store:
        return connect(self._path, anchor=self._folder / "elsewhere" / "anchor.json")

    def _append(self, session: str, ids: list[str]) -> None:
        with self._store() as store:
            messages = [{"role": "user", "content": f"what is remembered under {session} {id}"} for id in ids]
            store.session(session, POLICY).append(messages, id=ids)

    def seed(self, n: int) -> None:
        self._append(FIRST, [f"m{i}" for i in range(n)])

    def seed_other(self, n: int) -> None:
        self._append(OTHER, [f"o{i}" for i in range(n)])

    def append_genuine(self) -> None:
        self._append(FIRST, ["late"])

    # --- the file, behind lineal's back ------------------------------------------------------------------------------

    def _rows(self, session: str) -> list[Record]:
        with closing(apsw.Connection(str(self._path))) as db:
            place = self._place(db, session)
            found = db.execute(
                f"SELECT id, {', '.join(COLUMNS)} FROM entries WHERE id > ? AND id < ? ORDER BY id", (place, place + (1 << SEQ_BITS))
            )
            return [Record(int(str(id)) - place, {**dict(zip(COLUMNS, row, strict=True)), "session": session}) for id, *row in found]

    @staticmethod
    def _place(db: apsw.Connection, session: str) -> int:
        found = db.execute("SELECT id FROM sessions WHERE name = ?", (session.encode(),)).fetchall()
        return int(str(found[0][0])) << SEQ_BITS

    def read_all_raw(self) -> list[Record]:
        return self._rows(FIRST)

    def read_other_raw(self) -> list[Record]:
        return self._rows(OTHER)

    def write_raw(self, record: Record) -> None:
        with closing(apsw.Connection(str(self._path))) as db:
            values = (self._place(db, FIRST) + record.seq, *(record.fields[name] for name in COLUMNS))
            db.execute("DELETE FROM entries WHERE id = ?", (values[0],)).fetchall()
            insert = f"INSERT INTO entries(id, {', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(values))})"
            try:
                db.execute(insert, values).fetchall()
            except apsw.ConstraintError:  # another row has its unique key: an attacker leaves it out, so that nothing else is amiss
                without = COLUMNS.index('"unique"') + 1
                db.execute(insert, (*values[:without], None, *values[without + 1 :])).fetchall()

    def delete_raw(self, seq: int) -> None:
        with closing(apsw.Connection(str(self._path))) as db:
            db.execute("DELETE FROM entries WHERE id = ?", (self._place(db, FIRST) + seq,)).fetchall()

    def mutate_payload(self, record: Record) -> Record:
        fields = codec.from_json(record.fields["body"])
        fields["message"]["content"] += " [TAMPERED]"
        body = codec.to_json(fields)
        salt = record.fields["salt"]
        return Record(record.seq, {**record.fields, "body": body, "size": len(body), "inner": codec.digest(salt, body)})

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        mine = next(r for r in self._rows(FIRST) if r.seq == victim_seq)
        taken = {name: donor.fields[name] for name in ("body", "salt", "inner", "size")}
        self.write_raw(Record(victim_seq, {**mine.fields, **taken}))

    def read_meta(self, seq: int) -> dict[str, Any]:
        row = next(r for r in self._rows(FIRST) if r.seq == seq)
        return {"kind": row.fields["kind"].decode(), "generation": row.fields["generation"]}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        row = next(r for r in self._rows(FIRST) if r.seq == seq)
        self.write_raw(Record(seq, {**row.fields, "generation": int(meta["generation"]) + 1}))

    def snapshot_store(self) -> object:
        return self._copy_store(self._path)

    def restore_store(self, token: object) -> None:
        self._restore_store(token, self._path)

    # --- what the suite compares -------------------------------------------------------------------------------------

    def identity_of(self, record: Record) -> str:
        return f"{record.fields['session']}:{record.seq}"

    def payload_of(self, record: Record) -> str:
        """What was said, without the turn's own id, so that the same thing said in two places is the same."""
        return json.dumps(codec.from_json(record.fields["body"]), sort_keys=True)

    def owner_of(self, record: Record) -> str:
        return str(record.fields["session"])

    # --- lineal's answer ---------------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Nothing is held open between two steps: `verify` opens the store as a new process would."""

    def verify(self) -> bool:
        try:
            with self._store() as store:
                for name in store.sessions():
                    session = store.session(name, POLICY)
                    session.messages(), session.turns(), session.ledger(), session.checkpoints(), session.search("remembered")
                reports = store.verify()
        except LinealError as error:
            self.verify_detail = str(error).partition(". Way out")[0]
            return False
        if not reports.clean:
            self.verify_detail = f"only verify(): {reports[0].verdict.name} {reports[0].detail}"
        return reports.clean
