# One user record held a text and a tool result; "keep all user texts" kept it, its call was covered: a provider error for ever.
# Right: pairs are checked block by block; the mixed record goes where its call goes.
# https://github.com/Hmbown/Codewhale/issues/6119

> policy trigger=600 ceiling=9000 target=300 floor=4
> dialogue 1..3 tokens=40
u1..a3 (6) at 1..6
> say '{"role":"assistant","content":[{"type":"tool_use","id":"c2","name":"look","input":{}}]}' ids=k2
k2 at 7
> say '{"role":"user","content":[{"type":"tool_result","tool_use_id":"c2","content":"found"},{"type":"text","text":"also do X"}]}' ids=m2
m2 at 8
> compact
g1 covers u1 a1 u2 a2, keeps u3 a3 k2 m2; 289 -> 213 tokens
> must show k2 m2
> dialogue 10..24 tokens=40
u10..a24 (30) at 11..40
> compact
g2 covers u3..a22 (30), keeps u23 a23 u24 a24; 1533 -> 373 tokens
> must hide k2 m2
> view
[g2 summary of 34] u23 a23 u24 a24
> messages anthropic
user: [lineal summary g2 of 34 turns, seq 1-36; derived, said by nobody; ex...
user: [lineal notes at seq 42; kept by machine, said by nobody] ids: u1 | u...
user: u23: one more word about the work, one more word about the work, one ...
assistant: a23: one more word about the work, one more word about the work, one ...
user: u24: one more word about the work, one more word about the work, one ...
assistant: a24: one more word about the work, one more word about the work, one ...
