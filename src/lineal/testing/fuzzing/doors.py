"""The doors that need no file: bytes of entries and states, rows of a log, messages, arguments of the session's verbs."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from lineal import codec
from lineal.engines.memory import MemoryEngine
from lineal.entries import Unknown
from lineal.errors import LinealError
from lineal.holder import release
from lineal.lineage import Lineage
from lineal.messages import DIALECTS, convert, parse, stub, text_of
from lineal.session import Session
from lineal.session.outcomes import Compacted
from lineal.session.states import pack, unpack
from lineal.store import Store
from lineal.testing.fuzzing import Surface
from lineal.testing.fuzzing.mutations import STRINGS, as_bytes, changed, mutated, odd
from lineal.testing.fuzzing.reading import reading, unless_refused
from lineal.testing.fuzzing.samples import DIALOGUES, ENTRIES
from lineal.testing.lasting import Lasting
from lineal.testing.stories import FORK, NAME, POLICY, STORY, Tale, summarize


def told(until: str | None = None) -> MemoryEngine:
    """A memory engine in which the story was played, up to and with the step `until`; all of it if None."""
    engine = Lasting()
    names = [step.name for step in STORY]
    steps = STORY[: names.index(until) + 1] if until else STORY
    tale = Tale(engine, lambda: engine, lambda name: None)  # type: ignore[arg-type]
    tale.play(steps)
    release(tale.store.holder)
    return engine


# --- entries and states ------------------------------------------------------------------------------------------------


def _body(rng: Random) -> bytes:
    """An entry's bytes, changed as bytes or as JSON."""
    data = codec.encode(rng.choice(ENTRIES))
    return mutated(data, rng) if rng.randrange(3) == 0 else as_bytes(changed(codec.from_json(codec.head(data)), rng))


def _decoded(data: bytes, folder: Path) -> str:
    """What is taken is an entry that can be written again, and reads as the same then."""
    entry = codec.decode(data, "agent", 7)
    if isinstance(entry, Unknown):
        assert entry.raw == data, "an annotation of another program is carried byte for byte"
        return "carried"
    assert codec.decode(codec.encode(entry)) == entry, "it reads otherwise once it was written again"
    return "taken"


@cache
def _lineage() -> Lineage:
    return Store(told("roll back")).session(NAME, POLICY, summarize).log.lineage


def _state(rng: Random) -> bytes:
    """A state's bytes, changed on the outside, or inside with a digest that is right again."""
    data = pack(_lineage())
    if rng.randrange(3) == 0:
        return mutated(data, rng)
    body = as_bytes(changed(codec.from_json(zlib.decompress(data[32:])), rng, 0.02))
    if rng.randrange(100) == 0:
        body = rng.choice((b"[", b" ", b"0")) * 300_000_000
    return codec.digest(body) + zlib.compress(body, 9 if len(body) > 1_000_000 else 1)


def _unpacked(data: bytes, folder: Path) -> str:
    lineage = unpack(data)
    if lineage is None:
        return "passed over"
    assert unpack(pack(lineage)) == lineage, "it reads otherwise once it was packed again"
    return "taken"


# --- rows of a log -----------------------------------------------------------------------------------------------------


def _rows(rng: Random) -> list[tuple[str, bytes]]:
    """Bodies that follow a sound log under sound digests: what a faulty writer could have written."""
    found = []
    for _ in range(rng.randint(1, 4)):
        entry = rng.choice(ENTRIES)
        value = codec.from_json(codec.head(codec.encode(entry)))
        found.append((codec.kind_of(entry), as_bytes(changed(value, rng, rng.choice((0.0, 0.02, 0.1))))))
    return found


def _read_on(bodies: list[tuple[str, bytes]], folder: Path) -> str:
    """Opened, read, verified: each time an answer, or a refusal by name."""
    engine = told("spill")
    lineage = Store(engine).session(NAME, POLICY, summarize).log.lineage
    head, before = lineage.head, bytes.fromhex(lineage.digest)
    for kind, body in bodies:
        row = codec.seal(before, head + 1, 1, Unknown(name=kind, raw=body), b"s" * 16, lineage.branch)
        engine.append(NAME, head, [row])
        head, before = head + 1, row.digest
    store = Store(engine)
    outcome = unless_refused(store.verify, "verified")
    return f"{outcome}, {unless_refused(lambda: reading(store.session(NAME, POLICY, summarize)), 'read')}"


# --- messages ----------------------------------------------------------------------------------------------------------


def _messages(rng: Random) -> tuple[list[Any], dict[str, Any]]:
    """A run of messages, changed; the author and the limit that are given with it."""
    base = [*DIALOGUES[rng.choice([*DIALOGUES])]]
    if rng.randrange(4) == 0:
        base = [m for m in [*base, *DIALOGUES[rng.choice([*DIALOGUES])]] if rng.random() < 0.7]
    given = changed(base, rng, rng.choice((0.0, 0.02, 0.06, 0.2)))
    return (given if isinstance(given, list) else [given]), {"limit": rng.choice((256, 300, 10_000)), "turn": rng.random()}


