# Compacting was the last thing before the end; after the reopen the file backend had lost the summary, the memory one had not.
# Right: the same view from each engine, live and reopened. Each story here is played on two engines, and prints the same.
# https://github.com/google/adk-python/issues/4000

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> compact
g1 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> mark last
> reopen
> must same messages last
> user u16 "after the reopen"
u16 at 33
> view
[g1 summary of 28] u15 a15 u16
> mark later
> messages
system: [lineal summary g1 of 28 turns, seq 1-28; derived, said by nobody; ex...
system: [lineal notes at seq 32; kept by machine, said by nobody] ids: u1 | u...
user: u15: one more word about the work, one more word about the work, one ...
assistant: a15: one more word about the work, one more word about the work, one ...
user: after the reopen
> reopen
> view
[g1 summary of 28] u15 a15 u16
> must same messages later
> verify
POST_COMPACTION_CLEAN
