# A write was torn at 60 % of the last record; the next append was glued to the fragment, and two records were lost.
# Right: a row is there whole or not at all: a torn one is named when it is read, and nothing is written behind it.
# https://github.com/can1357/oh-my-pi/issues/8596

> dialogue 1..20
u1..a20 (40) at 1..41
the ceiling put aside: now g1, 801 tokens
> damage truncate 40
1 rows damaged
> messages
corrupt at seq 40: truncated
> must fail Corrupt
> must explain "seq 40"
> user r41 "glued?"
corrupt at seq 40: truncated
> must fail Corrupt
> verify
TRUNCATED at 40
> must verify TRUNCATED 40
> salvage
u1..a20 (39)
