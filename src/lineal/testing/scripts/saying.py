"""Verbs that say something: turns, calls, results, pins."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lineal.importing import import_transcript
from lineal.testing.scripts.language import Command, shortened, spelled
from lineal.testing.scripts.verbs import flag, json_of, number, session_of, verb, word
from lineal.testing.scripts.world import World

TOKENS = 20  # what a turn has whose size does not matter
FILLER = "one more word about the work, "
CHARS_A_TOKEN = 3


def text_of(id: str, command: Command, words: int = 1) -> str:
    """The text that the command gives, or a filler of about `tokens` tokens that begins with the turn's id."""
    if "text" in command.options:
        return command.options["text"].encode().decode("unicode_escape") if "\\" in command.options["text"] else command.options["text"]
    if len(command.words) > words:
        return command.words[words]
    return filler(id, number(command, "tokens", TOKENS))


def filler(id: str, tokens: int) -> str:
    return f"{id}: {FILLER * (tokens * CHARS_A_TOKEN // len(FILLER) + 1)}"[: tokens * CHARS_A_TOKEN]


def append(world: World, command: Command, messages: list[Any], ids: list[str], author: str | None = None) -> list[str]:
    """Append and tell where; a spill that the ceiling asked for is told too."""
    session = session_of(world, command)
    before = session.status().generation
    turns = session.append(messages, id=ids, author=author)
    world.last = turns
    lines = [f"{shortened(t.id for t in turns)} at {turns[0].seq}" + (f"..{turns[-1].seq}" if len(turns) > 1 else "")] if turns else []
    after = session.status().generation
    return lines + ([f"the ceiling put aside: now g{after}, {session.status().tokens} tokens"] if after != before else [])


def role_verb(role: str) -> Any:
    def act(world: World, command: Command) -> Iterable[str]:
        id = word(command, 0, "id")
        message: dict[str, Any] = {"role": role, "content": text_of(id, command)}
        return append(world, command, [message], [id], command.options.get("author"))

    return act


for _role, _name in (("user", "user"), ("assistant", "agent"), ("system", "system")):
    verb(
        f"{_name} ID [TEXT] [text=TEXT] [tokens=n] [author=NAME]",
        f"append what the {_name} says; without a text about n tokens of filler; `text=` knows \\n and \\x00",
    )(role_verb(_role))


@verb("dialogue 1..20 [tokens=n] [batch=yes]", "append user and agent turns u1 a1 u2 a2 ..., one by one or as one batch")
def dialogue(world: World, command: Command) -> Iterable[str]:
    first, _, last = word(command, 0, "range").partition("..")
    named = [(role, f"{letter}{n}") for n in range(int(first), int(last) + 1) for role, letter in (("user", "u"), ("assistant", "a"))]
    tokens = number(command, "tokens", TOKENS)
    messages = [{"role": role, "content": filler(id, tokens)} for role, id in named]
    ids = [id for _, id in named]
    if flag(command, "batch"):
        return append(world, command, messages, ids)
    lines = [line for m, id in zip(messages, ids, strict=True) for line in append(world, command, [m], [id])]
    seqs = [line.rpartition(" ")[2] for line in lines if " at " in line]
    return [f"{shortened(ids)} at {seqs[0]}..{seqs[-1]}", *(line for line in lines if " at " not in line)]


@verb("many N ROLE PREFIX [tokens=n]", "append N turns PREFIX1, PREFIX2, ... of one role as one batch")
def many(world: World, command: Command) -> Iterable[str]:
    role, prefix = word(command, 1, "role"), word(command, 2, "prefix")
    ids = [f"{prefix}{n}" for n in range(1, int(word(command, 0, "count")) + 1)]
    given = {"agent": "assistant"}.get(role, role)
    return append(world, command, [{"role": given, "content": filler(id, number(command, "tokens", TOKENS))} for id in ids], ids)


@verb(
    "call ID TOOL[:CALL] ... [args=JSON] [text=TEXT]",
    "append an agent turn with tool calls; a call's id is CALL, else `c` and the number of ID",
)
def call(world: World, command: Command) -> Iterable[str]:
    id = word(command, 0, "id")
    arguments = command.options.get("args", "{}")
    made = []
    for tool in command.words[1:]:
        name, _, call_id = tool.partition(":")
        made.append({"id": call_id or f"c{id.lstrip('k')}", "type": "function", "function": {"name": name, "arguments": arguments}})
    return append(world, command, [{"role": "assistant", "content": command.options.get("text"), "tool_calls": made}], [id])


@verb("result ID CALL [TEXT] [text=TEXT] [tokens=n] [pending=yes]", "append the result of a call, or an interim one")
def result(world: World, command: Command) -> Iterable[str]:
    id = word(command, 0, "id")
    message = {"role": "tool", "tool_call_id": word(command, 1, "call"), "content": text_of(id, command, 2)}
    return append(world, command, [{**message, "status": "pending"} if flag(command, "pending") else message], [id])


