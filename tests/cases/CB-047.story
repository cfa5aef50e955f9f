# With a compaction provider switched on, the first user turn was only stored at the end of the run; a crash lost it.
# Right: each turn is durable before the next step; a compaction with nothing to do leaves the log as it is.
# https://github.com/microsoft/agent-framework/issues/8441

> user u1 "begin"
u1 at 1
> mark one
> compact
nothing: nothing_to_cover
> must do_nothing nothing_to_cover
> must same log one
> call k1 look:c1
k1 at 2
> crash
> must have_said u1 k1
> result r1 c1 "found"
r1 at 3
> crash
> must have_said u1 k1 r1
