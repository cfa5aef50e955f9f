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
> failing 2 verify
unavailable
> user x1 "after a failed verification"
corrupt at seq 8: altered
> must fail Corrupt
> damage alter 8
1 rows damaged
> verify
POST_COMPACTION_CLEAN
> user x1 "repaired: the byte is back"
x1 at 21
> must have_said m1 m20 x1
