# After 25 hours the ledger's entry had expired, and the effect was done again.
# Right: what was done is remembered however long ago: pruning drops the payload at most, never the key and the outcome.
# https://github.com/NousResearch/hermes-agent/pull/61960

> policy trigger=600 ceiling=9000 target=300 floor=2
> effect e1 pay value='{"receipt":1}'
sent, settled: {"receipt": 1}
> dialogue 1..15 tokens=40
u1..a15 (30) at 3..32
> compact
g1 covers u1..a14 (28), keeps u15 a15; 1320 -> 303 tokens
> clock 90000
> prune keep=0
dropped 29 entries
> effect e1 pay
not sent (recorded): {"receipt": 1}
> must send pay 1
> crash
> effect e1 pay
not sent (recorded): {"receipt": 1}
> must send pay 1
> ledger
e1: pay done {"receipt": 1}
> verify
POST_COMPACTION_CLEAN
