# After two compactions in one process the log held early records twice and later ones not at all; a rewind found nothing.
# Right: each record stands once, all are reachable, and one may go back to any of them.
# https://github.com/anthropics/claude-code/issues/92089

> policy trigger=600 ceiling=9000 target=300 floor=4
> dialogue 1..30 tokens=20
u1..a30 (60) at 1..60
> compact
g1 covers u1..a28 (56), keeps u29 a29 u30 a30; 1440 -> 309 tokens
> dialogue 31..60 tokens=20
u31..a60 (60) at 63..122
> compact
g2 covers u29..a58 (60), keeps u59 a59 u60 a60; 1749 -> 320 tokens
> dialogue 61..65 tokens=20
u61..a65 (10) at 125..134
> checkpoint here
here at seq 135, generation 2
> user u66 "one more"
u66 at 136
> turns
u1..u66 (131)
> rollback here
went back to seq 135 (none); left behind: u66
> must hide u66
> must show u65 a65
> turns
u1..a65 (130)
> verify
POST_COMPACTION_CLEAN
