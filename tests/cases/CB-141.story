# The byte trigger measured the file on the disk, history included: it fired at every turn.
# Right: triggers measure what is rendered, never what is retained.
# https://github.com/openclaw/openclaw/issues/115904

> policy trigger=3000 ceiling=200000 target=300 floor=1
> many 100 user m tokens=900
m1..m100 (100) at 1..100
> compact
g1 covers m1..m99 (99), keeps m100; 90400 -> 1127 tokens
> status
head 102, generation 1, 1127 tokens, 3 items
> must be tokens <=3000
> expand g1
m1..m99 (99)
> agent a1 "on we go"
a1 at 103
> maybe_compact
nothing: below_trigger
> must be generation 1
> must have_said m1..m100
