# The archive's handle was given back before the archive was on the disk; the disk was full, and the originals were deleted.
# Right: a handle is given once the content is durable and was read back; on a failure nothing is gone.
# https://github.com/openclaw/openclaw/issues/117553

> policy trigger=600 ceiling=90000 target=300 floor=2
> many 50 user m tokens=20
m1..m50 (50) at 1..50
> mark before
> failing write 1 spill m1..m40
unavailable
> must same messages before
> failing read 1 spill m1..m40
unavailable
> must have_said m1..m50
> spill m1..m30
refused compaction/not_in_view
> must have_said m1..m50
> view
[g1 spill of 40] m41 m42 m43 m44 m45 m46 m47 m48 m49 m50
> everywhere spill m41..m44
killed at each write: old, then new
> must see unsound 0
