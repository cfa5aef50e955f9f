"""Makes the golden store of the present format: one fixed story in which every kind of entry stands, and what it reads as.

    python tests/formats/make.py FOLDER

writes `format-N.db`, `format-N.anchor.json`, `format-N.json`, `entries-N.jsonl` and `export-N.jsonl` into FOLDER and refuses
to replace any of them. It is run once for each format, before its first release; see README.md beside it.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from lineal import codec
from lineal.cli import cli
from lineal.engines.sqlite_rows import FORMAT
from lineal.entries import Entry, Holder, Lease, PackBegun, Suspended, Unknown
from lineal.lineage import Lineage
from lineal.policy import Policy
from lineal.session import Session
from lineal.session.outcomes import Record
from lineal.store import Store, connect
from lineal.summarizers import SummaryRequest
from lineal.testing.fuzzing.reading import reading
from lineal.testing.fuzzing.samples import ENTRIES

POLICY = Policy(trigger=650, ceiling=900, target=300, floor_turns=2, summary_max_tokens=200, on_refusal="halt")
ANNOTATION = b'{"v":9,"kind":"x.mood","calm":1.50}'


class Fixed:
    """A clock that stands at one moment, so that what is written does not depend on the day."""

    def wall(self) -> float:
        return 1_767_225_600.25

    def boot(self) -> float:
        return 1_000.5


def summarize(request: SummaryRequest) -> str:
    named = ", ".join(f"{t.id} of {t.author}" for t in request.turns)
    return f"Facts from generation {request.generation}: behind lie {named}."[: request.budget * 2]


def user(n: int, text: str = "please look at the parts of it, ") -> dict[str, Any]:
    return {"role": "user", "content": f"request {n}: {text * 3}"}


def answer(n: int, text: str = "this is what was found in them, ") -> dict[str, Any]:
    return {"role": "assistant", "content": f"answer {n}: {text * 3}"}


def call(n: int) -> dict[str, Any]:
    made = {"id": f"call-{n}", "type": "function", "function": {"name": "look", "arguments": json.dumps({"n": n})}}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


def result(n: int) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call-{n}", "content": f"result {n}: {'row of the table; ' * 3}"}


ODD = {"role": "user", "content": "odd: \ud800 \udc00\ud83d \0 \\u0000 \u2028 😀", "more": [1.5, -0.0, 10**30, None, {"b": 1, "a": 2}]}
ANTHROPIC: list[Any] = [
    {"role": "user", "content": [{"type": "text", "text": "Read the note.", "cache_control": {"type": "ephemeral"}}]},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "A note.", "signature": "c2lnbmVk"},
            {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "note.md"}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "Rain. " * 300}]}]},
]
RESPONSES: list[Any] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What day is it?"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3BhcXVl"},
    {"type": "function_call", "id": "fc_1", "call_id": "f1", "name": "date", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "f1", "output": "Thursday"},
]


def agent(store: Store, name: str = "agent") -> Session:
    """Nearly everything: effects in every state, a summary, a spill, an eviction, pins, checkpoints, a rollback."""
    session = store.session(name, POLICY, summarize)
    session.append([user(1), call(1), result(1), answer(1), ODD], id=["u1", "k1", "r1", "a1", "odd"])
    with session.effect("deploy", {"to": "staging"}, key="deploy:1") as effect:
        effect.attach("job 7")
        effect.settle({"url": "https://staging.example"})
    with session.effect("mail", {"to": "ann"}, key="mail:1"):
        session.append(answer(2), id="a2")
    with session.effect("push", {"branch": "topic"}, key="push:1") as effect:
        effect.no_effect("rejected: not a fast-forward")
    with session.effect("read", {"n": 1}, key="read:1", idempotent=True) as effect:
        effect.settle("one")
    with session.effect("order", {"n": 2}, key="order:1") as effect:
        effect.settle("ordered")
    session.pin("never touch the main branch")
    kept = session.keep("graph", "checkpoints", [Record({"step": n, "said": "answer 1"}, key=f"c{n}", turns=["a1"]) for n in range(2)])
    session.release("graph", kept[:1])
    session.checkpoint("before")
    session.append([user(3), answer(3), user(4)], id=["u3", "a3", "u4"])
    session.compact()
    session.record_usage(500, 20)
    session.abort_compaction(_said_more(session).plan_compaction(), "the story wants it")
    session.spill(["a5"])
    session.note_eviction(["a6"], by="host")
    session.resolve_effect("mail:1", "not_happened", "asked ann")
    session.resolve_effect("order:1", "compensated", "sent back")
    session.pin("u7")
    session.unpin("u7")
    session.log.write(_annotation)
    session.log.write(_suspended)
    session.checkpoint("after")
    session.append([answer(8), user(8)], id=["a8", "u8"])
    session.rollback("before")
    session.append([answer(4), user(9), call(2), result(2), answer(9), user(10)], id=["a4", "u9", "k2", "r2", "a9", "u10"])
    session.spill(["u1"])
    session.compact()
    session.append([answer(11), user(12)], id=["a11", "u12"])
    session.spill(["a11"])
    with session.effect("call", {"who": "bob"}, key="call:1"):
        session.append(answer(10), id="a10")
    return session


def trimmed(store: Store) -> None:
    """The same life, forked, pruned, forked again and purged."""
    session = agent(store, "trimmed")
    session.fork("what-if", at="before").append(answer(15), id="a15")
    session.prune(keep_checkpoints=0)
    session.fork("what-then")
    session.purge(["u12"])


def packed(store: Store) -> None:
    """The same life, with all that is old in a segment; and a pack that came to nothing."""
    session = agent(store, "packed")
    session.pack()
    dead = Lease(Holder("nobody"), 0.0, 0.0)
    session.log.write(lambda lineage: [PackBegun(runs=((1, 2),), entries=2, bytes=90, pre_digest="00", lease=dead)])
    session.finish_removal()
    session.append(user(13), id="u13")


def _said_more(session: Session) -> Session:
    session.append([m for n in range(5, 8) for m in (answer(n), user(n))], id=[i for n in range(5, 8) for i in (f"a{n}", f"u{n}")])
    return session


def _annotation(lineage: Lineage) -> list[Entry]:
    return [Unknown(name="x.mood", raw=ANNOTATION)]


def _suspended(lineage: Lineage) -> list[Entry]:
    return [Suspended(tokens=lineage.tokens, floor_tokens=90, pinned_tokens=10, trigger=POLICY.trigger, policy={"trigger": POLICY.trigger})]


def dialects(store: Store) -> None:
    """Two sessions that speak the other dialects; one with an oversized result, shown as a stub, and an open compaction."""
    other = store.session("anthropic", Policy(trigger=650, ceiling=900, target=300, floor_turns=1, stub_bytes=400), summarize)
    other.append(ANTHROPIC, id=["u1", "k1", "r1"])
    other.append([{"role": "assistant", "content": f"answer {n}, at some length"} for n in range(4)])
    other.plan_compaction()
    store.session("responses é\udc80", POLICY, summarize).append(RESPONSES)


FILES = ("format-{}.db", "format-{}.anchor.json", "format-{}.json", "entries-{}.jsonl", "export-{}.jsonl")


def written(folder: Path) -> None:
    """The store with its anchor, what it reads as, the bytes of one entry of each kind, and what `lineal export` gives of it."""
    store_path, anchor_path, reading_path, entries_path, export_path = (folder / name.format(FORMAT) for name in FILES)
    if any((folder / name.format(FORMAT)).exists() for name in FILES):
        raise SystemExit(f"format {FORMAT} stands in {folder}: a golden file is never replaced; a new format gets new files")
    with connect(store_path, anchor=anchor_path, clock=Fixed()) as store:
        agent(store)
        trimmed(store)
        packed(store)
        dialects(store)
    anchor_path.with_name(f"{anchor_path.name}.lock").unlink()
    reading_path.write_text(json.dumps(read(store_path), indent=1) + "\n")
    bodies = ((e, codec.encode(e)) for e in ENTRIES)
    lines = ({"kind": codec.kind_of(e), "body": body.hex(), "value": codec.from_json(codec.head(body))} for e, body in bodies)
    entries_path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    cli.main(["export", str(store_path), "-s", "agent", "--output", str(export_path)], standalone_mode=False)


def read(path: Path) -> dict[str, Any]:
    """Every session as it reads, and what `verify` says of it; from a copy, so that nothing is written beside the store."""
    copy = path.with_name(f".{path.name}.copy")
    shutil.copy(path, copy)
    try:
        with connect(copy, create=False) as store:
            return {name: told(store, name) for name in store.sessions()}
    finally:
        for end in ("", "-wal", "-shm"):
            copy.with_name(copy.name + end).unlink(missing_ok=True)


def told(store: Store, name: str) -> dict[str, Any]:
    session = store.session(name, POLICY, summarize)
    return {**reading(session), "verify": [r.verdict.name for r in session.verify()]}


if __name__ == "__main__":
    written(Path(sys.argv[1]))
