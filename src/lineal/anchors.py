"""Exact values that a summary must not be trusted to remember, found in turns and carried as data (R18). Pure.

| author of the turn | what is an anchor there | at most |
|---|---|---|
| user, system | constraints as whole sentences; every exact value: ids, hashes, paths, URLs, numbers with their label or unit | 24 |
| assistant | decisions, failed approaches and open tasks as sentences; commits, URLs, ticket ids | 8 |
| anyone else (tools) | commits that git reported, URLs of pull requests and issues, ids of what was created | 6 |

Approvals are no anchors: prose never creates one (R19). What counts is the turn's author, never its role: a tool result
shown with the role of a user stays a tool result. Every expression is linear in the text it looks at, and no more than
the first and the last `LOOKED_AT` characters of a turn are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from lineal.entries import Anchor, Turn

ANCHORS_MAX = 2_000  # kept at most; beyond it tools' and then the assistant's oldest go, of a user's only plain numbers
PER_TURN = {"user": 24, "system": 24, "assistant": 8, "tool": 6}
LOOKED_AT = 32_768  # characters at each end of a turn
USER_SENTENCE, ASSISTANT_SENTENCE, LONGEST_VALUE = 300, 240, 400  # characters
SHORT_RESULT = 4_000  # characters: fields named like ids are read from results up to this size
KINDS = ("constraint", "decision", "failed", "task", "commit", "id", "hash", "url", "path", "number")
PLURALS = {"failed": "failed approaches", "task": "open tasks", "hash": "hashes"}

# --- sentences ---------------------------------------------------------------------------------------------------------

_END = re.compile(r"(?<=[.!?])\s+|(?<=。)")
_CONSTRAINT = re.compile(
    r"\b(?:must(?:n't)?|never|always|only|without|deadline|do not|don['’]t|should(?: not|n['’]t)|shall not|at (?:most|least)"
    r"|no (?:later|more|less|fewer|earlier) than|not allowed|forbidden|under no circumstances|avoid|make sure|ensure)\b",
    re.I,
)
_SAID = {
    "decision": re.compile(
        r"\b(?:decided|decision|(?:we|i)(?:['’]ll| will)(?: now)? use|go(?:ing)? with|chose|opt(?:ed|ing) (?:for|to)|settled on"
        r"|stick(?:ing)? with|switch(?:ed|ing) to)\b",
        re.I,
    ),
    "failed": re.compile(
        r"\b(?:(?:did|does|do|will|would)(?: not|n['’]t) work|won['’]t work|failed (?:because|with|due to|to)|that failed"
        r"|still fail(?:s|ing)|dead end|ruled out|gave up|reverted)\b",
        re.I,
    ),
    "task": re.compile(
        r"\bTODO\b|^(?:[-*] )?next(?: steps?)?:|\bstill (?:needs?|have|has) to\b|\bstill need\b|\bremaining(?: (?:work|tasks?|steps?)\b|:)"
        r"|\bleft to do\b|\bnot yet (?:done|implemented|fixed|tested|committed|pushed|sent)\b",
        re.I,
    ),
}


def sentences(text: str) -> Iterator[str]:
    """The sentences of `text` in order, each as it stands there. A line break ends a sentence."""
    for line in text.splitlines():
        for part in _END.split(line):
            if sentence := part.strip():
                yield sentence


def looked_at(text: str) -> str:
    """What is looked at of a long text: its first and its last `LOOKED_AT` characters."""
    return text if len(text) <= 2 * LOOKED_AT else f"{text[:LOOKED_AT]}\n{text[-LOOKED_AT:]}"


def clipped(text: str, size: int, around: int = 0) -> str:
    """At most `size` characters of `text`, cut between words, with what stands at position `around` inside."""
    if len(text) <= size:
        return text
    start = max(0, min(around - size // 3, len(text) - size))
    if start:
        start = text.find(" ", start, start + 40) + 1 or start
    part = text[start : start + size]
    cut = part.rfind(" ", size * 2 // 3)
    return part if cut < 0 or start + size >= len(text) else part[:cut]


# --- exact values ------------------------------------------------------------------------------------------------------

_LABEL = (
    r"(?i:port|pid|line|version|build|release|room|table|order|invoice|account|customer|user|reservation|booking|confirmation|flight"
    r"|gate|ticket|issue|pr|limit|budget|max|min|timeout|retries|zip|pin|code|number|region|host|branch|bucket|queue|cluster|database"
    r"|db|tenant|project|owner|city|currency|language|channel|codename|environment|env|zone|deadline|name|id|tag|schema|topic)"
    r"(?: (?:id|number|name|code|no\.))?"
)
_UNIT = (
    r"(?:%|(?:(?i:ms|s|secs?|seconds?|min|minutes?|h|hours?|days?|weeks?|months?|years?|[kmgt]i?b|bytes?|bits?|tokens?|kg|km|cm|mm|m|°C"
    r"|[kMG]?Hz|px|rows?|users?|items?|people|passengers?|bags?|euros?|dollars?|cents?|k|million|billion)|EUR|USD|GBP|CHF|JPY)\b|[€$£])"
)
_DIGITS = r"\d{1,15}(?:[.,]\d{1,9}){0,5}"
_MONTH = r"(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_DATE = (
    r"(?:\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)?(?: ?(?:UTC|GMT|CES?T|[EP][SD]T))?\b"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)? {_MONTH}(?:,? \d{{4}})?\b|{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}}\b)?"
    r"|\d{1,2}[./]\d{1,2}[./]\d{2,4}\b(?!\.\d)|\d{1,2}:\d\d(?::\d\d)?\b(?: ?(?i:[ap]m)\b)?(?: (?:UTC|GMT|CES?T)\b)?)"
)
_MONEY = rf"[€$£¥] ?{_DIGITS}(?: ?(?:k|m|bn|million|billion)\b)?"
_TOKEN = r"[\w@+#-](?:[\w.@:+/-]{0,80}[\w/])?"
_NAMED = rf"(?!(?i:not|the|an?|to|in|on|at|of|that|this|it|is|be|so|still|already|now|very|just)\b){_TOKEN}(?: [A-Z][\w-]{{1,30}}){{0,2}}"
_FILE = (
    r"pyi?|jsx?|tsx?|go|rs|java|kt|cc?|h|cpp|rb|php|sh|sql|md|txt|jsonl?|toml|ya?ml|ini|cfg|conf|env|csv|html|css|lock|log|db|xml"
    r"|pdf|png|ipynb"
)
_URL = r"(?P<url>\bhttps?://[^\s<>\"'`]{3,400})"
_HASH = r"(?P<hash>(?<![\w./-])[0-9a-fA-F]{7,64}(?![\w-]))"
_TICKET = r"(?P<ticket>\b[A-Z][A-Z0-9]{1,9}-\d{1,8}\b|(?<![\w#&])#\d{1,8}\b)"
_ADDRESS = r"(?P<address>(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2}|:\d{1,5})?(?![\w]|\.\d))"
_VALUE = re.compile(
    rf"{_URL}|{_ADDRESS}|(?P<email>(?<![\w.+-])[\w.+-]{{1,64}}@[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{1,5}})"
    r"|(?P<uuid>\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b)"
    r"|(?P<path>(?<![\w/.~<-])(?:[A-Za-z]:\\[\w.\\-]{1,150}|(?:~|\.{1,2})?(?:/[\w.@+-]{1,80}){1,20}/?|(?:[\w.@+-]{1,80}/){2,20}[\w.@+-]{0,80}"
    rf"|(?:[\w.@+-]{{1,80}}/){{0,20}}[\w.@+-]{{1,80}}\.(?:{_FILE})\b"
    r"|(?:(?=[\w./-]{1,80}\d)[A-Za-z][\w.-]{0,80}|feature|fix|release|origin)/[\w.-]{0,79}\w))"
    rf"|{_HASH}|(?P<date>\b{_DATE})|(?P<money>{_MONEY})|{_TICKET}"
    rf"|(?P<pair>\b{_LABEL}(?: is | ?= ?|: ?)[\"'`]?(?:{_DATE}|{_MONEY}|{_DIGITS} ?{_UNIT}|{_NAMED}))"
    rf"|(?P<labelled>\b{_LABEL} (?:{_DATE}|{_MONEY}|{_DIGITS} ?{_UNIT}|(?=[\w.:/#-]{{0,40}}\d){_TOKEN}|[A-Z0-9][A-Z0-9-]{{3,19}}\b))"
    r"|(?P<assigned>(?<![\w./-])[A-Za-z][\w.-]{1,40}=[^\s,;|\"'`]{1,80})"
    r"|(?P<quoted>`[^`\n]{2,80}`|(?<!\w)\"[^\"\n]{2,80}\"(?!\w)|“[^”\n]{2,80}”)"
    rf"|(?P<amount>(?<![\w.,/-]){_DIGITS} ?{_UNIT})"
    r"|(?P<mixed>(?<![\w./-])(?=[\w.:-]{0,40}\d)(?=[\w.:-]{0,40}[A-Za-z])[A-Za-z0-9]{1,40}(?:[._:-][A-Za-z0-9]{1,40}){0,9}(?!\w))"
    r"|(?P<snake>(?<![\w./-])[A-Za-z]\w{0,60}_\w{1,60}(?!\w))|(?P<caps>(?<![\w./-])[A-Z]{6}(?![\w-]))"
    r"|(?P<name>(?:(?<=[a-z:,] )|(?<=\())[A-Z][a-z][\w'-]{0,30}(?: [A-Z][a-z][\w'-]{0,30}){1,3})"
    r"|(?P<number>(?<![\w.,/-])(?:\+?\d{4,15}|\d{1,3}(?:[.,]\d{1,9}){1,5})(?!\w))"
)
_NUMERIC = re.compile(rf"[ :=#](?:{_DATE}|{_MONEY}|{_DIGITS}(?: ?{_UNIT})?)$")
_MENTION = re.compile(rf"{_URL}|{_HASH}|{_TICKET}")
_KIND = {"url": "url", "path": "path", "date": "number", "money": "number", "amount": "number", "number": "number"}
_WEAK = ("quoted", "snake", "name", "amount", "number")  # shapes that often carry nothing: the last ones taken under the cap
_TOOL = re.compile(
    r"(?P<commit>\[[^\]\n]{1,100} (?P<made>[0-9a-f]{7,40})\]|\bHEAD is now at (?P<at>[0-9a-f]{7,40})\b"
    r"|(?<![\w.])[0-9a-f]{7,40}\.{2,3}(?P<pushed>[0-9a-f]{7,40}) +\S{1,100} +->)"
    r"|(?P<url>\bhttps?://[^\s<>\"'`]{3,300}/(?:pull|issues|merge_requests|commit|browse)/[\w-]{1,64})"
    r"|\b(?i:created|opened|filed|booked|reserved)\b[^\n]{0,40}?(?P<id>\b[A-Z][A-Z0-9]{1,9}-\d{1,8}\b|#\d{1,8}\b)"
    r"|[\"'](?:\w{0,40}_)?(?i:id|identifier|number|sha)[\"']: ?(?:[\"'](?P<field>[\w.:#/-]{1,80})[\"']|(?P<digits>\d{1,20})\b)"
)
Found = tuple[int, str, str]  # rank (lower is taken first), kind, value


def _hash_kind(value: str) -> str | None:
    """A hexadecimal word of letters and digits is a commit by its usual lengths, else a hash; others are words or numbers."""
    if value.isdigit() or value.isalpha():
        return None
    return "commit" if len(value) <= 12 or len(value) == 40 else "hash"


def _value(match: re.Match[str]) -> Found | None:
    shape = match.lastgroup or ""
    text = match.group().strip("\"'`“” ").rstrip(".,:;!?)]}") if shape != "path" else match.group().rstrip(".")
    if shape == "hash":
        kind = _hash_kind(text)
        return (1, kind, text) if kind else (3, "number", text) if text.isdigit() else None
    if shape in ("pair", "labelled"):
        return 2, "number" if _NUMERIC.search(text) else "id", text
    return 3 if shape in _WEAK else 1, _KIND.get(shape, "id"), text


def _from_user(text: str) -> Iterator[Found]:
    for line in sentences(text):
        if found := _CONSTRAINT.search(line):
            yield 0, "constraint", clipped(line, USER_SENTENCE, found.start())
    for match in _VALUE.finditer(text):
        if value := _value(match):
            yield value


def prose(text: str) -> str:
    """What an assistant said, without its calls as `messages.text_of` shows them: a file that it wrote is no decision."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("tool("))


def _from_assistant(text: str) -> Iterator[Found]:
    text = prose(text)
    for line in sentences(text):
        for kind, pattern in _SAID.items():
            if found := pattern.search(line):
                yield 1, kind, clipped(line, ASSISTANT_SENTENCE, found.start())
                break
    for match in _MENTION.finditer(text):
        value = _value(match)
        if value and value[1] != "number":
            yield 0, value[1], value[2]


def _from_tool(text: str) -> Iterator[Found]:
    short = len(text) <= SHORT_RESULT
    for match in _TOOL.finditer(text):
        made = match["made"] or match["at"] or match["pushed"]
        if made:
            yield 0, "commit", made
        elif match["url"] or match["id"]:
            yield 1, "url" if match["url"] else "id", match["url"] or match["id"]
        elif short:
            yield 2, "id", match["field"] or match["digits"]


def _from_system(text: str) -> Iterator[Found]:
    """As from a user, without shapes that often carry nothing: rules for agents are full of them."""
    return (found for found in _from_user(text) if found[0] < 3)


_FROM = {"user": _from_user, "system": _from_system, "assistant": _from_assistant, "tool": _from_tool}


def source(turn: Turn) -> str:
    """Who an anchor of `turn` comes from: user, system, assistant, or tool for everyone else."""
    return turn.author if turn.author in _FROM else "tool"


def extract(turns: Iterable[Turn], text_of: Callable[[Any], str]) -> tuple[Anchor, ...]:
    """The anchors of `turns` in order of seq; `text_of` gives the text of a message. A value is kept at its first seq."""
    found: dict[tuple[str, str], Anchor] = {}
    for turn in turns:
        text, who = looked_at(text_of(turn.message)), source(turn)
        for kind, value in _best(_FROM[who](text), PER_TURN[who]):
            _keep(found, Anchor(kind, value, turn.seq, who))
    return tuple(sorted(found.values(), key=lambda a: a.seq))


def _best(found: Iterable[Found], most: int) -> list[tuple[str, str]]:
    """At most `most` (kind, value), lowest rank first, then in text order. No rank takes more than half while others wait."""
    ranks: dict[tuple[str, str], int] = {}
    taken = [0] * 4
    for rank, kind, value in found:
        if (kind, value) not in ranks and 1 < len(value) <= LONGEST_VALUE:
            taken[rank] += 1
            ranks[kind, value] = rank if taken[rank] <= most // 2 else rank + 4
    return sorted(ranks, key=lambda key: ranks[key])[:most]


def _keep(found: dict[tuple[str, str], Anchor], anchor: Anchor) -> None:
    """The first of equal ones stays, except that a user's word replaces anybody else's: it is never dropped."""
    before = found.get((anchor.kind, anchor.value))
    if before is None or (anchor.author == "user" and before.author != "user"):
        found[anchor.kind, anchor.value] = anchor


def merge(old: Iterable[Anchor], new: Iterable[Anchor]) -> tuple[Anchor, ...]:
    """Both together in order of seq, each value once, at most `ANCHORS_MAX` beside a user's constraints and names.

    What is carried is bounded by this, not by history: beyond it a user's oldest plain numbers go too, after everything
    that others said. They stay in the log, and `search` finds them.
    """
    found: dict[tuple[str, str], Anchor] = {}
    for anchor in (*old, *new):
        _keep(found, anchor)
    kept = sorted(found.values(), key=lambda a: a.seq)
    excess = len(kept) - ANCHORS_MAX
    for who in ("tool", "assistant", "system", "user"):
        if excess <= 0:
            break
        gone = {id(a) for a in [a for a in kept if a.author == who and (who != "user" or a.kind == "number")][:excess]}
        kept = [a for a in kept if id(a) not in gone]
        excess = len(kept) - ANCHORS_MAX
    return tuple(kept)


# --- shown -------------------------------------------------------------------------------------------------------------


def _both_ends(anchors: Sequence[Anchor]) -> list[Anchor]:
    """Newest, oldest, second newest, second oldest...: the task stands at the start, the work at the end."""
    half = (len(anchors) + 1) // 2
    newest, oldest = list(reversed(anchors))[:half], list(anchors)[: len(anchors) - half]
    mixed = [a for pair in zip(newest, oldest, strict=False) for a in pair]
    return mixed + newest[len(oldest) :]


def by_weight(anchors: Iterable[Anchor]) -> list[Anchor]:
    """Most worth showing first: a user's constraints, a user's values, then commits and what others said, newest first."""
    ordered = sorted(anchors, key=lambda a: a.seq)
    constraints = [a for a in ordered if a.author == "user" and a.kind == "constraint"]
    values = [a for a in ordered if a.author == "user" and a.kind != "constraint"]
    others = sorted([a for a in ordered[::-1] if a.author != "user"], key=lambda a: a.kind != "commit")
    return _both_ends(constraints) + _both_ends(values) + others


def _lines(anchors: Iterable[Anchor]) -> list[str]:
    groups: dict[tuple[int, int, str], list[Anchor]] = {}
    for anchor in anchors:
        place = KINDS.index(anchor.kind) if anchor.kind in KINDS else len(KINDS)
        groups.setdefault((anchor.author != "user", place, anchor.kind), []).append(anchor)
    lines = []
    for (other, _, kind), members in sorted(groups.items()):
        label = PLURALS.get(kind, f"{kind}s")
        values = " | ".join(a.value for a in sorted(members, key=lambda a: a.seq))
        lines.append(f"{label} (not from the user): {values}" if other else f"{label}: {values}")
    return lines


def render(anchors: Iterable[Anchor], budget_tokens: int, count: Callable[[str], int]) -> str:
    """Compact lines by kind, at most `budget_tokens` as `count` measures them; the last says how many did not fit."""
    ranked = by_weight(anchors)
    if not ranked:
        return ""
    left, shown = budget_tokens - count(f"+{len(ranked)} more in the record"), []
    labels: set[tuple[bool, str]] = set()
    for anchor in ranked:
        label = (anchor.author == "user", anchor.kind)
        cost = count(f" | {anchor.value}") + (0 if label in labels else count(f"{label[1]}s (not from the user): \n"))
        if cost <= left:
            left -= cost
            labels.add(label)
            shown.append(anchor)
    while True:
        lines = _lines(shown)
        if len(shown) < len(ranked):
            lines.append(f"+{len(ranked) - len(shown)} more in the record")
        text = "\n".join(lines)
        if count(text) <= budget_tokens or not shown:
            return text if count(text) <= budget_tokens else ""
        del shown[-max(1, len(shown) // 20) :]
