# Each pass worked on what the one before had rendered; after three passes calls and results no longer fitted.
# Right: each pass works on the log and the chain of generations.
# https://github.com/langchain-ai/langgraph/issues/6302

> policy trigger=600 ceiling=9000 target=300 floor=3
> user u1 "begin"
u1 at 1
> work 1..15 tokens=40
k1..r15 (30) appended
> compact
g1 covers k1..r13 (26), keeps u1..r15 (5); 846 -> 254 tokens
> work 16..30 tokens=40
k16..r30 (30) appended
> compact
g2 covers k14..r28 (30), keeps u1..r30 (5); 1094 -> 254 tokens
> work 31..45 tokens=40
k31..r45 (30) appended
> compact
g3 covers k29..r43 (30), keeps u1..r45 (5); 1094 -> 254 tokens
> view
[g3 summary of 86] u1 k44 r44 k45 r45
> messages anthropic
user: begin
user: [lineal summary g3 of 86 turns, seq 2-91; derived, said by nobody; ex...
assistant: tool(look {"n":44})
user: r44: one more word about the work, one more word about the work, one ...
assistant: tool(look {"n":45})
user: r45: one more word about the work, one more word about the work, one ...
> must have_said u1 k1 r1 k45 r45
> must show_only u1 k44 r44 k45 r45
> must tell "r44:" "r45:"
> verify
POST_COMPACTION_CLEAN
