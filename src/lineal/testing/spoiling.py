"""What a SQLite store keeps beside its rows, changed at rest: states, latches, names, indexes, marks, the file as a whole.

None of it is in the chain. So each of these must be noticed by who opens or reads, or do no harm: every answer stays true,
as it does when a damaged state is passed over. A row that only the index lost must not pass for one that never was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from lineal.engines.sqlite_rows import INDEXES, SEQ_MASK
from lineal.errors import Corrupt, LinealError, Refused, Unavailable
from lineal.testing.lived import Kept, lived
from lineal.testing.scripts.places import InFile
from lineal.testing.stories import POLICY, summarize, user
from lineal.testing.tally import Tally
from lineal.testing.tampering import Answers, Truth, answers, begun_again, false, truths

Spoil = Callable[[Path], None]


def run(path: Path, *statements: str) -> list[Any]:
    """Statements on the file, behind lineal's back; what the last of them gives."""
    with closing(apsw.Connection(str(path))) as db:
        return [db.execute(statement).fetchall() for statement in statements][-1]


def _told(*statements: str) -> Spoil:
    def spoil(path: Path) -> None:
        run(path, *statements)

    return spoil


def lose_in_index(path: Path, row: int) -> None:
    """The row with this id stays, and no index knows of it: taken out with them, and put back while they are hidden."""
    hidden = "type = 'index' AND tbl_name = 'entries'"
    columns = 'id, kind, generation, size, inner, digest, "unique", key1, key2, salt, body'
    run(
        path,
        "CREATE TABLE aside(a, b, c, d, e)",
        f"CREATE TABLE taken AS SELECT {columns} FROM entries WHERE id = {row}",
        f"DELETE FROM entries WHERE id = {row}",
        "PRAGMA writable_schema = ON",
        f"INSERT INTO aside SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema WHERE {hidden}",
        f"DELETE FROM sqlite_schema WHERE {hidden}",
    )
    run(
        path,
        f"INSERT INTO entries({columns}) SELECT {columns} FROM taken",
        "PRAGMA writable_schema = ON",
        "INSERT INTO sqlite_schema SELECT * FROM aside",
    )
    run(path, "DROP TABLE aside", "DROP TABLE taken")


def _states(path: Path) -> Iterator[tuple[str, Spoil]]:
    """Each state in each way; and all states of each session."""
    states = [id for (id,) in run(path, "SELECT id FROM states ORDER BY id")]
    for n, id in enumerate(states):
        other, here = states[n - 1], f"at {id & SEQ_MASK} of session {id >> 36}"
        yield f"a state with another bit {here}", _told(f"UPDATE states SET data = CAST(data || x'01' AS BLOB) WHERE id = {id}")
        yield (
            f"a state with another digest {here}",
            _told(f"UPDATE states SET data = CAST(zeroblob(32) || substr(data, 33) AS BLOB) WHERE id = {id}"),
        )
        yield f"a state cut short {here}", _told(f"UPDATE states SET data = substr(data, 1, 40) WHERE id = {id}")
        yield f"a state emptied {here}", _told(f"UPDATE states SET data = x'' WHERE id = {id}")
        yield f"a state gone {here}", _told(f"DELETE FROM states WHERE id = {id}")
        taken = f"(SELECT s.data FROM states s WHERE s.id = {other})"
        yield f"another state in place of the one {here}", _told(f"UPDATE states SET data = {taken} WHERE id = {id}")
    for session in {id >> 36 for id in states}:
        yield f"no states of session {session}", _told(f"DELETE FROM states WHERE id >> 36 = {session}")


def _names(path: Path) -> Iterator[tuple[str, Spoil]]:
    for id, _ in run(path, "SELECT id, name FROM sessions"):
        yield f"a latch that nobody set on session {id}", _told(f"UPDATE sessions SET latched = x'6e6f' WHERE id = {id}")
        yield f"another name for session {id}", _told(f"UPDATE sessions SET name = x'6e6f' WHERE id = {id}")
        yield f"no name for session {id}", _told(f"DELETE FROM sessions WHERE id = {id}")
        yield f"another number for session {id}", _told(f"UPDATE sessions SET id = id + 100 WHERE id = {id}")
        yield f"the names exchanged for session {id} and another", _swapped(id)


def _swapped(id: int) -> Spoil:
    """Its name and the next one's, exchanged."""
    other = f"(SELECT id FROM sessions WHERE id <> {id} ORDER BY id LIMIT 1)"

    def spoil(path: Path) -> None:
        ((mine,),), ((next_id, theirs),) = (
            run(path, f"SELECT name FROM sessions WHERE id = {id}"),
            run(path, f"SELECT id, name FROM sessions WHERE id = {other}"),
        )
        with closing(apsw.Connection(str(path))) as db:
            for name, at in ((b"\0", id), (mine, next_id), (theirs, id)):
                db.execute("UPDATE sessions SET name = ? WHERE id = ?", (name, at)).fetchall()

    return spoil


