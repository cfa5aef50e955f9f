# The summarizer failed and old units were evicted instead, without a record: a later rewind could not find them.
# Right: putting aside is a generation of its own, with its handle, and going back finds what it holds.
# https://github.com/RooCodeInc/Roo-Code/pull/10984

> policy trigger=400 ceiling=700 target=200 floor=2
> summarizer raises
> dialogue 1..6 tokens=40
u1..a6 (12) at 1..12
> checkpoint early
early at seq 13, generation 0
> dialogue 7..14 tokens=40
u7..a14 (16) at 14..32
the ceiling put aside: now g1, 561 tokens
the ceiling put aside: now g2, 517 tokens
the ceiling put aside: now g3, 517 tokens
> maybe_compact
failed: RuntimeError
> view
[g3 spill of 14] u8 a8 u9 a9 u10 a10 u11 a11 u12 a12 u13 a13 u14 a14
> must have_said u1 a1 u8 a8
> expand g2
u1..u5 (9)
> rollback early
went back to seq 13 (none); left behind: u7..a14 (16)
> must hide u7
> must tell "u6: "
> view
u1 a1 u2 a2 u3 a3 u4 a4 u5 a5 u6 a6
> verify
POST_COMPACTION_CLEAN
