# The turns that the first compaction kept were not in the second one's input: nobody ever summarised them, and they were gone.
# Right: each turn is covered by a summary that read it, or kept, or spilled; the second pass reads what the first one kept.
# https://github.com/earendil-works/pi/issues/2608

> policy trigger=300 ceiling=900 target=150 floor=2
> dialogue 1..3 tokens=60
u1..a3 (6) at 1..6
> compact
g1 covers u1 a1 u2 a2, keeps u3 a3; 384 -> 221 tokens
> asked
to cover u1 a1 u2 a2, kept u3 a3, without a previous summary, budget 75
> must hide u1 a1
> must show u3 a3
> dialogue 4..5 tokens=60
u4 a4 u5 a5 at 9..12
> compact
g2 covers u3 a3 u4 a4, keeps u5 a5; 477 -> 226 tokens
> asked
to cover u3 a3 u4 a4, kept u5 a5, with the previous summary, budget 75
> must print "with the previous summary"
> must hide u2 a2 u3 a3
> must have_said u1 a1 u2 a2 u3 a3 u4 a4 u5 a5
> view
[g2 summary of 8] u5 a5
> expand g2
u1..a4 (8)
