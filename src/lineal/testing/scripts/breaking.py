"""Verbs that break something: calls that fail, processes killed at each write, rows damaged at rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from lineal import codec
from lineal.engines import Row
from lineal.entries import Unknown
from lineal.holder import release
from lineal.testing.scripts.language import Command, ScriptError, parse
from lineal.testing.scripts.places import Aimed, Place
from lineal.testing.scripts.verbs import VERBS, number, rest_of, verb, word
from lineal.testing.scripts.world import World
from lineal.testing.stories import portrait


class Killed(BaseException):
    """The process ends here: nothing of it runs any more, not even what tidies up after an error."""


@verb(
    "failing write|read N [after] COMMAND",
    "the N-th write or read of the command fails; with `after` it was carried out and the answer is lost; prints what the command says",
)
def failing(world: World, command: Command) -> Iterable[str]:
    engine = world.hand(command.handle).engine
    inner = _aimed(engine, command, None)
    try:
        lines = world.carry_out(world, inner)
        _refuse_a_miss(engine, command)
        return lines
    finally:
        engine.heal()


@verb("killed write|read N [after] COMMAND", "the process is killed at the N-th write or read of the command; another one opens the store")
def killed(world: World, command: Command) -> Iterable[str]:
    engine = world.hand(command.handle).engine
    inner = _aimed(engine, command, Killed())
    try:
        world.carry_out(world, inner)
        _refuse_a_miss(engine, command)
    except Killed:
        engine.heal()
        world.leave(command.handle, crash=True)
        world.session(command.handle)
    return ["killed"]


def _aimed(engine: Aimed, command: Command, error: BaseException | None) -> Command:
    """Have the engine fail as the command says. Returns the command inside it."""
    at, n = word(command, 0, "write or read"), word(command, 1, "number of the call")
    if at not in ("write", "read") or not n.isdigit():
        raise ScriptError(f"{command.text!r}: {VERBS[command.verb].usage}")
    after = command.words[2:3] == ["after"]
    inner = parse(f"{command.handle + ': ' if command.handle else ''}{rest_of(command, 3 if after else 2)}", command.line)
    engine.aim("write" if at == "write" else "read", int(n), error, "after" if after else "before")
    return inner


def _refuse_a_miss(engine: Aimed, command: Command) -> None:
    if not engine.struck:
        raise ScriptError(f"{command.text!r}: it went through, there was no {' '.join(command.words[:2])} in it")


# --- killed everywhere -----------------------------------------------------------------------------------------------


@verb(
    "everywhere COMMAND",
    "on copies of the store, kill the process before each write of the command and after its last one; prints what is found there, "
    "in order: the old state, the new one, or one `between` (`stuck`: doing it again does not lead to the new one; "
    "`unsound`: one cannot recover, append and verify there)",
)
def everywhere(world: World, command: Command) -> Iterable[str]:
    inner = parse(rest_of(command), command.line)
    before, whole = _seen(world.place), world.place.copy()
    writes = _played(world, whole, inner, Aimed.heal)
    if not writes:
        raise ScriptError(f"{command.text!r}: it writes nothing")
    after = _seen(whole)
    found, order = Counter[str](), list[str]()
    for n in range(1, writes + 2):
        cut = world.place.copy()
        _played(
            world, cut, inner, partial(Aimed.aim, at="write", n=min(n, writes), error=Killed(), when="after" if n > writes else "before")
        )
        now = _seen(cut)
        state = "old" if now == before else "new" if now == after else "between"
        order += [] if order[-1:] == [state] else [state]
        found[state] += 1
        if state == "between":
            again = cut.copy()
            _played(world, again, inner, Aimed.heal)
            found["stuck"] += _seen(again) != after
        found["unsound"] += _unsound(world, cut)
    world.last = found
    wrong = [f"{found[name]} {name}" for name in ("stuck", "unsound") if found[name]]
    return [f"killed at each write: {', then '.join(order)}" + (f"; {', '.join(wrong)}" if wrong else "")]


def _seen(place: Place) -> Any:
    return portrait(place.open())["seen"]


def _apart(world: World, place: Place) -> World:
    """A world of its own on that place, with no oracle."""
    apart = World(place, world.carry_out, world.policy, world.clock, current=world.current, summarizer=world.summarizer)
    apart.checkpoints, apart.watched = world.checkpoints, False
    apart.session("")
    return apart


def _played(world: World, place: Place, command: Command, prepare: Callable[[Aimed], None]) -> int:
    """Carry the command out there, on an engine prepared so. The process is dead behind it. Returns how many writes it made."""
    apart = _apart(world, place)
    hand = apart.hands[""]
    prepare(hand.engine)
    try:
        world.carry_out(apart, command)
        return hand.engine.writes
    except Killed:
        return hand.engine.writes
    finally:
        hand.engine.heal()
        release(hand.store.holder)


def _unsound(world: World, place: Place) -> bool:
    apart = _apart(world, place)
    session = apart.session("")
    session.recover()
    session.append({"role": "user", "content": "go on"}, id="after the kill")
    clean = session.verify().clean
    apart.leave_all()
    return not clean


# --- damage at rest --------------------------------------------------------------------------------------------------


def _altered(row: Row) -> Row:
    return replace(row, body=row.body[:-1] + bytes([row.body[-1] ^ 1]))


DAMAGES: dict[str, Callable[[Row], Row | None]] = {
    "drop": lambda row: None,
    "alter": _altered,
    "truncate": lambda row: replace(row, body=row.body[: len(row.body) * 6 // 10]),
    "retype": lambda row: replace(row, kind="pinned"),
}


@verb(
    "damage drop|alter|truncate|retype SEQ[..SEQ]", "change rows behind lineal's back; every process opens the store anew; ends the oracle"
)
def damage(world: World, command: Command) -> Iterable[str]:
    how = word(command, 0, "kind of damage")
    if how not in DAMAGES:
        raise ScriptError(f"damage {how}: one of {', '.join(DAMAGES)}")
    first, _, last = word(command, 1, "seq").partition("..")
    world.leave_all()
    engine = world.place.open()
    rows = {row.seq: row for row in engine.scan(world.current, int(first) - 1, int(last or first))}
    engine.close()
    for seq, row in rows.items():
        world.place.edit(world.current, seq, DAMAGES[how](row))
    world.watched = False
    return [f"{len(rows)} rows damaged"]


@verb("foreign KIND [version=n]", "append a row of a kind or format that only a newer version knows; a newer format ends the oracle")
def foreign(world: World, command: Command) -> Iterable[str]:
    session = world.session(command.handle)
    head, name = session.status().head, word(command, 0, "kind")
    before = next(iter(session.engine.scan(session.name, head - 1)))
    body = codec.to_json({"v": number(command, "version", codec.FORMAT), "kind": name, "data": {"any": "thing"}})
    row = codec.seal(before.digest, head + 1, before.generation, Unknown(name=name, raw=body), b"0" * codec.SALT_BYTES, 0)
    session.engine.append(session.name, head, [row])
    world.leave_all()
    world.watched = world.watched and number(command, "version", codec.FORMAT) == codec.FORMAT
    return [f"{name} at {head + 1}"]
