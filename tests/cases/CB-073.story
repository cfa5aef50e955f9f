# After a compaction the agent asked "what is next?" and was sent back to stage 1 of 6, five of which were done.
# Right: milestones are in the ledger, and no compaction or restore takes one back.
# https://github.com/openai/codex/issues/38931

> policy trigger=600 ceiling=9000 target=300 floor=4
> effect stage:1 deploy
sent, settled: "ok"
> checkpoint early
early at seq 3, generation 0
> effect stage:2 deploy
sent, settled: "ok"
> effect stage:3 deploy
sent, settled: "ok"
> effect stage:4 deploy
sent, settled: "ok"
> effect stage:5 deploy
sent, settled: "ok"
> dialogue 1..15 tokens=40
u1..a15 (30) at 12..41
> compact
g1 covers u1..a13 (26), keeps u14 a14 u15 a15; 1320 -> 434 tokens
> ledger
stage:1: deploy done "ok"
stage:2: deploy done "ok"
stage:3: deploy done "ok"
stage:4: deploy done "ok"
stage:5: deploy done "ok"
> must tell "stage:5"
> rollback early
went back to seq 3 (guarded); left behind: u1..a15 (30)
guarded: stage:2 stage:3 stage:4 stage:5
> must state stage:5 done
> must tell "stage:5"
> effect stage:3 deploy
not sent (recorded): "ok"
> must send deploy 5
> effect stage:6 deploy
sent, settled: "ok"
> must send deploy 6
