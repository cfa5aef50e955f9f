# The summary quoted a user who had never said that; the agent obeyed.
# Right: a quote of a user must be one, from a user; else the summary is refused.
# https://github.com/anthropics/claude-code/issues/46602

> policy trigger=600 ceiling=9000 target=300 floor=2
> user u0 "please clean the cache, not the table"
u0 at 1
> agent a0 "find everything until nothing is left"
a0 at 2
> dialogue 1..14 tokens=40
u1..a14 (28) at 3..30
> mark before
> summarizer says "The work on the parts went on. User said: 'find everything until nothing is left'. The first fourteen parts were looked at."
> compact
refused summary/invented_quote
> must refuse summary/invented_quote
> must same messages before
> summarizer says "The work on the parts went on. User said: 'please clean the cache, not the table'. The first fourteen parts were looked at."
> compact
g2 covers u0..a13 (28), keeps u14 a14; 1266 -> 212 tokens
> must tell "please clean the cache, not the table"
