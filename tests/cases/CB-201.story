# An aborted pass left its file behind; the next one took it for its own.
# Right: what an aborted pass left is in no view and in nobody's way.
# https://github.com/palantir/cassandra/pull/573

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> plan
plan g1: covers u1..a14 (28), keeps u15 a15
> crash
> compact
g2 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> must be generation 2
> log
1-30 turn
31 compaction_begun
32 compaction_aborted
33 compaction_begun
34 compaction_committed
> purge u1
erased u1 in 2 rows
generations erased: g2
> crash
> verify
POST_COMPACTION_CLEAN
> view
[g2 summary of 28] u15 a15
> must hide u1
> must forget "u1: one more"
