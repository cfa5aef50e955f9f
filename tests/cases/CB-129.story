# On a network mount two writers both held "the lock"; both wrote.
# Right: a place is probed before a store is made there; two writers on a sound one go on in turn. (Unsound mounts: tests/engines/test_mounts.py.)
# https://github.com/NousResearch/hermes-agent/issues/110848

> user u1 "one"
u1 at 1
> B: user u2 "two"
u2 at 2
> user u3 "three"
u3 at 3
> C: many 5 agent m
m1..m5 (5) at 4..8
> user u4 "four"
u4 at 9
> must have_said u1 u2 u3 m1..m5 u4
> B: must have_said u1 u2 u3 m1..m5 u4
> verify
POST_COMPACTION_CLEAN
