# A start without an end stood in the log; each restart took the compaction for running, and none was ever made again.
# Right: the start of a dead process blocks nothing: it is closed, and the next one begins.
# https://github.com/Tyan66666/billion-context-dsh/pull/98

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> plan
plan g1: covers u1..a14 (28), keeps u15 a15
> crash
> status
head 31, generation 0, 1320 tokens, 30 items, g1 in flight
> crash
> crash
> recover
recovered by replay at seq 0
g1 was open and is closed
> must print "g1 was open and is closed"
> compact
g2 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> must be generation 2
> log
1-30 turn
31 compaction_begun
32 compaction_aborted
33 compaction_begun
34 compaction_committed
