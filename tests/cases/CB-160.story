# A call had no result yet when the first pass ran; the result came behind the summary, and the second pass kept it without its call.
# Right: an open call stays; when its result has come, the two are kept or covered together, whatever older summaries lie between.
# https://github.com/earendil-works/pi/issues/4570

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..10 tokens=40
u1..a10 (20) at 1..20
> call k9 look:c9
k9 at 21
> dialogue 11..15 tokens=40
u11..a15 (10) at 22..31
> compact
g1 covers u1..a14 (28), keeps k9 u15 a15; 1330 -> 292 tokens
> must show k9
> result r9 c9 "found at last"
r9 at 34
> must show k9 r9
> dialogue 16..30 tokens=40
u16..a30 (30) at 35..64
> compact
g2 covers k9..a29 (32), keeps u30 a30; 1621 -> 303 tokens
> must hide k9 r9
> view
[g2 summary of 60] u30 a30
> expand g2
u1..a29 (60)
> verify
POST_COMPACTION_CLEAN
