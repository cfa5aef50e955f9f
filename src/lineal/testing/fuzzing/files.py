"""The doors that read files: transcripts, anchors, stores, and the command line with whatever words it is given."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import apsw
import click
from click.testing import CliRunner

from lineal import audit, transcripts
from lineal.engines import open_engine
from lineal.engines.memory import MemoryEngine
from lineal.errors import LinealError, PolicyError, Unavailable
from lineal.importing import import_transcript
from lineal.store import Store, connect
from lineal.testing.faults import FaultyEngine
from lineal.testing.fuzzing import Surface
from lineal.testing.fuzzing.mutations import STRINGS, TOKENS, changed, lines_of, mutated
from lineal.testing.fuzzing.reading import reading, unless_refused
from lineal.testing.fuzzing.samples import TRANSCRIPTS
from lineal.testing.stories import NAME, POLICY, SHORT, STORY, Tale, summarize

# --- transcripts -------------------------------------------------------------------------------------------------------


def transcript(rng: Random) -> bytes:
    """A transcript of some format: its records changed as JSON, its bytes changed, both, or glued from two."""
    values = TRANSCRIPTS[rng.choice([*TRANSCRIPTS])]
    if rng.randrange(12) == 0:
        values = [*values, *TRANSCRIPTS[rng.choice([*TRANSCRIPTS])]]
    rate = rng.choice((0.0, 0.01, 0.03, 0.1))
    data = lines_of([changed(value, rng, rate) for value in values], rng)
    match rng.randrange(8):
        case 0:
            return gzip.compress(data, mtime=0)
        case 1:
            return rng.choice(TOKENS) * rng.choice((1, 100, 3_000))
        case 2 | 3 | 4:
            return mutated(data, rng)
        case _:
            return data


def _read(data: bytes, folder: Path) -> str:
    """Every reader, the audit and the import: items, or a refusal by name. What is counted adds up; twice gives the same."""
    path = folder / "session.jsonl"
    path.write_bytes(data)
    outcome = unless_refused(lambda: transcripts.detect(path), "detected")
    for format in transcripts.FORMATS:
        try:
            tally: Counter[str] = Counter()
            items = list(transcripts.read(path, format, None, tally))
        except (PolicyError, Unavailable) as refusal:
            assert str(refusal)
            continue
        assert items == list(transcripts.read(path, format)), "a second reading gives something else"
        for item in items:
            assert not isinstance(item, transcripts.Damage) or _stands_in(data, item), f"line {item.line}: no such bytes at {item.offset}"
    if outcome == "detected":
        for chat, _ in enumerate(transcripts.conversations(path)):
            _imported(path, chat)
        audit.render_html([audit.audit(path)])
    return outcome


def _stands_in(data: bytes, item: transcripts.Damage) -> bool:
    return item.offset == transcripts.NOWHERE or data[item.offset : item.offset + len(item.raw)] == item.raw


def _imported(path: Path, chat: int) -> None:
    """A second import adds nothing, and what was taken is sound. Conversations beyond the first have a policy of their own."""
    session = Store(MemoryEngine()).session(NAME, POLICY, summarize)
    try:
        import_transcript(session, path, None, chat, ("Edit", "Bash(git*)", "exec_command(*)", "tide"), compact=chat == 0)
    except LinealError as refusal:
        assert str(refusal)
        return
    head = session.status().head
    again = import_transcript(session, path, None, chat, ("Edit", "Bash(git*)", "exec_command(*)", "tide"), compact=False)
    assert again.turns == again.effects == 0 and (chat == 0 or session.status().head == head), "a second import added something"
    assert session.verify().clean


# --- anchors -----------------------------------------------------------------------------------------------------------


def _anchor(rng: Random) -> bytes:
    sound = {NAME: [9, "ab" * 32, 0], "other": [1, "cd" * 32, 2]}
    match rng.randrange(4):
        case 0:
            return mutated(json.dumps(sound).encode(), rng)
        case 1:
            return rng.choice(TOKENS) * rng.choice((1, 3, 1_000))
        case _:
            return lines_of([changed(sound, rng, 0.2)], rng)


def _anchored(data: bytes, folder: Path) -> str:
    """An anchor that is none is refused, and left as it was; one that is asks for what it remembers."""
    path = folder / "anchor.json"
    path.write_bytes(data)
    store = Store(MemoryEngine(), path)

    def use() -> None:
        store.verify()
        store.session(NAME, POLICY, summarize).append({"role": "user", "content": "hello"})

    outcome = unless_refused(use, "taken")
    assert outcome == "taken" or path.read_bytes() == data, "a refused anchor was changed"
    return outcome


# --- stores ------------------------------------------------------------------------------------------------------------


PAGE = 4096
BY_KEY = {"checkpoints", "behind handles"}  # what of a reading is found by key alone


@dataclass(frozen=True)
class Master:
    """A sound store as bytes, and what every session in it reads as. `wal` is its -wal file, `anchor` its anchor.

    `index_pages`: numbers of the pages that only say where the rows of a key lie.
    """

    data: bytes
    wal: bytes
    anchor: bytes
    readings: dict[str, Any]
    index_pages: frozenset[int]


@cache
def master(kind: str) -> Master:
    """`closed`: the whole story; `open`: the story's beginning, while its -wal file still holds it; `sealed`: with page checksums."""
    with tempfile.TemporaryDirectory() as folder:
        path, anchor = Path(folder, "agent.db"), Path(folder, "anchor.json")
        url = f"{path}?checksums=1" if kind == "sealed" else str(path)
        tale = Tale(FaultyEngine(open_engine(url)), lambda: open_engine(str(path)), lambda name: None, str(anchor))
        steps = SHORT if kind == "open" else STORY
        tale.play(steps)
        wal = path.with_name("agent.db-wal")
        data, kept = path.read_bytes(), wal.read_bytes() if wal.exists() else b""
        tale.store.close()
        with connect(path) as store:
            readings = {name: reading(store.session(name, POLICY, summarize)) for name in store.sessions()}
        with closing(apsw.Connection(str(path))) as db:
            pages: list[Any] = db.execute("SELECT pageno FROM dbstat WHERE name LIKE 'entries_%'").fetchall()
        return Master(data, kept, anchor.read_bytes(), readings, frozenset(page for (page,) in pages))


