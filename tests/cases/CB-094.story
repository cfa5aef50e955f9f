# Two formats lay in one store; the newer format won over the newer state.
# Right: recovery goes by the sequence and by nothing else.
# https://github.com/apache/samza/pull/1571

> user u1 "one"
u1 at 1
> checkpoint old
old at seq 2, generation 0
> foreign x.v2.checkpoint
x.v2.checkpoint at 3
> many 3 agent m
m1 m2 m3 at 4..6
> checkpoint new
new at seq 7, generation 0
> user u2 "two"
u2 at 8
> recover
recovered by checkpoint at seq 7
> must print "checkpoint at seq"
> must show m3 u2
> checkpoints
new at seq 7, generation 0
old at seq 2, generation 0
