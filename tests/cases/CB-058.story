# At the end of a run "new" was everything that had not been in the input: with a compaction in between the whole view was stored again.
# Right: what was rendered is recognised, summary and notes included; saving it is a no-op.
# https://github.com/microsoft/agent-framework/pull/5149

> policy trigger=600 ceiling=9000 target=300 floor=4
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> compact
g1 covers u1..a13 (26), keeps u14 a14 u15 a15; 1320 -> 359 tokens
> mark after
> save
nothing added
> must print "nothing added"
> must same log after
> agent a16 "the run ends"
a16 at 33
> save
nothing added
> must print "nothing added"
