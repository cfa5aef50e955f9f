# Fifty records were in memory only when they were compacted; their text never reached the disk.
# Right: what is covered was durable before; it can be read again after the commit, and after a crash.
# https://github.com/NousResearch/hermes-agent/issues/92080

> policy trigger=600 ceiling=9000 target=300 floor=4
> many 50 user m tokens=20
m1..m50 (50) at 1..50
> compact
g1 covers m1..m46 (46), keeps m47 m48 m49 m50; 1200 -> 319 tokens
> crash
> must have_said m1..m50
> expand g1
m1..m46 (46)
> must print "m1..m46 (46)"
> verify
POST_COMPACTION_CLEAN
