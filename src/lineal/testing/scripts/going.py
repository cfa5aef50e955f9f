"""Verbs that go back and forth: checkpoints, recovery, rollback, forks, processes that end, time that passes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lineal.session import Session
from lineal.testing.model import Model
from lineal.testing.scripts.language import Command, shortened
from lineal.testing.scripts.verbs import flag, session_of, verb, word
from lineal.testing.scripts.world import World


@verb("checkpoint NAME", "take a checkpoint and remember it under this name")
def checkpoint(world: World, command: Command) -> Iterable[str]:
    name = word(command, 0, "name")
    taken = world.checkpoints[name] = session_of(world, command).checkpoint(name)
    return [f"{name} at seq {taken.seq}, generation {taken.generation}"]


@verb("checkpoints", "the retained checkpoints, newest first")
def checkpoints(world: World, command: Command) -> Iterable[str]:
    return [f"{c.label} at seq {c.seq}, generation {c.generation}" for c in session_of(world, command).checkpoints()] or ["none"]


@verb("recover", "come back after a fault")
def recover(world: World, command: Command) -> Iterable[str]:
    world.last = back = session_of(world, command).recover()
    lines = [f"recovered by {back.target} at seq {back.seq}"]
    lines += [f"g{back.aborted} was open and is closed"] if back.aborted is not None else []
    lines += [f"passed over: {verdict.reason}" for _, verdict in back.passed_over]
    return lines + ([f"unknown: {' '.join(back.unknown)}"] if back.unknown else [])


def target(world: World, name: str) -> Any:
    return world.checkpoints.get(name, int(name) if name.isdigit() else name)


@verb("rollback TARGET [dry] [expected=SEQ]", "go back on purpose, to a checkpoint's name or a seq")
def rollback(world: World, command: Command) -> Iterable[str]:
    expected = command.options.get("expected")
    world.last = back = session_of(world, command).rollback(
        target(world, word(command, 0, "target")), dry_run=flag(command, "dry"), expected_head=int(expected) if expected else None
    )
    how = "would go" if back.dry_run else "went"
    lines = [f"{how} back to seq {back.target} ({back.verdict.reason}); left behind: {shortened(back.left_behind)}"]
    lines += [f"guarded: {' '.join(back.guarded)}"] if back.guarded else []
    return lines + ([f"in the way: {' '.join(back.refused)}"] if back.refused else [])


@verb("fork NAME [at=TARGET]", "a new session that begins as this one is, or was")
def fork(world: World, command: Command) -> Iterable[str]:
    name, parent = word(command, 0, "name"), session_of(world, command)
    at = target(world, command.options["at"]) if "at" in command.options else None
    child = parent.fork(name, at=at)
    _lists_of_the_fork(world, name, parent, at)
    world.hand(command.handle).sessions[name] = child
    return [f"{name} begins at seq {child.status().head}"]


def _lists_of_the_fork(world: World, name: str, parent: Session, at: Any) -> None:
    """Give the fork's lists to the oracle. Raises `KeyError` for a seq that the parent's lists do not know."""
    model = world.models.setdefault(parent.name, Model())
    model.read(parent.log, world.policy.floor_turns)
    seq = at if isinstance(at, int) else at.seq if at is not None else parent.log.lineage.head
    world.models[name] = model.forked(seq)


@verb("session NAME", "speak of this session from now on")
def session(world: World, command: Command) -> Iterable[str]:
    world.current = word(command, 0, "name")
    return []


@verb("reopen", "the process closes its store in order and opens it again")
def reopen(world: World, command: Command) -> Iterable[str]:
    world.leave(command.handle, crash=False)
    world.session(command.handle)
    return []


@verb("crash", "the process is gone without a word; another one opens the store")
def crash(world: World, command: Command) -> Iterable[str]:
    world.leave(command.handle, crash=True)
    world.session(command.handle)
    return []


@verb("clock SECONDS [wall=SECONDS]", "time passes; or only the wall clock is set, forwards or back")
def clock(world: World, command: Command) -> Iterable[str]:
    for seconds in command.words:
        world.clock.pass_time(float(seconds))
    if "wall" in command.options:
        world.clock.step(float(command.options["wall"]))
    return []


@verb("prune [dry] [before=SEQ] [keep=n]", "drop raw entries that nothing needs")
def prune(world: World, command: Command) -> Iterable[str]:
    before, keep = command.options.get("before"), command.options.get("keep")
    world.last = done = session_of(world, command).prune(
        before=int(before) if before else None, keep_checkpoints=int(keep) if keep else None, dry_run=flag(command, "dry")
    )
    return [f"{'would drop' if done.dry_run else 'dropped'} {done.entries} entries"]


@verb("purge ID ... [dry=yes]", "erase the content of these turns everywhere")
def purge(world: World, command: Command) -> Iterable[str]:
    world.last = done = session_of(world, command).purge([w for w in command.words if w != "dry"], dry_run=flag(command, "dry"))
    lines = [f"{'would erase' if flag(command, 'dry') else 'erased'} {shortened(done.turns)} in {len(done.erased)} rows"]
    lines += [f"generations erased: {' '.join(f'g{g}' for g in done.generations)}"] if done.generations else []
    lines += [f"checkpoints no longer reachable: {len(done.checkpoints)}"] if done.checkpoints else []
    return lines + ([f"kept by {' '.join(done.kept_by)}"] if done.kept_by else [])


@verb("delete NAME", "delete a whole session")
def delete(world: World, command: Command) -> Iterable[str]:
    name = word(command, 0, "name")
    for hand in world.hands.values():
        hand.sessions.pop(name, None)
    kept = world.hand(command.handle).store.delete(name)
    world.models.pop(name, None)
    return [f"{name} deleted" + (f"; copies are kept by {' '.join(kept)}" if kept else "")]