def _marks(path: Path) -> Iterator[tuple[str, Spoil]]:
    yield "an older format", _told("PRAGMA user_version = 0")
    yield "a newer format", _told("PRAGMA user_version = 2")
    yield "another program's mark", _told("PRAGMA application_id = 7")
    for table in ("sessions", "entries", "states"):
        yield f"no table {table}", _told(f"DROP TABLE {table}")
    for name in sorted(INDEXES):
        yield f"no index {name}", _told(f"DROP INDEX {name}")
        empty = f'CREATE INDEX {name} ON entries("unique", key1, key2) WHERE 0'
        yield f"an index {name} of nothing", _told(f"DROP INDEX {name}", empty)
    yield "a trigger on what is written", _told("CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries WHERE id = new.id; END")
    yield "no bytes", lambda file: _empty(file)


def _empty(path: Path) -> None:
    for left in path.parent.glob(f"{path.name}-*"):
        left.unlink()
    path.write_bytes(b"")


def _indexed(path: Path) -> Iterator[tuple[str, Spoil]]:
    """Each row that can be looked up, lost by the indexes."""
    for id, kind in run(path, "SELECT id, kind FROM entries WHERE key1 IS NOT NULL AND length(body) > 0 ORDER BY id"):
        if kind != b"turn":
            here = f"at {id & SEQ_MASK} of session {id >> 36} ({kind.decode()})"
            yield f"a row lost by the index {here}", partial(lose_in_index, row=id)


def spoils(path: Path) -> list[tuple[str, Spoil]]:
    return [*_states(path), *_names(path), *_marks(path), *_indexed(path)]


def campaign(folder: Path, progress: Callable[[int, int], None] | None = None, every: int = 1) -> Tally:
    """All of it (or each `every`-th), each on a copy of a store that was lived in; and an older copy of the whole file."""
    place = InFile(folder / "spoiled.db")
    kept = lived(place)
    known, cases = truths(kept), spoils(place.path)[::every]
    tally = _older(kept, known)
    for n, (name, spoil) in enumerate(cases, 1):
        tally += one(kept, known, name, spoil)
        if progress:
            progress(n, len(cases))
    return tally


def one(kept: Kept, known: dict[str, Truth], name: str, spoil: Spoil) -> Tally:
    read, acted = kept.copy(), kept.copy()
    for copy in (read, acted):
        spoil(_path(copy))
    tally = _judged(read, acted, known, name)
    read.forget()
    acted.forget()
    return tally


def _older(kept: Kept, known: dict[str, Truth]) -> Tally:
    """An older copy of the whole file, put back where an anchor knows better."""
    newer = kept.copy()
    newer.ask(lambda store: [store.session(name, POLICY, summarize).append(user(99), id="later") for name in store.sessions()])
    older = kept.copy()
    older.anchor = newer.anchor
    tally = _judged(older, older, known, "an older copy of the whole file")
    for copy in (newer, older):
        copy.forget()
    if tally.states["noticed"] != 1:
        tally.undetected.append("an older copy of the whole file is read as the newest")
    return tally


def _path(kept: Kept) -> Path:
    assert isinstance(kept.place, InFile)
    return kept.place.path


def _judged(read: Kept, acted: Kept, known: dict[str, Truth], name: str) -> Tally:
    tally = Tally(runs=1)
    kind = name.partition(" at ")[0].partition(" of session")[0].partition(" for session")[0].partition(" on session")[0]
    tally.faults[kind] += 1
    noticed = False
    for session, truth in known.items():
        found = {**_asked(read, partial(answers, name=session)), **_asked(acted, partial(begun_again, name=session, ledger=truth.ledger))}
        wrong = [*false({q: a for q, a in found.items() if q != "door"}, {**truth.answers, **truth.effects})]
        tally.undetected += [f"{name}: in {session}, {sentence}" for sentence in wrong]
        noticed = noticed or any(isinstance(answer, Corrupt | Unavailable) or _latched(answer) for answer in found.values())
    if not noticed and not _asked(read, lambda store: {"damaged": store.verify().damaged}).get("damaged", True):
        tally.states["did no harm: every answer is true"] += 1
    else:
        tally.states["noticed" if noticed else "named by verify() only, and every answer is true"] += 1
    return tally


def _latched(answer: Any) -> bool:
    return isinstance(answer, Refused) and answer.reason == "latched"


def _asked(kept: Kept, question: Callable[[Any], Answers]) -> Answers:
    """The answers; or, where the door stays shut, only that."""
    try:
        return kept.ask(question)  # type: ignore[no-any-return]
    except LinealError as error:
        return {"door": error}
