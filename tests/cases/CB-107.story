# A fork at turn 20 of 60 carried a summary of turns 1 to 50: it knew things that had not been said yet.
# Right: a fork at seq s holds no summary that reaches beyond s; it is rebuilt from the log.
# https://github.com/vellum-ai/vellum-assistant/pull/19371

> policy trigger=600 ceiling=9000 target=300 floor=4
> dialogue 1..10 tokens=20
u1..a10 (20) at 1..20
> mark then
> dialogue 11..30 tokens=20
u11..a30 (40) at 21..60
> compact
g1 covers u1..a28 (56), keeps u29 a29 u30 a30; 1440 -> 309 tokens
> fork child at=20
child begins at seq 21
> session child
> must same messages then
> must be generation 0
> must hide u11
> view
u1 a1 u2 a2 u3 a3 u4 a4 u5 a5 u6 a6 u7 a7 u8 a8 u9 a9 u10 a10
