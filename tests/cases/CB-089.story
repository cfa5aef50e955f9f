# A record of a type that this reader did not know was read as null, and then dropped by the next write.
# Right: it is carried as it is; never empty, never dropped.
# https://github.com/langchain-ai/langgraph/issues/6970

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..8 tokens=40
u1..a8 (16) at 1..16
> foreign x.future.v9
x.future.v9 at 17
> dialogue 9..15 tokens=40
u9..a15 (14) at 18..31
> compact
g1 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> must have_said u1 a8 u9 a15
> log
1-16 turn
17 x.future.v9
18-31 turn
32 compaction_begun
33 compaction_committed
> must verify POST_COMPACTION_CLEAN
> fork child
child begins at seq 34
> session child
> log
1-16 turn
17 x.future.v9
18-31 turn
32 compaction_begun
33 compaction_committed
34 forked
> must verify POST_COMPACTION_CLEAN
