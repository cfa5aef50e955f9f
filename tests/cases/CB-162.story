# The request with the call failed, the user said "continue"; the pass left the call without an answer, and "nothing pending" was told.
# Right: the call is open and is said to be; it is kept until it is answered, or closed as: outcome unknown.
# https://github.com/HKUDS/OpenHarness/issues/191

> policy trigger=300 ceiling=9000 target=200 floor=2
> dialogue 1..6 tokens=40
u1..a6 (12) at 1..12
> call k5 pay:c5
k5 at 13
> user u7 "continue"
u7 at 14
> compact
g1 covers u1..a6 (12), keeps k5 u7; 544 -> 162 tokens
> must show k5 u7
> status
head 16, generation 1, 162 tokens, 4 items, open calls c5
> must print "open calls c5"
> messages openai
system: [lineal summary g1 of 12 turns, seq 1-12; derived, said by nobody; ex...
system: [lineal notes at seq 16; kept by machine, said by nobody] calls witho...
assistant: tool(pay {})
tool: [outcome unknown] No result of this call was recorded. It may or may ...
user: continue
> close_calls
1 calls closed, outcome unknown
> status
head 17, generation 1, 211 tokens, 5 items
> messages openai
system: [lineal summary g1 of 12 turns, seq 1-12; derived, said by nobody; ex...
system: [lineal notes at seq 16; kept by machine, said by nobody] calls witho...
assistant: tool(pay {})
tool: [outcome unknown] No result of this call was recorded. It may or may ...
user: continue
> must tell "unknown"
