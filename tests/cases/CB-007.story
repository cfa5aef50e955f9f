# One short record doubled the count: superseded and inherited records were counted again after each compaction.
# Right: what an append adds to the view is that record and nothing else, however many generations lie behind.
# https://github.com/openai/codex/issues/45074

> policy trigger=300 ceiling=2000 target=150 floor=2
> user u0 "begin"
u0 at 1
> dialogue 1..4 tokens=60
u1..a4 (8) at 2..9
> compact
g1 covers u0..a3 (7), keeps u4 a4; 518 -> 237 tokens
> must be tokens 237
> status
head 11, generation 1, 237 tokens, 4 items
> user x1 tokens=40
x1 at 12
> status
head 12, generation 1, 281 tokens, 5 items
> must be tokens 281
> dialogue 5..8 tokens=60
u5..a8 (8) at 13..20
> compact
g2 covers u4..a7 (9), keeps u8 a8; 793 -> 252 tokens
> dialogue 9..11 tokens=60
u9..a11 (6) at 23..28
> compact
g3 covers u8..a10 (6), keeps u11 a11; 636 -> 254 tokens
> must be tokens 254
> status
head 30, generation 3, 254 tokens, 4 items
> user x2 tokens=40
x2 at 31
> status
head 31, generation 3, 298 tokens, 5 items
> must be tokens 298
> fork child
child begins at seq 32
> session child
> status
head 32, generation 3, 298 tokens, 5 items
> user x3 tokens=40
x3 at 33
> status
head 33, generation 3, 342 tokens, 6 items
> must be tokens 342
