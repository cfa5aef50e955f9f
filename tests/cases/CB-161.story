# A huge result crossed the trigger by itself; the pass covered its call and kept the result.
# Right: the unit that triggers stays whole, or goes whole.
# https://github.com/FerroxLabs/wayland-core/pull/75

> policy trigger=2000 ceiling=90000 target=900 floor=2
> dialogue 1..5 tokens=40
u1..a5 (10) at 1..10
> call k1 dump:c1
k1 at 11
> result r1 c1 tokens=3000
r1 at 12
> maybe_compact
g1 covers u1..a4 (8), keeps u5 a5 k1 r1; 3454 -> 3219 tokens
> must show k1 r1
> agent a6 "read"
a6 at 17
> user u7 "next"
u7 at 18
> agent a7 "yes"
a7 at 19
> maybe_compact
g3 covers u5 a5 k1 r1, keeps a6 u7 a7; 3236 -> 117 tokens
> must hide k1 r1
> view
[g3 summary of 12] a6 u7 a7
