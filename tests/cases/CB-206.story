# The data was written, the status was not: neither old nor new could be read, for ever.
# Right: there is one commit point: one entry, there or not.
# https://github.com/rrriiiccckkk/atu-mnemos/issues/45

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> everywhere compact
killed at each write: old, then new
> must see between 0
> killed write 2 compact
killed
> must be generation 0
> must have_said u1..u15
> compact
g2 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> must be generation 2
> expand g2
u1..a14 (28)
> session other
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> plan
plan g1: covers u1..a14 (28), keeps u15 a15
> commit
g1 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> crash
> must be generation 1
> verify
POST_COMPACTION_CLEAN
