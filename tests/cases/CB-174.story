# Pins of 8k and a floor of 15k under a budget of 20k: the pins were dropped to fit.
# Right: refused, with the numbers; a pin is never dropped.
# https://github.com/anomalyco/opencode/issues/16960

> policy trigger=300 ceiling=9000 target=200 floor=6
> user p1 tokens=80
p1 at 1
> pin p1
> dialogue 1..3 tokens=20
u1..a3 (6) at 3..8
> agent x1 "one"
x1 at 9
> policy ceiling=320
> dialogue 4..6 tokens=60
u4..a6 (6) at 10..19
the ceiling put aside: now g1, 369 tokens
the ceiling put aside: now g2, 409 tokens
the ceiling put aside: now g3, 449 tokens
the ceiling put aside: now g4, 489 tokens
the ceiling put aside: now g5, 548 tokens
> compact
refused compaction/floor_over_budget
> must explain "ceiling"
> must show p1 u6 a6
> view
[g5 spill of 7] p1 u4 a4 u5 a5 u6 a6
pins: p1
