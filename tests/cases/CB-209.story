# A damaged store was marked; the repair failed half-way, and the mark was gone although nothing was repaired.
# Right: the mark is lifted by a verification that finds nothing, and by nothing else.
# https://github.com/openclaw/openclaw/issues/113209

> many 20 user m
m1..m20 (20) at 1..20
> damage alter 8
1 rows damaged
> turns
corrupt at seq 8: altered
> crash
corrupt at seq 8: altered
> user x1 "after a restart"
corrupt at seq 8: altered
> must fail Corrupt
> recover
corrupt at seq 8: altered
> must fail Corrupt
> failing read 1 verify
unavailable
> user x1 "after a failed verification"
corrupt at seq 8: altered
> must fail Corrupt
> damage alter 8
1 rows damaged
> status
head 20, generation 0, 480 tokens, 20 items, read-only
> user x1 "the byte is back, but who has looked?"
refused integrity/latched
> must refuse integrity/latched
> failing read 1 verify
unavailable
> must be latched yes
> failing read 3 verify
unavailable
> must be latched yes
> failing write 1 verify
unavailable
> must fail Unavailable
> must be latched yes
> user x1 "the mark could not be lifted"
refused integrity/latched
> must refuse integrity/latched
> crash
> must be latched yes
> verify
POST_COMPACTION_CLEAN
> must be latched no
> user x1 "repaired: the byte is back"
x1 at 21
> must have_said m1 m20 x1
