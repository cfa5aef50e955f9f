# Six sub-agents were under way; the compaction forgot them, the agent spawned four again, and the first ones' results fitted nothing.
# Right: what is under way is in the view from the ledger; a second begin is refused; a late result belongs to its call.
# https://github.com/openclaw/openclaw/issues/116015

> policy trigger=600 ceiling=9000 target=300 floor=2
> effect s1 spawn args='{"n":1}' then=open handle="job/1"
sent, under way
> effect s2 spawn args='{"n":2}' then=open handle="job/2"
sent, under way
> call k1 spawn:c1
k1 at 5
> dialogue 1..15 tokens=40
u1..a15 (30) at 6..35
> compact
g1 covers u1..a14 (28), keeps k1 u15 a15; 1330 -> 330 tokens
> view
[g1 summary of 28] k1 u15 a15
open calls: c1
open effects: s1 (intended) at job/1, s2 (intended) at job/2
> must tell "job/1" "job/2"
> must show k1
> effect s1 spawn args='{"n":1}'
refused emission/busy
> must refuse emission/busy
> must send spawn 2
> result r1 c1 "sub-agent 1 is done"
r1 at 38
> settle s1 '"done"'
settled: "done"
> settle s2 '"done"'
settled: "done"
> must state s1 done
> view
[g1 summary of 28] k1 u15 a15 r1
done: s1, s2
