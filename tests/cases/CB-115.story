# Compaction closed the session and opened a child under a new id; a crash in between left no open session at all.
# Right: the session keeps its name, and the crash finds the old generation or the new one.
# https://github.com/NousResearch/hermes-agent/issues/80337

> policy trigger=600 ceiling=9000 target=300 floor=4
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> everywhere compact
killed at each write: old, then new
> must see between 0
> must see unsound 0
> compact
g1 covers u1..a13 (26), keeps u14 a14 u15 a15; 1320 -> 359 tokens
> sessions
agent
> must be generation 1
