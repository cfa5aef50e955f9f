# A user had approved item 1 of a plan; the summary said "the plan was approved", and the agent did all three.
# Right: a summary states no approval; what a user said can be found again by its seq, and the exact words by the handle.
# https://github.com/NousResearch/hermes-agent/pull/85878

> policy trigger=600 ceiling=9000 target=300 floor=2
> agent plan "Plan: 1 clean the cache, 2 drop the table, 3 restart."
plan at 1
> user ok1 "Do item 1 only."
ok1 at 2
> dialogue 1..14 tokens=40
u1..a14 (28) at 3..30
> mark before
> summarizer invented approval
> compact
refused summary/invented_approval
> must be generation 0
> must same messages before
> summarizer honest
> compact
g2 covers plan..a13 (28), keeps u14 a14; 1263 -> 281 tokens
> expand g2
plan..a13 (28)
> search "item 1 only"
ok1 plan
> must print "ok1"
