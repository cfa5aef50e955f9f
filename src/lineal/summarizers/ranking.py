"""Which sentences of a text say most about it: words that come back, but not everywhere, weigh most. Pure, and linear."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

SHORTEST, LONGEST = 30, 240  # characters of a sentence that is considered
ALIKE = 0.6  # share of words that two sentences may have in common
ONCE = 0.1  # what a word counts that comes once, beside those that come back
COMPARED = 200  # best sentences that are held against each other
_WORD = re.compile(r"[^\W\d_]{3,}")
_STOP = frozenset(
    "the and for with that this was were are has have had not but you your our their its from into out all any can will would should could"  # noqa: SIM905
    " what which who how when where there then than them they she his her him also just only about let now see here some more very"
    " been being does did doing because so too over such same own both each few other".split()
)


def content_words(sentence: str) -> frozenset[str]:
    return frozenset(w for w in _WORD.findall(sentence.casefold()) if w not in _STOP)


def prose(sentence: str) -> bool:
    """Whether a sentence is written for readers: long enough, mostly letters, no code."""
    if not SHORTEST <= len(sentence) <= LONGEST:
        return False
    letters = sum(c.isalpha() or c == " " for c in sentence)
    return letters >= 0.75 * len(sentence) and len(sentence.split()) >= 5


def best(sentences: Sequence[str], weights: Sequence[float]) -> list[int]:
    """Places of the sentences, the most telling first, without near repeats. `weights` favours some (1.0: as it is)."""
    bags = [content_words(s) for s in sentences]
    spread = Counter(word for bag in bags for word in bag)
    total = len(bags)

    def score(i: int) -> float:
        told = sum((math.log(spread[w]) + ONCE) * math.log((total + 1) / spread[w]) for w in sorted(bags[i]))
        return weights[i] * told / math.sqrt(len(bags[i]) + 3)

    ranked = sorted((i for i in range(total) if bags[i]), key=lambda i: (-score(i), i))
    chosen: list[int] = []
    for i in ranked[:COMPARED]:
        if all(len(bags[i] & bags[j]) <= ALIKE * min(len(bags[i]), len(bags[j])) for j in chosen):
            chosen.append(i)
    return chosen
