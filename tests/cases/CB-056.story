# A fork's list of generations showed those of its parent twice: once copied, once through the link to the parent.
# Right: a fork holds each generation once.
# https://github.com/earendil-works/pi/issues/3745

> policy trigger=600 ceiling=9000 target=300 floor=4
> dialogue 1..20 tokens=40
u1..a20 (40) at 1..40
> compact
g1 covers u1..a18 (36), keeps u19 a19 u20 a20; 1760 -> 369 tokens
> dialogue 21..40 tokens=40
u21..a40 (40) at 43..82
> compact
g2 covers u19..a38 (40), keeps u39 a39 u40 a40; 2129 -> 399 tokens
> mark parent
> fork child
child begins at seq 85
> session child
> log
1-40 turn
41 compaction_begun
42 compaction_committed
43-82 turn
83 compaction_begun
84 compaction_committed
85 forked
> must be generation 2
> must same messages parent
> view
[g2 summary of 76] u39 a39 u40 a40
> expand g2
u1..a38 (76)
> expand g1
u1..a18 (36)
> verify
POST_COMPACTION_CLEAN
