# The task was said once, at the beginning; after eighty rounds of tools and three passes it was gone.
# Right: the newest thing a user asked stays word for word, however long ago it was.
# https://github.com/brcampidelli/chimera-agent/pull/60

> policy trigger=600 ceiling=9000 target=300 floor=2
> user u1 "port the parser to the new grammar, keep error positions"
u1 at 1
> work 1..30 tokens=30
k1..r30 (60) appended
> compact
g1 covers k1..r29 (58), keeps u1 k30 r30; 1403 -> 205 tokens
> must show u1
> work 31..60 tokens=30
k31..r60 (60) appended
> compact
g2 covers k30..r59 (60), keeps u1 k60 r60; 1585 -> 206 tokens
> must show u1
> work 61..80 tokens=30
k61..r80 (40) appended
> compact
g3 covers k60..r79 (40), keeps u1 k80 r80; 1126 -> 206 tokens
> must show u1
> must tell "port the parser to the new grammar, keep error positions"
