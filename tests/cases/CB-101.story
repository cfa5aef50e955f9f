# A checkpoint held "index 150"; after the compaction the list had 20 items, the rewind did nothing and said it had worked.
# Right: a checkpoint is a seq. Going back rebuilds that view from the log, or is refused; nothing is ever pretended.
# https://github.com/esengine/DeepSeek-Reasonix/issues/3598

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..5 tokens=40
u1..a5 (10) at 1..10
> checkpoint turn5
turn5 at seq 11, generation 0
> dialogue 6..15 tokens=40
u6..a15 (20) at 12..31
> compact
g1 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> rollback turn5 dry
would go back to seq 11 (none); left behind: u6..a15 (20)
> rollback turn5
went back to seq 11 (none); left behind: u6..a15 (20)
> must show_only u1 a1 u2 a2 u3 a3 u4 a4 u5 a5
> must hide u6
> verify
POST_COMPACTION_CLEAN
