# A failure between "delete the old turns" and "write the summary" left an empty history.
# Right: at every storage call the store is the old generation or the new one.
# https://github.com/openai/openai-agents-python/issues/3116

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> effect e1 mail
sent, settled: "ok"
> everywhere compact
killed at 12 calls: 9 old, 3 new, 0 between, 0 unsound
> must see between 0
> must see unsound 0
> everywhere purge u1
killed at 24 calls: 10 old, 0 new, 14 between, 0 unsound
> must see unsound 0
> everywhere spill u1 a1 u2 a2
killed at 7 calls: 1 old, 6 new, 0 between, 0 unsound
> must see between 0
> must see unsound 0
> everywhere rollback 10
killed at 19 calls: 17 old, 2 new, 0 between, 0 unsound
> must see between 0
> must see unsound 0
> everywhere fork child
killed at 29 calls: 15 old, 14 new, 0 between, 0 unsound
> must see unsound 0
