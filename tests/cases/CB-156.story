# One request and 35 results of 8k each, not a word of prose: "nothing to summarise", while the window was full.
# Right: rounds of calls and results can be covered like anything else.
# https://github.com/openclaw/openclaw/issues/113701

> policy trigger=2000 ceiling=90000 target=900 floor=2
> user u1 "read all the files"
u1 at 1
> work 1..35 tokens=200
k1..r35 (70) appended
> compact
g1 covers k1..r34 (68), keeps u1 k35 r35; 7570 -> 395 tokens
> must show u1 k35 r35
> must hide k1 k30
> view
[g1 summary of 68] u1 k35 r35
> must be tokens <=900
