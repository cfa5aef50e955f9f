# Messages that a user queued while a run was active were acknowledged and then lost in the compaction at its end.
# Right: acknowledged is durable; they stand behind the boundary.
# https://github.com/openclaw/openclaw/issues/117810

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> call k1 long_run:c1
k1 at 31
> user q1 "also check the tests"
q1 at 32
> user q2 "and the docs"
q2 at 33
> result r1 c1 "finished"
r1 at 34
> compact
g1 covers u1..q1 (31), keeps k1 q2 r1; 1357 -> 213 tokens
> must show q2
> reopen
> must have_said q1 q2 r1
> view
[g1 summary of 31] k1 q2 r1