@verb("work 1..9 [tokens=n] [tool=NAME]", "append rounds of a tool call and its result: k1 r1 k2 r2 ...")
def work(world: World, command: Command) -> Iterable[str]:
    first, _, last = word(command, 0, "range").partition("..")
    tool, tokens = command.options.get("tool", "look"), number(command, "tokens", TOKENS)
    ids: list[str] = []
    lines: list[str] = []
    for n in range(int(first), int(last) + 1):
        made = {"id": f"c{n}", "type": "function", "function": {"name": tool, "arguments": json.dumps({"n": n})}}
        pair = [
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": filler(f"r{n}", tokens)},
        ]
        ids += [f"k{n}", f"r{n}"]
        lines += [line for line in append(world, command, pair, [f"k{n}", f"r{n}"]) if " at " not in line]
    return [f"{shortened(ids)} appended", *lines]


@verb(
    "say JSON [ids=a,b] [author=NAME] [bytes=n]", "append a message, or a list of them, as given; BYTES in it stands for n bytes of base64"
)
def say(world: World, command: Command) -> Iterable[str]:
    given = json.loads(word(command, 0, "message").replace("BYTES", "A" * number(command, "bytes", 0)))
    messages = given if isinstance(given, list) else [given]
    ids: list[Any] = command.options["ids"].split(",") if "ids" in command.options else [None] * len(messages)
    return append(world, command, messages, ids, command.options.get("author"))


@verb(
    "import FORMAT LINE ... [conversation=n]",
    "take over a foreign transcript whose lines are these; prints what came of it; formats as `lineal.transcripts` names them",
)
def import_(world: World, command: Command) -> Iterable[str]:
    format, session = word(command, 0, "format"), session_of(world, command)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "transcript.jsonl"
        path.write_text("\n".join(command.words[1:]) + "\n", encoding="utf-8")
        world.last = done = import_transcript(session, path, format, number(command, "conversation", 0))
    lines = [f"{done.turns} turns and {done.effects} effects added, {done.already_there} turns were there"]
    lines += [f"unknown: {' '.join(done.unknown_effects)}"] if done.unknown_effects else []
    lines += [f"line {line} in quarantine: {why}" for line, why in done.quarantined]
    lines += [f"line {line}: the host's {what}" for line, what in done.boundaries]
    return lines + [f"line {line}: a result without its call {call}" for line, call in done.orphans]


@verb("save [JSON] [ids=...] [times=n]", "hand over the whole list that is shown, with these messages behind it, n times")
def save(world: World, command: Command) -> Iterable[str]:
    session = session_of(world, command)
    shown = json.loads(json.dumps(session.messages()))
    more = json_of(command.words[0]) if command.words else []
    added = [t for _ in range(number(command, "times", 1)) for t in session.save(shown + (more if isinstance(more, list) else [more]))]
    return [f"{len(added)} turns added" if added else "nothing added"]


@verb("save_old MARK", "hand over the list that was shown at `mark MARK`")
def save_old(world: World, command: Command) -> Iterable[str]:
    added = session_of(world, command).save(world.marks[word(command, 0, "mark")]["messages"])
    return [f"{len(added)} turns added" if added else "nothing added"]


@verb("close_calls [CALL ...]", "answer calls that nobody will answer any more with: outcome unknown")
def close_calls(world: World, command: Command) -> Iterable[str]:
    turns = session_of(world, command).close_calls(command.words or None)
    return [f"{len(turns)} calls closed, outcome unknown"]


@verb("pin ID|TEXT", "keep a turn or a text verbatim")
def pin(world: World, command: Command) -> Iterable[str]:
    session_of(world, command).pin(word(command, 0, "turn or text"))
    return []


@verb("unpin ID|TEXT", "lift a pin")
def unpin(world: World, command: Command) -> Iterable[str]:
    session_of(world, command).unpin(word(command, 0, "turn or text"))
    return []


@verb("spill ID ...", "put turns aside byte-exact")
def spill(world: World, command: Command) -> Iterable[str]:
    world.last = session_of(world, command).spill(spelled(command.words))
    return [f"spilled into {world.last or 'stubs'}"]


@verb("evict ID ... [by=HOST]", "record that the host dropped these turns by itself")
def evict(world: World, command: Command) -> Iterable[str]:
    session_of(world, command).note_eviction(spelled(command.words), command.options.get("by", "host"))
    return []


@verb("usage INPUT [OUTPUT]", "record what the provider counted")
def usage(world: World, command: Command) -> Iterable[str]:
    counts = [int(w) for w in command.words]
    return [f"{session_of(world, command).record_usage(*counts).tokens} tokens"]
