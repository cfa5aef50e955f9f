# "Not now, the user is typing" deferred every compaction, to 130 % of the window; then the provider refused everything.
# Right: deferring ends at the ceiling: there the oldest units are put aside byte-exact, by the append itself.
# https://github.com/Martian-Engineering/lossless-claw/issues/639

> policy trigger=300 ceiling=500 target=200 floor=2
> dialogue 1..12 tokens=40
u1..a12 (24) at 1..29
the ceiling put aside: now g1, 429 tokens
the ceiling put aside: now g2, 385 tokens
the ceiling put aside: now g3, 385 tokens
the ceiling put aside: now g4, 385 tokens
the ceiling put aside: now g5, 385 tokens
> must be tokens <=520
> must have_said u1 a1 u12 a12
> view
[g5 spill of 15] a8 u9 a9 u10 a10 u11 a11 u12 a12
> must show u12 a12
