# The trigger was asked between a call and its result, and the whole run failed because a call was open.
# Right: what is open is kept, the rest may be covered, and nothing fails.
# https://github.com/openai/openai-agents-python/issues/2317

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> call k1 look:c1
k1 at 31
> maybe_compact
g1 covers u1..u14 (27), keeps a14 u15 a15 k1; 1330 -> 336 tokens
> must show k1
> result r1 c1 "found"
r1 at 34
> must show k1 r1
> maybe_compact
nothing: below_trigger
> must do_nothing below_trigger
