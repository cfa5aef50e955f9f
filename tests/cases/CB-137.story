# After the pass one append brought all covered records back into the view: 88k were 188k again.
# Right: what is covered never comes back by itself; the view grows by what is appended.
# https://github.com/1jehuang/jcode/issues/170

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> compact
g1 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> status
head 32, generation 1, 273 tokens, 4 items
> user x1 tokens=40
x1 at 33
> status
head 33, generation 1, 317 tokens, 5 items
> must hide u1 u10
> dialogue 16..30 tokens=40
u16..a30 (30) at 34..63
> compact
g2 covers u15..a29 (31), keeps u30 a30; 1637 -> 310 tokens
> user x2 tokens=40
x2 at 66
> must be tokens <=600
> dialogue 31..45 tokens=40
u31..a45 (30) at 67..96
> compact
g3 covers u30..a44 (31), keeps u45 a45; 1674 -> 311 tokens
> user x3 tokens=40
x3 at 99
> must be tokens <=600
> must hide u1 u16 u31
