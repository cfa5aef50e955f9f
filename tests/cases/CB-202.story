# A failure between "delete the old turns" and "write the summary" left an empty history.
# Right: at every storage call the store is the old generation or the new one.
# https://github.com/openai/openai-agents-python/issues/3116

> policy trigger=600 ceiling=9000 target=300 floor=2
> dialogue 1..15 tokens=40
u1..a15 (30) at 1..30
> effect e1 mail
sent, settled: "ok"
> everywhere compact
killed at each write: old, then new
> must see between 0
> must see unsound 0
> must see stuck 0
> must print "old, then new"
> everywhere purge u1
killed at each write: old, then between, then new
> must see unsound 0
> must see stuck 0
> everywhere spill u1 a1 u2 a2
killed at each write: old, then new
> must see between 0
> must see unsound 0
> must see stuck 0
> everywhere rollback 10
killed at each write: old, then new
> must see between 0
> must see unsound 0
> must see stuck 0
> everywhere fork child
killed at each write: old, then new
> must see unsound 0
> must see stuck 0
