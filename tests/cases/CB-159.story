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
[g1 summary of 10] u6 a6 k7 r7 m1 m2 m3 m4 m5 m6 m7 m8 m9 m10 m11 m12 m13 m14 m15 m16 m17 m18 m19 m20 m21 m22 m23 m24 m25 m26 m27 m28 m29 m30
> policy floor=30
> agent m31 "go on"
m31 at 47
> compact
g2 covers a6 k7 r7 m1, keeps u6..m31 (31); 3359 -> 3264 tokens
> must show m2
> must hide k7 r7
> must have_said k7 r7