def _said(given: tuple[list[Any], dict[str, Any]], folder: Path) -> str:
    """Each message is refused by name or comes back exactly; what is shown can be shown in every dialect."""
    run, chosen = given
    session = Store(MemoryEngine()).session(NAME, POLICY, summarize)
    session.policy = dataclasses.replace(session.policy, stub_bytes=chosen["limit"])
    taken = []
    for message in run:
        try:
            turn = session.append(message) if not isinstance(message, list) else session.append([message])[0]
        except LinealError as refusal:
            assert str(refusal)
            continue
        assert codec.to_json(turn.message) == codec.to_json(message), "it did not come back as it went in"
        taken.append(message)
    turns = session.turns()
    assert [codec.to_json(t.message) for t in turns] == [codec.to_json(m) for m in taken], "the log holds something else"
    for message in taken:
        parse(message)
        text_of(message)
        stub(message, chosen["limit"], "t:x")
    outcome = session.compact() if chosen["turn"] < 0.5 else None
    for dialect in (None, *DIALECTS):
        codec.to_json(session.messages(dialect))
        codec.to_json(convert(taken, dialect) if dialect else taken)
    assert session.verify().clean
    return f"{len(taken) and 'some taken'}{', compacted' if isinstance(outcome, Compacted) else ''}"


# --- the session's verbs -----------------------------------------------------------------------------------------------

Verb = Callable[[Session, Random], Any]


def _effect(session: Session, rng: Random) -> Any:
    with session.effect(_name(rng), odd(rng), key=rng.choice((None, None, _name(rng))), call=rng.choice((None, _name(rng)))) as effect:
        if effect.pending and rng.random() < 0.3:
            effect.attach(_name(rng))
        if effect.pending:
            effect.settle(odd(rng)) if rng.random() < 0.5 else effect.no_effect(_name(rng))
    return effect.result


def _name(rng: Random) -> Any:
    """A text, known here or not; now and then no text at all."""
    known = ("u1", "a1", "k1", "cp9", "g1", "t:u1", "before", "deploy:1", "mail:1", FORK, "never touch the main branch")
    return odd(rng) if rng.randrange(3) == 0 else rng.choice(known if rng.randrange(2) else STRINGS)


def _names(rng: Random) -> Any:
    return _name(rng) if rng.randrange(4) == 0 else [_name(rng) for _ in range(rng.randrange(3))]


VERBS: dict[str, Verb] = {
    "append": lambda s, r: s.append(odd(r), id=_name(r), author=_name(r)),
    "append a message": lambda s, r: s.append(changed(r.choice(DIALOGUES["openai"]), r), id=_name(r), author=_name(r)),
    "append a list": lambda s, r: s.append([changed(m, r, 0.02) for m in DIALOGUES["anthropic"][:2]], id=odd(r), author=_name(r)),
    "save": lambda s, r: s.save(changed([*s.messages(), odd(r)], r, 0.02)),
    "messages": lambda s, r: s.messages(_name(r)),
    "turns": lambda s, r: s.turns(odd(r), odd(r)),
    "record_usage": lambda s, r: s.record_usage(odd(r), odd(r)),
    "compact": lambda s, r: s.compact(lambda request: odd(r), request_id=_name(r)),
    "commit": lambda s, r: s.commit_compaction(s.plan_compaction(_name(r)), odd(r)),
    "spill": lambda s, r: s.spill(_names(r)),
    "note_eviction": lambda s, r: s.note_eviction(_names(r), by=_name(r)),
    "close_calls": lambda s, r: s.close_calls(_names(r)),
    "pin": lambda s, r: s.pin(_name(r)),
    "unpin": lambda s, r: s.unpin(_name(r)),
    "checkpoint": lambda s, r: s.checkpoint(_name(r)),
    "rollback": lambda s, r: s.rollback(_name(r) if r.randrange(2) else r.choice((0, 1, 5, 9, 10**30, -1)), r.random() < 0.3, odd(r)),
    "fork": lambda s, r: s.fork(_name(r), at=r.choice((None, _name(r), 3))),
    "effect": _effect,
    "resolve_effect": lambda s, r: s.resolve_effect(_name(r), r.choice(("happened", _name(r))), _name(r)),
    "expand": lambda s, r: s.expand(_name(r)),
    "search": lambda s, r: s.search(_name(r), r.choice((1, 5, odd(r)))),
    "prune": lambda s, r: s.prune(odd(r), odd(r), r.random() < 0.5),
    "pack": lambda s, r: s.pack(odd(r), r.random() < 0.5),
    "purge": lambda s, r: s.purge(_names(r), r.random() < 0.5),
}


def _asked(rng: Random) -> int:
    return rng.randrange(2**32)


def _verbs(seed: int, folder: Path) -> str:
    """Odd arguments for a few verbs: refused by name, or done; and the session is sound behind them."""
    rng = Random(seed)
    session = Store(told("second checkpoint")).session(NAME, POLICY, summarize)
    used = []
    for _ in range(4):
        verb = rng.choice([*VERBS])
        try:
            VERBS[verb](session, rng)
        except LinealError as refusal:
            assert str(refusal)
            continue
        used.append(verb)
    reports = [r for r in session.verify() if not r.clean and r.verdict.name != "COMPACTION_IN_PROGRESS"]
    assert not reports, f"after {used}: {reports[0].detail}"
    reading(session)
    return "some done" if used else "all refused"


DOORS: tuple[Surface, ...] = (
    Surface("entries", _body, _decoded),
    Surface("states", _state, _unpacked),
    Surface("rows", _rows, _read_on),
    Surface("messages", _messages, _said),
    Surface("verbs", _asked, _verbs),
)
