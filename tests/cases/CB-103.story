# Each new generation overwrote the one before; a branch from between g1 and g2 showed g3.
# Right: old generations stay as they were written while anything can reach them.
# https://github.com/can1357/oh-my-pi/issues/4090

> policy trigger=600 ceiling=9000 target=300 floor=4
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> compact
g1 covers u1..a13 (26), keeps u14 a14 u15 a15; 1320 -> 359 tokens
> user x1 "between the first and the second"
x1 at 33
> checkpoint between
between at seq 34, generation 1
> mark between
> dialogue 16..30 tokens=40
u16..a30 (30) at 35..64
> compact
g2 covers u14..a28 (31), keeps u29 a29 u30 a30; 1694 -> 389 tokens
> dialogue 31..45 tokens=40
u31..a45 (30) at 67..96
> compact
g3 covers u29..a43 (30), keeps u44 a44 u45 a45; 1709 -> 399 tokens
> fork child at=between
child begins at seq 35
> session child
> must same messages between
> must be generation 1
> session agent
> prune
dropped 87 entries
> rollback between
went back to seq 34 (none); left behind: u44 a44 u45 a45
> must show x1
> expand g1
refused retention/not_retained
> verify
POST_COMPACTION_CLEAN
