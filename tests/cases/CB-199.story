# A session was being deleted when the process died: half of it was left, and opened as if it were whole.
# Right: a mark goes first; what is left never reads as whole; doing it again finishes; a fork keeps its own.
# https://github.com/alkem-io/alkemio/issues/1972

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..8 tokens=40
u1..a8 (16) at 1..16
> checkpoint one
one at seq 17, generation 0
> dialogue 9..15 tokens=40
u9..a15 (14) at 18..31
> compact
g1 covers u1..a14 (28), keeps u15 a15; 1320 -> 273 tokens
> fork child
child begins at seq 34
> failing write 2 delete agent
unavailable
> crash
> verify
POST_COMPACTION_CLEAN
> user x1 "the mark is there, all else too"
refused integrity/latched
> must refuse integrity/latched
> must explain "delete()"
> failing write 3 after delete agent
unavailable
> crash
corrupt at seq 1: erased without a purge
> messages
corrupt at seq 1: erased without a purge
> must fail Corrupt
> user x1 "into the half of it?"
corrupt at seq 1: erased without a purge
> must fail Corrupt
> verify
PHANTOM_DELETION at 1..33
> salvage
nothing
> must print nothing
> failing write 4 after delete agent
unavailable
> verify
POST_COMPACTION_CLEAN
> user x1 "nothing is left but the mark"
refused integrity/latched
> must refuse integrity/latched
> delete agent
agent deleted; copies are kept by child
> sessions
child
> session child
> must have_said u1 a1 u15 a15
> verify
POST_COMPACTION_CLEAN
