# The cut fell between the thinking block and the text block of one answer; the provider refused the request.
# Right: a cut lies between units; a message is never divided, and its opaque blocks are never edited.
# https://github.com/anomalyco/opencode/issues/41738

> policy trigger=300 ceiling=9000 target=200 floor=1
> dialogue 1..6 tokens=40
u1..a6 (12) at 1..12
> say '{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"c2lnbmVk"},{"type":"text","text":"I see."},{"type":"tool_use","id":"t1","name":"look","input":{}}]}' ids=a7
a7 at 13
> say '{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"found"}]}' ids=r7
r7 at 14
> compact
g1 covers u1..a5 (10), keeps u6 a6 a7 r7; 557 -> 252 tokens
> must show a7 r7
> must tell "c2lnbmVk"
> messages anthropic
user: [lineal summary g1 of 10 turns, seq 1-10; derived, said by nobody; ex...
user: [lineal notes at seq 16; kept by machine, said by nobody] ids: u1 | u...
user: u6: one more word about the work, one more word about the work, one m...
assistant: a6: one more word about the work, one more word about the work, one m...
assistant: I see. tool(look {})
user: found
