# Empty, blank and invisible summaries were all committed, and the pass was tried again and again in the same turn.
# Right: all are refused; after the second attempt nothing is tried by itself until something new is said.
# https://github.com/fabro-sh/fabro/pull/629

> policy trigger=600 ceiling=2400 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> mark before
> summarizer empty
> maybe_compact
refused summary/empty
> must refuse summary/empty
> summarizer whitespace
> maybe_compact
refused summary/empty
> summarizer zero-width
> maybe_compact
refused compaction/suspended
> must refuse compaction/suspended
> must be_asked 2
> must same messages before
> user u16 "go on"
u16 at 36
> maybe_compact
refused summary/empty
> must refuse summary/empty
> summarizer honest
> maybe_compact
g4 covers u1..u14 (27), keeps a14 u15 a15 u16; 1326 -> 323 tokens
> must be generation 4
> must show u16
