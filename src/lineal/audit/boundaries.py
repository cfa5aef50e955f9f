"""The view, replayed over a history: what each boundary took out of it, and what of that was lost. Pure.

What stays, and who was shown the rest, is each host's own way:

| host | stays in the view | the writer of the summary was shown |
|---|---|---|
| Claude Code, compaction | nothing, or the records that the boundary names | the whole view |
| Claude Code, microcompact | all but the results of the calls that it names | nothing: there is no summary |
| Codex | what `replacement_history` repeats; without one, the user's messages | the whole view |
| pi | the entries from `firstKeptEntryIndex` on | the last summary, and of what leaves the entries after the last compaction |
| LangGraph, Google ADK, OpenAI Agents | what the store says the new view is | all of it, but for what the store shows otherwise |

So in pi the tail that one compaction kept leaves the view at the next one, and no summary was ever written from it.

A value is lost at a boundary if it stood in turns that left there, or in turns that left before and in the summary since,
and is no substring of the view behind the boundary. White space counts as one blank; of a value with its label ("ticket
OPS-12") the value alone is enough. A value may match by chance: the losses are at least as many as are told.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lineal.anchors import KINDS, extract
from lineal.audit.findings import CallSeen, CompactionAudit, Survival, Value
from lineal.audit.history import History, Said, tokens_of
from lineal.entries import Anchor, Turn
from lineal.messages import result_text, text_of
from lineal.messages.blocks import string
from lineal.transcripts import Boundary

DISTINCT = 4  # characters of a value that says something without its label
_LABEL = re.compile(r"^.*[ =:]")
AUTHORS = ("user", "system", "assistant", "tool")
Gone = dict[int, int]  # seq of a record -> number of the boundary at which it, or the result of its call, left the view


@dataclass
class _View:
    """What the model is shown: `summaries`, and `said` without the results of `cleared` calls and with the words that replaced others.

    `carried`: values of turns that left, still standing.
    """

    said: list[Said] = field(default_factory=list)
    cleared: set[str] = field(default_factory=set)
    carried: tuple[Anchor, ...] = ()
    summaries: list[str] = field(default_factory=list)
    replaced: dict[int, str] = field(default_factory=dict)
    compacted_at: int = 0  # line of the last compaction

    def text(self, said: Said) -> str:
        if said.seq in self.replaced:
            return self.replaced[said.seq]
        if not self.cleared.intersection(r.call for r in said.results):
            return said.text
        return "\n".join(result_text(said.message, r.call) for r in said.results if r.call not in self.cleared)


@dataclass(frozen=True)
class _Left:
    """What one boundary did: `left` is a turn and the part of its text that left; `after` the text of the view behind it."""

    left: tuple[tuple[Said, str], ...]
    tokens: int
    kept: tuple[Said, ...]
    unseen: tuple[tuple[Said, int], ...]
    after: str


def replay(history: History, conversation: str = "") -> tuple[tuple[CompactionAudit, ...], Gone]:
    """An account of each boundary, without its repeated calls; and where records left the view."""
    view, taken = _View(), 0
    out: list[CompactionAudit] = []
    gone: Gone = {}
    for number, (until, boundary) in enumerate(history.boundaries, 1):
        view.said += history.said[taken:until]
        taken = until
        left = _evict(view, boundary) if boundary.kind == "eviction" else _compact(view, boundary, history, taken)
        values = _values(view.carried, left.left)
        after = plain(left.after)
        lost = [a for a in values if not stands(a, after)]
        out.append(_account(boundary, left, values, lost, history, number, conversation))
        view.carried = tuple(a for a in values if stands(a, after))
        _go_on(view, boundary, left, history, number, gone)
    return tuple(out), gone


def _compact(view: _View, boundary: Boundary, history: History, until: int) -> _Left:
    """A compaction, or a rollback: that one may bring back what had left."""
    past = history.said[:until] if "view_ids" in boundary.detail else view.said
    stays = _stays(past, boundary, history.format)
    covered = [s for s in view.said if s.seq not in stays]
    kept = tuple(s for s in past if s.seq in stays)
    never = set(listed(boundary, "unseen_ids"))
    unread = [s for s in covered if s.id in never or (history.format == "pi" and s.line < view.compacted_at)]
    new = [text_of(item) for item in listed(boundary, "replacement_history")]
    view.summaries = [boundary.summary or "", *(text for text in listed(boundary, "standing") if isinstance(text, str))]
    after = "\n".join([*view.summaries, *new, *(view.text(s) for s in kept)])
    return _Left(
        tuple((s, view.text(s)) for s in covered), sum(s.tokens for s in covered), kept, tuple((s, s.tokens) for s in unread), after
    )


def _stays(past: Sequence[Said], boundary: Boundary, format: str) -> set[int]:
    detail = boundary.detail
    if "view_ids" in detail:
        ids = set(listed(boundary, "view_ids"))
        return {s.seq for s in past if s.id in ids}
    if "replacement_history" in detail:
        again = {_words(item, text_of(item)) for item in listed(boundary, "replacement_history")}
        return {s.seq for s in past if _words(s.message, s.text) in again}
    if "kept_from_line" in detail:
        return {s.seq for s in past if s.line >= detail["kept_from_line"]}
    if format == "codex":
        return {s.seq for s in past if s.author == "user"}
    ids = set(listed(boundary, "kept_ids"))
    return {s.seq for s in past if s.id in ids}


def listed(boundary: Boundary, name: str) -> list[Any]:
    """A list that the host wrote down; empty where it wrote none, or something else."""
    found = boundary.detail.get(name)
    return found if isinstance(found, list) else []


def _words(message: Any, text: str) -> tuple[str, str]:
    return string(message, "role"), plain(text)


def _evict(view: _View, boundary: Boundary) -> _Left:
    named = {id for id in listed(boundary, "tool_ids") if isinstance(id, str)} - view.cleared
    over = boundary.detail.get("replaced")
    over = over if isinstance(over, dict) else {}
    left, new = [], {}
    for s in view.said:
        if texts := [result_text(s.message, r.call) for r in s.results if r.call in named]:
            left.append((s, "\n".join(texts)))
        elif s.id in over:
            left.append((s, view.text(s)))
            new[s.seq] = str(over[s.id])
    view.cleared |= named
    view.replaced |= new
    touched = {s.seq for s, _ in left}
    kept = tuple(s for s in view.said if s.seq not in touched)
    unseen = tuple((s, tokens_of(text)) for s, text in left)
    return _Left(tuple(left), sum(n for _, n in unseen), kept, unseen, "\n".join([*view.summaries, *map(view.text, view.said)]))


def _account(
    boundary: Boundary, left: _Left, values: Sequence[Anchor], lost: Sequence[Anchor], history: History, number: int, conversation: str
) -> CompactionAudit:
    until = history.boundaries[number - 1][0]
    covered = {s.seq for s, _ in left.left}
    kept = {s.seq for s in left.kept}
    calls = [] if boundary.kind == "eviction" else [c for c in history.calls if c.seq in covered]
    unseen = sum(n for _, n in left.unseen)
    before = boundary.detail.get("tokens_before")
    went_back, default = boundary.kind == "rollback", set(listed(boundary, "default_unseen_ids"))
    deleted = boundary.detail.get("rows_deleted")
    return CompactionAudit(
        line=boundary.line,
        kind=boundary.kind,
        number=number,
        conversation=conversation,
        trigger=str(boundary.detail.get("trigger", "")),
        host_tokens=before if isinstance(before, int) else None,
        covered=len(left.left),
        covered_lines=_span(s for s, _ in left.left),
        covered_tokens=left.tokens,
        kept=len(left.kept),
        kept_tokens=sum(s.tokens for s in left.kept),
        summary_tokens=None if boundary.summary is None else tokens_of(boundary.summary),
        seen=1 - unseen / left.tokens if left.tokens and not went_back else None,
        unseen=len(left.unseen),
        unseen_lines=_span(s for s, _ in left.unseen),
        unseen_tokens=unseen,
        survival=() if went_back else _survival(values, lost),
        lost=() if went_back else tuple(Value(a.kind, a.value, a.author, history.said[a.seq - 1].line) for a in lost),
        open_calls=tuple(c for c in calls if c.result_seq is None or c.result_seq > until),
        parted=tuple(c for c in calls if c.result_seq is not None and (c.result_seq in kept or c.result_seq > until)),
        undone=tuple(c for c in _undone(boundary, history) if c.changes_state and c.may_have_happened and c.result_seq is not None),
        unseen_by_default=sum(s.tokens for s, _ in left.left if s.id in default) / left.tokens if left.tokens else 0.0,
        rows_deleted=deleted if isinstance(deleted, int) else 0,
        id=str(boundary.detail.get("id", "")),
    )


def _undone(boundary: Boundary, history: History) -> list[CallSeen]:
    """The calls that going back left behind, also those that had left the view before."""
    ids = set(listed(boundary, "undone_ids"))
    return [c for c in history.calls if history.said[c.seq - 1].id in ids]


def _go_on(view: _View, boundary: Boundary, left: _Left, history: History, number: int, gone: Gone) -> None:
    """The view behind the boundary; what left it is written down in `gone`."""
    covered = {s.seq for s, _ in left.left}
    if boundary.kind == "eviction":
        for call in history.calls:
            if call.result_seq in covered and (call.id in view.cleared or call.result_seq in view.replaced):
                gone.setdefault(call.seq, number)
        return
    for seq in covered:
        gone.setdefault(seq, number)
    for said in left.kept if boundary.kind == "rollback" else ():
        gone.pop(said.seq, None)  # going back brought it back
    view.said, view.compacted_at = list(left.kept), boundary.line


# --- values ----------------------------------------------------------------------------------------------------------


def plain(text: str) -> str:
    return " ".join(text.split())


def stands(anchor: Anchor, view: str) -> bool:
    """True if the value is in the text of the view."""
    if plain(anchor.value) in view:
        return True
    bare = _LABEL.sub("", anchor.value) if anchor.kind in ("id", "number") else ""
    return len(bare) >= DISTINCT and any(map(str.isdigit, bare)) and bare in view


def _values(carried: Sequence[Anchor], left: Iterable[tuple[Said, str]]) -> list[Anchor]:
    """Each value once; a user's word stands for anybody else's."""
    turns = (Turn(s.seq, "", s.author, "", 0, "", text) for s, text in left)
    found: dict[tuple[str, str], Anchor] = {}
    for anchor in (*carried, *extract(turns, str)):
        key = anchor.kind, anchor.value
        if key not in found or (anchor.author == "user" and found[key].author != "user"):
            found[key] = anchor
    return sorted(found.values(), key=lambda a: a.seq)


def _survival(values: Sequence[Anchor], lost: Sequence[Anchor]) -> tuple[Survival, ...]:
    total = Counter((a.author, a.kind) for a in values)
    gone = Counter((a.author, a.kind) for a in lost)
    order = sorted(total, key=lambda key: (AUTHORS.index(key[0]), KINDS.index(key[1])))
    return tuple(Survival(kind, author, total[author, kind], total[author, kind] - gone[author, kind]) for author, kind in order)


def _span(said: Iterable[Said]) -> tuple[int, int] | None:
    lines = [s.line for s in said]
    return (min(lines), max(lines)) if lines else None
