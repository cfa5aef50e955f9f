# A restore to a time before something was protected took the protection away, and then deleted it.
# Right: what is pinned now stays pinned and shown; the dry run says the same as the real one.
# https://github.com/cline/cline/issues/14367

> dialogue 1..3
u1..a3 (6) at 1..6
> checkpoint early
early at seq 7, generation 0
> user p9 "the release key is in the blue safe"
p9 at 8
> pin p9
> user u4 "later"
u4 at 10
> rollback early dry
would go back to seq 7 (none); left behind: u4
> rollback early
went back to seq 7 (none); left behind: u4
> must show p9
> must hide u4
> view
u1 a1 u2 a2 u3 a3 p9
pins: p9
