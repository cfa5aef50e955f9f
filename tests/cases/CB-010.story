# Shrinking results in place broke the prompt cache at every turn.
# Right: the prefix breaks only where a generation is committed: as often as there are generations.
# https://github.com/esengine/DeepSeek-Reasonix/pull/238

> policy trigger=1000 ceiling=1600 target=300 floor=2
> dialogue 1..10 tokens=40
u1..a10 (20) at 1..20
> maybe_compact
nothing: below_trigger
> must do_nothing below_trigger
> mark g0
> dialogue 11..12 tokens=40
u11 a11 u12 a12 at 21..24
> must begin_with g0
> maybe_compact
g1 covers u1..u11 (21), keeps a11 u12 a12; 1056 -> 311 tokens
> mark g1
> dialogue 13..18 tokens=40
u13..a18 (12) at 27..38
> maybe_compact
nothing: below_trigger
> must do_nothing below_trigger
> must begin_with g1
> must be generation 1
