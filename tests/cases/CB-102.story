# "Undo 5" crossed the compaction: the summary itself was undone, and what it stood for stayed away.
# Right: undo within the generation is plain; across it the old view is rebuilt whole. A summary is no target.
# https://github.com/NousResearch/hermes-agent/pull/81258

> policy trigger=600 ceiling=9000 target=300 floor=4
> dialogue 1..9 tokens=40
u1..a9 (18) at 1..18
> compact
g1 covers u1..a7 (14), keeps u8 a8 u9 a9; 792 -> 327 tokens
> dialogue 10..11 tokens=40
u10 a10 u11 a11 at 21..24
> checkpoint inside
inside at seq 25, generation 1
> dialogue 12..13 tokens=40
u12 a12 u13 a13 at 26..29
> rollback inside
went back to seq 25 (none); left behind: u12 a12 u13 a13
> must hide u12
> must show u11 a11
> must tell "lineal summary g"
> rollback 10
went back to seq 10 (none); left behind: u6..a11 (12)
> must show u1 a1 u5 a5
> must not_tell "lineal summary g"
> must hide u6
> turns
u1..a5 (10)
> verify
POST_COMPACTION_CLEAN
