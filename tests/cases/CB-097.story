# A record was deleted from the storage; the session opened with a shorter history, as if nothing had been there.
# Right: the gap is named; what lies before it stays readable; a short history is never shown as a whole one.
# https://github.com/QwenLM/qwen-code/issues/6501

> policy trigger=30000 ceiling=90000 target=3000 floor=2
> many 30 user u
u1..u30 (30) at 1..30
> damage drop 12
1 rows damaged
> messages
corrupt at seq 12: missing entries, phantom deletion
> must fail Corrupt
> must explain "seq 12"
> turns
corrupt at seq 12: missing entries, phantom deletion
> must fail Corrupt
> verify
PHANTOM_DELETION at 12
> must verify PHANTOM_DELETION 12
> salvage
u1..u30 (29)
> user u31 "go on"
corrupt at seq 12: missing entries, phantom deletion
> must fail Corrupt
