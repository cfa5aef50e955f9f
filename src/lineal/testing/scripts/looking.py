"""Verbs that only look."""

from __future__ import annotations

from collections.abc import Iterable

from lineal.errors import Corrupt
from lineal.ranges import told
from lineal.session.verification import Reports
from lineal.testing.scripts import telling
from lineal.testing.scripts.language import Command, rows_of_names, shortened
from lineal.testing.scripts.verbs import flag, number, session_of, verb, word
from lineal.testing.scripts.world import World


@verb("view", "what the model is shown, as names; pins, open calls and effects below it")
def view(world: World, command: Command) -> Iterable[str]:
    return telling.view(session_of(world, command))


@verb("messages [DIALECT]", "what the model is shown: each message's role and how it begins")
def messages(world: World, command: Command) -> Iterable[str]:
    return telling.shown(session_of(world, command), command.words[0] if command.words else None)


@verb("turns [all] [before=SEQ] [limit=n]", "what was said, from the retained log; with `all` each turn by its name")
def turns(world: World, command: Command) -> Iterable[str]:
    before, limit = number(command, "before", 0), number(command, "limit", 0)
    found = session_of(world, command).turns(before or None, limit or None)
    return [" ".join(rows_of_names(t.id for t in found)) if flag(command, "all") else shortened(t.id for t in found)]


@verb("status", "head, generation, sizes, and what is open")
def status(world: World, command: Command) -> Iterable[str]:
    return [telling.status(session_of(world, command))]


@verb("expand HANDLE", "the exact turns behind a handle")
def expand(world: World, command: Command) -> Iterable[str]:
    found = session_of(world, command).expand(word(command, 0, "handle"))
    world.last = found
    return [shortened(t.id for t in found)]


@verb("search QUERY", "the turns that fit these words, best first")
def search(world: World, command: Command) -> Iterable[str]:
    return [
        " ".join(hit.id for hit in session_of(world, command).search(word(command, 0, "query"), number(command, "limit", 3))) or "nothing"
    ]


@verb("verify", "the verdicts over everything that is retained")
def verify(world: World, command: Command) -> Iterable[str]:
    return [r.verdict.name + (f" at {told((s, s) for s in r.seqs)}" if r.seqs and not r.clean else "") for r in verified(world, command)]


def verified(world: World, command: Command) -> Reports:
    """By the session; by the store, which changes nothing, where damage keeps the session from being opened."""
    try:
        return session_of(world, command).verify()
    except Corrupt:
        return world.hand(command.handle).store.verify(world.current)


@verb("salvage [all]", "the turns that still verify one by one; with `all` each by its name")
def salvage(world: World, command: Command) -> Iterable[str]:
    found = [t.id for t in world.hand(command.handle).store.salvage(world.current)]
    return [" ".join(rows_of_names(found)) or "nothing" if flag(command, "all") else shortened(found)]


@verb("log", "the kinds of the rows in the log")
def log(world: World, command: Command) -> Iterable[str]:
    return telling.log(session_of(world, command))


@verb("sessions", "the sessions of the store")
def sessions(world: World, command: Command) -> Iterable[str]:
    return [" ".join(world.hand(command.handle).store.sessions()) or "none"]


@verb("summary", "the text that stands in the view for what left it")
def summary(world: World, command: Command) -> Iterable[str]:
    return [f"{n.handle}: {n.text}" for n in session_of(world, command).view().summaries] or ["none"]


@verb("asked", "what the summarizer was last shown: the turns to cover, the kept ones, whether there was a previous summary")
def asked(world: World, command: Command) -> Iterable[str]:
    if not world.asked:
        return ["never asked"]
    last = world.asked[-1]
    previous = "with the previous summary" if last.previous is not None else "without a previous summary"
    return [f"to cover {shortened(t.id for t in last.turns)}, kept {shortened(t.id for t in last.kept)}, {previous}, budget {last.budget}"]


@verb("mark NAME", "remember what is shown, said and stored now, for `must same` and `save_old`")
def mark(world: World, command: Command) -> Iterable[str]:
    world.marks[word(command, 0, "name")] = marked(world, command)
    return []


def marked(world: World, command: Command) -> dict[str, object]:
    session = session_of(world, command)
    return {
        "messages": session.messages(),
        "turns": [(t.seq, t.id, t.message) for t in session.turns()],
        "log": [(row.seq, row.digest) for row in session.engine.scan(session.name)],
        "generation": session.status().generation,
        "ledger": [(r.key, r.state, str(r.outcome)) for r in session.ledger()],
    }
