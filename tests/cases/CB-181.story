# "What was the last answer?" returned the summary, because it was the last record.
# Right: a summary is no turn; the last thing the assistant said is found in the turns.
# https://github.com/BYK/loreai/pull/236

> policy trigger=300 ceiling=9000 target=200 floor=0
> user u1 tokens=100
u1 at 1
> agent a1 tokens=100
a1 at 2
> agent a2 "The answer is 42."
a2 at 3
> compact
g1 covers a1 a2, keeps u1; 218 -> 162 tokens
> turns limit=1
a2
> must print "a2"
> view
[g1 summary of 2] u1
> must have_said u1 a1 a2
