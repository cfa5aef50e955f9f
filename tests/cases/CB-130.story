# A flipped byte was found by a read, which failed; the next append went through, behind the damage.
# Right: the first detection makes the session read-only; what verifies can still be taken out.
# https://github.com/NousResearch/hermes-agent/issues/98077

> many 20 user m
m1..m20 (20) at 1..20
> damage alter 8
1 rows damaged
> turns
corrupt at seq 8: altered
> must fail Corrupt
> user u21 "go on"
corrupt at seq 8: altered
> must fail Corrupt
> salvage
m1..m20 (19)
> verify
ALTERED at 8
> must verify ALTERED 8
> compact
corrupt at seq 8: altered
> must fail Corrupt
