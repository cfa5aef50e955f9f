# The first three records were protected; after three passes an old, long finished request stood last, and the agent did it again.
# Right: what is shown keeps the log's order; the last thing that a user asks in the view is the last thing a user asked.
# https://github.com/NousResearch/hermes-agent/pull/56372

> policy trigger=600 ceiling=9000 target=300 floor=2
> user u0 "delete the temp branch"
u0 at 1
> call k0 git:c0
k0 at 2
> result r0 c0 "deleted"
r0 at 3
> agent a0 "The temp branch is deleted."
a0 at 4
> pin u0
> dialogue 1..10 tokens=60
u1..a10 (20) at 6..25
> compact
g1 covers k0..a9 (21), keeps u0 u10 a10; 1321 -> 339 tokens
> dialogue 11..20 tokens=60
u11..a20 (20) at 28..47
> compact
g2 covers u10..a19 (20), keeps u0 u20 a20; 1619 -> 359 tokens
> dialogue 21..30 tokens=60
u21..a30 (20) at 50..69
> compact
g3 covers u20..a29 (20), keeps u0 u30 a30; 1639 -> 379 tokens
> must show_only u0 u30 a30
> must end_with assistant a30
> view
[g3 summary of 61] u0 u30 a30
pins: u0
> messages
user: delete the temp branch
system: [lineal summary g3 of 61 turns, seq 2-67; derived, said by nobody; ex...
system: [lineal notes at seq 71; kept by machine, said by nobody] turn u0 (se...
user: u30: one more word about the work, one more word about the work, one ...
assistant: a30: one more word about the work, one more word about the work, one ...
