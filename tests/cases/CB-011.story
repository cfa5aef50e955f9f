# The summarizer gave back nothing, and the last answer ("Done, tests green.") was taken for the summary.
# Right: only what this call wrote counts; an empty text commits nothing, and the history is as it was, byte for byte.
# https://github.com/docker/docker-agent/pull/3470

> policy trigger=900 ceiling=2400 target=300 floor=2
> dialogue 1..19 tokens=40
u1..a19 (38) at 1..38
> user u20 tokens=40
u20 at 39
> agent a20 "Done, tests green."
a20 at 40
> mark before
> summarizer empty
> compact
refused summary/empty
> must refuse summary/empty
> must same messages before
> must be generation 0
> summarizer last assistant text echoed
> compact
refused summary/echo
> must be generation 0
> must same messages before
