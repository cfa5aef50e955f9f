# Two processes rewrote one file under the same temporary name, while a third appended: a hundred records were gone.
# Right: nothing is ever rewritten; one compaction at a time holds the lease, and appends go on beside it.
# https://github.com/gptme/gptme-contrib/pull/1294

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> A: plan
plan g1: covers u1..a14 (28), keeps u15 a15
> B: compact
refused compaction/in_flight
> must refuse compaction/in_flight
> C: many 100 agent m tokens=5
m1..m100 (100) at 32..131
> A: commit
g1 covers u1..a14 (28), keeps u15..m100 (102); 2220 -> 1174 tokens
> must have_said m1..m100
> C: must have_said m1..m100
> B: must be generation 1
> B: verify
POST_COMPACTION_CLEAN
