"""What is this text, if it is no summary? An error, a refusal, a request for input, a placeholder, somebody's orders (R15).

Each question looks where such a text shows itself: an error or a refusal opens with it, a request for input is most of
what is said, a placeholder is all of it. A summary may well speak of errors, refusals and orders further inside.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lineal.rules.quotes import contains, words

FEW = 15  # words up to which a text may be nothing but an order to send something
BRIEF = 80  # words up to which a text may be nothing but a request for input, or an error without its own marks
OPENING = 400  # characters in which a longer text shows what it is
FILLER = 6  # words beside a statement that there is no history, from which on the text may be a summary


def any_of(*patterns: str, flags: re.RegexFlag = re.I) -> re.Pattern[str]:
    """One expression that matches what any of `patterns` does; upper and lower case are the same."""
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns), flags)


def visible(text: str) -> bool:
    """Whether there is a letter or a digit in `text`: white space, zero-width signs and punctuation say nothing."""
    return any(c.isalnum() for c in text)


_THINKING = re.compile(r"<(think|thinking|thought|reasoning|analysis|scratchpad|reflection)>.*?(?:</\1>|\Z)", re.I | re.S)
_LABEL = any_of(
    r"[\W_]{0,20}(?:here(?:'s| is) )?(?:(?:the|a|conversation|session|context|working|updated) ){0,3}(?:summary|output|result|response)"
    r"\s{0,3}(?::|\n)"
)


def without_thinking(text: str) -> str:
    return _THINKING.sub(" ", text) if "<" in text else text


def body(text: str) -> str:
    """The text without thinking, leading marks, and a label such as "Summary:"."""
    plain = without_thinking(text).lstrip()
    label = _LABEL.match(plain)
    return re.sub(r"\A[^\w<{\[(]+", "", plain[label.end() :] if label else plain)


def _brief(text: str) -> bool:
    return len(words(text).split()) <= BRIEF


# --- errors ------------------------------------------------------------------------------------------------------------

_SUMMARY = r"(?:a |the |this |any |your )?(?:\w+ ){0,2}(?:summary|summaries|response|conversation|history|context|compaction|completion)\b"
_MAKE = r"(?:generate|create|produce|complete|get|fetch|write|summari[sz]e|compact|condense)"
_STATUS = (
    r"error|bad gateway|too many requests|internal server error|service unavailable|unauthori[sz]ed|forbidden|gateway time-?out"
    r"|bad request|payment required|overloaded"
)
_SOURCE = r"(?:api|llm|model|provider|server|openai|anthropic|http|internal|fatal|runtime|request|network|connection|stream|unknown)"
_ERROR = any_of(
    r"traceback \(most recent call last\)",
    rf"error (?:while |when )?(?:generating|creating|producing|writing|summari[sz]ing|compacting|condensing) {_SUMMARY}",
    r"error (?:while |when )?(?:calling|contacting|reaching|connecting to|communicating with) \w+",
    r"error (?:while|when|during|in) (?:the )?(?:summari[sz]ation|compaction|summary)\b",
    r"(?:failed to|unable to) (?:summari[sz]e|compact|condense)\s*(?:[.:!]|$)|summary (?:is )?unavailable\b",
    r"(?:oops\W{0,3})?something went wrong\s*(?:[.!]|$)|(?:the )?model (?:is )?(?:currently )?overloaded\s*(?:[.,!]|$)",
    r"service (?:is )?temporarily unavailable\s*(?:[.,!]|$)",
    r"this model['’]s maximum context length|prompt is too long\b|peer closed connection without|stream (?:ended|closed) unexpectedly",
    r"request failed(?: with status code \d|: ?\d{3}\b)|<error\b",
    rf"(?:failed to|unable to|could not|couldn't|cannot|can't) {_MAKE} {_SUMMARY}",
    r"(?:summary|summari[sz]ation|summari[sz]er|compaction|condensation|llm)(?: generation| request| call)?"
    r" (?:(?:has )?failed|errored|timed out|was aborted|(?:generation )?error)\b",
    r"(?:an|the) (?:\w+ )?(?:error|exception) (?:has )?(?:occurred|happened|was (?:raised|returned))",
    r"error(?: code)?:? ?[45]\d\d\s*(?:[:({\[–-]|$)",
    rf"(?:http(?: error)? )?[45]\d\d:? (?:{_STATUS})\b",
    r"[{\[]\s*[\"'](?:errors?|type)[\"']\s*:\s*(?:[{\[]|[\"']error[\"'])|\{\s*[\"']error[\"']",
    r"<!doctype html|<html\b",
)
_ERROR_IN_BRIEF = any_of(
    r"(?:(?:\w{1,40}\.){0,6}[a-z]{0,40}(?:error|exception|timeout)|(?:http )?(?:internal )?error(?: \d{3})?|[45]\d\d)\W{0,3}$",
    rf"(?:{_SOURCE} ){{0,3}}(?:error|exception|failure)\s?:",
    r"(?:\w{1,40}\.){0,6}[a-z]{2,40}(?:error|exception|timeout)\s?[:(]",
    rf"(?:connection (?:error|reset(?: by peer)?|refused|aborted|timed out|closed)|(?:request|read|operation|stream) time(?:d ?|-?)out"
    rf"|{_STATUS}|rate ?limit(?:ed| exceeded| reached)?|quota exceeded|insufficient[_ ]quota|overloaded[_ ]error|invalid request"
    r"|invalid api key|incorrect api key[\w ]{0,20}|authentication (?:error|failed)"
    r"|context[_ ]length[_ ]exceeded|maximum context length[\w ]{0,40}"
    r"|incomplete chunked encoding|broken pipe|undefined|null|nan|none|object object)\W{0,3}"
    r"(?:$|[.:!,(\[{–-]|for \w|on (?:requests|tokens))",
)


def error_shaped(text: str) -> bool:
    """Whether the text is what a failed call leaves behind, and not a summary that speaks of errors."""
    opening = body(text).lstrip("[(")
    return bool(_ERROR.match(opening) or (_brief(text) and _ERROR_IN_BRIEF.match(opening)))


# --- refusals and requests for input -----------------------------------------------------------------------------------

_HISTORY = r"(?:conversation|transcript|chat|dialog(?:ue)?|history|messages?|turns?|text|content|log|document|input|material|context)s?"
_CANNOT = (
    r"(?:unfortunately,? |i(?:['’]m| am) afraid,? (?:that )?)?(?:i|we) ?"
    r"(?:can(?:not|['’]t| not)|could(?: not|n['’]t)|won['’]t|will not|(?:am|['’]m) (?:unable|not able) to"
    r"|decline to|refuse to) (?:be able to )?"
)
_GIVE = r"(?:provide|share|paste|send|supply|upload|include|give|submit|need|see)"
_REFUSAL = any_of(
    r"(?:i(?:['’]m| am) (?:(?:so|very|really|truly) )?sorry|sorry\b|(?:my )?apologies|i apologi[sz]e)",
    r"as an? (?:ai|(?:large )?language model)\b|i must (?:respectfully )?decline|i(?:['’]d| would) rather not",
    r"i do(?: not|n['’]t) feel comfortable|i decline\b",
    r"unable to (?:comply|assist|help|fulfill?)\b|my (?:guidelines|polic(?:y|ies)|instructions) (?:prevent|forbid|do(?: not|n['’]t) allow)",
    rf"{_CANNOT}(?:help|assist|comply|fulfill?|engage|summari[sz]e|discuss|do (?:that|this))\b",
    rf"{_CANNOT}(?:provide|create|generate|produce|continue|process|answer|share|complete|write"
    rf"|access|see|read)\b[^.\n]{{0,40}}\b(?:summary|request|{_HISTORY})\b",
    r"(?:this|that|your|the) (?:request|content|conversation|prompt) (?:violates|goes against|was flagged|has been (?:flagged|blocked))",
    r"(?:it|that|this) (?:would be|is|goes) against (?:my|our|the) (?:\w+ )?(?:guidelines|polic(?:y|ies))",
)
_ASK = any_of(
    r"\b(?:please|kindly|could you|can you|would you|you can|you may|feel free to|if you|once you|i(?:['’]ll| will| would)? need you to)\b"
    rf"[^.\n]{{0,60}}?\b{_GIVE}\b[^.\n]{{0,60}}?\b{_HISTORY}\b",
    rf"\b(?:send|give|show|provide) me\b[^.\n]{{0,40}}\b{_HISTORY}\b",
    rf"\bi (?:do(?: not|n['’]t)|can(?:not|['’]t| not)) (?:see|have|find|access)\b[^.\n]{{0,40}}\b{_HISTORY}\b",
    rf"\bno {_HISTORY}\b[^.\n]{{0,30}}\b(?:to (?:summari[sz]e|compact|condense|process)|provided|given|attached|included|shared)\b",
    rf"\bit (?:looks|seems|appears) (?:like|that|as)\b[^.\n]{{0,60}}\b(?:is empty|is missing|no {_HISTORY}|(?:did|have)(?: not|n['’]t)"
    r" (?:provide|include|share|paste|send))",
    r"\bwhat (?:would|do|should|can|may) (?:you|i)\b[^.\n]{0,60}\b(?:like|help|assist|summari[sz]e|do)\b[^.\n]{0,40}\?",
    r"\bhow (?:can|may) i (?:help|assist)\b|\bi(?:['’]m| am) (?:ready|happy|here|glad) to (?:help|assist|summari[sz]e|start|begin)\b",
    rf"\bi(?:['’]d| would) be (?:happy|glad) to\b|\b(?:awaiting|waiting for) (?:the |your ){_HISTORY}\W*\Z",
)
_ASK_IN_FEW = any_of(
    r"(?:\A|[.!] )\W*(?:please )?(?:send|provide|paste|share|enter|give me)\b"
    rf"[^.\n]{{0,40}}\b(?:{_HISTORY}|request|instructions?|information)\b",
    rf"\b(?:awaiting|waiting for) (?:the |your |more |further )?(?:{_HISTORY}|instructions?|requests?)\W*\Z",
    rf"\bi need (?:the|your|more|some)\b[^.\n]{{0,20}}\b(?:{_HISTORY}|information|details)\b",
)
_ONE_QUESTION = any_of(
    r"\W*(?:what|which|how|would|could|can|do|does|shall|should|may|where|who|is|are|ready|want)\b[^.!?\n]{0,200}\?\W*",
    r"[^.!?\n]{0,40}\bnow\s?\?\W*",
)
_QUOTED = re.compile(r"\"[^\"\n]{1,500}\"|“[^“”\n]{1,500}”|`[^`\n]{1,500}`|(?<!\w)'[^'\n]{1,500}'(?!\w)")


def refuses(text: str) -> bool:
    return bool(_REFUSAL.match(body(text)))


def asks_for_input(text: str) -> bool:
    """Whether the text speaks to whoever called, asking for something to summarise, instead of summarising."""
    plain = _QUOTED.sub(" ", body(text)).strip()
    if _ONE_QUESTION.fullmatch(plain) or (len(plain.split()) <= FEW and _ASK_IN_FEW.search(plain)):
        return True
    return bool(_ASK.search(plain if _brief(plain) else plain[:OPENING].split("\n")[0]))


# --- placeholders ------------------------------------------------------------------------------------------------------

_PLACEHOLDER = any_of(
    r"(?:(?:your|the|insert|add|put|conversation|generated) ){0,3}summary (?:goes |will (?:go|be) |comes )?here|insert [\w ]{1,40}",
    r"(?:this is )?(?:an? |the )?(?:summary )?placeholder(?: summary| text){0,2}|nothing happened|empty conversation",
    r"to ?do|tbd|tba|n/?a|lorem ipsum\b.*|",
    r"(?:no|empty) (?:content|text|output|response|summary|string)(?: (?:available|yet|generated|given))?|empty",
    r"(?:conversation )?summary (?:(?:is|was) )?(?:not available|unavailable|pending|omitted|removed|elided)(?: for brevity)?",
    rf"(?:\d+ |the |all )?(?:earlier|previous|prior|older) {_HISTORY} (?:(?:have|has|was|were) )?(?:been )?(?:omitted|truncated|removed)",
    r"ok(?:ay)?|(?:all )?done|sure(?: thing)?|yes|no|got it|understood|acknowledged|noted|thanks|thank you|continue|hello|hi|true|false",
    flags=re.I | re.S,
)
_IN_BRACKETS = re.compile(r"\s*[\[<({]{1,2}\s?(?:[\w ]{0,20}\bsummary|(?:insert|your) [\w ]{1,40}|\.{3}|…)\s?[\]>)}]{1,2}\s*", re.I)
_NO_HISTORY = any_of(
    r"(?:(?:there (?:is|was|were|are)|we have|i have) )?(?:currently )?no(?:t any)?"
    r" (?:(?:prior|previous|earlier|existing|past|relevant|meaningful|new|chat) ){0,3}"
    rf"(?:{_HISTORY} ?){{1,3}}(?:(?:to|was|were|has|have|been|is|left|yet|so far|found|recorded|present|available|exists?"
    r"|summari[sz]ed?) ?){0,4}",
    r"(?:there (?:is|was) )?nothing (?:to|has been|was|is) (?:\w+ )?(?:summari[sz]ed?|compact(?:ed)?|condensed?|report|discussed)(?: yet)?",
    r"(?:the |this )?(?:conversation|session|history|transcript|chat) (?:history )?"
    r"(?:(?:has )?(?:just|only) (?:started|begun|begins)|is (?:empty|new))",
    rf"this is the (?:beginning|start) of (?:the|a|this) (?:new )?{_HISTORY}",
)
_NO_VALUE = any_of(
    r"none(?: yet)?|n/?a|nothing(?: yet)?|not (?:specified|available|applicable|yet started|started)|unknown|empty|tbd|no \w+(?: yet)?|"
)
_SECTION = any_of(
    r"goals?|progress|(?:next|open|done|key) ?(?:steps?|tasks?|points?|decisions?)?|context|decisions?|constraints?|status|blockers?|notes?"
)
_MARKS = " \t.!*_-()[]#"


def placeholder(text: str) -> bool:
    """Whether the text only holds the place of a summary: a template, an acknowledgement, "there is no history"."""
    plain = body(text).strip()
    if _IN_BRACKETS.fullmatch(plain) or _PLACEHOLDER.fullmatch(plain.strip(_MARKS + "\n")):
        return True
    empty, told = 0, []
    for line in plain.splitlines():
        for part in re.split(r"[.!;](?=\s|$)", line):
            value = part.rpartition(":")[2] if ":" in part else part
            if _NO_VALUE.fullmatch(value.strip(_MARKS)) or _NO_HISTORY.fullmatch(part.strip(_MARKS)):
                empty += visible(part)
            elif not _heading(part):
                told.append(part)
    without_history = any(_NO_HISTORY.fullmatch(part.strip(_MARKS)) for part in re.split(r"[.!;](?=\s|$)|\n", plain))
    return empty > 0 and len(words(" ".join(told)).split()) < (FILLER if without_history else 1)


def _heading(part: str) -> bool:
    bare = part.strip()
    return bare.startswith(("#", "**")) or bare.endswith(":") or bool(_SECTION.fullmatch(bare.strip(_MARKS)))


# --- orders ------------------------------------------------------------------------------------------------------------

_LABEL_OF_VIEW = re.compile(r"^[^\S\n]*\[lineal\b", re.I | re.M)
_NOTICE = r"(?i:notice|override|alert|reminder|instructions?|directive)"
_AS_SYSTEM = re.compile(
    r"^[ \t>*#`-]{0,8}(?:[\[<(|]{0,3}(?:SYSTEM|DEVELOPER)(?:[ _-]?[A-Z]{1,12})?[\])>|]{0,3}\s?:"
    rf"|[\[<(|]{{0,3}}(?i:system|developer)[ _-]?{_NOTICE}[\])>|]{{0,3}}\s?:"
    rf"|[\[<]{{1,2}}\|?(?i:system|developer)(?:[ _-]?{_NOTICE})?\|?[\]>]{{1,2}})|<\|im_start\|>|\[/?INST\]|<</?SYS>>"
)
_ORDER = any_of(
    r"\b(?:ignore|disregard|forget|override)(?: (?:all|any|every|the|your|these|of)){0,3}"
    r" (?:previous|prior|above|earlier|preceding|existing|system|safety)"
    r" (?:instructions?|messages?|rules|prompts?|context|guidelines|constraints|polic(?:y|ies))\b",
    r"\bdo(?: not|n['’]t) (?:tell|inform|alert|notify|(?:mention|reveal|show|disclose) (?:this|it|that) to)"
    r" (?:the )?(?:user|human|operator|customer)s?\b",
    r"\b(?:hide|conceal|keep) (?:this|it|that) (?:secret |hidden )?from (?:the )?(?:user|human|operator)\b",
    r"\byou must now\b|\bfrom now on,? you\b|\byou are now (?:an?|the|in|free|running)\b|\bnew (?:system )?(?:policy|instructions?) ?:",
)
_TOLD = re.compile(
    r"\b(?:said|says|saying|told|claim(?:s|ed)|contain(?:s|ed|ing)|wrote|tried|attempted|instructed|injected|injection|untrusted|suspicious"
    r"|malicious|phishing|ignored|refused|disregarded|not (?:followed|obeyed))\b",
    re.I,
)
_USER_TOLD = re.compile(r"\b(?:user|human|operator|customer)\b[^.\n]{0,20}\b(?:said|says|told|wrote|instructed|asked|wants)\b", re.I)


def view_label(text: str) -> bool:
    """Whether a line opens like one of the labels that only lineal writes into a view."""
    return bool(_LABEL_OF_VIEW.search(text))


def orders(text: str, user_texts: Sequence[str]) -> str:
    """The first line that gives orders as if the system spoke; empty when there is none.

    What a user said so, and what a line ascribes to somebody else than a user, is a report and no order.
    """
    for line in text.splitlines():
        if _AS_SYSTEM.search(line):
            return line.strip()
        found = {words(match.group()) for match in _ORDER.finditer(line)}
        rest = _ORDER.sub(" ", line) if found else ""
        if not found or (_TOLD.search(rest) and not _USER_TOLD.search(rest)):
            continue
        if any(not any(contains(words(said), order) for said in user_texts) for order in found):
            return line.strip()
    return ""