@dataclass(frozen=True)
class Damaged:
    kind: str
    data: bytes
    wal: bytes
    anchor: bool

    def touches(self, pages: frozenset[int], whole: bytes) -> bool:
        return any(self.data[(p - 1) * PAGE : p * PAGE] != whole[(p - 1) * PAGE : p * PAGE] for p in pages)


def _damaged(rng: Random) -> Damaged:
    """A store with one bit flipped, changed, cut, of random bytes, beside a -wal file that was changed or is another's."""
    kind = rng.choice(
        ("flip", "flip", "flip", "sealed", "changed", "cut", "random", "wal changed", "wal cut", "wal of another", "swapped pages")
    )
    whole = master("open" if kind.startswith("wal") else "sealed" if kind == "sealed" else "closed")
    data, wal = bytearray(whole.data), whole.wal
    match kind:
        case "flip" | "sealed":
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case "changed":
            data = bytearray(mutated(whole.data, rng))
        case "cut":
            del data[rng.randrange(len(data)) :]
        case "random":
            data = bytearray(rng.choice((b"", b"SQLite format 3\0", whole.data[:100])) + rng.randbytes(rng.choice((1, 99, 5_000))))
        case "swapped pages":
            a, b = (rng.randrange(len(data) // PAGE) * PAGE for _ in "ab")
            data[a : a + PAGE], data[b : b + PAGE] = data[b : b + PAGE], data[a : a + PAGE]
        case "wal changed":
            wal = mutated(wal, rng)
        case "wal cut":
            wal = wal[: rng.randrange(len(wal))]
        case "wal of another":
            data = bytearray(master("closed").data)
    return Damaged(kind, bytes(data), wal, anchor=kind not in ("sealed", "cut", "random"))


def _opened(damaged: Damaged, folder: Path) -> str:
    """Exactly the true answers, or a refusal by name; never clean where an answer is refused.

    Read beside its anchor: where exactly the rows behind the newest state are gone, nothing else tells (R60). With page
    checksums no flipped bit needs one. One exception, without page checksums: where an index of keys is damaged, what is
    found by key may lack a row. Then `verify` says so.
    """
    whole = master("open" if damaged.kind in ("wal changed", "wal cut") else "sealed" if damaged.kind == "sealed" else "closed")
    path, anchor = folder / "agent.db", folder / "anchor.json"
    path.write_bytes(damaged.data)
    if damaged.wal:
        path.with_name("agent.db-wal").write_bytes(damaged.wal)
    anchor.write_bytes(whole.anchor)
    lame = damaged.kind != "sealed" and damaged.touches(whole.index_pages, whole.data)
    outcomes = {*_answers(path, anchor if damaged.anchor else None, whole, lame)}
    worst = next(
        (o for o in ("lacking", "refused") if o in outcomes and "true" not in outcomes), "in part" if outcomes != {"true"} else "true"
    )
    return f"{damaged.kind}: {worst}"


def _answers(path: Path, anchor: Path | None, whole: Master, lame: bool) -> Iterator[str]:
    verified = unless_refused(lambda: _clean(path, anchor), "clean")
    for name, expected in whole.readings.items():
        try:
            with connect(path, anchor, create=False) as store:
                found = store.sessions()
                answer = reading(store.session(name, POLICY, summarize))
        except LinealError as refusal:
            assert str(refusal)
            assert verified != "clean", f"verified as clean, but {name!r} is refused: {refusal}"
            yield "refused"
            continue
        wrong = [key for key in expected if answer[key] != expected[key]]
        if lame and wrong and verified != "clean" and {*wrong} <= BY_KEY:
            yield "lacking"
            continue
        assert not wrong, f"{name!r} reads otherwise: {wrong} (verify: {verified})"
        assert found == [*whole.readings] or anchor and verified != "clean", f"sessions are {found} (verify: {verified})"
        yield "true"


class NotClean(LinealError):
    """What `verify` says without raising."""


def _clean(path: Path, anchor: Path | None) -> None:
    with connect(path, anchor, create=False) as store:
        damage = [r for r in store.verify() if not r.clean and r.verdict.name != "COMPACTION_IN_PROGRESS"]
    if damage:
        raise NotClean(damage[0].detail or damage[0].verdict.name)


# --- commands ----------------------------------------------------------------------------------------------------------


def _commands() -> dict[str, click.Command]:
    from lineal.cli import cli

    found: dict[str, click.Command] = {}
    for name, command in cli.commands.items():
        inner = command.commands if isinstance(command, click.Group) else {"": command}
        found.update({f"{name} {sub}".strip(): held for sub, held in inner.items()})
    return {name: held for name, held in found.items() if name not in ("demo", "doctor")}  # these try the disk: each takes seconds


def _words(rng: Random) -> tuple[list[str], bytes]:
    """A command with arguments and options, known ones and odd ones; and what a transcript beside the store holds."""
    known = _commands()
    name = rng.choice([*known])
    words = name.split()
    for parameter in known[name].params:
        if isinstance(parameter, click.Argument):
            words += [_word(rng, parameter) for _ in range(rng.choice((1, 1, 1, 1, 2) if parameter.nargs == -1 else (1, 1, 1, 1, 1, 1, 0)))]
        elif rng.random() < (0.8 if parameter.name == "name" else 0.2):
            option = rng.choice(parameter.opts)
            words += [option] if getattr(parameter, "is_flag", False) else [option, _word(rng, parameter)]
    if rng.randrange(3) == 0:
        words.append("--json")
    if rng.randrange(20) == 0:
        words.insert(rng.randrange(len(words) + 1), rng.choice(STRINGS)[:2_000])
    return [word for word in words if _sayable(word)], transcript(rng)


def _sayable(word: str) -> bool:
    """Whether a shell could hand it over."""
    try:
        return b"\0" not in os.fsencode(word)
    except UnicodeEncodeError:
        return False


def _word(rng: Random, parameter: click.Parameter) -> str:
    """Mostly what the parameter is for: a place, a choice, a number; else anything."""
    if rng.randrange(6) == 0:
        return rng.choice(STRINGS)[:2_000]
    if isinstance(parameter.type, click.Choice):
        return str(rng.choice([*parameter.type.choices]))
    if isinstance(parameter.type, click.types.IntParamType):
        return rng.choice(("0", "1", "5", "999", "-1", "1e3", "9" * 30))
    name = str(parameter.name)
    places = {
        "store": (
            "STORE",
            "STORE",
            "STORE",
            "STORE",
            "ANCHOR",
            "TRANSCRIPT",
            "FOLDER",
            "STORE",
            "STORE",
            "absent.db",
            "memory:",
            "x:y",
            "STORE?wait=-1",
        ),
        "url": (
            "STORE",
            "STORE",
            "STORE",
            "FOLDER",
            "TRANSCRIPT",
            "absent.db",
            "rocksdb:.",
            "cassandra:.",
            "postgresql://127.0.0.1:1/x",
            "x:y",
        ),
        "manifest": ("new.guard", "new.guard", "STORE", "FOLDER", "ANCHOR"),
        "file": ("new.guard", "STORE", "FOLDER", "absent"),
        "table": ("entries", "entries", "sessions", "nobody"),
        "ids": ("session", "seq", "new.jsonl", "FOLDER"),
        "transcript": ("TRANSCRIPT", "TRANSCRIPT", "TRANSCRIPT", "STORE", "FOLDER", "absent"),
        "paths": ("TRANSCRIPT", "TRANSCRIPT", "FOLDER", "absent"),
        "anchor": ("ANCHOR", "STORE", "FOLDER", "absent/x", "new.json"),
        "output": ("new.jsonl", "STORE", "FOLDER", "absent/x"),
        "html": ("new.html", "FOLDER", "absent/x"),
        "name": (NAME, NAME, NAME, "what-if", "nobody"),
    }
    return rng.choice(places.get(name, ("u1", "a1", "g1", "cp9", "before", "deploy:1", "mail:1", "turn", "claude_code", "5", "plan")))


def _invoked(given: tuple[list[str], bytes], folder: Path) -> str:
    """An exit code that is one of the six, no traceback, and with --json one document, whatever comes."""
    from lineal.cli import cli

    words, data = given
    whole = master("closed")
    places = {"STORE": folder / "agent.db", "ANCHOR": folder / "anchor.json", "TRANSCRIPT": folder / "session.jsonl", "FOLDER": folder}
    for path, content in zip(places.values(), (whole.data, whole.anchor, data), strict=False):
        path.write_bytes(content)
    result = CliRunner().invoke(cli, [_placed(word, places) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in range(6), f"exit code {result.exit_code}"
    if "--json" in words and "--help" not in words and "-h" not in words:
        json.loads(result.stdout)
    assert result.exit_code == 0 or result.output, "it failed and said nothing"
    return f"{words[0]}: {result.exit_code}"


def _placed(word: str, places: dict[str, Path]) -> str:
    base, mark, query = word.partition("?")
    return f"{places[base]}{mark}{query}" if base in places else word


FILES: tuple[Surface, ...] = (
    Surface("transcripts", transcript, _read),
    Surface("anchors", _anchor, _anchored),
    Surface("stores", _damaged, _opened),
    Surface("commands", _words, _invoked),
)
