# After a rollback to cp1 and a restart the newest checkpoint was cp3 again, and what was pending there was sent.
# Right: a rollback is a new head above all others; what lies behind it stays dead, and nothing of it is replayed.
# https://github.com/bytedance/deer-flow/issues/2554

> user u1 "one"
u1 at 1
> checkpoint cp1
cp1 at seq 2, generation 0
> effect pending deploy then=open
sent, under way
> user u2 "two"
u2 at 4
> checkpoint cp2
cp2 at seq 5, generation 0
> settle pending
settled: "ok"
> user u3 "three"
u3 at 7
> checkpoint cp3
cp3 at seq 8, generation 0
> rollback cp1
went back to seq 2 (guarded); left behind: u2 u3
guarded: pending
> must hide u2 u3
> crash
> must hide u2 u3
> recover
recovered by replay at seq 9
passed over: not_newer
> must hide u2 u3
> must print "replay"
> effect pending deploy
not sent (recorded): "ok"
> must send deploy 1
> must state pending done
> view
u1
done: pending
