# The disk was full in the middle of the commit record; the next commit was written behind the torn one, and neither could be read.
# Right: a failed commit is not there; the next one is, and reads back.
# https://github.com/facebook/rocksdb/issues/6316

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> failing write 2 compact
unavailable
> mark torn
> must be generation 0
> compact
g2 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> crash
> view
[g2 summary of 28] u15 a15
> must hide u1
> verify
POST_COMPACTION_CLEAN
