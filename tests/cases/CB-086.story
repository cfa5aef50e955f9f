# Kept records were appended again behind the summary, with new ids and in another order.
# Right: kept is kept: same ids, same order, nothing written again.
# https://github.com/openclaw/openclaw/issues/90108

> policy trigger=600 ceiling=9000 target=300 floor=4
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> mark before
> compact
g1 covers u1..a13 (26), keeps u14 a14 u15 a15; 1320 -> 359 tokens
> must show_only u14 a14 u15 a15
> must same turns before
> must have_said u1 a1 u14 a14 u15 a15
> log
1-30 turn
31 compaction_begun
32 compaction_committed
