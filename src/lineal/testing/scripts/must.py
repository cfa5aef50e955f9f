"""`must`: what has to hold, written by hand and never rewritten. Each returns what is wrong, or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from lineal import codec
from lineal.errors import LinealError, Refused, Verdict
from lineal.lineage import empty, to_state
from lineal.session.outcomes import Failed, Nothing
from lineal.session.states import unpack
from lineal.testing.scripts import telling
from lineal.testing.scripts.language import Command, ScriptError, spelled
from lineal.testing.scripts.looking import marked, verified
from lineal.testing.scripts.verbs import session_of, verb
from lineal.testing.scripts.world import World

Check = Callable[[World, Command, list[str]], str]
CHECKS: dict[str, tuple[str, Check]] = {}


def check(usage: str, does: str) -> Callable[[Check], Check]:
    def named(made: Check) -> Check:
        CHECKS[usage.split()[0]] = (f"must {usage}: {does}", made)
        return made

    return named


@verb("must CHECK ...", "a check that no rewriting touches; `must` alone lists them; prints nothing")
def must(world: World, command: Command) -> Iterable[str]:
    name, *words = command.words or [""]
    if name not in CHECKS:
        raise ScriptError(f"must {name}: no such check; there are\n" + "\n".join(usage for usage, _ in CHECKS.values()))
    try:
        wrong = CHECKS[name][1](world, command, words)
    except LinealError as error:
        wrong = f"it cannot be asked: {telling.error(error)}"
    except (LookupError, ValueError) as error:
        raise ScriptError(f"{command.text!r} cannot be understood; {CHECKS[name][0]}") from error
    if wrong:
        raise ScriptError(f"must {' '.join(command.words)}: {wrong}")
    return []


def _verbatim(world: World, command: Command) -> list[str]:
    return [t.id for t in session_of(world, command).view().turns]


@check("show ID ...", "these turns stand verbatim in the view")
def show(world: World, command: Command, words: list[str]) -> str:
    missing = [id for id in spelled(words) if id not in _verbatim(world, command)]
    return f"{missing} are not in {_verbatim(world, command)}" if missing else ""


@check("hide ID ...", "these turns do not stand in the view")
def hide(world: World, command: Command, words: list[str]) -> str:
    there = [id for id in spelled(words) if id in _verbatim(world, command)]
    return f"{there} are shown" if there else ""


@check("show_only ID ...", "exactly these turns stand verbatim in the view, in this order")
def show_only(world: World, command: Command, words: list[str]) -> str:
    return "" if _verbatim(world, command) == spelled(words) else f"shown are {_verbatim(world, command)}"


@check("tell TEXT", "the text stands in what the model is shown")
def tell(world: World, command: Command, words: list[str]) -> str:
    shown = json.dumps(session_of(world, command).messages(), ensure_ascii=False)
    missing = [w for w in words if json.dumps(w, ensure_ascii=False)[1:-1] not in shown]
    return f"{missing} is in none of the messages" if missing else ""


@check("not_tell TEXT", "the text stands nowhere in what the model is shown")
def not_tell(world: World, command: Command, words: list[str]) -> str:
    shown = json.dumps(session_of(world, command).messages(), ensure_ascii=False)
    there = [w for w in words if json.dumps(w, ensure_ascii=False)[1:-1] in shown]
    return f"{there} is shown" if there else ""


@check("end_with ROLE TEXT", "the last message that the model is shown has this role and holds the text")
def end_with(world: World, command: Command, words: list[str]) -> str:
    last = (telling.shown(session_of(world, command), None))[-1]
    return "" if last.startswith(f"{words[0]}: ") and words[1] in last else f"it ends with {last!r}"


@check("forget TEXT", "no byte of any row, of any session, holds the text (nor does a state)")
def forget(world: World, command: Command, words: list[str]) -> str:
    engine, secret = session_of(world, command).engine, words[0].encode()
    rows = [f"{name} {row.seq}" for name in engine.sessions() for row in engine.scan(name) if secret in row.body]
    states = []
    for session, seq in [(name, seq) for name in engine.sessions() for seq in engine.states(name)]:
        state = engine.state(session, seq)
        if state and secret in codec.to_json(to_state(unpack(state[1]) or empty(session, ""))):
            states.append(f"{session} state {seq}")
    return f"it stands in {rows + states}" if rows + states else ""


@check("have_said ID ...", "the retained log holds these turns, each once, in this order")
def have_said(world: World, command: Command, words: list[str]) -> str:
    wanted, said = spelled(words), [t.id for t in session_of(world, command).turns()]
    found = [id for id in said if id in wanted]
    return "" if found == wanted else f"the log has {said}"


@check("refuse RULE/REASON", "the last command was refused for this reason")
def refuse(world: World, command: Command, words: list[str]) -> str:
    last = getattr(world.last, "because", None) or world.last
    found = telling.reason(last) if isinstance(last, Refused) else f"{last.rule}/{last.reason}" if isinstance(last, Verdict) else repr(last)
    return "" if found == words[0] else f"it was {found}"


@check("fail ERROR", "the last command raised this error, or failed because of it")
def fail(world: World, command: Command, words: list[str]) -> str:
    last = world.last
    found = last.reason if isinstance(last, Failed) else type(last).__name__
    return "" if found == words[0] else f"it was {found}"


@check("do_nothing REASON", "the last compaction had nothing to do")
def do_nothing(world: World, command: Command, words: list[str]) -> str:
    return "" if isinstance(world.last, Nothing) and world.last.reason in words else f"it was {world.last!r:.120}"


@check("explain WORD ...", "the last error's text names these words")
def explain(world: World, command: Command, words: list[str]) -> str:
    missing = [w for w in words if w not in str(world.last)]
    return f"{missing} is not in: {world.last}" if missing else ""


@check("be_asked N", "the summarizer was called so often, since the story began")
def be_asked(world: World, command: Command, words: list[str]) -> str:
    return "" if len(world.asked) == int(words[0]) else f"it was called {len(world.asked)} times"


@check("send TOOL N", "the world saw so many calls of the tool")
def send(world: World, command: Command, words: list[str]) -> str:
    return "" if world.sent[words[0]] == int(words[1]) else f"it saw {world.sent[words[0]]}"


@check(
    "be generation|head|tokens|items|epoch|stored N|<=N, or latched|suspended|in_flight yes|no",
    "the status has this number, or at most it, or says so; `stored` is bytes in the engine",
)
def be(world: World, command: Command, words: list[str]) -> str:
    session, (name, wanted) = session_of(world, command), words
    if name in ("latched", "suspended", "in_flight"):
        found = "yes" if getattr(session.status(), name) else "no"
        return "" if found == {"yes": "yes", "no": "no"}[wanted] else f"it is {found}"
    number = {
        **{n: getattr(session.status(), n) for n in ("generation", "head", "tokens", "items", "epoch")},
        "stored": sum(len(row.body) for row in session.engine.scan(session.name)),
    }[name]
    good = number <= int(wanted[2:]) if wanted.startswith("<=") else number == int(wanted)
    return "" if good else f"it is {number}"


@check("state KEY STATE", "the effect has this state in the ledger")
def state(world: World, command: Command, words: list[str]) -> str:
    found = {r.key: r.state for r in session_of(world, command).ledger()}
    return "" if found.get(words[0]) == words[1] else f"the ledger says {found}"


@check("same messages|turns|log|generation|ledger MARK", "it is what it was at that mark, byte for byte")
def same(world: World, command: Command, words: list[str]) -> str:
    now, then = marked(world, command)[words[0]], world.marks[words[1]][words[0]]
    return "" if now == then else f"it is {now!r:.300}, it was {then!r:.300}"


@check("begin_with MARK", "what is shown begins with what was shown at that mark (R28)")
def begin_with(world: World, command: Command, words: list[str]) -> str:
    now, then = session_of(world, command).messages(), world.marks[words[0]]["messages"]
    return "" if now[: len(then)] == then else "the rendered prefix has changed"


@check("see NAME COUNT", "the count that `everywhere` found under this name")
def see(world: World, command: Command, words: list[str]) -> str:
    return "" if world.last[words[0]] == int(words[1]) else f"it is {world.last[words[0]]}"


@check("print LINE", "the command before printed this line")
def printed(world: World, command: Command, words: list[str]) -> str:
    return "" if any(words[0] in line for line in world.told) else f"it printed {world.told}"


@check("not_print LINE", "the command before printed no such line")
def not_printed(world: World, command: Command, words: list[str]) -> str:
    return f"it printed {world.told}" if any(words[0] in line for line in world.told) else ""


@check("verify VERDICT [SEQ]", "verify() finds this, at this seq")
def verify(world: World, command: Command, words: list[str]) -> str:
    found = [(r.verdict.name, r.seqs) for r in verified(world, command)]
    good = any(name == words[0] and (len(words) < 2 or int(words[1]) in seqs) for name, seqs in found)
    return "" if good else f"it finds {found}"
