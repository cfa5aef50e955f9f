# Five shell commands had run; after the compaction the agent dropped the table a second time.
# Right: the ledger is no part of what is compacted; the second try is answered with what came of the first.
# https://github.com/openai/codex/issues/28874

> policy trigger=600 ceiling=9000 target=300 floor=4
> effect e1 shell args='{"run":"create table scratch"}'
sent, settled: "ok"
> effect e5 shell args='{"run":"drop table scratch"}' value='"dropped"'
sent, settled: "dropped"
> dialogue 1..15 tokens=40
u1..a15 (30) at 5..34
> compact
g1 covers u1..a13 (26), keeps u14 a14 u15 a15; 1320 -> 397 tokens
> view
[g1 summary of 26] u14 a14 u15 a15
done: e1, e5
> must tell "e5"
> effect e5 shell args='{"run":"drop table scratch"}'
not sent (recorded): "dropped"
> must send shell 2
> effect - shell args='{"run":"drop table scratch"}'
not sent (recorded): "dropped"
> must refuse look-alike/look_alike
> must send shell 2
> must state e5 done
