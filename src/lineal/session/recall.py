"""Reading back what left the view: turns of the retained log, handles, search."""

from __future__ import annotations

import math
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lineal import codec, messages, ranges
from lineal.engines import Row
from lineal.entries import CompactionCommitted, Entry, Node, Range, Turn, TurnAppended
from lineal.errors import Refused, Verdict
from lineal.lineage import Lineage
from lineal.session.outcomes import Hit

if TYPE_CHECKING:
    from lineal.session import Session

SNIPPET = 240  # characters of a hit's text
BM25_K1, BM25_B = 1.5, 0.75


def turn_of(row: Row, e: TurnAppended) -> Turn:
    return Turn(row.seq, e.id, e.author, e.role, e.tokens, row.inner.hex(), e.message)


def turns(session: Session, after: int = 0) -> Iterator[Turn]:
    """What was said on this branch, oldest first, from the retained log. Purged turns are left out, pruned ones are gone."""
    lineage = session.log.catch_up()
    return _turns(session.log.entries(after), lineage)


def page(session: Session, before: int | None, limit: int | None) -> list[Turn]:
    """The newest `limit` turns below seq `before`, oldest first."""
    lineage = session.log.catch_up()
    found = _turns(session.log.entries(0, None if before is None else before - 1), lineage)
    return list(found) if limit is None else list(deque(found, limit))


def _turns(pairs: Iterable[tuple[Row, Entry]], lineage: Lineage) -> Iterator[Turn]:
    for row, entry in pairs:
        if isinstance(entry, TurnAppended) and entry.message is not None and lineage.on_branch(row.seq):
            yield turn_of(row, entry)


def read_turns(session: Session, lineage: Lineage, wanted: Iterable[Range]) -> list[Turn]:
    """The turns in these ranges of seqs, verified and in order; adjoining ranges are read in one scan."""
    return list(_turns(session.log.rows(ranges.union(wanted)), lineage))


def expand(session: Session, handle: str) -> list[Turn]:
    """The exact turns behind a handle (`g4` of a summary or spill, `t:ID` or an id of a turn), without those that were purged.

    Raises `Refused` for an unknown handle, and where one of the turns was pruned.
    """
    lineage = session.log.catch_up()
    node, commit = _node(session, lineage, handle)
    if node is None:
        rows = [(row, e) for row, e in session.log.find(f"turn:{handle.removeprefix('t:')}") if isinstance(e, TurnAppended)]
        found = [turn_of(row, e) for row, e in rows if e.message is not None]
        if not found:
            purged = "was purged" if rows else "is no handle or turn of this session"
            raise _gone(f"{handle!r} {purged}", "see view().handles, or search()")
        return found[:1]
    found = read_turns(session, lineage, node.ranges)
    missing = not _whole(session, node, found)
    holes = _pruned(session, node.ranges) if missing else ()
    if commit and missing and not holes:
        found = read_turns(session, session.log.at(commit), node.ranges)  # it stood on a branch that was left behind
    if holes:
        raise _gone(
            f"{len(found)} of the {node.count} turns of {handle!r} are retained; seq {ranges.told(holes)} was pruned", "see turns()"
        )
    return found


def whole(session: Session, lineage: Lineage, node: Node) -> bool:
    """Whether every turn that the node stood for in `lineage` can be read, but for those that were purged."""
    return _whole(session, node, read_turns(session, lineage, node.ranges))


def _whole(session: Session, node: Node, found: list[Turn]) -> bool:
    erased = sum(isinstance(e, TurnAppended) and ranges.contains(node.ranges, seq) for seq, e in session.log.erased().items())
    return len(found) + erased >= node.count


def _pruned(session: Session, wanted: tuple[Range, ...]) -> tuple[Range, ...]:
    """What of these ranges was pruned: here, or in the session that this one is a fork of."""
    holes = ranges.overlap(wanted, [(run.first, run.last) for run in session.log.holes()])
    return ranges.union([*holes, *((row.seq, row.seq) for row, _ in session.log.rows(wanted) if row.kind == codec.PRUNED)])


def _node(session: Session, lineage: Lineage, handle: str) -> tuple[Node | None, int]:
    """The node of a handle and, if it stands in the view no more, the seq of its commit."""
    standing = next((n for n in lineage.nodes if n.handle == handle), None)
    if standing or not re.fullmatch(r"g\d+", handle):
        return standing, 0
    for row, entry in session.log.find(f"generation:{handle[1:]}", 1):
        if isinstance(entry, CompactionCommitted) and entry.nodes:
            return entry.nodes[0], row.seq
    return None, 0


def _gone(message: str, remedy: str) -> Refused:
    return Refused(Verdict("retention", "not_retained", message=f"{message}.", remedy=remedy))


# --- search ------------------------------------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    """Lower-case words; identifiers stay whole and are found by their parts too."""
    found: list[str] = []
    for word in re.findall(r"[\w][\w./:@#-]*", text.lower()):
        found.append(word.rstrip(".:-/"))
        parts = re.split(r"[./:@#_-]+", word)
        found.extend(p for p in parts if p and p != found[-1] and len(parts) > 1)
    return found


def search(session: Session, query: str, limit: int) -> list[Hit]:
    """The retained turns that fit `query` best (BM25 over words), best first; ties go to the newer turn."""
    asked = set(words(query))
    if not asked:
        return []
    found: list[tuple[Turn, str, Counter[str], int]] = []
    seen: Counter[str] = Counter()
    total = 0
    for turn in turns(session):
        text = messages.text_of(turn.message)
        counts = Counter(words(text))
        total += 1
        hits = Counter({w: counts[w] for w in asked if w in counts})
        seen.update(hits.keys())
        if hits:
            found.append((turn, text, hits, sum(counts.values())))
    if not found:
        return []
    mean = sum(size for *_, size in found) / len(found) or 1.0
    scored = [(_score(hits, size, mean, seen, total), turn, text) for turn, text, hits, size in found]
    scored.sort(key=lambda s: (-s[0], -s[1].seq))
    return [Hit(t.id, t.seq, f"t:{t.id}", _snippet(text, asked), round(score, 4)) for score, t, text in scored[:limit]]


def _score(hits: Counter[str], size: int, mean: float, seen: Counter[str], total: int) -> float:
    score = 0.0
    for word, n in hits.items():
        rarity = math.log(1 + (total - seen[word] + 0.5) / (seen[word] + 0.5))
        score += rarity * n * (BM25_K1 + 1) / (n + BM25_K1 * (1 - BM25_B + BM25_B * size / mean))
    return score


def _snippet(text: str, asked: set[str]) -> str:
    """The stretch of the text around the first word that was asked for."""
    low = text.lower()
    at = min((i for i in (low.find(w) for w in asked) if i >= 0), default=0)
    start = max(0, at - SNIPPET // 3)
    return ("…" if start else "") + " ".join(text[start : start + SNIPPET].split())
