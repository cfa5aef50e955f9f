# Maintenance held the lock while it rewrote the store, and appends failed with "database is locked".
# Right: pruning works in bounded chunks beside appends; none fails, none is lost.
# https://github.com/openclaw/openclaw/issues/148307

> policy trigger=600 ceiling=2400 target=300 floor=2
> dialogue 1..30 tokens=40
u1..a30 (60) at 1..61
the ceiling put aside: now g1, 1529 tokens
> compact
g2 covers u1..a29 (58), keeps u30 a30; 1749 -> 303 tokens
> B: user b1 "before the prune"
b1 at 64
> failing write 3 prune keep=0
unavailable
> B: user b3 "while it is half done"
b3 at 66
> prune keep=0
dropped 0 entries
> B: user b2 "after the prune"
b2 at 68
> must have_said b1 b3 b2
> B: verify
POST_COMPACTION_CLEAN
> verify
POST_COMPACTION_CLEAN
