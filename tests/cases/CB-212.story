# A hook before compaction ran for the manual command only; threshold, overflow and the API went past it.
# Right: one way to commit for all of them; the hook is called once for each generation that is about to be committed.
# https://github.com/openclaw/openclaw/issues/114081

> policy trigger=300 ceiling=600 target=200 floor=2
> hook before_commit
> dialogue 1..5 tokens=40
u1..a5 (10) at 1..10
> compact
before_commit g1
g1 covers u1..a4 (8), keeps u5 a5; 440 -> 205 tokens
> must print "before_commit g1"
> dialogue 6..8 tokens=40
u6..a8 (6) at 13..18
> maybe_compact
before_commit g2
g2 covers u5..a7 (6), keeps u8 a8; 469 -> 201 tokens
> must print "before_commit g2"
> dialogue 9..11 tokens=40
u9..a11 (6) at 21..26
> plan
plan g3: covers u8..a10 (6) and g2, keeps u11 a11
> abort
> plan
plan g4: covers u8..a10 (6) and g2, keeps u11 a11
> commit
before_commit g4
g4 covers u8..a10 (6), keeps u11 a11; 465 -> 206 tokens
> must print "before_commit g4"
> summarizer empty
> dialogue 12..13 tokens=40
u12 a12 u13 a13 at 31..34
> compact
refused summary/empty
> must refuse summary/empty
> must not_print before_commit
> dialogue 14..20 tokens=40
before_commit g6
before_commit g7
before_commit g8
u14..a20 (14) at 37..52
the ceiling put aside: now g6, 459 tokens
the ceiling put aside: now g7, 415 tokens
the ceiling put aside: now g8, 416 tokens
> must print "before_commit g8"
> hook before_commit refuse
> summarizer honest
> mark before
> compact
before_commit g9
refused before_commit/hook
> must same messages before
