# The disk failed at one append; the process went on, the failed record was missing in the middle, and a compaction hid the hole.
# Right: an append that is not durable raises, and nothing later stands before it; the caller appends it again.
# https://github.com/NousResearch/hermes-agent/pull/32805

> many 3 user u
u1 u2 u3 at 1..3
> failing write 1 user u4 "lost for now"
unavailable
> must fail Unavailable
> must have_said u1 u2 u3
> user u5 "the next one"
u5 at 4
> user u4 "lost for now"
u4 at 5
> must have_said u1 u2 u3 u5 u4
> compact
refused compaction/no_gain
> reopen
> must have_said u1 u2 u3 u5 u4
> verify
POST_COMPACTION_CLEAN
