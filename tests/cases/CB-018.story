# One endless tool loop below one request: there was nothing to summarise, the model asked for input, and that became the memory.
# Right: the request stays word for word, the finished rounds behind it may be covered; a text that asks for input is refused.
# https://github.com/OpenHands/software-agent-sdk/issues/1518

> policy trigger=900 ceiling=4000 target=300 floor=2
> system s1 "You are an agent."
s1 at 1
> user u1 "count all the files"
u1 at 2
> work 1..30 tokens=30
k1..r30 (60) appended
> summarizer asks for input
> compact
refused summary/asks_for_input
> must be generation 0
> summarizer honest
> compact
g2 covers k1..r29 (58), keeps s1 u1 k30 r30; 1401 -> 203 tokens
> must show s1 u1 k30 r30
> view
[g2 summary of 58] s1 u1 k30 r30
> call k31 look:c31
k31 at 67
> call k32 look:c32
k32 at 68
> compact
g3 covers k30 r30, keeps s1 u1 k31 k32; 223 -> 133 tokens
> must show k31 k32
