# The trigger fell inside a turn: the finished request X stood as the last one, and the agent did X again instead of Y.
# Right: the newest request and all behind it stay; the finished one is behind the summary.
# https://github.com/openai/codex/issues/25686

> policy trigger=300 ceiling=9000 target=150 floor=1
> user u1 tokens=120
u1 at 1
> agent a1 tokens=120
a1 at 2
> user u2 "do Y"
u2 at 3
> agent a2 "starting Y"
a2 at 4
> compact
g1 covers u1 a1, keeps u2 a2; 262 -> 97 tokens
> must show u2 a2
> must hide u1
> view
[g1 summary of 2] u2 a2
> messages
system: [lineal summary g1 of 2 turns, seq 1-2; derived, said by nobody; expa...
system: [lineal notes at seq 6; kept by machine, said by nobody] ids: u1
user: do Y
assistant: starting Y
