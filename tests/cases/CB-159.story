# A call that was aborted and its made-up result lay on both sides of the cut: the provider refused the orphan.
# Right: a call and its results are one unit, both kept or both covered.
# https://github.com/openclaw/openclaw/issues/7527

> policy trigger=3000 ceiling=90000 target=900 floor=31
> dialogue 1..6 tokens=40
u1..a6 (12) at 1..12
> call k7 run:c1
k7 at 13
> result r7 c1 "aborted"
r7 at 14
> many 30 agent m tokens=100
m1..m30 (30) at 15..44
> compact
g1 covers u1..a5 (10), keeps u6..m30 (34); 3664 -> 3353 tokens
> must show k7 r7 m1
> view
[g1 summary of 10] u6 a6 k7 r7 m1..m30 (30)
> policy floor=30
> agent m31 "go on"
m31 at 47
> compact
g2 covers a6 k7 r7 m1, keeps u6..m31 (31); 3359 -> 3264 tokens
> must show m2
> must hide k7 r7
> must have_said k7 r7
