"""Verbs that break something: calls that fail, processes killed at each call, rows damaged at rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from lineal import codec
from lineal.engines import Row
from lineal.entries import Unknown
from lineal.errors import LinealError
from lineal.holder import release
from lineal.testing.scripts import telling
from lineal.testing.scripts.language import Command, ScriptError, parse
from lineal.testing.scripts.places import Place
from lineal.testing.scripts.verbs import number, rest_of, verb, word
from lineal.testing.scripts.world import World
from lineal.testing.stories import portrait

MOST_CALLS = 500


class Killed(BaseException):
    """The process ends here: nothing of it runs any more, not even what tidies up after an error."""


@verb("failing K [after] COMMAND", "the K-th engine call of the command fails; with `after` it was carried out and the answer is lost")
def failing(world: World, command: Command) -> Iterable[str]:
    k, after = int(word(command, 0, "number of the call")), command.words[1:2] == ["after"]
    inner = parse(f"{command.handle + ': ' if command.handle else ''}{rest_of(command, 2 if after else 1)}", command.line)
    engine = world.hand(command.handle).engine
    engine.fail_at(len(engine.calls) + k, when="after" if after else "before")
    try:
        return world.carry_out(world, inner)
    except LinealError as error:
        world.last = error
        return [telling.error(error)]
    finally:
        engine.heal()


@verb("everywhere COMMAND", "on copies of the store, kill the process at each engine call of the command, then recover and verify")
def everywhere(world: World, command: Command) -> Iterable[str]:
    inner = parse(rest_of(command), command.line)
    before = _seen(world.place)
    whole = world.place.copy()
    calls = _played(world, whole, inner, 0)
    after = _seen(whole)
    found: Counter[str] = Counter()
    for k in range(1, calls + 1):
        cut = world.place.copy()
        _played(world, cut, inner, k)
        now = _seen(cut)
        found["old" if now == before else "new" if now == after else "between"] += 1
        found["unsound"] += _unsound(world, cut)
    world.last = found
    return [f"killed at {calls} calls: {found['old']} old, {found['new']} new, {found['between']} between, {found['unsound']} unsound"]


def _seen(place: Place) -> Any:
    return portrait(place.open())["seen"]


def _played(world: World, place: Place, command: Command, kill_at: int) -> int:
    """Carry the command out on this place in a world of its own. Returns how many engine calls it made."""
    apart = World(place, world.carry_out, world.policy, world.clock, current=world.current, summarizer=world.summarizer)
    apart.models, apart.checkpoints, apart.watched = {name: type(m)() for name, m in world.models.items()}, world.checkpoints, False
    apart.session("")
    hand = apart.hands[""]
    begun = len(hand.engine.calls)
    if kill_at:
        hand.engine.fail_at(begun + kill_at, error=Killed())
    try:
        world.carry_out(apart, command)
    except Killed:
        hand.engine.heal()
    finally:
        release(hand.store.holder)
    made = len(hand.engine.calls) - begun
    if made > MOST_CALLS:
        raise ScriptError(f"{command.text!r} makes {made} engine calls; {MOST_CALLS} is the most that a story tries one by one")
    return made


def _unsound(world: World, place: Place) -> bool:
    apart = World(place, world.carry_out, world.policy, world.clock, current=world.current)
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
