# A NUL byte in a record that was still being streamed made the checkpoint fail, silently and for ever.
# Right: no content makes a checkpoint fail; a checkpoint that cannot be taken is told, and the one before it stays valid.
# https://github.com/Runfusion/Fusion/issues/3330

> user u1 text="a NUL \x00 and half a \u00e9"
u1 at 1
> checkpoint one
one at seq 2, generation 0
> call k1 stream:c1
k1 at 3
> result r1 c1 text="part \x00 of it" pending
r1 at 4
> checkpoint two
two at seq 5, generation 0
> failing write 1 checkpoint three
unavailable
> must fail Unavailable
> checkpoints
two at seq 5, generation 0
one at seq 2, generation 0
> user u2 "later"
u2 at 6
> rollback two
went back to seq 5 (none); left behind: u2
> must show u1 k1 r1
> verify
POST_COMPACTION_CLEAN
