# What may not be touched was 215k under a budget of 180k: fifty turns, fifty vain calls of the summarizer.
# Right: two at most, then suspended with the numbers that say why.
# https://github.com/openclaw/openclaw/issues/126804

> policy trigger=300 ceiling=9000 target=250 floor=2
> user p1 tokens=300
p1 at 1
> pin p1
> dialogue 1..2 tokens=20
u1 a1 u2 a2 at 3..6
> maybe_compact
refused compaction/no_gain
> agent x1 "one"
x1 at 9
> maybe_compact
refused compaction/no_gain
> agent x2 "two"
x2 at 13
> maybe_compact
refused compaction/suspended
> agent x3 "three"
x3 at 14
> maybe_compact
refused compaction/suspended
> agent x4 "four"
x4 at 15
> maybe_compact
refused compaction/suspended
> must refuse compaction/suspended
> must explain pin floor
> must be_asked 2
> status
head 15, generation 0, 422 tokens, 9 items, suspended
