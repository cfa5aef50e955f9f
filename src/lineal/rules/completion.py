"""Does a text claim that something is done which the ledger does not know to be done? (R20)

| the text says | stands if |
|---|---|
| that an effect is done, by its key or by its tool's name | the ledger has no row for it in another state than done |
| that all, every or each step is done, that everything is, that nothing is left | no effect is intended or unknown |

A clause that hedges (planned, unknown, failed, not, may, if, ...) claims nothing. A list under a heading such as
"Done:" claims each of its lines. A tool that is also known to have done its work elsewhere is judged by key alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from lineal.rules.quotes import contains, words

Effect = tuple[str, str, str]  # key, tool, state as in the ledger
SETTLED = ("done", "compensated")
UNSETTLED = ("intended", "unknown")

_DONE = (
    r"(?:done|(?<!to )complete(?:d)?|finished|succeeded|success(?:ful(?:ly)?)?|executed|applied|deployed|sent|committed|confirmed|shipped"
    r"|delivered|performed|carried out|processed|settled|went through|gone through|took effect|in place|ok)"
)
_CLAIM = re.compile(rf"\b{_DONE}\b|[✓✔✅☑]|\[x\]", re.I)
_HEDGE = re.compile(
    r"\b(?:not|never|no|unknown|unclear|uncertain|doubt\w*|pending|may|might|maybe|perhaps|possibly|probably|unconfirmed|unresolved|unsettled"
    r"|failed|fails?|failure|timed out|time-?out|plan(?:ned)?|plans|will|would|to be|should|todo|if|until|unless|before|once|yet"
    r"|intend\w*|attempted|tried|whether|remain\w*|outstanding|still|need\w*|must|cannot|could|can|open|await\w*|wait\w*|next|verify|check"
    r"|in progress|in[- ]flight|running|started|begun|refused|rejected|errors?|aborted|cancel\w*|partially|partly|almost|nearly"
    r"|claim(?:s|ed)?|\w{2,6}n['’]t)\b"
    r"|\?|\[ \]|[✗✘❌⏳]",
    re.I,
)
_WITHOUT_TROUBLE = re.compile(r"\b(?:with(?:out)?|no)\s+(?:any\s+|no\s+)?(?:errors?|problems?|issues?|failures?|further \w+)\b", re.I)
_CLAUSE = re.compile(r"[.!](?=\s|$)|;|(?<=\?)|,?\s+(?:but|while|whereas|however|except)\s+", re.I)
_PART = re.compile(r",\s+|\s[—–]\s")
_HEADING = re.compile(r"\s*(?:#+\s*|\*\*)?(?P<title>[^\n:*.;]{1,60}?)(?:\*\*)?\s*:?(?:\*\*)?\s*")
_DONE_TITLE = re.compile(rf"(?:\w+\s+){{0,3}}{_DONE}(?:\s+\w+){{0,3}}", re.I)
_BULLET = re.compile(r"\s*(?:[-*•+]|\d{1,3}[.)])\s+")


def false_completion(text: str, ledger: Sequence[Effect], done_tools: Collection[str] = ()) -> str:
    """The first clause of `text` that claims more than the `ledger` knows; empty when none does.

    `ledger` has (key, tool, state) of the effects that are not known to be done; rows of other states are passed over.
    `done_tools` names tools of which some other effect is known to be done.
    """
    open_effects = [e for e in ledger if e[2] not in SETTLED]
    if not open_effects:
        return ""
    unsettled = any(state in UNSETTLED for _, _, state in open_effects)
    sought = [(words(key), [] if tool in done_tools else _parts(tool)) for key, tool, _ in open_effects]
    for clause, under_done in _clauses(text):
        if (unsettled and sweeping(clause)) or any(_claims(part, under_done, sought) for part in _pieces(clause)):
            return " ".join(clause.split())
    return ""


def _clauses(text: str) -> Iterator[tuple[str, bool]]:
    """(clause, whether it stands in a list under a heading that says "done")."""
    under_done = False
    for line in text.splitlines():
        if not line.strip():
            continue
        bullet = _BULLET.match(line)
        if not bullet:
            under_done = _says_done_below(line)
        for clause in _CLAUSE.split(_WITHOUT_TROUBLE.sub(" ", line)):
            if clause.strip():
                yield clause, under_done and bool(bullet)


def _says_done_below(line: str) -> bool:
    heading = _HEADING.fullmatch(line)
    if not heading or not (line.rstrip().rstrip("*").endswith(":") or line.lstrip().startswith(("#", "**"))):
        return False
    return bool(_DONE_TITLE.search(heading["title"])) and not _HEDGE.search(heading["title"])


# --- one effect --------------------------------------------------------------------------------------------------------

_GENERIC = frozenset(
    "bash shell sh run exec execute command cmd python terminal edit write read tool task call http request browser computer file str"  # noqa: SIM905
    " replace editor apply patch stdin notebook multi web fetch search mcp functions function default api use".split()
)
_PAST = {
    "send": "sent", "pay": "paid", "write": "written", "build": "built", "make": "made", "buy": "bought", "sell": "sold", "put": "put",
    "set": "set", "give": "given", "run": "ran", "cut": "cut", "lend": "lent", "spend": "spent", "withdraw": "withdrawn", "take": "taken",
}  # fmt: skip


def _pieces(clause: str) -> list[str]:
    """The clause and its parts between commas: a doubt in one part does not cover a claim in another."""
    parts = _PART.split(clause)
    return [clause] if len(parts) == 1 else [clause, *parts]


def _claims(piece: str, under_done: bool, sought: Sequence[tuple[str, Sequence[str]]]) -> bool:
    """Whether `piece` says of one of the effects (words of its key, words of its tool's name) that it is done."""
    if _HEDGE.search(piece):
        return False
    says_done = under_done or bool(_CLAIM.search(piece))
    folded = words(piece)
    by_key = says_done and any(len(key) > 1 and contains(folded, key) for key, _ in sought)
    return by_key or any(tool and _names_tool(folded.split(), tool, says_done) for _, tool in sought)


def _parts(tool: str) -> list[str]:
    """The words in a tool's name; none when they say nothing about what it does."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", tool.split("__")[-1])
    found = words(name).split()
    return [] if all(part in _GENERIC for part in found) else found


def _names_tool(said: Sequence[str], parts: Sequence[str], says_done: bool) -> bool:
    """Whether all words of the tool's name are there, with a claim of completion or its verb in the past."""
    if not all(any(_alike(part, word) for word in said) for part in parts[1:]):
        return False
    verb = parts[0]
    past = any(word == _PAST.get(verb) or (word.endswith("ed") and _alike(verb, word)) for word in said)
    return past or (says_done and any(_alike(verb, word) for word in said))


def _alike(a: str, b: str) -> bool:
    """Forms of one word: rotate, rotated, rotation; key, keys."""
    if a == b:
        return True
    short = min(len(a), len(b))
    same = next((i for i in range(short) if a[i] != b[i]), short)
    return same >= max(4, short - 1) if same < short or short > 3 else abs(len(a) - len(b)) <= 2 and short == 3


# --- all of them -------------------------------------------------------------------------------------------------------

_THING = (
    r"(?:steps?|tasks?|effects?|actions?|work|items?|operations?|jobs?|calls?|changes?|migrations?|e?-?mails?|messages?|payments?|orders?"
    r"|todos?|things?|requests?|deployments?|deploys?|transfers?|bookings?|updates?|commands?|rotations?|of (?:them|it|this|these|those))"
)
_WHICH = (
    r"(?:\s+(?:of|the|these|those|our|my|its|\d{1,4}|two|three|four|five|six|seven|eight|nine|ten|planned|requested|remaining|required"
    r"|pending|open|other|outstanding|side|necessary|scheduled)){0,5}"
)
_BE = r"(?:\s+(?:is|are|was|were|has|have|been|now|got|fully|successfully|already|indeed|also)){0,4}"
_SWEEPING = re.compile(
    rf"\b(?:all|every|each|both)\b{_WHICH}\s+{_THING}\b(?:[^.\n]{{0,40}}?\s)?{_DONE}\b"
    rf"|\b(?:all|everything|every one|the lot)\b(?:\s+(?:two|three|four|five|six|seven|eight|nine|ten|\d{{1,4}}))?{_BE}\s+{_DONE}\b"
    rf"|\b(?:{_DONE}|ran)\s+(?:all|every|each|everything|both)\b(?:{_WHICH}\s+{_THING}\b|\s*$|\s+that\b)"
    rf"|\bthe\s+(?:whole\s+|entire\s+)?(?:task|work|job|plan|migration|rollout|project)\s+(?:is|was|has been)\s+(?:\w+\s+)?{_DONE}\b"
    r"|\b100\s?%\s+(?:done|complete|finished)\b",
    re.I,
)
_WHAT_WAS_OPEN = re.compile(r"\b(?:remaining|outstanding|pending|open|planned)\b", re.I)
_NOTHING_LEFT = re.compile(
    r"\bnothing\b(?:\s+\w+){0,2}\s+(?:left|remains?|remaining|pending|outstanding|open|to do)\b|\bno\s+(?:pending|unresolved|outstanding"
    r"|in-flight|open|remaining)\s+(?:effects?|actions?|operations?|calls?|steps?)\b",
    re.I,
)


def sweeping(clause: str) -> bool:
    """Whether a clause, or a part of it, claims that all there was to do is done."""
    return bool(_NOTHING_LEFT.search(clause)) or any(
        _SWEEPING.search(piece) and not _HEDGE.search(_WHAT_WAS_OPEN.sub(" ", piece)) for piece in _pieces(clause)
    )
