# Appends that came in the very moment a compaction began were neither in the summary nor in what was kept.
# Right: whatever comes before, in and after the begin and the commit is there, once each.
# https://github.com/can1357/oh-my-pi/pull/2914

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> B: user b1 "just before the begin"
b1 at 31
> plan
plan g1: covers u1..u15 (29), keeps a15 b1
> B: user b2 "just behind the begin"
b2 at 33
> meanwhile B: user b3 "while it works"
> commit
meanwhile: b3 at 34
g1 covers u1..u15 (29), keeps a15 b1 b2 b3; 1351 -> 262 tokens
> B: user b4 "just behind the commit"
b4 at 36
> must have_said b1 b2 b3 b4
> must show b1 b2 b3 b4
> B: must show b1 b2 b3 b4
