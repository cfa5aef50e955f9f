"""What does a text put into the user's mouth? Words and approvals, held against what users really said (R19).

| put into the user's mouth | stands if |
|---|---|
| words in quotes beside a verb or noun of saying; words after `User said:`, also as a list | one text of a user has them (`VERBATIM`) |
| a request after a colon: `User asked: x` | a passage of one text has nearly all of its content words (`NEARLY`) |
| a reported request: `User asked: whether x`, `User request: x`, a speaker's line `User: x` | a passage has half of them (`HALF`) |
| an approval: `the user approved x`, `with the user's consent` | a user said yes, and to x where the yes is no bare answer |

Verbatim is apart from case, spacing, punctuation and marked omissions. Approvals that are denied, asked for or
conditional put nothing into anyone's mouth. What assistants and tools said is not judged here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

Texts = Sequence[str]
VERBATIM, NEARLY, HALF = 1.0, 0.8, 0.5
CONTEXT = 200  # characters before an approval in which a denial or a condition counts
PASSAGE = 80  # words of one text that are looked at together

# --- words -------------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W_]+")
_EMPHASIS = re.compile(r"\*+|__")
_OMISSION = re.compile(r"\[[^\]\n]{0,200}\]|…|\.{3,}")
_STOP = frozenset(
    "the and for with that this was were are has have had not but you your our their its from into out all any can will would"  # noqa: SIM905
    " should could whether what which who how when where there then than them they she his her him also just only about please user"
    " asked said".split()
)


def words(text: str) -> str:
    """The words of `text`, folded, one space between: equal for texts that differ in case, spacing and punctuation."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def _stems(folded: Sequence[str]) -> frozenset[str]:
    """The first five letters of each content word."""
    return frozenset(w[:5] for w in folded if w not in _STOP and (len(w) > 2 or not w.isascii() or w.isdigit()))


def contains(text: str, part: str) -> bool:
    """Whether the words `part` stand in the words `text`, side by side. Both as `words` gives them."""
    return f" {part} " in f" {text} " or (not part.isascii() and part.replace(" ", "") in text.replace(" ", ""))


_NOT = ("not", "never", "no", "dont", "without", "t")  # "t" is what folding leaves of "don't"


def _quoted_from(text: str, part: str) -> bool:
    """Whether the words `part` stand in `text` other than behind a denial that the quote leaves out."""
    text = f" {text} "
    at = text.find(f" {part} ")
    while at >= 0:
        if text[max(0, at - 10) : at].rpartition(" ")[2] not in _NOT:
            return True
        at = text.find(f" {part} ", at + 1)
    return not part.isascii() and contains(text, part)


def said(quote: str, folded: Texts) -> bool:
    """Whether one of the texts, given as `words`, holds `quote`; `...` and `[...]` in it stand for something left out."""
    parts = [part for part in map(words, _OMISSION.split(quote)) if part]
    return any(all(_quoted_from(text, part) for part in parts) for text in folded)


