# Pins took 12k of 18k; the summarizer wrote 2,755 tokens for 800: the "compacted" view was larger, and was committed.
# Right: a pass that does not make the view smaller is refused with the numbers, and the generation stays.
# https://github.com/bug-ops/zeph/issues/1708

> policy trigger=1000 ceiling=9000 target=900 floor=2
> user p1 tokens=900
p1 at 1
> pin p1
> agent a1 tokens=30
a1 at 3
> user u2 tokens=30
u2 at 4
> agent a2 tokens=30
a2 at 5
> user u3 tokens=30
u3 at 6
> agent a3 tokens=30
a3 at 7
> mark before
> summarizer larger than input
> compact
refused summary/too_large
> must refuse summary/too_large
> must same messages before
> must be generation 0
