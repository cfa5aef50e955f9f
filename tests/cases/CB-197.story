# Pruning 257k rows was interrupted at half; each restart began at the beginning, and never came to an end.
# Right: pruning is declared first, goes on where it stopped, and nobody waits for it.
# https://github.com/ScriptedAlchemy/tracedecay/pull/672

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> compact
g1 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> everywhere prune keep=0
killed at each write: old, then new
> must see unsound 0
> must see stuck 0
> failing write 3 prune keep=0
unavailable
> user u16 "meanwhile"
u16 at 34
> failing write 2 prune keep=0
unavailable
> crash
> prune keep=0
dropped 0 entries
> must have_said u16
> verify
POST_COMPACTION_CLEAN
> prune keep=0
dropped 0 entries
> log
29-30 turn
32 compaction_committed
33 prune_begun
34 turn
35 prune_finished