def supported(statement: str, folded: Texts, share: float) -> bool:
    """Whether a passage of one of the texts, given as `words`, has `share` of the content words of `statement`."""
    wanted = _stems(words(statement).split())
    if not wanted or share >= VERBATIM:
        return said(statement, folded)
    for text in map(str.split, folded):
        for start in range(0, max(1, len(text) - PASSAGE // 2), PASSAGE // 2):
            if len(wanted & _stems(text[start : start + PASSAGE])) >= share * len(wanted):
                return True
    return False


# --- quotes ------------------------------------------------------------------------------------------------------------

_USER = r"\b(?:user|human|customer|client|operator|owner|requester)"
_SPOKE = (
    r"said|says|saying|wrote|writes|stated|states|told|replied|replies|answered|responded|commented|mentioned|noted|typed|insisted|added"
)
_ASKED = (
    r"asked|asks|asking|requested|requests|instructed|instructs|demanded|ordered|directed|clarified|explained|specified|confirmed|shared"
)
_ADVERB = (
    r"(?:\s+(?:has|have|had|also|then|now|again|later|just|first|once|twice|next|[a-z]{3,12}ly|\([^)\n]{0,40}\)"
    r"|in (?:turn|message) \S{1,12}|at seq \d{1,9})){0,4}"
)
_LINK = (
    r"(?:\s+(?:that|me|us|you|the (?:agent|assistant|model|bot)|to|back|again|literally|verbatim|exactly|the following|this|as follows"
    r"|in (?:turn|message) \S{1,12}|at seq \d{1,9}|earlier|later)\b|\s*\([^)\n]{0,60}\)|,){0,5}"
)
_NOUN = (
    r"(?:['’]s\s+|s['’]\s+|\s+)(?:[\w-]{1,20}\s+){0,3}(?:requests?|messages?|questions?|instructions?|words|statements?|quotes?|prompts?|repl(?:y|ies)"
    r"|answers?|response|feedback|demands?|directives?)(?:\s+(?:was|is|were|reads?|are))?"
)
_DOUBLE = r"\"[^\"]{1,2000}\"|“[^“”]{1,2000}”|«[^«»]{1,2000}»"
_QUOTED = rf"(?:{_DOUBLE}|(?<!\w)'(?:[^'\n]|'(?=\w)){{1,2000}}'(?!\w)|‘(?:[^‘’\n]|’(?=\w)){{1,2000}}’(?!\w))"
_QUOTE = re.compile(rf"\s*(?P<quote>{_QUOTED}|`[^`\n]{{1,400}}`)")
_MORE = re.compile(rf"\s*(?:,|;|and|or|then|,\s*and)\s*(?P<quote>{_QUOTED})")
_LATER = re.compile(rf"[^\n\"“”«».!?;:]{{0,60}}(?P<quote>{_DOUBLE})")
_SAYING = re.compile(rf"{_USER}{_ADVERB}\s+(?:(?P<spoke>{_SPOKE})|{_ASKED})\b(?P<link>{_LINK})(?P<colon>\s*:)?", re.I)
_NAMING = re.compile(rf"(?:\b(?:user|human)|{_USER}(?=['’]s)){_NOUN}(?P<colon>\s*:)?", re.I)
_SPEAKER = re.compile(r"^[ \t]*(?:[-*>]\s*|\d{1,3}[.)]\s*)?(?:user|human|customer)\s*(?:\([^)\n]{0,40}\)\s*)?:(?=\s)", re.I | re.M)
_AFTER = re.compile(
    rf"(?P<quote>{_DOUBLE})[,.]?\s*(?:[—–-]\s*)?(?:\((?:the\s+)?user\b|(?:said|wrote|asked|says|replied|answered)\s+(?:the\s+)?user\b"
    rf"|(?:the\s+)?user\s+(?:{_SPOKE}|{_ASKED})\b(?!\s*[:\"“]))",
    re.I,
)
_STATEMENT_END = re.compile(r"[.!?](?=\s|$)|;|\n|\s[—–]\s|\s(?:->|→|=>)|\s\(")
_REPORTED = re.compile(r"\s*(?:to|whether|if|for|about|that|which|how|why)\b", re.I)
_NONE = re.compile(
    r"\W*(?:none|nothing|unknown|n/?a|no(?: (?:open|outstanding|pending|further|new|current|explicit|direct))?"
    r"(?: (?:one|requests?|questions?|messages?|quotes?|instructions?|statements?|items?))?|not (?:yet )?(?:specified|given|known|stated))?"
    r"(?: (?:open|outstanding|pending|yet|so far|given|recorded|applicable))?\W*",
    re.I,
)
_BULLET = re.compile(r"[ \t]*(?:[-*•]|\d{1,3}[.)])[ \t]+(?P<text>[^\n]*)\n?")


def invented_quote(text: str, user_texts: Texts) -> str:
    """The first words that `text` wrongly says a user said; empty when all of them stand."""
    folded: list[str] | None = None
    for quote, share in _quotes(_EMPHASIS.sub("", text)):
        folded = [words(text) for text in user_texts] if folded is None else folded
        if not _NONE.fullmatch(quote) and not supported(quote, folded, share):
            return " ".join(quote.split())
    return ""


def _quotes(text: str) -> Iterator[tuple[str, float]]:
    """(words, how much of them a user must have said)."""
    for match in _SAYING.finditer(text):
        reported = re.search(r"\b(?:to|that)\s*$", match["link"])
        yield from _told(text, match, HALF if reported else VERBATIM if match["spoke"] else NEARLY, code=True)
        later = _LATER.match(text, match.end("link"))
        if later and len(words(later["quote"]).split()) >= 4:
            yield later["quote"], VERBATIM
    for match in _NAMING.finditer(text):
        yield from _told(text, match, HALF)
    for match in _SPEAKER.finditer(text):
        yield from _told(text, match, HALF, shortest=3)
    for match in _AFTER.finditer(text):
        yield match["quote"], VERBATIM


def _told(text: str, saying: re.Match[str], share: float, code: bool = False, shortest: int = 1) -> Iterator[tuple[str, float]]:
    """What follows a verb or noun of saying: quotes, or after a colon a statement or a list of them."""
    at = saying.end()
    quote = _QUOTE.match(text, at)
    if quote and (code or not quote["quote"].startswith("`")):
        while quote:
            yield quote["quote"], VERBATIM
            quote = _MORE.match(text, quote.end())
        return
    if quote or not saying.group().endswith(":"):
        return
    end = _STATEMENT_END.search(text, at)
    statement = text[at : end.start() if end else len(text)]
    if statement.strip():
        if len(words(statement).split()) >= shortest:
            yield statement, HALF if _REPORTED.match(statement) else share
        return
    at = text.find("\n", at) + 1
    while at and (bullet := _BULLET.match(text, at)):
        item, at = bullet["text"], bullet.end()
        quote = _QUOTE.match(item)
        if quote and not quote["quote"].startswith("`"):
            yield quote["quote"], VERBATIM
        elif item[:1] not in ("(", "[", "`"):
            yield item, share


# --- approvals ---------------------------------------------------------------------------------------------------------

_WHO = r"(?:user|human|customer|operator|owner|client|manager|stakeholder)"
_GRANT = r"(?:go-?\s?ahead|green light|approval|consent|thumbs[- ]up|sign-?off|blessing|authori[sz]ation|clearance)"
_GRANTS = rf"(?:{_GRANT}|permission|ok|okay)"
_STRONG = (
    r"(?:approved|authori[sz]ed|green-?lit|greenlighted|signed[- ]off|consented|agreed|permitted|okayed|ok['’]?d|sanctioned|blessed"
    rf"|confirmed|(?:gave|given|granted|provided|issued)\s+(?:[\w'’]+\s+){{0,3}}{_GRANTS}"
    r"|said\s+(?:yes|ok(?:ay)?|(?:to )?go ahead|(?:to )?proceed))"
)
_BETWEEN = (
    r"(?:,?\s+(?:has|have|had|also|then|now|later|already|just|once|and|or|the|not|never|both|in|on|at|turn|seq|#?\d{1,9}|[a-z]{3,12}ly"
    rf"|\([^)\n]{{0,40}}\)|{_WHO}|\w{{2,6}}n['’]t),?){{0,5}}"
)
_APPROVAL = re.compile(
    rf"\b{_WHO}(?P<between>{_BETWEEN})\s+(?:{_STRONG}|(?P<weak>accepted|allowed(?=\s+(?:the|us|me|it|this|that|to|an?)\b)))\b"
    rf"|\b(?:approved|authori[sz]ed|green-?lit|signed off|sanctioned|okayed)\s+by\s+(?:the\s+)?{_WHO}\b"
    rf"|\bwith\s+(?:the\s+)?{_WHO}['’]s\s+(?:[\w-]+\s+)?{_GRANTS}\b"
    rf"|\b{_GRANT}\s+(?:(?:was|is|were|has been|had been)\s+)?(?:given|granted|obtained|received|secured)\b"
    rf"|\b{_WHO}(?:['’]s)?\s+permission\s+(?:(?:was|is|has been)\s+)?(?:given|granted|obtained|received|secured)\b"
    rf"|\b(?:approval|authori[sz]ation|permission|consent)\s*:\s*(?:yes|granted|given|approved|obtained|received|ok)\b"
    rf"|\b{_WHO}-(?:approved|authori[sz]ed)\b",
    re.I,
)
_CLAUSE = re.compile(r"[.!?](?=\s|$)|[;\n]|,?\s+but\s+|,?\s+however\b", re.I)
_DENIED = re.compile(r"\b(?:not|never|no|nor|\w+n['’]t)\b", re.I)
_DENIED_BEFORE = re.compile(r"\b(?:not|never|no|nor|without|lacks?|lacking|\w+n['’]t)\b(?:\W+\w+){0,2}\W*$", re.I)
_DENIED_AFTER = re.compile(r"\W{0,3}(?:no|not|none|never|pending|unknown|n/?a|false|required|needed|missing|tbd)\b|\s*[:=]?\s*[✗✘❌]", re.I)
_CONDITIONAL = re.compile(
    r"\b(?:if|once|until|unless|whether|before|await\w*|wait(?:s|ed|ing)?|pending|needs?|requires?|required|must|should|unclear|claim(?:s|ed)?"
    r"|pretend\w*|alleged\w*|asked (?:for|whether|if)|(?<=\w )when)\b",
    re.I,
)
_FACT = re.compile(
    r"\s+(?:that|which|how|what|who|where|when|why|whether|it is|it['’]s|seeing|there|they|their|his|her|its|no|\d"
    r"|(?:the|this|a) (?:bug|issue|error|problem|fix|behaviou?r|diagnosis)\b)",
    re.I,
)
_NOT_THE_OBJECT = re.compile(
    rf"\b(?:{_STRONG}|accepted|allowed|{_GRANTS}|{_WHO}|received|obtained|secured|turn|yes|assistant|[a-z]{{3,12}}ly)\b", re.I
)
_YES = re.compile(
    r"\b(?:yes|yep|yeah|yup|(?:i|we) (?:hereby )?(?:approve|authori[sz]e|confirm|agree|accept|allow|permit|consent)|approved?|authori[sz]ed"
    r"|confirm(?:ed)?|agreed|granted|permission to|go ahead|go for it|proceed|please do|do (?:it|that|so)|(?:ship|merge|send|deploy|run"
    r"|push|take|book) it|lgtm|(?:looks|sounds|all) good|green light|thumbs up|you (?:may|can)|feel free|works for me|good to go|happy with"
    r"|makes sense|good idea)\b|👍|✅|可以|同意|はい"
    r"|^\W*(?:(?:ok|okay|k|y|sure|right|exactly|fine|great|perfect|correct|absolutely|of course|continue|carry on|ja|oui|s[ií])\b|[是好])",
    re.I,
)
_POLITE = _stems("thanks thank much lot now then well very good that's it's let know when finished ready lets".split())  # noqa: SIM905
_NO = re.compile(r"\b(?:not|never|no|nope|without|until|unless|\w+n['’]t)\b", re.I)


def invented_approval(text: str, user_texts: Texts, previous: str = "") -> str:
    """The first clause of `text` that wrongly says a user approved something; empty when all stand.

    What an accepted `previous` summary says so already is carried on, not made up.
    """
    before = [_stems(words(what).split()) for _, what, _ in _approvals(previous)]
    for clause, what, fact in _approvals(text):
        wanted = _stems(words(what).split())
        carried = any(2 * len(wanted & known) >= len(wanted) for known in before)
        if not carried and not _approved(what, fact, user_texts):
            return " ".join(clause.split())
    return ""


def _approvals(text: str) -> Iterator[tuple[str, str, bool]]:
    """(clause that says a user approved, what it speaks of, whether it only reports what a user made sure of)."""
    for clause in _CLAUSE.split(_EMPHASIS.sub("", text)):
        for match in _APPROVAL.finditer(clause):
            start, end = match.span()
            before = clause[max(0, start - CONTEXT) : start]
            denied = _DENIED.search(match["between"] or "") or _DENIED_BEFORE.search(before) or _DENIED_AFTER.match(clause, end)
            if denied or _CONDITIONAL.search(before):
                continue
            fact = match["weak"] or (match.group().lower().endswith("confirmed") and _FACT.match(clause, end))
            yield clause, _NOT_THE_OBJECT.sub(" ", clause), bool(fact)
            break


def _approved(what: str, fact: bool, user_texts: Texts) -> bool:
    """Whether a user said yes: in a sentence without an object to anything, in another one to what both speak of."""
    wanted = _stems(words(what).split())
    for text in user_texts:
        for sentence in re.findall(r"[^.;!?\n]+[.;!?\n]?", text):
            if says_yes(sentence):
                about = _stems(words(_YES.sub(" ", sentence)).split()) - _POLITE
                if not wanted or not about or wanted & about:
                    return True
    return fact and bool(wanted) and supported(what, [words(text) for text in user_texts], HALF)


def says_yes(sentence: str) -> bool:
    """Whether some clause of a user's sentence, which is no question, is a yes that is not denied."""
    return not sentence.endswith("?") and any(_YES.search(c) and not _NO.search(c) for c in sentence.split(","))
