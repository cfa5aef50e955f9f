# Summaries were written with the role of a user, and the next pass took the summary for the last user turn: the real one was covered.
# Right: a summary is a thing of its own and never the newest user turn; that turn stays word for word.
# https://github.com/NousResearch/hermes-agent/pull/56165

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..6 tokens=60
u1..a6 (12) at 1..12
> user u7 "rename the module to ledger, keep the old import"
u7 at 13
> compact
g1 covers u1..u6 (11), keeps a6 u7; 788 -> 218 tokens
> must show u7
> work 1..12 tokens=60
k1..r12 (24) appended
> compact
g2 covers k1..r11 (22), keeps a6 u7 k12 r12; 1130 -> 430 tokens
> must show u7
> must tell "rename the module to ledger, keep the old import"
> view
[g1 summary of 11] [g2 summary of 22] a6 u7 k12 r12
