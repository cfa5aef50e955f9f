# A client held the list of an older generation and wrote all of it back over the newer one.
# Right: nothing replaces a list. A list that does not begin with the present view is a conflict, and the newer generation stays.
# https://github.com/aaif-goose/goose/issues/7413

> policy trigger=300 ceiling=900 target=150 floor=2
> dialogue 1..3 tokens=60
u1..a3 (6) at 1..6
> compact
g1 covers u1 a1 u2 a2, keeps u3 a3; 384 -> 221 tokens
> mark g1
> dialogue 4..5 tokens=60
u4 a4 u5 a5 at 9..12
> compact
g2 covers u3 a3 u4 a4, keeps u5 a5; 477 -> 226 tokens
> mark g2
> save_old g1
conflict: expected seq 14, found seq 14
> must fail Conflict
> must same messages g2
> must be generation 2
