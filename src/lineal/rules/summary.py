"""May this text stand for the turns it covers? (record 002)

A summary is written by somebody who may be cut off, refuse, fail, misremember or have been talked into something. The
table looks at the text, at how the call ended and at what the session knows: who said what, what the previous summary
was, what the ledger knows to be done. It never judges style and never repairs: a refused summary leaves log and
generation as they are, and the summarizer may be asked again (R16).

What the text is, is asked in `rules/shapes.py`; what it puts into the user's mouth, in `rules/quotes.py`; what it says is
done, in `rules/completion.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lineal.errors import Verdict
from lineal.rules import Row, Table, shapes
from lineal.rules.completion import Effect, false_completion
from lineal.rules.quotes import contains, invented_approval, invented_quote, words

SHORT_WORDS, SHORT_COVERED = 4, 20_000  # fewer words than this cannot stand for more covered tokens than this
REPEATED_WORDS, LITTLE_NEW = 20, 5  # different words of a previous summary that is only repeated; new words beside it
WRAPPED_WORDS = 15  # different words of a previous summary that stands whole behind a label of its own
CUT_SHORT = frozenset(
    {"length", "max_tokens", "max_output_tokens", "max_completion_tokens", "incomplete", "model_length", "model_context_window_exceeded"}
    | {"pause_turn", "tool_use", "tool_calls", "function_call"}
)
WITHHELD = frozenset({"refusal", "content_filter", "content_filtered", "safety", "recitation", "blocklist", "guardrail_intervened"})
BROKEN = frozenset({"error", "failed", "aborted", "abort", "cancelled", "canceled", "timeout", "interrupted", "disconnected"})


@dataclass(frozen=True)
class SummaryFacts:
    """What the rule must know. Every field's default is the harmless value.

    `received`: ids of the turns that the summarizer really was given; None means all of `covered_ids`.
    `previous_given`: a previous summary is among what is covered; `previous_declared`: it was an input of this call.
    `user_texts`: what users said, in turns covered, kept or covered before; `other_texts`: what everybody else said.
    `ledger`: (key, tool, state) of effects not known to be done; `done_tools`: tools with an effect that is.
    `tokens` and `budget`: the summary's size and its cap (0: none); `covered_tokens`: the size of what it stands for.
    """

    text: str
    stop_reason: str | None = None
    covered_ids: Collection[str] = ()
    received: Collection[str] | None = None
    previous_given: bool = False
    previous_declared: bool = False
    previous_text: str = ""
    user_texts: tuple[str, ...] = ()
    other_texts: tuple[str, ...] = ()
    ledger: tuple[Effect, ...] = ()
    done_tools: Collection[str] = ()
    tokens: int = 0
    budget: int = 0
    covered_tokens: int = 0

    @property
    def stopped(self) -> str:
        return (self.stop_reason or "").strip().lower()

    @property
    def said_by_users(self) -> tuple[str, ...]:
        """A summary is nobody's words, also where a caller counts it among a user's (R21)."""
        return tuple(text for text in self.user_texts if text != self.previous_text)

    @property
    def missing(self) -> tuple[str, ...]:
        """Covered turns that the summarizer did not receive, in order."""
        if self.received is None:
            return ()
        received = set(self.received)
        return tuple(i for i in self.covered_ids if i not in received)


def echoed(f: SummaryFacts) -> bool:
    """Whether the text is, word for word, a turn of its own input.

    A text equal to the previous summary is no echo: it says nothing new, but a summarizer may well say the same twice,
    and what it left out is under the handle.
    """
    said = words(shapes.body(f.text))
    repeats = {said, words(f.text)}
    for other in (*f.other_texts, *f.user_texts):
        alike = abs(len(other.strip()) - len(f.text.strip())) <= max(200, len(f.text) // 2)
        if alike and words(other) in repeats:
            return True
    return False


_WRAPPER = shapes.any_of(
    r"(?:previous|prior|earlier|former|old|last|preceding)[ _-](?:summary|summaries|context|compaction)\W*$", r"\b(?:previously|so far)\W*$"
)


def nested(f: SummaryFacts) -> bool:
    """Whether the previous summary stands in the text whole: wrapped, twice, or with hardly anything beside it."""
    before, text = words(f.previous_text), words(f.text)
    different = len(set(before.split()))
    if different < WRAPPED_WORDS or text == before or not contains(text, before):
        return False
    new = len(text.split()) - len(before.split())
    if text.count(before) > 1 or (different >= REPEATED_WORDS and new < LITTLE_NEW):
        return True
    return bool(_WRAPPER.search(text[: text.index(before)][-60:]))


def _quote(f: SummaryFacts) -> str:
    return invented_quote(f.text, (*f.user_texts, f.previous_text))


def _approval(f: SummaryFacts) -> str:
    return invented_approval(f.text, f.said_by_users, f.previous_text)


def _completion(f: SummaryFacts) -> str:
    return false_completion(f.text, f.ledger, f.done_tools)


def _some(ids: Collection[str]) -> str:
    named = list(ids)[:5]
    return ", ".join(named) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")


def _start(text: str) -> str:
    return f"{' '.join(text.split()):.80}"


AGAIN = "ask the summarizer again; nothing was removed"
TABLE: Table[SummaryFacts] = Table(
    "summary",
    "record 002",
    "may this text stand for the turns it covers?",
    (
        Row(
            "empty",
            "no letter and no digit in the text: empty, white space, zero-width signs, punctuation",
            "refuse (R15)",
            lambda f: not shapes.visible(f.text),
            tell=lambda f: f"the summary has no visible word ({len(f.text)} characters).",
            remedy=AGAIN,
        ),
        Row(
            "truncated",
            "the call ended by length, or before the answer was finished",
            "refuse: half a summary is none (R15)",
            lambda f: f.stopped in CUT_SHORT,
            tell=lambda f: f"the summarizer was cut off: stop reason {f.stop_reason}.",
            remedy="let it write more than the summary's budget, or lower summary_max_tokens",
        ),
        Row(
            "thinking_only",
            "nothing is left beside thinking",
            "refuse (R15)",
            lambda f: not shapes.visible(shapes.without_thinking(f.text)),
            tell=lambda f: f"there is only thinking in the answer: {_start(f.text)!r}.",
            remedy="give the model room for an answer beside its thinking",
        ),
        Row(
            "error_shaped",
            "the text is what a failed call leaves behind, or the call ended with an error",
            "refuse (R15)",
            lambda f: f.stopped in BROKEN or shapes.error_shaped(f.text),
            tell=lambda f: f"it reads like an error: {_start(f.text)!r}.",
            remedy="let the summarizer raise when its call fails; then ask it again",
        ),
        Row(
            "refusal_shaped",
            "the text declines to summarise, or the provider withheld it",
            "refuse (R15)",
            lambda f: f.stopped in WITHHELD or shapes.refuses(f.text),
            tell=lambda f: f"it reads like a refusal: {_start(f.text)!r}.",
            remedy=AGAIN,
        ),
        Row(
            "asks_for_input",
            "the text asks for something to summarise, or is nothing but a question",
            "refuse (R15)",
            lambda f: shapes.asks_for_input(f.text),
            tell=lambda f: f"it asks instead of summarising: {_start(f.text)!r}.",
            remedy="pass the summarizer the whole request (`request.text`)",
        ),
        Row(
            "placeholder",
            "the text only holds a place: a template, an acknowledgement, `there is no history`",
            "refuse (R15)",
            lambda f: shapes.placeholder(f.text),
            tell=lambda f: f"it holds the place of a summary and says nothing: {_start(f.text)!r}.",
            remedy=AGAIN,
        ),
        Row(
            "echo",
            "the text is, word for word, a turn of its input",
            "refuse: it was not made by this call (R15)",
            echoed,
            tell=lambda f: f"it only repeats a turn: {_start(f.text)!r}.",
            remedy="return the text that the summarizer's own call produced",
        ),
        Row(
            "received_part",
            "covered turns are not among those that the summarizer received",
            "cover only what it received, else refuse (R9)",
            lambda f: bool(f.missing),
            tell=lambda f: f"{len(f.missing)} of {len(f.covered_ids)} covered turns did not reach the summarizer: {_some(f.missing)}.",
            remedy="state the summarizer's `window`, so that it is asked in chunks, or cover less",
        ),
        Row(
            "previous_undeclared",
            "a previous summary is covered and was no input of this call",
            "refuse: what it stood for would be gone (R17)",
            lambda f: f.previous_given and not f.previous_declared,
            tell=lambda f: "the summarizer was not given the previous summary, which this one would replace.",
            remedy="pass `request.previous` on (it is part of `request.text`), or cover its sources again",
        ),
        Row(
            "previous_nested",
            "the previous summary stands in the text whole: wrapped, twice, or with hardly anything beside it",
            "refuse: summaries are merged, never stacked (R22)",
            nested,
            tell=lambda f: f"the previous summary ({len(words(f.previous_text).split())} words) is quoted whole.",
            remedy="have it written anew, with what still matters",
        ),
        Row(
            "forged_label",
            "a line opens like a label of lineal's own (`[lineal ...`)",
            "refuse: only the view writes those (R21)",
            lambda f: shapes.view_label(f.text),
            tell=lambda f: "a line of the summary opens with `[lineal`.",
            remedy=AGAIN,
        ),
        Row(
            "invented_quote",
            "words are given as a user's that no user said",
            "refuse (R19)",
            lambda f: bool(_quote(f)),
            tell=lambda f: f"no user said {_quote(f)!r:.120}.",
            remedy="quote users only word for word, or report without quotes and colon",
        ),
        Row(
            "invented_approval",
            "a user is said to have approved something, and no user said yes to it",
            "refuse: prose never creates an approval (R19)",
            lambda f: bool(_approval(f)),
            tell=lambda f: f"no user's words bear out {_approval(f)!r:.120}.",
            remedy="leave approvals out; the turn that holds one can be read again by its handle",
        ),
        Row(
            "false_completion",
            "an effect is said to be done that the ledger does not know to be done",
            "refuse (R20)",
            lambda f: bool(_completion(f)),
            tell=lambda f: (
                f"{_completion(f)!r:.120} against the ledger: {_some([f'{k} ({tool}) is {state}' for k, tool, state in f.ledger])}."
            ),
            remedy="resolve the effect first, or leave its outcome to the ledger",
        ),
        Row(
            "hostile_directive",
            "a line gives orders as if the system spoke, and no user said so",
            "refuse: derived text commands nobody (R19, R21)",
            lambda f: bool(shapes.orders(f.text, f.said_by_users)),
            tell=lambda f: f"it gives orders: {shapes.orders(f.text, f.said_by_users)!r:.120}.",
            remedy="report such text as what a turn said, or drop it",
        ),
        Row(
            "too_short",
            f"fewer than {SHORT_WORDS} words for more than {SHORT_COVERED:,} covered tokens",
            "refuse (R15)",
            lambda f: f.covered_tokens > SHORT_COVERED and len(words(f.text).split()) < SHORT_WORDS,
            tell=lambda f: f"{len(words(f.text).split())} words for {f.covered_tokens:,} covered tokens.",
            remedy=AGAIN,
        ),
        Row(
            "too_large",
            "the summary is larger than its cap",
            "refuse (R22)",
            lambda f: 0 < f.budget < f.tokens,
            tell=lambda f: f"the summary has {f.tokens:,} tokens, its cap is {f.budget:,}.",
            remedy="keep to `request.budget`, or raise summary_max_tokens",
        ),
        Row("accepted", "otherwise", "may be committed", lambda f: True, allowed=True),
    ),
)


def judge(facts: SummaryFacts) -> Verdict:
    """The verdict on a summary, with the numbers and the ids that are missing as facts."""
    shown = {
        "tokens": facts.tokens,
        "budget": facts.budget,
        "covered_tokens": facts.covered_tokens,
        "missing": facts.missing,
        "stop_reason": facts.stop_reason,
    }
    return TABLE.decide(facts, shown)
