# What was appended while the summarizer was working was deleted by the commit, which replaced the whole list.
# Right: a commit adds one generation over what was there when it began; what came meanwhile stands behind the summary.
# https://github.com/BaranziniLab/biorouter/issues/51

> policy trigger=2000 ceiling=20000 target=600 floor=2
> dialogue 1..50 tokens=60
u1..a50 (100) at 1..100
> meanwhile many 231 agent m
> compact
meanwhile: m1..m231 (231) at 102..332
g1 covers u1..a49 (98), keeps u50..m231 (233); 11944 -> 5952 tokens
> must have_said u50 a50 m1..m231
> must show u50 a50 m1 m231
> view
[g1 summary of 98] u50 a50 m1..m231 (231)
> status
head 333, generation 1, 5952 tokens, 235 items
