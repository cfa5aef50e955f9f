"""The summarizer that is always there: offline, deterministic, made of the turns' own sentences.

    Goal:
    - <what a user asked first>
    Decisions:
    - <a sentence of the assistant>
    Exact turns: expand("g4") has them.

Users are quoted by what they wrote, without "the user said". The items of a previous summary are merged in, each once;
what no longer fits drops out, so that the size never grows over passes (R22). A line that `rules/summary.py` would refuse
is left out, so that the whole is accepted; what is done is left to the ledger.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lineal import anchors
from lineal.entries import Anchor, Turn
from lineal.messages import text_of
from lineal.messages.blocks import ToolCall, compact
from lineal.messages.dialects import read
from lineal.rules import shapes
from lineal.rules.completion import false_completion, sweeping
from lineal.rules.quotes import contains, invented_approval, invented_quote, words
from lineal.rules.summary import SummaryFacts, judge
from lineal.summarizers import Summary, SummaryRequest, ranking

# section: heading, share of the room
SECTIONS = {
    "goal": ("Goal", 0.15),
    "asked": ("Asked since", 0.1),
    "constraint": ("Constraints", 0.15),
    "decision": ("Decisions", 0.15),
    "failed": ("Tried and failed", 0.1),
    "task": ("Open", 0.15),
    "call": ("Calls", 0.1),
    "fact": ("Facts", 0.1),
    "note": ("Notes", 1.0),
}
OLDEST_FIRST = ("goal", "constraint", "fact")  # sections in which the newest items are the first to drop out
MARGIN = 0.85  # share of the budget that is used where the caller's counter is not known
GAIN, LEAST = 3, 16  # a summary takes 1/3 of the turns and the room of the previous one at most, but always may take 16 tokens
GOAL_ROOM = 110  # tokens that the goal may take, whatever its share comes to
ITEM, GOAL, ASKED, ARGUMENT = 240, 300, 160, 60  # characters
OLD_NOTE = 1.3  # how much more a sentence weighs that an earlier summary chose
SAID_BEFORE = 8  # words from which on a previous summary must not come back whole


def _in_bytes(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // 3)


class ExtractiveSummarizer:
    """Callable of one `SummaryRequest`, returns a `Summary`; equal requests give equal bytes.

    `count` measures tokens as the caller's budget does; without it bytes / 3 is used, with a margin.
    """

    def __init__(self, count: Callable[[str], int] | None = None):
        self._count = count

    def __call__(self, request: SummaryRequest) -> Summary:
        turns = (*request.turns, *request.kept)
        texts = request.shown if len(request.shown) == len(turns) else tuple(text_of(turn.message) for turn in turns)
        count = self._count or _in_bytes
        worth = sum(map(count, texts[: len(request.turns)])) // GAIN + count(request.previous or "")
        budget = request.budget if self._count else int(request.budget * MARGIN)
        by = [turn.author for turn in turns]
        facts = SummaryFacts(
            text="",
            previous_text=request.previous or "",
            user_texts=tuple(text for text, author in zip(texts, by, strict=True) if author == "user"),
            other_texts=tuple(text for text, author in zip(texts, by, strict=True) if author != "user"),
            ledger=request.ledger,
            budget=request.budget,
        )
        text = _write(request, texts, facts, min(budget, max(LEAST, worth)), count)
        return Summary(text, tuple(turn.id for turn in request.turns), True if request.previous is not None else None, "stop")


extractive = ExtractiveSummarizer()


@dataclass
class _Draft:
    """Items by section, oldest first; `weights` of the notes, and how many items of all came from the previous summary."""

    items: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in SECTIONS})
    weights: list[float] = field(default_factory=list)

    def note(self, text: str, weight: float) -> None:
        self.items["note"].append(text)
        self.weights.append(weight)


# --- from draft to text ------------------------------------------------------------------------------------------------


def _write(request: SummaryRequest, texts: Sequence[str], facts: SummaryFacts, room: int, count: Callable[[str], int]) -> str:
    tail = f'Exact turns: expand("{request.handle}") has them.' if request.handle else f"{len(request.turns)} turns were left out here."
    draft = _Draft()
    _carry(request.previous or "", draft)
    _read(request, texts, draft)
    chosen = _choose(draft, facts, room - count(f"{tail}\n"), count)
    before = words(_without_tail(request.previous or ""))
    while any(chosen.values()):
        text = _composed(chosen, tail)
        repeated = len(before.split()) >= SAID_BEFORE and contains(words(text), before)
        if count(text) <= room and not repeated and judge(replace(facts, text=text, tokens=count(text))).allowed:
            return text
        last = next(name for name in reversed(SECTIONS) if chosen[name])
        del chosen[last][0 if repeated or last not in (*OLDEST_FIRST, "note") else -1]
    return tail


def _composed(chosen: dict[str, list[str]], tail: str) -> str:
    lines = []
    for name, (heading, _) in SECTIONS.items():
        if chosen[name]:
            lines += [f"{heading}:", *(f"- {item}" for item in chosen[name])]
    return "\n".join([*lines, tail])


def _choose(draft: _Draft, facts: SummaryFacts, room: int, count: Callable[[str], int]) -> dict[str, list[str]]:
    """What fits, section by section; what one section does not use is left to the next."""
    chosen: dict[str, list[str]] = {}
    seen: set[str] = set()
    spare = 0.0
    for name, (heading, share) in SECTIONS.items():
        least = GOAL_ROOM if name == "goal" else 0
        items, left = draft.items[name], min(room, max(least, share * room + spare))
        spent = count(f"{heading}:\n")
        if name == "goal" and items:
            items = [_shortened(items[0], int(left) - spent, count)]
        places = []
        for i in _preferred(name, draft):
            cost, key = count(f"- {items[i]}\n"), words(items[i])
            if key and key not in seen and spent + cost <= left and acceptable(items[i], facts):
                seen.add(key)
                places.append(i)
                spent += cost
        chosen[name] = [items[i] for i in sorted(places)]
        used = spent if places else 0
        room, spare = room - used, max(0.0, left - used)
    return chosen


def _shortened(item: str, room: int, count: Callable[[str], int]) -> str:
    """The goal is shortened rather than left out."""
    cost = count(f"- {item}\n")
    return item if cost <= room else anchors.clipped(item, len(item) * max(0, room - 2) // cost)


def _preferred(name: str, draft: _Draft) -> list[int]:
    """Places of a section's items, those worth keeping first."""
    places = range(len(draft.items[name]))
    if name == "note":
        return ranking.best(draft.items["note"], draft.weights)
    if name == "goal":
        return list(places)[:1]
    return list(places) if name in OLDEST_FIRST else list(places)[::-1]


