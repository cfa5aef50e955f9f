# The disk was full for three appends; they were dropped, the fourth succeeded, and nobody was told.
# Right: each one raises; what is acknowledged is durable, in order, and after a kill too.
# https://github.com/MoonshotAI/kimi-code/pull/3695

> user a1 "before"
a1 at 1
> failing write 1 user a2 "no space"
unavailable
> must fail Unavailable
> failing write 1 user a3 "no space"
unavailable
> must fail Unavailable
> failing write 1 user a4 "no space"
unavailable
> must have_said a1
> user a2 "again"
a2 at 2
> user a3 "again"
a3 at 3
> user a4 "again"
a4 at 4
> many 10 agent m
m1..m10 (10) at 5..14
> crash
> must have_said a1 a2 a3 a4 m1..m10
> verify
POST_COMPACTION_CLEAN
