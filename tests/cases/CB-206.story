# The data was written, the status was not: neither old nor new could be read, for ever.
# Right: there is one commit point: one entry, there or not.
# https://github.com/rrriiiccckkk/atu-mnemos/issues/45

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> everywhere compact
killed at 12 calls: 9 old, 3 new, 0 between, 0 unsound
> must see between 0
> plan
plan g1: covers u1..a14 (28), keeps u15 a15
> commit
g1 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> crash
> must be generation 1
> verify
POST_COMPACTION_CLEAN
