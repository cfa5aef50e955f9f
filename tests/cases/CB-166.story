# A question to the user stood open for twenty turns; a pass covered it, and the answer was refused as an orphan.
# Right: an unanswered call stays until it is answered or closed; the answer is taken and shown with it.
# https://github.com/google/adk-python/issues/4740

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..2 tokens=40
u1 a1 u2 a2 at 1..4
> call k1 confirm:c1
k1 at 5
> dialogue 3..12 tokens=40
u3..a12 (20) at 6..25
> compact
g1 covers u1..a11 (22), keeps k1 u12 a12; 1067 -> 287 tokens
> dialogue 13..24 tokens=40
u13..a24 (24) at 28..51
> compact
g2 covers u12..a23 (24), keeps k1 u24 a24; 1343 -> 311 tokens
> must show k1
> result r1 c1 "yes"
r1 at 54
> must show k1 r1
> messages openai
assistant: tool(confirm {})
tool: yes
system: [lineal summary g2 of 46 turns, seq 1-49; derived, said by nobody; ex...
system: [lineal notes at seq 53; kept by machine, said by nobody] calls witho...
user: u24: one more word about the work, one more word about the work, one ...
assistant: a24: one more word about the work, one more word about the work, one ...
