# 72,706 tokens were "compacted" to 79,680 tokens and 888 KB.
# Right: after is smaller than before in tokens and in bytes, or nothing happens.
# https://github.com/can1357/oh-my-pi/issues/10023

> policy trigger=400 ceiling=9000 target=300 floor=4 min_gain=0.3
> user u1 tokens=120
u1 at 1
> agent a1 tokens=120
a1 at 2
> dialogue 2..4 tokens=150
u2..a4 (6) at 3..8
> mark before
> compact
g1 covers u1 a1 u2 a2, keeps u3 a3 u4 a4; 1172 -> 710 tokens
> summarizer larger than input
> user u5 "more"
u5 at 11
> agent a5 tokens=50
a5 at 12
> mark again
> compact
refused summary/too_large
> must refuse summary/too_large
> must same messages again
