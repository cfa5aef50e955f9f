"""What must have stood in a transcript, because something that is still there refers to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lineal import codec
from lineal.errors import PolicyError
from lineal.messages import parse
from lineal.transcripts.records import NOWHERE, Damage, Item, Record


def check(items: Iterable[Item], answered_at_once: bool = False) -> Iterator[Item]:
    """The same items, with damage in front of each record that shows a loss.

    A result whose call no earlier record makes shows a lost call. Where every call is answered before the model speaks
    again (`answered_at_once`), a call that is not shows a lost result. An open call at the end is no loss: the log was
    copied while the call ran. A record that is no message at all comes out as damage.
    """
    made: set[str] = set()
    waiting: dict[str, None] = {}
    for item in items:
        if not isinstance(item, Record):
            yield item
            continue
        try:
            parsed = parse(item.message, item.author)
            codec.refuse_unless_json(item.message)
        except PolicyError as e:
            yield Damage(item.line, f"no message: {e.verdict.message}", codec.sorted_json(item.message), NOWHERE)
            continue
        for result in parsed.results:
            if result.call not in made:
                yield Damage(item.line, f"lost call: this result answers {result.call}, which no earlier line calls", b"", NOWHERE)
            waiting.pop(result.call, None)
        if answered_at_once and waiting and parsed.author == "assistant":
            yield Damage(item.line, f"lost result: nothing answers {', '.join(waiting)} before this line", b"", NOWHERE)
            waiting = {}
        made.update(call.id for call in parsed.calls)
        waiting.update(dict.fromkeys(call.id for call in parsed.calls))
        yield item
