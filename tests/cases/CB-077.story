# The recovery scan took an effect that had just begun for one left by a crash, and began it a second time beside the first.
# Right: what a living process holds is busy, however long it takes; only a dead holder's effect is unknown.
# https://github.com/dbos-inc/dbos-transact-java/issues/491

> effect e1 build then=open
sent, under way
> clock 86400
> B: recover
recovered by replay at seq 0
> B: effect e1 build
refused emission/busy
> must refuse emission/busy
> must send build 1
> settle e1
settled: "ok"
> B: effect e1 build
not sent (recorded): "ok"
> must send build 1
> must state e1 done
