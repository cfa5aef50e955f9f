# One record in the middle was damaged; the reader stopped there without a word, and the rest was gone for good.
# Right: damage in the middle is named with its seq; all other records can still be read, and no short history is shown.
# https://github.com/anthropics/claude-code/issues/50347

> many 40 user m
m1..m40 (40) at 1..40
the ceiling put aside: now g1, 801 tokens
> damage retype 17
1 rows damaged
> messages
corrupt at seq 17: chain broken
> must fail Corrupt
> must explain "seq 17"
> verify
CHAIN_BROKEN at 17
> must verify CHAIN_BROKEN 17
> salvage all
m1..m16 (16) m18..m40 (23)
> must print "m1..m16 (16) m18..m40 (23)"
