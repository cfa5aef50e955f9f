# The summary was the last record; the next user message was merged into it, and with it the coverage was gone.
# Right: a summary is nobody's turn. Appending adds a record and changes none.
# https://github.com/RooCodeInc/Roo-Code/pull/11488

> policy trigger=300 ceiling=9000 target=200 floor=0
> user u1 tokens=100
u1 at 1
> agent a1 tokens=100
a1 at 2
> agent a2 tokens=100
a2 at 3
> compact
g1 covers a1 a2, keeps u1; 312 -> 162 tokens
> mark after
> view
[g1 summary of 2] u1
> user u2 "go on"
u2 at 6
> must begin_with after
> view
[g1 summary of 2] u1 u2
> must be generation 1
