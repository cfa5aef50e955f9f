# After a reopen everything was "replayed": the loop's three new calls of one tool were all answered with the first one's result.
# Right: an effect is known by its key or its place. Distinct calls run, all of them.
# https://github.com/crewAIInc/crewAI/pull/4501

> reopen
> effect - post args='{"n":1}'
sent, settled: "ok"
> effect - post args='{"n":2}'
sent, settled: "ok"
> effect - post args='{"n":3}'
sent, settled: "ok"
> must send post 3
> call k1 restart:c1 args="{}"
k1 at 7
> effect - restart args="{}" call=c1
sent, settled: "ok"
> result r1 c1 "restarted"
r1 at 10
> call k2 restart:c1 args="{}"
k2 at 11
> effect - restart args="{}" call=c1
sent, settled: "ok"
> result r2 c1 "restarted"
r2 at 14
> must send restart 2
> ledger
@0.+0: post done "ok"
@0.+1: post done "ok"
@0.+2: post done "ok"
@7.0: restart done "ok"
@11.0: restart done "ok"