def acceptable(line: str, facts: SummaryFacts) -> bool:
    """Whether a line says nothing that the rule on summaries would refuse for its content."""
    users = facts.user_texts
    return not (
        shapes.view_label(line)
        or sweeping(line)
        or shapes.orders(line, users)
        or invented_quote(line, users)
        or invented_approval(line, users)
        or false_completion(line, facts.ledger)
    )


# --- what is new -------------------------------------------------------------------------------------------------------


def _read(request: SummaryRequest, texts: Sequence[str], draft: _Draft) -> None:
    turns = request.turns
    for turn, text in zip(turns, texts, strict=False):
        if turn.author == "user" and (asked := _request_in(text)):
            name, size = ("asked", ASKED) if draft.items["goal"] else ("goal", GOAL)
            draft.items[name].append(anchors.clipped(asked, size))
    by_message = {id(turn.message): text for turn, text in zip(turns, texts, strict=False)}
    found = request.anchors or anchors.extract(turns, lambda message: by_message[id(message)])
    covered = {turn.seq for turn in turns}
    for anchor in (a for a in found if a.seq in covered):
        if anchor.kind in ("constraint", "decision", "failed", "task"):
            draft.items[anchor.kind].append(anchors.clipped(_MARK.sub("", anchor.value), ITEM))
    draft.items["call"] = list(_calls(draft.items["call"], turns))
    said = "\n".join(item for items in draft.items.values() for item in items)
    draft.items["fact"] += [fact for fact in _facts(found) if fact.partition(" ")[2] not in said]
    _notes(turns, texts, draft)


def _request_in(text: str) -> str:
    """The first line of a user's text that is written for a reader."""
    return next((line.strip() for line in text.splitlines() if line.strip() and line.lstrip()[0] not in "<[{`"), "")


def _facts(found: Sequence[Anchor]) -> Iterator[str]:
    for anchor in sorted(anchors.by_weight(found), key=lambda anchor: anchor.kind != "commit"):
        if anchor.kind not in ("constraint", "decision", "failed", "task") and len(anchor.value) <= ITEM:
            yield f"{anchor.kind} {anchor.value}"


def _notes(turns: Sequence[Turn], texts: Sequence[str], draft: _Draft) -> None:
    """Sentences of the assistant; of tools where an assistant says nothing. Later ones weigh more."""
    spoken = [(turn, text) for turn, text in zip(turns, texts, strict=False) if turn.author == "assistant" and anchors.prose(text).strip()]
    for turn, text in spoken or [(turn, text) for turn, text in zip(turns, texts, strict=False) if turn.author != "user"]:
        weight = 0.8 + 0.4 * (turn.seq - turns[0].seq) / max(1, turns[-1].seq - turns[0].seq)
        for sentence in anchors.sentences(anchors.prose(anchors.looked_at(text))):
            bare = sentence.lstrip("-*#>• ")
            if ranking.prose(bare):
                draft.note(bare, weight)


_CALL = re.compile(r"(?P<tool>\S.{0,80}?) x(?P<times>\d{1,9})(?:: (?P<with>.*))?")


def _calls(before: Sequence[str], turns: Sequence[Turn]) -> Iterator[str]:
    """How often each tool was called, with the newest arguments; the rarer ones first, so that they drop out first."""
    times: dict[str, int] = {}
    given: dict[str, str] = {}
    for item in before:
        if match := _CALL.fullmatch(item):
            times[match["tool"]] = int(match["times"])
            given[match["tool"]] = match["with"] or ""
    for turn in turns:
        blocks = read(turn.message).blocks if isinstance(turn.message, dict) else ()
        for call in blocks:
            if isinstance(call, ToolCall) and call.tool:
                times[call.tool] = times.get(call.tool, 0) + 1
                given[call.tool] = _argument(call.arguments) or given.get(call.tool, "")
    for tool in sorted(times, key=lambda name: (times[name], name)):
        yield f"{tool} x{times[tool]}" + (f": {given[tool]}" if given[tool] else "")


_TELLING = ("command", "cmd", "file_path", "path", "url", "query", "pattern", "name", "id", "key")


def _argument(arguments: Any) -> str:
    """What tells one call from another: the first telling argument, on one line."""
    value = arguments
    if isinstance(arguments, dict):
        named = [arguments[key] for key in _TELLING if isinstance(arguments.get(key), str)]
        value = (named or list(arguments.values()) or [""])[0]
    lines = [line for line in compact(value).splitlines() if line.strip() and not line.startswith("*** Begin")]
    return anchors.clipped(lines[0].strip(), ARGUMENT) if lines else ""


# --- what was before ---------------------------------------------------------------------------------------------------

_NAMES = {heading: name for name, (heading, _) in SECTIONS.items()}
_TAIL = re.compile(r"^(?:Exact turns: expand\(.*\) has them\.|\d+ turns were left out here\.)$", re.M)
_MARK = re.compile(r"^(?:\s*(?:[-*•>]|\d{1,3}[.)])\s+)+")


def _without_tail(previous: str) -> str:
    return _TAIL.sub("", previous)


def _carry(previous: str, draft: _Draft) -> None:
    """The items of a previous summary: by section where it is one of ours, else its sentences as notes."""
    section = ""
    for line in _without_tail(previous).splitlines():
        bare = line.strip()
        if bare.removesuffix(":") in _NAMES and bare.endswith(":"):
            section = _NAMES[bare.removesuffix(":")]
        elif section and section != "note" and line.startswith("- "):
            draft.items[section].append(line[2:])
        elif bare and not bare.startswith("#") and not bare.endswith(":"):
            section = section if line.startswith("- ") else ""
            for sentence in anchors.sentences(_MARK.sub("", bare)):
                draft.note(anchors.clipped(sentence, ITEM), OLD_NOTE)
